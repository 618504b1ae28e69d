# SPDX-License-Identifier: MIT
"""Prints of meson's testlog.json which tests were skipped and why, the last lines of those that failed, and "N passed,
N failed, N skipped".

Expected failures count as passed; a test that timed out, was interrupted or
passed against its expectation counts as failed.  No test at all is an error.
"""
import json
import sys

counts = {"passed": 0, "failed": 0, "skipped": 0}
with open(sys.argv[1]) as log:
    for line in log:
        test = json.loads(line)
        result = test["result"]
        key = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(result, "failed")
        counts[key] += 1
        said = (test.get("stdout", "") + test.get("stderr", "")).strip().splitlines()
        if key == "failed":
            print(f"failed {test['name']}:", *said[-20:], sep="\n    ")
        if key == "skipped":
            print(f"skipped {test['name']}: {said[-1].removeprefix('skipped: ') if said else 'it does not say why'}")
if not any(counts.values()):
    sys.exit("count.py: no test ran")
print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
