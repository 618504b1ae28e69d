#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a dlopen and its dlclose cost where few libraries are open and where many are: mvld's own instructions, from
callgrind, with direct-calls and concat.

A failure means that a dlopen does more for each object that is there (the limit EACH), or for itself (ONE): it reads
or copies again what it had before.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from footprint import blind, start  # noqa: E402
from support import check, BUILD  # noqa: E402

ONE, EACH = 200_000, 2_000
FEW, MORE, MANY = 10, 50, 130
OPENER = """#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int n = atoi(argv[argc - 1]);
    void *opened[200];
    char name[32];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "./%d.so", i);
        if (!(opened[i] = dlopen(name, RTLD_NOW)))
            return 1;
    }
    for (int i = n; i-- > 0;)
        dlclose(opened[i]);
    return 0;
}
"""
OPENED = """#include <stdlib.h>
#include <string.h>
int answer(const char *a, const char *b) { return atoi(a) + atoi(b) + (int)strlen(a); }
"""


def own(profile):
    """The instructions in the loader's file."""
    names, total, inclusive, ours = {}, 0, False, False
    for line in profile.read_text().splitlines():
        if found := re.match(r"(c?)ob=\((\d+)\)(?: (.*))?", line):
            name = names.setdefault(found[2], found[3])
            ours = name.endswith("/ld.so") if not found[1] else ours
        elif line.startswith("calls="):
            inclusive = True
        elif found := re.match(r"(?:\*|[+-]?\d+) (\d+)$", line):
            total += int(found[1]) if ours and not inclusive else 0
            inclusive = False
    return total


def count(folder, n):
    passes = ":".join(str(BUILD / "passes" / name) for name in ("direct-calls", "concat"))
    done = start(folder, "--dump-instr=no", folder / f"{n}", folder / "said", str(n), MVLD_PASS_PATH=passes)
    check(done.returncode == 0 and not done.stderr, done.stdout + done.stderr)
    return own(folder / f"{n}")


def main(folder):
    if not shutil.which("valgrind"):
        support.skip("valgrind is missing")
    blind(folder)
    (folder / "said.c").write_text(OPENER)
    (folder / "opened.c").write_text(OPENED)
    (folder / "conf").write_text("[app]\nmatch = said\npasses = direct-calls, concat\n" + support.COPY)
    support.compile_c(folder / "said", folder / "said.c", "-no-pie", "-Wl,--build-id",
                      f"-Wl,--dynamic-linker={folder}/ld.so", plugin=False)
    support.compile_c(folder / "0.so", folder / "opened.c", "-shared", "-fPIC", "-Wl,--build-id", plugin=False)
    for i in range(1, MANY):
        shutil.copyfile(folder / "0.so", folder / f"{i}.so")
    libc = re.search(r"libc\.so\.6 => (\S+)", subprocess.run(["ldd", folder / "said"], capture_output=True, text=True).stdout)
    support.analyze(folder, folder / "said", folder / "0.so", libc[1])
    few, more, many = (count(folder, n) for n in (FEW, MORE, MANY))
    first, last = (more - few) // (MORE - FEW), (many - more) // (MANY - MORE)
    each = (last - first) * 2 // (MANY - FEW)
    one = first - each * (FEW + MORE) // 2
    print(f"{one} instructions, and {each} for each object that is there")
    check(0 < one < ONE, f"a dlopen and its dlclose take {one} instructions")
    check(0 < each < EACH, f"they take {each} for each object that is there")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        os.chdir(scratch)
        main(scratch)
