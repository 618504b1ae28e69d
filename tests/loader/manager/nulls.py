#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nulls.py BEHAVIOUR: a pass calls every function of mvld/pass.h with every combination of valid arguments, NULL, and
pointers to zeros, in every stage (nulls/generate.py makes the calls of the header).

A failure means that a function of the header crashes where it should refuse (apart), or that after such calls
the program or the image is another one (together).
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

behaviour = sys.argv[1]
with support.scratch_folder() as folder:
    support.take(folder, "loader/manager/nulls", "main", "nulls.so")
    support.take(folder, "loader/manager/tables", "liblate.so", "libcalled.so")
    support.analyze(folder, folder / "main", folder / "liblate.so", folder / "libcalled.so")
    apart = {"apart": "yes", "together": "no"}[behaviour]
    done = support.run([folder / "main", folder / "liblate.so"], XDG_CACHE_HOME=folder, MVLD_DEBUG="passes",
                       config=f"[app]\nmatch = main\npasses = nulls\n[nulls]\napart = {apart}\n",
                       MVLD_PASS_PATH=folder, timeout=300)
    log = done.stderr
    ended = re.findall(r"nulls: (.*): ended with", log)
    names = sorted({line.split(", ")[-2] for line in ended})
    check(not ended, f"{len(ended)} calls crash, of {' '.join(names)}:\n" + "\n".join(ended[:200]))
    check(done.returncode == 0 and done.stdout == "late 5\n", f"status {done.returncode} {done.stdout}\n{log[-3000:]}")
    for stage in ("map", "relocate", "run", "later", "removed"):
        check(re.search(rf"nulls: {stage}: (\d\d) functions, (\d\d\d\d?) calls", log), f"{stage}: {log[-3000:]}")
