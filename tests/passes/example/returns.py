#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""returns.py: a function that a pass makes return a number (passes/example/returns.c), in the process, from a snapshot, in
moved code and in a library that comes later; and how many symbols count.c finds.

A failure means that some call of it returns something else, or that another function does.
"""
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

LIBRARY = """__attribute__((noinline)) int NAME(int n) { volatile int twice = 2 * n; return twice + 1; }
int NAME_next(int n) { volatile int next = n + 1; return next; }
int NAME_short(void) { return 3; }
"""
MAIN = """#include <dlfcn.h>
#include <stdio.h>
int asked(int), asked_next(int), asked_short(void);
static int (*volatile pointer)(int) = asked;
int main(int argc, char **argv)
{
    int (*found)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "asked"), (*late)(int);
    void *handle = dlopen(argv[1], RTLD_NOW);
    late = handle ? (int (*)(int))dlsym(handle, "late") : 0;
    printf("%d %d %d %d %d %d\\n", asked(5), pointer(5), found(5), asked_next(5), asked_short(), late ? late(5) : -1);
    return 0;
}
"""
PLAIN = [11, 11, 11, 6, 3, 11]


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        for name in "asked", "late":
            (folder / f"{name}.c").write_text(LIBRARY.replace("NAME", name))
            support.compile_c(folder / f"lib{name}.so", folder / f"{name}.c", "-shared", "-fPIC", "-fcf-protection=none",
                              "-Wl,--build-id", plugin=False)
        (folder / "main.c").write_text(MAIN)
        support.compile_c(self.program, folder / "main.c", folder / "libasked.so", f"-Wl,-rpath,{folder}",
                          "-Wl,--build-id", f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
        for name in "returns", "count":
            support.compile_c(folder / f"{name}.so", support.SOURCE / "passes" / "example" / f"{name}.c", "-shared",
                              "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only", "-fPIC",
                              "-Wl,-Bsymbolic", plugin=False)
        libc = re.search(r"libc\.so\.6 => (\S+)", subprocess.run(["ldd", self.program], capture_output=True, text=True).stdout)
        support.analyze(folder, self.program, folder / "libasked.so", folder / "liblate.so", libc[1])

    def run(self, passes, options="", app="", **variables):
        """The numbers, and the log."""
        places = [self.folder, *(support.BUILD / "passes" / name for name in ("direct-calls", "concat"))]
        done = support.run([self.program, self.folder / "liblate.so"], XDG_CACHE_HOME=self.folder, MVLD_DEBUG="passes,files",
                           config=f"[app]\nmatch = main\npasses = {passes}\n{app}[returns]\n{options}{support.COPY}",
                           MVLD_PASS_PATH=":".join(map(str, places)), **variables)
        check(done.returncode == 0, f"{passes}: {done.returncode} {done.stdout}{done.stderr[-3000:]}")
        return [int(number) for number in done.stdout.split()], done.stderr


with support.scratch_folder() as folder:
    world = World(folder)
    for passes in ("returns", "direct-calls, returns", "returns, direct-calls", "returns, concat", "concat, returns",
                   "direct-calls, concat, returns"):
        said, log = world.run(passes, "function = asked\nvalue = -7\n")
        check(said == [-7, -7, -7, 6, 3, 11], f"{passes}: {said}\n{log[-3000:]}")
    said, log = world.run("returns", "function = late\nvalue = 0x7fffffff\n")
    check(said == PLAIN[:5] + [0x7fffffff], f"a library that came later: {said}\n{log[-3000:]}")
    for options, words in (("function = asked_short\n", "is no function of at least 10 bytes"), ("function = nowhere\n", "")):
        said, log = world.run("returns", options)
        check(said == PLAIN and words in log, f"{options}: {said}\n{log[-3000:]}")
    for passes in "returns", "direct-calls, returns":
        options = "function = asked\nvalue = 4\n"
        world.run(passes, options, app="on-miss = build\n")
        said, log = world.run(passes, options, app="on-miss = plain\n")
        check(said == [4, 4, 4, 6, 3, 11] and ": applied, " in log, f"{passes}, from a snapshot: {said}\n{log[-3000:]}")
    _, log = world.run("count", app="[count]\nnames = yes\n")
    defined = subprocess.run(["nm", "-D", "--defined-only", folder / "libasked.so"], capture_output=True, text=True).stdout
    check(re.search(rf"libasked\.so: {len(defined.splitlines())} symbols$", log, re.M), f"{defined}\n{log[-3000:]}")
