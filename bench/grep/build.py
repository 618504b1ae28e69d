# SPDX-License-Identifier: MIT
"""Gets Debian's grep source and builds it three times:

    stock        as Debian ships it
    edited       with the edits of edits.py, attributes ignored: what the edits alone do
    multiversed  the same source with the multiverse plugin

The same compiler and flags for all.  The package system of the machine is not
touched: apt-get works with lists and caches of its own in the build folder.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import edits
from report import progress

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests"))
import support  # noqa: E402

HERE = Path(__file__).resolve().parent
VERSION = "3.8-5"  # of Debian 12; edits.py checks that it knows the text
CFLAGS = "-O2 -g1"
# A git checkout or a patch makes generated files look old; they are not.
AS_SHIPPED = [f"{tool}=:" for tool in ("ACLOCAL", "AUTOCONF", "AUTOHEADER", "AUTOMAKE", "MAKEINFO")]
CONFIGURE = ["--without-included-regex", "--disable-perl-regexp", "--disable-nls",
             "--disable-dependency-tracking"]


class Unavailable(Exception):
    """The source cannot be had or built here; the text says why."""


def _do(command, cwd, timeout, **more):
    done = subprocess.run([str(c) for c in command], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout, **more)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Unavailable(f"{' '.join(map(str, command))}: status {done.returncode}\n{tail}")
    return done.stdout


def fetch(folder):
    """folder/grep-3.8, unpacked and with Debian's patches."""
    tree = folder / "grep-3.8"
    if (tree / "configure").exists():
        return tree
    progress(f"fetching Debian's source package grep {VERSION} (apt-get source, 1.7 MB)")
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
    _do(["apt-get", *options, "update"], folder, 180)
    _do(["apt-get", *options, "source", f"grep={VERSION}"], folder, 180)
    return tree


def build(folder):
    """{name: path of a grep}."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = fetch(folder)
    if not (tree / "src" / "Makefile").exists():
        progress("configure (about 20 seconds)")
        environment = support.clean_environment(CC=support.CC, CFLAGS=CFLAGS)
        _do(["./configure", "-q", *CONFIGURE], tree, 300, env=environment)
    if not (tree / "src" / "grep").exists():
        progress("building grep, stock")
        _make(tree, CFLAGS)
    greps = {"stock": tree / "src" / "grep"}
    for name, attributes in (("edited", "-Wno-attributes"),
                             ("multiversed", f"-fplugin={support.PLUGIN}")):
        progress(f"building grep, {name}")
        greps[name] = _build_edited(tree, folder / name, attributes)
    return greps


def _build_edited(stock, tree, attributes):
    """A copy of the built tree: make compiles anew what the edits touch.  Every file that
    calls a variation point is among those."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(stock, tree, symlinks=True)
    edits.apply(tree)
    flags = f"{CFLAGS} -include {HERE}/modes.h -I{support.SOURCE}/include {attributes}"
    _do([support.CC, *flags.split(), "-c", HERE / "modes.c", "-o", tree / "src" / "modes.o"],
        tree, 60)
    _make(tree, flags, "modes.o")
    return tree / "src" / "grep"


def _make(tree, flags, libs=""):
    make = ["make", *AS_SHIPPED, f"CFLAGS={flags}", "-j", os.cpu_count()]
    _do([*make, "-C", "lib"], tree, 300)
    _do([*make, f"LIBS={libs}", "-C", "src", "grep"], tree, 300)
