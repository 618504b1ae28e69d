#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hidden.py: a test sees what the machine has of mvld (hidden.sh), and depends on it; or hidden.sh changes that."""
import os
import subprocess
import sys
from pathlib import Path

import support
from support import check


def main(folder):
    system, home = folder / "system", folder / "home"
    own = [home / ".config" / "mvld", home / ".cache" / "mvld"]
    for place in system, *own:
        place.mkdir(parents=True)
        (place / "there").touch()
    look = 'ls "$0" "${XDG_CONFIG_HOME:-$HOME/.config}/mvld" "${XDG_CACHE_HOME:-$HOME/.cache}/mvld" 2>/dev/null; exit 7'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run([support.SOURCE / "tests" / "hidden.sh", folder / "empty", system, folder / "none", "--", "sh", "-c", look,
                           system], env={**environment, "HOME": str(home)}, capture_output=True, text=True, timeout=30)
    seen = done.stdout.split().count("there")
    check(done.returncode == 7, f"status {done.returncode}: {done.stderr}")
    check(seen == (0 if support.may_mount() else 1), f"{seen} are seen: {done.stdout}")
    check(all((place / "there").exists() for place in (system, *own)), "something is gone")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        sys.exit(main(scratch))
