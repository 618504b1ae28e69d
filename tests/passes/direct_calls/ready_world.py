# SPDX-License-Identifier: MIT
"""A program and its library for tests of ready code (rimf/store/manifest.h), in a folder of their own."""
import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import memory
import support
from support import check

HERE = Path(__file__).resolve().parent
MVLD = support.BUILD / "tools" / "mvld"
RESEAL = support.BUILD / "tests" / "passes" / "direct_calls" / "reseal"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
N = 40
SOURCES = HERE / "programs"
WORLD = "passes/direct_calls/programs"
# Of an executable: pages of calls to the library.
PAGE = "__attribute__((aligned(4096), noinline)) int p%d(int x) { return f%d(x) + f%d(x + 1); }\n"


class World:
    """The program own_main.c and its library own.c, which with `other` calls another one."""

    def __init__(self, folder, library="libown.so", other=False):
        self.folder, self.cache, self.other = folder, folder / "cache", other
        self.lib, self.program = folder / "libown.so", folder / "program"
        if other:
            support.take(folder, WORLD, "libother.so")
            library = "own-other.so"
        support.take(folder, WORLD, f"{library}=libown.so", "program")
        self.plain = support.run([self.program], MVLD="off").stdout
        check(self.plain.splitlines()[0].count(" ") == 1, f"the program says '{self.plain}'")
        self.analyse(self.lib, self.program)

    def compile(self, name, *more, libraries=("-lown",), source=SOURCES / "own_main.c"):
        """Another program, whose libraries are found beside it."""
        support.compile_c(self.folder / name, source, support.MAPPED, "-L" + str(self.folder), "-Wl,--no-as-needed",
                          *libraries, f"-Wl,-rpath,{self.folder}", "-Wl,-z,now",
                          f"-Wl,--dynamic-linker={support.LOADER}", *more, plugin=False)
        return self.folder / name

    def library(self, path, *more, source=SOURCES / "own.c"):
        """Another library."""
        other = ["-DOTHER", "-L" + str(self.folder), "-lother"] if self.other else []
        support.compile_c(path, "-shared", "-fPIC", "-fsemantic-interposition", source, "-Wl,--build-id=0xabcdef01",
                          *other, "-Wl,-rpath,$ORIGIN", *more, plugin=False)

    def analyse(self, *objects):
        support.analyze(self.cache, *objects)

    def start(self, *arguments, prefix=(), program=None, **more):
        more = {"config": CONFIG, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls",
                "MVLD_DEBUG": "passes", "XDG_CACHE_HOME": self.cache, "TELL_MAPPED": 1, **more}
        return support.run([*prefix, program or self.program, *arguments], **more)

    def build(self, *arguments, snapshot="1", **more):
        """Ready code is written where a snapshot is; which goes again."""
        done = self.start(*arguments, MVLD_SNAPSHOT=snapshot, **more)
        check(done.returncode == 0, done.stdout + done.stderr)
        shutil.rmtree(self.cache / "mvld" / "snapshots")
        return done.stderr

    def run(self, *arguments, says=None, **more):
        done = self.start(*arguments, **more)
        check((done.returncode, done.stdout) == (0, says or self.plain),
              f"{done.returncode} '{done.stdout}'\n{done.stderr}")
        return done.stderr

    def files(self, name="libown.so"):
        return sorted((self.cache / "mvld" / "ready").glob("*-" + name))

    def one(self):
        files = self.files()
        check(len(files) == 1, f"{files}: not one")
        return files[0]


def laid(log, name="libown.so", reach=""):
    """Whether the object's code is mapped from a file of ready code; of that `reach`, "calls to itself" or
    "all calls"."""
    check("mapped: " in log, f"it does not tell what is mapped:\n{log}")
    files = set(re.findall(rf"^mapped: (/\S+/mvld/ready/\S+-{re.escape(name)})$", log, re.M))
    check(len(files) <= 1, f"{files}")
    if not files or not reach:
        return bool(files)
    with support.scratch_folder() as alone:  # the list names objects, not their files in the cache
        file = Path(files.pop())
        os.link(file, alone / file.name)
        return f"  ready code, {reach}" in support.run([MVLD, "cache", "list", alone]).stdout


def refused(log, why):
    check(not laid(log), f"used in spite of '{why}':\n{log}")
    check(re.search(rf"ready code of [^\n]*libown.so: not used: [^\n]*{why}", log), f"no '{why}' in\n{log}")


def reseal(world, file, field="nothing", value=0):
    done = subprocess.run([RESEAL, file, str(world.lib.stat().st_size), field, str(value)], check=False)
    check(done.returncode == 0, f"reseal {field}")


def done(log, name="libown.so"):
    """What was done to objects of this name, and what was left in all, and why."""
    return (re.findall(rf"(\S*{re.escape(name)}): (\d+ of \d+) sites made direct", log),
            sorted(re.findall(r"direct-calls: (\d+ sites left: [^\n]*)", log)))


def same_in_memory(world, reach, *names):
    """Memory is what it is without ready code, byte for byte; and nothing of what has it is the
    process's own."""
    dump = world.folder / "dump.so"
    support.take(world.folder, WORLD, dump.name)
    if ctypes.CDLL(None).personality(0x40000) < 0:  # ADDR_NO_RANDOMIZE, for what is started from here
        support.skip("addresses cannot be fixed")
    libc = next(Path(line.split()[2]) for line in subprocess.run(
        ["ldd", world.program], capture_output=True, text=True, check=True).stdout.splitlines() if "libc.so" in line)
    world.analyse(libc.resolve())

    def code():
        objects, log = memory.take(world.program, config=CONFIG, dump=dump, folder=world.folder,
                                   XDG_CACHE_HOME=world.cache, LD_BIND_NOW=1,
                                   MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
        n = memory.check_targets(objects)
        return {o.name: [data for _, data, flags in o.loads if flags & 1]
                for o in memory.of_files(objects)}, (n, done(log, "")), log

    way = {"LD_PRELOAD": dump, "LD_BIND_NOW": 1}
    before, sites, log = code()
    check(sites[0] > 100 and "laid over" not in log, log)
    log = world.build(**way)
    check(all(f"{name}: written ({reach})" in log for name in names), log)
    after, again, log = code()
    check(all(re.search(f"{name}: laid over, {reach}", log) for name in names), log)  # it ends before it tells
    check(sites == again, f"{sites}\n{again}")
    check(before == after, "code differs: " + " ".join(name for name in before if before[name] != after[name]))
    for name in names:
        check(re.search(rf"{name}: \d+ of \d+ sites made direct, 0 pages made private", log), log)
    log = world.build(**way)
    check(": written (" not in log, "written again:\n" + log)
