# SPDX-License-Identifier: MIT
"""The CPython case study, after section 6.2.1 of the EuroSys 2019 paper: whether garbage is collected by
itself (gc.disable()) is asked for each container that is allocated.

gc.patch makes that a switch, and variation points of the functions that allocate; gc.disable() and
gc.enable() commit.  The paper found no stable difference, in wall time.  Here it is CPU time of many short
runs in random order, with an interval, and the number of instructions.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import sources  # noqa: E402
import steady  # noqa: E402
import support  # noqa: E402
from report import progress, say, table  # noqa: E402

TREE = "python3.11-3.11.2"
PLUGIN = f"-DWITH_MULTIVERSE -fplugin={support.PLUGIN}"
LIBRARY = support.PASSES / "library" / "libmultiverse.a"
# What the patch changes; then who calls a variation point, and is to know that it is one.
EDITED = ["Modules/gcmodule", "Python/pystate"]
CALLERS = [f"Objects/{name}object" for name in (
    "cell", "class", "descr", "dict", "func", "gen", "iter", "list", "method", "set", "slice", "tuple",
    "type")]
# The work, and how much of it some tens of milliseconds are.
WORK = {"bare": 3000, "lists": 4000, "points": 600, "trees": 600, "records": 600}
COUNTED = ("bare", "trees")  # callgrind is slow
WAYS = ("stock", "stock, again", "branch", "uncommitted", "committed", "static")


def make(tree, *words, timeout=600):
    sources.do(["make", *words], tree, timeout, env=support.clean_environment())


def link(tree, name, *libraries):
    make(tree, "--eval", f"relink: ; $(LINKCC) $(PY_CORE_LDFLAGS) $(LINKFORSHARED) -o {name} Programs/python.o "
         f"$(LINK_PYTHON_OBJS) {' '.join(map(str, libraries))} $(LIBS) $(MODLIBS) $(SYSLIBS)", "relink")


def build_stock(folder):
    """The tree of a built python; only the program, without modules of their own."""
    tree = sources.fetch(folder, "python3.11", TREE)
    if not (tree / "Makefile").exists():
        progress("configure (a minute or two)")
        sources.do(["./configure", "-q", "--without-ensurepip", f"CC={support.CC}", "CFLAGS=-g1"], tree, 1200,
                   env=support.clean_environment())
    if not (tree / "python").exists():
        progress("building python, stock (minutes)")
        make(tree, "-j", os.cpu_count(), "python", timeout=3600)
    return tree


def changed_headers():
    return [name for name in re.findall(r"^\+\+\+ b/(\S+)", (HERE / "gc.patch").read_text(), re.M)
            if name.endswith(".h")]


def build_edited(stock, folder, name, flags="", callers=(), static=False):
    """python of the patched source.  For the headers alone nothing is compiled anew: the patch adds
    declarations to them."""
    tree = folder / f"python-{name}"
    if sources.fresh(tree / "python", HERE / "gc.patch", support.PLUGIN, stock / "python"):
        return tree / "python"
    progress(f"building python, {name}")
    sources.patched(stock, tree, HERE / "gc.patch")
    if static:
        source = tree / "Modules" / "gcmodule.c"
        text, found = re.subn(r"if \(_PyGC_automatic &&", "if (0 &&", source.read_text())
        support.check(found == 1, "_PyGC_automatic is not asked where it was")
        source.write_text(text)
    units = [*EDITED, *callers]
    old = [word for header in changed_headers() for word in ("-o", header)]
    new = [word for unit in units for word in ("-W", f"{unit}.c")]
    make(tree, *old, *new, f"EXTRA_CFLAGS={flags}", *(f"{unit}.o" for unit in units), timeout=1800)
    link(tree, "python")
    return tree / "python"


class Case:
    def __init__(self, folder):
        stock = build_stock(folder)
        # All with the same modules, whose byte code is kept there.
        self.environment = {"PYTHONPATH": str(stock / "Lib"), "PYTHONHASHSEED": "0"}
        self.programs = {"stock": stock / "python", "branch": build_edited(stock, folder, "branch"),
                         "static": build_edited(stock, folder, "static", static=True)}
        uncommitted = build_edited(stock, folder, "multiversed", PLUGIN, CALLERS)
        # Where there is no library nothing is committed.
        self.programs["uncommitted"] = uncommitted
        link(uncommitted.parent, "committed", "-Wl,-u,multiverse_commit_refs", LIBRARY)
        self.programs["committed"] = uncommitted.with_name("committed")

    def command(self, way, work, n):
        return [str(self.programs[way.partition(",")[0]]), "-S", str(HERE / "work.py"), work, str(n)]

    def output(self, way, work, n):
        done = subprocess.run(self.command(way, work, n), capture_output=True, text=True, timeout=120,
                              env=support.clean_environment(**self.environment))
        support.check(done.returncode == 0, f"{way}, {work}: {done.returncode} {done.stderr}")
        return done.stdout

    def count(self, way, work):
        """Instructions of so much work, without the start."""
        environment = support.clean_environment(**self.environment)
        low, high = (sources.instructions(self.command(way, work, n), environment, 1200)
                     for n in (WORK[work] // 20, WORK[work] // 10))
        return 20 * (high - low)


def compare(case):
    """(how many runs were compared, descriptions of those that differ, what `switched` says)."""
    different, compared = [], 0
    for work, n in [*((work, 5) for work in WORK), ("switched", 3)]:
        expected = case.output("stock", work, n)
        for way in WAYS[2:-1]:
            compared += 1
            if case.output(way, work, n) != expected:
                different.append(f"{way} {work}")
    return compared, different, expected.strip()


def run(folder, seconds=45):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    case = Case(folder)
    progress("comparing output")
    compared, different, switched = compare(case)
    for line in different:
        say("    DIFFERENT: " + line)
    collects = switched.startswith("[(False, False, False), (True, True, True), ")
    rows = [("python: output equal to stock python", f"{compared - len(different)} of {compared} runs",
             not different),
            ("python: gc.disable() and gc.enable()", "take effect" if collects else switched, collects)]
    for work, n in WORK.items():
        progress(f"measuring CPU time: {work}")
        works, (quiet, runs) = steady.works(
            {way: (case.command(way, work, n), case.environment) for way in WAYS},
            {way: (case.command(way, work, 0), case.environment) for way in WAYS}, 60, seconds)
        changes = {way: steady.Change(works[way], works["stock"]) for way in WAYS}
        table([[way, f"{works[way].value:.2f}", str(changes[way])] for way in WAYS], [work, "ms", "beside stock"])
        rows += [(f"{work}, time, {way}", f"{works[way].value:.2f} | ms | {changes[way]}; "
                  f"{quiet} of {runs} runs undisturbed", None) for way in WAYS]
        if work in COUNTED and shutil.which("valgrind"):
            counts = {way: case.count(way, work) for way in WAYS if "again" not in way}
            rows += [(f"{work}, instructions, {way}", f"{count / 1e6:.2f} | millions | "
                      f"{100 * (count / counts['stock'] - 1):+.2f} %", None) for way, count in counts.items()]
    return rows
