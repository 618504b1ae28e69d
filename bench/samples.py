# SPDX-License-Identifier: MIT
"""samples.py [--seconds N] [--way WAY]... [PROGRAM...]: where programs run.

Samples of the program counter in user mode (perf's cpu-clock, which works in virtual machines,
too), a thousand a second and CPU, of programs that have been running for a while.  Each belongs to

    region       code that concat moved
    changed      where concat is not there: objects whose calls direct-calls made direct
    original     objects whose code concat moved: functions that were not moved, and jumps to the moved ones
    left         objects that no pass changed
    made         code of no file: a JIT's
    vdso         the kernel's: another one in each process, and never part of a snapshot

with the largest of each by name.  The table at the end has the share of the first kind (region, or changed) twice:
of all samples, and of those in code of files.  Code of the last two kinds cannot be in the region; nor can the
kernel's, which is not sampled.
"""
import argparse
import bisect
import collections
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
from programs import BASH, COMMIT, HOST, PERL, SQL, WAYS, Programs, python  # noqa: E402
from report import progress, say, table  # noqa: E402
from stock import REDIS, REQUESTS  # noqa: E402

RATE = 999
INPUT = "input"  # the file in its folder that a program reads, if its work leaves one
SETTLE, SETTLES = 1.0, {"java": 6.0}  # seconds until start-up is over; a JVM has compiled by then
JAVA = """import java.util.*;
public class S {
    static Object[][] keep = new Object[2000][];
    static Random random = new Random(1);
    static Object[] tree() {
        Object[] all = new Object[60];
        for (int i = 0; i < all.length; i++) {
            Object[] o = new Object[4];
            if (i > 0) o[0] = all[random.nextInt(i)];
            all[i] = o;
        }
        return all;
    }
    static void collect() {
        for (int i = 0; i < keep.length; i++) keep[random.nextInt(keep.length)] = tree();
    }
    static void compute(long n) {
        Map<String, Integer> m = new TreeMap<>();
        for (int i = 0; i < 20000; i++) m.merge(Integer.toString(i * 7919 % 9973), i, Integer::sum);
        if (m.hashCode() == n) System.out.println(n);
    }
    public static void main(String[] a) {
        boolean collects = a[0].equals("collecting");
        long end = Long.parseLong(a[1]);
        for (int i = 0; i < keep.length && collects; i++) keep[i] = tree();
        for (long n = 0; n != end; n++) if (collects) collect(); else compute(n);
    }
}
"""
# What a JVM does beside running code that it has compiled: with little memory, little more than
# what lives, and one thread that collects; or compiling all that it loads before it runs, the
# Java compiler, which this source goes through, included.
JAVA_OPTIONS = {"java": ["-Xmx256m"], "java collecting": ["-XX:+UseSerialGC", "-Xmx24m", "-Xmn4m"],
                "java compiling": ["-Xmx256m", "-Xcomp"]}
NGINX = """daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{ }}
http {{ access_log {0}/access; client_body_temp_path {0}/b; proxy_temp_path {0}/p;
  fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
  keepalive_requests 1000000000; gzip on; gzip_min_length 1; gzip_types text/plain;
  server {{ listen unix:{0}/socket; root {0}; default_type text/plain; }} }}
"""


def c_source():
    """Some ten seconds of work for a compiler."""
    return "\n".join(
        f"struct s{i} {{ int a[{i % 7 + 1}]; struct s{i} *next; }};\n"
        f"int f{i}(struct s{i} *p, int n) {{ int s = {i}; for (; p; p = p->next) {{\n"
        f"  for (int j = 0; j < {i % 7 + 1}; j++) s += p->a[j] * (n ^ j);\n"
        f"  switch (s & 7) {{ case 1: s ^= n; break; case 2: s *= 3; break; case 4: return s / 7;\n"
        f"    case 5: s -= p->a[0] >> 2; default: n++; }} }} return s + n; }}"
        for i in range(20000))


def write_commits(path):
    """Those of mvld's own history, as often as takes git many minutes to show."""
    listed = subprocess.run(["git", "-C", HERE.parent, "rev-list", COMMIT], capture_output=True, check=True)
    path.write_bytes(listed.stdout * 500)


# ---- work without end -----------------------------------------------------------------

def work(name, folder):
    """(arguments, what to do beside it: a function of `stopped`, or None)."""
    if name.startswith("python3"):
        return python(100_000_000), None
    if name == "sqlite3":
        return [":memory:", SQL.format(n=30_000_000)], None
    if name == "bash":
        return ["-c", BASH.format(n=100_000_000)], None
    if name == "perl":
        return ["-e", PERL.format(n=500_000_000)], None
    if name == "git":
        write_commits(folder / INPUT)
        return ["-C", str(HERE.parent), "--no-pager", "diff-tree", "--stdin", "--pretty", "-p", "--stat", "-B",
                "-M", "-C", "--find-copies-harder", "-l0"], None
    if name == "openssl":
        return ["speed", "-seconds", "100", "-bytes", "16", "-evp", "sha256"], None
    if name in ("clang", "cc1"):
        (folder / "s.c").write_text(c_source())
        driver = ["-S"] if name == "clang" else ["-quiet"]
        return [*driver, "-O2", str(folder / "s.c"), "-o", "/dev/null"], None
    if name in JAVA_OPTIONS:
        (folder / "S.java").write_text(JAVA)
        return [*JAVA_OPTIONS[name], str(folder / "S.java"), name.removeprefix("java "), "-1"], None
    if name == "redis-server":
        return [*REDIS, str(folder / "socket")], lambda stopped: redis_load(folder, stopped)
    if name == "nginx":
        (folder / "page").write_text("a page of some words\n" * 100)
        (folder / "conf").write_text(NGINX.format(folder))
        return (["-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "error")],
                lambda stopped: nginx_load(folder, stopped))
    raise KeyError(name)


def short_work(name, folder):
    """Arguments with which it loads what it loads later (dlopen), and ends; None: nothing."""
    if name.startswith("python3"):
        return python(2000)
    return [*work(name, folder)[0][:-1], "3"] if name in JAVA_OPTIONS else None


WORKS = ("python3", "python3-shared", "python3-built", "sqlite3", "bash", "perl", "git", "openssl", "nginx",
         "redis-server", "cc1", "clang", *JAVA_OPTIONS)


def redis_load(folder, stopped):
    """It would try for ever to reach a server that has gone."""
    while not stopped.is_set():
        client = subprocess.Popen(["redis-benchmark", "-s", str(folder / "socket"), *REQUESTS],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while client.poll() is None and not stopped.wait(0.05):
            pass
        client.kill()
        client.wait()


def nginx_load(folder, stopped):
    request = b"GET /page HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n" * 20
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(folder / "socket"))
        s.settimeout(5)
        answers = threading.Thread(target=lambda: drain(s), daemon=True)
        answers.start()
        with contextlib.suppress(OSError):
            while not stopped.is_set():
                s.sendall(request)


def drain(s):
    with contextlib.suppress(OSError):
        while s.recv(1 << 20):
            pass


# ---- samples --------------------------------------------------------------------------

def perf_works():
    if not shutil.which("perf"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return not subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-o", f"{folder}/d",
                                   "true"], capture_output=True, timeout=20).returncode


def sample(pid, seconds, data):
    """{program counter: how often} of the process."""
    done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", str(RATE), "-o", data,
                           "-p", str(pid), "--", "sleep", str(seconds)], capture_output=True,
                          text=True, timeout=seconds + 60)
    support.check(Path(data).exists(), done.stderr)
    done = subprocess.run(["perf", "script", "-i", data, "-F", "ip"], capture_output=True,
                          text=True, timeout=120)
    return collections.Counter(int(line, 16) for line in done.stdout.split())


class Maps:
    """Which object an address belongs to."""

    def __init__(self, pid):
        self.ranges = []
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(None, 5)
            start, end = (int(x, 16) for x in words[0].split("-"))
            self.ranges.append((start, end, words[1], words[5] if len(words) > 5 else ""))
        self.starts = [r[0] for r in self.ranges]
        self.region = self.find_region()

    def find_region(self):
        for start, _, _, path in self.ranges:
            if path.endswith("/libconcat.so.1"):
                value, size = symbol(path, "mvld_moved_code")
                return start + value, start + value + size
        return 0, 0

    def place(self, address):
        """(the file's name, whether it is an overlay of it, in a snapshot), or a kind, or for
        what is no file's "[…]"."""
        if self.region[0] <= address < self.region[1]:
            return "region", False
        i = bisect.bisect_right(self.starts, address) - 1
        path = self.ranges[i][3] if i >= 0 and address < self.ranges[i][1] else "[gone]"
        if path == "[vdso]":
            return "vdso", False
        if not path.startswith("/"):
            return path or "[no file]", False
        overlay = "/mvld/snapshots/" in path
        return re.sub(r"^[0-9]+-", "", Path(path).name) if overlay else Path(path).name, overlay

    def files(self):
        """Those that code comes from."""
        return sorted({r[3] for r in self.ranges if "x" in r[2] and r[3].startswith("/")})


def symbol(path, name):
    """(value, size) of a symbol in .dynsym."""
    out = subprocess.run(["nm", "-D", "-S", path], capture_output=True, text=True, timeout=20).stdout
    found = re.search(rf"^(\w+) (\w+) \w {name}$", out, re.M)
    support.check(found, f"{path} has no symbol {name}")
    return int(found[1], 16), int(found[2], 16)


@contextlib.contextmanager
def running(programs, name, way, folder):
    """The process, while it works."""
    arguments, beside = work(name, folder)
    log, given = folder / "log", folder / INPUT
    given.touch()
    more = {} if way == HOST else {"MVLD_DEBUG": "files,passes", "MVLD_DEBUG_OUTPUT": log}
    with given.open() as stdin:
        process = subprocess.Popen(programs.command(name.split()[0], way, arguments), cwd=folder, stdin=stdin,
                                   env=programs.environment(name.split()[0], way, **more),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stopped = threading.Event()
    load = threading.Thread(target=beside, args=[stopped], daemon=True) if beside else None
    try:
        time.sleep(SETTLES.get(name, SETTLE) / 2)
        if load:
            load.start()
        time.sleep(SETTLES.get(name, SETTLE) / 2)
        support.check(process.poll() is None, f"{name}, {way}: ended at once")
        yield process, Path(f"{log}.{process.pid}")
    finally:
        stopped.set()
        if load and load.ident:
            load.join(10)
        process.kill()
        process.wait()


class Treated:
    """What the logs say of objects: which concat left, and which direct-calls changed.  That of a
    process that started from a snapshot says nothing of those which the snapshot holds."""

    def __init__(self):
        self.concat, self.left, self.changed = False, set(), set()

    def read(self, log, way):
        self.concat = "concat" in WAYS.get(way, [""])[0]
        text = log.read_text(errors="replace") if log.exists() else ""
        for names, said in ((self.left, r"concat: (\S+): stays where it is: "),
                            (self.changed, r"direct-calls: (\S+): [1-9]\d* of \d+ sites")):
            names |= {Path(path).name for path in re.findall(said, text)}

    def kind(self, place, snapshot):
        if place in ("region", "vdso"):
            return place
        if place.startswith("["):
            return "made"
        if not self.concat:
            return "changed" if snapshot or place in self.changed else "left"
        # ld.so never moves; neither does mvld's own loader, which is in no log.
        return "left" if place in self.left or place.startswith("ld-") else "original"


def named(places, total):
    return ", ".join(f"{name} {100 * n / total:.1f}" for name, n in places.most_common(4)
                     if n * 500 > total)


def measure(programs, name, way, seconds, treated, show=lambda *_: None):
    """The shares of the first kind, of all samples and of code from files, as text."""
    with support.scratch_folder() as folder, running(programs, name, way, folder) as (process, log):
        counts = sample(process.pid, seconds, str(folder / "data"))
        support.check(process.poll() is None, f"{name}, {way}: ended while it was sampled")
        maps = Maps(process.pid)
        treated.read(log, way)
    first = "region" if treated.concat else "changed"
    parts = {what: collections.Counter() for what in (first, "original", "left", "made", "vdso")}
    for address, n in counts.items():
        place, snapshot = maps.place(address)
        parts[treated.kind(place, snapshot)][place] += n
    total = sum(part.total() for part in parts.values())
    if total < 100:
        say(f"    {name}, {way}: {total} samples only, which say nothing")
        return "-", "-"
    files = total - parts["made"].total() - parts["vdso"].total()
    for what, places in parts.items():
        if places or what == first:
            note = "" if what in ("region", "vdso") else named(places, total)
            show(f"result: {name}, {way}, {what} | {100 * places.total() / total:.1f} | % | "
                 f"{note}".rstrip(" |"))
    share = parts[first].total()
    say(f"    {name}, {way}: {total} samples")
    return f"{100 * share / total:.1f} %", f"{100 * share / max(files, 1):.1f} %"


def analyze_later(programs, name):
    """What the program loads while it runs, too."""
    with support.scratch_folder() as folder, running(programs, name, HOST, folder) as (process, _):
        files = Maps(process.pid).files()
    programs.analyze(path for path in files if Path(path).exists() and not
                     path.startswith(str(programs.folder)))


def learn_later(programs, name, ways):
    """Images hold that, too, after a run that learns (mvld build --run)."""
    program = name.split()[0]
    for way in (way for way in ways if way in programs.ways(program) and WAYS[way][1]):
        with support.scratch_folder() as folder:
            arguments = short_work(name, folder)
            if arguments:
                done = subprocess.run(programs.command(program, way, arguments), cwd=folder,
                                      env=programs.environment(program, way, MVLD_SNAPSHOT="run"),
                                      stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
                support.check(done.returncode == 0, f"{name}, {way}: {done.stderr.decode()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--way", choices=[HOST, *WAYS], action="append")
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_intermixed_args()
    if not perf_works():
        support.skip("perf cannot sample here")
    ways, rows = arguments.way or ["concat", "concat, snapshot"], []
    with support.scratch_folder() as folder:
        for name in arguments.only or WORKS:
            program = name.split()[0]
            programs = Programs(folder, [program], [way for way in ways if way != HOST])
            if program not in programs.possible:
                continue
            analyze_later(programs, name)
            learn_later(programs, name, [way for way in ways if way != HOST])
            treated = Treated()
            for way in (way for way in ways if way in programs.ways(program)):
                progress(f"{name}, {way}")
                rows.append((name, way, *measure(programs, name, way, arguments.seconds, treated, say)))
    say()
    table(rows, ["program", "way", "of all samples", "of code from files"])


if __name__ == "__main__":
    main()
