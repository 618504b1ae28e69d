#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix.py: switch, variation point and call sites each in the executable, in a
library A or in a library B, linked in every way, run under the plain ld.so and
under mvld (as PT_INTERP and started directly, committed before constructors; and with
direct-calls before multiverse, which then finds direct calls at its sites).

The full product has some hundred thousand members.  Tried is a covering array of
strength two: every pair of two values of two different parameters that can occur
together occurs in some program.  It is made greedily and is the same in every run.

What is checked is in matrix/main.c.  A failure prints the parameters.
"""
import itertools
import os
import random
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402

SOURCES = HERE / "matrix"
PARAMETERS = {
    "switch": ["E", "A", "B"],
    "point": ["E", "A", "B"],
    "sites": ["E", "A", "B", "EA", "EB", "AB", "EAB"],
    "exe": ["-fPIE -pie", "-fno-pie -no-pie", "-fPIE -pie -mno-direct-extern-access"],
    "binding": ["lazy", "now", "noplt", "symbolic", "symbolic-functions", "hidden", "protected",
                "versioned"],
    "also": ["", "E", "E plain", "preload", "preload plain", "weak"],
    "linker": [name for name in ("bfd", "gold", "lld", "mold")
               if shutil.which("mold" if name == "mold" else "ld." + name)],
    "level": ["-O0", "-O2"],
}


def possible(c):
    """Can these values occur together?  `c` may hold only some of the parameters."""
    def given(*names):
        return all(n in c for n in names)
    if c.get("binding") == "hidden":
        # Nobody else sees it, nor defines it.
        if given("point", "sites") and c["sites"] != c["point"] or c.get("also", "") != "":
            return False
    if c.get("binding") == "versioned" and (c.get("point") == "E" or c.get("also", "") != ""):
        return False
    if c.get("also", "").startswith("E") and c.get("point") == "E":
        return False
    if c.get("also") == "E plain" and c.get("sites") == "E":
        return False  # nobody would call
    if c.get("binding") == "symbolic" and c.get("switch", "E") != "E" and \
            c.get("exe", "") in ("-fPIE -pie", "-fno-pie -no-pie"):
        return False  # the executable has a copy of the switch, the library looks at its own
    if c.get("binding") == "protected" and c.get("exe", "") == "-fno-pie -no-pie" and \
            c.get("linker") == "gold":
        return False  # gold has no protected function with an address outside
    return True


def covering():
    names = list(PARAMETERS)
    pairs = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2)
             for x in PARAMETERS[a] for y in PARAMETERS[b] if possible({a: x, b: y})}
    generator = random.Random(1)
    chosen = []
    while pairs:
        best, gain = None, 0
        seeds = sorted(pairs)
        for _ in range(60):
            one = dict(generator.choice(seeds))
            for name in generator.sample(names, len(names)):
                if name in one:
                    continue
                values = [v for v in PARAMETERS[name] if possible({**one, name: v})]
                if not values:
                    break
                generator.shuffle(values)
                one[name] = max(values, key=lambda v: sum(
                    (((n, one[n]), (name, v)) in pairs or ((name, v), (n, one[n])) in pairs)
                    for n in one))
            if len(one) < len(names) or not possible(one):
                continue
            new = {p for p in pairs if all(one[n] == v for n, v in p)}
            if len(new) > gain:
                best, gain = one, len(new)
        if not best:  # what is left is excluded by three values together
            break
        chosen.append(best)
        pairs = {p for p in pairs if not all(best[n] == v for n, v in p)}
    return chosen, pairs


def build(c, folder):
    position = {"E": c["exe"].split()[:1], "A": ["-fPIC"], "B": ["-fPIC"]}
    if "access" in c["exe"]:
        position["E"].append("-mno-direct-extern-access")
    defines, link = [], ["-Wl,--no-as-needed"]
    code = [c["level"], "-Wno-attributes"] + (["-fno-plt"] if c["binding"] == "noplt" else [])
    shared = ["-shared"]
    if c["binding"] in ("hidden", "protected"):
        kind = c["binding"]
    else:
        kind = None
    link += [{"lazy": "-Wl,-z,lazy", "now": "-Wl,-z,now"}.get(c["binding"], "-Wl,-z,lazy")]
    if c["binding"].startswith("symbolic"):
        shared.append("-Wl,-B" + c["binding"])
    use = [f"-fuse-ld={c['linker']}"]
    for part in "EAB":
        mine = [f"-DPART={part}"]
        if part == c["switch"]:
            mine.append("-DHAS_SWITCH")
        attributes = []
        if part == c["point"]:
            mine.append("-DHAS_POINT=1")
            if kind:
                attributes.append(f'visibility("{kind}")')
            if c["also"] == "weak":
                attributes.append("weak")
        elif part == "E" and c["also"] == "E":
            mine.append("-DHAS_POINT=2")
        elif part == "E" and c["also"] == "E plain":
            mine.append("-DPLAIN_POINT")
        if attributes:
            mine.append(f"-DPOINT_ATTRIBUTES=__attribute__(({','.join(attributes)}))")
        if part in c["sites"] and "-DPLAIN_POINT" not in mine:
            mine.append("-DHAS_SITES")
        if c["binding"] == "versioned":
            mine.append("-DVERSIONED")
            if part == "B":
                mine.append("-DOLD_VERSION")
        defines.append(mine)
    # All objects, then the libraries: what they lack is found when the program starts.
    for part, mine in zip("EAB", defines):
        support.compile_c(folder / f"{part}.o", "-c", *code, *position[part], *mine,
                          SOURCES / "part.c")
    (folder / "versions").write_text("V1 { global: point; }; V2 { global: point; } V1;\n")
    for part in "AB":
        versions = [f"-Wl,--version-script={folder}/versions"] \
            if c["binding"] == "versioned" and part == c["point"] else []
        needs = [f"-L{folder}", f"-l{c['point']}"] \
            if c["binding"] == "versioned" and part != c["point"] else []
        if needs and c["point"] == "B":  # A needs B, which is linked first
            continue
        support.compile_c(folder / f"lib{part}.so", *use, *shared, *link[1:], folder / f"{part}.o",
                          *versions, *needs)
    if not (folder / "libA.so").exists():
        support.compile_c(folder / "libA.so", *use, *shared, *link[1:], folder / "A.o",
                          f"-L{folder}", "-lB")
    if c["also"].startswith("preload"):
        what = "-DPLAIN_POINT" if "plain" in c["also"] else "-DHAS_POINT=3"
        support.compile_c(folder / "preload.so", "-shared", "-fPIC", c["level"], "-DPART=P", what,
                          "-Wno-attributes", SOURCES / "part.c", plugin="plain" not in c["also"])
    how = c["exe"].split()[1]
    run_time = support.LIBRARY.parent
    support.compile_c(folder / "program", *use, *code, *position["E"], how, *link, "-rdynamic",
                      SOURCES / "main.c", folder / "E.o", f"-L{folder}", "-lA", "-lB",
                      f"-L{run_time}", "-lmultiverse", "-Wl,-rpath,$ORIGIN",
                      f"-Wl,-rpath,{run_time}", f"-Wl,--dynamic-linker={support.LOADER}")


def run_both(folder, more):
    """direct-calls first: it must have changed sites, the recorded ones among them."""
    objects = [folder / name for name in ("program", "libA.so", "libB.so", "preload.so")]
    analysed = support.run([support.BUILD / "tools" / "mvld", "analyze", "--output",
                            folder / "mvld" / "analysis", *filter(Path.exists, objects)])
    support.check(analysed.returncode == 0, analysed.stderr)
    config = "[app]\nmatch = *\npasses = direct-calls, multiverse\n[multiverse]\nset.mode = 1\n"
    folders = f"{support.LIBRARY.parent}:{support.BUILD / 'passes' / 'direct-calls'}"
    done = support.run([folder / "program", "near"], config=config, MVLD_DEBUG="passes",
                       XDG_CACHE_HOME=folder, MVLD_PASS_PATH=folders, **more)
    made = re.search(r"objects, (\d+) of \d+ sites made direct", done.stderr)
    support.check(made and int(made.group(1)) > 10, f"direct-calls did nothing\n{done.stderr}")
    return done


def runs(c, folder):
    program = folder / "program"
    config = f"[app]\nmatch = {program}\npasses = multiverse\n[multiverse]\nset.mode = 1\n"
    more = {"LD_PRELOAD": folder / "preload.so"} if c["also"].startswith("preload") else {}
    yield "plain", support.run([support.HOST_LOADER, program], **more)
    yield "mvld", support.run([program, "near"], config=config, **more)
    yield "mvld, direct-calls", run_both(folder, more)
    # Started directly, libraries do not come to a program at a fixed address.
    reach = "far" if "-no-pie" in c["exe"] else "near"
    yield "mvld, direct", support.run([support.LOADER, program, reach], config=config, **more)


def expected(c):
    """Whose point the call sites of an object must reach, as main.c prints it."""
    interposer = {"E": 2, "E plain": 7, "preload": 3, "preload plain": 7}.get(c["also"], 1)
    for part in c["sites"]:
        if part == "E" and c["also"] == "E plain":
            continue
        own = part == c["point"]
        number = interposer
        if own and (part == "E" or c["binding"] in ("symbolic", "symbolic-functions", "hidden",
                                                     "protected")):
            number = 1
        if part == "E" and c["also"] == "E":
            number = 2
        if part == "B" and c["binding"] == "versioned" and not own:
            number = 9
        if c["also"].startswith("preload") and c["point"] == "E":
            number = 1  # the executable comes first
        yield f"{part}{number}"


def try_one(c):
    try:
        with support.scratch_folder() as folder:
            build(c, folder)
            bad = []
            for way, done in runs(c, folder):
                if done.returncode or not set(expected(c)) <= set(done.stdout.split()):
                    bad.append(f"{way}: status {done.returncode}\n{done.stdout}{done.stderr}"
                               f"expected {' '.join(expected(c))}")
            return c, bad
    except SystemExit as failure:
        return c, [str(failure)]


def main():
    support.need(support.PLUGIN)
    chosen, excluded = covering()
    if len(sys.argv) > 1:
        chosen = [chosen[int(sys.argv[1])]]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        results = list(pool.map(try_one, chosen))
    failures = [(i, c, bad) for i, (c, bad) in enumerate(results) if bad]
    for i, c, bad in failures:
        print(f"{i}: {c}\n" + "\n".join(bad), file=sys.stderr)
    print(f"{len(chosen)} programs, 4 runs each, {len(failures)} bad; "
          f"{len(excluded)} pairs that cannot occur")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
