#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""./dev bench: runs all benchmarks of the build, one after the other, and prints one table.

Benchmarks with one suite in meson.build are a group, any other is one by itself.  What a group
measured, with the machine and the versions that it belongs to, replaces bench/results/GROUP.md,
unless one of the group failed.  Where the machine has hardware counters, each benchmark runs
under perf stat.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from report import heading, markdown, progress, say, table  # noqa: E402

HEADINGS = ["benchmark", "what", "value", "unit", "note"]
COUNTERS = "instructions:u,cycles:u,branch-misses:u,L1-icache-load-misses:u,iTLB-load-misses:u"


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=HERE)
        return done.stdout.splitlines()[0] if done.returncode == 0 else "unknown"
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def has_counters():
    if not shutil.which("perf"):
        return False
    done = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "true"],
                          capture_output=True, text=True, timeout=20)
    return done.returncode == 0 and re.match(r"\d+,", done.stderr) is not None


def machine(counters):
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    return [
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("commit", first_line("git", "describe", "--always", "--dirty")),
        ("CPU", f"{model[1] if model else 'unknown'}, {os.cpu_count()} usable"),
        ("kernel", platform.release()),
        ("libc", first_line("getconf", "GNU_LIBC_VERSION")),
        ("compiler", first_line("gcc", "--version")),
        ("load", "%.2f when the benchmarks started" % os.getloadavg()[0]),
        ("counters", "perf stat, user mode" if counters else
         "hardware counters are unavailable on this machine: times only"),
    ]


def group(benchmark):
    return benchmark["suite"][0].partition(":")[2] or benchmark["name"]


def write_results(name, facts, rows):
    """bench/results/NAME.md, of the lines (benchmark, what, value, unit, note)."""
    output = HERE / "results" / f"{name}.md"
    output.write_text(f"<!-- Written by `./dev bench {name}`; the next run replaces it. -->\n# {name}\n\n"
                      + markdown(facts, ["", ""]) + "\n" + markdown(rows, HEADINGS))
    say(f"    written to {output}")


def run(benchmark, build, counters, figures):
    """Shows the benchmark's output as it comes; its figures are added.  The exit status."""
    command, stat = benchmark["cmd"], None
    if counters:
        stat = Path(f"/tmp/mvld-perf-{os.getpid()}")
        command = ["perf", "stat", "-x,", "-o", str(stat), "-e", COUNTERS, "--", *command]
    process = subprocess.Popen(["timeout", str(benchmark["timeout"]), *command], text=True,
                               env={**os.environ, **benchmark["env"]}, stdin=subprocess.DEVNULL,
                               cwd=benchmark["workdir"] or build, stdout=subprocess.PIPE)
    for line in process.stdout:
        if line.startswith("result: "):
            cells = [cell.strip() for cell in line[len("result: "):].split("|")]
            figures.append((benchmark["name"], *(cells + ["", "", ""])[:4]))
        else:
            print(line, end="", flush=True)
    if stat:
        for line in stat.read_text().splitlines():
            fields = line.split(",")
            if fields[0].isdigit():
                figures.append((benchmark["name"], fields[2], fields[0], "", "whole run"))
        stat.unlink()
    return process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("only", nargs="*", help="run these groups alone")
    arguments = parser.parse_args()
    build = Path(arguments.build).resolve()
    benchmarks = json.loads(subprocess.run(["meson", "introspect", "--benchmarks", str(build)],
                                           check=True, capture_output=True, text=True).stdout)
    if arguments.only:
        benchmarks = [b for b in benchmarks if group(b) in arguments.only]
    if not benchmarks:
        sys.exit("run.py: no such group in this build")

    subprocess.run(["ninja", "-C", str(build), "meson-benchmark-prereq"], check=True,
                   stdout=subprocess.DEVNULL)
    counters = has_counters()
    facts, figures, failed = machine(counters), [], []
    heading("The machine")
    table(facts)
    for benchmark in benchmarks:
        heading(f"Benchmark {benchmark['name']}")
        progress("running")
        status = run(benchmark, build, counters, figures)
        if status == 77:
            say("    left out: see above")
        elif status != 0:
            failed.append(benchmark)
            say(f"    failed, status {status}")

    heading("Figures")
    table(figures, HEADINGS)
    groups = {benchmark["name"]: group(benchmark) for benchmark in benchmarks}
    measured = {groups[row[0]] for row in figures} - {group(benchmark) for benchmark in failed}
    for name in sorted(measured):
        write_results(name, facts, [row for row in figures if groups[row[0]] == name])
    if failed:
        sys.exit(f"run.py: failed: {', '.join(b['name'] for b in failed)}")


if __name__ == "__main__":
    main()
