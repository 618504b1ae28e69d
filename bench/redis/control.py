# SPDX-License-Identifier: MIT
"""control.py gap SECONDS: reads the clock again and again, and prints the longest gap in microseconds: what others take away.

control.py stop PID TIMES: stops the newest thread of the process and lets it go, and nothing else, with a real-time
priority.  Prints the microseconds of each stop.
"""
import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def gap(seconds):
    end, last, longest = time.monotonic() + seconds, time.monotonic(), 0
    while last < end:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return 1e6 * longest


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


if sys.argv[1] == "gap":
    print(f"{gap(float(sys.argv[2])):.0f}")
else:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    print(*(f"{stop:.0f}" for stop in stops(int(sys.argv[2]), int(sys.argv[3]))))
