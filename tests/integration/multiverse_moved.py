#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""multiverse_moved.py moved|snapshot KIND: a program whose code has moved (direct-calls and
concat before multiverse) looks at its own instructions, there and in the originals (moved/main.c).
KIND: "", or "noplt-" for the program compiled with -fno-plt, whose calls direct-calls changes in moved code only.
"snapshot": the moved code comes from a snapshot; one that was made without multiverse, for which
such objects stay, is none for it.

A failure means that a call that runs does not lead to the variant in force, that
original and moved code differ in what they do, or that a revert leaves something behind."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402


def stays(program, environment, config):
    """Without the pass it is libmultiverse that patches, in the original: that must run."""
    done = support.run([support.LOADER, program], MVLD_DEBUG="passes", **environment,
                       config=config.replace(", multiverse", ""))
    said = done.stderr
    for name in "moved", "liboneof.so", "libother.so":
        check(f"/{name}: stays where it is: its code is patched at run time, by no pass" in said, said)
    check(done.stdout.startswith("program, mode 0: program\n"), done.stdout + said)


def main():
    way, kind = sys.argv[1:]
    support.need(support.PLUGIN)
    with support.scratch_folder() as folder:
        support.take(folder, "integration/moved", *(f"{kind}{name}={name}" for name in ("liboneof.so", "libother.so", "moved")))
        program = folder / "moved"
        environment = support.moving(folder, "--program", program)
        config = f"[app]\nmatch = {program}\n{support.MOVING}\n"
        more = "on-miss = build\n" if way == "snapshot" else ""
        config += more + support.COPY
        stays(program, environment, config)
        for applied in [False, True] if way == "snapshot" else [False]:
            done = support.run([support.LOADER, program], TELL_MAPPED=1, **environment, config=config)
            check(done.returncode == 0,
                  f"status {done.returncode}\n{done.stdout}{done.stderr[-4000:]}")
            check(support.has_moved(done) and bool(support.from_snapshot(done)) == applied, done.stderr)
            print(done.stdout.strip())


if __name__ == "__main__":
    main()
