# SPDX-License-Identifier: MIT
"""case_figures.py service|grep|direct: a case study's figures, with more rounds than the demo."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo  # noqa: E402
import support  # noqa: E402

name = sys.argv[1]
if name != "direct":
    support.need(support.PLUGIN)
sizes = {"grep": {"megabytes": 200, "rounds": 21}, "direct": {"rounds": 15, "starts": 200},
         "service": {}}[name]
rows = demo.load(name).run(support.BUILD / "demo" / name, **sizes)
for what, figure, ok in rows:
    if ok is False:
        sys.exit(f"{what}: {figure}")
    if ok is None:
        print(f"result: {what} | {figure}")
