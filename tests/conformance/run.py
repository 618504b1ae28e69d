#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""glibc's own tests of the dynamic loader, with mvld in the place of its ld.so.

Builds glibc as Debian has it (a quarter of an hour on two idle cores, once), runs its
tests of elf/, dlfcn/ and what rests on them under the ld.so just built, then with mvld in
its place, wrapping it: without a pass, with each pass, with all of them.  Whatever passes
under ld.so must pass under mvld.

Each is done in two ways.  "direct" is glibc's own: ld.so --library-path … test.
"interpreter" starts the test as a program whose interpreter (PT_INTERP) is the
loader, which is how the kernel starts every other program.

What was run is kept until the loader or a pass changes; Ctrl-C loses only the run at
hand.  A test that fails is run twice more, alone, before it counts: the machine may have
been busy.  The exit status says whether any test differs.
"""
import argparse
import fnmatch
import json
import os
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import table  # noqa: E402
from glibc import GROUPS, Glibc, package_version, say  # noqa: E402
from mvld import Mvld  # noqa: E402

WAYS = ("direct", "interpreter")


def way_variables(way, glibc):
    """What make is told, so that a test is started in this way."""
    if way == "direct":
        return []
    folders = [glibc.build, *(glibc.build / d for d in (
        "math", "elf", "dlfcn", "nss", "nis", "rt", "resolv", "mathvec", "support", "nptl"))]
    return ["run-via-rtld-prefix=",
            f"run-program-env=GCONV_PATH={glibc.build}/iconvdata LOCPATH={glibc.build}/localedata "
            f"LC_ALL=C LD_LIBRARY_PATH={':'.join(map(str, folders))}"]


def read_skips(path=HERE / "skip.txt"):
    """[(test glob, way or pass or "", reason)]."""
    skips = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, reason = line.split(None, 1)
            name, _, only = name.partition("@")
            skips.append((name, only, reason))
    return skips


def skip_reason(skips, test, way, passes):
    for name, only, reason in skips:
        if fnmatch.fnmatch(test, name) and (not only or only == way or only in passes):
            return reason
    return None


class Runs:
    """The results of all runs, kept in files below `folder`."""

    def __init__(self, glibc, folder, again):
        self.glibc, self.folder, self.again = glibc, folder, again

    def known(self, name, key):
        path = self.folder / name / "results.json"
        kept = json.loads(path.read_text()) if path.exists() else {"key": None}
        return kept["results"] if kept["key"] == key else {}

    def run(self, name, key, tests, variables, expected=None):
        """{test: word}, run now or earlier.  What ends otherwise than it should (under
        mvld: than under ld.so) is run twice more, alone."""
        known = self.known(name, key)
        missing = [t for t in tests if self.again or t not in known]
        if missing:
            say(f"{name.replace('/', ', ')}: {len(missing)} tests")
            target, log = self.folder / name, name.replace("/", "-")
            known.update(self.glibc.run(log, missing, variables))
            for _ in range(2):
                odd = [t for t in missing if known[t] in ("FAIL", "NONE")
                       and (expected is None or table.good(expected[t]))]
                if not odd:
                    break
                self.glibc.keep_outputs(odd, target / "first")
                again = self.glibc.run(log, odd, variables, jobs=1, progress=False)
                known.update({t: "PASS-AGAIN" if r == "PASS" else r for t, r in again.items()})
            self.glibc.keep_outputs(missing, target)
            kept = {"key": key, "results": known}
            (target / "results.json").write_text(json.dumps(kept, indent=1))
        return {t: known[t] for t in tests}


def arguments_of(argv):
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(cache) / "mvld" / "conformance"
    parser = argparse.ArgumentParser(prog="./dev conformance", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="TEST",
                        help="only these tests, as elf/tst-tls1 or 'elf/tst-tls*'")
    parser.add_argument("--way", choices=WAYS, action="append", help="only in this way")
    parser.add_argument("--passes", action="append", metavar="NAME",
                        help="only with this pass, or 'none', or 'all'; may be repeated")
    parser.add_argument("--again", action="store_true", help="do not use kept results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="how many at a time (default: the number of processors)")
    parser.add_argument("--cache", type=Path, default=cache, metavar="FOLDER",
                        help=f"where all of it lies, about 2 GB (default: {cache})")
    return parser.parse_args(argv)


def configurations(wanted, passes):
    """[(name, passes)]: none, each alone, all (concat wants to be the last but multiverse)."""
    together = sorted(passes, key=lambda name: (name == "multiverse", name == "concat", name))
    choice = {"none": [], **{name: [name] for name in sorted(passes)}, "all": together}
    unknown = set(wanted or []) - set(choice)
    if unknown:
        sys.exit(f"no such pass: {', '.join(sorted(unknown))}; there are {', '.join(choice)}")
    return [(name, choice[name]) for name in choice if not wanted or name in wanted]


def main(argv=None):
    arguments = arguments_of(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended")) # what it started ends, too
    glibc = Glibc(arguments.cache.resolve(), arguments.jobs)
    glibc.lock()
    glibc.unpack()
    glibc.make_library()
    mvld = Mvld(glibc)
    mvld.make()
    tests = [f"{folder}/{name}" for folder in GROUPS for name in glibc.tests_of(folder)]
    if arguments.tests:
        tests = [t for t in tests if any(fnmatch.fnmatch(t, g) for g in arguments.tests)]
    if not tests:
        sys.exit("no such test")
    skips, rows = read_skips(), []
    runs = Runs(glibc, glibc.cache / "results", arguments.again)
    for way in arguments.way or WAYS:
        variables = way_variables(way, glibc)
        plain = runs.run(f"{way}/ld.so", package_version(), tests, variables)
        mvld.analyze(glibc.objects())
        for name, passes in configurations(arguments.passes, mvld.passes):
            skipped = {t: r for t in tests if (r := skip_reason(skips, t, way, passes))}
            with mvld.in_place(passes):
                results = runs.run(f"{way}/{name}", mvld.key,
                                   [t for t in tests if t not in skipped], variables, plain)
            rows.append(table.Row(way, name, plain, results, skipped))
    return 1 if table.show(rows, list(GROUPS), runs.folder) else 0


if __name__ == "__main__":
    sys.exit(main())
