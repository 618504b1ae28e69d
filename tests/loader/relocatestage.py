#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""relocatestage.py BEHAVIOUR: symbols that a pass binds elsewhere (passes/example/bind.c) or hides
(relocatestage/hide.c).

The passes are built as their authors outside of the tree would.  Each function below is one test;
its text says what a failure means.
"""
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int answer(void), through(void), other(void);
int (*pointer)(void) = answer;
int main(int argc, char **argv)
{
    int (*found)(void) = dlsym(RTLD_DEFAULT, "answer");

    if (argc > 1) {
        void *late = dlopen(argv[1], RTLD_NOW);
        int (*call)(void) = late ? dlsym(late, "late") : NULL;

        printf("%d\\n", call ? call() : -1);
        return 0;
    }
    printf("%d %d %d %d %d\\n", answer(), through(), pointer(), found(), other());
    return 0;
}
"""
LIBRARIES = {  # name: source, what it needs
    "first": ("int answer(void) { return 1; }\nint through(void) { return answer(); }\n", ()),
    "second": ("int other(void) { return 2; }\n", ()),
    "late": ("int answer(void);\nint late(void) { return answer(); }\n", ("first",)),
    "mine": ("int answer(void) { return 3; }\n", ()),
}


class World:
    def __init__(self, folder, *options):
        self.folder = folder
        for pass_source in (support.SOURCE / "passes" / "example" / "bind.c",
                            HERE / "relocatestage" / "hide.c"):
            done = subprocess.run(["cc", "-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
                                   "-mgeneral-regs-only", "-fPIC", "-Wl,-Bsymbolic", "-I",
                                   support.SOURCE / "include", "-o", folder / (pass_source.stem + ".so"),
                                   pass_source], capture_output=True, text=True)
            check(done.returncode == 0, done.stdout + done.stderr)
        for name, (source, needs) in LIBRARIES.items():
            (folder / (name + ".c")).write_text(source)
            support.compile_c(folder / f"lib{name}.so", "-shared", "-fPIC", folder / (name + ".c"), *options,
                              "-L" + str(folder), "-Wl,-rpath,$ORIGIN", *("-l" + need for need in needs),
                              plugin=False)
        (folder / "main.c").write_text(PROGRAM)

    def program(self, *options):
        support.compile_c(self.folder / "main", self.folder / "main.c", "-L" + str(self.folder), "-lfirst",
                          "-lsecond", "-Wl,-rpath,$ORIGIN", f"-Wl,--dynamic-linker={LOADER}", *options,
                          plugin=False)
        return self.folder / "main"

    def run(self, program, *arguments, first=(), passes="bind", more="", **environment):
        config = f"[app]\nmatch = main\npasses = {passes}\n{more}"
        return support.run([*first, program, *arguments], config=config,
                           MVLD_PASS_PATH=f"{self.folder}:{support.BUILD}/passes/direct-calls", **environment)


BIND = "[bind]\nfrom = libfirst.so:answer\nto = libsecond.so:other\n"


def says(done, text):
    check(done.returncode == 0 and done.stdout == text + "\n" and not done.stderr,
          f"status {done.returncode}, {done.stdout}{done.stderr} instead of {text}")


def bound(world):
    """Calls, pointers and dlsym lead to the other function, in programs of every kind of binding; other
    symbols lead where they did."""
    for options in (["-Wl,-z,now"], ["-Wl,-z,lazy"], ["-no-pie", "-fno-pie"], ["-fno-plt"]):
        program = world.program(*options)
        says(world.run(program, passes="bind", more=BIND), "2 2 2 2 2")
        says(world.run(program, passes="bind", more=BIND, first=[LOADER]), "2 2 2 2 2")
        says(world.run(program, passes="bind", more=BIND.replace("libsecond.so:other", "libsecond.so:nothing")),
             "1 1 1 1 2")
        says(world.run(program, more=BIND, MVLD="off"), "1 1 1 1 2")


def later(world):
    """What comes by dlopen is bound as well, to what was there and to what comes along."""
    program = world.program("-Wl,--no-as-needed")
    says(world.run(program, world.folder / "liblate.so", more=BIND), "2")
    both = "[bind]\nfrom = liblate.so:late\nto = libsecond.so:other\n"
    says(world.run(program, world.folder / "liblate.so", more=both), "2")


def hidden(world):
    """A definition that is hidden is found by nobody: the next one in the order of look-up is."""
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine")
    hide = "[hide]\nsymbol = answer\nlibrary = libfirst.so\n"
    says(world.run(program, passes="hide", more=hide), "3 3 3 3 2")
    says(world.run(program, passes="hide", more=hide.replace("answer", "nothing")), "1 1 1 1 2")


def wrong(world):
    """Wrong edits change nothing, all of the same pass included, and say which symbol is meant."""
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine")
    for kind, words in (("variable", "only functions"), ("twice", "already"), ("stage", "relocate alone"),
                        ("missing", "nobody_defines_this: the object does not define it")):
        done = world.run(program, passes="hide", MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=world.folder / "log",
                         more=f"[hide]\nsymbol = answer\nlibrary = libfirst.so\nwrong = {kind}\n")
        log = "".join(path.read_text() for path in world.folder.glob("log.*"))
        for path in world.folder.glob("log.*"):
            path.unlink()
        says(done, "1 1 1 1 2" if kind != "stage" else "3 3 3 3 2")
        check(words in log and ("libfirst.so" in log or "libc.so" in log), log)


def many(world):
    """A hundred thousand definitions are hidden in seconds, and all of them."""
    lines = "".join(f".globl f{i}\n.type f{i},@function\nf{i}:\n" for i in range(100000))
    (world.folder / "mine.s").write_text(".text\n" + lines + ".globl answer\n.type answer,@function\nanswer:\n"
                                         "mov $3, %eax\nret\n.section .note.GNU-stack\n")
    support.compile_c(world.folder / "libfirst.so", "-shared", world.folder / "mine.s", "-nostdlib", plugin=False)
    (world.folder / "main.c").write_text(PROGRAM.replace("through()", "0"))
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine", "-Wl,--allow-shlib-undefined")
    (world.folder / "mine.c").write_text("int answer(void) { return 5; }\n")
    support.compile_c(world.folder / "libmine.so", "-shared", "-fPIC", world.folder / "mine.c", plugin=False)
    says(world.run(program, passes="hide", more="[hide]\nlibrary = libmine.so\nwrong = all\n"), "3 0 3 3 2")
    done = world.run(program, passes="hide", MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=world.folder / "log",
                     more="[hide]\nlibrary = libfirst.so\nwrong = all\n")
    log = "".join(path.read_text() for path in world.folder.glob("log.*"))
    says(done, "5 0 5 5 2")
    check(re.search(r"hide: 10000[1-9] symbols", log), log)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"bound": bound, "later": later, "hidden": hidden, "wrong": wrong, "many": many}[sys.argv[1]](World(scratch))
