#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stress_dlopen.py LOADER CYCLES (LOADER: mvld, moved or plain, as of stress.py): stress/late_main.c opens and closes libraries with
switches, variation points and call sites that need each other, in every mode of
dlopen.  A failure means that an object that came was not bound (under mvld: before
its constructors), that one that went is still in use, or that one that came again
at another place, or at the same, is taken for the old one."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402


def main():
    loader, cycles = sys.argv[1:3]
    with support.scratch_folder() as folder:
        support.take(folder, "integration/stress", "liblate1.so", "liblate2.so", "libalone.so", "late_main")
        program = folder / "late_main"
        passes, more = "passes = multiverse", {}
        if loader == "moved":
            more = support.moving(folder, "--program", program, folder / "liblate1.so", folder / "liblate2.so")
            passes = support.MOVING
            more.update(MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=folder / "log")
        config = f"[app]\nmatch = {program}\n{passes}\n[multiverse]\ncommit = manual\n" + \
            support.COPY * (loader == "moved")
        command = [program, cycles, folder] if loader == "plain" \
            else [support.LOADER, program, cycles, folder, "eager"]
        done = support.run(command, config=config, timeout=100, **more)
        print(done.stdout, done.stderr)
        said = "".join(path.read_text() for path in folder.glob("log.*"))
        for name in ["late1", "late2"] if loader == "moved" else []:
            times = [moved for moved, *_ in support.moved_code(said)].count(f"lib{name}.so")
            support.check(times > 9, f"lib{name}.so moved {times} times")
        support.check(done.returncode == 0, f"status {done.returncode}")


if __name__ == "__main__":
    main()
