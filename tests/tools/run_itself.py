# SPDX-License-Identifier: MIT
"""run_itself.py BEHAVIOUR: `mvld run` executes the program's own file, and is not to be seen by it.

Each function below is one test; its text says what a failure means.
"""
import contextlib
import ctypes
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
STARTER = support.BUILD / "tools" / "mvld-run"
COUNT = ["--pass", "count", "--debug", "passes"]  # a pass that says on standard error that it ran
COUNTING = {"MVLD_TUNABLES": "app.passes=count", "MVLD_DEBUG": "passes"}  # the same, as environment
PRCTL = ctypes.CDLL(None).prctl


def started(command, before=None, **more):
    """The finished process, whose parent is this one; `before` runs in it in front of its execve."""
    environment = {**support.clean_environment(PARENT=os.getpid(), LC_ALL="C"), **more.pop("env", {})}
    return subprocess.run([str(word) for word in command], preexec_fn=before, env=environment, timeout=60,
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


def run_by_mvld(command, *options):
    return [MVLD, "run", *COUNT, *options, "--", *command]


def same(what, command, before=None, normal=lambda text: text, options=(), under=True, wrapped=True, plainly=None, prefix=(),
         **more):
    """The command, behind `prefix`, does the same plainly and under mvld; `under`: its pass ran, None: who knows; `wrapped`:
    also by what wrappers execute."""
    plain = plainly or started([*prefix, *command], before, **more)
    ours = started([*prefix, *run_by_mvld(command, *options)], before, **more)
    compare(what, plain, ours, normal, under)
    if os.path.isabs(command[0]) and not options:
        environment = {**more.pop("env", {}), **COUNTING, "MVLD_PASS_PATH": str(support.BUILD / "passes/example")}
        started_so = started([*prefix, STARTER, *command], before, env=environment, **more)
        compare(f"{what}, by mvld-run", plain, started_so, normal, under and wrapped)
        if under is not None and not (under and wrapped) and plain.returncode != 127:
            check(plain.stderr == started_so.stderr, f"{what}, by mvld-run: {started_so.stderr}")
    return ours


def compare(what, plain, ours, normal, under):
    outputs = [normal(done.stdout.decode(errors="replace")) for done in (plain, ours)]
    lines = [set(text.splitlines()) for text in outputs]
    check((plain.returncode, outputs[0]) == (ours.returncode, outputs[1]),
          f"{what}: status {plain.returncode}, {ours.returncode}\nplainly {sorted(lines[0] - lines[1])}\nunder mvld "
          f"{sorted(lines[1] - lines[0])}\n{ours.stderr}")
    if under is not None:
        check((b" objects\n" in ours.stderr) == under, f"{what}: whether a pass ran\n{ours.stderr}")


def build(folder, name, *flags, compiler="gcc"):
    subprocess.run([compiler, "-O1", "-Wall", "-o", folder / name, HERE / "run" / "state.c", *flags], check=True, timeout=60)
    return folder / name


# ---- what a program is given -----------------------------------------------------------------------

def pending():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM, signal.SIGRTMIN])
    for number in signal.SIGUSR1, signal.SIGRTMIN:
        os.kill(os.getpid(), number)


def blocked():
    """Also those that a C library keeps for itself, and its sigprocmask leaves out."""
    mask = ctypes.c_uint64(2 ** 64 - 1)
    ctypes.CDLL(None).syscall(14, signal.SIG_SETMASK, ctypes.byref(mask), None, 8)  # rt_sigprocmask


def ignored():
    for number in signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR2:
        signal.signal(number, signal.SIG_IGN)


# A process with two children, of which one ends soon, and one later.
CHILDREN = ["sh", "-c", '(exit 3) & (sleep 0.5; exit 4) & exec "$@"', "sh"]


def closed():
    os.close(0)
    os.close(2)


def all_closed_but_output():
    os.closerange(2, 64)
    os.close(0)


def timer():
    signal.setitimer(signal.ITIMER_REAL, 100)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def settings():
    os.umask(0o77)
    os.nice(3)
    os.chdir("/usr")
    PRCTL(1, signal.SIGUSR1)   # PR_SET_PDEATHSIG
    PRCTL(38, 1, 0, 0, 0)      # PR_SET_NO_NEW_PRIVS
    PRCTL(29, 77777)           # PR_SET_TIMERSLACK
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


def limited(which, soft):
    return lambda: resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def state(folder):
    """A program sees of mvld something in what execve leaves: signals, descriptors, children, limits, arguments,
    auxv, its names in /proc."""
    program = build(folder, "state")
    reader, writer = os.pipe()
    same("as it is", [program, "a", "b c", ""])
    for before in pending, blocked, ignored, timer, os.setsid, settings:
        same(before.__name__, [program], before)
    no_figures = lambda text: "".join(sorted(line for line in text.splitlines(True) if "children's memory" not in line))
    found = same("children", [program], normal=no_figures, prefix=CHILDREN)
    check(b"child ended: 300" in found.stdout and b"child ended: 400" in found.stdout, "both children")
    same("descriptors", [program], pass_fds=[reader, writer])
    same("closed descriptors", [program], closed, under=None)
    same("nothing but an output", [program], all_closed_but_output, under=None)
    same("few descriptors", [program], limited(resource.RLIMIT_NOFILE, 16))
    same("a small stack", [program], limited(resource.RLIMIT_STACK, 300 << 10))
    same("any stack", [program], limited(resource.RLIMIT_STACK, resource.RLIM_INFINITY))
    same("long arguments", [program, *("x" * 5000 for _ in range(100))], env={f"E{i}": "y" * 3000 for i in range(100)})
    same("no environment", ["env", "-i", f"PARENT={os.getpid()}", program])
    for name in "", "other", "-x":
        # Without a function in between Python 3.13 spawns, and then wants an argv[0].
        plainly = started([name], lambda: None, executable=program)
        same(f"argv[0] is '{name}'", [program], options=["--argv0", name], plainly=plainly)


def names(folder):
    """The path by which a program was executed is another one than plainly, in AT_EXECFN, comm or argv[0]; or its kind matters:
    fixed addresses, static, a script, a program of musl's or of another loader's, for other rights."""
    program = build(folder, "state")
    (folder / "link").symlink_to(program)
    same("a link", [folder / "link"])
    same("a relative path", ["./link"], cwd=folder)
    same("a name in PATH", ["link"], env={"PATH": f"/nowhere:{folder}:/usr/bin"})
    (folder / "-dash").mkdir()
    (folder / "-dash" / "state").symlink_to(program)
    same("a name that looks like an option", ["-dash/state"], cwd=folder)
    for name, first in ("script", program), ("argument", f"{program} one  two "), ("outer", folder / "script"):
        (folder / name).write_text(f"#!{first}\n")
        (folder / name).chmod(0o755)
        same(name, [folder / name, "x"], wrapped=False)
    for name, text in ("text", "echo $0 $*; exit 7\n"), ("empty", ""):  # of the shell, as for execvp(3)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        same(name, [folder / name, "x"], plainly=started(["env", folder / name, "x"]))
    (folder / "gone").write_text("#!/nowhere/sh\n")
    (folder / "gone").chmod(0o755)
    same("its interpreter is not there", [folder / "gone"], plainly=started(["env", folder / "gone"]), under=False)
    same("fixed addresses", [build(folder, "fixed", "-no-pie")])
    same("static", [build(folder, "static", "-static")], under=False)
    same("static, anywhere", [build(folder, "static-pie", "-static-pie")], under=False)
    if shutil.which("musl-gcc"):
        same("musl's", [build(folder, "musl", compiler="musl-gcc")])
    shutil.copy(os.path.realpath(support.HOST_LOADER), folder / "loader")
    same("another loader's", [build(folder, "foreign", f"-Wl,--dynamic-linker={folder}/loader")], under=False)
    if not os.geteuid() and shutil.which("setpriv"):
        folder.chmod(0o755)
        may = not started([*OTHER, "test", "-r", os.path.abspath(MVLD)]).returncode
        for name, mode in ("setuid", 0o4755), ("setgid", 0o2755), ("unreadable", 0o711):
            build(folder, name).chmod(mode)
            if may:
                plainly = started([*OTHER, "env", folder / name])  # setpriv itself still has rights
                ours = started([*OTHER, *run_by_mvld([folder / name])])
                lines = set(plainly.stdout.splitlines()) ^ set(ours.stdout.splitlines())
                check(plainly.returncode == ours.returncode == 7 and not lines, f"{name}: {lines}")
                check(b" objects\n" not in ours.stderr, f"{name}: a pass ran")
        if may:
            check(started([*OTHER, *run_by_mvld([program])]).stderr.count(b" objects\n") == 1, "another user")


# ---- while it starts ---------------------------------------------------------------------------------

def ended_tracer(folder):
    """The process that puts our loader into the program is killed, and the program hangs, crashes or does not run; or
    it ran although `mvld build` was to run nothing of it."""
    tracers = folder / "tracers"
    subprocess.run(["gcc", "-O1", "-Wall", "-o", tracers, HERE / "run" / "tracers.c"], check=True, timeout=60)
    shell = ["/bin/sh", "-c", "grep -c ld-mvld /proc/$$/maps; exit 5"]
    seen, stops = [], 0
    while True:
        done = started([tracers, stops, MVLD, "run", "--", *shell])
        if done.returncode == 99:
            break
        said = done.stderr.decode()
        check(done.returncode == 5, f"killed at stop {stops}: {done}")
        seen.append("direct" if "as with --direct" in said else "plain" if done.stdout == b"0\n" else "under mvld")
        check(not said or seen[-1] == "direct", f"killed at stop {stops}: {done}")
        stops += 1
    order = ["direct", "plain", "under mvld"]
    check(sorted(seen, key=order.index) == seen and set(seen) == set(order), f"in turn, {order}: {seen}")
    for stop in range(stops + 1):
        (folder / "input").write_text("echo it ran\n")
        with open(folder / "input") as text:
            done = started([tracers, stop, MVLD, "build", "--pass", "count", *shell[:1]], stdin=text,
                           env={"XDG_CACHE_HOME": str(folder)})
        check(b"it ran" not in done.stdout and done.returncode in (1, 99, -signal.SIGKILL), f"build, stop {stop}: {done}")


def wait_for(pid, options):
    """The status of this child, which comes soon."""
    for _ in range(2000):
        found, status = os.waitpid(pid, options | os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    how = Path(f"/proc/{pid}/status").read_text()
    os.kill(pid, signal.SIGKILL)
    sys.exit(f"FAILED: it hangs: {how}")


def signals(folder):
    """A signal that comes while a program starts is lost, or it hangs; stopped, it does not go on."""
    stopped = 0
    for i in range(120):
        process = subprocess.Popen([MVLD, "run", "--", "sleep", "0.01"], start_new_session=True, env=support.clean_environment())
        send = os.killpg if i % 2 else os.kill
        time.sleep(random.random() * 0.003)
        send(process.pid, signal.SIGSTOP)
        status = wait_for(process.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            check(os.WSTOPSIG(status) == signal.SIGSTOP, f"{status:x}")
            stopped += 1
            send(process.pid, signal.SIGCONT)
            status = wait_for(process.pid, 0)
        process.returncode = status
        check(status == 0, f"it goes on: {status:x}")
    check(stopped, "it was stopped sometimes")
    for i in range(60):
        number = random.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGKILL, signal.SIGINT])
        process = subprocess.Popen([MVLD, "run", "--", "sleep", "20"], env=support.clean_environment())
        time.sleep(random.random() * 0.003)
        process.send_signal(number)
        check(process.wait(10) == -number, f"it ends by the signal: {process.returncode}, {number}")


def cost(folder):
    """A start by `mvld run`, or by a wrapper, takes more than 3 ms longer than the program alone; some 0.3 to 0.8 are usual."""
    true = os.path.realpath(shutil.which("true"))
    ways, took = ([true], [MVLD, "run", "--", true], [STARTER, true]), [[], [], []]
    with contextlib.suppress(PermissionError):  # for the tracer, too, which else waits for a processor where others work
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    for i in range(600):
        begin = time.perf_counter()
        subprocess.run(ways[i % 3], check=True)
        took[i % 3].append(1000 * (time.perf_counter() - begin))
    plain, *ours = (sorted(times)[10] for times in took)  # at the others somebody else was at work
    check(max(ours) - plain < 3, f"{ours} ms, plainly {plain} ms")


# ---- while it runs --------------------------------------------------------------------------------------

def debugger(folder):
    """gdb, attached to a program that `mvld run` started, does not see its libraries and functions as plainly."""
    if not shutil.which("gdb"):
        support.skip("gdb is missing")
    (folder / "main.c").write_text("#include <stdio.h>\n#include <unistd.h>\n"
                                   "__attribute__((noinline, noclone)) void wait_for_it(void) { puts(\"here\"); fflush(stdout); pause(); puts(\"\"); }\n"
                                   "int main(void) { wait_for_it(); return 0; }\n")
    support.compile_c(folder / "main", folder / "main.c", plugin=False)
    found = []
    for command in [folder / "main"], [MVLD, "run", "--pass", "count", "--", folder / "main"]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=support.clean_environment())
        process.stdout.readline()
        done = started(["gdb", "-q", "-nx", "-batch", "-p", process.pid, "-ex", "bt", "-ex", "info sharedlibrary"])
        process.kill()
        process.wait()
        text = done.stdout.decode()
        found.append((["wait_for_it" in text, "main (" in text], sorted(line.split()[-1] for line in text.splitlines()
                                                                        if line.startswith("0x") and "Yes" in line)))
    check(found[0] == found[1] and found[0][0] == [True, True] and found[0][1], f"plainly {found[0]}, under mvld {found[1]}")


# ---- snapshots ---------------------------------------------------------------------------------------------

def snapshot(folder):
    """A snapshot of `mvld build` fits no start in which mvld stands in the place of the machine's loader, or one that such
    a start has left fits no `mvld run`."""
    (folder / "own.c").write_text("int own(void) { return 5; }\n")
    (folder / "main.c").write_text("int own(void);\nint main(void) { return own(); }\n")
    program = folder / "main"
    support.compile_c(folder / "libown.so", "-shared", "-fPIC", folder / "own.c", plugin=False)
    support.compile_c(program, folder / "main.c", support.MAPPED, folder / "libown.so", f"-Wl,-rpath,{folder}", plugin=False)
    support.analyze(folder, "--program", program)
    environment = {"XDG_CACHE_HOME": str(folder), "TELL_MAPPED": "1", "MVLD_PASS_PATH": str(support.BUILD / "passes/direct-calls"),
                   "MVLD_TUNABLES": "app.passes=direct-calls"}
    ways = {"run": [MVLD, "run", "--"], "direct": [MVLD, "run", "--direct", "--"]}
    if not started([MVLD, "run", "--children", "--", "true"]).stderr:
        ways["children"] = [MVLD, "run", "--children", "--"]
    if support.may_mount():
        host = os.path.realpath(support.HOST_LOADER)
        shutil.copy(host, folder / "host")
        environment["MVLD_HOST_LOADER"] = str(folder / "host")
        ways["place"] = [*support.PRIVATE_MOUNTS, "sh", "-c", 'mount --bind "$1" "$2"; shift 2; exec "$@"', "sh",
                         support.LOADER, host]

    def fits(way):
        done = started([*ways[way], program], env=environment)
        check(done.returncode == 5, f"{way}: {done}")
        return b"/mvld/snapshots/" in done.stderr

    check(not any(map(fits, ways)), "there is none yet")
    done = started([MVLD, "build", program], env=environment)
    check(done.returncode == 0 and not Path(done.stdout.decode().strip()).name.endswith("-direct"), f"build: {done}")
    check([way for way in ways if fits(way)] == [way for way in ways if way != "direct"], "what `mvld build' wrote")
    check(started([MVLD, "build", "--direct", program], env=environment).returncode == 0 and fits("direct"), "build --direct")
    if "place" in ways:
        shutil.rmtree(folder / "mvld" / "snapshots")
        environment["MVLD_TUNABLES"] += ":app.on-miss=build"
        check(not fits("place") and fits("place") and fits("run"), "what a start has left")
    environment.pop("MVLD_HOST_LOADER", None)
    for way, other in ("run", "children"), ("children", "run"):  # where the machine's loader has another name
        if way not in ways or other not in ways:
            continue
        shutil.rmtree(folder / "mvld" / "snapshots")
        environment["MVLD_TUNABLES"] = "app.passes=direct-calls:app.on-miss=build"
        check(not fits(way) and fits(other), f"what {way} has left")
        for prefix in ways[way], ways[other]:
            listed = json.loads(started([*prefix, MVLD, "cache", "list", "--json", folder / "mvld" / "snapshots"], env=environment).stdout)
            check([item["state"] for item in listed] == ["good"], f"of {way}, listed by {prefix[2:-1]}: {listed}")


# ---- what it starts ----------------------------------------------------------------------------------------

def project(folder):
    folder.mkdir(mode=0o777)
    (folder / "Makefile").write_text("program: one.o two.o\n\t@gcc -o $@ $^ && ./program && readlink /proc/self/exe\n"
                                     "%.o: %.c\n\t@gcc -O2 -no-integrated-cpp -c -o $@ $<\n")
    (folder / "one.c").write_text("int two(void);\nint main(void) { return two() - 2; }\n")
    (folder / "two.c").write_text("int two(void) { return 2; }\n")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777)


OTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]  # as another user
NAMING = [MVLD, "run", "--children", "--pass", "count", "--option", "count.names=yes", "--debug", "passes", "--"]


def built_as_plainly(folder, number, user, before=None):
    """Make builds the same, and each of its programs ran under mvld; the folder of the project."""
    plain, ours, logs = (folder / f"{name}{number}" for name in ("plain", "ours", "logs"))
    project(plain)
    project(ours)
    logs.mkdir()
    logs.chmod(0o777)
    done = started([*user, "make", "-j4"], cwd=plain)
    same = started([*user, *NAMING, "make", "-j4"], before, cwd=ours, env={"MVLD_DEBUG_OUTPUT": str(logs / "log")})
    check((done.returncode, done.stdout) == (same.returncode, same.stdout) == (0, done.stdout), f"{done}\n{same}")
    check((plain / "program").read_bytes() == (ours / "program").read_bytes(), "another program was built")
    text = "".join(path.read_text(errors="replace") for path in logs.iterdir())
    # Each file is preprocessed by itself.
    want = {"make": 1, os.path.basename(os.path.realpath("/bin/sh")): 1, "gcc": 3, "cc1": 4, "as": 2, "collect2": 1, "ld": 1,
            "program": 1, "readlink": 1}
    found = {name: len(re.findall(rf"count: \S*/[^/\n]*\b{name}([-.][\w.]+)?: \d+ symbols$", text, re.M)) for name in want}
    check(all(found[name] >= want[name] for name in want), f"under mvld: {found} of {want}\n{text[:5000]}")
    return ours


def children(folder):
    """A program that make starts, or a compiler, or what that starts, is not under mvld; or builds something else; or
    something of it is seen outside."""
    if not shutil.which("make"):
        support.skip("make is missing")
    folder.chmod(0o755)
    host = os.path.realpath(support.HOST_LOADER)
    users = [[]]
    if not os.geteuid() and shutil.which("setpriv"):
        users.append([*OTHER, "env"])
    for number, user in enumerate(users):
        command = [*user, *NAMING]
        if started([*command[:-7], "--", "true"]).stderr:
            print("not tried, no namespaces:", started([*command[:-7], "--", "true"]).stderr)
            continue
        ours = built_as_plainly(folder, number, user)
        # Our loader has another name there.
        process = subprocess.Popen([str(word) for word in (*command[:-7], "--pass", "count", "--", "sh", "-c", "echo; read x")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=support.clean_environment())
        process.stdout.readline()
        said = started([MVLD, "status", "-p", process.pid]).stdout
        process.communicate()
        check(b"under /" in said, f"mvld status -p: {said}")
        done = started([*command[:-7], "--", MVLD, "run", "--children", *COUNT, "--", "/bin/sh", "-c", "exit 5"])
        check(done.returncode == 5 and b"without mvld" not in done.stderr and done.stderr.count(b" objects\n") == 1, f"nested: {done}")
        # A folder of the namespace outside cannot be mounted on, and has another path where / is not the root of all mounts.
        inside = 'exec 3<.; while read -r key id; do [ "$key" != mnt_id: ] || grep -c "^$id " /proc/self/mountinfo; done < /proc/$$/fdinfo/3'
        done = started([*command[:-7], "--", "sh", "-c", inside], cwd=ours)
        check(done.stdout == b"1\n", f"the working directory is in another mount namespace: {done}")
    mounts = Path("/proc/self/mountinfo").read_text()  # others mount, too
    check("/.original " not in mounts and " - tmpfs mvld " not in mounts and os.path.realpath(support.HOST_LOADER) == host,
          f"seen outside: {mounts}")
    check(started([MVLD, "run", "--children", "--direct", "--", "true"]).returncode == 2, "--children --direct")
    if shutil.which("unshare") and not started(["unshare", "--user", "true"]).returncode:
        limit = 'echo 0 > /proc/sys/user/max_mnt_namespaces; exec "$@"'
        done = started(["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh", MVLD, "run", "--children", *COUNT, "--",
                        "/bin/sh", "-c", "exit 5"])
        check(done.returncode == 5 and b"is traced: no namespaces" in done.stderr and b" objects\n" in done.stderr,
              f"without namespaces: {done}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](scratch)
