# SPDX-License-Identifier: MIT
"""For tests of programs that have more rights than who starts them: folders of the system that are
this test's own, in a mount namespace of its own.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402

HERE = Path("/mnt")  # files whose owners and set-id bits count
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def skip(why):
    print(why)
    sys.exit(77)


def mount(*arguments):
    if subprocess.run(["mount", *arguments], check=False).returncode:
        skip(f"cannot mount {' '.join(arguments)}")


def alone(*tools):
    """The rest of the script runs as root in such a namespace, or not at all."""
    if os.geteuid() != 0:
        skip("needs root, for a setuid program and mounts")
    for tool in (*tools, "setpriv", "unshare", "mount"):
        if not shutil.which(tool):
            skip(f"needs {tool}")
    if "MVLD_TEST_INSIDE" not in os.environ:
        if not support.may_mount():
            skip("a mount of its own is not to be had")
        done = subprocess.run([*support.PRIVATE_MOUNTS, sys.executable, *sys.argv],
                              env={**os.environ, "MVLD_TEST_INSIDE": "1"}, timeout=60, check=False)
        sys.exit(done.returncode)


def own(*folders):
    """Makes HERE and these folders ours, and empty: what is written there is seen by this test only."""
    mount("-t", "tmpfs", "-o", "mode=755", "none", str(HERE))
    for number, folder in enumerate(folders):
        overlay(folder, number)


def overlay(folder, number):
    below = folder
    while not below.exists():
        below = below.parent
    if below == Path("/"):
        skip(f"nothing above {folder} can be overlaid")
    upper, work = HERE / f"upper{number}", HERE / f"work{number}"
    upper.mkdir()
    work.mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={below},upperdir={upper},workdir={work}",
          str(below))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True) # what is mounted there stays, empty
