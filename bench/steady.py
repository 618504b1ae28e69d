# SPDX-License-Identifier: MIT
"""What the work of programs costs in CPU time, as ratios that say how certain they are.

From moment to moment a virtual machine changes the speed of a program by more than one per cent, so:

- *CPU time, user and system.*  Linux with tick accounting knows the sum exactly, and guesses the parts from the
  place where each tick of 4 ms found the process: in a run of 100 ms that spends 15 in the kernel, user time is
  wrong by some 8 % either way.
- *The work alone.*  A run that does next to nothing is measured as often and subtracted, so that the cost of
  mvld's start-up is not taken for the speed of the code, nor the speed for that cost.
- *Undisturbed runs.*  Runs are short, so that many of them are undisturbed.  steady.c says which count, and why.
- *A new process each time,* all ways in a new random order: what is random in a process is random in each run,
  and so is the program that used the caches before.
- *The same file.*  The second cache is indexed by physical addresses, and the TLB joins adjacent pages.  Which
  pages a file has is chance, and stays so while they are cached: of two plain copies of Debian's python3 one was
  2.2 % (1.3 to 3.3) slower.  So the host loader's way runs the changed file, too, with MVLD=off.
- *The same on the stack.*  Arguments and environment are equally long for all ways.
- *The first quartile.*  A disturbance only adds time.  The median stands beside it, because a program that is
  slow in every other process would go unseen.
- *An interval.*  It holds 95 % of the ratios of samples that are drawn from these samples (bootstrap).  A way is
  called slower when its whole interval is.
"""
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402

DRAWS = 800
FEW = 8  # with fewer undisturbed runs all count; the interval then says what that is worth


def quartile(values):
    return statistics.quantiles(values, method="inclusive")[0]


class Work:
    """Milliseconds of the work: those of whole runs less those of starts."""

    def __init__(self, whole, starts):
        self.whole, self.starts = whole, starts
        self.value = self.by(quartile)

    def by(self, middle, generator=None):
        def of(values):
            return middle(generator.choices(values, k=len(values)) if generator else values)
        return of(self.whole) - of(self.starts)


class Change:
    """Per cent that a way takes longer than another."""

    def __init__(self, work, first):
        generator = random.Random(1)

        def percent(*middle):
            return 100 * (work.by(*middle) / first.by(*middle) - 1)

        drawn = sorted(percent(quartile, generator) for _ in range(DRAWS))
        self.value, self.median = percent(quartile), percent(statistics.median)
        self.low, self.high = drawn[DRAWS // 40], drawn[-1 - DRAWS // 40]

    def __str__(self):
        return f"{self.value:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"


def level(jobs):
    """{way: (command, environment)} with equally many variables, and bytes of all strings (the
    kernel puts the program's name beside them once more)."""
    def size(command, env):
        return sum(len(os.fsencode(text)) + 1 for text in [command[0], *command, *env, *env.values()])

    most = max(len(env) for _, env in jobs.values()) + 1
    padded = {way: (command, {**env, **{f"LEVEL_{i:03}": "" for i in range(most - len(env))}})
              for way, (command, env) in jobs.items()}
    largest = max(size(*job) for job in padded.values())
    for command, env in padded.values():
        env["LEVEL_000"] = "-" * (largest - size(command, env))
    return padded


def runs(jobs, wanted, seconds):
    """[(number of the job, ms of CPU time, whether undisturbed)]."""
    words = [str(support.BUILD / "bench" / "steady"), str(wanted), str(seconds)]
    for command, env in jobs:
        words += [*(f"{name}={value}" for name, value in env.items()), *map(str, command), "--"]
    done = subprocess.run(words[:-1], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds + 300)
    support.check(done.returncode == 0, done.stderr.strip())
    for line in done.stdout.splitlines():
        which, user, system, *_, undisturbed = line.split()
        yield int(which), (float(user) + float(system)) / 1000, undisturbed == "1"


def undisturbed_runs(jobs, wanted, seconds):
    """([ms of each run that counts] of each job, how many runs of all were undisturbed)."""
    found = list(runs(jobs, wanted, seconds))
    kept = [[ms for which, ms, undisturbed in found if which == i and undisturbed] for i in range(len(jobs))]
    if min(map(len, kept)) < FEW:
        kept = [[ms for which, ms, _ in found if which == i] for i in range(len(jobs))]
    support.check(min(map(len, kept)) > 1, f"nothing ran twice within {seconds} s")
    return kept, (sum(undisturbed for *_, undisturbed in found), len(found))


def works(whole, starts, wanted, seconds):
    """({way: Work}, how many runs of all were undisturbed) of {way: (command, environment)}, twice."""
    kept, quiet = undisturbed_runs([*level(whole).values(), *level(starts).values()], wanted, seconds)
    return {way: Work(kept[i], kept[len(whole) + i]) for i, way in enumerate(whole)}, quiet


def starts(jobs, wanted, seconds):
    """{way: Work} of {way: (command, environment)}, whole runs: nothing is taken off."""
    kept, _ = undisturbed_runs(list(level(jobs).values()), wanted, seconds)
    return {way: Work(values, [0, 0]) for way, values in zip(jobs, kept)}
