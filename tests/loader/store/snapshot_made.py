#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot_made.py BEHAVIOUR: what makes a snapshot, of what, and when one is made anew.

The answer must be 2 whenever the pass is asked for, applied or not; what differs is
what the log says.  Each function below is one test; its text says what a failure
means.
"""
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from probe import probe  # noqa: E402
from snapshots import SOURCES, start  # noqa: E402
from support import check, from_snapshot  # noqa: E402

PASS = ["-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only",
        "-fPIC", "-Wl,-Bsymbolic"]


def building_runs_nothing(program):
    """MVLD_SNAPSHOT let the program run, or left a snapshot that cannot be."""
    check(program.run(MVLD_SNAPSHOT=1).stdout.strip().startswith(str(program.cache)), "it ran")
    done = support.run([program.path], MVLD_SNAPSHOT=1, MVLD_PASS_PATH=program.passes, config="")
    check(done.returncode == 1 and not done.stdout and "no pass is configured" in done.stderr,
          f"without a pipeline: {done.returncode} {done.stdout}{done.stderr}")
    program.cache.rename(program.folder / "gone")
    program.cache.write_text("no folder")
    done = program.run(MVLD_SNAPSHOT=1, status=1)
    check(not done.stdout and "mvld: no snapshot: " in done.stderr, done.stdout + done.stderr)


def first_segments(program):
    """An overlay, of which only the text is mapped, has another segment first: elfutils finds no frames then."""
    program.run(MVLD_SNAPSHOT=1)
    overlays = [file for file in (program.cache / "mvld/snapshots").glob("*/[0-9]*-*")]
    check(overlays, "there is no overlay")
    for file in overlays:
        data = file.read_bytes()
        offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        segments = [struct.unpack_from("<II", data, offset + 56 * i) for i in range(count)]
        flags = [flags for kind, flags in segments if kind == 1]  # PT_LOAD
        check(flags[0] == 5, f"{file}: the first segment has flags {flags[0]}")
    program.applied()


def failure(program):
    """A snapshot that cannot be written takes files with it that are not its own."""
    there = sorted(program.folder.rglob("*"))
    for size in 0, 4096, 8192:
        done = program.run(MVLD_SNAPSHOT=1, status=1,
                           prefix=[sys.executable, "-c", "import os, resource, signal, sys; "
                                   "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); "
                                   "resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d)); "
                                   "os.execv(sys.argv[1], sys.argv[1:])" % (size, size)])
        check("mvld: no snapshot: " in done.stderr and not done.stdout, done.stdout + done.stderr)
        check(not list((program.cache / "mvld/snapshots").iterdir()), "half a snapshot stays")
    if support.may_mount():  # without /proc, who the program is is not known
        done = program.run(MVLD_SNAPSHOT=1, status=1, prefix=[
            *support.PRIVATE_MOUNTS, "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"])
        check("mvld: no snapshot: " in done.stderr, done.stderr)
    shutil.rmtree(program.cache)
    check(sorted(program.folder.rglob("*")) == there, "files are gone")


def foreign(program):
    """Something that the user made among the snapshots lets one build succeed and all later ones fail, makes one
    fail without a sentence that names it, or is removed though only the user knows what it is."""
    outside = program.folder / "outside"
    outside.mkdir()
    (outside / "manifest").write_text("mine")
    folder = program.make_snapshot()
    unfinished = folder.parent / ".new"
    kinds = [os.mkfifo, Path.touch, Path.mkdir, lambda path: path.symlink_to(outside),
             lambda path: path.symlink_to("nowhere")]
    for place in folder, unfinished:
        for make in kinds:
            shutil.rmtree(place, ignore_errors=True)
            make(place)
            program.make_snapshot()
            check(list(folder.parent.iterdir()) == [folder], f"more is there: {list(folder.parent.iterdir())}")
            program.applied()
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name in "notes", "manifest", "0-notes/mine":
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text("mine")
        before = sorted(folder.parent.rglob("*"))
        for _ in range(2):
            done = program.run(MVLD_SNAPSHOT=1, status=1)
            check(re.search(f"mvld: no snapshot: {re.escape(str(place))}: .*remove", done.stderr) and not done.stdout,
                  f"not said: {done.stdout}{done.stderr}")
            check(sorted(folder.parent.rglob("*")) == before, "it was changed")
        shutil.rmtree(place)
        program.make_snapshot()
        program.applied()
    lock = folder.parents[1] / "lock"
    for make in kinds[0], *kinds[2:4]:
        lock.unlink(missing_ok=True)
        make(lock)
        said = program.run(MVLD_SNAPSHOT=1, status=1).stderr
        check(re.search(f"mvld: no snapshot: {re.escape(str(lock))}: .*`lock' is no lock of mvld: remove it", said), f"the lock: {said}")
        lock.rmdir() if lock.is_dir() and not lock.is_symlink() else lock.unlink()
    check((outside / "manifest").read_text() == "mine", "what lies outside was changed")


def store_behind(program, folder):
    """A page of the library there is written, then a snapshot is made, then the page is written again."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    library = folder / "libanswer-2.so"
    shutil.copy(program.library, library)
    program.library.unlink()
    program.library.symlink_to(library)
    with open(library, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    at = mapping.find(b"\xb8\1\0\0\0\xc3") + 1  # answer
    check(at, "there is no such code")
    mapping[at] = 1
    time.sleep(0.05)
    done = program.run(MVLD_SNAPSHOT=1, status=None)
    if kind == "tmpfs":
        check(done.returncode == 1 and "libanswer.so: somebody has it open for writing, or mapped" in done.stderr,
              f"{done.returncode}: {done.stdout}{done.stderr}")
    elif not done.returncode:
        program.applied()
    mapping[at] = 3
    done = program.run()
    check(not from_snapshot(done), f"{kind}: the snapshot is of another state of the file: {done.stdout}")
    mapping[at] = 1
    mapping.close()
    time.sleep(0.05)
    program.make_snapshot()
    program.applied()


def written_through_a_mapping(program):
    """A snapshot is used with a library that was changed behind it, by a store into a page that was written and not
    yet written back, of which the file's times tell nothing."""
    store_behind(program, program.folder)
    shared = Path("/dev/shm")
    if os.access(shared, os.W_OK) and not os.statvfs(shared).f_flag & os.ST_NOEXEC:
        with tempfile.TemporaryDirectory(dir=shared) as folder:
            store_behind(program, Path(folder))


def probed(program):
    """A snapshot holds the breakpoint of a probe, for which every program that starts from it ends."""
    fd = probe(program.library, "here")
    if fd is None:
        support.skip("probes of the kernel are not to be had")
    done, written = program.writes(keys="on-miss = build\n")
    check(done.stdout == "2 0\n" and not written and "its code has breakpoints" in done.stderr, done.stdout + done.stderr)
    os.close(fd)
    program.make_snapshot()
    program.applied()


def noexec(program):
    """Where no code may be mapped from the cache, each start writes a snapshot that none can use."""
    if not support.may_mount():
        support.skip("a mount of its own is not to be had")
    program.cache.mkdir()
    done = program.run(keys="on-miss = build\n", prefix=[
        *support.PRIVATE_MOUNTS, "sh", "-c", f'mount -t tmpfs -o noexec,mode=755 none {program.cache} && "$@"; find {program.cache} -type f -size +0', "sh"])
    check(str(program.cache) not in done.stdout, f"it was written: {done.stdout}")


def none_found(program, images=None, **options):
    """There is no snapshot of such starts, and objects do not lie as in one of others."""
    done, written = program.writes(**options)
    check(done.stdout == "2 0\n" and not from_snapshot(done), done.stdout + done.stderr)
    if images is not None:
        check(not written and len(program.manifests()) == images, f"images: {program.manifests()}\n{done.stderr}")


def preloaded(program):
    """A start with LD_PRELOAD or --preload finds a snapshot of other starts, which does not fit, or drives it
    out; `mvld build` makes none for it; or each value leaves a snapshot, though nobody asked for one."""
    build, more = {"keys": "on-miss = build\n"}, [program.folder / f"more{i}.so" for i in range(3)]
    for path in more:
        support.compile_c(path, "-shared", "-fPIC", "-x", "c", "/dev/null", plugin=False)
    directly = {"prefix": [support.LOADER]}
    also = {"prefix": [support.LOADER, "--preload", more[0]]}
    folders = {program.make_snapshot(), program.make_snapshot(**directly)}
    for options in {"LD_PRELOAD": more[0]}, {"LD_PRELOAD": more[1]}, {"LD_PRELOAD": more[0], **directly}, also:
        none_found(program, **options)
        none_found(program, 2, **build, **options)
    program.applied(LD_PRELOAD="")  # says nothing
    ways = {"LD_PRELOAD": more[0]}, {"LD_PRELOAD": f"{more[0]}:{more[1]}"}, also, {"LD_PRELOAD": more[1], **also}
    folders |= {program.make_snapshot(**way) for way in ways}
    check(len(folders) == 6, f"these take each other's place: {folders}")
    for _ in range(2):
        for way in {}, directly, *ways:
            program.applied(**way)
        none_found(program, 6, **build, LD_PRELOAD=more[2])
        # Asked for once, it is renewed as any.
        program.make_library()
        support.age_images(program.cache)
        for way in {}, directly, *ways:
            check(program.writes(**build, **way)[1], f"{way} does not renew its snapshot")
    check(all((folder / "manifest").is_file() for folder in folders), "images are gone")


def on_miss(program):
    """`on-miss` is not followed."""
    done = program.run(keys="on-miss = plain\n")
    check(done.stdout == "1 0\n" and not program.manifests(), done.stdout + done.stderr)
    done, written = program.writes(keys="on-miss = build\n")
    check(done.stdout == "2 0\n" and written, done.stdout + done.stderr)
    said = re.search("snapshot: there is none: (.*)", done.stderr)
    check(said and (Path(said[1]) / "manifest").exists(), f"what is looked for is not said: {done.stderr}")
    program.applied(keys="on-miss = build\n")
    program.applied(keys="on-miss = plain\n")
    program.make_library()
    for renewed in False, True:  # the first is of this minute
        done, written = program.writes(keys="on-miss = build\n")
        check(done.stdout == "2 0\n" and written == renewed, done.stdout + done.stderr)
        support.age_images(program.cache)
    program.applied(keys="on-miss = build\n")
    check(len(list((program.cache / "mvld" / "snapshots").iterdir())) == 1, "the old snapshot stays")


def in_turn(program):
    """A program that is started in turn in two ways, which no one snapshot fits, writes one each time."""
    snapshot = 0
    for _ in range(4):
        for flag in program.flag.touch, program.flag.unlink:
            flag()
            done, written = program.writes(keys="on-miss = build\n")
            check(done.stdout in ("2 0\n", "2 1\n"), done.stdout + done.stderr)
            snapshot += written
    check(snapshot == 1, f"{snapshot} snapshots were written")


def limited_space(program):
    """Under RLIMIT_AS a library of the pass is left out: the snapshot of such starts and that of all
    others take each other's place."""
    support.compile_c(program.passes / "libmore.so", "-shared", "-fPIC", "-x", "c", "/dev/null", plugin=False)
    support.compile_c(program.passes / "answer.so", SOURCES / "pass.c", '-DLIBRARY="libmore.so"', *PASS,
                      plugin=False)
    limited = {"prefix": ["sh", "-c", 'ulimit -v 4000000 && exec "$@"', "sh"]}
    for options in {}, limited:
        done, written = program.writes(keys="on-miss = build\n", **options)
        check(done.stdout == "2 0\n" and written, done.stdout + done.stderr)
    for more in {}, {"MVLD_DEBUG": "files"}: # all passes are mapped at once, and only when needed
        for options in {}, limited, {}:
            support.age_images(program.cache)
            program.applied(keys="on-miss = build\n", **options, **more)
    images = program.cache / "mvld" / "snapshots"
    check(len(list(images.iterdir())) == 2, "there is another number of snapshots")
    # With very little the program has all of it.
    done = program.run(prefix=["sh", "-c", 'ulimit -v 7000 && exec "$@"', "sh"])
    check(done.stdout == "1 0\n" and not from_snapshot(done), done.stdout + done.stderr)
    # What takes little space is there in either.
    shutil.rmtree(program.cache)
    support.take(program.passes, "loader/store/snapshot", "answer.so")
    program.run(keys="on-miss = build\n")
    program.applied(**limited)


def together(program):
    """Two builders at once leave half a snapshot, or a program in between is wrong."""
    environment = support.clean_environment(MVLD_PASS_PATH=program.passes,
                                            XDG_CACHE_HOME=program.cache)
    config = program.folder / "mvld.conf"
    config.write_text(f"[app]\nmatch = {program.path}\npasses = answer\n")
    environment["MVLD_CONFIG"] = str(config)
    running = [subprocess.Popen([program.path], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, **({"MVLD_SNAPSHOT": "1"} if i % 2 else {})))
               for i in range(60)]
    for i, process in enumerate(running):
        said = process.communicate(timeout=60)[0]
        check(i % 2 or said == "2 0\n", f"run {i}: status {process.returncode}, {said}")
    program.applied()


start(globals())
