# SPDX-License-Identifier: MIT
"""direct_calls.py STARTUP [--instructions]: stock programs under the host loader, under mvld
with direct-calls in the process, and with what it did frozen.

User time, medians of interleaved runs; for openssl the throughput of 16-byte messages. Then what
an exec of short programs costs, by STARTUP, and what ten processes have in memory.  With
--instructions callgrind counts instead of the clock, which a busy machine does not disturb.
The demo shows the shorter half of it (run).

The programs are copies whose interpreter is mvld; nothing of the machine is changed.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
from report import interleaved, progress, say, table  # noqa: E402

ROUNDS = 11
MVLD = support.BUILD / "tools" / "mvld"
PASSES = support.BUILD / "passes" / "direct-calls"
WAYS = ("host loader", "direct-calls", "frozen")
PYTHON = """
import re
class A:
    def __init__(self, x): self.x = x
    def get(self): return self.x
total = 0
for i in range({n}):
    a = A(i)
    total += a.get() + len(str(i)) + len([i, i]) + hash((i, 'k'))
d = dict.fromkeys(range({n} // 4), 1.5)
print(total, sum(d.values()), len(re.findall('[0-9]+7', ' '.join(map(str, range({n} // 4))))))
"""
SQL = ("create table t(a, b text); with recursive c(x) as (select 1 union all select x + 1 from c "
       "where x < {n}) insert into t select x, printf('%08d', x * 7) from c; "
       "create index i on t(b); select count(*), sum(length(b)), max(a) from t "
       "where b like '%7%'; select substr(b, 1, 6) k, count(*) from t group by k order by 2 limit 3;")
BASH = "s=0; for ((i = 0; i < {n}; i++)); do x=${{i/1/2}}; s=$((s + ${{#x}})); done; echo $s"
PERL = ("my %h; for my $i (1..{n}) {{ my $k = 'k' . ($i % 999); $h{{$k}} .= 'x'; $h{{$k}} =~ s/x$/y/; }} "
        "print length(join ',', map {{ $h{{$_}} }} sort keys %h), qq(\\n);")
# program -> (arguments for n, n for the clock, n for callgrind)
PROGRAMS = {
    "python3": (lambda n: ["-S", "-s", "-c", PYTHON.format(n=n)], 400_000, 4000),
    "sqlite3": (lambda n: [":memory:", SQL.format(n=n)], 300_000, 4000),
    "bash": (lambda n: ["-c", BASH.format(n=n)], 60_000, 2000),
    "perl": (lambda n: ["-e", PERL.format(n=n)], 500_000, 5000),
    "git": (lambda n: ["-C", str(HERE.parent), "--no-pager", "log", "--stat", "--format=%h",
                       f"-{n}"], 200, 4),
}
# Waits for a line, and has said one.
WAITING = {"bash": ["-c", "echo; read"], "python3": ["-S", "-s", "-c", "print(flush=True); input()"]}
EXECS = {"true": [], "bash": ["-c", ":"], "python3": ["-S", "-s", "-c", ""]}


class Programs:
    def __init__(self, folder, names):
        self.folder = folder
        self.config = folder / "mvld.conf"
        self.config.write_text("[app]\nmatch = *\npasses = direct-calls\n")
        self.paths, self.frozen = {}, set()
        for name in names:
            found = shutil.which(name, path="/usr/bin:/bin")
            if not found or (name == "git" and not (HERE.parent / ".git").exists()):
                print(f"{name} is left out: it is not there, or has nothing to work on")
                continue
            self.paths[name] = Path(found).resolve(), folder / Path(found).resolve().name
            self.prepare(name, *self.paths[name])

    def prepare(self, name, original, copy):
        progress(f"analysing and freezing {original}")
        shutil.copy(original, copy)
        self.tool(MVLD, "set-interp", "--loader", support.LOADER, copy)
        self.tool(MVLD, "analyze", "--output", self.folder / "mvld" / "analysis", "--program", copy)
        done = subprocess.run([copy], env=self.environment("frozen", MVLD_FREEZE="1"),
                              capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            self.frozen.add(name)
        else:
            say("    " + done.stderr.strip())

    def tool(self, *command):
        done = subprocess.run([str(w) for w in command], env=support.clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        support.check(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")

    def ways(self, name):
        return [way for way in WAYS if way != "frozen" or name in self.frozen]

    def jobs(self, name, arguments, **more):
        """{way: (command, environment)}."""
        return {way: (self.command(name, way, arguments), self.environment(way, **more))
                for way in self.ways(name)}

    def environment(self, way, **more):
        if way == "host loader":
            return support.clean_environment(PYTHONHASHSEED="0", **more)
        # Frozen images lie in the folder of the cache, as analyses do.
        cache = self.folder
        if way == "direct-calls":
            cache = self.folder / "unfrozen"
            cache.mkdir(exist_ok=True)
            (cache / "mvld").mkdir(exist_ok=True)
            if not (cache / "mvld" / "analysis").exists():
                os.symlink(self.folder / "mvld" / "analysis", cache / "mvld" / "analysis")
        return support.clean_environment(PYTHONHASHSEED="0", MVLD_CONFIG=self.config,
                                         MVLD_PASS_PATH=PASSES, XDG_CACHE_HOME=cache, **more)

    def command(self, name, way, arguments):
        return [str(self.paths[name][way != "host loader"]), *arguments]


def user_time(job):
    command, env = job
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    support.check(status == 0, f"{command[0]}: status {status}")
    return usage.ru_utime * 1000


def throughput(job):
    command, env = job
    text = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout
    return float(re.search(r"^\S+ +([0-9.]+)k *$", text, re.M).group(1))


def instructions(job):
    command, env = job
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                           *command], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600)
    found = re.search(r"Collected : (\d+)", done.stderr)
    support.check(done.returncode == 0 and found, done.stderr[-2000:])
    return int(found.group(1)) / 1e6


def show(name, unit, values):
    first = values["host loader"]
    for way, value in values.items():
        print(f"result: {name}, {way} | {value:.2f} | {unit} | {100 * (value / first - 1):+.1f} %",
              flush=True)


def clock(programs):
    for name, (arguments, n, _) in PROGRAMS.items():
        if name in programs.paths:
            progress(name)
            show(name, "ms", interleaved(programs.jobs(name, arguments(n)), ROUNDS, user_time))
    for cipher in ("sha256", "aes-128-ctr"):
        if "openssl" in programs.paths:
            progress("openssl " + cipher)
            speed = ["speed", "-seconds", "1", "-bytes", "16", "-evp", cipher]
            show("openssl " + cipher, "KB/s",
                 interleaved(programs.jobs("openssl", speed), 5, throughput))


def counted(programs):
    for name, (arguments, _, n) in PROGRAMS.items():
        if name not in programs.paths:
            continue
        progress(name)
        values = {}
        for way in programs.ways(name):
            env, sizes = programs.environment(way), (n, 2 * n)
            one, two = (instructions((programs.command(name, way, arguments(m)), env))
                        for m in sizes)
            values[way] = two - one  # start-up is in both
        show(name, "million instructions", values)


def exec_times(programs, name, startup, rounds):
    """{way: µs} of an exec of the program to its end."""
    words = []
    for way in programs.ways(name):
        env = programs.environment(way)
        words += [f"{k}={v}" for k, v in env.items() if k.startswith(("MVLD", "XDG_CACHE"))]
        words += [*programs.command(name, way, EXECS[name]), "--"]
    done = subprocess.run([str(startup), str(rounds), *words[:-1]], timeout=300, text=True,
                          env=support.clean_environment(), stdout=subprocess.PIPE)
    support.check(done.returncode == 0, "startup: see above")
    return dict(zip(programs.ways(name), map(float, done.stdout.split())))


def memory(job, n=10):
    """KB that n processes, each waiting for a line, have together."""
    command, env = job
    running = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for _ in range(n)]
    for process in running:
        process.stdout.readline()
    total = 0
    for process in running:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss: +([0-9]+) kB", rollup, re.M).group(1))
    for process in running:
        process.communicate(b"\n", timeout=30)
    return total


def starts(programs, startup):
    for name in EXECS:
        if name in programs.paths:
            progress("exec of " + name)
            show("exec of " + name, "µs", exec_times(programs, name, startup, 300))
    for name, arguments in WAITING.items():
        if name in programs.paths:
            show("ten processes of " + name, "KB",
                 {way: memory(job) for way, job in programs.jobs(name, arguments).items()})


# ---- for the demo -----------------------------------------------------------------

def what_was_done(programs, name, arguments):
    """(sites made direct, of how many, pages made private) by the pass in the process; every
    way prints the same."""
    jobs = programs.jobs(name, arguments)
    said = {way: subprocess.run(command, env=env, capture_output=True, timeout=120)
            for way, (command, env) in jobs.items()}
    first = said["host loader"]
    same = all((s.returncode, s.stdout, s.stderr) == (0, first.stdout, first.stderr)
               for s in said.values())
    logs = {way: subprocess.run(command, env={**env, "MVLD_DEBUG": "files,passes"}, text=True,
                                capture_output=True, timeout=120).stderr
            for way, (command, env) in jobs.items()}
    support.check(name not in programs.frozen or "thawed, the code of" in logs["frozen"],
                  f"{name} did not start from its image")
    found = re.search(r": \d+ objects, (\d+) of (\d+) sites made direct, (\d+) pages",
                      logs["direct-calls"])
    return same, *map(int, found.groups())


def run(folder, startup, rounds):
    """Rows of (what, result, ok) for the demo's table; None: a figure."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    programs = Programs(folder, [*PROGRAMS, "true"])
    rows, lines, equal = [], [], []
    for name in (name for name in PROGRAMS if name in programs.paths):
        arguments, n, _ = PROGRAMS[name]
        progress(f"{name}: comparing, then {rounds} rounds by the clock")
        same, made, sites, pages = what_was_done(programs, name, arguments(n))
        equal.append(same)
        found = interleaved(programs.jobs(name, arguments(n)), rounds, user_time)
        change = {way: f"{100 * (value / found['host loader'] - 1):+.1f} %"
                  for way, value in found.items()}
        lines.append((name, f"{made} of {sites}", f"{pages * 4} KB", change["direct-calls"],
                      change.get("frozen", "-")))
        best = "frozen" if "frozen" in change else "in each process"
        rows.append((f"direct calls, user time of {name}, {best}", lines[-1][4 if "frozen" in
                                                                           change else 3], None))
    table(lines, ["program", "sites direct", "private memory", "user time", "frozen"])
    lines = []
    for name in (name for name in EXECS if name in programs.paths):
        found = exec_times(programs, name, startup, 100)
        lines.append((name, *(f"{found[way]:.0f}" if way in found else "-" for way in WAYS)))
    say()
    table(lines, ["exec, µs", *WAYS])
    return [("direct calls: same output as under the host loader",
             f"{sum(equal)} of {len(equal)} programs", all(equal))] + rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("startup")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_intermixed_args()
    with support.scratch_folder() as folder:
        names = arguments.only or [*PROGRAMS, "openssl", "true"]
        programs = Programs(folder, names)
        if arguments.instructions:
            counted(programs)
        else:
            clock(programs)
            starts(programs, arguments.startup)


if __name__ == "__main__":
    main()
