# SPDX-License-Identifier: MIT
"""The redis case study: a switch of a server that runs, changed from outside under load.

Whether anybody is told of changed keys (keyspace events) is asked in each write command.  Here it is a switch,
off, and the function that asks is a variation point; `mvld switch -p PID` turns it on and off, again and again,
while eight clients write and read and compare each answer.  Behind each change a subscriber must be told of the
next write, or must not.
"""
import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import sources  # noqa: E402
import support  # noqa: E402
from programs import MVLD  # noqa: E402
from report import progress  # noqa: E402

CLIENTS = 8
CHANGES = 10000
BLOCK = 100   # changes, after which processors that may be idle and ones that are not change places
MACHINE = 40  # seconds, in half of which the machine's own gaps are looked for
# File: how often, pattern, replacement.
EDITS = {
    "server.h": [(1, r"(?<=\n)(void notifyKeyspaceEvent\()",
                  r"extern __attribute__((multiverse)) _Bool keyspace_events;\n__attribute__((multiverse)) \1")],
    "notify.c": [(1, r"(?<=\n)(void notifyKeyspaceEvent\(.*\{\n)",
                  r"_Bool keyspace_events;\n\n\1    if (!keyspace_events) return;\n")],
}


def edit(tree):
    for name, edits in EDITS.items():
        text = (tree / "src" / name).read_text()
        for often, pattern, replacement in edits:
            text, found = re.subn(pattern, replacement, text)
            support.check(found == often, f"another redis: {found} places for {pattern}")
        (tree / "src" / name).write_text(text)


def build(folder):
    tree = folder / "multiversed"
    server = tree / "src" / "redis-server"
    if not sources.fresh(server, __file__, support.PLUGIN):
        sources.copied(sources.fetch(folder, "redis", "redis-7.0.15"), tree)
        edit(tree)
        progress("compiling redis")
        sources.do(["make", "-s", "-C", tree / "src", "-j2", "redis-server", "MALLOC=libc", f"CC={support.CC}",
                    f"REDIS_CFLAGS=-fplugin={support.PLUGIN}"], tree, 1800)
    return server


class Client:
    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(place))
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w)
                                                               for w in (str(word).encode() for word in words)))

    def answer(self):
        line = self.file.readline().rstrip()
        if line[:1] == b"$":
            return None if line == b"$-1" else self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.answer() for _ in range(int(line[1:]))]
        return int(line[1:]) if line[:1] == b":" else line

    def ask(self, *words):
        self.send(*words)
        return self.answer()


class Load:
    """Clients that compare all answers until they are stopped."""

    def __init__(self, place):
        self.place, self.going, self.served, self.wrong = place, True, [0] * CLIENTS, []
        Client(place).ask("FLUSHALL")
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        client, draw, n = Client(self.place), random.Random(number), 0
        while self.going:
            n += 1
            value = str(draw.random())
            said = [client.ask("SET", f"key{number}", value), client.ask("GET", f"key{number}"),
                    client.ask("INCR", f"count{number}"), client.ask("LPUSH", f"list{number}", n),
                    client.ask("RPOP", f"list{number}")]
            if said != [b"+OK", value.encode(), n, 1, str(n).encode()]:
                self.wrong.append((number, n, said))
                return
            self.served[number] += len(said)

    def stop(self):
        self.going = False
        for thread in self.threads:
            thread.join()
        return sum(self.served)


class Server:
    def __init__(self, server, folder):
        self.place = folder / "socket"
        self.place.unlink(missing_ok=True)
        self.process = subprocess.Popen([str(server), "--port", "0", "--unixsocket", str(self.place), "--save", "",
                                         "--notify-keyspace-events", "KA"], cwd=folder, stdout=subprocess.DEVNULL)
        for _ in range(100):
            time.sleep(0.1)
            if self.place.exists():
                break
        self.writer, self.subscriber = Client(self.place), Client(self.place)
        self.subscriber.ask("SUBSCRIBE", "__keyspace@0__:probe")

    def tells(self):
        """Is the subscriber told of a write that is made now?"""
        self.writer.ask("SET", "probe", "1")
        self.subscriber.send("PING")
        first = self.subscriber.answer()
        if first[0] == b"pong":
            return False
        support.check(first[0] == b"message" and self.subscriber.answer()[0] == b"pong", f"told: {first}")
        return True

    def switch(self, value, environment):
        """Milliseconds of the tool from start to end."""
        begin = time.monotonic()
        done = subprocess.run([str(MVLD), "switch", "-p", str(self.process.pid), f"keyspace_events={value}"],
                              capture_output=True, text=True, timeout=60, env=environment)
        support.check(done.returncode == 0, f"mvld switch: {done.stderr}")
        return 1000 * (time.monotonic() - begin)

    def end(self):
        self.process.kill()
        self.process.wait()


def rate(place, seconds):
    load = Load(place)
    time.sleep(seconds)
    return load.stop() / seconds, load.wrong


def control(*arguments):
    done = subprocess.run([sys.executable, str(HERE / "control.py"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=600)
    support.check(done.returncode == 0, f"control: {done.stderr}")
    return sorted(float(word) for word in done.stdout.split())


def share(figures, hundredths):
    return sorted(figures)[len(figures) * hundredths // 100]


def above(figures, limit=1000):
    return f"{sum(figure > limit for figure in figures)} of {len(figures)}"


class Spinners:
    """Processors of a virtual machine that are never idle, and so never halt; none is taken from anybody."""

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, str(HERE / "control.py"), "spin", str(processor)])
                          for processor in os.sched_getaffinity(0)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def stop_rows(name, times):
    """One file of stops.c."""
    stops = [[int(word) / 1000 for word in line.split()] for line in times.read_text().splitlines()]
    lengths, threads = [stop[0] for stop in stops], [stop[3] for stop in stops]
    return [(f"{name}: stopped thread, median", f"{share(lengths, 50):.0f} | µs", None),
            (f"{name}: of a hundred the longest", f"{share(lengths, 99):.0f} | µs", None),
            (f"{name}: longest", f"{max(lengths):.0f} | µs", None),
            (f"{name}: stops above 1 ms", above(lengths), None),
            (f"{name}: of these, without the time for which tool and thread waited for a processor",
             above([stop[0] - stop[2] - stop[4] for stop in stops if stop[0] > 1000]), None),
            (f"{name}: time of all stops together", f"{sum(lengths) / 1e6:.1f} | s", None),
            (f"{name}: CPU time of the thread in a stop, median", f"{share(threads, 50):.0f} | µs", None),
            (f"{name}: CPU time of the thread in a stop, longest", f"{max(threads):.0f} | µs", None)]


def change_often(server, changes, folder):
    """Milliseconds of the tool for each change, how many the next write did not see, files of stops.c.  The first change
    is by itself: it lets the kernel register the process for membarrier(2), which takes a grace period of RCU where there
    are threads."""
    times = {way: folder / f"stops-{way}.txt" for way in ("first", "idle", "busy")}
    sources.do([support.CC, "-O2", "-D_GNU_SOURCE", "-fPIC", "-shared", "-o", folder / "stops.so", HERE / "stops.c"],
               folder, 60)
    for file in times.values():
        file.unlink(missing_ok=True)
    late, walls = 0, []
    for block in range(0, changes, BLOCK):
        way = "busy" if block // BLOCK % 2 else "idle"
        with Spinners() if way == "busy" else contextlib.nullcontext():
            for i in range(block, min(block + BLOCK, changes)):
                environment = dict(os.environ, LD_PRELOAD=str(folder / "stops.so"), STOPS=str(times[way if i else "first"]))
                walls.append(server.switch((i + 1) % 2, environment))
                late += server.tells() != bool((i + 1) % 2)
    return walls, late, times


def run(folder, changes=CHANGES):
    """The rows for the summary: (what, result, ok)."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(build(folder), folder)
    quiet = control("gap", 20)[-1]
    alone, wrong = rate(server.place, 5)
    load = Load(server.place)
    loud, machine = control("gap", 20)[-1], control("machine", MACHINE)
    progress(f"changing a switch {changes} times under {CLIENTS} clients")
    served, begin = sum(load.served), time.monotonic()
    walls, late, times = change_often(server, changes, folder)
    seconds = time.monotonic() - begin
    served = sum(load.served) - served
    only = control("stop", server.process.pid, changes)
    total = load.stop()
    wrong += load.wrong
    server.end()
    return [("wrong answers", f"{len(wrong)} of {total}", not wrong),
            ("changes that the next write did not see", f"{late} of {changes}", not late),
            *stop_rows("the first change", times["first"]),
            *stop_rows("processors may be idle", times["idle"]),
            *stop_rows("no processor is idle", times["busy"]),
            ("a tracer that only stops and lets go, median", f"{share(only, 50):.0f} | µs", None),
            ("a tracer that only stops and lets go, of a hundred the longest", f"{share(only, 99):.0f} | µs", None),
            ("a tracer that only stops and lets go, longest", f"{only[-1]:.0f} | µs", None),
            ("a tracer that only stops and lets go, stops above 1 ms", above(only), None),
            ("the machine: gaps above 1 ms under load, a second of a processor", f"{len(machine) / MACHINE * 2:.1f}", None),
            ("no tracer: longest gap between two reads of the clock, 20 s without load", f"{quiet:.0f} | µs", None),
            ("no tracer: longest gap between two reads of the clock, 20 s with it", f"{loud:.0f} | µs", None),
            ("mvld switch, start to end, median", f"{share(walls, 50):.1f} | ms", None),
            ("requests, nobody changes anything", f"{alone:.0f} | 1/s", None),
            (f"requests, {changes / seconds:.0f} changes a second", f"{served / seconds:.0f} | 1/s", None)]
