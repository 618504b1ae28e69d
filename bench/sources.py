# SPDX-License-Identifier: MIT
"""Debian's source packages, for the case studies: fetched, patched, built, in folders of the build.

The package system of the machine is not touched: apt-get works with lists and caches of its own.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

from report import progress

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import support  # noqa: E402

CFLAGS = "-O2 -g1"


class Unavailable(Exception):
    """The source cannot be had or built here; the text says why."""


def do(command, cwd, timeout, **more):
    done = subprocess.run([str(c) for c in command], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout, **more)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Unavailable(f"{' '.join(map(str, command))}: status {done.returncode}\n{tail}")
    return done.stdout


def fetch(folder, package, tree, version=None):
    """folder/tree, unpacked and with Debian's patches: the source package of Debian 12."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{tree}.unpacked"
    if made.exists():
        return folder / tree
    progress(f"fetching Debian's source package {package} {version or ''} (apt-get source)")
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    apt = folder / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "source.list").write_text(
        f"deb-src {signed}http://deb.debian.org/debian bookworm main\n")
    options = ["-q"]
    for option in (f"Dir::Etc::sourcelist={apt}/source.list", "Dir::Etc::sourceparts=-",
                   f"Dir::State::lists={apt}/lists", f"Dir::Cache={apt}",
                   "APT::Sandbox::User=", "APT::Get::List-Cleanup=0"):
        options += ["-o", option]
    do(["apt-get", *options, "update"], folder, 180)
    do(["apt-get", *options, "source", f"{package}={version}" if version else package], folder, 300)
    if not (folder / tree).exists():
        raise Unavailable(f"{package} is not {tree} here")
    made.touch()
    return folder / tree


def copied(stock, tree):
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(stock, tree, symlinks=True)
    return tree


def patched(stock, tree, patch):
    """A copy of a tree, with a patch of ours."""
    copied(stock, tree)
    do(["patch", "-p1", "--fuzz=0", "-i", patch], tree, 60)
    return tree


def fresh(output, *inputs):
    """Whether this was built, of these files as they are."""
    return output.exists() and all(output.stat().st_mtime > Path(i).stat().st_mtime for i in inputs)


def instructions(command, environment=None, timeout=600):
    """How many a run executes, counted by callgrind: exact, where times are not."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           "--smc-check=all", *map(str, command)], stdin=subprocess.DEVNULL,
                          env=environment or support.clean_environment(), capture_output=True,
                          text=True, timeout=timeout)
    count = re.search(r"Collected : (\d+)", done.stderr)
    support.check(count, f"callgrind counted nothing:\n{done.stderr}")
    return int(count[1])
