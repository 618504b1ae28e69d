#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""link.py PLUGIN INCLUDE LIBRARY: the program in cases/link, linked by every linker
there is, in every way: sections collected, identical code folded, static,
static-pie, stripped, partially linked first.  A failure means that a linker
dropped a live record, kept one whose code is gone, or joined tables wrongly."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases" / "link"
LINKERS = [name for name in ("bfd", "gold", "lld", "mold")
           if shutil.which("mold" if name == "mold" else f"ld.{name}")]
WAYS = ["", "-Wl,--gc-sections", "-Wl,--gc-sections -static", "-Wl,--gc-sections -static-pie",
        "-no-pie -Wl,--gc-sections", "-Wl,-z,now -Wl,-O1 -s", "-Wl,--gc-sections -Wl,--icf=safe"]
UNABLE = {("bfd", "--icf=safe"), ("gold", "-static-pie")}


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    return done.returncode, done.stdout + done.stderr


def main():
    plugin, include, library = (Path(a).resolve() for a in sys.argv[1:4])
    bad = good = 0
    with tempfile.TemporaryDirectory() as folder:
        for options in ("-O2 -ffunction-sections -fdata-sections", "-O0", "-O2 -fno-plt", "-O1",
                        "-O3 -fPIC", "-Os -fno-pie"):
            subprocess.run(["gcc", "-O1", "-c", f"-I{include}", CASES.parent.parent / "descriptors.c",
                            "-o", "descriptors.o"], cwd=folder, check=True, timeout=60)
            for unit in "main", "other", "strong":
                subprocess.run(["g++", *options.split(), f"-fplugin={plugin}",
                                f"-I{include}", "-c", CASES / f"{unit}.cc",
                                "-o", f"{unit}.o"], cwd=folder, check=True, timeout=60)
            subprocess.run(["ld", "-r", "main.o", "other.o", "-o", "both.o"], cwd=folder, check=True,
                           timeout=60)
            # All linkers in all ways for the first three, which differ in their sections.
            few = options in ("-O1", "-O3 -fPIC", "-Os -fno-pie")
            for linker in LINKERS[:1] if few else LINKERS:
                for way in ["-no-pie"] if few else WAYS:
                    if any(linker == l and o in way for l, o in UNABLE):
                        continue
                    for objects in ["main.o", "other.o"], ["both.o"]:
                        command = ["g++", f"-fuse-ld={linker}", *way.split(), *objects, "strong.o",
                                   "descriptors.o", library / "libmultiverse.a", "-o", "program"]
                        status, text = run(*command, cwd=folder)
                        if not status:
                            status, text = run("./program", cwd=folder)
                        # lld alone really drops what only a table refers to.
                        if not status and linker == "lld" and "gc-sections" in way and \
                                "-ffunction-sections" in options and "both.o" not in objects and \
                                "dead function dropped" not in text:
                            status = 1
                        good += not status
                        if status:
                            bad += 1
                            print(f"{options}: {' '.join(map(str, command))}\n{text}", file=sys.stderr)
        # LTO: COMDAT functions and weak definitions are resolved before code is generated.
        for options in ("-O2 -flto", "-O0 -flto", "-O2 -flto -fno-plt -flto-partition=max",
                        "-O2 -flto -ffat-lto-objects -fuse-ld=gold", "-O2 -flto -fuse-ld=mold",
                        "-O2 -flto -ffunction-sections -Wl,--gc-sections -static"):
            flags = [*options.split(), f"-fplugin={plugin}", f"-I{include}"]
            for unit in "main", "other", "strong":
                run("g++", *flags, "-c", CASES / f"{unit}.cc", "-o", f"{unit}.o", cwd=folder)
            status, text = run("g++", *flags, "main.o", "other.o", "strong.o", "descriptors.o",
                               library / "libmultiverse.a", "-o", "program", cwd=folder)
            if not status:
                status, text = run("./program", cwd=folder)
            good += not status
            if status:
                bad += 1
                print(f"{options}:\n{text}", file=sys.stderr)
    print(f"{good} of {good + bad} ways good, linkers: {', '.join(LINKERS)}")
    return bad != 0


sys.exit(main())
