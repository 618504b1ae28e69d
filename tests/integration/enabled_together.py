#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled_together.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: tools that change programs at the same time, and that are killed.

A failure means: a change is on the machine of which the record of changes does not know, so that nothing takes it back.
"""
import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

from machine import check, did, start, support


def in_turns(machine):
    """One tool at a time changes programs: another one waits, and then finds what that one has done."""
    program = machine.program("tool")
    before = machine.files()
    did([machine.mvld, "enable", program])
    for words in ([machine.mvld, "enable", program], [machine.mvld, "set-interp", "--restore", program],
                  [machine.mvld, "disable", "--all"], [machine.restore, "--all"]):
        state = Path("/var/lib/mvld")
        state.mkdir(exist_ok=True)
        lock = os.open(state, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        check("waiting for it" in process.stderr.readline() and process.poll() is None, f"{words} does not wait")
        os.close(lock)
        check(process.wait(60) == 0, f"{words}: {process.stderr.read()}")
    machine.is_plain(before)


def at_once(machine):
    """Many tools at once on the same programs: whoever comes first, each change has its row."""
    one, two = machine.program("one", "/bin/true"), machine.command("two", "/bin/true")
    machine.unit("own.service", one)
    before = machine.files()
    words = [["enable", one], ["enable", two], ["disable", one], ["set-interp", two], ["disable", two],
             ["enable", "--unit", "own", one], ["disable", "--all"], ["set-interp", "--restore", two]]
    for turn in range(3):
        tools = [subprocess.Popen([machine.mvld, *map(str, w)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for w in words[turn:] + words[:turn]]
        for tool in tools:
            check(tool.wait(100) in (0, 1), f"{tool.args}: {tool.returncode}")
        for program in one, two:
            check(subprocess.run([program]).returncode == 0, f"{program} does not start")
        subprocess.run([machine.restore, "--all"], check=True)
        machine.is_plain(before)


# Of calls of one name strace counts.  What is opened is looked at as far as it comes to be.
CHANGING = "rename renameat2 link linkat unlink unlinkat mkdir rmdir write fsync fchmod fchown utimensat".split()


def killed(machine, *words):
    """The tool, killed before each of its calls that change something: yields each time, with whether it was killed."""
    for call in CHANGING:
        for n in range(1, 100):
            done = subprocess.run(["strace", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}", *words],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            was_killed = done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
            check(was_killed or done.returncode == 0, f"{words}: {done.returncode}")
            yield was_killed
            if not was_killed:
                break


def killed_way(machine, *words, tools=()):
    program = machine.programs / "tool"
    before = {path: what for path, what in machine.files().items() if not path.startswith("/var/")}

    def taken_back():
        left = [path for path, what in machine.files().items() if before.get(path) != what and "/." not in path
                and not path.startswith("/var/") and path != f"{machine.apps}/config.cache"]
        said = subprocess.run([machine.mvld, "status"], capture_output=True, text=True).stdout
        check(not left or str(program) in said, f"status does not say of {left}: {said}")
        check(subprocess.run([program]).returncode == 0, "it does not start")
        subprocess.run([machine.restore, "--all"], check=True)
        machine.is_plain(before)

    did([machine.mvld, "enable", *words])  # the analyses are there from now on
    for tool in [machine.mvld, "disable", program], *tools:
        kills = 0
        for was_killed in killed(machine, *tool):
            kills += was_killed
            taken_back()
            did([machine.mvld, "enable", *words])
        check(kills > 8, f"{tool}: only {kills} calls")
    taken_back()
    kills = 0
    for was_killed in killed(machine, machine.mvld, "enable", *words):
        kills += was_killed
        taken_back()
    check(kills > 16, f"enable: only {kills} calls")


def killed_set_interp(machine):
    """enable, disable and mvld-restore are killed at any call: what they did has its row, and can be taken back."""
    need_strace()
    killed_way(machine, "--by", "set-interp", machine.program("tool", "/bin/true"), tools=[[machine.restore, "--all"]])


def killed_wrapper(machine):
    """The same with a wrapper."""
    need_strace()
    killed_way(machine, "--by", "wrapper", machine.command("tool", "/bin/true"))


def killed_unit(machine):
    """The same with a unit's drop-in."""
    need_strace()
    machine.unit("own.service", machine.program("tool", "/bin/true"))
    killed_way(machine, "--unit", "own", machine.programs / "tool")


def children(pid):
    """The processes that it has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def stopped_analyses(tool):
    """Waits until children of its children analyse, and stops them, so that they are slow enough for anything."""
    stopped = []
    while not stopped:
        check(tool.poll() is None, "it ended before it was seen to analyse")
        for inner in [inner for outer in children(tool.pid) for inner in children(outer)]:
            try:
                if b"analyze" in Path(f"/proc/{inner}/cmdline").read_bytes():
                    os.kill(inner, signal.SIGSTOP)
                    stopped.append(inner)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended meanwhile
    return stopped


def killed_analysis(machine):
    """An enable that is killed while it analyses: its analysis goes on, and leaves files behind what takes all back."""
    program = machine.program("tool")
    before = machine.files()
    for words in [machine.mvld, "disable", "--all"], [machine.restore, "--all"]:
        tool = subprocess.Popen([machine.mvld, "enable", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        analysing = stopped_analyses(tool)
        tool.kill()
        tool.wait()
        taking_back = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        for pid in analysing:  # one that was stopped before it had asked to die with its parent holds the lock until it goes on
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        check(taking_back.wait() == 0, f"{words}: {taking_back.returncode}")
        for pid in analysing:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
            check(state == "Z", f"{words}: an analysis goes on")
        now = machine.files()
        check(now == before, f"{words}: files differ: {set(now.items()) ^ set(before.items())}")


def upgraded_meanwhile(machine):
    """mvld itself is upgraded while it enables two programs: both are enabled, by the new one."""
    programs, new = [machine.program("one"), machine.program("two")], Path(machine.mvld + ".new")
    tool = subprocess.Popen([machine.mvld, "enable", "--by", "set-interp", *programs], stdout=subprocess.DEVNULL)
    analysing = stopped_analyses(tool)
    shutil.copy(machine.mvld, new)
    new.rename(machine.mvld)
    for pid in analysing:
        os.kill(pid, signal.SIGCONT)
    check(tool.wait() == 0 and all(machine.is_applied(program) for program in programs), "an upgrade stops enable")


def held(machine):
    """Somebody without rights takes the lock of root's record, and root's tools wait for ever; or cannot read the record."""
    program = machine.program("tool")
    did([machine.mvld, "enable", program])
    user = ["setpriv", "--reuid=65534", "--clear-groups"]
    done = subprocess.run([*user, "flock", "--nonblock", "/var/lib/mvld", "true"], capture_output=True, text=True)
    check(done.returncode and "Permission denied" in done.stderr, f"a user locks it: {done}")
    check(str(program) in did([*user, "env", "HOME=/nowhere", machine.mvld, "status"]), "and is not told what is enabled")


def need_strace():
    if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"]).returncode:
        support.skip("no strace, or it may not trace")


start(globals())
