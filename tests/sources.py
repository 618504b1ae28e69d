#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tests show what a source file does.

    sources.py BUILD FILE...    the names of its tests, as meson has them, a line each
    sources.py --check SOURCE   every source has a test of its name, or one in sources.txt

A test of its name lies below tests/ as the source lies below the top, with another ending perhaps; tests/sources.txt
lists the others: integration tests, each of which shows what several files do together.
"""
import json
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

TOPS = ("rimf", "loader", "passes", "tools", "gcc-plugin", "clang-plugin", "kernel")
ENDINGS = (".c", ".cc", ".S")


def listed(source):
    """(patterns of sources, tests) of each line."""
    for line in (source / "tests/sources.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            patterns, tests = line.split(":")
            yield patterns.split(), [f"tests/{test}" for test in tests.split()]


def namesake(source, file):
    """The test of its name, or None; a test's folder may have _ for -, which meson's names and Python want."""
    path = Path(file)
    folders = {Path("tests") / folder for folder in (path.parent, str(path.parent).replace("-", "_"))}
    for folder in folders:
        for name in {path.stem, path.stem.replace("-", "_")}:
            for ending in (*ENDINGS, ".py"):
                if (source / folder / (name + ending)).exists():
                    return str(folder / (name + ending))
    return None


def tests_of(source, file):
    own = namesake(source, file)
    found = [own] if own else []
    for patterns, tests in listed(source):
        found += [test for test in tests if any(fnmatch(file, pattern) for pattern in patterns)]
    return list(dict.fromkeys(found))


def names(build, source, files):
    """What meson calls the tests that run these files, or programs made of them."""
    info = build / "meson-info"
    made = {}
    for target in json.loads((info / "intro-targets.json").read_text()):
        of = {str(Path(s).resolve()) for part in target.get("target_sources", []) for s in part.get("sources", [])}
        for name in target["filename"]:
            made[str(Path(name).resolve())] = of
    wanted = {str((source / file).resolve()) for file in files}
    for test in json.loads((info / "intro-tests.json").read_text()):
        for word in test["cmd"]:
            path = str(Path(word).resolve()) if "/" in word else word
            if path in wanted or made.get(path, set()) & wanted:
                yield test["name"]
                break


def check(source):
    tracked = subprocess.run(["git", "-C", source, "ls-files", *TOPS], capture_output=True, text=True)
    files = tracked.stdout.split() if tracked.returncode == 0 and tracked.stdout else [
        str(f.relative_to(source)) for top in TOPS for f in (source / top).rglob("*")]
    files = [f for f in files if f.endswith(ENDINGS) and "/example/" not in f and (source / f).exists()]
    wrong = [f"{f}: it has no test of its name, and none in tests/sources.txt" for f in files if not tests_of(source, f)]
    for patterns, tests in listed(source):
        wrong += [f"tests/sources.txt: {p}: no such source" for p in patterns if not any(fnmatch(f, p) for f in files)]
        wrong += [f"tests/sources.txt: {t}: no such test" for t in tests if not (source / t).exists()]
    print(*wrong, sep="\n")
    print(f"{len(files)} sources, {sum(namesake(source, f) is not None for f in files)} with a test of their name")
    return bool(wrong) or len(files) < 300


def main():
    if sys.argv[1] == "--check":
        sys.exit(check(Path(sys.argv[2]).resolve()))
    source, build = Path(__file__).resolve().parents[1], Path(sys.argv[1]).resolve()
    for file in sys.argv[2:]:
        found = list(names(build, source, tests_of(source, str(Path(file).resolve().relative_to(source)))))
        if not found:
            sys.exit(f"{file}: no test of it is built; tests/sources.txt lists which there are")
        print(*found, sep="\n")


if __name__ == "__main__":
    main()
