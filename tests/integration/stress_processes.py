#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stress_processes.py METHOD LOADER COUNT: stress/processes.c starts COUNT processes
each by fork, vfork and posix_spawn while it commits and reverts.  METHOD and LOADER
as in stress.py."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402


def main():
    method, loader, count = sys.argv[1:4]
    with support.scratch_folder() as folder:
        support.take(folder, "integration/stress", ("musl-" if support.MUSL else "") + "processes=processes")
        program = folder / "processes"
        config = f"[app]\nmatch = {program}\npasses = multiverse\npatch = {method}\n"
        start = [support.LOADER] if loader == "mvld" else []
        done = support.run([*start, program, count, *sys.argv[4:]], config=config, timeout=100)
        print(done.stdout, done.stderr)
        support.check(done.returncode == 0, f"status {done.returncode}")


if __name__ == "__main__":
    main()
