#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shuffle.py: functions in another order at each start (passes/example/shuffle.c).

A failure means that they are not, that a program then does something else than plainly, or that the pass does not get
along with others.
"""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]


def run(folder, passes, app="", more="", **variables):
    """What the program prints, {original: where it moved to}, and the log."""
    (folder / "conf").write_text(f"[app]\nmatch = main\npasses = {passes}\n{app}[count-instructions]\n"
                                 f"function = libspliced.so:looped\n{more}")
    done = subprocess.run([folder / "main"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env=support.clean_environment(
                              XDG_CACHE_HOME=folder, MVLD_CONFIG=folder / "conf", MVLD_DEBUG="passes,image",
                              MVLD_PASS_PATH=":".join(map(str, [folder, *PASSES])), **variables))
    check(done.returncode == 0, f"{passes}: {done.returncode} {done.stdout}{done.stderr[-3000:]}")
    moved = {(name, original): at for name, _, original, at in support.moved_code(done.stderr)}
    return done.stdout, moved, done.stderr


def order(moved):
    """The pieces as they lie, each by its place among those of its object."""
    places = {}
    for name, at in sorted(moved):
        places.setdefault(name, []).append(at)
    return [(name, places[name].index(at)) for (name, at), _ in sorted(moved.items(), key=lambda piece: piece[1])]


with support.scratch_folder() as folder:
    support.take(folder, "loader/manager/removes", "debloat.so")
    support.take(folder, "loader/manager/splices", "main", "libspliced.so", "libother.so", "count-instructions.so",
                 "shuffle.so")
    libc = next(line.split()[2] for line in subprocess.run(["ldd", folder / "main"], capture_output=True, text=True)
                .stdout.splitlines() if "libc.so.6" in line)
    support.analyze(folder, folder / "main", folder / "libspliced.so", folder / "libother.so", libc)
    plain, _, _ = run(folder, "shuffle", MVLD="off")
    orders = []
    for passes in ("shuffle", "shuffle", "direct-calls, shuffle", "shuffle, direct-calls"):
        said, moved, log = run(folder, passes)
        check(said == plain and len(moved) > 1000, f"{passes}: {said}, {len(moved)} moved\n{log[-2000:]}")
        orders.append(order(moved))
        neighbours = sum(b == (a[0], a[1] + 1) for a, b in zip(orders[-1], orders[-1][1:]))
        check(neighbours < len(moved) / 20, f"{passes}: {neighbours} of {len(moved)} are where they were")
    check(orders[0] != orders[1], "twice in the same order")
    # In front of it a pass has changed one library, which stays.
    said, moved, log = run(folder, "count-instructions, shuffle")
    check(said == plain and len(moved) > 1000 and not any("libspliced" in name for name, _ in moved) and
          "code runs in front of" in log, log[-3000:])
    # Code moves once, and concat says who moves it (shuffle says no reasons).
    for passes, words in ("shuffle, concat", "the pass 'shuffle' moves it"), ("concat, shuffle", ""):
        said, moved, log = run(folder, passes, more=support.COPY)
        check(said == plain and moved and words in log, f"{passes}: {said}\n{log[-3000:]}")
    # A snapshot holds the removed functions of libraries, which stay; the program, without any, moves.
    for passes, at_least in ("shuffle", 1000), ("debloat, shuffle", 1):
        for _ in range(3):
            said, moved, log = run(folder, passes, app="on-miss = build\n")
            check(said == plain and len(moved) >= at_least, f"{passes}, where snapshots are made: {said}\n{log[-3000:]}")
    check(not any("libc.so" in name for name, _ in moved), f"{moved}\n{log[-3000:]}")
    said, moved, log = run(folder, "shuffle", more="[shuffle]\nleave = libspliced.so\n")
    check(said == plain and moved and not any("libspliced" in name for name, _ in moved), log[-3000:])
