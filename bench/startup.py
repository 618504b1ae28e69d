# SPDX-License-Identifier: MIT
"""startup.py STARTUP: what an exec costs under the host loader, under mvld with nothing
configured, and with the multiverse pass (in a program that has nothing to commit)."""
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import support  # noqa: E402

ROUNDS = 1000

with support.scratch_folder() as folder:
    configured = folder / "true"
    shutil.copy("/bin/true", configured)
    config = folder / "mvld.conf"
    config.write_text(f"[app]\nmatch = {configured}\npasses = multiverse\n")
    environment = support.clean_environment(MVLD_CONFIG=config,
                                            MVLD_PASS_PATH=support.LIBRARY.parent)
    commands = {"host loader": [support.HOST_LOADER, "/bin/true"],
                "mvld, nothing configured": [support.LOADER, "/bin/true"],
                "mvld, multiverse pass": [support.LOADER, configured]}
    words = [sys.argv[1], ROUNDS]
    for command in commands.values():
        words += [*command, "--"]
    done = subprocess.run([str(word) for word in words[:-1]], env=environment, text=True,
                          stdout=subprocess.PIPE, timeout=120)
    support.check(done.returncode == 0, "startup: see above")
    times = [float(line) for line in done.stdout.split()]
    for name, time in zip(commands, times):
        print(f"result: exec of true, {name} | {time:.0f} | µs | {time - times[0]:+.0f} µs")
