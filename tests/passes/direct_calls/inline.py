# SPDX-License-Identifier: MIT
"""Calls of functions of a single instruction: where they stood, the instruction stands in the process, in
images and in moved code; calls of others stay calls, and so does all where the pass is told to, or
where functions may be changed.

A failure means: a program computes something else, or what should be changed is not.

Argument: a way, one of those below.
"""
import re
import subprocess
import sys

import support
from support import check

MVLD = support.BUILD / "tools" / "mvld"
# way -> (passes, snapshot, tunables)
WAYS = {
    "process": ("direct-calls", False, ""),
    "snapshot": ("direct-calls", True, ""),
    "concat": ("direct-calls, concat", False, support.COPY_TUNABLE),
    "concat-snapshot": ("direct-calls, concat", True, support.COPY_TUNABLE),
    "fragments": ("direct-calls, concat", False, "concat.order=random-functions"),
    "fragments-snapshot": ("direct-calls, concat", True, "concat.order=random-functions"),
    "off": ("direct-calls", False, "direct-calls.inline=no"),
    "described": ("direct-calls", False, ""),
}
INSTEAD = {"one": "b801000000", "zero": "2e2e2e31c0", "same": "2e2e4889f8"}
way = sys.argv[1]


def sites(library):
    """{function: offset in `caller` of its call}."""
    text = subprocess.run(["objdump", "-d", "--disassemble=caller", library], capture_output=True,
                          text=True, check=True).stdout
    start = int(re.search(r"^([0-9a-f]+) <caller>:", text, re.M)[1], 16)
    return {name: int(at, 16) - start
            for at, name in re.findall(r"^ *([0-9a-f]+):.*\bcall.*<(\w+)>", text, re.M)}


with support.scratch_folder() as folder:
    library, program, cache = folder / "libinline.so", folder / "program", folder / "cache"
    support.take(folder, "passes/direct_calls/programs", "inline=program",
                 ("inline-described.so" if way == "described" else "libinline.so") + "=libinline.so")
    done = support.run([MVLD, "analyze", "--output", cache / "mvld" / "analysis", "--program", program])
    check(done.returncode == 0, done.stderr)
    passes, snapshot, tunables = WAYS[way]
    own = {"config": f"[app]\nmatch = *\npasses = {passes}\n", "XDG_CACHE_HOME": cache,
           "MVLD_TUNABLES": tunables,
           "MVLD_PASS_PATH": ":".join(str(support.BUILD / "passes" / p) for p in ("direct-calls", "concat"))}
    plain = support.run([program], MVLD="off")
    where = sites(library)
    check(set(where) == {"one", "zero", "same", "nothing", "load"}, where)
    if snapshot:
        done = support.run([program], MVLD_SNAPSHOT="1", **own)
        check(done.returncode == 0, done.stdout + done.stderr)
    done = support.run([program], TELL_MAPPED=1, **own)
    check(done.returncode == 0, done.stderr)
    check(("libinline.so" in support.from_snapshot(done)) == snapshot, done.stderr)
    check(support.has_moved(done) == ("concat" in passes), done.stderr)
    (sum_, code), (plain_sum, plain_code) = done.stdout.split(), plain.stdout.split()
    check(sum_ == plain_sum == "4301", f"{sum_}, not {plain_sum}")
    for name, at in where.items():
        is_, was = code[2 * at:2 * at + 10], plain_code[2 * at:2 * at + 10]
        check(was[:2] == "e8", was)
        if name in INSTEAD and way not in ("off", "described"):
            check(is_ == INSTEAD[name], f"{name}: {is_}, not {INSTEAD[name]}")
        elif "random" in tunables:
            check(is_[:2] == "e8", f"{name}: {is_}, was {was}")
        else:
            check(is_ == was, f"{name}: {is_}, was {was}")
    done = support.run([program], MVLD="off", **own)
    check(done.stdout == plain.stdout, done.stdout)
