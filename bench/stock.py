# SPDX-License-Identifier: MIT
"""stock.py STARTUP [--starts | --work] [--rounds N] [--seconds N] [PROGRAM...]: stock programs under
the host loader, with direct-calls, and with direct-calls and concat; in the process, and from a snapshot.

CPU time of the work, without start-up, as a ratio with its interval (steady.py says how, and why so);
what is certainly slower, and by how much, stands at the end.  Then what an exec of programs costs,
by STARTUP, and what ten processes have in memory.
With --starts it is only what an exec costs: in time, and in system calls and page faults, which
say where the time goes; with --work the rest alone.  The demo shows the shorter half of it (run).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
import startup as exec_of  # noqa: E402
import steady  # noqa: E402
from programs import HOST, PROGRAMS, STARTS, WAYS, Programs  # noqa: E402
from report import progress, say, spreads, table  # noqa: E402

ROUNDS = 60       # undisturbed runs of each way
SECONDS = 80      # at most, for one program, if not told otherwise
SHORTLY = 12      # in the demo
START = 8         # in the demo, for the starts of one program
DIRECT = ("direct-calls", "direct-calls, snapshot")
AGAIN = HOST + ", again"  # what is between equals
REDIS = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]
REQUESTS = ["-n", "150000", "-c", "8", "-P", "16", "-q", "-t", "set,get,incr,lpush,zadd"]
# Processes that wait, and how the last line reads that they say before.
WAITING = {"bash": (["-c", "echo; read"], ""),
           "python3": (["-S", "-s", "-c", "print(flush=True); input()"], ""),
           "python3-shared": (["-S", "-s", "-c", "print(flush=True); input()"], ""),
           "python3-built": (["-S", "-s", "-c", "print(flush=True); input()"], ""),
           "redis-server": ([*REDIS, "socket"], "eady to accept")}


def finished(process):
    """CPU time in ms of a child that ends well."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    support.check(process.returncode == 0, f"{process.args[0]}: status {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def server_time(job):
    """CPU time of redis-server, start and end included, for the requests of redis-benchmark."""
    command, env = job
    with support.scratch_folder() as folder:
        socket = folder / "socket"
        server = subprocess.Popen([*command, str(socket)], env=env, cwd=folder,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if socket.exists():
                    break
                time.sleep(0.02)
            for client in (["redis-benchmark", "-s", str(socket), *REQUESTS],
                           ["redis-cli", "-s", str(socket), "shutdown", "nosave"]):
                subprocess.run(client, check=True, stdout=subprocess.DEVNULL, timeout=120)
        except BaseException:
            server.kill()
            server.wait()
            raise
        return finished(server)


class Clock:
    """Shows what was measured again and again, and at last what became slowest."""

    def __init__(self):
        self.slower = {}  # way -> [(per cent, name)]

    def show(self, name, unit, values):
        first = values[HOST]
        for way, spread in values.items():
            print(f"result: {name}, {way} | {spread.median:.2f} | {unit} | "
                  f"{spread.beside(first)}", flush=True)
            if way != HOST:
                self.slower.setdefault(way, []).append((spread.slower(first), name))

    def slowest(self, kind, limit):
        for way, changes in self.slower.items():
            worst, name = max(changes)
            over = sum(change > limit for change, _ in changes)
            print(f"result: slowest {kind}, {way} | {worst:+.1f} | % | {name}; {over} of "
                  f"{len(changes)} more than {limit} % slower", flush=True)


class Verdict:
    """Shows how the work of programs compares, and at last what is certainly slower."""

    def __init__(self):
        self.changes = {}  # way -> [(Change, name)]

    def show(self, name, works, quiet):
        first = works[HOST]
        for way, work in works.items():
            note = f"{quiet[0]} of {quiet[1]} runs undisturbed"
            if way != HOST:
                change = steady.Change(work, first)
                self.changes.setdefault(way, []).append((change, name))
                note = f"{change}, by medians {change.median:+.1f} %"
            print(f"result: {name}, {way} | {work.value:.2f} | ms | {note}", flush=True)

    def slower(self, limit):
        for way, changes in self.changes.items():
            certain = [name for change, name in changes if change.low > limit]
            open_ = [name for change, name in changes if change.low <= limit < change.high]
            print(f"result: certainly more than {limit} % slower, {way} | {len(certain)} | programs | "
                  f"{', '.join(certain) or 'none'} of {len(changes)}; not excluded: "
                  f"{', '.join(open_) or 'none'}", flush=True)


def measured(programs, name, rounds, seconds):
    arguments, n = PROGRAMS[name]
    return steady.works(programs.works(name, arguments(n)), programs.works(name, arguments(1)), rounds, seconds)


def clock(programs, rounds, seconds):
    verdict = Verdict()
    for name in PROGRAMS:
        if name in programs.possible:
            progress(name)
            verdict.show(name, *measured(programs, name, rounds, seconds))
    verdict.slower(1)
    if "redis-server" in programs.possible and shutil.which("redis-benchmark"):
        progress("redis-server")
        Clock().show("redis-server", "ms", spreads(programs.works("redis-server", [*REDIS]),
                                                   max(rounds // 8, 3), server_time))


def exec_times(programs, name, startup, rounds):
    """{way: Spread of µs} of an exec of the program to its end."""
    commands = {}
    for way, (command, env) in programs.jobs(name, STARTS[name]).items():
        own = [f"{k}={v}" for k, v in env.items() if os.environ.get(k) != v]
        commands[way] = [*own, *command]
    return exec_of.exec_times(startup, rounds, commands)


def memory(job, last_line, folder, n=10):
    """KB that n processes, each waiting after it said its last line, have together."""
    command, env = job
    own = [folder / f"own-{i}" for i in range(n)]  # servers leave sockets
    for place in own:
        place.mkdir(exist_ok=True)
    running = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                cwd=place, text=True) for place in own]
    try:
        for process in running:
            for line in process.stdout:
                if last_line in line:
                    break
            else:
                support.check(False, f"{command[0]} ended before it waited")
        rollups = [Path(f"/proc/{process.pid}/smaps_rollup").read_text() for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    return sum(int(re.search(r"^Pss: +([0-9]+) kB", text, re.M).group(1)) for text in rollups)


def execs(programs, startup, rounds):
    of = Clock()
    for name in STARTS:
        if name in programs.possible:
            progress("exec of " + name)
            of.show("exec of " + name, "µs", exec_times(programs, name, startup, rounds))
            exec_of.show_counts("exec of " + name, programs.jobs(name, STARTS[name]))
    of.slowest("exec", 5)


def show(name, unit, values):
    """Counts, of which there is one a way."""
    first = values[HOST]
    for way, value in values.items():
        print(f"result: {name}, {way} | {value:.2f} | {unit} | {100 * (value / first - 1):+.1f} %",
              flush=True)


def starts(programs, startup, rounds):
    execs(programs, startup, rounds)
    for name, (arguments, last_line) in WAITING.items():
        if name in programs.possible:
            show("ten processes of " + name, "KB",
                 {way: memory(job, last_line, programs.folder)
                  for way, job in programs.jobs(name, arguments).items()})


# ---- for the demo -----------------------------------------------------------------

def what_was_done(programs, name, arguments):
    """(sites made direct, of how many, pages made private) by the pass in the process; every
    way prints the same."""
    jobs = programs.jobs(name, arguments)
    said = {way: subprocess.run(command, env=env, capture_output=True, timeout=120)
            for way, (command, env) in jobs.items()}
    first = said[HOST]
    same = all((s.returncode, s.stdout, s.stderr) == (0, first.stdout, first.stderr)
               for s in said.values())
    command, env = jobs["direct-calls"]
    log = subprocess.run(command, env={**env, "MVLD_DEBUG": "passes"}, text=True,
                         capture_output=True, timeout=120).stderr
    found = re.search(r": \d+ objects, (\d+) of (\d+) sites made direct, (\d+) pages", log)
    return same, *map(int, found.groups())


def with_control(jobs):
    """The first way twice."""
    return {HOST: jobs[HOST], AGAIN: jobs[HOST], **jobs}


def changes(works):
    """[Change or "-"] of each of DIRECT and of the control."""
    return [steady.Change(works[way], works[HOST]) if way in works else "-" for way in (*DIRECT, AGAIN)]


def figure(what, change):
    """A row of the demo's table: from a snapshot, and the control."""
    _, snapshot, control = change
    if snapshot == "-":
        return what, "left out: no snapshot, see above", None
    verdict = "faster" if snapshot.high < control.low else "slower" if snapshot.low > control.high else "no difference"
    return what, f"{verdict}: {snapshot}; plain beside itself {control}", None


def work_shortly(programs, name, rounds):
    """([Change] of the work, a line of the table of programs, whether all ways print the same)."""
    arguments, n = PROGRAMS[name]
    progress(f"{name}: comparing, then its work by the clock, {SHORTLY} s at most")
    same, made, sites, pages = what_was_done(programs, name, arguments(n))
    whole, starts = (with_control(programs.works(name, arguments(i))) for i in (n, 1))
    change = changes(steady.works(whole, starts, 5 * rounds, SHORTLY)[0])
    return change, (name, f"{made} of {sites}", f"{pages * 4} KB", *change), same


def run(folder, rounds):
    """Rows of (what, result, ok) for the demo's table; None: a figure.  Of work sqlite3's is one, of starts
    that of a large program and that of a small one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    large = "clang" if shutil.which("clang") else "redis-server"
    programs = Programs(folder, [large, *PROGRAMS, "true"], DIRECT)
    rows, start_lines, work_lines, equal = [], [], [], []
    for name in (n for n in (large, "bash", "true") if n in programs.possible):
        progress(f"starts of {name}, {START} s at most")
        jobs = with_control(programs.jobs(name, STARTS[name]))
        found = steady.starts(jobs, 20 * rounds, START)
        change = changes(found)
        start_lines.append((name, f"{found[HOST].value:.2f} ms", *change))
        if name != "bash":
            rows.append(figure(f"start of {name}, from a snapshot", change))
    table(start_lines, ["CPU time of a start", "plain", "in each process", "snapshot", "plain, again"])
    for name in (n for n in PROGRAMS if "direct-calls" in programs.possible.get(n, ())):
        change, line, same = work_shortly(programs, name, rounds)
        work_lines.append(line)
        equal.append(same)
        if name == "sqlite3":
            rows.insert(1, figure("work of sqlite3, from a snapshot", change))
    say()
    table(work_lines, ["CPU time of work", "sites direct", "private memory", "in each process", "snapshot",
                       "plain, again"])
    return rows + [("direct calls: same output as under the host loader",
                    f"{sum(equal)} of {len(equal)} programs", bool(equal) and all(equal))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("startup")
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--work", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="at most, for the work of one program")
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_intermixed_args()
    with support.scratch_folder() as folder:
        everything = [] if arguments.starts else PROGRAMS
        names = arguments.only or [*dict.fromkeys([*everything, *STARTS])]
        programs = Programs(folder, names, WAYS)
        if arguments.starts:
            execs(programs, arguments.startup, max(5 * arguments.rounds, 10))
        else:
            clock(programs, arguments.rounds, arguments.seconds)
            if not arguments.work:
                starts(programs, arguments.startup, max(5 * arguments.rounds, 10))


if __name__ == "__main__":
    main()
