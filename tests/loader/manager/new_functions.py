#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""new_functions.py BEHAVIOUR: code that a pass adds and that has frames of its own (new_sections/frames.c): its names; exceptions,
backtraces and debuggers get through it.

Each function below is one test; its text says what a failure means.
"""
import re
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "start")]
import support  # noqa: E402
from observe import gdb  # noqa: E402
from support import check  # noqa: E402

CALLS = 100  # as meson.build says
PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/new_sections", "main", "libcalled.so", "frames.so")
        support.analyze(folder, self.program, folder / "libcalled.so")

    def start(self, *arguments, passes="frames", wrong="nothing", places=PASSES, **more):
        (self.folder / "conf").write_text(f"[app]\nmatch = main\npasses = {passes}\n[frames]\nwrong = {wrong}\n" +
                                         support.COPY * ("concat" in passes))
        return subprocess.Popen(
            [self.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, env=support.clean_environment(
                XDG_CACHE_HOME=self.folder, MVLD_CONFIG=self.folder / "conf", MVLD_DEBUG="passes",
                MVLD_PASS_PATH=":".join(map(str, [self.folder, *places])), MVLD_DEBUG_OUTPUT=self.folder / "log",
                **more))

    def log(self, process):
        return (self.folder / f"log.{process.pid}").read_text()

    def run(self, **more):
        with self.start(**more) as process:
            out, err = process.communicate(timeout=60)
        perf = Path(f"/tmp/perf-{process.pid}.map")
        check(process.returncode == 0 and not err, f"{process.returncode} {out}{err}")
        check(not perf.exists(), "perf is told names of code that nobody runs")
        return out, self.log(process) if "MVLD" not in more else ""


def ready(process):
    said = []
    while not said or said[-1] != "ready\n":
        said.append(process.stdout.readline())
        check(said[-1], f"it ended: {said}")
    return said


def added(world, passes="frames"):
    """Exceptions and backtraces go through the code that was added as through that of any library; each call
    went through it; perf has its names."""
    plain, _ = world.run(MVLD="off")
    check(plain.count("caught it") == 3 and "frame" in plain, plain)
    with world.start("wait", passes=passes) as process:
        said, log = "".join(ready(process)), world.log(process)
        (world.folder / "text").write_text(log)
        code, counter = (int(n, 16) for n in re.search(r"frames: code at 0x(\w+), counter at 0x(\w+)", log).groups())
        with open(f"/proc/{process.pid}/mem", "rb") as memory:
            memory.seek(counter)
            counted = struct.unpack("Q", memory.read(8))[0]
        perf = Path(f"/tmp/perf-{process.pid}.map")
        names = perf.read_text()
        perf.unlink()
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        process.kill()
        process.communicate()
    frames = [line for line in said.splitlines() if "/libconcat.so.1" in line]
    check(len(frames) == 1, said)
    check(said.replace(frames[0] + "\n", "").replace("ready\n", "") == plain.replace("ready\n", ""),
          f"{said}\nplainly\n{plain}")
    check(CALLS + 4 <= counted <= CALLS + 5, f"{counted} of {CALLS} calls\n{log}")
    check(f"{code:x} 21 count_called\n" in names and f"{code + 48:x} 10 behind_it\n" in names, names)
    check(" rwx" not in maps and re.search(rf"^{code:x}-\w+ r-xp ", maps, re.M), maps)
    return code


def moved(world):
    """The same where other code moves into the same region behind it; no backtrace has a frame more or less."""
    code = added(world, "frames, concat")
    first = min(at for *_, at in support.moved_code((world.folder / "text").read_text()))
    check(code < first, f"no code has moved behind {code:x}")


def debugger(world):
    """gdb names the code, and goes through its frame; where other code has moved, too."""
    for passes in ("frames", "frames, concat"):
        with world.start("wait", passes=passes) as process:
            ready(process)
            text = gdb("-ex", "thread apply all backtrace", "-ex", "info symbol count_called",
                       "-ex", "info symbol behind_it", "-ex", "set var *(int*)&go_on = 1", "-ex", "detach", "-p", process.pid)
            out, err = process.communicate(timeout=60)
            Path(f"/tmp/perf-{process.pid}.map").unlink()
        check(process.returncode == 0, f"{process.returncode} {out}{err}{text}")
        found = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+) ", text, re.M)
        at = found.index("called") if "called" in found else 0
        check(found[at:at + 3] == ["called", "count_called", "main"], text)
        check("count_called in section .text" in text and "behind_it in section .text" in text, text)


def wrong(world):
    """What is wrong is refused with a sentence, and the program does what it does plainly."""
    plain, _ = world.run(MVLD="off")
    for kind, words in (("overlap", "function 1 of new code: it overlaps"), ("outside", "function 1 of new code: it"),
                        ("name", "function 1 of new code: it has no name"),
                        ("frame", "function 1 of new code: its frame"),
                        ("cut", "function 0 of new code: its frame"), ("none", "none, or too many"),
                        ("many", "none, or too many"), ("moves", "code is about to move"), ("fail", "it fails")):
        out, log = world.run(wrong=kind)
        check(out == plain and words in log, f"{kind}: {out}{log}")
    out, log = world.run(places=[])
    check(out == plain and "the library to which code moves (libconcat.so.1) is not in the program" in log, f"{out}{log}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"added": added, "moved": moved, "debugger": debugger, "wrong": wrong}[sys.argv[1]](World(scratch))
