#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""identity_debug.py BEHAVIOUR: what is seen from outside of a program whose code was changed or
moved (observed.c), by gdb, valgrind and perf.

Each function below is one test; its text says what a failure means.
"""
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "loader" / "start"), str(HERE.parent / "conformance")]
import behaviours  # noqa: E402
import identity  # noqa: E402
import support  # noqa: E402
from observe import commands, gdb, says  # noqa: E402
from support import check  # noqa: E402

SOURCE = HERE / "observed.c"
# Outwards, from the handler that waits; between them what libc calls its own, in other words in
# each build of it.
STACK = ["handler", "<signal handler called>", "raise", "compare", "qsort", "in_library", "main"]

PASSED = "handle SIGUSR1 nostop noprint pass"


class Observed(identity.Bench):
    perf_map = False

    def __init__(self, folder):
        os.environ["CPATH"] = str(SOURCE.parent)
        behaviours.build(folder, SOURCE, behaviours.directives(SOURCE)["build"])
        super().__init__(folder)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(support.LOADER)
        self.path = folder / "program"

    def environment(self, passes, where=None):
        """`where` the code has to run instead of the pipeline's own place."""
        env = {**self.configure(passes), "LD_LIBRARY_PATH": str(self.folder)}
        if "concat" in passes:
            env["MVLD_TUNABLES"] = "concat.perf-map=yes" if self.perf_map else ""
        if where:
            env["IDENTITY"] = where
        return support.clean_environment(**env)

    def run(self, words, passes, where=None, **options):
        return subprocess.run([*map(str, words)], env=self.environment(passes, where), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              cwd=self.folder, **options)


def names(text):
    """The functions of a backtrace, the kernel's frame included."""
    return re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(<signal handler called>|[\w.@]+)", text,
                      re.M)


def whole(text):
    """Every function of the stack is named, in this order."""
    found, at = names(text), 0
    for name in STACK:
        rest = [i for i, word in enumerate(found[at:], at) if name in word]
        check(rest, f"{name} is not, or not there, among {found} in\n{text}")
        at = rest[0] + 1


def run(program, passes):
    """A program that gdb starts does not run as without it: breakpoints are missed, stacks have no names, steps end elsewhere."""
    text = gdb(*commands(PASSED, "break later", "run", "backtrace", "finish", "delete",
                         "break in_library", "continue"),
               program.path, env=program.environment(passes, "original"))
    says(text, r"Breakpoint 1, later \(n=(n@entry=)?0\)", r"^#1 .* main ", "exited normally")
    text = gdb(*commands(PASSED, "break handler", "run", "backtrace", "up 3", "continue"),
               program.path, env=program.environment(passes, "original"))
    whole(text)
    says(text, "exited normally")


def attach(program, passes):
    """gdb has no names for a running program, does not find its functions, or leaves it broken."""
    process = subprocess.Popen([program.path, "wait"], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               env=program.environment(passes))
    if process.stdout.readline() != "ready\n":
        sys.exit(f"FAILED: it did not start: {process.stderr.read()}")
    text = gdb(*commands("backtrace", "break later", "set var go_on = 1", "continue", "backtrace",
                         "finish", "delete", "detach"), "-p", process.pid)
    out, err = process.communicate(timeout=60)
    check((process.returncode, out) == (0, "found 6\n"), f"{process.returncode} {out}{err}\n{text}")
    whole(text)
    says(text, r"^Breakpoint 1(\.\d+)?, .*later", "^#0 .*later", "^#1 .*main", "detached")


def core(program, passes):
    """The core file of a crash does not tell where the program was."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if not re.fullmatch(r"core(\.%p)?", pattern):
        support.skip(f"core files go to {pattern}")

    def limit():
        most = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    done = program.run([program.path, "abort"], passes, preexec_fn=limit)
    check(done.returncode == -6, f"{done.returncode} {done.stderr}")
    cores = list(program.folder.glob("core*"))
    if not cores:
        support.skip("the kernel writes no core file")
    text = gdb(*commands("backtrace", "info sharedlibrary"), program.path, cores[0])
    for path in cores:
        path.unlink()
    whole(text)
    check("libobserved.so" in text, text)


def valgrind(program, passes):
    """Under valgrind, which translates code itself, something else happens, or errors are
    reported that are none."""
    if not shutil.which("valgrind"):
        support.skip("valgrind is missing")
    done = program.run(["valgrind", "-q", "--error-exitcode=9", program.path], passes, "original")
    check((done.returncode, done.stdout) == (0, "found 6\n"), f"{done.stdout}{done.stderr}")


def perf(program, passes):
    """Samples have no names. In moved code they come from a map that the pass writes when it is asked
    to."""
    support.need_perf()
    data = program.folder / "perf.data"
    program.perf_map = True
    maps = set(Path("/tmp").glob("perf-*.map"))
    done = program.run(["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "500", "-o", data,
                        program.path, "spin"], passes)
    check("does not run" not in done.stderr, done.stderr)
    check(not done.returncode, done.stderr)
    report = program.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-F",
                          "overhead,sym"], []).stdout
    for path in set(Path("/tmp").glob("perf-*.map")) - maps:
        if b" spin\n" in path.read_bytes():
            path.unlink()
    share = re.search(r"([0-9.]+)% +\[\.\] spin", report)
    check(share and float(share[1]) > 80, report)


def main():
    support.need(support.LOADER)
    with support.scratch_folder() as folder:
        program = Observed(folder)
        for passes in identity.pipelines():
            print(", ".join(passes), flush=True)
            globals()[sys.argv[1]](program, passes)


main()
