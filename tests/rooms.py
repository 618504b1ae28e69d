#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The house: which room may use which, how many files a room holds.

A room is a folder.  It uses those before it in ORDER, by include or by call, and none behind.

It asks for no pass by name, either: a pass says with its declarations what it needs.

    rooms.py BUILD SOURCE    reads the sources' includes and the objects' symbols
"""
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ORDER = """include
    rimf/base rimf/elf rimf/x86 rimf/patch rimf/analysis rimf/image rimf/emit rimf/moved rimf/code rimf/store
    rimf/realise
    rimf/analyze
    loader loader/process loader/config loader/manager loader/place loader/host loader/caller loader/store loader/start
    passes kernel tools/common tools""".split()
# What a room may use of those before it, where that is not all of them.
ONLY = {
    "rimf/analyze": {"include", "rimf/base", "rimf/elf", "rimf/x86", "rimf/analysis"},
    "passes/direct-calls": {"include"},
    "passes/example": {"include"},
    "passes/concat": {"include"},
    "passes/multiverse/site": {"include", "rimf/base", "rimf/x86"},
    "passes/multiverse": {"include", "rimf/base", "passes/multiverse/site", "passes/multiverse/engine"},
    "passes/multiverse/library": {"include", "rimf/base", "rimf/elf", "rimf/x86", "rimf/image", "passes/multiverse/site",
                                  "passes/multiverse/engine"},
    "passes/multiverse/engine": {"include", "rimf/base", "rimf/x86", "passes/multiverse/site"},
    "kernel/core": {"include", "rimf/base", "passes/multiverse/site", "passes/multiverse/engine"},
    "kernel/linux": {"include", "kernel/core"},
}
NOBODYS = {"loader/host/linkage.c"}  # it has the host loader's symbols, for linkers to read
FILES_MAX = 25
SOURCES = (".c", ".h", ".S", ".cc")


def room(path):
    """The room of a file: the longest of ORDER and ONLY that it lies in."""
    found = [r for r in (*ORDER, *ONLY) if path.startswith(r + "/")]
    return max(found, key=len) if found else None


def place(name):
    return ORDER.index(name if name in ORDER else "passes")


def runs_back(user, used):
    """Why `user` may not use `used`, both files, or None."""
    mine, other = room(user), room(used)
    if mine is None or other is None or mine == other:
        return None
    if mine in ONLY:
        return None if other in ONLY[mine] else f"{mine} uses {', '.join(sorted(ONLY[mine]))} alone"
    if place(other) > place(mine):
        return f"{other} stands behind {mine}"
    return None


def includes(source, files):
    for file in files:
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', (source / file).read_text(), re.M):
            local = str(Path(file).parent / name)
            yield file, name if (source / name).exists() else local if (source / local).exists() else f"include/{name}"


def names_of_passes(source, files):
    """Where rimf or the loader name a pass: (file, name)."""
    passes = {folder.name for folder in (source / "passes").iterdir() if folder.is_dir()}
    for file in files:
        if file.startswith(("rimf/", "loader/")):
            yield from ((file, name) for name in re.findall(r'"([a-z0-9-]+)"', (source / file).read_text())
                        if name in passes)


def objects(build, source):
    """{source file: its object}, of what was built; tests compile some anew, which counts once."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        file, output = (build / command["file"]).resolve(), build / command["output"]
        name = str(file.relative_to(source)) if file.is_relative_to(source) else ""
        if room(name) and name not in NOBODYS and output.exists() and not command["output"].startswith("tests/"):
            found.setdefault(name, output)
    return found


def calls(build, source):
    """Who needs what somebody else defines.  Programs and passes have each their own of some names; an
    arrow leads to what one file alone defines."""
    names = {str(output): name for name, output in objects(build, source).items()}
    listed = subprocess.run(["nm", "-g", "-A", *names], capture_output=True, text=True, check=True).stdout
    defines, needs = {}, []
    for line in listed.splitlines():
        file, _, rest = line.partition(":")
        *_, kind, symbol = rest.split()
        if kind == "U":
            needs.append((names[file], symbol))
        else:
            defines.setdefault(symbol, set()).add(names[file])
    for user, symbol in needs:
        if len(defines.get(symbol, ())) == 1:
            yield user, *defines[symbol], symbol


def main():
    build, source = (Path(argument).resolve() for argument in sys.argv[1:])
    listed = subprocess.run(["git", "-C", source, "ls-files"], capture_output=True, text=True)
    files = listed.stdout.split() if listed.returncode == 0 and listed.stdout else [
        str(f.relative_to(source)) for top in ("include", "rimf", "loader", "passes", "tools", "gcc-plugin", "clang-plugin")
        for f in (source / top).rglob("*")]
    files = [f for f in files if f.endswith(SOURCES) and (source / f).exists()]
    wrong, arrows = [], 0
    for user, used in includes(source, [f for f in files if room(f)]):
        arrows += 1
        why = runs_back(user, used)
        wrong += [f"{user} includes {used}: {why}"] if why else []
    for user, used, symbol in calls(build, source):
        arrows += 1
        why = runs_back(user, used)
        wrong += [f"{user} needs {symbol} of {used}: {why}"] if why else []
    wrong += [f"{file} asks for the pass {name} by name" for file, name in names_of_passes(source, files)]
    for folder, n in Counter(str(Path(f).parent) for f in files).items():
        if n > FILES_MAX:
            wrong.append(f"{folder} has {n} files; a room holds {FILES_MAX}")
    print(*wrong, sep="\n")
    print(f"{arrows} arrows, {len(wrong)} wrong")
    sys.exit(bool(wrong) or arrows < 1000)


if __name__ == "__main__":
    main()
