# SPDX-License-Identifier: MIT
"""run_follow.py BEHAVIOUR: `mvld run --children` where no namespace is to be had: a tracer puts our loader into each
program that descends from the one that was asked for.

Each function below is one test; its text says what a failure means.
"""
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from run_itself import HERE, MVLD, OTHER, STARTER, built_as_plainly, started, support
from run_refused import PTRACE, UNSHARE, without
from support import check

NO_NAMESPACES = without(UNSHARE, 0x50000 | errno.EPERM)
FOLLOW = [MVLD, "run", "--children", "--pass", "count", "--debug", "passes", "--"]
LOADED = b" objects\n"  # what the pass says once in each process under mvld


def followed(command, **more):
    done = started([*FOLLOW, *command], NO_NAMESPACES, **more)
    check(done.stderr.count(b"is traced: no namespaces") == 1, f"{command}: {done}")
    return done


def same(command, under=None, **more):
    """The command does the same plainly and followed; `under`: so many processes were under mvld."""
    plain, ours = started(command, **more), followed(command, **more)
    check((plain.returncode, plain.stdout) == (ours.returncode, ours.stdout), f"{command}: {plain}\n{ours}")
    check(under is None or ours.stderr.count(LOADED) == under, f"{command}: under mvld are not {under}: {ours}")
    return ours


def run_in_background(command, **more):
    return subprocess.Popen([str(word) for word in [*FOLLOW[:3], "--", *command]], preexec_fn=NO_NAMESPACES,
                            env=support.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def tracer_of(pid):
    """The tracer of this child, or 0; where one comes or goes the kernel may name the parent."""
    with contextlib.suppress(OSError):
        found = int(re.search(r"TracerPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
        return found if found != os.getpid() else 0
    return 0


def compile_descend(folder):
    program = folder / "descend"
    subprocess.run(["gcc", "-O1", "-Wall", "-pthread", "-o", program, HERE / "run" / "descend.c"], check=True, timeout=60)
    return program


def builds(folder):
    """A program that make starts, or a compiler, is not under mvld; or builds something else."""
    if not shutil.which("make"):
        support.skip("make is missing")
    folder.chmod(0o755)
    built_as_plainly(folder, "", [], NO_NAMESPACES)
    if not os.geteuid() and shutil.which("setpriv") and not started([*OTHER, "test", "-r", MVLD]).returncode:
        built_as_plainly(folder, "-of-a-user", [*OTHER, "env"], NO_NAMESPACES)


def processes(folder):
    """Signals, stops, threads that execute, vfork, statuses: a process sees or does something else than plainly."""
    program = compile_descend(folder)
    for way in "ignored", "kinds", "threads", "stops", "killed", "queued":
        done = same([program, way])
        check(done.stdout.endswith(b"done\n") and done.returncode == 5, f"{way}: {done}")
        check(way != "ignored" or {b"ignored, epoll_wait: whole", b"handled, epoll_wait: EINTR"} <= set(done.stdout.splitlines()),
              f"the test's own signal: {done}")
    same(["sh", "-c", "sh -c 'exit 3'; echo $?; sh -c 'kill -9 $$'; echo $?; exec sh -c 'exit 4'"], 4)
    same(["sh", "-c", "timeout 0.2 sleep 9; echo $?; timeout -s KILL 0.2 sleep 9; echo $?; (sleep 0.1; echo a) | cat; true & wait $!; echo $?"])
    same(["sh", "-c", "no-such-program; echo $?; /etc/passwd; echo $?; exec /nowhere"])
    if shutil.which("bash"):
        same(["bash", "-mc", "sleep 9 & kill -STOP %1; sleep 0.1; jobs -s; kill -CONT %1; sleep 0.1; jobs -r; kill %1; wait %1; echo $?"])
    for number in signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGALRM:
        process = run_in_background(["sleep", "20"])
        time.sleep(random.random() * 0.01)
        process.send_signal(number)
        process.communicate(timeout=10)
        check(process.returncode == -number, f"it ends by the signal: {process.returncode}, {number}")


def ended_tracer(folder):
    """The tracer is killed at some moment, and a process hangs, is stopped, or does something else than plainly."""
    program, tracers, ended = compile_descend(folder), folder / "tracers", 0
    subprocess.run(["gcc", "-O1", "-Wall", "-o", tracers, HERE / "run" / "tracers.c"], check=True, timeout=60)
    stopped = "sh -c 'kill -STOP $$; exit 4' & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.01; kill -CONT $!; done; wait $!; echo $?"
    shell = ["sh", "-c", f"(exit 3); /bin/true; sh -c 'kill $$'; echo $?; trap 'echo here' USR1; kill -USR1 $$; {stopped}; exit 5"]
    plain, stop = started(shell), random.randrange(100)
    while (done := started([tracers, stop, *FOLLOW[:3], "--", *shell], NO_NAMESPACES)).returncode != 99:
        check((done.returncode, done.stdout) == (5, plain.stdout), f"killed at stop {stop}: {done}")
        stop += 100
    check(stop > 500, f"it stopped {stop} times at most")
    ways = ["kinds", "threads", "stops", "killed", "queued"]
    plainly = {way: started([program, way]).stdout for way in ways}
    for way in ways * 3:
        process = run_in_background([program, way])
        time.sleep(random.random() * 0.1)
        tracer = tracer_of(process.pid)
        if tracer and tracer_of(process.pid) == tracer:
            with contextlib.suppress(ProcessLookupError):
                os.kill(tracer, signal.SIGKILL)
                ended += 1
        output = process.communicate(timeout=60)[0]
        check(process.returncode == 5 and output == plainly[way], f"{way}: {process.returncode} {output}")
    check(ended, "it was killed sometimes")


def lasts(folder):
    """The tracer keeps something of each process; keeps a pipe open, or a folder; ends before the last descendant, or stays
    behind it."""
    look = "for i in 1 2 3 4 5 6 7 8; do true | true; ( : ); /bin/true; done"
    many = f"for k in 1 2 3 4 5 6 7 8 9 10; do {look}; {look}; {look}; done"  # thousand processes
    process = run_in_background(["sh", "-c", f"{look}; echo; read x; {many}; echo; read x"], stdin=subprocess.PIPE)
    measured = []
    tracer = 0
    for _ in range(2):
        process.stdout.readline()
        tracer = tracer_of(process.pid)
        check(tracer, "it is followed")
        of = Path(f"/proc/{tracer}")
        measured.append(([os.readlink(path) for path in sorted((of / "fd").iterdir())],
                         re.search(r"VmData:.*", (of / "status").read_text())[0]))
        process.stdin.write(b"\n")
        process.stdin.flush()
    process.communicate(timeout=20)
    check(measured[0] == measured[1] and len(measured[0][0]) <= 1, f"it keeps something: {measured}")

    def ends(tracer):
        for _ in range(500):
            status = Path(f"/proc/{tracer}/status")
            if not status.exists() or "State:\tZ" in status.read_text():
                return True
            time.sleep(0.01)
        return False

    check(ends(tracer), "the tracer stays")
    log = folder / "log"
    daemon = f"sleep 1; /bin/sh -c 'grep -c ld-mvld /proc/$$/maps; grep TracerPid /proc/$$/status' > {log}.new; mv {log}.new {log}"
    done = followed(["sh", "-c", f"({daemon}) > /dev/null 2>&1 & echo it ended"])
    check(done.stdout == b"it ended\n" and not log.exists(), f"who reads the program's output waits for a daemon: {done}")
    for _ in range(500):
        if log.exists():
            break
        time.sleep(0.01)
    loaded, tracer = re.fullmatch(r"(\d+)\nTracerPid:\t(\d+)\n", log.read_text()).groups()
    check(int(loaded) and int(tracer) and ends(int(tracer)), f"the daemon's program: {loaded} {tracer}")


def tracers(folder):
    """A program that traces others, or finds leaks, does not do what it does plainly."""
    for command in ["strace", "-o", "/dev/null"], ["gdb", "-q", "-nx", "-batch", "-ex", "run", "-ex", "print $_exitcode", "--args"]:
        if shutil.which(command[0]):
            done = followed(["sh", "-c", '"$@"; echo $?', "sh", *command, "sh", "-c", "exit 3"])
            check(b"3\n" in done.stdout and b"not permitted" not in done.stdout, f"{command[0]}: {done}")
    (folder / "main.c").write_text("#include <stdlib.h>\nint main(void) { free(malloc(5)); return 5; }\n")
    for compiler in "gcc", "clang":
        program = folder / compiler
        if shutil.which(compiler) and not subprocess.run([compiler, "-fsanitize=address", folder / "main.c", "-o", program],
                                                         capture_output=True).returncode:
            done = followed([program])
            check(done.returncode == 5 and b"LeakSanitizer" not in done.stderr, f"of {compiler}: {done}")
    done = started(
        [*FOLLOW, "sh", "-c", '"$@"', "sh", *FOLLOW, "sh", "-c", "/bin/true; exit 6"], NO_NAMESPACES)
    check(done.returncode == 6 and done.stderr.count(LOADED) == 3 + 1, f"within itself: {done}")
    done = followed(["sh", "-c", '"$@"', "sh", STARTER, os.path.realpath(shutil.which("readlink")), "/proc/self/exe"])
    check(done.stdout.decode().strip() == os.path.realpath(shutil.which("readlink")) and done.stderr.count(LOADED) == 2, f"a wrapper: {done}")


def others(folder):
    """Programs that cannot run under mvld, or not as another user or in another root folder, do not run plainly."""
    (folder / "main.c").write_text("int main(void) { return 5; }\n")
    subprocess.run(["gcc", "-static", "-o", folder / "static", folder / "main.c"], check=True)
    same([folder / "static"], 0)
    same(["sh", "-c", f"{folder}/static; echo $?; /bin/true"], 2)
    same(["sh", "-c", "for limit in '-d 500' '-v 7000'; do (ulimit $limit; cat /proc/self/maps) | grep -c ld-mvld; done"])
    done = started([*FOLLOW, "sh", "-c", "/bin/true; exit 5"], NO_NAMESPACES, env={"MVLD": "off"})
    check(done.returncode == 5 and LOADED not in done.stderr, f"MVLD=off: {done}")
    done = started([*FOLLOW, "sh", "-c", "exit 5"], lambda: [NO_NAMESPACES(), without(PTRACE, 0x50000 | errno.EPERM)()])
    check(done.returncode == 5 and b"started without mvld" in done.stderr and done.stderr.count(LOADED) == 1, f"no ptrace: {done}")
    if os.geteuid() or not shutil.which("setpriv"):
        return
    folder.chmod(0o755)
    (folder / "id").write_bytes(Path(os.path.realpath(shutil.which("id"))).read_bytes())
    (folder / "id").chmod(0o4755)
    check(started([*OTHER, folder / "id", "-u"]).stdout == b"0\n", "the test's own set-id program")
    if not started([*OTHER, "test", "-r", MVLD]).returncode:
        done = started([*OTHER, *FOLLOW, "sh", "-c", f"{folder}/id -u; exit 5"], NO_NAMESPACES)
        check(done.returncode == 5 and done.stdout == b"65534\n", f"a set-id program below, as the manual says: {done}")
        done = started([*OTHER, *FOLLOW, folder / "id", "-u"], NO_NAMESPACES)
        check(done.stdout == b"0\n" and LOADED not in done.stderr, f"a set-id program: {done}")
    # Nobody but root can open this loader.
    (folder / "closed").mkdir(0o700)
    loader = shutil.copy(support.LOADER, folder / "closed" / "ld-mvld.so.1")
    command = [*FOLLOW[:3], "--loader", loader, *FOLLOW[3:]]
    done = started([*command, "sh", "-c", '"$@"; echo $?; exit 5', "sh", *OTHER, "sh", "-c",
                    "id -u; ls /proc/self/fd; exit 7"], NO_NAMESPACES)
    check(done.returncode == 5 and done.stdout == b"65534\n0\n1\n2\n3\n7\n" and done.stderr.count(LOADED) == 2, f"a loader that cannot be opened: {done}")
    root = folder / "root"
    for file in re.findall(r"/\S+", subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True).stdout) + ["/bin/sh"]:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])
    same(["chroot", root, "/bin/sh", "-c", "echo here; exit 8"], 1)


if __name__ == "__main__":
    import sys
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](scratch)
