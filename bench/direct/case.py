# SPDX-License-Identifier: MIT
"""The direct-calls case study: programs of the distribution, unchanged, their calls
between objects made direct; in each process, or once and then mapped (mvld build).

Each program is two copies of the distribution's file, one with ours as its interpreter:
a program that is run through a loader (`ld.so program`) is laid out in another way."""
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import support  # noqa: E402
from report import interleaved, progress, say, table  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PYTHON = """
import json, re, hashlib
words = [str(i * 7919 % 1000) for i in range(20000)]
for _ in range(3):
    d = {}
    for w in words:
        d.setdefault(w, []).append(len(w))
    text = json.dumps(d, sort_keys=True)
    assert json.loads(text) == d
    found = re.findall(r'"(\\d+)": \\[(\\d)', text)
    s = sorted((int(a) ^ 5, b) for a, b in found)
    h = hashlib.sha256(repr(s).encode()).hexdigest()
print(len(text), h)
"""
SQLITE = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, 'row ' || (i * 7919 % 1000), i % 97 FROM n;
CREATE INDEX u ON t(b);
SELECT c, count(*), max(b), sum(length(b)) FROM t GROUP BY c ORDER BY 2, 1 LIMIT 5;
SELECT count(*) FROM t x JOIN t y ON x.b = y.b WHERE x.a < 2000;
"""
BASH = """
n=0; s=
for ((i = 0; i < 20000; i++)); do
    case $i in *7) n=$((n + i));; *3*) s=${s:0:20}$i;; esac
    [[ $s == *9?1 ]] && n=$((n ^ 3))
done
echo $n $s
"""
PERL = """
my (%h, $n);
for my $i (1 .. 60000) { my $k = "key" . ($i * 7919 % 5000); $h{$k} .= $i; $n++ if $h{$k} =~ /9(\\d)1/ }
print scalar(keys %h), " $n ", join(",", (sort keys %h)[0 .. 3]), "\\n";
"""
# name: arguments, standard input
PROGRAMS = {
    "python3": (["-I", "-c", PYTHON], ""),
    "sqlite3": ([":memory:"], SQLITE),
    "bash": (["--norc", "-c", BASH], ""),
    "perl": (["-e", PERL], ""),
    "openssl": (["speed", "-mr", "-seconds", "1", "-bytes", "16", "-evp", "aes-128-gcm"], ""),
}
# What hardly runs: here the start is all that there is.
STARTS = {"true": [], "bash": ["--norc", "-c", ":"], "python3": ["-I", "-c", "pass"]}
WAYS = ("host loader", "in process", "frozen")


class Case:
    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self.caches = {"in process": folder / "analysed", "frozen": folder / "frozen"}
        self.paths, self.frozen = {}, set()
        for name in {**PROGRAMS, **STARTS}:
            path = shutil.which(name, path="/usr/bin:/bin")
            if path:
                self._copy(name, path)
            else:
                say(f"    {name} is not installed: left out")

    def _copy(self, name, path):
        for way in ("host", "mvld"):
            copy = self.folder / way / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
            self.paths[name, way] = copy
        subprocess.run([MVLD, "set-interp", "--loader", support.LOADER, copy], check=True,
                       stdout=subprocess.DEVNULL)

    def has(self, name):
        return (name, "mvld") in self.paths

    def path(self, way, name):
        return str(self.paths[name, "host" if way == "host loader" else "mvld"])

    def prepare(self):
        for (name, way), path in self.paths.items():
            if way != "mvld":
                continue
            for cache in self.caches.values():
                done = self._tool("analyze", "--output", cache / "mvld/analysis", "--program", path)
                support.check(done.returncode == 0, f"mvld analyze: {done.stdout}{done.stderr}")
            done = self._tool("build", "--pass", "direct-calls", path)
            if done.returncode == 0:
                self.frozen.add(name)
            else:
                say(f"    {name}: {done.stderr.strip()}")

    def _tool(self, *words):
        return subprocess.run([str(word) for word in [MVLD, *words]], text=True,
                              env=self.environment("frozen"), capture_output=True, timeout=300)

    def ways(self, name):
        return [way for way in WAYS if way != "frozen" or name in self.frozen]

    def environment(self, way, **more):
        if way == "host loader":
            return support.clean_environment(LC_ALL="C.UTF-8")
        return support.clean_environment(LC_ALL="C.UTF-8", XDG_CACHE_HOME=self.caches[way],
                                         MVLD_PASS_PATH=support.BUILD / "passes/direct-calls",
                                         MVLD_TUNABLES="app.passes=direct-calls", **more)

    def run(self, way, name, arguments, text="", **more):
        return subprocess.run([self.path(way, name), *arguments], input=text, text=True,
                              env=self.environment(way, **more), capture_output=True, timeout=120)

    def what_was_done(self, name):
        """(sites made direct, of how many, pages made private), in process."""
        done = self.run("in process", name, *PROGRAMS[name], MVLD_DEBUG="passes")
        counts = re.search(r": \d+ objects, (\d+) of (\d+) sites made direct, (\d+) pages",
                           done.stderr)
        thawed = self.run("frozen", name, *PROGRAMS[name], MVLD_DEBUG="files").stderr
        support.check(("thawed, the code of" in thawed) == (name in self.frozen),
                      f"{name}: what was said of its image is not so")
        return tuple(map(int, counts.groups()))

    def output(self, way, name):
        done = self.run(way, name, *PROGRAMS[name])
        return done.returncode, "" if name == "openssl" else done.stdout, \
            "" if name == "openssl" else done.stderr

    def cost(self, way, name):
        """Seconds of CPU, in user mode; for openssl, of one message."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = self.run(way, name, *PROGRAMS[name])
        if name == "openssl":  # +F:number:cipher:bytes a second
            return 16 / float(done.stdout.split("+F:")[1].split(":")[2])
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def start(self, way, name):
        began = time.perf_counter()
        self.run(way, name, STARTS[name])
        return (time.perf_counter() - began) * 1e6

    def memory(self, way, name, n=10):
        """KB that n processes of the program, waiting for input, have together."""
        waits = {"python3": ["-I", "-c", "print(1, flush=True); input()"],
                 "bash": ["--norc", "-c", "echo 1; read"]}[name]
        running = [subprocess.Popen([self.path(way, name), *waits], env=self.environment(way),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for _ in range(n)]
        for process in running:
            process.stdout.readline()
        total = 0
        for process in running:
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(rollup.split("Pss:")[1].split()[0])
        for process in running:
            process.communicate(b"\n", timeout=30)
        return total


def against(values, way):
    """A change in per cent, or a dash."""
    if way not in values:
        return "-"
    return f"{100 * (values[way] / values[WAYS[0]] - 1):+.1f} %"


def times(case, programs, rounds):
    lines, rows = [], []
    for name in programs:
        made, sites, pages = case.what_was_done(name)
        found = interleaved({way: way for way in case.ways(name)}, rounds,
                            lambda way, name=name: case.cost(way, name))
        lines.append((name, f"{made} of {sites}", f"{pages * 4} KB",
                      *(against(found, way) for way in WAYS[1:])))
        best = "frozen" if name in case.frozen else "in process"
        rows.append((f"direct calls: {name}, user time, {best}", against(found, best), None))
    table(lines, ["program", "sites direct", "private, in process", "time, in process",
                  "time, frozen"])
    return rows


def starts_of(case, rounds):
    lines, rows = [], []
    for name in (name for name in STARTS if case.has(name)):
        found = interleaved({way: way for way in case.ways(name)}, rounds,
                            lambda way, name=name: case.start(way, name))
        lines.append((name, *(f"{found[way]:.0f}" if way in found else "-" for way in WAYS)))
        rows += [(f"direct calls: start of {name}, {way}", f"{found[way] - found[WAYS[0]]:+.0f} µs",
                  None) for way in found if way != WAYS[0]]
    say()
    table(lines, ["start, µs, wall time", *WAYS])
    return rows


def memory_of(case):
    lines = [(name, *(str(case.memory(way, name)) if way in case.ways(name) else "-"
                      for way in WAYS)) for name in ("bash", "python3") if case.has(name)]
    say()
    table(lines, ["ten processes, KB in all", *WAYS])


def run(folder, rounds=7, starts=40):
    """Rows of (what, result, ok) for the demo's table; None: a figure."""
    case = Case(folder)
    programs = [name for name in PROGRAMS if case.has(name)]
    progress("analysing the programs and their libraries, freezing their images")
    case.prepare()
    progress("comparing what they print")
    equal = [name for name in programs
             if len({case.output(way, name) for way in case.ways(name)}) == 1]
    rows = [("direct calls: same output as under the host loader",
             f"{len(equal)} of {len(programs)} programs", equal == programs)]
    progress(f"timing them, {rounds} rounds")
    rows += times(case, programs, rounds) + starts_of(case, starts)
    memory_of(case)
    return rows
