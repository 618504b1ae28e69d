# SPDX-License-Identifier: MIT
"""Tools that look at a program's calls see them as before: AddressSanitizer's interposed
functions are called, gdb stops in a function that is called directly and shows the way there.

A failure means: with direct-calls, a program cannot be debugged as it was.

Argument: asan or gdb.
"""
import re
import shutil
import subprocess
import sys

import support
from support import check

MVLD = support.BUILD / "tools" / "mvld"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
SOURCE = """#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#ifdef LIBRARY
int callee(int n) { return n + 1; }
#else
int callee(int);
__attribute__((noinline)) int caller(int n) { return callee(n) * 2; }
int main(int argc, char **argv)
{
    char *block = malloc(10);

    (void)argv;
    memset(block, 0, argc > 1 ? 11 : 10);
    printf("%d\\n", caller(block[0] + argc));
    free(block);
    return 0;
}
#endif
"""


def build(folder, *flags):
    (folder / "x.c").write_text(SOURCE)
    support.compile_c(folder / "libx.so", "-shared", "-fPIC", "-DLIBRARY", folder / "x.c",
                      plugin=False)
    program = folder / "program"
    support.compile_c(program, *flags, folder / "x.c", support.MAPPED, "-L" + str(folder), "-lx",
                      "-Wl,-rpath,$ORIGIN", f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
    done = support.run([MVLD, "analyze", "--output", folder / "mvld" / "analysis", "--program",
                        program], timeout=100)
    check(done.returncode == 0, done.stderr)
    return program


def environment(folder):
    return {"XDG_CACHE_HOME": folder, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls"}


def is_direct(program, done):
    check(support.changed(done, program.name)[0] >= 4, f"not made direct\n{done.stderr}")


def asan(folder):
    program = build(folder, "-fsanitize=address")
    good = support.run([program], config=CONFIG, **environment(folder), TELL_MAPPED=1)
    check((good.returncode, good.stdout) == (0, "4\n"), good.stdout + good.stderr)
    is_direct(program, good)
    bad = support.run([program, "overflow"], config=CONFIG, **environment(folder))
    check(bad.returncode and "heap-buffer-overflow" in bad.stderr, bad.stdout + bad.stderr)


def gdb(folder):
    if not shutil.which("gdb"):
        support.skip("no gdb")
    program = build(folder, "-g", "-O1")
    config = folder / "conf"
    config.write_text(CONFIG)
    is_direct(program, support.run([program], config=CONFIG, **environment(folder), TELL_MAPPED=1))
    env = support.clean_environment(MVLD_CONFIG=config, **environment(folder))
    done = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set breakpoint pending on",
                           "-ex", "break callee", "-ex", "run", "-ex", "bt", "-ex", "continue",
                           str(program)], env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    check(re.search(r"#0 .*callee.*\n#1 .*caller.*\n#2 .*main", done.stdout),
          done.stdout + done.stderr)
    check("exited normally" in done.stdout, done.stdout + done.stderr)


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](scratch)
