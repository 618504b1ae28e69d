#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""patched.py BEHAVIOUR: a pass changes code byte by byte (patched/pass.c), and another moves code.

Each function below is one test; its text says what a failure means.
"""
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

PLAIN = {"answer": 1, "outer": 1, "other": 2, "moved": 1, "other_moved": 1}
EXDEV = 18


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/patched", "main", "libpatched.so", "libother.so", "splice.so")
        support.analyze(folder, self.program, folder / "libpatched.so", folder / "libother.so")

    def is_plain_but(self, passes, results, changed, **options):
        """What the program prints; and of each patch, what became of it."""
        config = (f"[app]\nmatch = main\npasses = {passes}\n[splice]\n" +
                  "".join(f"{key} = {value}\n" for key, value in options.items()) + support.COPY)
        places = [self.folder, support.BUILD / "passes" / "direct-calls", support.BUILD / "passes" / "concat"]
        done = support.run([self.program], config=config, XDG_CACHE_HOME=self.folder, MVLD_DEBUG="passes",
                           MVLD_PASS_PATH=":".join(map(str, places)), timeout=60)
        said = {key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", done.stdout)}
        case = f"{passes}, {options}"
        check(done.returncode == 0 and said == {**PLAIN, **changed},
              f"{case}: status {done.returncode}, it says {said}\n{done.stderr}")
        found = [-int(n) for n in re.findall(r"splice: result (-?\d+)", done.stderr)]
        check(found == results, f"{case}: {found}\n{done.stderr}")
        return done.stderr


def before(world):
    """What a pass made of the code is lost or torn when a pass behind it moves code, or nothing moves at all
    because of it."""
    for passes in ("splice, concat", "direct-calls, splice, concat", "splice, direct-calls, concat"):
        for what, value in (("answer", {"answer": 2}), ("wide", {"answer": 2}), ("outer", {"outer": 41})):
            for look in ("no", "yes"):
                world.is_plain_but(passes, [0], {**value, "moved": 0}, what=what, look=look)


def libc(world):
    """Nothing moves, or nothing of libraries that no pass has changed, because one has changed the C library."""
    found = subprocess.run(["ldd", world.program], capture_output=True, text=True).stdout
    support.analyze(world.folder, re.search(r"libc\.so\.6 => (\S+)", found)[1])
    for passes in ("splice, concat", "direct-calls, splice, concat", "splice, direct-calls, concat"):
        log = world.is_plain_but(passes, [0], {}, what="libc")
        check("concat: error" not in log and "pass concat failed" not in log, f"{passes}\n{log}")


def behind(world):
    """A patch is reported as done, and the code that runs is another one; or what is patched at all places is not
    changed."""
    for passes in ("concat, splice", "direct-calls, concat, splice"):
        for what, value in (("answer", {"answer": 2}), ("wide", {"answer": 2}), ("outer", {"outer": 41})):
            world.is_plain_but(passes, [EXDEV], {}, what=what)
            world.is_plain_but(passes, [0], value, what=what, places="all")


def early(world):
    """Code is changed in the stage relocate, where the image does not know of moved code."""
    said = world.is_plain_but("concat, splice", [EXDEV], {})
    check("splice: no batch before run" in said and "splice: a batch" not in said, said)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
