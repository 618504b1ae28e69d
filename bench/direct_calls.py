# SPDX-License-Identifier: MIT
"""direct_calls.py STARTUP [--instructions]: stock programs under the host loader, under mvld
with direct-calls in the process, and with what it did frozen.

User time, medians of interleaved runs; for openssl the throughput of 16-byte messages. Then what
an exec of short programs costs, by STARTUP.  With --instructions callgrind counts instead of
the clock, which a busy machine does not disturb.

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
from report import interleaved, progress  # noqa: E402

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
EXECS = {"true": [], "bash": ["-c", ":"], "python3": ["-S", "-s", "-c", ""]}


class Programs:
    def __init__(self, folder, names):
        self.folder = folder
        self.config = folder / "mvld.conf"
        self.config.write_text("[app]\nmatch = *\npasses = direct-calls\n")
        self.paths = {}
        for name in names:
            found = shutil.which(name, path="/usr/bin:/bin")
            if not found or (name == "git" and not (HERE.parent / ".git").exists()):
                print(f"{name} is left out: it is not there, or has nothing to work on")
                continue
            self.paths[name] = Path(found).resolve(), folder / Path(found).resolve().name
            self.prepare(*self.paths[name])

    def prepare(self, original, copy):
        progress(f"analysing and freezing {original}")
        shutil.copy(original, copy)
        self.tool(MVLD, "set-interp", "--loader", support.LOADER, copy)
        self.tool(MVLD, "analyze", "--output", self.folder / "mvld" / "analysis", "--program", copy)
        self.tool(copy, env=self.environment("frozen", MVLD_FREEZE="1"))

    def tool(self, *command, env=None):
        done = subprocess.run([str(w) for w in command], env=env or support.clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        support.check(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")

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
            jobs = {w: (programs.command(name, w, arguments(n)), programs.environment(w))
                    for w in WAYS}
            show(name, "ms", interleaved(jobs, ROUNDS, user_time))
    for cipher in ("sha256", "aes-128-ctr"):
        if "openssl" in programs.paths:
            progress("openssl " + cipher)
            speed = ["speed", "-seconds", "1", "-bytes", "16", "-evp", cipher]
            jobs = {w: (programs.command("openssl", w, speed), programs.environment(w))
                    for w in WAYS}
            show("openssl " + cipher, "KB/s", interleaved(jobs, 5, throughput))


def counted(programs):
    for name, (arguments, _, n) in PROGRAMS.items():
        if name not in programs.paths:
            continue
        progress(name)
        values = {}
        for way in WAYS:
            env, sizes = programs.environment(way), (n, 2 * n)
            one, two = (instructions((programs.command(name, way, arguments(m)), env))
                        for m in sizes)
            values[way] = two - one  # start-up is in both
        show(name, "million instructions", values)


def execs(programs, startup):
    for name, arguments in EXECS.items():
        if name not in programs.paths:
            continue
        progress("exec of " + name)
        words = []
        for way in WAYS:
            env = programs.environment(way)
            words += [f"{k}={v}" for k, v in env.items() if k.startswith(("MVLD", "XDG_CACHE"))]
            words += [*programs.command(name, way, arguments), "--"]
        done = subprocess.run([startup, "300", *words[:-1]], env=support.clean_environment(),
                              text=True, stdout=subprocess.PIPE, timeout=300)
        support.check(done.returncode == 0, "startup: see above")
        show("exec of " + name, "µs", dict(zip(WAYS, map(float, done.stdout.split()))))


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
            execs(programs, arguments.startup)


if __name__ == "__main__":
    main()
