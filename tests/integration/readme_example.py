#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme_example.py README BLOCK: the commands of README.md, as printed there: a program that starts
slowly (`slow`), the program of its own (`own`), what is said for when something looks wrong (`wrong`), and
that these are all (`whole`).  Likewise the examples for programs whose files stay as they are of
tools/man/mvld.1 (`unmodified`).

Takes program, commands and configuration out of the text and runs them in a folder
with a `build` and an `include` as in the checkout.  A failure means that the first
thing that a newcomer tries does not do what README.md says.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import installation
from installation import support
from support import check

PLAIN = ["hey Ada", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]
# Every command of README.md, and who runs it.
COMMANDS = {
    "slow": ["mvld try clang --version", "mvld enable --by set-interp clang", "mvld status", "mvld disable clang", "mvld-restore --all",
             "mvld run --pass direct-calls -- sqlite3", "--by wrapper", "--children -- make -j8"],
    "own": ["gcc -O2 -fplugin=build/gcc-plugin/multiverse.so -Iinclude hello.c -o hello -Lbuild/passes/multiverse "
            "-lmultiverse -Wl,-rpath,$PWD/build/passes/multiverse", "./hello", "build/tools/mvld show hello",
            "build/tools/mvld run --set polite=1 -- ./hello", "build/tools/mvld pipeline ./hello", "mvld config",
            "mvld set-interp /usr/local/bin/hello", "--restore"],
    "wrong": ["MVLD=off program", "MVLD_DEBUG=all program", "mvld doctor", "mvld doctor PROGRAM", "man mvld-admin"],
    "unmodified": ["mvld build --run"],
    "enabled-unit": ["--unit NAME.service"],
    "fresh-machine.sh": ["./dev demo", "./dev install", "./dev test", "./dev uninstall"],
    "debian.sh": ["dpkg-buildpackage -b"],
}
COMMITTED = ["Good morning, Ada.", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]


def block(text, language):
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    check(found, f"README has no {language or 'plain'} block any more")
    return found[1]


def commands(text, prompt="$ "):
    """The lines after the prompt, with continuations and without comments."""
    joined = re.sub(r" *\\\n *", " ", text)
    return [line[len(prompt):].split("  #")[0].rstrip() for line in joined.splitlines() if line.startswith(prompt)]


def whole(text, folder):
    """No command of README.md is left out, and no option: neither in a block, nor in a sentence."""
    blocks = "".join(part for _, part in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S))
    said = set(commands(blocks) + commands(blocks, "# "))
    sentences = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)
    said |= set(re.findall(r"`((?:\./dev|MVLD\w*=\S+|mvld[a-z-]*|man|dpkg-\w+|--) ?[^`]*)`", sentences)) - {"mvld"}
    known = {command for some in COMMANDS.values() for command in some}
    check(said == known, f"README has commands that no test runs: {said - known}\nand lacks {known - said}")
    check(len(text.split()) <= 700, f"README.md has {len(text.split())} words, not 700")
    usage = (support.SOURCE / "dev").read_text()
    for command in COMMANDS["fresh-machine.sh"]:
        check(f"# {command} " in usage, f"./dev does not know {command}")


class Shell:
    """A reader's, in whose environment MVLD_PASS_PATH is not set."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "build").symlink_to(support.BUILD)
        (folder / "include").symlink_to(support.SOURCE / "include")

    def run(self, command, config=None, **environment):
        here = f'cd "{self.folder}" && {command}'
        done = support.run(["env", "-u", "MVLD_PASS_PATH", "-u", "XDG_CACHE_HOME", "bash", "-c", here], config=config, **environment)
        check(done.returncode == 0, f"$ {command}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def __call__(self, command, config=None):
        done = self.run(command, config)
        check(not done.stderr, f"$ {command}\n{done.stdout}{done.stderr}")
        return done.stdout.splitlines()


def own(text, folder):
    support.need(support.PLUGIN, support.LIBRARY)
    text, shell = text[text.index("## Switches in"):], Shell(folder)
    (folder / "hello.c").write_text(block(text, "c"))
    printed = commands(re.search(r"^```\n(\$ gcc .*?)^```$", text, re.M | re.S)[1])
    said = {" ".join(line.split()[:2]): shell(line) for line in printed}
    check(len(said) == 5, f"README has other commands: {printed}")
    check(said["gcc -O2"] == [], "the compiler says something")
    check(said["./hello"] == PLAIN, f"./hello says {said['./hello']}")
    check(said["build/tools/mvld run"] == COMMITTED, f"{said['build/tools/mvld run']}")
    show = "\n".join(said["build/tools/mvld show"])
    check("switch polite" in show and "call site" in show and "polite_1" in show, show)

    # The configuration file, and our loader for good: for this hello.
    config = block(text, "ini").replace("/usr/local/bin/hello", f"{folder}/hello")
    check(f"match = {folder}/hello" in config, "README's configuration names another program")
    line = re.search(r"`(mvld set-interp) /usr/local/bin/hello` \(`--restore`", text)
    check(line, "README says set-interp otherwise")
    pipeline = shell(next(c for c in printed if "mvld pipeline" in c), config)
    check(any("set.polite = 1" in line for line in pipeline), "\n".join(pipeline))
    shell(f"build/tools/{line[1]} hello")
    check(shell("MVLD_PASS_PATH=$PWD/build/passes/multiverse ./hello", config) == COMMITTED,
          "the configuration does not commit")
    check(shell("MVLD=off ./hello", config) == PLAIN, "MVLD=off does not switch off")
    shell(f"build/tools/{line[1]} --restore hello")
    check(shell("./hello", config) == PLAIN, "--restore does not restore")


def hide_roots_cache():
    """What root analyses and builds is for all of the machine: not this time."""
    if os.geteuid() != 0:
        return
    if "MVLD_TEST_INSIDE" not in os.environ:
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                  'mount -t tmpfs -o mode=755 none /var/cache && exec "$@"', "sh"]
        if subprocess.run([*inside, "true"]).returncode:
            support.skip("a mount of its own is not to be had")
        done = subprocess.run([*inside, sys.executable, *sys.argv], env={**os.environ, "MVLD_TEST_INSIDE": "1"})
        sys.exit(done.returncode)


def slow(text, folder):
    """As root with mvld installed; `clang` is a copy, so that the machine's own is left alone."""
    clang = shutil.which("clang")
    if os.geteuid() or not clang or sys.argv[3] != "/usr/local":
        support.skip("not root, no clang, or another prefix")
    installation.install(folder, sys.argv[3])
    for place in "/var/cache", "/var/lib":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True)
    os.chmod(folder, 0o755)
    copy = folder / "bin" / "clang"
    copy.parent.mkdir()
    shutil.copy(os.path.realpath(clang), copy)
    printed = commands(block(text, ""), "# ")
    check([line.split()[1] for line in printed] == ["try", "enable", "status", "disable"], f"README has others: {printed}")

    path = f"{copy.parent}:{sys.argv[3]}/sbin:{sys.argv[3]}/bin:{os.environ['PATH']}"

    def says(command, path=path):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              cwd=folder, env=support.clean_environment(PATH=path, HOME=folder))
        check(done.returncode == 0, f"# {command}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    tried = says(printed[0])
    # With concat, where that is quicker for certain.
    check(": worth it\n" in tried and re.search(rf"^  mvld enable (--pass \S+ )*{copy}$", tried, re.M), tried)
    says(printed[1])
    check(f"{copy}: set-interp, snapshot of " in says(printed[2]), "status")
    check(": applied, the code of " in subprocess.run([copy, "--version"], capture_output=True, text=True,
                                                      env=support.clean_environment(MVLD_DEBUG="files")).stderr,
          "no start from the snapshot")
    says(printed[3])
    check(copy.read_bytes() == Path(os.path.realpath(clang)).read_bytes(), "disable does not restore")
    says(printed[1])
    says("mvld-restore --all")
    check(copy.read_bytes() == Path(os.path.realpath(clang)).read_bytes(), "mvld-restore does not restore")
    says("mvld enable --by wrapper clang", path=f"{sys.argv[3]}/bin:{path}")
    wrapper = Path(sys.argv[3]) / "bin" / "clang"
    check(copy.read_bytes() == Path(os.path.realpath(clang)).read_bytes() and wrapper.is_file(), "a wrapper")
    says("mvld disable clang")
    check(not wrapper.exists(), "disable leaves the wrapper")
    if shutil.which("make"):
        (folder / "Makefile").write_text("all: one two\none two:\n\t@/bin/true\n")
        said = says("MVLD_DEBUG=passes mvld run --pass direct-calls --children -- make -j8 2>&1")
        check(len(set(re.findall(r"^ *(\d+):\s+direct-calls", said, re.M))) == 3, f"not what make starts: {said}")
    if shutil.which("sqlite3"):
        check(says("echo 'select 6 * 7;' | mvld run --pass direct-calls -- sqlite3") == "42\n", "mvld run")


def wrong(text, folder):
    """`program` is one that starts under mvld."""
    shell = Shell(folder)
    program = folder / "program"
    shutil.copy(os.path.realpath("/bin/bash"), program)
    shell(f"build/tools/mvld set-interp {program}")
    config = f"[app]\nmatch = {program}\npasses = direct-calls\n"
    found = {"PATH": f"{folder}:{support.BUILD}/tools:{os.environ['PATH']}", "HOME": folder,
             "MVLD_PASS_PATH": support.BUILD / "passes/direct-calls"}

    def says(command, **more):
        done = support.run(["env", *(f"{k}={v}" for k, v in more.items()), "bash", "-c", command], config=config, **found)
        check(done.returncode in (0, 1), f"$ {command}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    check("direct-calls" in says("MVLD_DEBUG=all program -c true"), "MVLD_DEBUG=all does not say what was done")
    check("direct-calls" not in says("MVLD=off program -c true", MVLD_DEBUG="all"), "MVLD=off: passes run")
    check(re.search(r"^\d+ findings, \d+ wrong", says("mvld doctor"), re.M), "mvld doctor")
    check(re.search(r"snapshot", says(f"mvld doctor {program}")), "mvld doctor says nothing of a snapshot")
    manual = (support.SOURCE / "tools/man/mvld-admin.7").read_text().lower()
    for word in re.search(r"`man mvld-admin`: (.*)\.$", text, re.M)[1].split(", "):
        check(re.search(rf"^\.s[sh] .*{word.rstrip('s')}", manual, re.M), f"mvld-admin(7) has no section on {word}")


def unmodified(text, folder):
    hide_roots_cache()
    if not shutil.which("sqlite3") or not shutil.which("python3", path="/usr/bin"):
        support.skip("sqlite3 or Debian's python3 is not installed")
    support.need(*(support.BUILD / "passes" / name / f"{name}.so" for name in ("direct-calls", "concat")))
    shell, cache = Shell(folder), Path("/var/cache") if os.geteuid() == 0 else folder / ".cache"
    printed = commands(re.search(r"^\.Bd .*\n(\$ mvld analyze --program .*?)^\.Ed$", text, re.M | re.S)[1])
    check(len(printed) == 6, f"mvld(1) has other commands: {printed}")

    def says(command, typed=None, **more):
        """What one of them prints and logs, with that typed into its program."""
        line, = [line for line in printed if command in line]
        return shell.run(f"echo '{typed}' | {line}" if typed else line, HOME=folder,
                         PATH=f"{support.BUILD}/tools:/usr/sbin:/usr/bin:/sbin:/bin", **more)

    analysed = says("mvld analyze --program sqlite3").stdout
    for file in r"/bin/sqlite3", r"/libc\.so\.6":
        check(re.search(rf"{file}: \d+ functions", analysed), analysed)
    check((cache / "mvld/analysis").is_dir(), "no folder of analyses")
    image = Path(says("mvld build --pass direct-calls sqlite3").stdout.strip())
    check(image.parent == cache / "mvld/snapshots" and (image / "manifest").is_file(), f"no snapshot: {image}")
    says("mvld build --run --pass direct-calls python3 -c 'import json'")
    query = {"typed": "select 6 * 7;", "MVLD_DEBUG": "files,passes"}
    done = says("mvld run --pass direct-calls -- sqlite3", **query)
    check(done.stdout == "42\n" and f"snapshot {image}: applied, the code of " in done.stderr, done.stdout + done.stderr)
    done = says("mvld run --pass direct-calls --pass concat --option concat.copy=always -- sqlite3", **query)
    check(done.stdout == "42\n" and re.search(r"concat: [5-9] objects, \d+ functions", done.stderr),
          done.stdout + done.stderr)
    listed = says("mvld cache list").stdout
    for program in "sqlite3", "python3":
        check(re.search(rf"^good +/usr/bin/{program}\S* ", listed, re.M), f"no snapshot of {program}:\n{listed}")


def main():
    text = Path(sys.argv[1]).read_text()
    if sys.argv[2] == "slow":
        sys.exit(installation.in_namespace(lambda folder: slow(text, folder)))
    with support.scratch_folder() as folder:
        globals()[sys.argv[2]](text, folder)


main()
