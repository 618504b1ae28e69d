#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""start.py BEHAVIOUR: starting programs, with mvld as their interpreter and run
directly; what the host loader does alone is the expectation.

Each function below is one test; its text says what a failure means.
"""
import difflib
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402

SOURCES = HERE / "start"
COUNT = support.BUILD / "passes" / "example"
# mvld's own variables, which plain runs must see too for the environments to be equal
NEUTRAL = {"MVLD_DEBUG": "", "MVLD_CONFIG": "", "MVLD_PASS_PATH": str(COUNT)}


class Programs:
    """The same program with each loader, under names of the same length."""

    def __init__(self, folder):
        self.folder = folder
        self.plain = self.build("echo-p", HOST_LOADER)
        self.mvld = self.build("echo-m", LOADER)
        self.confine = folder / "confine"
        support.compile_c(self.confine, SOURCES / "confine.c", plugin=False, cc="gcc")

    def build(self, name, loader, *arguments):
        path = self.folder / name
        support.compile_c(path, SOURCES / "echo.c", f"-Wl,--dynamic-linker={loader}", *arguments,
                          plugin=False)
        return path


def execute(command, env=None, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command],
                          env=support.clean_environment(**{**NEUTRAL, **(env or {})}),
                          capture_output=True, text=True, errors="replace", timeout=60, **options)


def same(plain, mvld, names=(), what=""):
    """Equal but for names that must differ: pairs of a text and what stands for it."""
    def text(done):
        out = f"status {done.returncode}\n{done.stdout}--- stderr\n{done.stderr}"
        out = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", out)
        for word, instead in names:
            out = out.replace(str(word), instead)
        return out
    difference = "\n".join(difflib.unified_diff(text(plain).splitlines(), text(mvld).splitlines(),
                                                "plain", "mvld", lineterm=""))
    check(not difference, f"{what}\n{difference}")


def both(programs, arguments=("all",), prefix=(), hidden="arguments|/proc/self/cmdline", **options):
    """The program with its two loaders says the same of its environment; hidden are
    lines in which its name counts."""
    plain = execute([*prefix, programs.plain, *arguments], **options)
    mvld = execute([*prefix, programs.mvld, *arguments], **options)
    if plain.returncode == 77:
        support.skip(plain.stdout.strip())
    strip = re.compile(rf"^({hidden}):.*\n", re.M)
    for done in plain, mvld:
        done.stdout = strip.sub("", done.stdout)
    check(plain.returncode == 0, plain.stdout + plain.stderr)
    same(plain, mvld, [("echo-p", "echo"), ("echo-m", "echo")])
    return mvld


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
        "files", "passes", "patch", "image", "statistics", "verify", "all", "help"], done.stdout)
    done = execute([programs.mvld], env={"MVLD_DEBUG": "files,nonsense"})
    check("warning: debug option `nonsense' unknown; try MVLD_DEBUG=help" in done.stderr and
          f"object: {programs.mvld.resolve()}" in done.stderr, done.stderr)
    done = execute([programs.mvld], env={"MVLD_DEBUG": "files",
                                         "MVLD_DEBUG_OUTPUT": programs.folder / "log"})
    logs = list(programs.folder.glob("log.*"))
    check(done.returncode == 0 and not done.stderr and len(logs) == 1 and
          f"object: {programs.mvld.resolve()}" in logs[0].read_text(), f"{done.stderr}{logs}")


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


def bring(programs, *arguments):
    """The folder of a pass that brings a library, and the library."""
    passes = programs.folder / "passes"
    passes.mkdir()
    library = programs.folder / "libbrought.so"
    support.compile_c(library, "-shared", "-fPIC", SOURCES / "brought.c", plugin=False)
    support.compile_c(passes / "bring.so", "-shared", "-nostdlib", "-ffreestanding", "-fPIC",
                      "-fno-stack-protector", "-mgeneral-regs-only", "-Wl,-Bsymbolic",
                      f'-DLIBRARY="{library}"', *arguments, SOURCES / "bring.c", plugin=False)
    return passes, library


def preloading(programs):
    """A library that a pass brings is not in the global scope, or leaves a trace."""
    passes, library = bring(programs)
    config = programs.folder / "bring.conf"
    config.write_text(f"[app]\nmatch = {programs.folder}/echo-?\npasses = bring\n"
                      f"[app]\nmatch = {programs.mvld}\npasses = bring\n")
    env = {"MVLD_CONFIG": config, "MVLD_PASS_PATH": passes}
    for own in ({}, {"LD_PRELOAD": ""}, {"LD_PRELOAD": "libm.so.6"}):
        done = both(programs, env={**env, **own})
        check(done.stdout, "nothing was said")
        done = execute([programs.mvld], env={**env, **own, "MVLD_DEBUG": "files"})
        check(f"object: {library}" in done.stderr, "not preloaded:\n" + done.stderr)
    done = execute([LOADER, programs.mvld, "x"], env={**env, "MVLD_DEBUG": "files"})
    check(f"object: {library}" in done.stderr and "LD_PRELOAD: (none)" in done.stdout and
          "auxv: walked" in done.stdout and "differs" not in done.stdout,
          done.stdout + done.stderr)


def sanitizer(programs):
    """AddressSanitizer finds a library before its runtime and ends the program."""
    passes, library = bring(programs)
    program = programs.build("echo-a", LOADER, "-fsanitize=address")
    config = programs.folder / "config"
    config.write_text(f"[app]\nmatch = {program}\npasses = bring\n")
    done = execute([program, "sizes"], env={"MVLD_CONFIG": config, "MVLD_PASS_PATH": passes})
    check(done.returncode == 0 and "LD_PRELOAD: (none)" in done.stdout, done.stdout + done.stderr)


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


def small_stack(programs):
    """mvld needs more stack than a program of 256 KB has."""
    both(programs, prefix=[programs.confine, "stack=256", "--"])


def smallest_stack(programs):
    """mvld needs more stack than the host loader: programs that start without it do not
    start with it, or only as long as it has nothing to do or to say."""
    # Where the stack begins is drawn, which is what the smallest sizes then depend on.
    fixed = ["setarch", "-R", programs.confine]
    if not shutil.which("setarch") or execute([*fixed[:2], "true"]).returncode:
        support.skip("needs setarch -R (util-linux)")
    plain, mvld, wrong = (programs.folder / name for name in ("tiny-p", "tiny-m", "wrong.conf"))
    for path, loader in (plain, HOST_LOADER), (mvld, LOADER):
        support.compile_c(path, SOURCES / "tiny.c", f"-Wl,--dynamic-linker={loader}", plugin=False)
    wrong.write_text("[app]\nmatch = *\npasses count\n")
    count = ["MVLD_TUNABLES=app.passes=count", f"MVLD_PASS_PATH={COUNT}"]
    environments = [], ["MVLD=off"], count, [*count, "MVLD_DEBUG=all"], [f"MVLD_CONFIG={wrong}"]

    def status(size, env, *command):
        return execute(["env", "-i", *env, *fixed, f"stack={size}", "--", *command]).returncode

    started = 0
    for size in range(4, 33, 4):
        for env in environments:
            if status(size, env, plain) == 0:
                started += 1
                check(status(size, env, mvld) == 0, f"{size} KiB, {env}")
            if status(size, env, HOST_LOADER, plain) == 0:
                check(status(size, env, LOADER, plain) == 0, f"{size} KiB, run directly, {env}")
    check(started > 20, f"the host loader alone started {started} times")


def address_space(programs):
    """mvld needs address space that RLIMIT_AS does not leave, or brings a library there that
    says that it takes much."""
    limited = [programs.confine, "space=64", "--"]
    both(programs, prefix=[programs.confine, "space=16", "--"])
    passes, library = bring(programs, "-DFLAGS=MVLD_PASS_SPACIOUS")
    env = {"MVLD_TUNABLES": "app.passes=bring", "MVLD_PASS_PATH": passes, "MVLD_DEBUG": "files"}
    for prefix, brought in ([], True), (limited, False):
        said = execute([*prefix, programs.mvld], env=env).stderr
        check((f"object: {library}" in said) == brought and
              ("not preloaded: address space is limited" in said) != brought, said)


def closed(programs):
    """Without standard descriptors the program fails, or a line of ours goes astray."""
    for env in {}, {"MVLD_DEBUG": "all"}:
        done = execute([programs.confine, "closed", "--", programs.mvld], env=env)
        check(done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr)


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


def seccomp_open(programs):
    """mvld uses open(2), which sandboxes of today forbid."""
    both(programs, prefix=[programs.confine, "no-open", "--"])


def hooked(programs, how, expected, **options):
    both(programs, prefix=[programs.confine, *how, "--"], **options)
    done = execute([programs.confine, *how, "--", programs.mvld], env={"MVLD_DEBUG": "files"})
    check(done.returncode == 0 and re.search(expected, done.stderr), done.stderr)


def mdwe(programs):
    """Under PR_SET_MDWE the program is not hooked, or does not run."""
    hooked(programs, ["mdwe"], r"hooked: .* by /proc/self/mem")


def no_exec(programs):
    """Under systemd's MemoryDenyWriteExecute the program is not hooked, or does not run."""
    hooked(programs, ["no-exec"], r"hooked: .* by /proc/self/mem")


def unhooked(programs):
    """Where the host loader's text cannot be written at all, the program does not run."""
    hooked(programs, ["no-exec", "no-memfile"], r"not hooked: .*may not be written",
           hidden="arguments|/proc/self/cmdline|loader")


def no_host(programs):
    """Without a host loader there is not one clear sentence."""
    for path, reason in (("/nonexistent", "does not exist"), (LOADER, "is mvld itself"),
                         ("/bin/sh", None), ("/etc/passwd", "is not an ELF loader")):
        done = execute([programs.mvld], env={"MVLD_HOST_LOADER": path, "MVLD_DEBUG": "files"})
        check(done.returncode == 0 and f"host loader: not {path}" in done.stderr if reason else
              True, f"{path}: {done.returncode} {done.stderr}")
    done = execute(["sh", "-c", 'ulimit -n 3 && exec "$0"', programs.mvld])
    check(done.returncode == 127 and "too many open files" in done.stderr,
          f"no descriptor is free: {done.returncode} {done.stderr}")
    alone = programs.folder / "alone"
    done = execute(["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
                    f"mount --bind {LOADER} {os.path.realpath(HOST_LOADER)} && "
                    f"exec {programs.mvld}"]) if os.geteuid() == 0 else None
    if done is None or "unshare" in done.stderr:
        support.skip("private mount namespaces are not permitted here")
    check(done.returncode == 127 and done.stderr.count("\n") == 1 and
          "mvld: found no host loader:" in done.stderr and "is mvld itself" in done.stderr,
          f"{alone} {done.returncode} {done.stderr}")


def no_proc(programs):
    """Where /proc is not mounted the program does not run, or its pipeline stops it."""
    inside = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
              'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if os.geteuid() != 0 or execute([*inside, "/bin/true"]).returncode:
        support.skip("private mount namespaces are not permitted here")
    for env in {}, {"MVLD_TUNABLES": "app.passes=count"}:
        both(programs, prefix=inside, env=env)
        done = execute([*inside, programs.mvld], env={**env, "MVLD_DEBUG": "passes"})
        check(done.returncode == 0 and ("pass count: done" in done.stderr) == bool(env), done.stderr)


def raised(programs):
    """A set-user-ID program lets its caller's environment steer mvld."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    os.chmod(programs.folder, 0o755)
    os.chmod(programs.mvld, 0o4755)
    reachable = execute(["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", programs.mvld])
    if reachable.returncode:
        support.skip("another user may not reach the build")
    env = {"MVLD_DEBUG": "all", "MVLD_HOST_LOADER": "/nonexistent", "MVLD_TUNABLES": "x",
           "MVLD_DEBUG_OUTPUT": programs.folder / "stolen"}
    # Variables that glibc itself takes away (meson sets one) would leave a gap before auxv.
    done = execute(["env", "-u", "MALLOC_PERTURB_", "setpriv", "--reuid=65534", "--clear-groups",
                    programs.mvld, "all"], env=env)
    check(done.returncode == 0 and not done.stderr and "  MVLD" not in done.stdout and
          not list(programs.folder.glob("stolen*")), done.stdout + done.stderr)
    check("auxv: walked" in done.stdout, done.stdout)


def unreadable(programs):
    """A program that may be executed and not read does not start."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    os.chmod(programs.folder, 0o755)
    os.chmod(programs.mvld, 0o711)
    done = execute(["setpriv", "--reuid=65534", "--clear-groups", programs.mvld, "sizes"])
    check(done.returncode == 0 and "auxv: walked" in done.stdout, done.stdout + done.stderr)


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
    support.compile_c(stepper, SOURCES / "cpuid.c", plugin=False, cc="gcc")
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
    again = [line for line in plain if plain.count(line) > 6 or re.match("8000000[56] ", line)]
    if len(again) < 6 or not shutil.which("objdump"):
        check(len(mvld) <= len(plain), f"{len(plain)}, {len(mvld)}")
        support.skip("this host loader, or on this CPU, asks nothing again and again")
    check(all(mvld.count(line) <= 3 for line in again) and
          len(plain) - len(mvld) >= len(again) - 3 * len(set(again)), f"{plain}\n{mvld}")


def main():
    support.need(LOADER)
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Programs(folder))


main()
