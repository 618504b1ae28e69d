# SPDX-License-Identifier: MIT
"""How the demo and the benchmarks talk: headings, progress, tables."""
import statistics
import sys
import time

_started = time.monotonic()


def heading(text):
    print(f"\n\033[1m==> {text}\033[0m" if sys.stdout.isatty() else f"\n==> {text}", flush=True)


def say(text=""):
    print(text, flush=True)


def progress(text):
    """A step that may take a while: said before it starts."""
    print(f"    [{time.monotonic() - _started:4.0f} s] {text}", flush=True)


def table(rows, headings=None):
    """Columns as wide as they must be; what looks like a number stands right."""
    rows = [[str(cell) for cell in row] for row in rows]
    columns = range(len(headings or rows[0]))
    widths = [max(len(row[i]) for row in [*([headings] if headings else []), *rows])
              for i in columns]
    right = [all(row[i][:1].isdigit() or row[i][:1] in "+-" for row in rows) for i in columns]

    def line(row):
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right))
        return "  " + "  ".join(cells).rstrip()

    if headings:
        print(line(headings))
        print("  " + "  ".join("-" * w for w in widths))
    for row in rows:
        print(line(row))
    sys.stdout.flush()


def interleaved(runs, rounds, measure):
    """{name: median of measure(run)}: every run once a round, so that what the machine
    does meanwhile hits all of them alike."""
    values = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            values[name].append(measure(run))
    return {name: statistics.median(v) for name, v in values.items()}
