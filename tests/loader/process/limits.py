#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""limits.py BEHAVIOUR: the program of faults/ where the system gives less and less, with the
multiverse pass and without; under the same limit the plain loader is the expectation.

A program may need a little more under mvld.  Where it does not get that, it says one
sentence before it starts, or it is short of something itself and says so as it does under
the plain loader.  Each function below is one test; its text says what a failure means.
"""
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]
import faults  # noqa: E402
import support  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402

OUTPUT = "constructor\nmain\nend\n"
SHORT = 3  # the program's status when it gets no thread


class Programs:
    def __init__(self, folder):
        self.folder = folder
        faults.build_libraries(folder)
        self.plain = faults.build_program(folder / "plain", HOST_LOADER)
        self.mvld = faults.build_program(folder / "mvld", LOADER)
        config = folder / "config"
        config.write_text(f"[app]\nmatch = {self.mvld}\npasses = multiverse\n")
        self.configured = {"MVLD_CONFIG": config, "MVLD_PASS_PATH": support.LIBRARY.parent}

    def run(self, program, *words, prefix=(), limits=(), environment=None):
        def confine():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
        done = subprocess.run([*prefix, program, self.folder / "liblate.so", *words], text=True,
                              env=support.clean_environment(**environment or {}), timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=confine)
        return done.returncode, done.stdout, done.stderr.replace(str(program), "PROGRAM")

    def both(self, *words, **options):
        """What mvld does without and with the pass, and what the plain loader does."""
        return [self.run(self.mvld, *words, environment=environment, **options)
                for environment in ({}, self.configured)], self.run(self.plain, *words, **options)


def is_sentence(result):
    status, out, err = result
    return status == 127 and not out and err.count("\n") == 1


def without_preloading(result):
    """The output without the host loader's sentence about the pass's library, for which there is no memory."""
    status, out, err = result
    return status, out, re.sub(r"^ERROR: ld\.so: object '\S*/libmultiverse\.so\.1' from LD_PRELOAD "
                               r"cannot be preloaded .*\n", "", err)


def sweep(programs, kind, values):
    """The limits at which the program crashes, without the pass and with it."""
    works, crashes = 0, ([], [])
    for value in values:
        results, plain = programs.both("threads", limits=[(kind, value)])
        for result, crashed in zip(results, crashes):
            short = result == (SHORT, "constructor\nmain\n", "")
            works += result == (0, OUTPUT, "")
            if result[0] == -11:
                crashed.append(value)
            check(without_preloading(result) == plain or result == (0, OUTPUT, "") or short or is_sentence(result) or
                  result[0] == -11, f"limit {value}: {result}, and the plain loader: {plain}")
    check(works, "it never ran")
    return crashes


def descriptors(programs):
    """With few descriptors a program crashes, or its calls disagree."""
    crashes = sweep(programs, resource.RLIMIT_NOFILE, range(0, 12))
    check(crashes == ([], []), f"crashes at {crashes}")


def address_space(programs):
    """With little address space a program crashes, or its calls disagree."""
    for crashes in sweep(programs, resource.RLIMIT_AS, range(1 << 20, 14 << 20, 96 << 10)):
        # glibc's loader crashes where the first 8 KiB of its own heap do not fit, which one limit may meet:
        # the fault "plain" of faults.py is answered in the same way without us.
        check(len(crashes) <= 1, f"crashes at {crashes}")


def little_space(programs):
    """Passes take address space that the program then lacks for what it opens."""
    least = []
    for environment in {}, programs.configured:
        value = 1 << 20
        while value < 16 << 20 and programs.run(programs.mvld, limits=[(resource.RLIMIT_AS, value)],
                                                environment=environment) != (0, OUTPUT, ""):
            value += 16 << 10
        least.append(value)
    check(least[0] < 7 << 20 and abs(least[1] - least[0]) <= 64 << 10,
          f"{least[0]} without the pass, {least[1]} with it")


def data(programs):
    """With a small limit on data, a program without a configuration crashes that ends with a sentence under the plain loader."""
    for environment in {}, {"MVLD": "off"}:
        crashes = []
        for value in range(0, 256 << 10, 8 << 10):
            limits = [(resource.RLIMIT_DATA, value)]
            plain = programs.run(programs.plain, "threads", limits=limits)
            got = programs.run(programs.mvld, "threads", limits=limits, environment=environment)
            check(got == plain or is_sentence(got) or got[0] == -11, f"limit {value}: {got}, {plain}")
            if got[0] != plain[0] == 127 and got[0] == -11:
                crashes.append(value)
        check(len(crashes) <= 1, f"crashes at {crashes}")  # glibc's own, as in sweep()


def locked(programs):
    """Where no memory may be locked a program does something else."""
    results, plain = programs.both("threads", limits=[(resource.RLIMIT_MEMLOCK, 0)])
    check(plain == (0, OUTPUT, "") and results == [plain, plain], f"{results} {plain}")


def used_up(programs):
    """What a running program has used up, descriptors, mappings, memory, makes commits and
    reverts crash, hang, or change half of what they should."""
    for words in (["files"], ["maps"], ["memory"], ["threads", "files"], ["threads", "maps"],
                  ["threads", "memory"]):
        results, plain = programs.both(*words)
        check(plain == (0, OUTPUT, "") and results == [plain, plain], f"{words} {results} {plain}")


def sandbox(programs):
    """Where code may not be changed, or /proc is not mounted, commits and reverts crash or change
    half of what they should."""
    confine = programs.folder / "confine"
    support.take(programs.folder, "loader/start/programs", confine.name)
    prefixes = [[confine, how, "--"] for how in ("mdwe", "no-exec", "no-memfile")]
    prefixes.append([confine, "no-exec", "no-memfile", "--"])
    if os.geteuid() == 0:
        prefixes.append(["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
                         'mount -t tmpfs none /proc && exec "$@"', "sh"])
    tried = 0
    for prefix in prefixes:
        for words in [], ["threads"]:
            results, plain = programs.both(*words, prefix=prefix)
            if plain[0] != 0:
                continue  # not permitted here
            tried += 1
            check(results == [plain, plain], f"{prefix} {words} {results} {plain}")
    if not tried:
        support.skip("no restriction can be set here")


def main():
    support.need(LOADER, support.PLUGIN, support.LIBRARY)
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Programs(folder))


main()
