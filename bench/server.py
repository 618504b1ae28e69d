# SPDX-License-Identifier: MIT
"""server.py [--starts N] [--seconds N] [--way WAY]... [--option PASS.OPTION=VALUE]... [--append FILE | --show FILE]
[SERVER...]: what requests cost a server.

nginx (small pages, compressed) and redis-server, each under the host loader, and under mvld in all ways, or in
some.  --option adds ways: concat with this option, in the process and from a snapshot.
Two starts of the same server differ by more than one per cent, so:

- *Many starts,* each measured for a moment: a fixed number of requests behind some that warm it up
  (served.c), in parts of some milliseconds, of which the first quartile counts: disturbances only add, and
  come and go.  500 starts of each way and more are worth having.
- *CPU time* of the server, user and system: what shares the machine changes how long requests take, far
  more than what they cost.
- *In an order drawn anew each round;* parts beside which the processor was disturbed do not count, nor
  do starts that have less than a quarter of them left.
- *In pieces.*  Which pages of memory a snapshot or a library has is chance, and stays so while they are cached.
  With --append FILE the starts are added to those of earlier days in a file.  Each time copies and snapshots are
  made anew, and the interval is drawn from pieces and starts.
- *The host loader twice.*  The difference of "host loader, again" is the method's own error.

Each figure is CPU time relative to the host loader's: by means, and by medians, with the interval in
which 95 % of the ratios lie that pieces and starts drawn from these give (bootstrap).

    for i in 1 2 3 4 5 6; do python3 bench/server.py --starts 900 --seconds 60 --append nginx.tsv nginx; done
"""
import argparse
import random
import socket as sockets
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import steady  # noqa: E402
import support  # noqa: E402
from programs import HOST, IDLE_WAYS, WAYS, Programs, option_ways  # noqa: E402
from report import progress, say, table  # noqa: E402
from samples import work  # noqa: E402

AGAIN = HOST + ", again"
DRAWS = 1000
PARTS = 16
GET = b"GET /page HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
WRITE = b"set k%d %d\r\nincr k%d\r\nget k%d\r\ndel l%d\r\nlpush l%d a b c\r\nlrange l%d 0 2\r\nzadd z %d m%d\r\n"
# server -> (one batch of requests, batches to warm up, batches of a part)
SERVERS = {"nginx": (GET * 20, 40, 5),
           "redis-server": (b"".join(WRITE % (i, 1000 + i, i, i, i, i, i, i, i) for i in range(30)), 40, 8)}


def jobs(programs, name, folder):
    """{way: (command, environment)}."""
    found = programs.works(name, work(name, folder)[0])
    return steady.level({HOST: found[HOST], AGAIN: found[HOST], **found})


def measured(name, ways, folder, starts, seconds):
    """(way, µs of CPU time a batch, page faults) of starts."""
    requests, warm, batches = SERVERS[name]
    (folder / "requests").write_bytes(requests)
    words = [support.BUILD / "bench" / "served", starts, seconds, folder / "socket", folder / "requests", warm,
             PARTS, batches]
    for command, env in ways.values():
        words += [*(f"{key}={value}" for key, value in env.items()), *command, "--"]
    done = subprocess.run(list(map(str, words[:-1])), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds + 300)
    support.check(done.returncode == 0, done.stderr.strip())
    names, found, lines = list(ways), [], done.stdout.splitlines()
    for line in lines:
        which, faults, *parts = line.split()
        if len(parts) >= PARTS / 4:
            found.append((names[int(which)], steady.quartile(map(float, parts)) / batches, int(faults)))
    say(f"    {name}: {len(found)} of {len(lines)} starts undisturbed")
    return found


def piece(name, starts, seconds, wanted):
    """[(server, when, way, µs, page faults)]."""
    with support.scratch_folder() as folder:
        programs = Programs(folder, [name], wanted)
        if name not in programs.possible:
            return []
        place = folder / "server"
        place.mkdir()
        when = int(time.time())
        progress(f"{name}: starts")
        return [(name, when, *found) for found in
                measured(name, jobs(programs, name, place), place, starts, seconds)]


def change(pieces, way, middle, draw=lambda values: values):
    """Per cent that a way takes longer, by pieces of {way: [µs]}; each counts as much as it has starts."""
    ratios = [(middle(draw(p[way])) / middle(draw(p[HOST])), len(p[way])) for p in draw(pieces)]
    return 100 * (sum(r * n for r, n in ratios) / sum(n for _, n in ratios) - 1)


def show(name, rows):
    """Of all pieces in which the host loader and the way were undisturbed often enough."""
    pieces = {}
    for _, when, way, us, _ in rows:
        pieces.setdefault(when, {}).setdefault(way, []).append(us)
    lines = []
    for way in dict.fromkeys(way for _, _, way, *_ in rows):
        fit = [p for p in pieces.values() if min(len(p.get(way, [])), len(p.get(HOST, []))) >= steady.FEW]
        if way == HOST or not fit:
            continue
        generator = random.Random(1)
        row = [name, way, sum(len(p[way]) for p in fit)]
        for middle in (statistics.mean, statistics.median):
            drawn = sorted(change(fit, way, middle, lambda v: generator.choices(v, k=len(v))) for _ in range(DRAWS))
            row.append(f"{change(fit, way, middle):+.2f} ({drawn[DRAWS // 40]:+.2f} to {drawn[-1 - DRAWS // 40]:+.2f})")
        row.append(f"{statistics.mean(f for *_, w, _, f in rows if w == way):.1f}")
        lines.append(row)
    host = [us for *_, way, us, _ in rows if way == HOST]
    support.check(len(host) > 1, f"{name}: hardly a start was undisturbed")
    say(f"\n{name}: {len(host)} starts under the host loader in {len(pieces)} pieces, {statistics.mean(host):.1f} µs "
        f"a batch, standard deviation {100 * statistics.stdev(host) / statistics.mean(host):.1f} %")
    table(lines, ["server", "way", "starts", "%, by means", "%, by medians", "page faults"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=40, help="of each way")
    parser.add_argument("--seconds", type=float, default=120, help="at most, for one server")
    parser.add_argument("--way", action="append", help="this one, beside the host loader")
    parser.add_argument("--option", action="append", default=[], metavar="PASS.OPTION=VALUE")
    parser.add_argument("--append", type=Path, metavar="FILE", help="add these starts; show all of the file")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing; show all of the file")
    parser.add_argument("only", nargs="*", choices=[*SERVERS, []])
    arguments = parser.parse_intermixed_args()
    WAYS.update(IDLE_WAYS)
    for option in arguments.option:
        WAYS.update(option_ways(option))
    for way in arguments.way or []:
        support.check(way in WAYS, f"{way}: one of {'; '.join(WAYS)}")
    rows = []
    for name in [] if arguments.show else arguments.only or SERVERS:
        rows += piece(name, arguments.starts, arguments.seconds, arguments.way or WAYS)
    file = arguments.show or arguments.append
    if arguments.append:
        with file.open("a") as out:
            out.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    if file:
        lines = (line.split("\t") for line in file.read_text().splitlines())
        rows = [(name, int(when), way, float(us), int(faults)) for name, when, way, us, faults in lines]
    for name in arguments.only or dict.fromkeys(row[0] for row in rows):
        show(name, [row for row in rows if row[0] == name])


if __name__ == "__main__":
    main()
