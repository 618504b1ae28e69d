#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""observe.py BEHAVIOUR: what debuggers, profilers and unwinders see of a program whose code
was committed, or whose libraries wait for their constructors under mvld (observe/).

Each function below is one test; its text says what a failure means.
"""
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402

SOURCES = HERE / "observe"
VARIANT = "spin.multiverse.fast_1"
METHODS = "mprotect", "remap", "selfmem"


class Program:
    def __init__(self, folder):
        support.need(LOADER, support.PLUGIN, support.LIBRARY)
        self.folder = folder
        self.path = folder / "observed"
        support.take(folder, "loader/start/observe", "observed")

    def environment(self, path=None, passes="multiverse", method="auto", manual=True):
        config = self.folder / "config"
        config.write_text(f"[app]\nmatch = {path or self.path}\npasses = {passes}\n"
                          f"patch = {method}\n" + "[multiverse]\ncommit = manual\n" * manual)
        return support.clean_environment(MVLD_CONFIG=config, MVLD_PASS_PATH=support.LIBRARY.parent)

    def start(self, **options):
        """The program after its commit, calling."""
        process = subprocess.Popen([self.path, "wait"], stdout=subprocess.PIPE, text=True,
                                   stdin=subprocess.DEVNULL, env=self.environment(**options))
        check(process.stdout.readline() == "ready\n", "it did not start")
        return process


def gdb(*words, env=None):
    if not shutil.which("gdb"):
        support.skip("gdb is missing")
    command = ["gdb", "-q", "-nx", "-batch", "-ex", "set debuginfod enabled off",
               "-ex", "set breakpoint pending on"]
    done = subprocess.run([*command, *map(str, words)], env=env or support.clean_environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)
    text = done.stdout + done.stderr
    if "Operation not permitted" in text:
        support.skip("ptrace is not permitted here")
    return text


def commands(*lines):
    return [word for line in lines for word in ("-ex", line)]


def frames(text):
    """The functions of the backtraces in it, outwards."""
    return re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w.]+) \(", text, re.M)


def says(text, *patterns):
    at = 0
    for pattern in patterns:
        found = re.compile(pattern, re.M).search(text, at)
        check(found, f"{pattern} is not, or not there, in\n{text}")
        at = found.end()


# By its debug information a variant is its function; the symbol tells which one.
WHERE = "info symbol $pc", "disassemble caller", f"info address {VARIANT}"


def in_variant(text):
    """It stands in the variant, which is what main's call of `caller` calls."""
    called = re.search(r"call +0x([0-9a-f]+)", text)
    address = re.search(rf'Symbol "{re.escape(VARIANT)}" is at 0x([0-9a-f]+)', text)
    check(f"{VARIANT} " in text and called and address and int(called[1], 16) == int(address[1], 16) and
          frames(text)[-3:] == ["spin", "caller", "main"], text)


def variant(program):
    """gdb does not stop in a variant whose call site was patched, does not know where it is
    called from, does not step in it or back out, or shows old code."""
    for method in METHODS:
        text = gdb(*commands(f"break {VARIANT}", "run", "backtrace", *WHERE, "next", "finish", "step",
                             "delete", "continue"), program.path,
                   env=program.environment(method=method))
        says(text, r"Breakpoint 1, spin \(n=2\)", r"^caller \(n", "sink 306", "exited normally")
        in_variant(text)


def call_line():
    return 1 + (SOURCES / "main.c").read_text().splitlines().index("    spin(n); /* the call site */")


def step(program):
    """`step` at a patched call site does not enter the variant."""
    text = gdb(*commands(f"break main.c:{call_line()}", "run", "step", "backtrace", *WHERE, "delete", "continue"),
               program.path, env=program.environment())
    says(text, "Breakpoint 1, caller", r"^spin \(n=2\)", "sink 306")
    in_variant(text)


def breakpoint(program):
    """A breakpoint on a call site, or in the page of one, is lost in a commit, or makes the
    program call something else."""
    line = call_line()
    site = gdb(*commands("disassemble caller"), program.path)
    address = re.search(r"(0x[0-9a-f]+) <\+\d+>:\s+call", site)
    check(address, site)
    for method in METHODS:
        text = gdb(*commands("break main", "run", f"break {line}",
                             f"break *((char *)&caller + {int(address[1], 16)} - "
                             f"{int(re.search(r'(0x[0-9a-f]+) <.0>:', site)[1], 16)})", "continue",
                             "delete", "continue"), program.path,
                   env=program.environment(method=method))
        says(text, r"Breakpoint [23]", "sink 306", "exited normally")


def detach(program):
    """gdb does not know the libraries of a running program, or where it is, or the program is
    not sound afterwards."""
    process = program.start()
    text = gdb(*commands("info sharedlibrary", f"break {VARIANT}", "continue", "backtrace", *WHERE,
                         "delete", "set var sink = 1000000", "detach"), "-p", process.pid)
    says(text, "libmultiverse.so.1", r"Breakpoint 1, spin \(n=2\)", "Inferior 1 .*detached")
    check("libc.so.6" in text, text)
    in_variant(text)
    out = process.communicate(timeout=30)[0]
    check(process.returncode == 0 and re.match(r"sink 1000\d\d\d$", out), f"{process.returncode} {out}")


def core(program):
    """A core file does not tell the libraries, or in which variant the program was."""
    path = program.folder / "core"
    text = gdb(*commands(f"break {VARIANT}", "run", f"generate-core-file {path}", "kill"),
               program.path, env=program.environment())
    check(path.exists(), text)
    text = gdb(*commands("info sharedlibrary", "backtrace", *WHERE), program.path, path)
    check("libc.so.6" in text and "libmultiverse.so.1" in text, text)
    in_variant(text)


def perf(program):
    """Samples in a variant, or in code of a page that was patched, have no name."""
    support.need_perf()
    for method in METHODS:
        data = program.folder / "perf.data"
        done = subprocess.run(["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "500", "-g", "-o", data,
                               program.path, "run"], env=program.environment(method=method),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(not done.returncode, done.stderr)
        report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none",
                                 "-F", "overhead,dso,sym"], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=60).stdout
        share = re.search(rf"([0-9.]+)% +observed +\[\.\] {re.escape(VARIANT)}", report)
        check(share and float(share[1]) > 80, f"{method}:\n{report}")


def mappings(program):
    """Code runs, after commits by any method, that is in no file: perf and gdb have no names
    for it, and would need a map of it (/tmp/perf-PID.map, the JIT interface)."""
    for method in METHODS:
        process = program.start(method=method)
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        process.kill()
        process.wait()
        code = [line.split(None, 5) for line in maps if "x" in line.split()[1]]
        unnamed = [line for line in code if len(line) < 6 and line[2] == "00000000"]
        own = [line for line in code if len(line) == 6 and line[5] == str(program.path)]
        check(own and all("w" not in line[1] for line in code), "\n".join(maps))
        # The two pages are no code: where the patch engine and the heap try their rights out.
        check(len(unnamed) <= 1, f"{method}: {unnamed}\n" + "\n".join(maps))


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def unwinding(program):
    """An exception, a cancellation or a backtrace in a constructor of a dlopen does not pass
    through the host loader as it does without mvld."""
    if not shutil.which("g++"):
        support.skip("g++ is missing")
    compiler = support.CC.replace("gcc", "g++")
    library = program.folder / "constructor.so"
    command = [compiler, "-g", "-O1", "-Wall", "-Wextra", "-rdynamic", "-pthread"]
    subprocess.run([*command, "-shared", "-fPIC", "-o", library, SOURCES / "constructor.cc"], check=True)
    results = []
    for loader in HOST_LOADER, LOADER:
        path = program.folder / "unwind"
        subprocess.run([*command, "-o", path, SOURCES / "unwind.cc",
                        f"-Wl,--dynamic-linker={loader}"], check=True)
        for how in "throw", "cancel", "inside":
            done = subprocess.run([path, library, how], env=program.environment(path, manual=False),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=30, preexec_fn=no_core)
            results.append((done.returncode, done.stdout, done.stderr))
    # glibc 2.36 ends a process whose exception wants to leave dlopen.
    check(results[:3] == results[3:] and all("dlopen" in out for _, out, _ in results) and
          results[2][0] == 0 and "caught inside" in results[2][1], "\n".join(map(str, results)))


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


if __name__ == "__main__":
    main()
