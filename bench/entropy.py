# SPDX-License-Identifier: MIT
"""entropy.py: how random addresses are under the plain loader and under mvld.

A program of five lines runs a thousand times in each way and says where its parts
lie.  For each part the table gives how many different values were seen, and two
estimates of the entropy in bits:

  at most     the entropy of each address bit alone, summed, or the logarithm of the
              span in which they lie, whichever is less
  from pairs  among n drawings from N equally likely places about n(n-1)/2N pairs
              agree; where less than three do, only ">=" can be said

An entropy of 0 for a distance means: who knows one address knows the other.

Arguments: the number of runs (1000).
"""
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]
import support  # noqa: E402
from report import say, table  # noqa: E402

PARTS = {
    "executable": lambda exe, libc, stack, heap: exe,
    "libc": lambda exe, libc, stack, heap: libc,
    "libc - executable": lambda exe, libc, stack, heap: libc - exe,
    "libc - heap": lambda exe, libc, stack, heap: libc - heap,
    "stack": lambda exe, libc, stack, heap: stack,
    "heap": lambda exe, libc, stack, heap: heap,
}


def estimate(values):
    """The entropy in bits by pairs that agree (collision entropy), as text."""
    n = len(values)
    pairs = n * (n - 1) / 2
    agreeing = sum(c * (c - 1) / 2 for c in Counter(values).values())
    if agreeing == pairs:
        return "0"
    if agreeing < 3: # 8 expected ones would show as less than three once in 70 times
        return f">= {math.log2(pairs / 8):.0f}"
    return f"{math.log2(pairs / agreeing):.1f}"


def upper_bound(values):
    """What each address bit alone holds, summed, in bits; no more than the span holds."""
    total, lowest = 0.0, None
    for bit in range(48):
        p = sum(value >> bit & 1 for value in values) / len(values)
        if 0 < p < 1:
            total -= p * math.log2(p) + (1 - p) * math.log2(1 - p)
            lowest = bit if lowest is None else lowest
    span = max(values) - min(values)
    return min(total, math.log2((span >> lowest) + 1)) if lowest is not None else 0.0


def sample(command, env, runs):
    values = []
    for _ in range(runs):
        process = subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=20, check=True)
        values.append([int(word, 16) for word in process.stdout.split()])
    return values


def ways(folder):
    """(what, program, environment) of each way."""
    for kind, flags in ("PIE", ["-fPIE", "-pie"]), ("non-PIE", ["-fno-pie", "-no-pie"]):
        programs = {}
        for name, loader in ("plain", support.HOST_LOADER), ("mvld", support.LOADER):
            programs[name] = folder / f"{kind}-{name}"
            support.compile_c(programs[name], HERE / "entropy.c", *flags,
                              f"-Wl,--dynamic-linker={loader}", plugin=False)
        yield f"{kind}, plain ld.so", programs["plain"], {}
        yield f"{kind}, mvld, nothing configured", programs["mvld"], {}
        for placement, passes, where in (("near", "count", "example"), ("as-is", "count", "example"),
                                         ("near", "concat", "concat")):
            config = folder / f"{kind}-{placement}-{passes}.conf"
            config.write_text(f"[app]\nmatch = {programs['mvld']}\npasses = {passes}\n"
                              f"placement = {placement}\n")
            what = f"{kind}, mvld, {'concat' if passes == 'concat' else 'pipeline'}, {placement}"
            yield (what, programs["mvld"],
                   {"MVLD_CONFIG": config, "MVLD_PASS_PATH": support.BUILD / "passes" / where})


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rows = []
    with support.scratch_folder() as folder:
        for what, program, extra in ways(folder):
            values = sample([str(program)], support.clean_environment(**extra), runs)
            for part, of in PARTS.items():
                seen = [of(*value) for value in values]
                rows.append([what, part, len(set(seen)), f"{upper_bound(seen):.1f}",
                             estimate(seen)])
    say(f"{runs} runs each, kernel {os.uname().release}, mmap_rnd_bits "
        + Path("/proc/sys/vm/mmap_rnd_bits").read_text().strip())
    for way, part, values, most, _ in rows:
        if part.startswith("libc"):
            say(f"result: {part}, {way} | {most} | bits at most | {values} values in {runs} runs")
    table(rows, ["way", "part", "values", "at most", "from pairs"])


main()
