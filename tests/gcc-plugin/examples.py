# SPDX-License-Identifier: MIT
"""The examples of multiverse.h, multiverse(3) and gcc-plugin/README.md compile without a warning, as printed, and
the programs do what their comments say.

Arguments: plugin, include folder, folder of libmultiverse.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

plugin, include, library = map(os.path.abspath, sys.argv[1:])
source = Path(__file__).parents[2]
REST = """
#include <stdio.h>
void step(void);
void report(void) { printf("report "); }
void work(void) { printf("work\\n"); }
void run(void) { step(); }
"""
header = (source / "include/multiverse.h").read_text().partition(" * Example\n *\n")[2].partition(" *\n *   The callers")[0]
page = (source / "tools/man/multiverse.3").read_text()
EXAMPLES = {
    "multiverse.h": (re.sub(r"^ \* {0,5}", "", header, flags=re.M), "work\nreport work\n"),
    "multiverse.3": (re.search(r"^\.Sh EXAMPLES\n.*?^\.Bd .*?\n(.*?)^\.Ed", page, re.M | re.S)[1], "work\nreport work\n"),
    "README.md": (re.search(r"^```c\n(.*?)^```", (source / "gcc-plugin/README.md").read_text(), re.M | re.S)[1]
                  + "int main(void) { step(); }\n", "work\n"),
}

with tempfile.TemporaryDirectory(prefix="mvld-examples-") as folder:
    folder = Path(folder)
    (folder / "rest.c").write_text(REST)
    for name, (text, expected) in EXAMPLES.items():
        (folder / "step.c").write_text(text)
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-fplugin={plugin}", f"-I{include}", "step.c", "rest.c",
                   "-o", "step", f"-L{library}", "-lmultiverse", f"-Wl,-rpath,{library}"]
        for what in command, ["./step"], ["nm", "step"]:
            done = subprocess.run(what, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            if done.returncode or what == ["./step"] and done.stdout != expected:
                sys.exit(f"{name}: {' '.join(what)}: status {done.returncode}\n{done.stdout}")
        if not all(f" step.multiverse.verbose_{value}\n" in done.stdout for value in (0, 1)):
            sys.exit(f"{name}: other variants\n{done.stdout}")
