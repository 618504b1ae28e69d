#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix_cxx.py: C++ in three objects (matrix/cxx.h), in several ways: separate,
LTO, sections collected, stripped, static, and all in one program.

A failure means that a COMDAT variation point is not one function of the process (or,
static, not each its own), that an exception does not find its way through a variant,
or that a way to link loses descriptors.
"""
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402

SOURCES = HERE / "matrix"
SHARED = ["-O0", "-O2", "-O2 -fno-plt -Wl,-z,now", "-O2 -flto", "-O2 -fuse-ld=lld", "-Os -fuse-ld=mold",
          "-O2 -fuse-ld=gold", "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections",
          "-O3 -s", "-O2 -fvisibility-inlines-hidden"]
if not shutil.which("ld.gold"):  # Debian 13 has it in a package of its own
    SHARED = [options for options in SHARED if "gold" not in options]
ALONE = ["-O2", "-O2 -flto", "-O2 -s -ffunction-sections -Wl,--gc-sections", "-O2 -static-pie",
         "-O0 -static", "-O2 -static-pie -flto -s"]


def compile_cc(output, *arguments):
    command = ["g++", "-g1", "-I", support.SOURCE / "include", f"-fplugin={support.PLUGIN}",
               "-o", output, *arguments]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    support.check(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")


def shared(folder, options):
    run_time = support.LIBRARY.parent
    options = options.split()
    for unit in "ab":
        compile_cc(folder / f"lib{unit}.so", *options, "-fPIC", "-shared", SOURCES / f"cxx_{unit}.cc")
    compile_cc(folder / "program", *options, SOURCES / "cxx_main.cc", f"-L{folder}", "-la", "-lb",
               "-Wl,-rpath,$ORIGIN", f"-L{run_time}", "-lmultiverse", f"-Wl,-rpath,{run_time}")
    config = f"[app]\nmatch = {folder / 'program'}\npasses = multiverse\n"
    yield "plain", support.run([folder / "program"])
    yield "mvld", support.run([support.LOADER, folder / "program"], config=config)


def alone(folder, options):
    library = support.BUILD / "passes" / "multiverse" / "library" / "libmultiverse.a"
    compile_cc(folder / "program", *options.split(), *(SOURCES / f"cxx_{u}.cc" for u in ("main", "a", "b")),
               library)
    yield "alone", support.run([folder / "program", "alone"])


def main():
    support.need(support.PLUGIN)
    bad = 0
    for build, ways in (shared, SHARED), (alone, ALONE):
        for options in ways:
            with support.scratch_folder() as folder:
                for way, done in build(folder, options):
                    if done.returncode:
                        bad += 1
                        print(f"{options}, {way}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
