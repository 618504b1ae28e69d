#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs whose threads compute without a pause: whatever the tool can do there, it ends soon, others get on meanwhile,
and no thread keeps a priority of the tool's.

    busy.py GETPID KILLED.so

A failure means: a tool that root calls makes the machine stand still, since a thread that never waits keeps the tool, or
what takes the priority back, from its processor.  The test has the highest priority itself, so that it can end that.
"""
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import check, compile_file, finish, scratch, skip  # noqa: E402

GETPID, KILLED = map(os.path.abspath, sys.argv[1:3])
LONGEST = 20  # seconds, for a tool that gives up after five

PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
static void *computes(void *nothing) { for (volatile long n = 0;; n++) ; return nothing; }
int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc > 1 && pthread_create(&thread, NULL, computes, argv))
        return 2;
    puts("ready");
    fflush(stdout);
    computes(NULL);
}
"""


def stat(pid, thread):
    return Path(f"/proc/{pid}/task/{thread}/stat").read_text().rsplit(")", 1)[1].split()


def start(program, *arguments):
    p = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
    check(p.stdout.readline() == "ready\n", "the program does not start")
    return p


def is_ordinary(p):
    """Also by inheritance no thread has a real-time priority: the number in its stat is below 0 then."""
    return all(int(stat(p.pid, thread)[15]) >= 0 for thread in os.listdir(f"/proc/{p.pid}/task"))


def becomes_ordinary(p):
    end = time.monotonic() + 5
    while not is_ordinary(p) and time.monotonic() < end:
        time.sleep(0.01)
    return is_ordinary(p)


def together(what, program, n):
    """As many tools, each at a program of its own; an ordinary process that computes notices."""
    programs, other = [start(program, "two") for _ in range(n)], start(program)
    tools = [subprocess.Popen([GETPID, str(p.pid), "1"], stdout=subprocess.PIPE, text=True) for p in programs]
    begin = last = time.monotonic()
    used, gap = -1, 0
    while any(tool.poll() is None for tool in tools) and time.monotonic() - begin < LONGEST:
        now = sum(map(int, stat(other.pid, other.pid)[11:13]))
        gap = max(gap, time.monotonic() - last)
        if now != used:
            used, last = now, time.monotonic()
        time.sleep(0.02)
    if not check(all(tool.poll() is not None for tool in tools), f"{what}: after {LONGEST} s the tools have not ended"):
        for p in (*programs, *tools):
            p.kill()
    check(gap < 3, f"{what}: an ordinary process had no processor for {gap:.1f} s")
    for tool, p in zip(tools, programs):
        said = tool.communicate()[0]
        check(tool.returncode == 0 or "no thread of it waited for anything" in said, f"{what}: {tool.returncode}, {said}")
        check(p.poll() is not None or becomes_ordinary(p), f"{what}: a thread has the tool's priority")
    for p in (*programs, other):
        p.kill()
        p.wait()


def killed(program, n):
    """As many tools, killed at one moment: their waiters end, too, though the threads that have their priority never wait."""
    programs, died = [start(program, "two") for _ in range(n)], 0
    for call in [*range(1, 16)] * 2:
        tools = [subprocess.Popen([GETPID, str(p.pid), "1"], env=dict(os.environ, LD_PRELOAD=KILLED, KILLED_AT=str(call)),
                                  stdout=subprocess.DEVNULL) for p in programs]
        end = time.monotonic() + LONGEST
        while any(tool.poll() is None for tool in tools) and time.monotonic() < end:
            time.sleep(0.01)
        died += sum(tool.poll() == -9 for tool in tools)
        if not check(all(tool.poll() is not None and becomes_ordinary(p) for tool, p in zip(tools, programs)),
                     f"killed at call {call}: a tool does not end, or a thread has its priority"):
            break
    for p in programs:
        p.kill()
        p.wait()
    check(died > 20 * n, f"killed {died} times")


def turns():
    """While another tool has the priority a tool waits, or else its threads would wait for a processor; but not for ever."""
    p = subprocess.Popen(["sleep", "100"])
    with open("/proc/sys/kernel/sched_rt_runtime_us") as lock:
        for held in 0.3, LONGEST:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tool = subprocess.Popen([GETPID, str(p.pid), "1"], stdout=subprocess.DEVNULL)
            try:
                check(tool.wait(held) == 0 and held == LONGEST, f"another one has the priority: {tool.returncode}")
            except subprocess.TimeoutExpired:
                check(held != LONGEST, f"it has waited for {held} s")
            fcntl.flock(lock, fcntl.LOCK_UN)
            check(tool.wait(LONGEST) == 0, f"behind the other one: {tool.returncode}")
    p.kill()
    p.wait()


try:
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))
except PermissionError:
    skip("no real-time priority for this user, and so none for the tool")
mine = sorted(os.sched_getaffinity(0))
with scratch() as folder:
    Path(folder, "busy.c").write_text(PROGRAM)
    busy = compile_file(f"{folder}/busy", f"{folder}/busy.c", "-pthread")
    os.sched_setaffinity(0, mine[:1])
    together("one processor", busy, 1)
    if len(mine) > 1:
        os.sched_setaffinity(0, mine[:2])
        turns()
        together("two processors", busy, 4)
        killed(busy, 4)
finish()
