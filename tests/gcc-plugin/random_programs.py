#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""random_programs.py PLUGIN INCLUDE LIBRARY [--clang PLUGIN] [--seed N] [--programs N] [--rounds N] [--more OPTIONS] [--keep FOLDER]:
generates programs (random_source.py) of two units, a library and one that is opened and closed at run time,
with switches of all types, constants, variables and members, function pointers, read and compared in all ways.
Compiles each with the plugin at -O0 to -O3 and -Os, with LTO and as C++, and once without, and compares what
they compute for random values of the switches, before, after and between commits of all or of a part.
Some functions are multiverse("inline"); of these C++ has a copy in each unit.  Others are so small that
the plugin makes inline calls of those in loops by itself.

A failure means wrong code in a variant, a guard that holds for the wrong values or never, or a
variant that believes a switch to have the value of a commit where it reads it anew; or a constant
of which GCC's code does not have the committed value, or clang's code reads it and no commit says so.  It
names the seed, which makes the same program again.  With --clang one to four of the units are compiled by clang,
with its plugin."""
import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from random_source import generate

HERE = Path(__file__).resolve().parent
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto", "-O1 -x c++", "-O3 -x c++"]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\nexit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def build_driver(folder, name, flags):
    """Tables and driver, without a plugin, for all levels."""
    run(["gcc", "-w", "-I.", f"-I{HERE}", *flags, "-O1", "-fPIE", "-r", str(HERE / "random_programs.c"), "tables.c",
         "-o", f"{name}.o"], folder)


def build(folder, name, level, compilers, flags, libraries):
    """Units and libraries at `level`, each with its compiler."""
    common, level = ["-w", "-I.", f"-I{HERE}", *flags], level.split()
    permissive = {"gcc": ["-fpermissive", "-Wno-narrowing"], "clang": ["-Wno-c++11-narrowing"]}
    linker = [*(compilers[2] if "-flto" in level else ["gcc"]), *common, *(["-flto"] if "-flto" in level else [])]
    for unit, place in enumerate(["-fPIE", "-fPIE", "-fPIC", "-fPIC"]):
        more = permissive[compilers[unit][0]] if "c++" in level else []
        if compilers[unit][0] == "clang":
            more = [*more, "-fno-sanitize=function"]  # that has data of its own at an entry
        run([*compilers[unit], *common, *more, *level, place, "-c", f"unit{unit}.c"], folder)
    used = [f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}"]
    run([*linker, "-fPIC", "-shared", "unit2.o", "-o", f"lib{name}.so"], folder)
    run([*linker, "-fPIC", "-shared", "unit3.o", *used, "-o", f"{name}-opened.so"], folder)
    run([*linker, "-O1", "-fPIE", "-pie", f"{name}.o", "unit0.o", "unit1.o", *used, *libraries, "-o", name], folder)


def compare(expected, found):
    """The number of good lines; raises at the first that is not allowed."""
    lines = found.splitlines()
    if len(lines) != len(expected):
        raise RuntimeError(f"{len(lines)} results, {len(expected)} expected")
    for number, (allowed, line) in enumerate(zip(expected, lines)):
        words = line.split()
        if words[:2] != allowed[:2] or words[2] not in allowed[2:] or len(words) > 3:
            raise RuntimeError(f"result {number}: {line}: allowed is {' '.join(allowed)}")
    return len(lines)


def try_program(seed, rounds, more, folder, plugin, include, library, clang):
    by_clang = {unit for unit in range(4) if clang and (1 + seed % 15) >> unit & 1}
    generate(seed, folder, by_clang)
    build_driver(folder, "plain", ["-DMULTIVERSE=0"])
    build_driver(folder, "program", ["-DMULTIVERSE=1", f"-I{include}", *more])
    build(folder, "plain", "-O1", [["gcc"]] * 4, [], [])
    compilers = [["clang", f"-fplugin={clang}"] if unit in by_clang else ["gcc", f"-fplugin={plugin}"] for unit in range(4)]
    expected = [line.split() for line in run(["./plain", str(seed), str(rounds)], folder).splitlines()]
    good = 0
    for level in [way for way in LEVELS if not clang or "-flto" not in way]:
        try:
            build(folder, "program", level, compilers, more,
                  [f"-L{library}", "-lmultiverse", f"-Wl,-rpath,{library}"])
            good += compare(expected, run(["./program", str(seed), str(rounds), str(int("c++" in level))], folder))
        except RuntimeError as problem:
            raise RuntimeError(f"--seed {seed} --rounds {rounds} --more={' '.join(more)!r}, {level}: {problem}") from None
    return good


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("plugin", type=Path)
    options.add_argument("include", type=Path)
    options.add_argument("library", type=Path)
    options.add_argument("--clang", type=Path, help="the plugin for clang")
    options.add_argument("--seed", type=int, default=1, help="of the first program")
    options.add_argument("--programs", type=int, default=4)
    options.add_argument("--rounds", type=int, default=40, help="with new values, a program")
    options.add_argument("--more", type=str.split, default=[], help="options of the compilers, as --more='-fsanitize=undefined'")
    options.add_argument("--keep", type=Path, help="where the programs are left")
    wanted = options.parse_args()
    places = [p.resolve() for p in (wanted.plugin, wanted.include, wanted.library)]
    places.append(wanted.clang and wanted.clang.resolve())
    good = failures = 0
    for seed in range(wanted.seed, wanted.seed + wanted.programs):
        with tempfile.TemporaryDirectory() as folder:
            if wanted.keep:
                folder = wanted.keep.resolve() / str(seed)
                folder.mkdir(parents=True, exist_ok=True)
            try:
                good += try_program(seed, wanted.rounds, wanted.more, Path(folder), *places)
            except RuntimeError as problem:
                failures += 1
                print(problem, file=sys.stderr)
    print(f"{good} comparisons good, {failures} of {wanted.programs} programs wrong")
    return failures != 0


sys.exit(main())
