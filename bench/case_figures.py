# SPDX-License-Identifier: MIT
"""case_figures.py NAME: the figures of the case study bench/NAME; of those of the demo, with more rounds."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo  # noqa: E402
import sources  # noqa: E402
import support  # noqa: E402

support.need(support.PLUGIN)
name = sys.argv[1]
sizes = {"megabytes": 200, "rounds": 21} if name == "grep" else {}
try:
    rows = demo.load(name).run(support.BUILD / "demo" / name, **sizes)
except sources.Unavailable as error:
    support.skip(error)
for what, figure, ok in rows:
    if ok is False:
        sys.exit(f"{what}: {figure}")
    print(f"result: {what} | {figure}")
