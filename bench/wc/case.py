# SPDX-License-Identifier: MIT
"""The wc case study: what GNU wc shall count decides what it must look at, byte by byte.

wc (coreutils 9.1) has a quick loop for lines alone; in the other two it keeps track of words and of the
longest line whether or not somebody wants them.  wc.patch asks, and multiverse takes the question, and what
depends on it, out of the loops.  Called once a file: what a variation point costs uncommitted is nothing.
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

VERSION = "9.1-1"
AS_SHIPPED = [f"{tool}=:" for tool in ("ACLOCAL", "AUTOCONF", "AUTOHEADER", "AUTOMAKE", "MAKEINFO")]
CONFIGURE = ["--disable-nls", "--disable-dependency-tracking", "--without-selinux", "--without-libgmp"]
PLUGIN = f"-DWITH_MULTIVERSE -fplugin={support.PLUGIN}"
LIBRARY = support.PASSES / "library" / "libmultiverse.a"
# What is timed: options, locale.
TIMED = {"wc, C": ([], "C"), "wc, UTF-8": ([], "C.UTF-8"), "wc -m, UTF-8": (["-m"], "C.UTF-8"),
         "wc -L, UTF-8": (["-L"], "C.UTF-8"), "wc -w, C": (["-w"], "C")}
COMPARED = [[], *([option] for option in ("-l", "-w", "-c", "-m", "-L", "-lw", "-wm", "-mL", "-lL", "-lwcmL"))]
# Of the static ways: what the patched source is told, by the options.
STATIC = {"-w": "print_words = 1, print_linelength = 0", "-m": "print_words = 0, print_linelength = 0",
          "-L": "print_words = 0, print_linelength = 1", "": "print_words = 1, print_linelength = 0"}
WAYS = ("stock", "stock, again", "branch", "uncommitted", "committed", "static")


def build_stock(folder):
    """The tree of a built wc."""
    tree = sources.fetch(folder, "coreutils", "coreutils-9.1", VERSION)
    if not (tree / "Makefile").exists():
        progress("configure (a minute or two)")
        environment = support.clean_environment(CC=support.CC, CFLAGS=sources.CFLAGS,
                                                FORCE_UNSAFE_CONFIGURE=1)
        sources.do(["./configure", "-q", *CONFIGURE], tree, 1200, env=environment)
    if not (tree / "src" / "wc").exists():
        progress("building wc, stock")
        make = ["make", *AS_SHIPPED, "-j", os.cpu_count()]
        (tree / "built.mk").write_text("include Makefile\nbuilt: $(BUILT_SOURCES)\n")
        sources.do([*make, "-f", "built.mk", "built"], tree, 300)
        sources.do([*make, "src/wc"], tree, 1200)
    return tree


def build_edited(tree, folder, name, flags, fixed=None, libraries=()):
    """wc of the patched source; `fixed` is what it is told at compile time."""
    place = folder / f"wc-{name}"
    (place / "src").mkdir(parents=True, exist_ok=True)
    shutil.copy(tree / "src" / "wc.c", place / "src" / "wc.c")
    sources.do(["patch", "-p1", "--fuzz=0", "-i", HERE / "wc.patch"], place, 60)
    if fixed:
        source = place / "src" / "wc.c"
        text, found = re.subn(r"(?m)^(wc \(int fd, .*\n\{\n)", rf"\1  const bool {fixed};\n",
                              source.read_text())
        support.check(found == 1, "the function wc is not where it was")
        source.write_text(text)
    here = [f"-I{tree}", f"-I{tree}/lib", f"-I{tree}/src"]
    sources.do([support.CC, "-DHAVE_CONFIG_H", *here, *sources.CFLAGS.split(), *flags.split(), "-c",
               place / "src" / "wc.c", "-o", place / "wc.o"], tree, 60)
    sources.do([support.CC, "-Wl,--as-needed", "-o", place / "wc", place / "wc.o", tree / "src" / "libwc_avx2.a",
               tree / "src" / "libver.a", tree / "lib" / "libcoreutils.a", *libraries], tree, 60)
    return place / "wc"


class Case:
    def __init__(self, folder):
        self.folder = folder
        tree = build_stock(folder)
        progress("building wc, edited")
        # wc finds multiverse_commit only where it is linked.
        linked = ["-Wl,-u,multiverse_commit", LIBRARY]
        self.programs = {
            "stock": tree / "src" / "wc",
            "branch": build_edited(tree, folder, "branch", ""),
            "uncommitted": build_edited(tree, folder, "uncommitted", PLUGIN),
            "committed": build_edited(tree, folder, "committed", PLUGIN, libraries=linked)}
        for option, fixed in STATIC.items():
            self.programs[f"static{option}"] = build_edited(tree, folder, f"static{option}", "", fixed)

    def command(self, way, options, *files):
        name = f"static{''.join(options)}" if way == "static" else way.partition(",")[0]
        return [str(self.programs[name]), *options, *map(str, files)]


def make_inputs(folder):
    """Text of words, most of it ASCII; a few bytes of everything; nothing."""
    words = ("the quick brown fox jumps over the lazy dog while some_identifier(argument, 42) != NULL; "
             "straße résumé naïve — “quoted” 日本語\u00a0text\tend").split(" ")
    lines, state = [], 1
    for _ in range(60000):
        line = []
        for _ in range(state % 13):
            state = (state * 1103515245 + 12345) & 0x7fffffff
            line.append(words[(state >> 16) % (len(words) if state & 0xf0000 == 0 else 20) % len(words)])
        state = (state * 1103515245 + 12345) & 0x7fffffff
        lines.append(" ".join(line))
    files = {"text": "\n".join(lines).encode(), "empty": b"", "no newline": b"one two",
             "bytes": bytes(range(256)) * 3 + b"\xe2\x82 \xff\r\f\v\t" + "\u2007x\u2060y".encode()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def compare(case, files):
    """(how many runs were compared, descriptions of those that differ)."""
    different, compared = [], 0
    for options in COMPARED:
        for locale in ("C", "C.UTF-8"):
            for posix in ({}, {"POSIXLY_CORRECT": "1"}):
                results = {}
                for way in ("stock", "branch", "uncommitted", "committed"):
                    environment = support.clean_environment(LC_ALL=locale, **posix)
                    done = subprocess.run(case.command(way, options, *files, "missing"), env=environment,
                                          capture_output=True, timeout=60)
                    name = os.fsencode(case.programs[way])
                    results[way] = done.returncode, done.stdout, done.stderr.replace(name, b"wc")
                support.check(b"total" in results["stock"][1], f"wc {options} says nothing")
                compared += 3
                different += [f"{way} {options} {locale}" for way in results if results[way] != results["stock"]]
    return compared, different


def measure(case, text, empty, options, locale, seconds):
    """{way: (Work, Change beside stock)}, and how many runs were undisturbed."""
    environment = {"LC_ALL": locale}
    works, quiet = steady.works({way: (case.command(way, options, text), environment) for way in WAYS},
                                {way: (case.command(way, options, empty), environment) for way in WAYS},
                                40, seconds)
    return {way: (work, steady.Change(work, works["stock"])) for way, work in works.items()}, quiet


def count(case, text, options, locale):
    """Instructions a byte, of the second eighth of the text."""
    content = text.read_bytes()
    small, large = text.with_name("eighth"), text.with_name("quarter")
    small.write_bytes(content[:len(content) // 8])
    large.write_bytes(content[:len(content) // 4])
    environment = support.clean_environment(LC_ALL=locale)
    return {way: (sources.instructions(case.command(way, options, large), environment) -
                  sources.instructions(case.command(way, options, small), environment)) /
            (len(content) // 4 - len(content) // 8) for way in WAYS if "again" not in way}


def run(folder, seconds=45):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    folder.mkdir(parents=True, exist_ok=True)
    case = Case(folder)
    files = make_inputs(folder)
    text, empty = files[:2]
    progress("comparing output")
    compared, different = compare(case, files)
    for line in different:
        say("    DIFFERENT: " + line)
    rows = [("wc: output equal to stock wc", f"{compared - len(different)} of {compared} runs", not different)]
    for name, (options, locale) in TIMED.items():
        progress(f"measuring CPU time: {name}")
        works, (quiet, runs) = measure(case, text, empty, options, locale, seconds)
        table([[way, f"{work.value:.2f}", str(change)] for way, (work, change) in works.items()],
              [name, "ms", "beside stock"])
        rows += [(f"{name}, time, {way}", f"{work.value:.2f} | ms | "
                  f"{change}; {quiet} of {runs} runs undisturbed", None) for way, (work, change) in works.items()]
        if shutil.which("valgrind"):
            counts = count(case, text, options, locale)
            rows += [(f"{name}, instructions, {way}", f"{value:.2f} | a byte | "
                      f"{100 * (value / counts['stock'] - 1):+.1f} %", None) for way, value in counts.items()]
    return rows
