#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stock Debian programs with mvld as the system's loader.

Every case (stock/*.py) runs plainly and with mvld in the place of
/lib64/ld-linux-x86-64.so.2; output and exit status must be equal, and mvld must
have been seen to start the case's programs.  See stock/harness.py for how.

A failure means that a program which knows nothing of mvld behaves differently
because mvld is installed.
"""
import argparse
import concurrent.futures
import itertools
import os
import queue
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402
from stock import table  # noqa: E402
from stock.cases import CASES, LARGE  # noqa: E402
from stock.harness import SNAPSHOT, LEARNT, ON_MISS, Harness, Plain, known_passes  # noqa: E402


# multiverse comes last in a pipeline that holds more: it patches what the others leave.
PIPELINES = [("direct-calls",), ("multiverse",), ("direct-calls", "multiverse"),
             ("direct-calls", SNAPSHOT), ("direct-calls", "multiverse", SNAPSHOT),
             ("direct-calls", "concat"), ("direct-calls", "concat", SNAPSHOT),
             ("direct-calls", "concat", "multiverse")]
LARGE_PIPELINES = [("direct-calls",), ("direct-calls", "concat"),
                   ("direct-calls", SNAPSHOT), ("direct-calls", "concat", SNAPSHOT),
                   ("direct-calls", LEARNT), ("direct-calls", "concat", LEARNT)]


def configurations(arguments):
    """The pipelines to try: those asked for, else none."""
    if not arguments.all_passes:
        return [tuple(filter(None, words.split(","))) for words in arguments.passes or [""]]
    if arguments.large:
        return LARGE_PIPELINES
    known = known_passes()
    return [()] + [names for names in PIPELINES if set(names) <= {*known, *ON_MISS}] + [
        (name,) for name in known if not any(name in names for names in PIPELINES)]


class Worker:
    """Runs cases one after the other, in a folder and namespaces of its own."""

    def __init__(self, scratch, analysis, pipelines, rounds):
        scratch.mkdir(mode=0o755)
        plain = Plain(scratch, analysis)
        # What one start has learnt the next ones use: the later ones are the test.
        self.harnesses = {", ".join(passes) or "no pass":
                          Harness(plain, passes, 2 * rounds if LEARNT in passes else rounds)
                          for passes in pipelines}
        for harness in self.harnesses.values():
            harness.check_in_place()

    def run(self, case, large):
        """The large ones take up to an hour: whoever ends one has what it had found."""
        results = {}
        for name, harness in self.harnesses.items():
            results[name] = harness.compare(case)
            if large:
                print(f"    {case.name}, {name}: {results[name].state}", flush=True)
        return results


def report(number, total, case, results, seconds):
    """One line a case, and what is wrong."""
    words = []
    for result in results.values():
        words.append(f"left out: {result.detail}" if result.state == "absent" else
                     f"equal ({result.lines} lines, {len(result.started)} started)"
                     if result.state == "equal" else result.state.upper())
    same = words[:1] if results and len(set(words)) == 1 and "left out" in words[0] else words
    print(f"  {number:2}/{total} {case.name:<18} {'; '.join(same)}  {seconds:.1f} s", flush=True)
    for name, result in results.items():
        if result.state not in ("equal", "absent"):
            print(f"{case.name}, {name}: {result.detail}", flush=True)


def run_all(scratch, cases, arguments):
    """Configuration -> case -> result."""
    workers = queue.SimpleQueue()
    analysis = Path(arguments.analysis or scratch / "analysis").resolve()
    for number in range(arguments.jobs):
        workers.put(Worker(scratch / str(number), analysis, configurations(arguments),
                           arguments.rounds or (2 if arguments.large else 1)))
    worker = workers.get()
    results = {name: {} for name in worker.harnesses}
    print("configurations: " + "; ".join(results))
    for harness in worker.harnesses.values():
        if harness.blind:
            print(f"who is started with mvld is not watched: {harness.blind}")
            break
    workers.put(worker)
    done = itertools.count(1)

    def one(case):
        worker, begin = workers.get(), time.monotonic()
        try:
            found = worker.run(case, arguments.large)
        finally:
            workers.put(worker)
        for name, result in found.items():
            results[name][case.name] = result
        with lock:
            report(next(done), len(cases), case, found, time.monotonic() - begin)

    lock = threading.Lock()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one, cases))
    return results


def chosen(arguments):
    if arguments.case:
        unknown = set(arguments.case) - {case.name for case in CASES + LARGE}
        support.check(not unknown, f"there is no case {' '.join(unknown)}")
        return [case for case in CASES + LARGE if case.name in arguments.case]
    if arguments.large:
        return LARGE
    return CASES if arguments.full else [case for case in CASES if case.cheap]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", action="append", metavar="NAME,...",
                        help="a pipeline for every program; several times: one run each. "
                        "With the word snapshot, programs start from snapshots; with the word run, "
                        "`mvld run' starts a case's programs")
    parser.add_argument("--all-passes", action="store_true",
                        help="no pass, each pass of the build, what is used together, and from snapshots")
    parser.add_argument("--full", action="store_true", help="all cases, not only the cheap ones")
    parser.add_argument("--large", action="store_true", help="the large programs: browsers, office, "
                        "run times of languages, others' test suites; each twice")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="runs of a case in each configuration, twice as many where programs "
                        "learn (default: 1; 2 with --large)")
    parser.add_argument("--analysis", metavar="FOLDER",
                        help="where the machine's analyses are, or shall be kept")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case")
    parser.add_argument("--table", metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count()), metavar="N",
                        help="cases at the same time (default: %(default)s)")
    parser.add_argument("--packages", action="store_true",
                        help="only print the Debian packages that the cases need")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.packages:
        print(*sorted({package for case in chosen(arguments)
                      for package in case.packages}), sep="\n")
        return
    support.need(support.LOADER)
    before = os.lstat(support.HOST_LOADER)
    cases = chosen(arguments)
    with support.scratch_folder() as scratch:
        scratch.chmod(0o755)  # some cases become another user
        results = run_all(scratch, cases, arguments)
    after = os.lstat(support.HOST_LOADER)
    if arguments.table:
        Path(arguments.table).write_text(table.markdown(cases, results))
    print(table.summary(cases, results))
    support.check((before.st_ino, before.st_mtime) == (after.st_ino, after.st_mtime)
                  and not os.path.lexists(support.HOST_LOADER + ".host"),
                  "the machine's own loader was touched")
    states = [result.state for of in results.values() for result in of.values()]
    wrong = states.count("different") + states.count("broken")
    support.check(wrong == 0, f"{wrong} cases are not as under the plain loader")
    support.check(2 * states.count("equal") >= len(states) or arguments.case,
                  "fewer than half of the cases could be run: too few to say anything")
    support.check("equal" in states, "no case could be run")


if __name__ == "__main__":
    main()
