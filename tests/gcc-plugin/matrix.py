#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix.py PLUGIN INCLUDE LIBRARY CASE [clang]: compiles a case in the ways in which code
is compiled, and runs it.

Each case is compiled at -O0 and -O2 for executables and libraries, and in every second of the other ways: half of
the cases in the one half, half in the other.  MVLD_ALL_WAYS=1 tries all.

PLUGIN is multiverse.so, LIBRARY the folder of libmultiverse, INCLUDE that of the
public headers.  With `clang` the plugin is that of clang, which compiles.  A case is a program that returns 0; it may
name its compilers (`compilers: gcc g++`), more options for all (`options: -lm`), the only way in which it makes sense
(`only: -O2`), or options with which it does not (`not for: -masm=intel`, `not for clang: ...`) in the comment at its
top.  A failure prints the command that made the program."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLACES = ["-fPIE -pie", "-fPIC -shared", "-fno-pie -no-pie"]
ALWAYS = [f"{level} {place}" for level in ("-O0", "-O2") for place in PLACES]
OTHERS = [f"{level} {place}" for level in ("-O1", "-O3", "-Os") for place in PLACES] + [
    "-Og -fPIE -pie",
    "-O2 -fPIE -pie -fno-plt",
    "-O2 -fPIC -shared -fno-plt",
    "-O2 -fno-pie -no-pie -fno-plt",
    "-O2 -fPIE -pie -fcf-protection=full",
    "-O2 -fPIC -shared -fvisibility=hidden",
    "-O2 -fPIC -shared -fno-semantic-interposition",
    "-O2 -fPIE -pie -masm=intel",
    "-O2 -fPIE -pie -pg",
    "-O0 -fPIE -pie -pg -mfentry -fcf-protection=full",
    "-O2 -fPIE -pie -fpatchable-function-entry=5,2",
    "-O2 -fPIE -pie -ffunction-sections -fdata-sections -Wl,--gc-sections",
    "-O0 -fPIE -pie -fsanitize=undefined",
    "-O2 -fPIE -pie -fsanitize=address,undefined",
    "-O2 -fPIE -pie -fsanitize=thread",
    "-O2 -fPIE -pie -fprofile-generate",
    "-O1 -fPIE -pie -fnon-call-exceptions -fexceptions",
    "-O0 -fPIE -pie -flto",
    "-O2 -fPIE -pie -flto",
    "-O2 -fPIC -shared -flto=2 -flto-partition=1to1",
    "-O3 -fno-pie -no-pie -flto -flto-partition=none",
    "-O2 -fPIE -pie -flto -ffat-lto-objects -fno-plt -fcf-protection=full",
    "-O2 -fPIE -pie -fno-toplevel-reorder",
]

CLANG_UNABLE = {"-flto", "-flto=2", "-fnon-call-exceptions", "-fno-toplevel-reorder", "-fpatchable-function-entry=5,2"}


def header(source, key):
    match = re.search(rf"^\W*{key}: (.*)$", source, re.M)
    return match[1] if match else None


def run(command, folder, **more):
    environment = dict(os.environ, LC_ALL="C", ASAN_OPTIONS="detect_leaks=0", LLVM_PROFILE_FILE="")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120,
                          env=environment, **more)


def try_way(compiler, way, case, fixed, plugin, library, folder):
    shared = "-shared" in way
    program = Path(folder) / ("case.so" if shared else "case")
    command = [compiler, *way.split(), "-g", "-w", f"-fplugin={plugin}", *fixed,
               str(case), str(Path(folder) / "descriptors.o"), "-o", str(program)]
    if shared:
        # The case becomes a library; its main() is called by the launcher.
        command += ["-Dmain=__attribute__((visibility(\"default\"))) case_main", f"-L{library}", "-lmultiverse", f"-Wl,-rpath,{library}"]
    else:
        command += [str(Path(library) / "libmultiverse.a")]
    made = run(command, folder)
    if made.returncode or "warning:" in made.stderr:
        return " ".join(command) + "\n" + made.stdout + made.stderr
    started = [str(Path(folder) / "launcher"), str(program)] if shared else [str(program)]
    done = run(started, folder)
    if done.returncode:
        return " ".join(command) + f"\nexit {done.returncode}\n" + done.stdout + done.stderr
    return None


def main():
    plugin, include, library, case = (os.path.abspath(a) for a in sys.argv[1:5])
    by_clang = sys.argv[5:] == ["clang"]
    source = Path(case).read_text()
    half = sum(Path(case).name.encode()) % 2
    others = OTHERS if os.environ.get("MVLD_ALL_WAYS") else OTHERS[half::2]
    ways = [header(source, "only")] if header(source, "only") else ALWAYS + others
    unfits = (header(source, "not for") or "").split()
    if by_clang:
        unfits += (header(source, "not for clang") or "").split()
    for unfit in unfits:
        ways = [way for way in ways if unfit not in way.split()]
    compilers = (header(source, "compilers") or
                 ("g++" if case.endswith(".cc") else "gcc")).split()
    if by_clang:
        compilers = [{"gcc": "clang", "g++": "clang++"}[c] for c in compilers]
        # -fsanitize=function has data of its own at an entry.
        ways = [way.replace("undefined", "undefined -fno-sanitize=function") for way in ways
                if not CLANG_UNABLE & set(way.split())]
    fixed = [f"-I{include}", *(header(source, "options") or "").split()]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, extra in (("descriptors", ["-fPIC", "-c", "-o", "descriptors.o"]),
                            ("launcher", ["-rdynamic", "-o", "launcher"])):
            subprocess.run(["gcc", "-O1", "-g", f"-I{include}", str(HERE / f"{name}.c"), *extra],
                           cwd=folder, check=True, timeout=60)
        for compiler in compilers:
            for way in ways:
                problem = try_way(compiler, way, Path(case).resolve(), fixed, plugin,
                                  Path(library).resolve(), folder)
                if problem:
                    failures += 1
                    print(problem, file=sys.stderr)
    total = len(compilers) * len(ways)
    print(f"{total - failures} of {total} ways good")
    return failures != 0


sys.exit(main())
