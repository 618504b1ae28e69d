#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""taken_back.py BEHAVIOUR: what a pass wants is taken back, by a pass behind it, or because it fails; and what two
passes cannot both have (taken_back/pass.c, over the program of tables/).

Each function below is one test; its text says what a failure means.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, BUILD  # noqa: E402

PLAIN = {"call": 1, "lea": 1, "word": 1, "relro": 1, "slot": 2, "choose": 201}
CALLS = {**PLAIN, "slot": 200}
REFERENCES = {**PLAIN, "call": 200, "lea": 200, "word": 200, "relro": 200}


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/tables", "main", "libcalled.so")
        support.take(folder, "loader/manager/taken_back", "first.so", "second.so")
        support.analyze(folder, self.program, folder / "libcalled.so")

    def run(self, passes, first="nothing", second="nothing", fails="none"):
        """What the program says, and the log."""
        config = f"[app]\nmatch = main\npasses = {passes}\n" + support.COPY
        for name, does in ("first", first), ("second", second):
            config += f"[{name}]\ndoes = {does}\nfails = {'yes' if fails == name else 'no'}\n"
        places = [self.folder, BUILD / "passes" / "direct-calls", BUILD / "passes" / "concat"]
        done = support.run([self.program], config=config, XDG_CACHE_HOME=self.folder, MVLD_DEBUG="passes,files",
                           MVLD_PASS_PATH=":".join(map(str, places)))
        check(done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return {key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", done.stdout)}, done.stderr


def says(said, wanted):
    check(said[0] == wanted, f"it says {said[0]} instead of {wanted}\n{said[1]}")


def behind(world):
    """Calls and references stay retargeted though a later pass took that back; or an earlier pass did."""
    for does, changed in ("calls", CALLS), ("references", REFERENCES):
        for around in "{}", "direct-calls, {}", "{}, direct-calls", "{}, concat", "{}, direct-calls, concat":
            says(world.run(around.format("first"), first=does), changed)
            says(world.run(around.format("first, second"), first=does, second=does + "-back"), PLAIN)
            says(world.run(around.format("second, first"), first=does, second=does + "-back"), changed)
            says(world.run(around.format("first, second"), first=does, second=does), changed)


def through_slots(world):
    """Calls that a pass took back from direct-calls are direct all the same; or direct-calls does not reach what
    was taken back before."""
    made = []
    for passes in "direct-calls", "direct-calls, second", "second, direct-calls":
        said = world.run("first, " + passes, first="calls", second="calls-back")
        says(said, CALLS if passes == "direct-calls" else PLAIN)
        made.append(int(re.search(rf"direct-calls: {world.program}: (\d+) of", said[1])[1]))
    check(made[1] == made[0] - 5 and made[2] == made[0], f"direct: {made}, with 5 calls of `called`")


def fails(world):
    """Of a pass that fails something is there all the same, or of the other one something is not."""
    for does, changed in ("calls", CALLS), ("references", REFERENCES):
        says(world.run("first, second", first=does, fails="first"), PLAIN)
        says(world.run("first, second", first=does, second=does + "-back", fails="second"), changed)
    for fails_, where in ("none", 1), ("first", 0):
        said = world.run("first, second", first="domain", fails=fails_)
        says(said, PLAIN)
        check(f"second: the program is in domain {where}" in said[1], said[1])


def sections(world):
    """A section that its pass removes is there; one that is in use, or another pass's, is not; or nobody says
    why."""
    says(world.run("first", first="section"), PLAIN)
    says(world.run("first, second", first="section", second="section"), PLAIN)
    values, log = world.run("first", first="section-led")
    says((values, log), {**PLAIN, "word": 100})
    check("removed while it is led to: -16" in log and "a reference is wanted there" in log, log)
    values, log = world.run("first, second", first="section-led", second="section-others")
    says((values, log), {**PLAIN, "word": 100})
    check("the pass 'first' added it" in log, log)


def conflicts(world):
    """Who cannot have what it wants is not told which pass has it."""
    values, log = world.run("first, concat", first="patch")
    says((values, log), PLAIN)
    check(re.search(rf"{world.program}.*the pass 'first' changed its code", log), log)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
