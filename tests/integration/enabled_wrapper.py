#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled_wrapper.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: `mvld enable` has a program started by a wrapper.

A failure means: by its wrapper a program does not start from its snapshot, or not as it does plainly; others than it
should be are reached; or something is left.
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from machine import COMMANDS, check, did, libdir, start, support


def wrapper(machine):
    """A command is enabled by a wrapper that is found before it: its file stays as it is, the wrapper starts it from
    the snapshot, plainly with MVLD=off, and by the name that it was enabled by."""
    program = machine.command("tool")
    (machine.programs / "other").symlink_to(program)
    before, was = machine.files(), program.stat()
    did([machine.mvld, "enable", "other"])
    script = COMMANDS[0] / "other"
    check(shutil.which("other") == str(script) and program.stat() == was, "there is a wrapper, and the file is as it was")
    check(machine.is_applied(script) and not machine.is_applied(program), "the wrapper alone starts from the snapshot")
    found = machine.status("other")
    check((found["by"], found["made"], found["applied"]) == ("wrapper", str(script), True), f"status: {found}")
    check(f"{program}: wrapper {script}, snapshot of " in did([machine.mvld, "status"]), "status as text")
    check("/snapshots/" not in subprocess.run([script, "-c", "cat /proc/$$/maps; true"], capture_output=True, text=True,
                                       env={**os.environ, "MVLD": "off"}).stdout, "MVLD=off")
    says = [script, "-c", 'echo "$0 $*"; exit 7', "a b", "*"]
    done = subprocess.run(says, capture_output=True, text=True)
    check((done.stdout, done.returncode, done.stderr) == ("a b *\n", 7, ""), f"arguments and status: {done}")
    done = subprocess.run(["sh", "-c", 'exec other -c "echo \\$BASH"'], capture_output=True, text=True)
    check(done.stdout == f"{machine.programs}/other\n", f"by which name: {done}")
    said = did([machine.mvld, "enable", "other"])
    check(said and "without mvld" not in said, f"enabled twice: {said}")
    said = did([machine.mvld, "enable", "tool"])
    check(not (COMMANDS[0] / "tool").exists() and said.endswith(f": mvld enable --by wrapper {program}\n"), f"by another name: {said}")
    check(did([machine.mvld, "build", "--check", "other"]).startswith("/var/cache/mvld/snapshots/"), "by the wrapper's name")
    script.write_bytes(script.read_bytes() + b"# mine\n")
    found = machine.status("other", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "changed since" in found["trouble"], f"edited: {found}")
    check("was changed since" in machine.fails("disable", "other") and script.exists(), "an edited wrapper stays")
    script.unlink()
    machine.is_plain(before)
    own = machine.command("own")
    (COMMANDS[0] / "own").write_text("#!/bin/sh\n")
    check("is there already" in machine.fails("enable", "--by", "wrapper", own), "a command of that name")
    did([machine.mvld, "enable", own])
    check(machine.status(own)["by"] == "set-interp", "no wrapper is to be had")
    did([machine.mvld, "disable", own])
    did([machine.mvld, "enable", "tool"])
    check(f"{COMMANDS[0]}/tool: made for {program}\n" in did([machine.restore, "--list"]), "mvld-restore --list")
    did([machine.restore, program])
    check(not (COMMANDS[0] / "tool").exists() and did([machine.restore, "--list"]) == "", "mvld-restore by name")
    did([machine.mvld, "enable", "tool"])
    program.unlink()
    found = machine.status("tool", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "gone" in found["trouble"], f"status: {found}")
    did([machine.mvld, "disable", "tool"])
    check(not (COMMANDS[0] / "tool").exists(), "the program is gone, and now its wrapper")
    did([machine.mvld, "enable", own])
    own.unlink()
    did(["sh", "-c", f'cd "{own.parent}" && {machine.mvld} disable ./own'])
    check(did([machine.restore, "--list"]) == "", "a program that is gone, by a path from here")


def wrapper_alone(machine):
    """Whatever of mvld is gone, and whatever the program has become: its wrapper starts it."""
    program = machine.command("tool")
    did([machine.mvld, "enable", "tool"])
    place = COMMANDS[0] / "tool"
    parts = [Path(machine.mvld), Path(libdir) / "mvld/mvld-run", Path(libdir) / "mvld/ld-mvld.so.1"]

    def says(when):
        done = subprocess.run([place, "-c", 'echo "$0 $*"; exit 7', "a b", "*"], capture_output=True, text=True)
        check((done.stdout, done.returncode, done.stderr) == ("a b *\n", 7, ""), f"{when}: {done}")

    for gone in [[part] for part in parts] + [parts]:
        for part in gone:
            part.rename(f"{part}.aside")
        says(f"without {gone}")
        if gone == parts[2:]:
            found = machine.status("tool", trouble=True)
            check("starts without mvld" in found["trouble"] and found["remedy"] == "install mvld again", f"status: {found}")
        for part in gone:
            Path(f"{part}.aside").rename(part)
    check(machine.is_applied(place), "all is there again")
    environment = subprocess.run(["env", "-i", "MVLD=off", "A=", place, "-c", "tr '\\0' ' ' </proc/$$/environ; true"],
                                 capture_output=True, text=True).stdout
    check(environment == "MVLD=off A= ", f"its environment: {environment}")
    if shutil.which("strace"):
        traced = subprocess.run(["strace", "-o", machine.folder / "trace", place, "-c", "readlink /proc/$$/exe; exit 7"],
                                capture_output=True, text=True)
        check((traced.returncode, traced.stdout, traced.stderr) == (7, f"{program}\n", ""), f"no other process may trace it: {traced}")
        trace = (machine.folder / "trace").read_text()
        check(re.findall(r'execve\("([^"]+)', trace)[1] == str(parts[1]), f"it executes something else first: {trace}")
    program.unlink()
    done = subprocess.run([place], capture_output=True, text=True)
    check((done.returncode, done.stderr) == (127, f"mvld run: {program}: No such file or directory\n"), f"no program: {done}")
    program.write_text('#!/bin/sh\necho "$0 $*"\n')
    program.chmod(0o755)
    check(subprocess.run([place, "a b"], capture_output=True, text=True).stdout == f"{program} a b\n", "a script")
    shutil.copy(os.path.realpath("/bin/bash"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o6755)
    done = subprocess.run([place, "-pc", "echo $EUID"], capture_output=True, text=True)
    check((done.stdout, done.stderr) == ("65534\n", ""), f"set-id bits: {done}")
    (machine.folder / "static.c").write_text('#include <stdio.h>\nint main(int n, char **v) { return printf("%s", v[1]) < 0; }\n')
    subprocess.run(["gcc", "-static", "-o", program, machine.folder / "static.c"], check=True)
    done = subprocess.run([place, "a b"], capture_output=True, text=True)
    check((done.stdout, done.stderr) == ("a b", ""), f"a static program: {done}")
    found = machine.status("tool", trouble=True)
    check("static" in found["trouble"] and found["remedy"] == f"mvld disable {program}", f"status of a static program: {found}")
    program.write_text('echo "$0 $*"\n')
    check(subprocess.run([place, "a b"], capture_output=True, text=True).stdout == f"{program} a b\n", "a text")


def becomes_link(machine):
    """An upgrade makes a link of an enabled program: nobody finds its wrapper any more."""
    program = machine.command("tool")
    before = machine.files()
    did([machine.mvld, "enable", "tool"])
    other = machine.folder / "other"
    program.rename(other)
    program.symlink_to(other)
    for name in program, "tool":
        rows = json.loads(subprocess.run([machine.mvld, "status", "--json", name], capture_output=True, text=True).stdout)
        check("wrapper" in {row["by"] for row in rows}, f"status of {name}: {rows}")
    did([machine.mvld, "disable", program])
    program.unlink()
    other.rename(program)
    machine.is_plain(before)


OLD_WRAPPER = """#!/bin/sh
# made by `mvld enable'; `mvld disable' removes it
# starts {0}
test "$MVLD" = off || test ! -x '{1}' || exec '{1}' run -- '{0}' "$@"
exec '{0}' "$@"
"""


def wrapper_of_earlier(machine):
    """A wrapper of an earlier mvld, a shell script, works, is known as one, renewed, and taken back."""
    program = machine.command("tool")
    before = machine.files()
    place, record = COMMANDS[0] / "tool", Path("/var/lib/mvld/changes")

    def make_old():
        text = OLD_WRAPPER.format(program, machine.mvld)
        value = 0xcbf29ce484222325
        for byte in text.encode():
            value = (value ^ byte) * 0x100000001b3 % 2**64
        place.write_text(text)
        record.write_text(re.sub(rf"(wrapper\t{place}\t)\w+", rf"\g<1>{value:016x}", record.read_text()))

    did([machine.mvld, "enable", "tool"])
    new = place.read_bytes()
    make_old()
    check(machine.is_applied(place), "it does not start its program from the snapshot")
    found = machine.status("tool", trouble=True)
    check("another mvld made" in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"status: {found}")
    check(did([machine.mvld, "build", "--check", "tool"]).startswith("/var/cache/mvld/snapshots/"), "by its name")
    did([machine.mvld, "enable", "--stale"])
    check(place.read_bytes() == new and machine.status("tool")["trouble"] is None, "renewed")
    for back in [machine.mvld, "disable", "tool"], [machine.restore, "--all"]:
        did([machine.mvld, "enable", "tool"])
        make_old()
        did(back)
        machine.is_plain(before)



def users_wrapper(machine):
    """A user without rights enables a program of the machine's for herself; at first her home is empty."""
    home = machine.folder / "home"
    home.mkdir()
    machine.command("tool")
    subprocess.run(["chown", "-R", "65534:65534", home], check=True)
    own = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "XDG_CONFIG_HOME", f"HOME={home}",
           f"PATH={home}/.local/bin:{os.environ['PATH']}"]
    if not shutil.which("setpriv") or subprocess.run([*own, "test", "-r", machine.mvld]).returncode:
        support.skip("another user cannot read what is installed")
    before = sorted(home.rglob("*"))
    done = subprocess.run([*own, "env", f"PATH={machine.programs}:/usr/bin:/bin", machine.mvld, "enable", "tool"], capture_output=True,
                          text=True)
    first = done.stderr.splitlines()[0]
    check(done.returncode == 1 and first.endswith(f": export PATH={home}/.local/bin:$PATH"), f"not in PATH: {done}")
    left = [path for path in sorted(home.rglob("*")) if path.is_file() or path.name in ("mvld", ".config")]
    check(left == [], f"what a failed one leaves: {left}")
    remedy = first.rpartition(": ")[2]
    script = home / "script"
    script.write_text(f"#!/usr/bin/env -S {machine.programs}/tool -x\n")
    script.chmod(0o755)
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    command = re.search("`(.*)'", done.stderr)
    check(done.returncode == 1 and command and command[1] == f"mvld enable {machine.programs}/tool", f"a script: {done}")
    script.write_text("#!/bin/sh\n")
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    check(done.returncode == 1 and "the machine needs" in done.stderr, f"a script of the machine's shell: {done}")
    script.write_text(f"#!{script}\n")
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    check(done.returncode == 1 and "a script, too" in done.stderr, f"a script that reads itself: {done}")
    done = subprocess.run(["env", "-i", machine.mvld, "disable", "--json", "tool"], user=65534, capture_output=True, text=True)
    check((done.returncode, done.stdout) == (1, "[]\n") and "neither HOME" in done.stderr, f"without a record: {done}")
    script.unlink()
    done = subprocess.run([*own, machine.mvld, "enable", "--by", "wrap", "tool"], capture_output=True, text=True)
    check(done.returncode == 2 and done.stderr == "mvld enable: --by wrap: it is wrapper, unit or set-interp\n", f"{done}")
    said = did([*own, "env", f"PATH={machine.programs}:/usr/bin:/bin", "sh", "-c", f"{remedy}; {machine.mvld} enable tool"])
    check(said, "what was said first is no remedy")
    found = json.loads(did([*own, machine.mvld, "status", "--json"]))
    check([(f["by"], f["made"], f["applied"]) for f in found] == [("wrapper", f"{home}/.local/bin/tool", True)], f"{found}")
    done = did([*own, "sh", "-c", "tool -c 'cat /proc/$$/maps; true'"])
    check(f"{home}/.cache/mvld/snapshots/" in done, "it does not start from the snapshot")
    did([*own, machine.mvld, "disable", "--all"])
    left = sorted(home.rglob("*"))
    check(left == before, f"left: {left}")
    # Folders that she made herself stay, though they are empty.
    hers = [home / name for name in (".local/bin", ".local/state", ".cache", ".config/mvld/apps.d")]
    did([*own, "mkdir", "-p", *hers])
    before = sorted(home.rglob("*"))
    for back in [machine.mvld, "disable", "--all"], [machine.restore, "--all"]:
        did([*own, machine.mvld, "enable", "tool"])
        did([*own, *back])
        left = sorted(home.rglob("*"))
        check(left == before, f"{back}: left: {left}, not {before}")
    shutil.rmtree(home / ".local")
    # Enabled two, and one after the other is taken back; the folder is mvld's, whoever was first in it.
    machine.command("other")
    did([*own, machine.mvld, "enable", "tool", "other"])
    did([*own, machine.mvld, "disable", "tool"])
    did([*own, machine.mvld, "disable", "other"])
    check(not (home / ".local/bin").exists(), "a folder of mvld's is left")
    did([*own, machine.mvld, "disable", "--all"])
    check(not (home / ".local").exists() and (home / ".cache").exists(), "disable --all of nothing that is enabled")
    # Configured by hand, in her own folder.
    apps = home / ".config/mvld/apps.d"
    did([*own, "mkdir", "-p", apps])
    did([*own, "sh", "-c", f"printf '[app]\\nmatch = {machine.programs}/tool\\npasses = direct-calls\\non-miss = build\\n' >{apps}/mine.conf"])
    did([*own, machine.mvld, "config", "--user"])
    did([*own, machine.mvld, "enable", "--stale"])
    done = did([*own, machine.mvld, "run", f"{machine.programs}/tool", "-c", "cat /proc/$$/maps; true"])
    check(f"{home}/.cache/mvld/snapshots/" in done, "what a user configured by hand has no snapshot")


def twins(machine):
    """A program and a copy that set-interp has changed have one build-id, and so one analysis: renewing one makes the
    other stale, and so on without end."""
    one, two = machine.command("one"), machine.program("two")
    did([machine.mvld, "enable", "--by", "wrapper", one])
    did([machine.mvld, "enable", "--by", "set-interp", two])
    code = machine.status(one)["code"]

    def are_applied(when):
        check(machine.is_applied("one") and machine.is_applied(two), f"{when}: no snapshot")
        found = [machine.status(program) for program in (one, two)]
        check(all(row["trouble"] is None and row["code"] == code > 0 for row in found), f"{when}: {found}")

    are_applied("enabled")
    for again in one, two:
        did([machine.mvld, "enable", again])
        are_applied(f"{again} again")
    for program in one, two:
        os.utime(program)  # both are stale
    did([machine.mvld, "enable", "--stale"])
    are_applied("renewed")
    was = machine.files()
    did([machine.mvld, "enable", "--stale"])
    check(machine.files() == was, "what is not stale is made again")


start(globals())
