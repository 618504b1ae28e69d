#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mixed.py GCC-PLUGIN CLANG-PLUGIN INCLUDE LIBRARY: one program, of which GCC compiles one unit and clang
another, each with its plugin, and a shared library of either.  It commits as one: what it prints for
every value of its switches, before, after and between commits, is what it prints when GCC has compiled
it without a plugin.  The program checks the bytes of the entries itself.

A failure prints the commands that made the program."""
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
MORE = ["-O2 -fcf-protection=full", "-O2 -ffunction-sections -Wl,--gc-sections", "-O2 -fno-plt", "-O2 -g"]


def run(command, folder, said):
    said.append(shlex.join(map(str, command)))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode or done.stderr:
        raise RuntimeError("\n".join([*said, f"exit {done.returncode}", done.stdout[-500:], done.stderr[-2000:]]))
    return done.stdout


def program(compilers, way, place, flags, libraries, folder, more=()):
    """Makes and runs it; compilers: of here.c, there.c and library.c."""
    said = []
    sources = {"here": compilers[0], "there": compilers[1]}
    for name, compiler in sources.items():
        run([*compiler, *way, *place, *flags, "-c", HERE / "mixed" / f"{name}.c"], folder, said)
    run([*compilers[2], *way, *flags, "-fPIC", "-shared", HERE / "mixed" / "library.c", "-o", "libmixed.so"], folder, said)
    run(["gcc", "-w", *way, *place, *flags, HERE / "mixed" / "main.c", *more, "here.o", "there.o", "-L.", "-lmixed",
         f"-Wl,-rpath,{folder}", *libraries, "-o", "program"], folder, said)
    return run(["./program"], folder, said), said


def main():
    gcc_plugin, clang_plugin, include, library = (Path(a).resolve() for a in sys.argv[1:5])
    gcc, clang = ["gcc", f"-fplugin={gcc_plugin}"], ["clang", f"-fplugin={clang_plugin}", "-Wno-unused-command-line-argument"]
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        expected, _ = program([["gcc"]] * 3, ["-O1"], ["-pie", "-fPIE"], ["-w", "-DMULTIVERSE=0"], [], folder)
        ways = [(way, "-fPIE -pie") for way in LEVELS + MORE] + [("-O2", "-fno-pie -no-pie"), ("-O2 -fuse-ld=lld", "-fPIE -pie")]
        for way, place in ways:
            for compilers in ([gcc, clang, gcc], [clang, gcc, clang], [gcc, gcc, clang], [clang, clang, gcc]):
                try:
                    found, said = program(compilers, way.split(), place.split(), [f"-DMULTIVERSE={1 + (gcc in compilers[:2])}", f"-I{include}"],
                                          [f"-L{library}", "-lmultiverse", f"-Wl,-rpath,{library}"], folder,
                                          [HERE.parent / "gcc-plugin" / "descriptors.c"])
                    if found != expected:
                        raise RuntimeError("\n".join([*said, "prints something else", *difference(expected, found)]))
                    good += 1
                except RuntimeError as problem:
                    bad += 1
                    print(problem, file=sys.stderr)
    print(f"{good} of {good + bad} ways good, {len(expected.splitlines())} states each")
    return bad != 0


def difference(expected, found):
    for number, (a, b) in enumerate(zip(expected.splitlines(), found.splitlines())):
        if a != b:
            return [f"line {number}:", f"  expected {a}", f"  found    {b}"]
    return [f"{len(found.splitlines())} lines", found[-300:]]


sys.exit(main())
