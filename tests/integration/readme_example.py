#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme_example.py README BLOCK: the "Five minutes" of README.md, as printed there: a program that
starts slowly (`slow`), what else is said of unmodified programs (`unmodified`), the program of
its own (`own`).

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

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402

PLAIN = ["hey Ada", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]
COMMITTED = ["Good morning, Ada.", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]


def block(text, language):
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    check(found, f"README has no {language or 'plain'} block any more")
    return found[1]


def commands(text):
    """The lines after `$ `, with continuations."""
    joined = text.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


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
    text, shell = text[text.index("### Switches in"):], Shell(folder)
    (folder / "hello.c").write_text(block(text, "c"))
    printed = commands(re.search(r"^```\n(\$ gcc .*?)^```$", text, re.M | re.S)[1])
    said = {line.split()[0] + " " + line.split()[1]: shell(line) for line in printed}
    check(len(said) == 5, f"README has other commands: {printed}")
    check(said["gcc -O2"] == [], "the compiler says something")
    check(said["./hello #"] == PLAIN, f"./hello says {said['./hello #']}")
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
    hide_roots_cache()
    if not Path("/usr/bin/redis-server").exists():
        support.skip("redis-server is not installed")
    support.need(support.LOADER, support.BUILD / "passes/direct-calls/direct-calls.so")
    text = text[text.index("### A program that starts slowly"):]
    printed = commands(re.search(r"^```\n(\$ cp .*?)^```$", text, re.M | re.S)[1])
    check(len(printed) == 8, f"README has other commands: {printed}")
    check("--version" in printed[5] and all(line.startswith("time (for i in {1..100}") for line in printed[6:]),
          f"README has other commands: {printed}")
    shell = Shell(folder)
    done = shell.run("\n".join(["set -e", *printed]).replace("1..100", "1..2"), HOME=folder)
    check(": applied, the code of " in done.stderr, f"no start from the snapshot: {done.stdout}{done.stderr}")
    check(done.stderr.count("real") == 2 and "ERROR" not in done.stderr, f"not measured: {done.stdout}{done.stderr}")

    # The configuration leaves a snapshot, by which the next start runs.
    config = block(text, "ini")
    check("match = /usr/bin/redis-server\n" in config, f"README's configuration names another program: {config}")
    config = config.replace("/usr/bin/redis-server", f"{folder}/configured")
    start = "MVLD_PASS_PATH=$PWD/build/passes/direct-calls MVLD_DEBUG=files ./configured --version"
    shell.run("cp slow configured && build/tools/mvld analyze --program ./configured", HOME=folder)
    said = [shell.run(start, config, HOME=folder).stderr for _ in range(2)]
    check("applied" not in said[0] and ": applied, the code of " in said[1], "".join(said))


def unmodified(text, folder):
    hide_roots_cache()
    if not shutil.which("sqlite3") or not shutil.which("python3", path="/usr/bin"):
        support.skip("sqlite3 or Debian's python3 is not installed")
    support.need(*(support.BUILD / "passes" / name / f"{name}.so" for name in ("direct-calls", "concat")))
    shell, cache = Shell(folder), Path("/var/cache") if os.geteuid() == 0 else folder / ".cache"
    printed = commands(re.search(r"^```\n(\$ build/tools/mvld analyze .*?)^```$", text, re.M | re.S)[1])
    check(len(printed) == 6, f"README has other commands: {printed}")

    def says(command, typed=None, **more):
        """What one of them prints and logs, with that typed into its program."""
        line, = [line for line in printed if command in line]
        return shell.run(f"echo '{typed}' | {line}" if typed else line, HOME=folder,
                         PATH="/usr/sbin:/usr/bin:/sbin:/bin", **more)

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
    with support.scratch_folder() as folder:
        globals()[sys.argv[2]](text[text.index("## Five minutes"):], folder)


main()
