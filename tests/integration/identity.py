#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Everything that asks for an address keeps its answer, wherever code runs.

Each file of identity/ is a program and its libraries, in the form that
tests/conformance/behaviours.py describes.  It is run under the host loader, and under mvld
with each pipeline below, every object analysed; what it prints must be the same.  The
behaviours of tests/conformance can be named, too.

With concat, code moves.  A program that says RUNS (identity/identity.h) in the code
under test then ends with a sentence where that code has not moved: what ran in the
original would prove nothing.  In a run that says IDENTITY=original, no code may run in moved code.

A failure means that a program can tell by an address that passes changed its code.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "conformance")]
import behaviours  # noqa: E402
import support  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
LIBRARIES = "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"
SNAPSHOT = "snapshot"  # in a pipeline: from a snapshot, where one can be made
LEARNT = "learnt"  # in a pipeline: likewise, and what comes by dlopen is added
SCATTERED = "scattered"  # in a pipeline: concat puts each function elsewhere
PIPELINES = [["direct-calls"], ["direct-calls", SNAPSHOT], ["direct-calls", "concat"],
             ["direct-calls", "concat", SNAPSHOT], ["direct-calls", "concat", LEARNT],
             ["direct-calls", "concat", "multiverse"],
             ["direct-calls", "concat", SCATTERED], ["direct-calls", "concat", SCATTERED, SNAPSHOT]]
# What each leaves in the log of a program that it worked on.
WORKED = {"direct-calls": r"direct-calls: .* [1-9]\d* of \d+ sites made direct|its work is in the snapshot",
          "concat": r"concat: [1-9]\d* objects|pass concat: its work is in the snapshot",
          SCATTERED: r"[1-9]\d* fragments of it moved|its work is in the snapshot",
          "multiverse": "pass multiverse: done"}


def pipelines():
    built = {path.stem for path in behaviours.passes_built()} | {SNAPSHOT, LEARNT, SCATTERED}
    return [names for names in PIPELINES if built.issuperset(names)]


def analyse(folder, cache):
    """Everything in the folder, and the libraries that nearly every program needs."""
    objects = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
               and path.read_bytes()[:4] == b"\x7fELF"]
    libraries = Path(os.path.realpath(support.HOST_LOADER)).parent
    objects += [path for name in LIBRARIES if (path := libraries / name).exists()]
    done = subprocess.run([MVLD, "analyze", "--output", cache / "mvld" / "analysis", *objects],
                          env=support.clean_environment(), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=100)
    support.check(done.returncode == 0, f"{done.stdout}{done.stderr}")


class Bench(behaviours.Bench):
    """With the analyses; snapshots are made by the first run."""

    def __init__(self, folder):
        super().__init__(folder)
        self.cache = folder / "cache"
        self.cache.mkdir()
        analyse(folder, self.cache)

    def configure(self, passes):
        names = [name for name in passes if name not in (SNAPSHOT, LEARNT, SCATTERED)]
        keys = {SNAPSHOT: "on-miss = build\n", LEARNT: "on-miss = learn\n"}
        environment = super().configure(names, "".join(keys.get(name, "") for name in passes),
                                        "order = random-functions\n" * (SCATTERED in passes))
        environment["XDG_CACHE_HOME"] = str(self.cache)
        if "concat" in passes:
            environment["IDENTITY"] = "moved"
        return environment

    def check_in_place(self, line, passes):
        said = self.run(support.LOADER, f"MVLD_DEBUG=files,passes {line}", passes)
        for name in passes:
            support.check(name in (SNAPSHOT, LEARNT) or re.search(WORKED[name], said),
                          f"{name} did nothing:\n{said}")


def main():
    support.need(support.LOADER)
    os.environ["CPATH"] = str(HERE / "identity")
    for name in sys.argv[1:]:
        behaviours.compare(Path(name).resolve(), Bench, pipelines())


if __name__ == "__main__":
    main()
