#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot_placed.py BEHAVIOUR: where the objects of a snapshot lie, and what lies elsewhere each time.

The answer must be 2 whenever the pass is asked for, applied or not; what differs is
what the log says.  Each function below is one test; its text says what a failure
means.
"""
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from snapshots import SOURCES, start  # noqa: E402
from support import check, from_snapshot  # noqa: E402


def as_is(program):
    """A snapshot is made, or used, where libraries lie elsewhere each time."""
    done = program.run(MVLD_SNAPSHOT=1, status=1, keys="placement = as-is\n")
    check("placement" in done.stderr and not done.stdout, done.stdout + done.stderr)
    done = program.run(keys="placement = as-is\non-miss = build\n")
    check(done.stdout == "2 0\n" and not program.cache.exists(), done.stdout + done.stderr)
    program.make_snapshot()
    done = program.run(keys="placement = as-is\n")
    check(done.stdout == "2 0\n" and not from_snapshot(done), done.stdout + done.stderr)


def ways_to_start(program):
    """Run through the loader, objects are at other addresses: each kind of start needs its own snapshot."""
    program.make_snapshot()
    program.make_snapshot(prefix=[support.LOADER])
    program.applied()
    program.applied(prefix=[support.LOADER])


def fixed_address(program):
    """An executable at a fixed address, which is unplaced, has no snapshot; its own code is
    in it; or a library's code is applied where it holds a distance to the executable."""
    program.make_program("-no-pie", "-fno-pie")
    folder = program.make_snapshot()
    check([path.name.split("-", 1)[1] for path in folder.glob("[0-9]*")] == ["libanswer.so"],
          "the snapshot holds other code than the library's")
    places = set()
    for _ in range(4):
        done = program.applied()
        check(from_snapshot(done) == ["libanswer.so"], done.stderr)
        places.add(support.bases(done)["libanswer.so"])
    check(len(places) > 1, f"the library always lies at {places}")
    # The program's own answer, which the pass would change, and may not.
    program.make_program("-no-pie", "-fno-pie", f'-DFLAG="{program.flag}"', SOURCES / "library.c")
    done = program.run(MVLD_SNAPSHOT=1, status=1)
    check("mvld: no snapshot: " in done.stderr and not done.stdout, done.stderr)


def aligned(program):
    """A library that wants more than page alignment, which is at another distance each time,
    keeps the others from being applied."""
    aligned = program.folder / "libaligned.so"
    support.compile_c(aligned, "-shared", "-fPIC", "-Wl,-z,max-page-size=0x10000", "-x", "c", "/dev/null",
                      plugin=False)
    program.make_program("-Wl,--no-as-needed", aligned)
    program.make_snapshot()
    places = set()
    for _ in range(6):
        done = program.applied()
        at = support.bases(done)
        places.add(at["libaligned.so"] - at["libanswer.so"])
        check(len(places) == 1 or "libaligned.so" not in from_snapshot(done), done.stderr)
    check(len(places) > 1 or support.GLIBC < (2, 35), "it is not at another distance each time")


def distances(done):
    """Of the executable's other objects, from it."""
    at = support.bases(done)
    return tuple(at[name] - at["program"] for name in ("libanswer.so", "libc.so.6", Path(support.HOST_LOADER).name))


def drawn(program):
    """Distances of a snapshot are those of the snapshot before, or not those of each start from it; those of
    a process that has none are the same each time; or they are drawn where the kernel
    draws nothing."""
    seen = set()
    for _ in range(6):
        program.make_snapshot()
        applied = {distances(program.applied()) for _ in range(4)}
        check(len(applied) == 1, f"starts from one snapshot: {applied}")
        seen |= applied
    check(len(seen) == 6, f"images have distances of other images: {seen}")
    shutil.rmtree(program.cache)
    check(len({distances(program.run()) for _ in range(6)}) == 6, "without a snapshot")
    seen = {distances(program.run(keys="on-miss = build\n")) for _ in range(6) if not shutil.rmtree(program.cache, True)}
    check(len(seen) == 6, f"with on-miss = build: {seen}")
    shutil.rmtree(program.cache)
    done = program.run(keys="on-miss = build\n", LD_BIND_NOT=1)
    check(not list(program.cache.glob("mvld/snapshots/*")), "where calls are watched no snapshot is made: " + done.stderr)
    fixed = {"prefix": ["setarch", "-R"]}
    if support.run(["setarch", "-R", "true"]).returncode:
        support.skip("personalities are not to be had")
    for make in program.run, program.make_snapshot, program.run:
        make(**fixed)
        check(len({distances(program.run(**fixed)) for _ in range(3)}) == 1, "drawn under setarch -R")
    program.applied(**fixed)


def drawn_beside(program):
    """A user's image, tried when root's does not fit, has other distances than root's and never fits;
    or root makes a new one with distances of the old."""
    inside = {"prefix": [*support.PRIVATE_MOUNTS, "sh", "-c",
                         'mount -t tmpfs -o mode=755 none /var/cache && mkdir -p /var/cache/mvld/snapshots && '
                         f'mount --bind {program.folder}/roots /var/cache/mvld/snapshots && exec "$@"', "sh"]}
    (program.folder / "roots").mkdir()
    if not support.may_mount() or support.run([*inside["prefix"], "true"]).returncode:
        support.skip("a mount of its own is not to be had")
    program.make_snapshot()
    first = distances(program.applied())
    (program.folder / "roots").rmdir()
    (program.cache / "mvld" / "snapshots").rename(program.folder / "roots")
    program.applied(**inside)
    program.flag.touch()
    program.refused("a call leads elsewhere", expected="2 1\n", **inside)
    older = program.make_snapshot()  # by who has not seen root's
    program.refused("root's is tried first and has other distances", expected="2 1\n", **inside)
    check(older == program.make_snapshot(**inside), "another start's")
    for _ in range(4):
        done = program.applied(expected="2 1\n", **inside)
        check(any(path.startswith(f"{program.cache}/") for path, _ in support.mapped_files(done)), done.stderr)
    program.flag.unlink()
    check(distances(program.applied(**inside)) == first, "root's has other distances")


start(globals())
