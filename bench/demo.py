#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""./dev demo: what mvld does, on real programs, in a few minutes.

Five parts, each usable alone (--only):

    direct   unmodified programs, their calls between objects made direct: a large program's start
             and a small one's, work
    service  four ELF objects with switches, committed before main and while running
    grep     Debian's GNU grep, multiversed, against stock grep
    concat   unmodified programs, their code and that of their libraries in one place
    stock    unmodified programs of the distribution with mvld as the system's loader
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
from report import heading, progress, say, table  # noqa: E402


def load(name):
    """bench/<name>/case.py; the cases have the same file name."""
    specification = importlib.util.spec_from_file_location(f"{name}_case", HERE / name / "case.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def service(folder, _):
    heading("A service in four objects: switches in the executable, variation points in a library")
    return load("service").run(folder / "service")


def grep(folder, arguments):
    heading("Debian's GNU grep, its multi-byte mode multiversed")
    case = load("grep")
    import sources
    try:
        return case.run(folder / "grep", arguments.megabytes, arguments.rounds)
    except sources.Unavailable as error:
        say(f"    left out: {error}")
        return [("grep: its source cannot be had or built here", "left out", None)]


def direct(folder, arguments):
    heading("Unmodified Debian programs, their calls between objects made direct: starts and work")
    say("    The programs are copies whose interpreter is mvld; nothing on this machine changes.")
    import stock as unmodified
    return unmodified.run(folder / "direct", arguments.rounds)


def concat(folder, _):
    heading("Unmodified Debian programs, the code of all their objects in one place")
    say("    Copies of programs again, with direct-calls before; their image is made first.")
    import moved
    return moved.run(folder / "concat")


def stock(_, arguments):
    heading("Stock Debian programs, mvld in the place of /lib64/ld-linux-x86-64.so.2")
    say("    In a private mount namespace; nothing on this machine changes.  Output and exit")
    say("    status of each are compared with a run under the plain ld.so.\n")
    rows = []
    harness = HERE.parent / "tests" / "integration" / "stock_programs.py"
    cases = [word for name in ("bash", "coreutils", "python3", "perl", "node", "gcc", "sqlite3",
                               "redis", "git") for word in ("--case", name)]
    for what, passes in (("mvld alone", []),
                         ("with the multiverse pass", ["--passes", "multiverse"])):
        progress(what)
        done = subprocess.run([sys.executable, str(harness), *passes, *cases], text=True)
        result = {0: "all equal", 77: "left out: see above"}.get(done.returncode, "see above")
        rows.append((f"stock programs, {what}", result,
                     None if done.returncode == 77 else done.returncode == 0))
    return rows


PARTS = {"direct": direct, "service": service, "grep": grep, "concat": concat, "stock": stock}


def show(rows):
    """What was measured, and what was checked or left out."""
    figures = [row[:2] for row in rows if row[2] is None and "left out" not in row[1]]
    if figures:
        heading("What it gains, and what not (CPU time of starts and work: first quartiles, 95 % intervals)")
        table(figures)
    heading("What was checked")
    verdict = {True: "ok", False: "NOT OK", None: ""}
    table([(what, result, verdict[ok]) for what, result, ok in rows if (what, result) not in figures])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone")
    parser.add_argument("--megabytes", type=int, default=100, help="how much grep searches")
    parser.add_argument("--rounds", type=int, default=7, help="how often each grep is timed")
    arguments = parser.parse_args()
    os.environ["MVLD_BUILD"] = str(Path(arguments.build).resolve())
    import support
    folder = Path(arguments.build).resolve() / "demo"
    rows, failed = [], False
    parts = arguments.only or list(PARTS)
    if not support.PLUGIN.exists():
        compiled = [name for name in parts if name in ("service", "grep")]
        parts = [name for name in parts if name not in compiled]
        rows += [(name, "left out: no GCC plugin; it needs GCC 12 or later, and its "
                        "gcc-N-plugin-dev", None) for name in compiled]
    for name in parts:
        try:
            rows += PARTS[name](folder, arguments)
        except (Exception, SystemExit) as error:  # a broken part must not hide the others
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            say(f"    {name} failed: {error}")
            rows.append((name, f"failed: {str(error).splitlines()[0]}", False))

    show(rows)
    failed = any(ok is False for _, _, ok in rows)
    left_out = any("left out" in result for _, result, _ in rows)
    say("\n    Something is not as it should be: see above." if failed else
        "\n    What was shown is as it should be; the rest is left out, see above." if left_out else
        "\n    Everything is as it should be.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
