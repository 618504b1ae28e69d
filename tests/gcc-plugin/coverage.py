#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coverage.py PLUGIN INCLUDE LIBRARY: gcov counts what variants run as lines of their function.  A
failure means that a committed function looks as if it never ran."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """#include <multiverse.h>
__attribute__((multiverse)) _Bool on;
static int n;
__attribute__((multiverse)) void f(int x)
{
    if (on)
        n += x;
    else
        n -= x;
}
int main(void)
{
    multiverse_commit();
    for (int i = 0; i < 10; i++)
        f(i);
    return n != -45;
}
"""


def main():
    plugin, include, library = (Path(a).resolve() for a in sys.argv[1:4])
    failures = 0
    for level in "-O0", "-O2":
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "p.c").write_text(PROGRAM)
            for command in (["gcc", level, "--coverage", f"-fplugin={plugin}", f"-I{include}", "p.c",
                             library / "libmultiverse.a", "-o", "p"], ["./p"]):
                subprocess.run(command, cwd=folder, check=True, timeout=60)
            told = subprocess.run(["gcov", "--json-format", "--stdout", "p-p.gcda"], cwd=folder, check=True,
                                  capture_output=True, text=True, timeout=60).stdout
            lines = json.loads(told)["files"][0]["lines"]
            for number, wanted in (7, 0), (9, 10):
                found = sum(line["count"] for line in lines if line["line_number"] == number)
                if found != wanted:
                    failures += 1
                    print(f"{level}: line {number} ran {wanted} times, gcov says {found}", file=sys.stderr)
    return failures != 0


sys.exit(main())
