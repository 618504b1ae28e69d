# SPDX-License-Identifier: MIT
"""samples.py [--seconds N] [--way WAY]... [PROGRAM...]: where programs run.

Samples of the program counter in user mode (perf's cpu-clock, which works in virtual machines,
too), a thousand a second and CPU, of programs that have been running for a while.  Each belongs to

    region       copies that concat made
    home         objects that concat copied: functions that stay home, and the jumps that lead away
    not copied   objects that concat left where they are
    other        code that is no object's: made at run time (JIT), the vDSO

with the largest of each by name.
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
from programs import BASH, HOST, PERL, SQL, WAYS, Programs, python  # noqa: E402
from report import progress, say  # noqa: E402
from stock import REDIS, REQUESTS  # noqa: E402

RATE = 999
SETTLE = 1.0  # seconds until start-up is over
JAVA = """import java.util.*;
public class S {
    public static void main(String[] a) {
        for (long n = 0; ; n++) {
            Map<String, Integer> m = new TreeMap<>();
            for (int i = 0; i < 20000; i++) m.merge(Integer.toString(i * 7919 % 9973), i, Integer::sum);
            if (m.hashCode() == n) System.out.println(n);
        }
    }
}
"""
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
        return ["-C", str(HERE.parent), "--no-pager", "log", "-p", "--stat", "-B", "-M", "-C",
                "--find-copies-harder", "-l0"], None
    if name == "openssl":
        return ["speed", "-seconds", "100", "-bytes", "16", "-evp", "sha256"], None
    if name in ("clang", "cc1"):
        (folder / "s.c").write_text(c_source())
        driver = ["-S"] if name == "clang" else ["-quiet"]
        return [*driver, "-O2", str(folder / "s.c"), "-o", "/dev/null"], None
    if name == "java":
        (folder / "S.java").write_text(JAVA)
        return ["-Xmx256m", str(folder / "S.java")], None
    if name == "redis-server":
        return [*REDIS, str(folder / "socket")], lambda stopped: redis_load(folder, stopped)
    if name == "nginx":
        (folder / "page").write_text("a page of some words\n" * 100)
        (folder / "conf").write_text(NGINX.format(folder))
        return (["-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "error")],
                lambda stopped: nginx_load(folder, stopped))
    raise KeyError(name)


WORKS = ("python3", "python3-shared", "python3-built", "sqlite3", "bash", "perl", "git", "openssl", "nginx",
         "redis-server", "cc1", "clang", "java")


def redis_load(folder, stopped):
    while not stopped.is_set():
        subprocess.run(["redis-benchmark", "-s", str(folder / "socket"), *REQUESTS],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def nginx_load(folder, stopped):
    request = b"GET /page HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n" * 20
    time.sleep(SETTLE / 2)
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
                value, size = symbol(path, "concat_code")
                return start + value, start + value + size
        return 0, 0

    def object(self, address):
        """The file's name; for what was thawed, the name behind the number of its image; for what
        is no object's "[…]"."""
        i = bisect.bisect_right(self.starts, address) - 1
        path = self.ranges[i][3] if i >= 0 and address < self.ranges[i][1] else "[gone]"
        if not path.startswith("/"):
            return path or "[no file]"
        name = Path(path).name
        return re.sub(r"^\d+-", "", name) if "/mvld/images/" in path else name

    def place(self, address):
        if self.region[0] <= address < self.region[1]:
            return "region"
        return self.object(address)

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
    log = folder / "log"
    more = {} if way == HOST else {"MVLD_DEBUG": "files,passes", "MVLD_DEBUG_OUTPUT": log}
    process = subprocess.Popen(programs.command(name, way, arguments), cwd=folder,
                               env=programs.environment(name, way, **more), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stopped = threading.Event()
    load = threading.Thread(target=beside, args=[stopped], daemon=True) if beside else None
    try:
        time.sleep(SETTLE / 2)
        if load:
            load.start()
        time.sleep(SETTLE / 2)
        support.check(process.poll() is None, f"{name}, {way}: ended at once")
        yield process, Path(f"{log}.{process.pid}")
    finally:
        stopped.set()
        process.kill()
        process.wait()


def left_home(log):
    """Names of the objects that concat did not copy, and whether it did anything."""
    text = log.read_text(errors="replace") if log.exists() else ""
    names = {Path(path).name for path in re.findall(r"concat: (\S+): stays home: ", text)}
    return names, bool(re.search(r"concat: [1-9]\d* objects|pass concat: its work was thawed", text))


def named(places, total):
    return ", ".join(f"{name} {100 * n / total:.1f}" for name, n in places.most_common(4)
                     if n * 500 > total)


def measure(programs, name, way, seconds, homes):
    with support.scratch_folder() as folder, running(programs, name, way, folder) as (process, log):
        counts = sample(process.pid, seconds, str(folder / "data"))
        support.check(process.poll() is None, f"{name}, {way}: ended while it was sampled")
        maps = Maps(process.pid)
        said, concat = left_home(log)
        homes = homes | said
    by = collections.Counter()
    for address, n in counts.items():
        by[maps.place(address)] += n
    total = by.total()
    support.check(total >= 100, f"{name}, {way}: {total} samples only")
    parts = {what: collections.Counter() for what in ("region", "home", "not copied", "other")}
    for place, n in by.items():
        # ld.so is never copied; neither is mvld's own loader, which is in no log.
        stays = not concat or place in homes or place.startswith("ld-")
        what = place if place == "region" else "other" if place.startswith("[") else \
            "not copied" if stays else "home"
        parts[what][place] += n
    for what, places in parts.items():
        print(f"result: {name}, {way}, {what} | {100 * places.total() / total:.1f} | % | "
              f"{'' if what == 'region' else named(places, total)}".rstrip(" |"), flush=True)
    say(f"    {name}, {way}: {total} samples")
    return homes


def analyze_later(programs, name):
    """What the program loads while it runs, too."""
    with support.scratch_folder() as folder, running(programs, name, HOST, folder) as (process, _):
        files = Maps(process.pid).files()
    programs.analyze(path for path in files if Path(path).exists() and not
                     path.startswith(str(programs.folder)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--way", choices=[HOST, *WAYS], action="append")
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_intermixed_args()
    if not perf_works():
        support.skip("perf cannot sample here")
    ways = arguments.way or ["concat", "concat, frozen"]
    with support.scratch_folder() as folder:
        for name in arguments.only or WORKS:
            programs = Programs(folder, [name], [way for way in ways if way != HOST])
            if name not in programs.possible:
                continue
            analyze_later(programs, name)
            homes = set()
            for way in (way for way in ways if way in programs.ways(name)):
                progress(f"{name}, {way}")
                homes = measure(programs, name, way, arguments.seconds, homes)


if __name__ == "__main__":
    main()
