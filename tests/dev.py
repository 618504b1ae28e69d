# SPDX-License-Identifier: MIT
"""dev.py DEV: ./dev for a user who cannot become root; what `./dev uninstall` removes itself; that libraries are found
after `./dev install`; help without a build.

A failure means that somebody who asks an administrator for packages has to ask more than once, or that files or
folders are left, or others' are gone.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import support

dev = Path(sys.argv[1]).resolve()


def commands(folder, *names, **stubs):
    """A folder with these commands alone; a stub is a shell script."""
    for name in names:
        found = shutil.which(name)
        if not found:
            support.skip(f"there is no {name}")
        os.symlink(found, f"{folder}/{name}")
    for name, text in stubs.items():
        stub = Path(folder, name)
        stub.write_text(f"#!/bin/sh\n{text}\n")
        stub.chmod(0o755)


with support.scratch_folder() as folder:
    (folder / "tools").mkdir()
    commands(folder, "bash", "dirname", "env", "grep", "rm", "rmdir", "sed", "sort", "test", "xargs", id="echo 1000",
             getent='echo "root:x:0:0:::"; echo "ada:x:1001:1002::$MVLD_BUILD/ada:"; echo "bob:x:1003:1003::$MVLD_BUILD/bob:"',
             setpriv='echo "$*" >>"$MVLD_BUILD/restored"',
             sudo='echo "$*" >>"$MVLD_BUILD/said"; case "$*" in *" /var/"* | *ldconfig) ;; *) exec "$@" ;; esac', ninja="exit 0", systemctl="exit 0")
    commands(folder / "tools", **{"mvld-restore": "exit 0"})
    ours = [folder / "lib" / name for name in ("ld.so", "mvld/run", "mvld/passes/a.so", "mvld/passes/with space.so")]
    for file in *ours, folder / "lib/mvld-others/b.so", folder / "meson-logs/installed-whole.txt":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    ours.append(folder / "lib/mvld-restore")
    commands(folder / "lib", **{"mvld-restore": "exit 0"})
    (folder / "ada/.local/state/mvld").mkdir(parents=True)
    (folder / "ada/.local/state/mvld/changes").write_text("")
    (folder / "meson-logs/installed-whole.txt").write_text("".join(f"{file}\n" for file in ours))
    done = subprocess.run([dev, "uninstall"], env={"PATH": str(folder), "MVLD_BUILD": str(folder)}, capture_output=True,
                          text=True, timeout=60)
    support.check(done.returncode == 0 and not done.stderr, f"uninstall: {done}")
    left = sorted(str(path.relative_to(folder)) for path in (folder / "lib").rglob("*"))
    support.check(left == ["lib/mvld-others", "lib/mvld-others/b.so"], f"uninstall leaves {left}")
    support.check((folder / "restored").read_text() == f"--reuid 1001 --regid 1002 --init-groups --reset-env {folder}/lib/mvld-restore --all\n",
                  "each user's programs, and by the user")
    support.check((folder / "said").read_text().endswith("\n/sbin/ldconfig\n"), "ldconfig still knows what is gone")

with support.scratch_folder() as folder:
    # All packages are there.
    commands(folder, "bash", "dirname", "env", "grep", "sed", id="echo 1000", gcc="exit 0", meson="exit 0", ninja="exit 0",
             sudo='echo "$*" >>"$MVLD_BUILD/said"', **{"apt-cache": "exit 0", "apt-get": "exit 0", "dpkg-query": "echo install ok installed"})
    done = subprocess.run([dev, "install"], env={"PATH": str(folder), "MVLD_BUILD": str(folder)}, capture_output=True, text=True, timeout=60)
    support.check(done.returncode == 0, f"install: {done}")
    said = (folder / "said").read_text().splitlines()
    support.check(said[-2].startswith("meson install ") and said[-1] == "/sbin/ldconfig", f"as root: {said}")

with tempfile.TemporaryDirectory() as folder:
    # No sudo, and nothing is installed.
    commands(folder, "bash", "cat", "dirname", "env", "grep", "sed", id="echo 1000", **{"dpkg-query": "exit 1",
             "apt-cache": 'echo "  Depends: $2-12"'}) # the real one takes a second of a busy machine for each package
    done = subprocess.run([dev, "demo"], env={"PATH": folder}, capture_output=True, text=True, timeout=60)
support.check(done.returncode == 1 and not done.stdout, f"{done.returncode}: {done.stdout}")
lines = [line for line in done.stderr.splitlines() if "apt-get" in line]
support.check(len(lines) == 1 and "update && " in lines[0], f"one line is to be run as root:\n{done.stderr}")
if any(Path("/var/lib/apt/lists").glob("*Packages*")):
    wanted = ["meson", "ninja-build", "python3", "sqlite3", "redis-server"]  # of building, and of the demo
    support.check(set(wanted) <= set(lines[0].split()), f"{lines[0]}: it lacks some of {wanted}")
else:
    support.check(f"{dev} install-packages" in lines[0], lines[0])

with tempfile.TemporaryDirectory() as folder:
    # Nothing that builds or installs is there, and no package either.
    commands(folder, "bash", "dirname", "env", "python3", "sed")
    named = {line.split()[2] for line in dev.read_text().splitlines() if line.startswith("# ./dev ")}
    support.check({"demo", "programs", "build"} <= named, f"./dev has {named}")
    for command in "", *named:
        done = subprocess.run([dev, *command.split(), "--help"], env={"PATH": folder}, capture_output=True, text=True, timeout=60)
        support.check(done.returncode == 0 and "--help" in done.stdout and not done.stderr, f"{command} --help: {done}")
