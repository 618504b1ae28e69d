# SPDX-License-Identifier: MIT
"""dev.py DEV: ./dev for a user who cannot become root.

A failure means that somebody who asks an administrator for packages has to ask more than once.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import support

dev = Path(sys.argv[1]).resolve()
with tempfile.TemporaryDirectory() as folder:
    for name in "apt-cache", "bash", "cat", "dirname", "env", "grep", "sed":
        found = shutil.which(name)
        if not found:
            support.skip(f"there is no {name}")
        os.symlink(found, f"{folder}/{name}")
    for name, text in ("id", "echo 1000"), ("dpkg-query", "exit 1"):  # no sudo, and nothing is installed
        stub = Path(folder, name)
        stub.write_text(f"#!/bin/sh\n{text}\n")
        stub.chmod(0o755)
    done = subprocess.run([dev, "demo"], env={"PATH": folder}, capture_output=True, text=True, timeout=60)
support.check(done.returncode == 1 and not done.stdout, f"{done.returncode}: {done.stdout}")
lines = [line for line in done.stderr.splitlines() if "apt-get" in line]
support.check(len(lines) == 1 and "update && " in lines[0], f"one line is to be run as root:\n{done.stderr}")
if any(Path("/var/lib/apt/lists").glob("*Packages*")):
    wanted = ["meson", "ninja-build", "python3", "sqlite3", "redis-server"]  # of building, and of the demo
    support.check(set(wanted) <= set(lines[0].split()), f"{lines[0]}: it lacks some of {wanted}")
else:
    support.check(f"{dev} install-packages" in lines[0], lines[0])
