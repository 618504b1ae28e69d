# SPDX-License-Identifier: MIT
"""startup.py STARTUP: what an exec of true costs, by its interpreter (PT_INTERP).

The same program under the host loader, under mvld with nothing configured, with
MVLD=off, and with the multiverse pass, which then finds nothing to commit.
"""
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import support  # noqa: E402

ROUNDS = 2000

with support.scratch_folder() as folder:
    host, mvld = folder / "host", folder / "mvld"
    shutil.copy("/bin/true", host)
    shutil.copy("/bin/true", mvld)
    subprocess.run([support.BUILD / "tools" / "mvld", "set-interp", mvld], check=True,
                   stdout=subprocess.DEVNULL)
    config = folder / "mvld.conf"
    config.write_text(f"[app]\nmatch = {mvld}\npasses = multiverse\n")
    commands = {"host loader": [host],
                "mvld, nothing configured": [mvld],
                "mvld, MVLD=off": ["MVLD=off", mvld],
                "mvld, multiverse pass": [f"MVLD_CONFIG={config}",
                                          f"MVLD_PASS_PATH={support.LIBRARY.parent}", mvld]}
    words = [sys.argv[1], ROUNDS]
    for command in commands.values():
        words += [*command, "--"]
    done = subprocess.run([str(word) for word in words[:-1]], env=support.clean_environment(),
                          text=True, stdout=subprocess.PIPE, timeout=120)
    support.check(done.returncode == 0, "startup: see above")
    times = [float(line) for line in done.stdout.split()]
    for name, time in zip(commands, times):
        print(f"result: exec of true, {name} | {time:.0f} | µs | {time - times[0]:+.0f} µs")
