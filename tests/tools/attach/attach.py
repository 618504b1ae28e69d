#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A function is called in a running process: it goes on as if nothing had been, whatever its thread waits in,
and also when the tool is killed at any of its calls.

    attach.py GETPID WAITS KILLED.so HARD MOVING calls|killed|refused|states|changes|worlds|moving
"""
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import check, compile_file, equal, finish, run, scratch  # noqa: E402

GETPID, WAITS, KILLED, HARD, MOVING = map(os.path.abspath, sys.argv[1:6])


def start(*command, **how):
    p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how)
    equal(p.stdout.readline(), "ready\n", f"{command}: its first line")
    return p


def finish_program(p, what):
    """The program is whole: it says so at the end of its input."""
    p.stdin.close()
    try:
        equal((p.stdout.read(), p.wait(20)), ("whole\n", 0), what)
    except subprocess.TimeoutExpired:
        check(False, f"{what}: it does not end")
        p.kill()


def compile_program(path, text):
    Path(f"{path}.c").write_text("#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n" + text)
    return compile_file(path, f"{path}.c", "-pthread")


def areas(pid):
    """Executable memory of no file."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "x" in line.split()[1] and len(line.split()) == 5]


def call(pid, rounds):
    """Again where the machine was too busy for the tool, or for the program to come to wait."""
    for _ in range(5):
        code, out, err = run(GETPID, pid, rounds)
        if "too busy" not in out and "waited for" not in out:
            break
    return code, out, err


def priority(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[15])


def may_have_priority():
    """In a process of its own; the tool itself wants a second processor."""
    return len(os.sched_getaffinity(0)) > 1 and subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode == 0


def calls():
    for way in ("poll", "epoll", "sleep", "read", "semaphore", "signals"):
        p = start(WAITS, way)
        code, out, err = call(p.pid, 100)
        equal((code, out.split()[:1]), (0, [str(p.pid)]), f"{way}: a hundred calls: {out}{err}")
        equal(areas(p.pid), [], f"{way}: memory of ours is left")
        finish_program(p, f"{way}: behind the calls")
    p = start(HARD, "long")
    wanted = (0, [str(2**64 - 2) if may_have_priority() else str(20 + os.nice(0))])
    for _ in range(3):  # a thread that waits for a processor while it is stopped is stopped for longer
        end = time.monotonic() + 15
        while True:  # another tool may have the priority
            code, out, err = run(GETPID, p.pid, 3, "priority")
            equal(priority(p.pid), 20 + os.nice(0), "its priority afterwards")
            if (code, out.split()[:1]) == wanted or time.monotonic() > end:
                break
        equal((code, out.split()[:1]), wanted, f"its priority while it is stopped: {out}{err}")
    blocked = subprocess.run([GETPID, str(p.pid), "3"], stdout=subprocess.PIPE, text=True, timeout=60,
                             preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()))
    equal(blocked.stdout.split()[:1], [str(p.pid)], "with all signals blocked")
    finish_program(p, "behind another priority")
    # Again and again in one call with a time-out, which the kernel restarts by another number each time.
    p = start(HARD, "long")
    sleeps = subprocess.Popen(["sleep", "60"])
    for pid in (p.pid, sleeps.pid):
        for i in range(3):
            code, out, err = call(pid, 1)
            equal((code, out.split()[:1]), (0, [str(pid)]), f"call {i} within one wait: {out}{err}")
    sleeps.kill()
    finish_program(p, "calls within one wait")
    p = subprocess.Popen([HARD, "ring"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if p.stdout.readline() == "ready\n":
        code, out, err = call(p.pid, 20)
        equal((code, out.split()[:1]), (0, [str(p.pid)]), f"io_uring: {out}{err}")
        finish_program(p, "io_uring")
    else:
        print("io_uring: not to be had here")
    # What a thread reads from may also have a name, or be a counter.
    libc = ctypes.CDLL(None)
    with scratch() as folder:
        os.mkfifo(f"{folder}/named")
        ends = {"a named pipe": (os.open(f"{folder}/named", os.O_RDWR), b"whole\n"),
                "eventfd": (libc.eventfd(0, 0), bytes([3, *bytes(7)])), "timerfd": (libc.timerfd_create(1, 0), None)}
        for what, (end, text) in ends.items():
            p = subprocess.Popen(["cat"], stdin=end, stdout=subprocess.PIPE)
            code, out, err = call(p.pid, 100)
            equal((code, out.split()[:1]), (0, [str(p.pid)]), f"{what}: {out}{err}")
            if text:
                os.write(end, text)
                equal(os.read(p.stdout.fileno(), 100), text, f"{what}: what it read")
            equal(p.poll(), None, f"{what}: it has ended")
            p.kill()
            p.communicate()
            os.close(end)
    p = start(WAITS, "select")  # for ever: it is still there
    code, out, err = call(p.pid, 20)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"select: calls{err}")
    time.sleep(0.05)
    equal(p.poll(), None, "select has ended")
    p.kill()


def killed():
    # Not epoll_wait: the kernel says EINTR when its thread is stopped, and a tool that is gone cannot mend that.
    for way, restarted in ("poll", {}), ("poll", {"RESTARTED": "1"}), ("read", {}), ("semaphore", {}):
        p = start(WAITS, way)
        died = n = 0
        while True:
            n += 1
            tool = subprocess.run([GETPID, str(p.pid), "1"], env=dict(os.environ, LD_PRELOAD=KILLED, KILLED_AT=str(n), **restarted),
                                  stdout=subprocess.PIPE, text=True, timeout=60)
            if tool.returncode == 0:
                break
            equal(tool.returncode, -signal.SIGKILL, f"{way}: the tool, killed at call {n}: {tool.stdout}")
            equal(priority(p.pid), 20 + os.nice(0), f"{way}: the priority that a killed tool leaves")
            died += 1
            if n > 500:
                break
        check(20 < died < 500, f"{way}: the tool was killed at {died} calls")
        finish_program(p, f"{way}: behind tools that were killed")
    # Where nobody says which call is restarted, its thread is left alone, but by who has stopped it before.
    hidden = dict(os.environ, LD_PRELOAD=KILLED, NO_WCHAN="1")
    for _ in range(5):
        p = start(HARD, "long")
        out = subprocess.run([GETPID, str(p.pid), "1"], env=hidden, stdout=subprocess.PIPE, text=True, timeout=60).stdout
        if "too busy" not in out:
            break
        p.kill()
    equal(out.split()[:1], [str(p.pid)], "a call that the kernel does not name")
    for n in range(1, 40):
        tool = subprocess.run([GETPID, str(p.pid), "1"], env=dict(hidden, KILLED_AT=str(n)), timeout=60)
        equal(tool.returncode, -signal.SIGKILL, f"the tool, killed at call {n}")
    finish_program(p, "killed in a call that the kernel does not name")


def refused():
    p = start(WAITS, "poll")
    time.sleep(0.1)  # it waits: its thread could be used
    os.kill(p.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WNOWAIT)
    code, out, _ = run(GETPID, p.pid, 1)
    check(code == 1 and "is stopped" in out, f"a stopped process: {out}")
    state = Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    equal(state, "T", "it was stopped, and is no more")
    os.kill(p.pid, signal.SIGCONT)
    code, out, _ = run(GETPID, p.pid, 1)
    equal(code, 0, f"a process that was stopped before: {out}")
    finish_program(p, "behind a stop")
    code, out, _ = run(GETPID, p.pid, 1)
    check(code == 1 and "no process" in out, f"a process that has ended: {out}")
    if os.geteuid() == 0:
        p = start(WAITS, "poll")
        code, out, _ = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", GETPID, p.pid, 1)
        check(code == 1 and "another user's" in out, f"another user's process: {out}")
        finish_program(p, "behind another user's try")
    with scratch() as folder:
        name = f"{folder}/narrow"
        Path(f"{name}.s").write_text(".globl _start\n_start: mov $4, %eax\nmov $1, %ebx\nmov $ready, %ecx\nmov $6, %edx\nint $0x80\n"
                                     "mov $29, %eax\nint $0x80\n.data\nready: .ascii \"ready\\n\"\n")  # write(2), pause(2)
        commands = ["as", "--32", "-o", f"{name}.o", f"{name}.s"], ["ld", "-m", "elf_i386", "-o", name, f"{name}.o"]
        if any(subprocess.run(c).returncode for c in commands):
            print("32-bit programs cannot be made here")
        else:
            p = start(name)
            code, out, _ = run(GETPID, p.pid, 1)
            check(code == 1 and "no 64-bit process" in out, f"a 32-bit process: {out}")
            p.kill()
        first = compile_program(f"{folder}/first", "static void *go(void *n) { puts(\"ready\"); fflush(stdout); pause(); return n; }\n"
                                "int main(void) { pthread_t t; pthread_create(&t, 0, go, 0); pthread_exit(0); }\n")
        p = start(first)
        while Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.01)
        code, out, _ = run(GETPID, p.pid, 1)
        check(code == 1 and "its first thread has ended" in out, f"a process whose first thread has ended: {out}")
        p.kill()
    code, out, _ = run(GETPID, 2 if os.geteuid() == 0 else 1, 1)
    check(code == 1, f"a process without memory, or not ours: {out}")


def states():
    """Where no thread can be borrowed, the tool waits, or says why not; and the program is unchanged."""
    # A handler has interrupted malloc: what is called then would wait for ever.
    p = start(HARD, "malloc")
    code, out, err = run(GETPID, p.pid, 1, "allocate")
    equal(code, 0, f"behind a handler: {out}{err}")
    equal(p.stdout.readline(), "ready\n", "the handler has returned")
    finish_program(p, "a handler that interrupted malloc")
    p = start(HARD, "vfork")
    children = Path(f"/proc/{p.pid}/task/{p.pid}/children")
    while not children.read_text():
        time.sleep(0.01)
    code, out, err = run(GETPID, int(children.read_text()), 1)
    check(code == 1 and "parent's memory" in out, f"a child of vfork: {out}{err}")
    code, out, err = call(p.pid, 1)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"behind vfork: {out}{err}")
    equal(p.stdout.readline(), "ready\n", "the child has ended")
    finish_program(p, "vfork")
    p = start(HARD, "threads")
    code, out, err = call(p.pid, 20)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"five hundred threads: {out}{err}")
    finish_program(p, "five hundred threads")
    p = start(HARD, "busy")
    for _ in range(20):  # the one that waits may need a processor until it waits again
        code, out, err = run(GETPID, p.pid, 1, "thread")
        if out.split()[:1] != [str(p.pid)]:
            break
    check(code == 0 and int(out.split()[0]) != p.pid, f"the thread that works was stopped: {out}{err}")
    finish_program(p, "a thread that works, and one that waits")
    for kind in ("kill", "errno", "trap", "log", "allow", "few", "strict"):
        p = start(HARD, "filter", kind)
        code, out, _ = run(GETPID, p.pid, 1)
        check(code == 1 and "seccomp" in out, f"a filter: {kind}: {out}")
        finish_program(p, f"a filter: {kind}")
    p = start(HARD, "late")
    tool = subprocess.run([GETPID, str(p.pid), "1"], env=dict(os.environ, LD_PRELOAD=KILLED, LATE=str(p.pid)),
                          stdout=subprocess.PIPE, text=True, timeout=60)
    check(tool.returncode == 1 and "seccomp" in tool.stdout, f"a filter that came meanwhile: {tool.stdout}")
    equal(p.stdout.readline(), "ready\n", "it has a filter")
    finish_program(p, "a filter that came meanwhile")
    p = start(HARD, "filtered")
    code, out, _ = run(GETPID, p.pid, 1)
    check(code == 1 and "no thread of it waited" in out, f"a thread with a filter: {out}")
    finish_program(p, "a thread with a filter")
    # Nothing is written below a stack that may have no room there: neither into others' data, nor behind its end.
    for way in ("coroutine", "adjacent", "handler", "shallow"):
        p = subprocess.Popen([HARD, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if p.stdout.readline() != "ready\n":
            equal(way, "adjacent", "it is not ready")
            print("no space beside the control block")
            continue
        code, out, _ = run(GETPID, p.pid, 1)
        check(code == 1 and "no thread of it waited" in out, f"{way}: {out}")
        finish_program(p, way)
    p = start(HARD, "written")
    code, out, err = call(p.pid, 1)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"libc's code can be executed again: {out}{err}")
    equal(p.stdout.readline(), "ready\n", "it can")
    finish_program(p, "libc's code was written")
    p = start(HARD, "masked")
    code, out, err = call(p.pid, 20)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"all signals blocked: {out}{err}")
    finish_program(p, "all signals blocked")
    # Nothing that could be written becomes code (PR_SET_MDWE, which a program inherits).
    deny = lambda: ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
    p = start(WAITS, "poll", preexec_fn=deny)
    code, out, err = call(p.pid, 20)
    equal((code, out.split()[:1]), (0, [str(p.pid)]), f"it may write no code: {out}{err}")
    finish_program(p, "it may write no code")
    p = subprocess.Popen([HARD, "forked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = int(p.stdout.readline())
    equal(p.stdout.readline(), "ready\n", "a child that another thread forked")
    code, out, err = call(child, 20)
    equal((code, out.split()[:1]), (0, [str(child)]), f"a child that another thread forked: {out}{err}")
    finish_program(p, "a child that another thread forked")
    p = start(WAITS, "poll")
    libc = ctypes.CDLL(None)
    equal(libc.ptrace(0x4206, p.pid, None, None), 0, "PTRACE_SEIZE")
    code, out, _ = run(GETPID, p.pid, 1)
    check(code == 1 and f"traced by process {os.getpid()}" in out, f"traced: {out}")
    libc.ptrace(0x4207, p.pid, None, None)  # PTRACE_INTERRUPT, or it could not be let go
    os.waitpid(p.pid, 0x40000000)
    equal(libc.ptrace(17, p.pid, None, None), 0, "PTRACE_DETACH")
    finish_program(p, "traced")


def changes():
    """A program that executes another one, or ends, under the tool's hands; several tools at once."""
    p = start(HARD, "exec")
    deadline, reached, longest = time.monotonic() + 30, 0, 0
    while time.monotonic() < deadline and not select.select([p.stdout], [], [], 0)[0]:
        began = time.monotonic()
        code, out, _ = run(GETPID, p.pid, 1)
        reached, longest = reached + (code == 0), max(longest, time.monotonic() - began)
        check("another build" not in out and "no room" not in out, f"a program that executes another one: {out}")
    check(reached, "it was reached between")
    check(longest < 2.9, f"a program that executes another one, and a request, wait for each other: {longest:.1f} s")
    equal([p.stdout.readline() for _ in range(2)], ["executed\n", "ready\n"], "executed thirty times")
    finish_program(p, "executed")
    with scratch() as folder:  # the loader waits while it opens this one, and the program has no library yet
        os.mkfifo(f"{folder}/slow.so")
        p = subprocess.Popen([WAITS, "poll"], env=dict(os.environ, LD_PRELOAD=f"{folder}/slow.so"), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        tool = subprocess.Popen([GETPID, str(p.pid), "1"], stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        os.close(os.open(f"{folder}/slow.so", os.O_WRONLY))
        out = tool.communicate(timeout=60)[0]
        equal((tool.returncode, out.split()[:1], p.stdout.readline()), (0, [str(p.pid)], "ready\n"), f"a program that starts: {out}")
        finish_program(p, "a program that starts")
    for _ in range(12):
        p = start(HARD, "exit")
        code, out, _ = run(GETPID, p.pid, 1)
        check(code == 0 or "ended" in out or "no process" in out or "no memory" in out, f"a process that ends: {out}")
        equal(p.wait(20), 7, "its status")
    p = start(WAITS, "poll")
    reached = 0
    for i in range(60):  # job control, within a request and before it
        tool = subprocess.Popen([GETPID, str(p.pid), "5"], stdout=subprocess.PIPE, text=True)
        time.sleep(i % 20 * 0.0005)
        os.kill(p.pid, signal.SIGSTOP)
        if i % 3 == 0:
            os.kill(p.pid, signal.SIGCONT)
        out = tool.communicate(timeout=60)[0]
        reached += tool.returncode == 0
        check(tool.returncode == 0 or "is stopped" in out or "too busy" in out, f"a process that is stopped meanwhile: {out}")
        until = time.monotonic() + 10
        while i % 3 and "T (stopped)" not in Path(f"/proc/{p.pid}/status").read_text() and time.monotonic() < until:
            time.sleep(0.001)
        check(time.monotonic() < until, "it was stopped, and is not")
        equal(areas(p.pid), [], "memory of ours is left in a process that was stopped")
        os.kill(p.pid, signal.SIGCONT)
    check(reached, "it was never reached")
    finish_program(p, "stopped again and again")
    for way in ("poll", "epoll"):  # the thread has not waited for the tool
        p = start(WAITS, way)
        slow = dict(os.environ, LD_PRELOAD=KILLED, SLOW="1")
        out = subprocess.run([GETPID, str(p.pid), "1"], env=slow, stdout=subprocess.PIPE, text=True, timeout=60).stdout
        check("too busy" in out, f"{way}: a slow tool: {out}")
        equal(areas(p.pid), [], f"{way}: a slow tool leaves memory")
        finish_program(p, f"{way}: a slow tool")
    p = start(WAITS, "poll")
    tools = [subprocess.Popen([GETPID, str(p.pid), "20"], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for tool in tools:
        out = tool.communicate(timeout=60)[0]
        check(tool.returncode == 0 or "traced by" in out or "ptrace(2)" in out, f"tools at once: {out}")
    equal(call(p.pid, 1)[0], 0, "behind them")
    finish_program(p, "tools at once")


GUEST = r"""
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    static struct r_debug list = {.r_version = 1};
    char *at = mmap((void *)0x4000000000, 1 << 24, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int fd = open(argv[argc - 1], O_RDONLY);
    char head[4096];
    const ElfW(Ehdr) *h = (void *)head;
    const ElfW(Phdr) *p = (void *)(head + (pread(fd, head, sizeof head, 0), h->e_phoff)), *dynamic = p;
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_LOAD)
            mmap(at + (p[i].p_vaddr & -4096), p[i].p_filesz + p[i].p_vaddr % 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
                 p[i].p_offset & -4096);
        else if (p[i].p_type == PT_DYNAMIC)
            dynamic = p + i;
    for (ElfW(Dyn) *d = (void *)(at + dynamic->p_vaddr); d->d_tag; d++)
        if (d->d_tag == DT_DEBUG)
            d->d_un.d_ptr = (ElfW(Addr))&list;
    puts("ready");
    fflush(stdout);
    getchar();
    puts("whole");
    return getpid() < 0; /* a static one has it, too */
}
"""


def guests(folder):
    """An emulator's: its memory has an executable with a host loader's list of its own, and the machine executes none of it."""
    programs = [compile_program(f"{folder}/emulator", GUEST)]
    with contextlib.suppress(subprocess.CalledProcessError):
        programs.append(compile_file(f"{folder}/static", f"{folder}/emulator.c", "-static"))
    for program in programs:
        p = start(program, WAITS)
        code, out, err = call(p.pid, 3)
        equal((code, out.split()[:1]), (0, [str(p.pid)]), f"{program}: {out}{err}")
        finish_program(p, program)
    if shutil.which("qemu-x86_64"):
        p = start("qemu-x86_64", WAITS, "poll")
        code, out, err = call(p.pid, 3)
        check(code == 0 or "no thread of it waited" in out, f"qemu: {out}{err}")
        finish_program(p, "qemu")


def worlds():
    """A process in namespaces or a root folder of its own, whose file is gone, that emulates another program, makes children
    or opens libraries."""
    with scratch() as name:
        folder = Path(name)
        guests(folder)
        root, gone = folder / "root", folder / "gone"
        needs = subprocess.run(["ldd", WAITS], capture_output=True, text=True, timeout=60).stdout
        files = [WAITS] + [word for word in needs.split() if word.startswith("/")]
        for file in files:
            (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, root / file[1:])
        shutil.copy(WAITS, gone)
        ways = {"user namespace": ["unshare", "--user", "--map-root-user"],
                "PID namespace": ["unshare", "--pid", "--fork", "--kill-child"],
                "chroot": ["chroot", root]}
        for way, command in ways.items():
            if subprocess.run([*command, WAITS, "none"], capture_output=True).returncode in (125, 126, 127) or \
                    (way != "chroot" and subprocess.run([*command, "true"], capture_output=True).returncode):
                print(f"{way}: not to be had here")
                continue
            p = start(*command, WAITS, "poll")
            pid = p.pid
            if way == "PID namespace":
                pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
            code, out, err = call(pid, 30)
            if way == "user namespace" and os.geteuid():
                check(code == 1 and "has capabilities" in out, f"{way}: {out}{err}")
                finish_program(p, way)
                continue
            equal((code, out.split()[:1]), (0, ["1" if pid != p.pid else str(pid)]), f"{way}: {out}{err}")
            finish_program(p, way)
        p = start(gone, "poll")
        gone.unlink()
        code, out, err = call(p.pid, 30)
        equal((code, out.split()[:1]), (0, [str(p.pid)]), f"its file is gone: {out}{err}")
        finish_program(p, "its file is gone")
        for how in "is gone", "is another one":  # as behind an upgrade of the system
            libc = folder / "libc.so.6"
            shutil.copy(next(file for file in files if "libc.so" in file), libc)
            p = start(WAITS, "poll", env=dict(os.environ, LD_LIBRARY_PATH=str(folder)))
            libc.unlink()
            if how == "is another one":
                shutil.copy(WAITS, libc)
            code, out, err = call(p.pid, 3)
            wanted = (0, str(p.pid)) if os.geteuid() == 0 else (1, "process")
            equal((code, *out.split()[:1]), wanted, f"its libc {how}: {out}{err}")
            finish_program(p, f"its libc {how}")
        # A child that ends while its parent is stopped interrupts another thread.
        p = start(HARD, "clones")
        code, out, err = run(GETPID, p.pid, 3)
        check(code == 0 or "no thread of it waited" in out, f"clones: {out}{err}")
        finish_program(p, "clones")
        for way in ("forks", "dlopens"):
            p = start(HARD, way)
            code, out, err = call(p.pid, 100)
            equal((code, out.split()[:1]), (0, [str(p.pid)]), f"{way}: {out}{err}")
            finish_program(p, way)


def moving():
    """Threads come and go, children too, and restartable sequences are interrupted: none is lost."""
    for way in "churn", "spawns", "rseq":
        if subprocess.run([MOVING, way], stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 77:
            print(f"{way}: not to be had here")
            continue
        p, reached = start(MOVING, way), 0
        for _ in range(20):
            code, out, _ = run(GETPID, p.pid, 3)
            reached += code == 0
            check(code == 0 or "no thread of it waited" in out or "too busy" in out, f"{way}: {out}")
        check(reached, f"{way}: it was never reached")
        finish_program(p, way)


{"calls": calls, "killed": killed, "refused": refused, "states": states, "changes": changes, "worlds": worlds, "moving": moving}[sys.argv[6]]()
finish()
