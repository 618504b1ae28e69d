# SPDX-License-Identifier: MIT
"""Gets Debian's grep source and builds it three times:

    stock        as Debian ships it
    edited       with the edits of edits.py, attributes ignored: what the edits alone do
    multiversed  the same source with the multiverse plugin

The same compiler and flags for all.
"""
import os
import shutil
from pathlib import Path

import edits
import support
from sources import CFLAGS, do, fetch
from report import progress

HERE = Path(__file__).resolve().parent
VERSION = "3.8-5"  # of Debian 12; edits.py checks that it knows the text
# A git checkout or a patch makes generated files look old; they are not.
AS_SHIPPED = [f"{tool}=:" for tool in ("ACLOCAL", "AUTOCONF", "AUTOHEADER", "AUTOMAKE", "MAKEINFO")]
CONFIGURE = ["--without-included-regex", "--disable-perl-regexp", "--disable-nls",
             "--disable-dependency-tracking"]


def build(folder):
    """{name: path of a grep}."""
    tree = fetch(folder, "grep", "grep-3.8", VERSION)
    if not (tree / "src" / "Makefile").exists():
        progress("configure (about 20 seconds)")
        environment = support.clean_environment(CC=support.CC, CFLAGS=CFLAGS)
        do(["./configure", "-q", *CONFIGURE], tree, 300, env=environment)
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
    do([support.CC, *flags.split(), "-c", HERE / "modes.c", "-o", tree / "src" / "modes.o"],
        tree, 60)
    _make(tree, flags, "modes.o")
    return tree / "src" / "grep"


def _make(tree, flags, libs=""):
    make = ["make", *AS_SHIPPED, f"CFLAGS={flags}", "-j", os.cpu_count()]
    do([*make, "-C", "lib"], tree, 300)
    do([*make, f"LIBS={libs}", "-C", "src", "grep"], tree, 300)
