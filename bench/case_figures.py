# SPDX-License-Identifier: MIT
"""case_figures.py service|grep: a case study's figures, with more rounds than the demo."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo  # noqa: E402
import support  # noqa: E402

support.need(support.PLUGIN)
name = sys.argv[1]
sizes = {"megabytes": 200, "rounds": 21} if name == "grep" else {}
rows = demo.load(name).run(support.BUILD / "demo" / name, **sizes)
for what, figure, ok in rows:
    if ok is False:
        sys.exit(f"{what}: {figure}")
    if ok is None:
        print(f"result: {what} | {figure}")
