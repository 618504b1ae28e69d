#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""modules.py PLUGIN INCLUDE LIBRARY: cases/modules, built of three modules in
several ways, one of them all in one program with -flto, and with the plugin
missing when LTO links.  A failure means that switches, variation points and call
sites of different modules or units do not find each other."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases" / "modules"


def run(folder, *command):
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True,
                          timeout=120)
    if done.returncode:
        print(" ".join(str(c) for c in command), f"\nexit {done.returncode}\n", done.stdout,
              done.stderr, file=sys.stderr)
        raise SystemExit(1)
    return done.stdout + done.stderr


def main():
    plugin, include, library = (Path(a).resolve() for a in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        run(folder, "gcc", "-O1", "-c", f"-I{include}", CASES.parent.parent / "descriptors.c",
            "-o", "descriptors.o")
        for options in ("-O2", "-O0", "-O2 -fno-plt", "-O2 -Wl,-z,now", "-O2 -fuse-ld=lld",
                        "-O2 -fuse-ld=mold", "-O2 -flto", "-O3 -Wl,-Bsymbolic-functions", "-O2 -no-pie"):
            linker = options.partition("-fuse-ld=")[2]
            if linker and not shutil.which(f"ld.{linker}"):
                continue
            flags = [*options.split(), f"-fplugin={plugin}", f"-I{include}", "-g"]
            shared = [o for o in flags if o != "-no-pie"]
            run(folder, "gcc", *shared, "-fPIC", "-shared", CASES / "first.c", "-o", "libfirst.so")
            run(folder, "gcc", *shared, "-fPIC", "-shared", CASES / "second.c", "-o", "libsecond.so")
            run(folder, "gcc", *flags, "-rdynamic" if "-no-pie" in options else "-fPIE",
                CASES / "main.c", "descriptors.o", "-L.", "-lsecond", "-lfirst", f"-L{library}",
                "-lmultiverse", "-Wl,-rpath,.", f"-Wl,-rpath,{library}", "-rdynamic", "-o", "program")
            run(folder, "./program")
        # The same as three units of one program.
        for options in ("-O2", "-O2 -flto", "-O2 -flto -flto-partition=max", "-O0 -flto"):
            flags = [*options.split(), f"-fplugin={plugin}", f"-I{include}"]
            for unit in "main", "first", "second":
                run(folder, "gcc", *flags, "-c", CASES / f"{unit}.c", "-o", f"{unit}.o")
            objects = ["main.o", "first.o", "second.o", "descriptors.o", library / "libmultiverse.a"]
            run(folder, "gcc", *flags, *objects, "-o", "program")
            run(folder, "./program")
        # Inline calls of a library that comes later.
        for options in ("-O2", "-O1 -fno-plt", "-Os"):
            flags = [*options.split(), f"-fplugin={plugin}", f"-I{include}"]
            run(folder, "g++", *flags, "-fPIC", "-shared", CASES / "late.cc", "-o", "liblate.so")
            run(folder, "g++", *flags, "-fPIE", CASES / "late_main.cc", "descriptors.o", f"-L{library}", "-lmultiverse",
                f"-Wl,-rpath,{library}", "-rdynamic", "-o", "program")
            run(folder, "./program")
        # LTO without the plugin: nothing is multiversed, and everything is right.
        (Path(folder) / "plain.c").write_text(
            f'#include "{CASES}/modules.h"\n'
            'bool in_program; int local(int x) { return in_library == 7 ? x + 100 : x + 200; }\n'
            'static int id(int x) { return x; }\n'
            'int main(void) { hook = id; in_library = 7; in_program = 1;\n'
            '  return !(calls(3) == 131 && calls_hook(2) == 5 && calls_tail(2) == 2); }\n')
        flags = ["-O2", "-flto", f"-fplugin={plugin}"]
        for unit in Path(folder) / "plain.c", CASES / "first.c", CASES / "second.c":
            run(folder, "gcc", *flags, "-c", unit, "-o", unit.stem + ".o")
        run(folder, "gcc", "-O2", "-flto", "plain.o", "first.o", "second.o", "-o", "program")
        run(folder, "./program")
    return 0


sys.exit(main())
