#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The house: which room may use which, how many files a room holds.

A room is a folder.  It uses those before it in ORDER, by include or by call, and none behind.  Two
files of the loader belong to no room: loader.h, the one state, which is made of what each room
needs, and entry.S, through which the host loader comes in: every room may name them.

    rooms.py BUILD SOURCE    reads the sources' includes and the objects' symbols
"""
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ORDER = """include
    rimf/base rimf/elf rimf/x86 rimf/patch rimf/analysis rimf/image rimf/moved rimf/store rimf/realise
    rimf/analyze
    loader/process loader/config loader/manager loader/place loader/host loader/caller loader/store loader/start
    passes tools/common tools""".split()
# What a room may use of those before it, where that is not all of them.
ONLY = {
    "rimf/analyze": {"include", "rimf/base", "rimf/elf", "rimf/x86", "rimf/analysis"},
    "passes/direct-calls": {"include"},
    "passes/example": {"include"},
    "passes/concat": {"include", "rimf/base"},
    "passes/multiverse/site": {"include", "rimf/base"},
    "passes/multiverse/engine": {"include", "rimf/base", "passes/multiverse/site"},
}
SHARED = {"loader/loader.h", "loader/entry.S"}
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
    if user in SHARED or used in SHARED or mine is None or other is None or mine == other:
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


def symbols(file):
    """Of an object: what it defines for others, and what it needs."""
    lines = subprocess.run(["nm", "-g", file], capture_output=True, text=True, check=True).stdout.splitlines()
    kinds = [line.split()[-2:] for line in lines]
    return [name for kind, name in kinds if kind != "U"], [name for kind, name in kinds if kind == "U"]


def calls(build, source):
    """From the objects as they were built: who defines what somebody else needs."""
    defines, needs = {}, {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        file = (build / command["file"]).resolve()
        output = build / command["output"]
        if not file.is_relative_to(source) or not output.exists() or output.parts[len(build.parts)] == "tests":
            continue
        name = str(file.relative_to(source))
        if name in needs or name in NOBODYS or room(name) is None:
            continue
        defined, needs[name] = symbols(output)
        # Programs and passes have each their own; an arrow leads to what several link.
        for symbol in defined:
            defines.setdefault(symbol, set()).add(name)
    for name, needed in needs.items():
        for symbol in needed:
            where = defines.get(symbol, set())
            if len(where) == 1:
                yield name, next(iter(where)), symbol


def main():
    build, source = (Path(argument).resolve() for argument in sys.argv[1:])
    listed = subprocess.run(["git", "-C", source, "ls-files"], capture_output=True, text=True)
    files = listed.stdout.split() if listed.returncode == 0 and listed.stdout else [
        str(f.relative_to(source)) for top in ("include", "rimf", "loader", "passes", "tools", "gcc-plugin")
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
    for folder, n in Counter(str(Path(f).parent) for f in files).items():
        if n > FILES_MAX:
            wrong.append(f"{folder} has {n} files; a room holds {FILES_MAX}")
    print(*wrong, sep="\n")
    print(f"{arrows} arrows, {len(wrong)} wrong")
    sys.exit(bool(wrong) or arrows < 1000)


if __name__ == "__main__":
    main()
