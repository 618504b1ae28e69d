#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""new_sections.py BEHAVIOUR: code and data that a pass adds (passes/example/count-calls.c).

Each function below is one test; its text says what a failure means.
"""
import re
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

CALLS = 1234  # as meson.build says


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "counted"
        support.take(folder, "loader/manager/new_sections", "count-calls.so", "libcounted.so", "counted")
        support.analyze(folder, self.program, folder / "libcounted.so")
        (folder / "conf").write_text("[app]\nmatch = counted\npasses = count-calls\n")
        self.environment = {"XDG_CACHE_HOME": folder, "MVLD_PASS_PATH": folder, "MVLD_CONFIG": folder / "conf"}

    def start(self, **more):
        return subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=support.clean_environment(**{**self.environment, **more}))


def calls_counted(process, log, program):
    """Of called(), by the pass in this process."""
    found = re.search(rf"{program}: (\d+) slots at 0x(\w+)", log)
    check(found, log)
    slots = {name: int(offset, 16) for offset, name in re.findall(
        r"^(\w+) .*R_X86_64_(?:JUMP_SLO|GLOB_DAT)\w* +\w+ (\w+)", subprocess.run(
            ["readelf", "-rW", program], capture_output=True, text=True).stdout, re.M)}
    with open(f"/proc/{process.pid}/mem", "rb") as memory:
        memory.seek(int(found[2], 16))
        counters = dict(struct.iter_unpack("QQ", memory.read(16 * int(found[1]))))
    return counters[min(counters) - min(slots.values()) + slots["called"]]


def counts(world):
    """The counter of a slot is the number of calls through it; the code that counts is executed and not
    written; a backtrace shows the frames that it shows plainly."""
    with world.start(MVLD="off") as plain:
        frames = plain.stdout.readline()
        plain.communicate("\n")
    with world.start(MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=world.folder / "log") as process:
        check(process.stdout.readline() == frames, "other frames than plainly")
        log = (world.folder / f"log.{process.pid}").read_text()
        counted = calls_counted(process, log, world.program)
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        process.communicate("\n")
    check(counted == CALLS, f"{counted} calls counted, {CALLS} made\n{log}")
    check(" rwx" not in maps, maps)
    code = [line for line in maps.splitlines() if re.search(r" r-xp 00000000 00:00 0 *$", line)]
    check(code, "no new code is mapped\n" + maps)


def no_room(world):
    """Where no addresses near the program are free, the pass fails with a sentence, and nothing is changed."""
    with world.start(MVLD_TUNABLES="app.placement=as-is", MVLD_DEBUG="passes",
                     MVLD_DEBUG_OUTPUT=world.folder / "log") as process:
        process.stdout.readline()
        log = (world.folder / f"log.{process.pid}").read_text()
        maps = Path(f"/proc/{process.pid}/smaps").read_text()
        process.communicate("\n")
    check(process.returncode == 0 and "no room near the program" in log, log)
    text = maps.split(str(world.program))[2]  # its code is the second mapping of its file
    check(re.search(r"Anonymous: +0 kB", text), "code was changed\n" + text[:900])


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"counts": counts, "no_room": no_room}[sys.argv[1]](World(scratch))
