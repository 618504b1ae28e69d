#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""crashes.py BEHAVIOUR: a pass that crashes, or refuses a file, is named on standard error without MVLD_DEBUG
(crashes/pass.c).

Each function below is one test; its text says what a failure means.
"""
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402


class World:
    def __init__(self, folder):
        self.folder, self.program, self.late = folder, folder / "main", folder / "late.so"
        support.take(folder, "loader/manager/crashes", "main", "late.so", "crash.so")
        support.analyze(folder, self.program, self.late)

    def run(self, place, by="segv", way="plain", wrapper=(), passes="crash", **env):
        config = f"[app]\nmatch = main\npasses = {passes}\n[crash]\nin = {place}\nby = {by}\n{support.COPY}"
        return support.run([*wrapper, self.program, way, self.late], config=config, XDG_CACHE_HOME=self.folder,
                           MVLD_PASS_PATH=f"{self.folder}:{support.BUILD / 'passes/concat'}", **env)

    def is_named(self, done, number, where=None):
        """Ends by the signal, and one line names the pass, the signal and the place; which is returned."""
        lines = done.stderr.splitlines()
        check(done.returncode == -number and len(lines) == 1, f"{done}")
        where = where or f" of {self.folder}/crash.so"
        found = re.search(rf"'crash'.*signal {int(number)}\b.* (0x[0-9a-f]+){where}", lines[0])
        check(found, lines[0])
        return int(found[1], 16)

    def is_silent(self, done, status):
        check((done.returncode, done.stderr) == (status, ""), f"{done}")


def named(world):
    """Whichever function of a pass crashes, its author learns which pass it was, and where."""
    symbols = subprocess.run(["nm", world.folder / "crash.so"], capture_output=True, text=True).stdout
    faults = {int(line.split()[0], 16) for line in symbols.splitlines() if line.split()[-1].startswith("faults")}
    for place in ("map", "relocate", "run", "rule", "later", "removed"):
        at = world.is_named(world.run(place), signal.SIGSEGV)
        check(at in faults, f"{place}: {at:x} is none of {faults}")
    world.is_named(world.run("run", by="ill"), signal.SIGILL)
    world.is_named(world.run("run", by="fpe"), signal.SIGFPE)
    done = world.run("run", MVLD_DEBUG="passes")
    check(done.stderr.count("'crash' crashed") == 1, done.stderr)


def called(world):
    """A pass that hands a bad pointer to mvld, or jumps to nowhere, is named; its rule for calls, too, which is asked
    when a pass behind it has run."""
    for place in ("map", "relocate", "run", "rule", "later", "removed"):
        for by in ("api", "null"):
            world.is_named(world.run(place, by=by), signal.SIGSEGV, ", in what it called")
    world.is_named(world.run("rule", by="api", passes="crash, concat"), signal.SIGSEGV, ", in what it called")


def others(world):
    """What has been sent, or is handled by the program itself, is none of mvld's business, and ends as it does without
    it."""
    for place in ("run", "later"):
        world.is_silent(world.run(place, by="sent"), -signal.SIGSEGV)
    world.is_silent(world.run("later", way="handles"), 7)
    world.is_silent(world.run("later", way="ignores", by="sent"), 0)
    world.is_silent(world.run("later", way="ignores"), -signal.SIGSEGV)
    world.is_silent(world.run("later", way="threads"), -signal.SIGSEGV)
    for way in ("plain", "handles", "ignores"):
        world.is_silent(world.run("none", way=way), 0)
    world.is_silent(world.run("run", MVLD="off"), 0)


def written(world):
    """Standard error of the program's start has the line wherever it goes; a file of the program's own never."""
    log = world.folder / "log"
    shell = ("sh", "-c", f'exec "$@" 2>{log}', "sh")
    check(world.run("run", wrapper=shell).returncode == -signal.SIGSEGV, "")
    check(log.read_text().count("'crash' crashed") == 1, log.read_text())
    own = world.folder / "own"
    inside = ("sh", "-c", f'cd {world.folder}; exec "$@"', "sh")
    for place, status in (("later", -signal.SIGSEGV), ("refuses", 0)):
        world.is_silent(world.run(place, way="file", wrapper=inside), status)
        check(own.read_text() == "", own.read_text())


def refused(world):
    """A pass that refuses a file without a reason is named, at a dlopen too."""
    done = world.run("refuses")
    check((done.returncode, done.stdout, done.stderr.count("\n")) == (0, "refused\n", 1) and
          "crash: map gave error 13" in done.stderr, f"{done}")
    shutil.move(world.program, world.folder / "main.late.so")
    config = "[app]\nmatch = *\npasses = crash\n[crash]\nin = refuses\n"
    done = support.run([world.folder / "main.late.so", "plain", world.late], config=config, XDG_CACHE_HOME=world.folder,
                       MVLD_PASS_PATH=world.folder)
    check(done.returncode == 127 and "crash: map gave error 13" in done.stderr, f"{done}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"named": named, "called": called, "others": others, "written": written, "refused": refused}[sys.argv[1]](World(scratch))
