# SPDX-License-Identifier: MIT
"""`mvld config` makes the file that programs read of the files that people write, or says what is
wrong and changes nothing; and other commands say when programs read something else than these say.

A failure means that programs get a configuration that nobody wrote, or that half-written or
another's text counts, or that nobody is told that a change does not count yet.
"""
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import ENV, check, contains, equal, finish, run, scratch

mvld, loader = map(os.path.abspath, sys.argv[1:])

with scratch() as scratched:
    folder = Path(scratched) / "xdg" / "mvld"
    apps, made = folder / "apps.d", folder / "config.cache"
    env = {"XDG_CONFIG_HOME": str(folder.parent), "HOME": "/nonexistent"}

    def config(*words, **more):
        return run(mvld, "config", "--user", *words, env={**env, **more})

    def put(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def winner(program="true"):
        """Which file and line says something about the program, as the loader reads what was made."""
        code, out, err = run(mvld, "pipeline", program, env=env)
        equal(code, 0, err)
        return out.split("the [app] of ")[1].split(" matches")[0] if "the [app] of " in out else None

    def refused(wanted, *words):
        before = made.read_bytes() if made.exists() else None
        code, out, err = config(*words)
        equal((code, out), (1, ""), "refused")
        contains(err, wanted, "why")
        equal(made.read_bytes() if made.exists() else None, before, "nothing was changed")
        equal([path.name for path in folder.iterdir() if ".cache." in path.name], [], "nothing is left")

    def app(match, *more):
        return "\n".join([f"[app]\nmatch = {match}\npasses = count", *more, ""])

    # Nothing is there, or nothing is said: then programs find no file to read.
    equal(config(), (0, f"{folder}: nothing is configured\n", ""), "no folder")
    main = put("mvld.conf", "; as installed\n")
    equal(config(), (0, f"{folder}: nothing is configured\n", ""), "no [app]")
    check(not made.exists(), "nothing is made of nothing")

    # The order, and which files are read; lines keep their numbers.
    main.write_text(f"# comment\n{app('*')}")
    equal(config(), (0, f"{made}: 1 [app] of 1 files\n", ""), "one")
    equal((winner(), made.stat().st_mode & 0o7777), (f"{main}:2", 0o644), "mvld.conf")
    twenty = put("apps.d/20.conf", "\n  ; comment\n" + app("true"))
    put("apps.d/100.conf", app("true"))
    put("apps.d/.30.conf", "nonsense")
    put("apps.d/30.conf~", "nonsense")
    put("apps.d/README", "nonsense")
    equal(winner(), f"{main}:2", "a change counts after mvld config alone")
    equal(config()[:2], (0, f"{made}: 3 [app] of 3 files\n"), "three")
    equal(json.loads(config("--json")[1]), {"made": str(made), "apps": 3, "files": 3, "why": None}, "as JSON")
    equal(winner(), f"{twenty}:3", "sorted byte by byte")
    equal(winner("ls"), f"{main}:2", "and mvld.conf first")
    for i in range(300):
        put(f"apps.d/many-{i * 7 % 300:03}.conf", "\ufeff" * (i % 2) + app("true").rstrip("\n"))
    equal(config()[0], 0, "many, with a mark of UTF-8, without an end of the last line")
    equal(winner(), f"{apps}/many-299.conf:1", "the last of many")

    # What is wrong is said with its file and line, and what was made before stays.
    for text, said in (("[app\n", ":1: the section's ']' is missing"),
                       ("[app]\npasses = a\n", ":1: this [app] does not say which program"),
                       ("[x]\n", ":1: [x] belongs to no program"),
                       ("[app]\nmatch = a\npasses = a, b, a\n", ":3: the pass 'a' is in the pipeline twice"),
                       (app("true", "[count]", "@ /etc/x.conf", "k = 1"), ":5: the line is neither"),
                       (app("true", "[count]", "@ /etc/x.conf = 1"), ":5: the key has a character that no key has"),
                       (app("true", "[count]", "k = 1", "k = 2"), ":6: 'k' of [count] is said twice, first in line 5"),
                       (app("/never", "[count]", "k = 1", "", "k = 2", app("a")), ":7: 'k' of [count] is said twice"),
                       (app("true") + "\0", ":4: the line has a control character"),
                       ("; " + "x" * 5000, ":1: the line is longer"),
                       ("\n" * (1024 * 1024 + 1), ": the file is larger than 1 MiB"),
                       ("\n" * (1024 * 1024), "config.cache: all files together are larger than 1 MiB")):
        wrong = put("apps.d/wrong.conf", text)
        refused(said if "config.cache" in said else f"{wrong}{said}")
        refused(said if "config.cache" in said else f"{wrong}{said}", "--check")
        code, out, err = config("--json")
        equal((code, err), (1, f"mvld config: {json.loads(out)['why']}\n"), "as JSON")
        code, out, err = run(mvld, "pipeline", "true", env=env)
        equal(code, 0, "what was made is read")
        contains(err, said, "and what is wrong is said")
    # Options of the passes that are there; `mvld doctor' says the same.
    for text, said in ((app("true", "[count]", "k = 1"), ":5: the pass 'count' has no option 'k'"),
                       (app("never", "[count]", "at-most = many", "", app("a")), ":5: count.at-most is a number, not 'many'")):
        wrong.write_text(text)
        refused(f"{wrong}{said}")
        refused(f"{wrong}{said}", "--check")
        contains(run(mvld, "doctor", "--all", env=env)[1], f"{wrong}{said}", "doctor")
    wrong.write_text(app("never", "[count]", "at-most = 5", "[elsewhere]", "k = 1"))
    equal(config("--check")[2], f"mvld config: {wrong} is not in {made} as it is now\n", "a pass that is not here")
    wrong.unlink()
    for make, said in ((lambda: wrong.mkdir(), "this is no regular file"),
                       (lambda: os.mkfifo(wrong), "this is no regular file"),
                       (lambda: wrong.symlink_to("wrong.conf"), "too many links lead on"),
                       (lambda: wrong.symlink_to("/dev/zero"), "others may write it"),
                       (lambda: wrong.symlink_to("none"), "there is none")):
        make()
        refused(said)
        shutil.rmtree(wrong) if wrong.is_dir() and not wrong.is_symlink() else wrong.unlink()

    # What others may write counts for nothing, and nothing is made where no start would believe it.
    for path in twenty, main, apps, folder:
        mode = path.stat().st_mode & 0o777
        path.chmod(mode | 0o002)
        refused(f"because of {path}: others may write it")
        path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(twenty, 4711, -1)
        refused(f"because of {twenty}: another user owns it")
        os.chown(twenty, 0, -1)
        os.chown(folder, 4711, -1)
        refused(f"because of {folder}: another user owns it")
        os.chown(folder, 0, -1)
    # A link of one's own is followed.
    elsewhere = Path(scratched) / "dotfiles.conf"
    elsewhere.write_text(app("true"))
    (apps / "zz.conf").symlink_to(elsewhere)
    equal((config()[0], winner()), (0, f"{apps}/zz.conf:1"), "a link")
    for path in apps.glob("many-*"):
        path.unlink()
    (apps / "zz.conf").unlink()
    equal(config()[0], 0, "all as before")

    # In one step: a program that starts meanwhile reads the old or the new one.
    inode = made.stat().st_ino
    with open(made) as old:
        text = old.read()
        twenty.write_text(app("false"))
        equal(config()[0], 0, "made anew")
        old.seek(0)
        equal(old.read(), text, "who has the old one keeps it")
    check(made.stat().st_ino != inode, "it is another file")

    # Several at once: none removes what another one writes.
    at_once = [subprocess.Popen(["sh", "-c", 'for i in $(seq 40); do "$1" config --user >&2 || exit 1; done', "sh", mvld],
                                env=dict(ENV, **env), stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for tool in at_once:
        said = tool.communicate(timeout=60)[1]
        equal(tool.returncode, 0, f"at once: {said}")

    # What a killed one left goes with the next one, but not while another one writes, for which nobody waits.
    def left():
        return [path for path in folder.iterdir() if ".cache." in path.name]

    put(".config.cache.mvld-abcdef", "half")
    if shutil.which("strace"):
        run("strace", "-o", "/dev/null", "-e", "inject=rename:signal=KILL", mvld, "config", "--user", env=env)
    many = len(left())
    check(many, "nothing is left of it")
    writes = os.open(folder, os.O_RDONLY)
    fcntl.flock(writes, fcntl.LOCK_SH)
    equal((config()[0], len(left())), (0, many), "another one writes")
    os.close(writes)
    equal((config()[0], left()), (0, []), "nobody else writes")

    # When it is not of the files as they are.
    program = Path(scratched) / "program"
    shutil.copy("/bin/true", program)
    commands = {"pipeline": ["pipeline", "ls"], "run": ["run", "--", "/bin/true"],
                "set-interp": ["set-interp", "--loader", loader, program],
                "build": ["build", "--loader", loader, "--", "/bin/ls"]}
    for change, said in ((lambda: None, None),
                         (lambda: twenty.write_text(app("other")), f"{twenty} is not in {made} as it is now"),
                         (lambda: put("apps.d/50.conf", app("x")), f"{apps}/50.conf is not in {made} as it is now"),
                         (lambda: (apps / "50.conf").unlink(), f"{made} holds what its files no longer say"),
                         (lambda: [path.unlink() for path in (main, *apps.glob("*.conf"))],
                          f"{made} holds what its files no longer say"),
                         (lambda: put("apps.d/50.conf", app("x")),
                          f"{apps}/50.conf is not in {made} as it is now")):
        change()
        code, out, err = config("--check")
        equal((code, out, err), (1, "", f"mvld config: {said}\n") if said else (0, "", ""), "--check")
        for name, words in commands.items():
            err = run(mvld, *words, env=env)[2]
            equal(err.count(f"mvld {name}: {said}; see `mvld config --user'\n"), int(bool(said)), f"{name}: {err}")
        equal(config()[0], 0, "made")
        equal(config("--check"), (0, "", ""), "and --check agrees")

    # Where one may not write.
    if os.geteuid() == 0 and shutil.which("setpriv"):
        Path(scratched).chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", mvld, "config", "--user"],
                              env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
        if "failed to execute" not in done.stderr:
            equal(done.returncode, 1, "another user")
            contains(done.stderr, "Permission denied", "why")

    equal(config("more")[0], 2, "an argument is wrong usage")
    equal(config("--nonsense")[0], 2, "so is an unknown option")
    contains(config("--help")[1], "Usage: mvld config", "--help")
finish()
