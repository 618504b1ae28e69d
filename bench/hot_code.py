# SPDX-License-Identifier: MIT
"""hot_code.py [--sizes MB,...] [--rounds N] [--scatter N] [--record SECONDS] [--option PASS.OPTION=VALUE]...: a
program with much hot code, in several libraries, under the host loader, direct-calls, and concat.

The program is made up: functions of some 300 bytes in eight libraries, in random order.  A pass
over it runs every function once: main calls the first, each of which calls eight, each of which
calls eight more, all drawn from all libraries.  Nothing is run again before everything else
was, so a cache or TLB that is smaller than the code is of little use.  Two kinds:

    direct     calls by name: through the PLT of the caller
    pointers   calls through tables of functions, as virtual methods are

With --scatter, behind each function lie N of the same size that nobody calls, as code that is hot
lies among code that is not; concat is also asked to gather the hot ones by a profile, which names all of
them in the order in which they run.  With --record it is what `mvld profile` makes of a recording of
so many seconds instead.  Where the hot ones take 8 MB, such a way has huge pages without being asked
(PROFILE_WAYS), and so there is one that asks for small ones.

The figure is nanoseconds of CPU time a function, the first quartile of short runs: disturbances
only add.  --option adds ways: concat with this option, in
process and from a snapshot, and the latter once more with an executable that is linked for
2 MB, whose snapshot can be mapped in huge pages.  What the loader says of huge pages stands before
the figures.
"""
import argparse
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
from programs import HOST, MVLD, WAYS, Programs, option_ways  # noqa: E402
from report import progress, spreads  # noqa: E402

LIBRARIES = 8
CALLS = 8  # of a function that calls
BYTES = 300
# One step is some 16 bytes: so many make a function that calls none, and one that calls CALLS.
STEPS = {"direct": (17, 12), "pointers": (17, 10)}
END = '.section .note.GNU-stack, "", @progbits\n'
OPTION_WAYS, PROFILE_WAYS = [], {"concat, profile": [], "concat, profile, small pages": ["concat.pages=small"]}
SECONDS = 0.1  # of CPU time that each run takes at least: short, so that many are not disturbed (steady.py)

MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <time.h>
{declarations}
static double now(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}}
static unsigned pass(unsigned x)
{{
{calls}
    return x;
}}
/* Prints nanoseconds a function and, of the first {checked} passes, the result. */
int main(int argc, char **argv)
{{
    double seconds = argc > 1 ? atof(argv[1]) : 0.1, start;
    unsigned x = 1, passes = 0;
    for (int i = 0; i < {checked}; i++)
        x = pass(x);
    unsigned result = x;
    for (start = now(); now() - start < seconds; passes++)
        x = pass(x);
    printf("%.3f %u %u\\n", (now() - start) * 1e9 / ((double)passes * {n}), result, x == 7);
    return 0;
}}
"""


def function(draw, i, callees, kind):
    """f<i>(unsigned): what it is given, stirred with constants and with what the callees return.
    In assembler, because 100,000 functions of C keep a compiler busy for minutes."""
    lines = [f"f{i}:", ".cfi_startproc",
             "push %rbx", ".cfi_def_cfa_offset 16", ".cfi_offset %rbx, -16",
             "mov %edi, %ebx", "lea 1(%rdi), %eax", "lea 5(%rdi), %ecx", "mov %edi, %edx"]
    for k in range(STEPS[kind][bool(callees)]):
        a, b = draw.sample(("%ebx", "%eax", "%ecx", "%edx"), 2)
        lines += [f"add {b}, {a}", f"xor ${draw.getrandbits(30) | 2**29}, {b}",
                  f"rol ${draw.randint(2, 9)}, {a}", f"add ${draw.getrandbits(30) | 2**29}, {b}"]
        if k < len(callees):
            lines += ["mov %ebx, %edi", *CALL[kind](i, k, callees[k]), "add %eax, %ebx"]
    return [*lines, "add %ebx, %eax", "pop %rbx", ".cfi_def_cfa_offset 8", "ret", ".cfi_endproc",
            f".globl f{i}", f".type f{i}, @function", f".size f{i}, . - f{i}", ".p2align 4"]


CALL = {"direct": lambda i, k, callee: [f"call f{callee}@PLT"],
        "pointers": lambda i, k, callee: [f"lea table{i}(%rip), %rax", f"call *{8 * k}(%rax)"]}


def table(i, callees):
    return ['.section .data.rel.ro, "aw"', f"table{i}:",
            *(f".quad f{callee}" for callee in callees), ".text"]


def sources(folder, megabytes, kind, scatter, seed=1):
    """Writes main.c, the libraries' part<k>.s, and the profile; the number of functions."""
    draw = random.Random(seed)
    first = max(1, megabytes * 2**20 // (BYTES * (1 + CALLS + CALLS * CALLS)))
    n = first * (1 + CALLS + CALLS * CALLS)
    # 0 to first - 1: called by main; then what those call; then what these call.
    second = first * (1 + CALLS)
    order = [*draw.sample(range(first), first), *draw.sample(range(first, second), second - first),
             *draw.sample(range(second, n), n - second)]
    parts = [[".text"] for _ in range(LIBRARIES)]
    profile = [""] * n
    for i in draw.sample(range(n), n):
        callees = order[first + i * CALLS:first + (i + 1) * CALLS] if i < second else []
        k = draw.randrange(LIBRARIES)
        part = parts[k]
        profile[i] = f"libhot{k}.so f{i}\n"
        if kind == "pointers" and callees:
            part += table(i, callees)
        part += function(draw, i, callees, kind)
        for cold in range(scatter):
            part += function(draw, f"{i}cold{cold}", [], kind)
    for k, part in enumerate(parts):
        (folder / f"part{k}.s").write_text("\n".join([*part, END]))
    (folder / "profile").write_text("".join(profile))
    declarations = [f"unsigned f{i}(unsigned);" for i in range(first)]
    call = "f{0}"
    if kind == "pointers":
        entries = ", ".join(f"f{i}" for i in range(first))
        declarations.append(f"unsigned (*table[])(unsigned) = {{{entries}}};")
        call = "table[{0}]"
    calls = [f"    x ^= {call.format(i)}(x);" for i in order[:first]]
    (folder / "main.c").write_text(MAIN.format(declarations="\n".join(declarations), n=n, checked=3,
                                               calls="\n".join(calls)))
    return n


def compile_parts(folder):
    """folder/hot, and its libraries beside it."""
    flags = ["-O2", "-Wl,-z,now"]

    def library(k):
        subprocess.run([support.CC, *flags, "-shared", "-o", folder / f"libhot{k}.so",
                        folder / f"part{k}.s"], check=True, timeout=900)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(library, range(LIBRARIES)))
    libraries = [folder / f"libhot{k}.so" for k in range(LIBRARIES)]
    for name, more in (("hot", []), ("hot-2mb", ["-Wl,-z,max-page-size=0x200000"])):
        subprocess.run([support.CC, *flags, *more, "-fPIE", "-pie", "-o", folder / name,
                        folder / "main.c", *libraries, f"-Wl,-rpath,{folder}"], check=True,
                       timeout=300)
    text = sum(text_size(path) for path in libraries)
    for k in range(LIBRARIES):
        (folder / f"part{k}.s").unlink()
    return text


def text_size(path):
    out = subprocess.run(["size", "-A", path], check=True, capture_output=True, text=True).stdout
    return next(int(line.split()[1]) for line in out.splitlines() if line.startswith(".text"))


def say_huge_pages(programs, name):
    """What the loader says of them, in each way that asks for them or may have them."""
    for way in programs.ways(name):
        if "pages=" in way or "profile" in way:
            log = programs.quick(name, way, MVLD_DEBUG="passes").stderr
            for said in re.findall(r"huge pages: .*|\d+ hot functions|hot functions take .*", log):
                progress(f"{name}, {way}: {said}")


def record(folder, seconds):
    """The profile of a run, in the place of the one that was made up."""
    data = folder / "perf.data"
    done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "20000", "-o", data, folder / "hot",
                           str(seconds)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    support.check(done.returncode == 0, f"perf cannot record: {done.stderr}")
    done = subprocess.run([MVLD, "profile", data], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600)
    support.check(done.returncode == 0, done.stderr)
    (folder / "profile").write_text(done.stdout)
    progress("the profile: " + done.stdout.splitlines()[0])
    data.unlink()


RESULTS = set()  # of one program's runs


def once(job):
    """Nanoseconds a function; the results must be those of all other runs."""
    command, env = job
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)
    support.check(done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stderr}")
    time, result, _ = done.stdout.split()
    RESULTS.add(result)
    support.check(len(RESULTS) == 1, f"{command[0]}: other results than before")
    return float(time)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1,4,8,16,32", help="MB of code")
    parser.add_argument("--kinds", default=",".join(STEPS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scatter", type=int, default=0, help="cold functions beside each hot one")
    parser.add_argument("--record", type=float, metavar="SECONDS", default=0)
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    for option in arguments.option:
        WAYS.update(option_ways(option))
        OPTION_WAYS.extend(option_ways(option))
    for megabytes in map(int, arguments.sizes.split(",")):
        for kind in arguments.kinds.split(","):
            with support.scratch_folder() as folder:
                prepare(folder, megabytes, kind, arguments.scatter, arguments.record)
                measure(jobs_of(folder), f"{kind}, {megabytes} MB", arguments.rounds)


def prepare(folder, megabytes, kind, scatter, seconds):
    """The programs, and the ways by profile."""
    progress(f"{kind}, {megabytes} MB: compiling")
    (folder / "made").mkdir()
    n = sources(folder / "made", megabytes, kind, scatter)
    text = compile_parts(folder / "made")
    progress(f"{kind}: {n} functions among {text / 2**20:.1f} MB")
    if seconds:
        record(folder / "made", seconds)
    for way, options in PROFILE_WAYS.items() if scatter or seconds else ():
        for snapshot in False, True:
            WAYS[way + ", snapshot" * snapshot] = (
                "direct-calls, concat", snapshot, "concat.order=profile",
                f"concat.profile={folder / 'made' / 'profile'}", *options)


def jobs_of(folder):
    programs = Programs(folder, ["hot"])
    say_huge_pages(programs, "hot")
    jobs = programs.jobs("hot", [str(SECONDS)])
    ways = [way for way in WAYS if WAYS[way][1] and (way in OPTION_WAYS or way == "concat, profile, snapshot")]
    if ways:
        programs = Programs(folder, ["hot-2mb"], ways)
        say_huge_pages(programs, "hot-2mb")
        jobs |= {f"{way}, linked for 2 MB": job
                 for way, job in programs.jobs("hot-2mb", [str(SECONDS)]).items() if way != HOST}
    return jobs


def measure(jobs, what, rounds):
    RESULTS.clear()
    values = {way: spread.low for way, spread in spreads(jobs, rounds, once).items()}
    for way, value in values.items():
        print(f"result: {what}, {way} | {value:.2f} | ns a function | "
              f"{100 * (value / values[HOST] - 1):+.1f} %", flush=True)


if __name__ == "__main__":
    main()
