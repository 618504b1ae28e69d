#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""filtered.py BEHAVIOUR: direct-calls under a filter of system calls that kills (start/programs/expected.h),
in the program of store/overlays/.  Each function below is one test; its text says what a failure means.
"""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "store")]
import support  # noqa: E402
from overlays import Program  # noqa: E402
from support import check  # noqa: E402

IN_FORCE = "a filter of system calls is in force"


def confined(folder, how="expected"):
    """What to put before a command to start it under that filter of start/programs/confine.c."""
    confine = folder / "confine"
    support.take(folder, "loader/start/programs", confine.name)
    done = support.run([confine, how, "--", "/bin/true"])
    if done.returncode == 77:
        support.skip(done.stdout.strip())
    return [confine, how, "--"]


def changed(done):
    """In how many places the code of each object was changed."""
    return {name: support.changed(done, name) for name in ("program", "libhelper.so", "libwhere.so", "one.so")}


def distances(done):
    """Between libraries, and to the host loader."""
    at = support.bases(done)
    return {name: at[name] - at["libc.so.6"] for name in at if name.startswith(("lib", "ld-linux"))}


def start(program):
    """A call that the filter does not expect was made at start, or passes do not run there."""
    plain = program.run("open:one.so")
    done = program.run("open:one.so", prefix=confined(program.folder))
    check(IN_FORCE in done.stderr and IN_FORCE not in plain.stderr, done.stderr)
    check(changed(plain)["program"][0] and changed(done) == changed(plain),
          f"plainly:\n{plain.stderr}under the filter:\n{done.stderr}")


def applied(program):
    """The same, of a start from a snapshot and of what it has learnt."""
    program.train("open:one.so")
    done = program.applied("open:one.so", names=["libwhere.so", "one.so"],
                          prefix=confined(program.folder))
    check(IN_FORCE in done.stderr, done.stderr)
    program.applied(names=[], prefix=confined(program.folder, "no-advice"))
    program.configure("on-miss = learn")
    program.run("open:two.so", prefix=confined(program.folder))
    program.configure("on-miss = build")
    images = sorted((program.cache / "mvld" / "snapshots").iterdir())
    done = program.run("open:one.so", prefix=confined(program.folder), LD_PRELOAD="libutil.so.1")
    check(sorted((program.cache / "mvld" / "snapshots").iterdir()) == images, done.stderr)


def drawn(program):
    """Under a filter the kernel is asked for a random number, for which the filter may kill the program."""
    program.configure("on-miss = build")
    same = [distances(program.run(prefix=confined(program.folder))) for _ in range(2)]
    check(same[0] == same[1], f"{same}")
    drawn = distances(program.run())
    check(drawn != same[0], f"without the filter: {drawn}")


def late(program):
    """A filter that the program loads itself kills it at its next dlopen."""
    confined(program.folder)
    library = program.folder / "libfilter.so"
    support.compile_c(library, "-shared", "-fPIC", HERE / "filtered" / "filter.c", "-pthread", "-ldl", plugin=False)
    done = program.run("open:one.so", "open:two.so", LD_PRELOAD=library)
    check(IN_FORCE in done.stderr, done.stderr)


def thread(program):
    """A filter of one thread kills the program when that thread opens a library."""
    confined(program.folder)
    library = program.folder / "libfilter.so"
    support.compile_c(library, "-shared", "-fPIC", HERE / "filtered" / "filter.c", "-pthread", "-ldl", plugin=False)
    done = program.run(LD_PRELOAD=library, FILTER_OPENS=program.folder / "one.so")
    check(support.changed(done, "one.so")[0] and IN_FORCE in done.stderr, done.stderr)


def trapped(program):
    """A sandbox that answers by SIGSYS: the process is killed at its next dlopen, its handler is asked for
    what the host loader does not call, or the handler that was called does not let the pass work."""
    library = program.folder / "libtrapped.so"
    support.compile_c(library, "-shared", "-fPIC", HERE / "filtered" / "trapped.c", plugin=False)
    words = "open:one.so", "threads:two.so", "deep:three.so"
    for trained in False, True:
        if trained:
            program.train("open:one.so")
        for how in "allow", "refuse", "blocked":
            done = program.run(*words, LD_PRELOAD=library, TRAPPED=how)
            check(how == "refuse" or trained or all(support.changed(done, name)[0] for name in ("one.so", "three.so")),
                  f"{how}: calls are not direct:\n{done.stderr}")


def snapshot(program):
    """A snapshot that was asked for is not built under a filter that would let it be."""
    done = support.run([*confined(program.folder, "no-open"), program.path],
                       **program.environment(MVLD_SNAPSHOT=1))
    check(done.returncode == 0 and (Path(done.stdout.strip()) / "manifest").is_file(),
          done.stdout + done.stderr)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](Program(scratch))
