# SPDX-License-Identifier: MIT
"""What the demo shows of concat: what of unmodified programs was moved, which share of their
time they spend in it, and that they say the same as under the host loader."""
import re
import shutil
import subprocess

from programs import HOST, PROGRAMS, Programs
from report import progress, table
import samples

NAMES, WAYS = ("sqlite3", "bash"), ("concat", "concat, snapshot")


def said(job, **more):
    command, env = job
    done = subprocess.run(command, env={**env, **more}, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def moved(programs, name, arguments):
    """(objects, functions, KB of code) that are moved in the process."""
    log = said(programs.jobs(name, arguments)["concat"], MVLD_DEBUG="statistics")[2].decode()
    return re.search(r"concat: (\d+) objects, (\d+) functions, (\d+) KB", log).groups()


def run(folder, seconds=2):
    """Rows of (what, result, ok) for the demo's table; None: a figure."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    programs = Programs(folder, NAMES, WAYS)
    rows, lines, equal, perf = [], [], [], samples.perf_works()
    for name in (n for n in NAMES if "concat" in programs.possible.get(n, ())):
        progress(f"{name}: comparing, then {seconds} seconds of samples")
        arguments, n = PROGRAMS[name]
        jobs = programs.jobs(name, arguments(n // 10))
        first = said(jobs[HOST])
        equal.append(first[0] == 0 and all(said(job) == first for job in jobs.values()))
        way = [way for way in WAYS if way in jobs][-1]
        share = samples.measure(programs, name, way, seconds, samples.Treated())[0] if perf else "-"
        lines.append((name, *moved(programs, name, arguments(n // 100)), share))
        rows.append((f"concat: time that {name} spends in moved code",
                     share if perf else "not known: perf cannot sample here", None))
    table(lines, ["program", "objects", "functions", "KB of code", "time in moved code"])
    return [("concat: same output as under the host loader", f"{sum(equal)} of {len(equal)} programs",
             bool(equal) and all(equal))] + rows
