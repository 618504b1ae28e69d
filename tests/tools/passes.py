# SPDX-License-Identifier: MIT
"""`mvld passes` lists passes with their options, as they declare them.

A failure means that a pass is missing, or shown otherwise than it is.
"""
import json
import subprocess
import sys
from pathlib import Path

from support import contains, equal, finish, run, scratch

mvld = sys.argv[1]

code, out, err = run(mvld, "passes")
equal((code, err), (0, ""), "the passes of this build")
contains(out, "count: counts the objects and segments", "the example")
contains(out, "    what = objects | segments | both; default both\n", "a word")
contains(out, "    at-most = 1 to 1000000; default 100000\n", "a number")
contains(out, "    names = yes | no; default no\n", "a bool")
contains(out, "    note. = text\n", "a prefix")
passes = {p["name"]: p for p in json.loads(run(mvld, "passes", "--json")[1])}
options = {o["name"]: o for o in passes["count"]["options"]}
equal(options["what"], {"name": "what", "type": "word", "default": "both",
                        "words": ["objects", "segments", "both"], "help": "what to count"}, "JSON")
equal((options["at-most"]["min"], options["at-most"]["max"]), (1, 1000000), "JSON: bounds")
binds = Path(mvld).resolve().parents[1] / "tests/loader/start/relocatestage"
bind, = [p for p in json.loads(run(mvld, "passes", "--json", binds)[1]) if p["name"] == "bind"]
equal({o["name"]: o["type"] for o in bind["options"]}, {"from": "symbol", "to": "symbol"}, "JSON: symbols")

with scratch() as folder:
    folder = Path(folder)
    code, out, err = run(mvld, "passes", folder)
    equal((code, out, err), (1, "", f"mvld passes: there are none in {folder}\n"), "none")
    (folder / "text.so").write_text("no pass\n")
    code, out, err = run(mvld, "passes", folder)
    equal((code, out), (1, ""), "a file that is no pass")
    contains(err, f"mvld passes: {folder}/text.so: ", "a file that is no pass")
    code, out, err = run(mvld, "passes", folder / "none")
    equal((code, out, err), (1, "", f"mvld passes: {folder}/none: No such file or directory\n"), "no such folder")
with open("/dev/full", "w") as full:
    p = subprocess.run([mvld, "passes"], stdout=full, stderr=subprocess.PIPE, timeout=60)
equal((p.returncode, p.stderr), (1, b"mvld: writing the output: No space left on device\n"),
      "output that cannot be written is a failure")
equal(run(mvld, "passes", "--nonsense"), (2, "", "mvld passes: unrecognized option '--nonsense'\n"),
      "an unknown option is wrong usage")
finish()
