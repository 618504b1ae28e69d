#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""names.py BEHAVIOUR: what debuggers and profilers see of a program whose code moved
(names/part.c).

Each function below is one test; its text says what a failure means.
"""
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent.parent / "loader" / "start")]
import support  # noqa: E402
from observe import gdb, says  # noqa: E402
from support import check  # noqa: E402

STACK = ["local_wait", "in_plugin", "in_library", "local_main", "main"]  # outwards
SYMBOLS, NAMES = 11, 12  # tables of an analysis (rimf/analysis/analysis.h)
PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]


class Program:
    def __init__(self, folder):
        support.need(support.LOADER, PASSES[0] / "concat.so", PASSES[0] / "libconcat.so.1")
        self.folder, self.cache = folder, folder / "cache"
        self.path, self.library = folder / "program", folder / "libpart.so"
        self.plugin = folder / "plugin.so"
        support.take(folder, "passes/concat/names", "libpart.so", "plugin.so", "program")

    def analyse(self):
        libc = Path(os.path.realpath(support.HOST_LOADER)).parent / "libc.so.6"
        support.analyze(self.cache, self.path, self.library, self.plugin, libc)

    def environment(self, **options):
        settings = "".join(f"{name.replace('_', '-')} = {value}\n"
                           for name, value in options.items())
        config = self.folder / "config"
        config.write_text(f"[app]\nmatch = {self.path}\npasses = direct-calls, concat\n"
                          f"{support.COPY}{settings}")
        return support.clean_environment(MVLD_CONFIG=config, XDG_CACHE_HOME=self.cache,
                                         MVLD_PASS_PATH=":".join(map(str, PASSES)))

    def start(self, *prefix, **options):
        """It waits in moved code of the plugin, returning to one."""
        process = subprocess.Popen([*prefix, self.path, self.plugin], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment(**options))
        line = process.stdout.readline()
        if not line.startswith("ready "):
            process.kill()
            sys.exit(f"FAILED: it did not start: {line}{process.stderr.read()}")
        here = int(line.split()[1], 16)
        check(regions(process.pid, "plugin.so") and not
              any(start <= here < end for start, end in regions(process.pid, "plugin.so")),
              "it has not moved")
        return process, here


def regions(pid, name):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [tuple(int(word, 16) for word in line.split()[0].split("-"))
            for line in lines if line.endswith("/" + name)]


def end(process):
    process.kill()
    process.communicate()


def debugger(program):
    """gdb attaches to a program whose code moved, and has no names, loses the stack, or misses a
    breakpoint."""
    program.analyse()
    process, here = program.start()
    text = gdb("-ex", "backtrace", "-ex", f"info symbol {here}", "-ex", "break later", "-ex",
               "set var *(int*)&go_on = 1", "-ex", "continue", "-ex", "backtrace", "-ex",
               "x/2i $pc", "-ex", "finish", "-ex", "delete", "-ex", "detach", "-p", process.pid)
    out, err = process.communicate(timeout=60)
    check((process.returncode, out) == (0, "later 2\n"), f"{process.returncode} {out}{err}{text}")
    found = re.findall(r"^#\d+ +0x[0-9a-f]+ in (\w+) ", text, re.M)
    at = found.index("local_wait") if "local_wait" in found else 0
    check(found[at:at + len(STACK)] == STACK, text)
    says(text, r"^in_plugin \+ \d+ in section .text of <in-memory", r"^Breakpoint 1(\.\d+)?, .*later",
         "^#0 .*later", "^#1 .*main", r"^=> 0x[0-9a-f]+ <later(\+\d+)?>:")


def snapshot(program):
    """gdb attaches to a program that started from a snapshot, or reads its core file, and has
    no names of the snapshot's moved code or of what moved after it, loses the stack, or misses a
    breakpoint."""
    program.analyse()
    done = subprocess.run([program.path], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, env={**program.environment(), "MVLD_SNAPSHOT": "1"})
    moved = Path(done.stdout.strip(), "concat.so")
    check(done.returncode == 0 and moved.exists(), done.stdout + done.stderr)
    process, here = program.start()
    check(regions(process.pid, "concat.so"), "it did not start from the snapshot")
    core = program.folder / "core"
    text = gdb("-ex", f"generate-core-file {core}", "-ex", "backtrace", "-ex", "break later", "-ex",
               "set var *(int*)&go_on = 1", "-ex", "continue", "-ex", "backtrace", "-ex",
               "info symbol $pc", "-ex", "finish", "-ex", "delete", "-ex", "detach", "-p", process.pid)
    out, err = process.communicate(timeout=60)
    check((process.returncode, out) == (0, "later 2\n"), f"{process.returncode} {out}{err}{text}")
    says(text, r"^Breakpoint 1(\.\d+)?, .*later", r"^#0 .*later", "^#1 .*main",
         rf"^later.* in section .text of {re.escape(str(moved))}")
    for said in text, gdb("-ex", "backtrace", program.path, core):
        found = re.findall(r"^#\d+ +0x[0-9a-f]+ in (\w+) ", said, re.M)
        at = found.index("local_wait") if "local_wait" in found else 0
        check(found[at:at + len(STACK)] == STACK, said)


def unwound(program, **environment):
    """The frames that eu-stack finds of a program that sleeps, and whether it runs in moved code of a file."""
    process = subprocess.Popen([program.path, "60"], env={**program.environment(), **environment})
    deadline = time.monotonic() + 30
    while not Path(f"/proc/{process.pid}/syscall").read_text().startswith("230 "):  # clock_nanosleep
        check(time.monotonic() < deadline, "it does not sleep")
        time.sleep(0.02)
    moved = re.search(r"/snapshots/\S+/concat.so$", Path(f"/proc/{process.pid}/maps").read_text(), re.M)
    done = subprocess.run(["eu-stack", "-p", str(process.pid)], capture_output=True, text=True, timeout=60)
    process.kill()
    process.wait()
    check(done.returncode == 0, done.stdout + done.stderr)
    return re.findall(r"^#\d+ +0x[0-9a-f]+", done.stdout, re.M), moved


def elfutils(program):
    """eu-stack loses the stack of a program that started from a snapshot: it takes concat.so's mappings for one
    module, and wants its first segment and the table of its frames."""
    if not shutil.which("eu-stack"):
        support.skip("eu-stack is missing")
    program.path = program.folder / "sleep"
    shutil.copy2("/bin/sleep", program.path)
    subprocess.run([support.BUILD / "tools" / "mvld", "set-interp", "--loader", support.LOADER, program.path],
                   check=True, capture_output=True, env=program.environment())
    libc = Path(os.path.realpath(support.HOST_LOADER)).parent / "libc.so.6"
    support.analyze(program.cache, program.path, libc)
    plain, moved = unwound(program, MVLD="off")
    check(len(plain) > 3 and not moved, f"plainly: {plain}")
    done = subprocess.run([program.path, "0"], capture_output=True, text=True, timeout=60,
                          env={**program.environment(), "MVLD_SNAPSHOT": "1"})
    check(done.returncode == 0, done.stderr)
    found, moved = unwound(program)
    check(moved, "it did not start from the snapshot")
    check(len(found) == len(plain), f"{found}, plainly {plain}")


def stripped(program):
    """Where the files have dynamic symbols alone, those are not found; or with `debugger = no`
    something is said to debuggers."""
    subprocess.run(["strip", program.path, program.library, program.plugin], check=True)
    program.analyse()
    for option, expected in ("yes", ["in_plugin", "in_library", "main"]), ("no", []):
        process, _ = program.start(debugger=option)
        text = gdb("-ex", "backtrace", "-p", process.pid)
        end(process)
        found = re.findall(r"^#\d+ +0x[0-9a-f]+ in (\w+) ", text, re.M)
        check([name for name in found if name in STACK] == expected, f"{option}: {text}")


def analyses(program):
    """(path, offset of the symbols, their size, offset of the names) of each analysis."""
    for path in (program.cache / "mvld" / "analysis").rglob("*.mvld"):
        head = path.read_bytes()
        header_size, = struct.unpack_from("<I", head, 12)
        n, = struct.unpack_from("<I", head, 44)
        tables = {kind: (entry * count, offset) for kind, entry, offset, count, _ in
                  (struct.unpack_from("<IIQQQ", head, header_size - 32 * n + 32 * i)
                   for i in range(n))}
        check(SYMBOLS in tables and NAMES in tables, f"{path} has no symbols")
        yield path, tables[SYMBOLS][1], tables[SYMBOLS][0], tables[NAMES][1]


def all_named(program):
    """Functions that an analysis names have no name, or that of another, where they moved to."""
    program.analyse()
    process, _ = program.start(perf_map="yes")
    listed = {}
    for start, _, name in perf_map(process.pid):
        listed.setdefault(name, set()).add(start)
    end(process)
    for path, symbols, size, names in analyses(program):
        content = path.read_bytes()
        found = {}
        for at in range(symbols + 24, symbols + size, 24):
            name, value = struct.unpack_from("<I4xQ", content, at)
            text = content[names + name:content.index(b"\0", names + name)].decode()
            found.setdefault(text, set()).add(value)
        known = [(name, values) for name, values in found.items() if len(values) == 1 ==
                 len(listed.get(name, ()))]
        check(known and len(known) >= len(found) * 0.9,
              f"{path}: {len(known)} of {len(found)} are known")
        moved = {min(listed[name]) - min(values) for name, values in known}
        check(len(moved) == 1, f"{path}: {[hex(by) for by in moved]}")


def fragments(program):
    """Where code moves in fragments, gdb finds no names."""
    program.analyse()
    process, _ = program.start(order="random-functions")
    text = gdb("-ex", "backtrace", "-p", process.pid)
    end(process)
    found = re.findall(r"^#\d+ +0x[0-9a-f]+ in (\w+) ", text, re.M)
    check([name for name in found if name in STACK] == STACK, text)


def nonsense(program):
    """Symbols in an analysis that say nonsense harm more than names."""
    program.analyse()
    whole = {path: (path.read_bytes(), symbols, names) for path, symbols, _, names in analyses(program)}
    for to_end in True, False:  # also the names, or all entries alone
        for path, (content, symbols, names) in whole.items():
            size = (len(content) if to_end else names) - symbols
            path.write_bytes(content[:symbols] + b"\xff" * size + content[symbols + size:])
        process, _ = program.start()
        gdb("-ex", "backtrace", "-ex", "set var *(int*)&go_on = 1", "-ex", "detach", "-p", process.pid)
        out, err = process.communicate(timeout=60)
        check((process.returncode, out) == (0, "later 2\n"), f"{process.returncode} {out}{err}")


def perf_map(pid):
    path = Path(f"/tmp/perf-{pid}.map")
    check(stat.S_IMODE(path.stat().st_mode) == 0o600, "others can read it")
    lines = path.read_text().splitlines()
    path.unlink()
    lines = [re.fullmatch("([0-9a-f]+) ([0-9a-f]+) (.+)", line).groups() for line in lines]
    return [(int(start, 16), int(size, 16), name) for start, size, name in lines]


def covering(names, address):
    found = [name for start, size, name in names if start <= address < start + size]
    return found[0] if len(found) == 1 else found


def map_of_perf(program):
    """The map for perf is not there, lacks functions, or is written through somebody's link."""
    program.analyse()
    process, here = program.start(perf_map="yes")
    names = perf_map(process.pid)
    end(process)
    check(covering(names, here) == "in_plugin", f"{covering(names, here)} at {here:x}")
    listed = {name for _, _, name in names}
    check(listed.issuperset([*STACK, "later", "qsort"]), "functions are missing")
    check(any(re.fullmatch(r"libc\.so\.6\+0x[0-9a-f]+", name) for name in listed),
          "what has no name is missing")

    victim = program.folder / "victim"
    victim.write_text("precious")
    for make in f"ln -s {victim}", f"ln {victim}", f"cp {victim}":
        process, _ = program.start("sh", "-c", f'{make} /tmp/perf-$$.map; exec "$@"', "sh",
                                   perf_map="yes")
        taken = Path(f"/tmp/perf-{process.pid}.map")
        text = taken.read_text()
        end(process)
        taken.unlink()
        check(text == victim.read_text() == "precious", "a file of others was written")
    process, _ = program.start("sh", "-c", 'ulimit -f 1; exec "$@"', "sh", perf_map="yes")
    end(process)  # it started: no SIGXFSZ
    check(not Path(f"/tmp/perf-{process.pid}.map").exists(), "a file beyond RLIMIT_FSIZE")


def perf(program):
    """perf has no name for samples in moved code."""
    support.need_perf()
    program.analyse()
    data = program.folder / "perf.data"
    done = subprocess.run(["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "500", "-o", data,
                           program.path, program.plugin, "spin"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60,
                          env=program.environment(perf_map="yes"))
    check(not done.returncode, done.stderr)
    report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-F",
                             "overhead,pid,sym"], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=60).stdout
    for pid in set(re.findall(r"(\d+):program", report)):
        Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    share = re.search(r"([0-9.]+)% .*\[\.\] local_spin", report)
    check(share and float(share[1]) > 80, report)


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


main()
