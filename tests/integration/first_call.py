#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""first_call.py LOADER: stress/first_call.c forks in its first call of libmultiverse.  LOADER as in
stress.py."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402


def main():
    with support.scratch_folder() as folder:
        support.take(folder, "integration/stress", ("musl-" if support.MUSL else "") + "first_call=first_call")
        program = folder / "first_call"
        config = f"[app]\nmatch = {program}\npasses = multiverse\n[multiverse]\ncommit = manual\n"
        start = [support.LOADER] if sys.argv[1] == "mvld" else []
        done = support.run([*start, program], config=config, timeout=60)
        support.check(done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
