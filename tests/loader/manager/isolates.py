#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""isolates.py BEHAVIOUR: a library's data that others may not touch: passes/example/isolate.c.

Each function below is one test; its text says what a failure means.
"""
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]
GATES = "".join(f"gate.{name} = vault_{name}\n" for name in ("sum", "scaled", "pair", "call", "address"))


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/isolates", "main", "libvault.so", "isolate.so")
        support.analyze(folder, self.program, folder / "libvault.so")

    def run(self, *arguments, passes="isolate", options=f"library = libvault.so\n{GATES}", prefix=(), **more):
        """The finished process, and the log."""
        (self.folder / "conf").write_text(f"[app]\nmatch = main\npasses = {passes}\n[isolate]\n{options}" +
                                         support.COPY * ("concat" in passes))
        done = subprocess.run([*prefix, self.program, *arguments], stdin=subprocess.DEVNULL, timeout=100,
                              capture_output=True, text=True, env=support.clean_environment(
                                  XDG_CACHE_HOME=self.folder, MVLD_CONFIG=self.folder / "conf", MVLD_DEBUG="passes",
                                  MVLD_PASS_PATH=":".join(map(str, [self.folder, *PASSES])),
                                  MVLD_DEBUG_OUTPUT=self.folder / "log", **more))
        log = support.take_log(self.folder)
        return done, log


def isolates(world):
    """Who calls through a gate gets another result, or no backtrace; or who does not reads the data all the same.  Alone,
    and before and behind passes that change calls and move code."""
    plain = world.run(passes="", MVLD="off")[0].stdout
    # A frame more: that of the gate.
    expected = re.sub(r"^(\d+) (\d+)$", lambda m: f"{m[1]} {int(m[2]) + 1}", plain, flags=re.M, count=1)
    for passes in ("isolate", "isolate, direct-calls", "direct-calls, isolate", "isolate, concat", "concat, isolate",
                   "direct-calls, isolate, concat"):
        done, log = world.run(passes=passes)
        check(done.returncode == 0 and done.stdout == expected and re.search(r"isolate: \d+ gates, by ", log),
              f"{passes}: {done}\nplainly: {plain}\n{log}")
        for what in ("peek", "unlisted"):
            done, log = world.run(what, passes=passes)
            check(done.returncode == -signal.SIGSEGV and expected.startswith(done.stdout), f"{passes} {what}: {done}\n{log}")


def refused(world):
    """Data that cannot be protected, or a gate for nothing, makes a program that crashes."""
    plain = world.run(passes="", MVLD="off")[0].stdout
    done, log = world.run(options=f"library = libvault.so\n{GATES}gate.x = no_such\n")
    check(done.stdout == plain and done.returncode == 0 and "there is no no_such" in log, f"{done}{log}")
    for limit in 100_000_000, 1_000_000_000:  # gates would be in libconcat.so.1, which takes 320 MiB
        done, log = world.run(prefix=["prlimit", f"--as={limit}"], passes="isolate, concat")
        check((done.returncode, done.stdout, done.stderr) == (0, plain, "") and "isolate: no code is added" in log,
              f"{done}{log}")
    for options, why in (("-z,lazy", "the host loader writes to slots in it"),
                         ("-z,now,-z,norelro,--section-start=.init_array=0x8000", "the host loader reads the dynamic section")):
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-Wl,--build-id,{options}", "-o", world.folder / "libvault.so",
                        HERE / "isolates" / "vault.c"], check=True)
        support.analyze(world.folder, world.folder / "libvault.so")
        done, log = world.run()
        check(done.stdout == plain and done.returncode == 0 and why in log, f"{done}{log}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
