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


def markdown(rows, headings):
    """The same as a table of a Markdown file."""
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in [headings, ["---"] * len(headings), *rows])


class Spread:
    """Values of the same thing, measured again and again."""

    def __init__(self, values):
        values = sorted(values)
        self.median, self.least, self.most = statistics.median(values), values[0], values[-1]
        # With few values the quartiles are nothing; they are then the outermost.
        few = len(values) < 4
        self.low, _, self.high = (self.least, None, self.most) if few else \
            statistics.quantiles(values, method="inclusive")

    def beside(self, first):
        """How it compares with the first of several: medians, between which of its values half of
        all lie, and the best of both, which what else runs disturbs least."""
        def percent(a, b):
            return f"{100 * (a / b - 1):+.1f}"
        within = "quartiles {} to {}".format(*(percent(v, first.median) for v in (self.low, self.high)))
        if self is first:
            return within + " %"
        return (f"{percent(self.median, first.median)} %, {within}, "
                f"best {percent(self.least, first.least)}")

    def slower(self, first):
        """Per cent more time than the first, by the medians."""
        return 100 * (self.median / first.median - 1)


def spreads(runs, rounds, measure):
    """{name: Spread of measure(run)}: every run once a round, so that what the machine does
    meanwhile hits all of them alike."""
    values = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            values[name].append(measure(run))
    return {name: Spread(v) for name, v in values.items()}


def interleaved(runs, rounds, measure):
    """{name: median of measure(run)}."""
    return {name: spread.median for name, spread in spreads(runs, rounds, measure).items()}
