#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py COMPILER PLUGIN SOURCE: the diagnostics of a compilation are those that
SOURCE announces, `/* error: regex */` or `/* warning: regex */` on the line they
are about, and no others.  It may name more options in a line `options: ...`, and one with which it
does not make sense, `not for: ...`.  A failure prints what is missing or not announced."""
import os
import re
import subprocess
import sys

compiler, plugin, source = sys.argv[1:]
expected = []
for number, line in enumerate(open(source), 1):
    match = re.search(r"(?:/\*|//) (error|warning): (.*?)(?: \*/)?$", line.rstrip())
    if match:
        expected.append((number, match[1], match[2]))
failed = not expected
more = re.search(r"^\W*options: (.*)$", open(source).read(), re.M)
more = more[1].split() if more else []
unfit = re.search(r"^\W*not for: (.*)$", open(source).read(), re.M)
unfit = unfit[1].split() if unfit else []
by_clang = compiler.startswith("clang")  # its plugin leaves -flto alone
for options in ["-O0"], ["-O2"], ["-Os", "-fPIC"] if by_clang else ["-O2", "-flto", "-fPIC"]:
    if set(unfit) & set(options):
        continue
    run = subprocess.run([compiler, *options, "-Wno-all", "-c", "-o", "/dev/null",
                          f"-fplugin={plugin}", *more, source], capture_output=True, text=True,
                         env={**os.environ, "LC_ALL": "C"}, timeout=60)
    found = [(int(m[1]), m[2], m[3]) for m in
             re.finditer(r":(\d+):\d+: (error|warning): (.*)", run.stderr)]
    for number, kind, text in expected:
        hit = next((f for f in found if f[0] == number and f[1] == kind
                    and re.search(text, f[2])), None)
        if hit:
            found.remove(hit)
        else:
            print(f"{options}: line {number}: missing {kind}: {text}")
            failed = True
    for number, kind, text in found:
        print(f"{options}: line {number}: not announced: {kind}: {text}")
        failed = True
    if "internal compiler error" in run.stderr or (run.returncode != 0) != any(
            kind == "error" for _, kind, _ in expected):
        print(f"{options}: exit {run.returncode}\n{run.stderr[-2000:]}")
        failed = True
sys.exit(failed)
