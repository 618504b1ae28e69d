#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""faults.py DRIVER CASE [OPTION...]: every system call that our code makes fails in turn
(faults/driver.c), in whole programs under the built loader.

A failure means that a machine short of memory or descriptors, or a sandbox that forbids
a call, makes a program crash, hang, or compute something else than under the plain
loader.  With options of the driver it tries something else than the suite has time for:
`-f` and `-l -f` everything, `-k CALL -n ERROR` one run.
"""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "store")]
import snapshot_moved  # noqa: E402
import snapshots  # noqa: E402
import overlays  # noqa: E402
import support  # noqa: E402
from support import HOST_LOADER, LOADER  # noqa: E402

SOURCES = HERE / "faults"
PARTS = "integration/program"
PASS = support.LIBRARY.parent / "multiverse.so"
CONFIG = "[app]\nmatch = {program}\n{passes}\n{more}"
MOVERS = [support.BUILD / "passes" / name for name in ("direct-calls/direct-calls.so", "concat/concat.so", "concat/libconcat.so.1")]


class Case:
    """Which loader, which configuration, which arguments."""

    def __init__(self, loader=LOADER, more="", arguments=("late",), passes=True, direct=False,
                 link=(), environment=None, short=True, moves=False):
        self.loader, self.more, self.arguments, self.passes = loader, more, arguments, passes
        self.direct, self.link, self.environment = direct, link, environment or {}
        self.moves = moves  # direct-calls and concat before multiverse
        self.short = short  # a run for each call, not for each call and error


LINKED = ["-L" + str(support.LIBRARY.parent), "-Wl,--no-as-needed", "-lmultiverse",
          "-Wl,-rpath," + str(support.LIBRARY.parent)]
CASES = {
    "plain": Case(passes=False, short=False),
    "pipeline": Case(short=False),
    "threads": Case(arguments=("late", "threads")),
    "selfmem": Case(more="patch = selfmem\n", arguments=("late", "threads")),
    "fixed": Case(link=["-no-pie"]),
    "moves": Case(more=support.COPY, moves=True),
    "direct": Case(loader=HOST_LOADER, direct=True),
    "filtered": Case(short=False),
    "debug": Case(environment={"MVLD_DEBUG": "all"}),
    "library": Case(loader=HOST_LOADER, passes=False, link=LINKED, arguments=("late", "threads")),
}


def build_libraries(folder):
    """The libraries of integration/program/."""
    support.take(folder, PARTS, "libpoints.so", "libcalls.so", "liblate.so")


def build_program(path, loader, *arguments):
    """What is linked with them."""
    if arguments:
        support.compile_c(path, SOURCES / "main.c", "-pthread", f"-Wl,--dynamic-linker={loader}",
                          "-L" + str(path.parent), "-Wl,-rpath,$ORIGIN", "-lcalls", "-lpoints", *arguments)
    else:
        support.take(path.parent, PARTS, f"{'faults' if loader == LOADER else 'faults-host'}={path.name}")
    return path


def build_snapshot(folder):
    """The program of store/snapshot/ and its snapshot; the environment in which it is applied."""
    made = snapshots.Program(folder)
    config = folder / "config"
    config.write_text(f"[app]\nmatch = {folder}/program\npasses = answer\n")
    environment = {"MVLD_PASS_PATH": made.passes, "MVLD_CONFIG": config, "XDG_CACHE_HOME": made.cache}
    done = subprocess.run([made.path], env=support.clean_environment(MVLD_SNAPSHOT=1, **environment),
                          capture_output=True, text=True, timeout=30)
    support.check(done.returncode == 0 and done.stdout.startswith(str(folder / "cache")), str(done))
    return environment


def snapshot(driver, folder, options):
    """A start from a snapshot: the pass's work is there, whole, or not at all.  And one that
    finds at the hook that the snapshot does not fit: then its code, which lies there, is taken away."""
    environment = support.clean_environment(**build_snapshot(folder))
    program, flag = folder / "program", folder / "flag"
    for refused, mode in [(refused, mode) for refused in (False, True)
                          for mode in ([options] if options else [[], ["-l"]])]:
        flag.touch() if refused else flag.unlink(missing_ok=True)
        done = subprocess.run([driver, "-j2", "-a", *mode, os.path.realpath(LOADER),
                               folder / "passes" / "answer.so", "--", program, "--",
                               os.path.realpath(HOST_LOADER), "--", os.path.realpath(HOST_LOADER), program],
                              env=environment)
        if done.returncode:
            sys.exit(done.returncode)


def snapshot_with_moved(driver, folder, options):
    """A start from a snapshot with moved code; the program says the same wherever it
    runs, and moves what comes later.  (Where libconcat cannot be mapped, the host loader says a
    line.)  It is preloaded in the plain run, too: then the host loader asks for the same memory, and
    where it crashes without (glibc 2.41: its table of thread-local modules), it does so in both.

    At last the host loader's own calls fail: it may then unmap a file that was mapped as in the snapshot, and
    go on without it."""
    made = snapshot_moved.Program(folder)
    made.make_snapshot()
    environment = support.clean_environment(**made.environment(MVLD_DEBUG=""))
    host = os.path.realpath(HOST_LOADER)
    ours = [os.path.realpath(LOADER), *made.passes.glob("*.so")]
    for mode, files in [(options, ours)] if options else [(["-1"], ours), (["-l"], ours), (["-1"], [host])]:
        # When mappings fail for good, nothing can be loaded, with mvld or without; what the host loader cannot
        # open, it does not.
        command = [made.path, *(["brief"] if "-l" in mode or files == [host] else ["no", made.later])]
        done = subprocess.run([driver, "-j2", "-e", *mode, *files, "--", *command, "--", host, "--",
                               f"LD_PRELOAD={made.passes / 'libconcat.so.1'}", host, *command],
                              env=environment)
        if done.returncode:
            sys.exit(done.returncode)


def overlays_of_modules(driver, folder, options):
    """A module whose code was learnt is opened: the program says the same wherever it comes to
    lie, and whatever of its code is applied."""
    made = overlays.Program(folder)
    made.train("open:one.so")
    environment = support.clean_environment(**made.environment(MVLD_DEBUG=""))
    host = os.path.realpath(HOST_LOADER)
    ours = [os.path.realpath(LOADER), *made.pass_folder.glob("*.so")]
    for mode in [options] if options else [["-1"], ["-l"]]:
        # When mappings fail for good, nothing can be loaded, with mvld or without.
        command = [made.path, *([] if "-l" in mode else made.words(["open:one.so"]))]
        done = subprocess.run([driver, "-j2", *mode, *ours, "--", *command, "--", host, "--", host, *command],
                              env=environment)
        if done.returncode:
            sys.exit(done.returncode)


def main():
    driver, name, *options = sys.argv[1:]
    if name == "snapshot-moved":
        with support.scratch_folder() as folder:
            snapshot_with_moved(driver, folder, options)
        return
    if name == "overlays":
        with support.scratch_folder() as folder:
            overlays_of_modules(driver, folder, options)
        return
    if name == "snapshot":
        with support.scratch_folder() as folder:
            snapshot(driver, folder, options)
        return
    case = CASES[name]
    support.need(LOADER, support.PLUGIN, PASS)
    with support.scratch_folder() as folder:
        build_libraries(folder)
        program = build_program(folder / "program", case.loader, *case.link)
        arguments = [str(folder / "liblate.so") if a == "late" else a for a in case.arguments]
        config = folder / "config"
        passes = support.MOVING if case.moves else "passes = multiverse"
        config.write_text(CONFIG.format(program=program, passes=passes, more=case.more))
        environment = dict(case.environment, MVLD_PASS_PATH=PASS.parent)
        if case.moves:
            environment.update(support.moving(folder, "--program", program, *folder.glob("*.so")))
        if case.passes:
            environment["MVLD_CONFIG"] = config
        host = os.path.realpath(HOST_LOADER)
        libraries = [MOVERS[-1]] * case.moves + [support.LIBRARY]
        preload = [f"LD_PRELOAD={':'.join(map(str, libraries))}"] if case.passes else []
        command = [LOADER] * case.direct + [program, *arguments]
        ours = [os.path.realpath(path) for path in (LOADER, PASS, support.LIBRARY, *MOVERS * case.moves)]
        for mode in [options] if options else [["-1"] * case.short, ["-l"]]:
            done = subprocess.run([driver, "-j2", *["-e"] * (name == "debug"),
                                   *["-F"] * (name == "filtered"), *mode, *ours, "--",
                                   *command, "--", host, "--", *preload, host, program,
                                   *arguments], env=support.clean_environment(**environment))
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
