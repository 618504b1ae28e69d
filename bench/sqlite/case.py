# SPDX-License-Identifier: MIT
"""The SQLite case study: two questions of small functions that are called from everywhere.

SQLite asks at run time whether it is alone in its process (a mutex is then NULL) and whether it counts the
memory that it takes.  Here these are switches, off, and the functions that ask are variation points: what
they cost before anything is committed is what most programs would pay.

The code lies otherwise in each build, which alone makes some per cent; so each way is linked three times.
"""
import os
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import sources  # noqa: E402
import support  # noqa: E402
from report import progress, say, spreads, table  # noqa: E402

PLUGIN = f"-DWITH_MULTIVERSE -fplugin={support.PLUGIN}"
LIBRARY = support.PASSES / "library" / "libmultiverse.a"
CFLAGS = [*sources.CFLAGS.split(), "-ffunction-sections", "-DNDEBUG", "-DSQLITE_OMIT_LOAD_EXTENSION"]
BUILDS = {"stock": None, "branch": "", "multiversed": PLUGIN, "static": "-DSTATIC"}
# way: (build, whether it commits)
WAYS = {"stock": ("stock", False), "stock, again": ("stock", False), "branch": ("branch", False),
        "uncommitted": ("multiversed", False), "committed": ("multiversed", True), "static": ("static", False)}
LAYOUTS = {"as compiled": [], "by name": ["-Wl,--sort-section=name"],
           "by alignment": ["-no-pie", "-Wl,--sort-section=alignment"]}
TIMED = {"step": 1000000, "lookup": 150000, "insert": 150000}

DECLARED = """\
#if defined WITH_MULTIVERSE
# define MULTIVERSE __attribute__((__multiverse__))
#else
# define MULTIVERSE
#endif
#if defined STATIC
enum { with_mutexes, with_statistics = with_mutexes };
#else
MULTIVERSE _Bool with_mutexes, with_statistics;
#endif
"""
# How often, pattern, replacement.
EDITS = [
    (1, r"\A", DECLARED),
    (2, r"(?<=\n)(SQLITE_API void sqlite3_mutex_(?:enter|leave)\(sqlite3_mutex \*p\)\{\n  if\( )p \)",
     r"MULTIVERSE \1with_mutexes && p )"),
    (1, r"(?<=\n)(SQLITE_PRIVATE void \*sqlite3Malloc\(u64 n\)\{(?:\n .*)*?if\( )sqlite3GlobalConfig\.bMemstat",
     r"MULTIVERSE \1with_statistics"),
    (1, r"(?<=\n)(SQLITE_API void sqlite3_free\(void \*p\)\{(?:\n .*)*?if\( )sqlite3GlobalConfig\.bMemstat",
     r"MULTIVERSE \1with_statistics"),
    (1, r"(?<=\n)(SQLITE_PRIVATE void \*sqlite3Realloc\(void \*pOld, u64 nBytes\)\{(?:\n .*)*?if\( )"
        r"sqlite3GlobalConfig\.bMemstat", r"MULTIVERSE \1with_statistics"),
]


def make_source(folder):
    """The folder with sqlite3.c, SQLite in one file."""
    place = folder / "stock"
    if (place / "sqlite3.c").exists():
        return place
    tree = sources.fetch(folder, "sqlite3", "sqlite3-3.40.1")
    if not shutil.which("tclsh"):
        raise sources.Unavailable("sqlite3.c is made with tclsh, which is not here")
    progress("making sqlite3.c")
    making = folder / "making"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    sources.do([tree / "configure", "-q", "--disable-tcl", "--disable-readline"], making, 600,
               env=support.clean_environment(CC=support.CC))
    sources.do(["make", "-s", "sqlite3.c"], making, 600)
    return making.rename(place)


def edit(text):
    for often, pattern, replacement in EDITS:
        text, found = re.subn(pattern, replacement, text)
        support.check(found == often, f"another SQLite: {found} places for {pattern}")
    return text


def build(folder, stock, name, flags):
    """{layout: program}."""
    place = folder / name
    place.mkdir(exist_ok=True)
    source = place / "sqlite3.c"
    text = (stock / "sqlite3.c").read_text(encoding="utf-8", errors="surrogateescape")
    source.write_text(text if flags is None else edit(text), encoding="utf-8", errors="surrogateescape")
    progress(f"compiling SQLite, {name}")
    sources.do([support.CC, *CFLAGS, *(flags or "").split(), "-c", source, "-o", place / "sqlite3.o"], place, 900)
    programs = {}
    for layout, options in LAYOUTS.items():
        programs[layout] = place / f"work-{layout.replace(' ', '-')}"
        # The program finds multiverse_commit only where it is linked.
        sources.do([support.CC, *sources.CFLAGS.split(), f"-I{stock}", HERE / "work.c", place / "sqlite3.o",
                    "-Wl,-u,multiverse_commit", LIBRARY, *options, "-lm", "-o", programs[layout]], place, 120)
    return programs


class Case:
    def __init__(self, folder):
        stock = make_source(folder)
        self.programs = {name: build(folder, stock, name, flags) for name, flags in BUILDS.items()}

    def command(self, way, layout, what, n):
        name, commits = WAYS[way]
        return [str(self.programs[name][layout]), what, str(n), *(["commit"] if commits else [])]

    def output(self, *words):
        done = support.run(self.command(*words))
        support.check(done.returncode == 0, f"{words}: {done.returncode} {done.stderr}")
        return done.stdout.split()

    def instructions(self, way, layout, what):
        low, high = (sources.instructions(self.command(way, layout, what, n)) for n in (20000, 40000))
        return (high - low) / 20000


def measure(case, layout, what, rounds):
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(usable)})
    try:
        return spreads({way: way for way in WAYS}, rounds,
                       lambda way: float(case.output(way, layout, what, TIMED[what])[0]))
    finally:
        os.sched_setaffinity(0, usable)


def run(folder, rounds=15):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    folder.mkdir(parents=True, exist_ok=True)
    case = Case(folder)
    sums = {(what, way): case.output(way, layout, what, 5000)[1]
            for what in TIMED for way in WAYS for layout in LAYOUTS}
    equal = all(value == sums[what, "stock"] for (what, _), value in sums.items())
    rows = [("sqlite: what comes out", "the same in all ways" if equal else "NOT the same", equal)]
    for layout in LAYOUTS:
        for what in TIMED:
            progress(f"measuring {what}, laid out {layout}")
            found = measure(case, layout, what, rounds)
            table([[way, f"{spread.median:.1f}", spread.beside(found["stock"])] for way, spread in found.items()],
                  [f"ns a {what}", "median", "beside stock"])
            rows += [(f"{what}, {layout}, {way}", f"{spread.median:.1f} | ns | {spread.beside(found['stock'])}", None)
                     for way, spread in found.items()]
    if not shutil.which("valgrind"):
        say("    (With valgrind installed, instructions are counted, too.)")
        return rows
    progress("counting instructions with callgrind")
    for what in TIMED:
        counts = {way: case.instructions(way, "as compiled", what) for way in WAYS if "again" not in way}
        rows += [(f"{what}, instructions, {way}", f"{value:.0f} | instructions | "
                  f"{100 * (value / counts['stock'] - 1):+.1f} %", None) for way, value in counts.items()]
    return rows
