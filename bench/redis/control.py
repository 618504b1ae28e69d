# SPDX-License-Identifier: MIT
"""control.py gap SECONDS: reads the clock again and again, and prints the longest gap in microseconds: what others take away.

control.py machine SECONDS: the same with a real-time priority, which nothing takes a processor from but the machine: 10 ms
on each processor, then a pause of 10 ms.  Prints each gap above 1 ms.

control.py spin PROCESSOR: keeps a processor from being idle until it is killed; all others go first.

control.py stop PID TIMES: stops the newest thread of the process and lets it go, and nothing else, with a real-time
priority.  Prints the microseconds of each stop.
"""
import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def gaps(seconds):
    last = time.monotonic()
    end = last + seconds
    while last < end:
        now = time.monotonic()
        yield 1e6 * (now - last)
        last = now


def machine(seconds):
    processors, end = os.sched_getaffinity(0), time.monotonic() + seconds
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    while time.monotonic() < end:
        for processor in processors:
            os.sched_setaffinity(0, {processor})
            yield from (gap for gap in gaps(0.01) if gap > 1000)
            time.sleep(0.01)


def spin(processor):
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass


def stops(pid, times):
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    thread = max(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    for _ in range(times):
        if ptrace(SEIZE, thread, None, None):
            sys.exit(os.strerror(ctypes.get_errno()))
        begin = time.monotonic()
        ptrace(INTERRUPT, thread, None, None)
        os.waitpid(thread, WALL)
        ptrace(DETACH, thread, None, None)
        yield 1e6 * (time.monotonic() - begin)
        time.sleep(0.002)


what, first = sys.argv[1], int(sys.argv[2])
if what == "gap":
    print(f"{max(gaps(first)):.0f}")
elif what == "spin":
    spin(first)
elif what == "machine":
    print(*(f"{gap:.0f}" for gap in machine(first)))
else:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    print(*(f"{stop:.0f}" for stop in stops(first, int(sys.argv[3]))))
