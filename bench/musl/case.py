# SPDX-License-Identifier: MIT
"""The musl case study, after section 6.2.2 of the EuroSys 2019 paper: no locks while there is one thread.

musl 1.2.3 asks `libc.need_locks` in each of its internal locks, and each FILE has a lock that is left
out only until the first thread was made.  elision.patch makes need_locks a switch, and variation points of
random, malloc, free and the functions that read and write one character.  It is set, and committed, by
pthread_create before there are two threads, and by pthread_join when there is one again.

Programs are static; libmultiverse is linked with them.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import sources  # noqa: E402
import support  # noqa: E402
from report import Spread, interleaved, progress, say, table  # noqa: E402

VERSION = "1.2.3-1"
PLUGIN = f"-fplugin={support.PLUGIN}"
# What musl is built with, beside the flags of all.  (Without the macro its attributes are not there.)
LIBCS = {"stock": "", "edited": "", "multiversed": f"-DWITH_MULTIVERSE {PLUGIN}", "static": "-Dneed_locks=0"}
# What is measured: the way's name, which musl, whether it commits.
WAYS = {"stock": ("stock", False), "stock, again": ("stock", False), "branch": ("edited", False),
        "uncommitted": ("multiversed", False), "committed": ("multiversed", True),
        "static": ("static", False)}
FUNCTIONS = ("random", "malloc(0)", "malloc(1)", "fputc")
STATES = {"never": "no thread was ever made", "joined": "a thread was made and joined"}
EXPECTED = 6  # lines of threads.c
STEPS = ["without locks", "with locks", "without locks"] * 2


def build_libc(folder, name, flags):
    """The folder of an installed musl."""
    prefix = folder / f"musl-{name}"
    inputs = [HERE / "elision.patch", *([support.PLUGIN] if PLUGIN in flags else [])]
    if sources.fresh(prefix / "lib" / "libc.a", *inputs):
        return prefix
    stock = sources.fetch(folder, "musl", "musl-1.2.3", VERSION)
    tree = folder / f"tree-{name}"
    if name == "stock":
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(stock, tree, symlinks=True)
    else:
        sources.patched(stock, tree, HERE / "elision.patch")
    progress(f"building musl, {name} (a minute on a quiet machine)")
    environment = support.clean_environment(CC=support.CC, CFLAGS=f"{sources.CFLAGS} {flags}")
    sources.do(["./configure", f"--prefix={prefix}", "--disable-shared"], tree, 120, env=environment)
    sources.do(["make", "SHARED_LIBS=", "-j", os.cpu_count(), "install"], tree, 1800)
    return prefix


def compile_ours(prefix, output, *words):
    command = [prefix / "bin" / "musl-gcc", *sources.CFLAGS.split(), "-std=gnu11", "-D_GNU_SOURCE",
               f"-I{support.SOURCE}/include", "-o", output, *words]
    done = subprocess.run([str(word) for word in command],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    support.check(done.returncode == 0, done.stderr)
    return output


def compile_library(prefix, output):
    """libmultiverse: its own files, compiled with musl's headers; its engine, which has no libc, as it is."""
    room = support.SOURCE / "passes" / "multiverse" / "library"
    return compile_ours(prefix, output, "-r", "-nostdlib", '-DNOTE_FLAGS="aR"', f"-I{support.SOURCE}",
                        "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu",
                        *sorted(room.glob("*.c")), support.PASSES / "library" / "libmultiverse.a")


def compile_program(prefix, source, output, library, *flags):
    return compile_ours(prefix, output, "-static", "-Wall", f"-I{HERE.parent}", *flags, source, library)


class Case:
    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.programs, self.threads = {}, {}
        for name, flags in LIBCS.items():
            prefix = build_libc(folder, name, flags)
            library = compile_library(prefix, folder / f"libmultiverse-{name}.o")
            attributes = [PLUGIN, "-DMULTIVERSED"] if name == "multiversed" else []
            for which, programs in (("calls", self.programs), ("threads", self.threads)):
                programs[name] = compile_program(prefix, HERE / f"{which}.c", folder / f"{which}-{name}", library,
                                                 *attributes)

    def command(self, way, state):
        name, commits = WAYS[way]
        return [str(self.programs[name]), state, "commit" if commits else "plain"]

    def nanoseconds(self, way, state):
        """{function: nanoseconds a call, without those of the loop}."""
        done = support.run(self.command(way, state))
        support.check(done.returncode == 0, f"{self.command(way, state)}: {done.stderr}")
        lines = dict(line.split(": ") for line in done.stdout.splitlines())
        return {name: float(lines[name]) for name in FUNCTIONS}


    def instructions(self, way, state, function):
        """How many a call takes, with the free() of what malloc gave and the loop around them."""
        low, high = (sources.instructions([*self.command(way, state), function, str(loops)])
                     for loops in (5, 15))
        return (high - low) / 10 / 1000


def compare(case):
    """(what came out of threads, whether it is as it should be)."""
    outputs = {}
    for name in ("stock", "edited", "multiversed"):
        done = support.run([case.threads[name]], timeout=120)
        support.check(done.returncode == 0, f"threads, {name}: {done.returncode} {done.stderr}")
        outputs[name] = done.stdout.splitlines()
    for line in outputs["multiversed"]:
        say("    | " + line)
    bound = [line.rpartition(", ")[2] for line in outputs["multiversed"]]
    plain = [line.rpartition(", ")[0] for line in outputs["multiversed"]]
    equal = outputs["stock"] == outputs["edited"] == plain and len(plain) == EXPECTED
    return equal, bound == STEPS


def measure(case, state, rounds):
    """{way: {function: Spread}}."""
    values = {way: {name: [] for name in FUNCTIONS} for way in WAYS}

    def once(way):
        for name, value in case.nanoseconds(way, state).items():
            values[way][name].append(value)
        return 0

    interleaved({way: way for way in WAYS}, rounds, once)
    return {way: {name: Spread(v) for name, v in functions.items()} for way, functions in values.items()}


def run(folder, rounds=15):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    case = Case(folder)
    progress("threads: alone, with four threads, alone again, twice")
    equal, bound = compare(case)
    rows = [("musl: a program with threads comes to the same", "as with stock musl" if equal else "NO", equal),
            ("musl: locks come with pthread_create, and go with pthread_join",
             "six steps of six" if bound else "NO", bound)]
    for state, what in STATES.items():
        progress(f"measuring, {what}: {len(WAYS)} ways, {rounds} rounds")
        spreads = measure(case, state, rounds)
        lines = []
        for name in FUNCTIONS:
            stock = spreads["stock"][name]
            lines.append([name, *(f"{spreads[way][name].median:.2f}" for way in WAYS)])
            for way in WAYS:
                spread = spreads[way][name]
                megabytes = f", {1000 / spread.median / 1.048576:.0f} MiB/s" if name == "fputc" else ""
                rows.append((f"{name}, {what}, {way}", f"{spread.median:.2f} | ns a call | "
                             f"{spread.beside(stock)}{megabytes}", None))
        table(lines, ["ns a call", *WAYS])
    return rows + counted(case)


def counted(case):
    if not shutil.which("valgrind"):
        say("    (With valgrind installed, instructions are counted, too.)")
        return []
    progress("counting instructions with callgrind")
    rows = []
    for state, what in STATES.items():
        for name in FUNCTIONS:
            counts = {way: case.instructions(way, state, name) for way in WAYS if "again" not in way}
            rows += [(f"{name}, {what}, {way}", f"{count:.1f} | instructions | callgrind; with free, and the loop",
                      None) for way, count in counts.items()]
    return rows
