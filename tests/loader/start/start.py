#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""start.py BEHAVIOUR: starting programs, with mvld as their interpreter and run
directly; what the host loader does alone is the expectation.

Each function below is one test; its text says what a failure means.
"""
import os
import re
import resource
import select
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from starts import NEUTRAL, SOURCES, WORLD, both, bring, execute, same, start  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402


def interpreter(programs):
    """A program sees by its environment that mvld started it."""
    both(programs)
    both(programs, env={"LD_PRELOAD": "libm.so.6"})


def non_pie(programs):
    """A program at fixed addresses does not start."""
    programs.plain = programs.build("fixed-p", HOST_LOADER, "-no-pie")
    programs.mvld = programs.build("fixed-m", LOADER, "-no-pie")
    names = [("fixed-p", "fixed"), ("fixed-m", "fixed")]
    strip = re.compile(r"^(arguments|/proc/self/cmdline):.*\n", re.M)
    runs = [execute([p, "all"]) for p in (programs.plain, programs.mvld)]
    for done in runs:
        done.stdout = strip.sub("", done.stdout)
    same(*runs, names)


def direct(programs):
    """An option of the host loader does something else, or nothing, under mvld."""
    missing = programs.folder / "missing"
    program = programs.plain
    host = programs.folder / "ld-host.so"  # it prints the name that it was started by
    shutil.copy(HOST_LOADER, host)
    for words in (["--help"], ["--version"], ["--list", program], ["--verify", program],
                  ["--verify", LOADER.parent.parent / "build.ninja"], ["--list-tunables"],
                  ["--library-path", programs.folder, program, "all"],
                  ["--inhibit-cache", program, "all"], ["--argv0", "other", program, "all"],
                  ["--preload", "libm.so.6", program, "all"], [program, "all", "--list"],
                  ["--inhibit-rpath", "", "/bin/sh", "-c", "echo $0 $#", "a", "b"],
                  ["--unknown", program], [missing], [], ["/bin/false"]):
        plain, mvld = execute([host, *words]), execute([LOADER, *words])
        # The whole command line is in the kernel's views of it; mvld says by its real
        # name what the host loader calls by the one that it was started with.
        for done in plain, mvld:
            done.stdout = re.sub(r"^(/proc/self/(cmdline|environ)|execfn|loader):.*\n", "", done.stdout,
                                 flags=re.M)
        same(plain, mvld, [(LOADER, "LOADER"), (host, "LOADER")], " ".join(map(str, words)))


def off(programs):
    """MVLD=off does not leave everything to the host loader."""
    done = execute([programs.mvld, "all"], env={"MVLD": "off", "MVLD_DEBUG": "all"})
    check(done.returncode == 0 and not done.stderr, done.stdout + done.stderr)
    check(f"loader: {LOADER}" in done.stdout, "the host loader's name was touched:\n" + done.stdout)


def debug(programs):
    """MVLD_DEBUG says nothing, says it in the wrong place, or does not know its words."""
    done = execute([programs.mvld], env={"MVLD_DEBUG": "help"})
    words = re.findall(r"^  (\w+) ", done.stdout, re.M)
    check(done.returncode == 0 and not done.stderr and words == [
        "files", "passes", "patch", "image", "statistics", "all", "help"], done.stdout)
    done = execute([programs.mvld], env={"MVLD_DEBUG": "files,nonsense"})
    check("warning: debug option `nonsense' unknown; try MVLD_DEBUG=help" in done.stderr and
          str(programs.mvld.resolve()) in done.stderr, done.stderr)
    done = execute([programs.mvld], env={"MVLD_DEBUG": "files",
                                         "MVLD_DEBUG_OUTPUT": programs.folder / "log"})
    logs = list(programs.folder.glob("log.*"))
    check(done.returncode == 0 and not done.stderr and len(logs) == 1 and
          str(programs.mvld.resolve()) in logs[0].read_text(), f"{done.stderr}{logs}")


def debug_output(programs):
    """The file of MVLD_DEBUG_OUTPUT follows a link that somebody left, waits for the reader of
    a FIFO, or shows everybody where the process's code lies."""
    script = 'case $1 in link) ln -s "$2" "$3.$$";; fifo) mkfifo "$3.$$";; esac; exec "$4"'
    for what in "link", "fifo", "nothing":
        victim, log = programs.folder / f"victim-{what}", programs.folder / f"log-{what}"
        victim.write_text("as it was")
        done = execute(["sh", "-c", script, "sh", what, victim, log, programs.mvld],
                       env={"MVLD_DEBUG": "files", "MVLD_DEBUG_OUTPUT": log})
        check(done.returncode == 0 and victim.read_text() == "as it was",
              f"{what}: {victim.read_text()}{done.stderr}")
        if what == "nothing":
            made, = programs.folder.glob("log-nothing.*")
            check(made.stat().st_mode & 0o777 == 0o600, oct(made.stat().st_mode))
        else:
            check("cannot open the file of MVLD_DEBUG_OUTPUT" in done.stderr, done.stderr)


def daemon(programs):
    """A daemon that has closed its standard error keeps the other end of the pipe open, because of MVLD_DEBUG."""
    process = subprocess.Popen([str(LOADER), "/bin/sh", "-c", "exec 3<&0; { exec 2>/dev/null; read line <&3; } &"],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=support.clean_environment(**{**NEUTRAL, "MVLD_DEBUG": "files"}))
    said = b""
    while select.select([process.stderr], [], [], 30)[0]:
        more = os.read(process.stderr.fileno(), 65536)
        said += more
        if not more:
            break
    else:
        check(False, "the pipe is open still, though the daemon reads on with another standard error")
    process.stdin.close()  # the daemon ends
    check(process.wait(60) == 0 and said, "nothing was logged")


def preloading(programs):
    """A library that a pass brings is not in the global scope, or leaves a trace."""
    passes, _ = bring(programs)
    config = programs.folder / "bring.conf"
    config.write_text(f"[app]\nmatch = {programs.folder}/echo-?\npasses = bring\n"
                      f"[app]\nmatch = {programs.mvld}\npasses = bring\n")
    env = {"MVLD_CONFIG": config, "MVLD_PASS_PATH": passes}
    for own in ({}, {"LD_PRELOAD": ""}, {"LD_PRELOAD": "libm.so.6"}):
        done = both(programs, env={**env, **own})
        check(done.stdout, "nothing was said")
        done = execute([programs.mvld], env={**env, **own, "TELL_BROUGHT": "1"})
        check(done.stderr == "brought\n", "not preloaded:\n" + done.stderr)
    done = execute([LOADER, programs.mvld, "x"], env={**env, "TELL_BROUGHT": "1"})
    check(done.stderr == "brought\n" and "LD_PRELOAD: (none)" in done.stdout and
          "auxv: walked" in done.stdout and "differs" not in done.stdout,
          done.stdout + done.stderr)


def sanitizer(programs):
    """AddressSanitizer finds a library before its runtime and ends the program."""
    passes, _ = bring(programs)
    program = programs.build("echo-a", LOADER, "-fsanitize=address")
    config = programs.folder / "config"
    config.write_text(f"[app]\nmatch = {program}\npasses = bring\n")
    for command in [program], [LOADER, program]:
        done = execute([*command, "sizes"], env={"MVLD_CONFIG": config, "MVLD_PASS_PATH": passes,
                                                 "TELL_BROUGHT": "1"})
        check(done.returncode == 0 and "LD_PRELOAD: (none)" in done.stdout and done.stderr == "brought\n",
              f"{command}: {done.stdout}{done.stderr}")


def musl(programs):
    """A program of musl's gets glibc's loader (as an interpreter, run directly, switched off),
    or passes do not run in it."""
    if not shutil.which("musl-gcc"):
        support.skip("musl-gcc is missing")
    runs = []
    for loader in Path("/lib/ld-musl-x86_64.so.1"), LOADER:
        path = programs.folder / "hello"
        done = execute(["musl-gcc", "-o", path, SOURCES / "hello.c",
                        f"-Wl,--dynamic-linker={loader}"])
        check(done.returncode == 0, done.stderr)
        config = programs.folder / "config"
        config.write_text(f"[app]\nmatch = {path}\npasses = count\n")
        runs.append(execute([path, "a", "b"], env={"MVLD_CONFIG": config}))
    check(runs[0].returncode == 0 and "musl" in runs[0].stdout, runs[0].stdout + runs[0].stderr)
    for way, command, env in (("off", [path], {"MVLD": "off"}), ("directly", [LOADER, path], {}),
                              ("directly, off", [LOADER, path], {"MVLD": "off"})):
        runs.append(execute([*command, "a", "b"], env={"MVLD_CONFIG": config, **env}))
        same(runs[0], runs[-1], [(LOADER, "/lib/ld-musl-x86_64.so.1")], what=way)
    same(*runs[:2])
    for command in [path], [LOADER, path]:
        done = execute(command, env={"MVLD_CONFIG": config, "MVLD_DEBUG": "passes"})
        check(re.search("count: 3 objects", done.stderr), done.stderr)


def large(programs):
    """20,000 arguments and 200 KB of environment do not arrive."""
    env = {f"VARIABLE_{i}": "x" * 190 for i in range(1000)}
    both(programs, ["sizes", *(f"argument {i}" for i in range(20000))], env=env)


def refused(programs):
    """What is wrong with the configuration is not said, is said in one of the program's
    files, or stops the program."""
    config = programs.folder / "wrong.conf"
    config.write_text("[app]\nmatch = *\npasses count\n")
    env = {"MVLD_CONFIG": str(config)}
    line = f"ERROR: mvld: {config}:3: "
    for command in [programs.mvld], [LOADER, programs.mvld]:
        done = execute(command, env=env)
        check(done.returncode == 0 and done.stderr.startswith(line) and
              done.stderr.endswith(": the program runs untransformed\n") and
              done.stderr.count("\n") == 1, done.stderr)
    done = execute([programs.confine, "closed", "--", programs.mvld], env=env)
    check(done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr)
    done = execute([programs.mvld], env={**env, "MVLD": "off"})
    check(done.returncode == 0 and not done.stderr, done.stderr)
    reader, writer = os.pipe()
    os.close(reader)  # nobody reads: SIGPIPE, which Python would have children ignore
    done = subprocess.run([programs.mvld], env=support.clean_environment(**NEUTRAL | env),
                          stdout=subprocess.DEVNULL, stderr=writer, restore_signals=True)
    check(done.returncode == 0, f"without a reader: {done.returncode}")
    with open(programs.folder / "full", "w") as full:  # SIGXFSZ, the same
        full.write("full")
        full.flush()
        done = subprocess.run([programs.mvld], env=support.clean_environment(**NEUTRAL | env),
                              stdout=subprocess.DEVNULL, stderr=full, restore_signals=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)))
    check(done.returncode == 0, f"into a full file: {done.returncode}")


def other_loaders(programs):
    """What MVLD_HOST_LOADER names, and is no loader, is entered: the program crashes, or another one runs."""
    static = programs.folder / "static"
    source = programs.folder / "static.c"
    source.write_text("int main(void) { return 9; }\n")
    support.compile_c(static, source, "-static-pie", plugin=False, cc="gcc")
    libc, = {line.split()[-1] for line in open("/proc/self/maps") if "libc.so.6" in line}
    fixed = programs.build("fixed", HOST_LOADER, "-no-pie")
    for file in ("/bin/true", libc, libc.replace("libc.so", "libm.so"), static, fixed, source, LOADER,
                 programs.folder, "/nowhere", ""):
        for command in [programs.mvld], [LOADER, programs.mvld]:
            done = execute(command, env={"MVLD_HOST_LOADER": str(file)})
            check((done.returncode, done.stderr) == (0, ""), f"{file}: {done.returncode} {done.stderr}")
    copy = programs.folder / "copy"
    shutil.copy(HOST_LOADER, copy)
    done = execute([programs.mvld], env={"MVLD_HOST_LOADER": str(copy), "MVLD_DEBUG": "files"})
    check(done.returncode == 0 and str(copy) in done.stderr, f"a loader is not taken:\n{done.stderr}")


def low_places(programs):
    """Libraries of an executable at fixed addresses are kept as far from its heap as only a pass that takes
    much space wants it, so that there are fewer places to draw from."""
    program = programs.folder / "where"
    support.compile_c(program, support.SOURCE / "bench" / "entropy.c", "-no-pie",
                      f"-Wl,--dynamic-linker={LOADER}", plugin=False)
    config = programs.folder / "count.conf"
    config.write_text("[app]\nmatch = *\npasses = count\n")
    for _ in range(200):
        done = execute([program], env={"MVLD_CONFIG": str(config)})
        executable, libc, _, heap = (int(word, 16) >> 20 for word in done.stdout.split())
        if executable + 530 < heap < executable + 760:
            check(executable < libc < heap, f"heap at {heap} MiB, libc at {libc} MiB")
            return
    support.skip("the kernel does not draw the heap's place")


def cpuid(programs):
    """A program sees another CPU than under the host loader, or its loader asks for what it
    knows already."""
    for words in ["--list-tunables"], ["--list-diagnostics"], ["/usr/bin/getconf", "-a"]:
        # of the diagnostics, not what is of the process; no number of a CPU, and not how much memory is free
        plain, mvld = ([line for line in execute([loader, *words]).stdout.splitlines()
                        if words[0] != "--list-diagnostics" or line.startswith("x86.cpu_features")
                        and "features[0x0].cpuid[0x1]" not in line] for loader in (HOST_LOADER, LOADER))
        plain, mvld = ([line for line in lines if "_AVPHYS_PAGES" not in line] for lines in (plain, mvld))
        check(plain == mvld, "\n".join(set(plain) ^ set(mvld)))
    stepper = programs.folder / "cpuid"
    support.take(programs.folder, WORLD, stepper.name)
    asked = []
    for program in programs.plain, programs.mvld:
        done = execute([stepper, program])
        if done.returncode == 77:
            support.skip("processes may not be traced here")
        check(done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}")
        lines = re.findall(r"^\w+ \w+:(?: \w+){4}$", done.stdout, re.M)
        # not what a CPU says of itself alone; some leaves have no subleaf
        asked.append([re.sub(r"^(0|2|8000000[0-8]) \w+:", r"\1 0:", line)
                      for line in lines if not re.match(r"(1|b|1f) ", line)])
    plain, mvld = asked
    check(set(plain) == set(mvld), f"{set(plain) ^ set(mvld)}")
    # leaf 2 is asked in another page, which is not copied for it
    again = [line for line in plain if (plain.count(line) > 6 and not line.startswith("2 ")) or
             re.match("8000000[56] ", line)]
    if len(again) < 6 or not shutil.which("objdump"):
        check(len(mvld) <= len(plain), f"{len(plain)}, {len(mvld)}")
        support.skip("this host loader, or on this CPU, asks nothing again and again")
    check(all(mvld.count(line) <= 3 for line in again) and
          len(plain) - len(mvld) >= len(again) - 3 * len(set(again)), f"{plain}\n{mvld}")


start(globals())
