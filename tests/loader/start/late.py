#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""late.py BEHAVIOUR: when passes hear of objects (late/ holds the program, its
libraries, and a pass that marks each object it is told of).

A mark of 1 in a constructor means: told once, after relocation, before any
constructor.  Each function below is one test; its text says what a failure means.

TEST_HOST_LOADER=…/ld-linux-x86-64.so.2 runs them over the glibc of that folder.
"""
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "late"
OTHER = os.environ.get("TEST_HOST_LOADER")


class Program:
    def __init__(self, folder):
        self.folder = folder
        self.passes = folder / "passes"
        self.passes.mkdir()
        support.take(self.passes, "loader/start/late", "witness.so")
        support.take(folder, "loader/start/late", "late", "libone.so", "libbare.so")
        self.path = folder / "late"

    def fixed(self):
        """The executable becomes one at fixed addresses."""
        support.compile_c(self.path, SOURCES / "main.c", "-rdynamic", "-pthread", "-no-pie",
                          plugin=False)

    def library(self, name, *arguments, source="library.c", shared=True):
        support.compile_c(self.folder / f"lib{name}.so", "-shared", "-fPIC", SOURCES / source,
                          f'-DNAME="{name}"', "-L" + str(self.folder), *arguments, plugin=False)

    def run(self, *words, prefix=(), **environment):
        environment.setdefault("MVLD_PASS_PATH", self.passes)
        libraries = str(self.folder)
        if OTHER:
            environment["MVLD_HOST_LOADER"] = OTHER
            libraries += ":" + os.path.dirname(OTHER)
        return support.run([*prefix, support.LOADER, self.path, *words],
                           config=f"[app]\nmatch = {self.path}\npasses = witness\n",
                           LD_LIBRARY_PATH=libraries, **environment)

    def says(self, expected, *words, **options):
        done = self.run(*words, **options)
        check((done.returncode, done.stdout) == (0, expected),
              f"status {done.returncode}, it says\n{done.stdout}instead of\n{expected}\n"
              f"{done.stderr}")


def start(program):
    """Passes run too late at start-up, or an object of it is not in the image."""
    program.library("early", "-DINIT", "-Wl,-init=init")
    support.compile_c(program.path, SOURCES / "main.c", "-rdynamic", "-pthread",
                      "-L" + str(program.folder), "-Wl,--no-as-needed", "-learly", plugin=False)
    program.says("early DT_INIT: 1\nearly constructor: 1, ok\nmain constructor: 1\n"
                 "early destructor\n")


def dependencies(program):
    """Of a dlopen with dependencies, passes hear after the first constructor, or twice."""
    program.library("base", "-DINIT", "-Wl,-init=init")
    program.library("top", "-Wl,--no-as-needed", "-lbase", "-Wl,-z,lazy")
    for mode in "+~":
        program.says("main constructor: 1\nbase DT_INIT: 1\nbase constructor: 1, ok\n"
                     "top constructor: 1, ok\nlibtop.so: opened\n"
                     "top destructor\nbase destructor\nclose: 0\ngone: 2\n",
                     mode + "libtop.so", "-", "!")


def bare(program):
    """An object without initialisers comes and goes without passes being told before
    dlopen returns."""
    program.says("main constructor: 1\nlibbare.so: opened\nmark: 1\nclose: 0\ngone: 1\n",
                 "+libbare.so", "?", "-", "!")


def fixed(program):
    """Passes miss a dlopen in a program at fixed addresses."""
    program.fixed()
    program.says("main constructor: 1\none constructor: 1, ok\nlibone.so: opened\n"
                 "one destructor\nclose: 0\ngone: 1\n", "+libone.so", "-", "!")


def overwritten(program):
    """At a dlopen the block of argc and argv is looked at, which is the program's by then."""
    program.says("main constructor: 1\none constructor: 1, ok\nlibone.so: opened\n"
                 "one destructor\nclose: 0\ngone: 1\n", "=", "+libone.so", "-", "!")


def mute(program):
    """An object by which nobody can tell whether it is relocated is missed."""
    program.library("mute", "-nostartfiles", "-DMUTE", source="bare.c")
    program.says("main constructor: 1\nlibmute.so: opened\nmark: 1\nclose: 0\ngone: 1\n",
                 "+libmute.so", "?", "-", "!")


def mixed(program):
    """In a batch of objects with and without initialisers one is missed."""
    program.library("top", "-Wl,--no-as-needed", "-lbare")
    program.says("main constructor: 1\ntop constructor: 1, ok\nlibtop.so: opened\n"
                 "top destructor\nclose: 0\ngone: 2\n", "+libtop.so", "-", "!")


def failed(program):
    """What a dlopen leaves behind that fails in relocation breaks the next one."""
    program.library("base")
    program.library("bad", "-DMISSING", "-Wl,--no-as-needed", "-lbase")
    program.library("good", "-Wl,--no-as-needed", "-lbase")
    program.says("main constructor: 1\n" + 2 * "libbad.so: undefined symbol\n" + "gone: 0\n"
                 "base constructor: 1, ok\ngood constructor: 1, ok\nlibgood.so: opened\n"
                 "good destructor\nbase destructor\nclose: 0\ngone: 2\n",
                 "+libbad.so", "+libbad.so", "!", "+libgood.so", "-", "!")


def nested(program):
    """A dlopen inside a constructor of a dlopen is told of too late."""
    program.library("inner", "-DINIT", "-Wl,-init=init")
    program.library("outer", '-DOPENS="libinner.so"')
    program.says("main constructor: 1\nouter constructor: 1, ok\ninner DT_INIT: 1\n"
                 "inner constructor: 1, ok\nouter opens: yes\nlibouter.so: opened\n"
                 "outer destructor\ninner destructor\n", "+libouter.so")


def namespaces(program):
    """Objects of a dlmopen namespace are touched, or hide those of the base one."""
    program.library("two")
    # What the first one prints stays in the buffer of its own libc.
    program.says("main constructor: 1\nlibone.so: opened\nmark: 0\n"
                 "two constructor: 1, ok\nlibtwo.so: opened\nmark: 1\ntwo destructor\n",
                 "*libone.so", "?", "+libtwo.so", "?")


def many(program):
    """One dlopen of many objects, of more than there are thunks, whose rest is told late, or thousands of dlopens and
    dlcloses, run out of something."""
    program.library("plain")
    for n in 300, 600:
        copies = []
        for i in range(n):
            copies.append(program.folder / f"libcopy{i}.so")
            shutil.copy(program.folder / f"lib{'plain' if i % 7 == 0 else 'bare'}.so", copies[-1])
        program.library("all", "-Wl,--no-as-needed", *copies)
        done = program.run("+liball.so", "-", "!")
        told = done.stdout.count("plain constructor: 1, ok")
        check(done.returncode == 0 and (told == 43 if n == 300 else told > 43) and
              done.stdout.endswith(f"close: 0\ngone: {n + 1}\n"), done.stdout + done.stderr)
    program.says("main constructor: 1\ngood: 2000\ngone: 2000\n", "@libbare.so", "!")


def threads(program):
    """Threads that open and close at the same time miss a mark or crash."""
    done = program.run("#libbare.so")
    check(done.returncode == 0, done.stdout + done.stderr)


def forked(program):
    """A child of a fork during another thread's dlopen goes on with what passes had begun there, which crashes."""
    program.library("held", "-DHOLDS")
    done = program.run("^libheld.so")
    if "child: 14\n" in done.stdout:
        support.skip("the host loader leaves its lock taken")
    check((done.returncode, done.stdout) == (0, "main constructor: 1\none constructor: 0, ok\nlibone.so: opened\n"
          "held constructor: 1, ok\nlibheld.so: opened\nchild: 0\nheld destructor\n"), f"{done}")


def audit(program):
    """An LD_AUDIT module's own events are taken for the program's, or break it."""
    support.compile_c(program.folder / "audit.so", "-shared", "-fPIC", SOURCES / "audit.c",
                      plugin=False)
    program.library("one", "-DINIT", "-Wl,-init=init")
    if support.run([program.path], LD_AUDIT=program.folder / "audit.so").returncode < 0:
        support.skip("the host loader itself crashes with an LD_AUDIT module that opens libraries")
    program.says("main constructor: 1\none DT_INIT: 1\none constructor: 1, ok\n"
                 "libone.so: opened\none destructor\nclose: 0\ngone: 1\n",
                 "+libone.so", "-", "!", LD_AUDIT=program.folder / "audit.so")
    program.fixed()
    program.says("main constructor: 1\n", LD_AUDIT=program.folder / "audit.so")


def far(program):
    """With placement = near something is out of reach of a direct call, or with as-is
    something was moved (mvld is the interpreter here: else all is near anyway)."""
    program.library("one", "-Wl,-z,max-page-size=0x200000")  # mapped in another way
    for kind in "-pie", "-no-pie":
        support.compile_c(program.path, SOURCES / "main.c", "-rdynamic", "-pthread", kind,
                          f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
        for placement in "near", "as-is":
            done = support.run(
                [program.path, "+libone.so"], LD_LIBRARY_PATH=program.folder, MVLD_DEBUG="files",
                config=f"[app]\nmatch = {program.path}\npasses = witness\n"
                       f"placement = {placement}\n", MVLD_PASS_PATH=program.passes)
            low, high, last = reach(done.stderr)
            check(last % 0x200000 == 0 or support.GLIBC < (2, 35), f"not aligned: {last:x}")
            check("one constructor: 1, ok" in done.stdout and
                  (high - low < 2 ** 31) == (placement == "near"),
                  f"{kind} {placement}: {low:x} to {high:x}\n{done.stdout}{done.stderr}")


def crowded(program):
    """Run directly, a program maps memory (many threads' stacks) at the addresses of its libraries."""
    program.library("one", "-Wl,-z,max-page-size=0x1000000")  # too large for the holes between others
    done = program.run("%libone.so", MVLD_DEBUG="files")
    low, high, _ = reach(done.stderr)
    check("libone.so: opened" in done.stdout and high - low < 2 ** 30, f"{low:x} to {high:x}\n{done.stderr}")


def reach(log):
    places = [int(line.rsplit(" at ", 1)[1], 16) for line in log.splitlines()
              if "object: " in line and "linux-vdso" not in line]
    check(len(places) >= 4, log)
    return min(places), max(places), places[-1]


def main():
    behaviour = globals()[sys.argv[1]]
    support.need(support.LOADER)
    with support.scratch_folder() as folder:
        behaviour(Program(folder))


main()
