# SPDX-License-Identifier: MIT
"""Prints "N passed, N failed, N skipped", counted from meson's testlog.json.

Expected failures count as passed; a test that timed out, was interrupted or
passed against its expectation counts as failed.  No test at all is an error.
"""
import json
import sys

counts = {"passed": 0, "failed": 0, "skipped": 0}
with open(sys.argv[1]) as log:
    for line in log:
        result = json.loads(line)["result"]
        key = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(result, "failed")
        counts[key] += 1
if not any(counts.values()):
    sys.exit("count.py: no test ran")
print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
