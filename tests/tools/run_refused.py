# SPDX-License-Identifier: MIT
"""run_refused.py BEHAVIOUR: `mvld run` where it cannot put our loader into the program: where nobody may trace, where
the loader is only in part there, with little memory, of programs of 32 bits.

Each function below is one test; its text says what a failure means.
"""
import ctypes
import errno
import os
import resource
import shutil
import struct
import sys
from itertools import product
from pathlib import Path

from run_itself import COUNT, MVLD, PRCTL, STARTER, limited, run_by_mvld, same, started, support
from support import check

PTRACE, UNSHARE = 101, 272  # numbers of system calls


def said_why(command, before=None, **more):
    done = started(command, before, **more)
    check(done.returncode == 5 and done.stderr.count(b"started as with --direct") == 1 and b" objects\n" in done.stderr,
          f"{command}: {done}")


def refused(folder):
    """Where a program cannot be traced, or would get the tracer for a child, it does not run under mvld, or nobody says
    why it is started in another way."""
    command = run_by_mvld(["/bin/sh", "-c", "exit 5"])
    said_why(command, lambda: PRCTL(36, 1, 0, 0, 0))  # PR_SET_CHILD_SUBREAPER
    if shutil.which("strace"):
        said_why(["strace", "-f", "-o", folder / "log", *command])
        log = (folder / "log").read_text().splitlines()
        check(log[0].split()[0] == log[-1].split()[0], f"the tracer outlives the program, whose status proot loses:\n{log[-3:]}")
    if shutil.which("gdb"):
        done = started(["gdb", "-q", "-nx", "-batch", "-ex", "run", "--args", *command])
        check(b"exited with code 05" in done.stdout and b"started as with --direct" in done.stderr + done.stdout, f"gdb: {done}")
    if support.may_mount():
        said_why(["unshare", "--pid", "--fork", "--mount-proc", *command])
        no_proc = 'mount -t tmpfs none /proc && exec "$@"'
        said_why([*support.PRIVATE_MOUNTS, "sh", "-c", no_proc, "sh", MVLD, "run", "--loader", support.LOADER,
                  *command[2:]], env={"MVLD_PASS_PATH": str(support.BUILD / "passes/example")})
    done = started([MVLD, "run", *COUNT, "--direct", "--", "readlink", "/proc/self/exe"])
    check(done.stdout.strip().decode() == str(support.LOADER) and b"--direct" not in done.stderr, f"--direct: {done}")
    done = started([MVLD, "run", *COUNT, "--", "readlink", "/proc/self/exe"], env={"MVLD": "off"})
    check(done.stdout.strip() == os.path.realpath(shutil.which("readlink")).encode(), f"MVLD=off: {done}")
    if shutil.which("setarch"):  # there the interpreter is not the last mapping
        same("addresses from below", ["setarch", "-L", "readlink", "/proc/self/exe"])
        done = started(["setarch", "-L", *run_by_mvld(["/bin/sh", "-c", "exit 5"])])
        check(done.returncode == 5 and b"mvld run: " in done.stderr, f"addresses from below: {done}")


def truncated(folder):
    """A loader of which only a part is there makes programs crash, instead of being started plainly; or `mvld build` runs
    them, or set-interp makes one depend on it."""
    for tool in MVLD, STARTER:
        (folder / "tools").mkdir(exist_ok=True)
        shutil.copy(tool, folder / "tools")
    mvld, whole, loader = folder / "tools" / "mvld", support.LOADER.read_bytes(), folder / "loader" / "ld-mvld.so.1"
    loader.parent.mkdir()
    shell = shutil.copy("/bin/sh", folder)
    program = [shell, "-c", "grep -c ld-mvld /proc/$$/maps; exit 5"]
    run = [mvld, "run", "--"]
    ways = [[folder / "tools" / "mvld-run"], run, [mvld, "run", "--direct", "--"], [mvld, "run", "--children", "--"]]
    for size in 0, 100, 4096, 2 * 4096, len(whole) // 2, len(whole) - 1, len(whole):
        loader.write_bytes(whole[:size])
        loader.chmod(0o755)
        if size >= max(segments(whole)):
            check(int(started([*run, *program]).stdout), "the whole one does not run it under mvld")
            continue
        for way in ways:
            done = started([*way, *program])
            check((done.returncode, done.stdout) == (5, b"0\n"), f"{size} bytes, {way}: {done}")
        done = started([mvld, "build", shell], env={"XDG_CACHE_HOME": str(folder)})
        check(done.returncode == 1 and not done.stdout, f"{size} bytes, build: {done}")
        before = Path(shell).read_bytes()
        done = started([mvld, "set-interp", shell], env={"XDG_STATE_HOME": str(folder)})
        check(done.returncode == 1 and Path(shell).read_bytes() == before, f"{size} bytes, set-interp: {done}")


def segments(file):
    """Where each ends in the file."""
    start, size, n = *struct.unpack_from("<Q", file, 32), *struct.unpack_from("<2H", file, 54)
    for at in range(start, start + size * n, size):
        offset, length = struct.unpack_from("<Q16xQ", file, at + 8)
        yield offset + length


def without(call, action):
    """A filter for one system call, as a container's; EPERM is also what Yama says of ptrace(2)."""
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    code = struct.pack("=HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0,  # the call's number
                       0x15, 0, 1, call, 6, 0, 0, action, 6, 0, 0, 0x7fff0000)  # is it this one?

    def install():
        if os.geteuid():
            PRCTL(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        PRCTL(22, 2, ctypes.byref(Program(4, code)), 0, 0)  # PR_SET_SECCOMP

    return install


def filtered(folder):
    """Where a filter refuses ptrace(2), or kills for it, the program runs as with --direct, and it is said."""
    command = run_by_mvld(["/bin/sh", "-c", "exit 5"])
    for action in (0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x80000000, 0x30000):  # an error, kill, SIGSYS
        said_why(command, without(PTRACE, action))


def fails(folder):
    """What cannot be executed ends with another status than under env(1), or another reason; or what env(1) gives to the
    shell is not the shell's, or what the kernel refuses is run by our loader."""
    true, host = Path(os.path.realpath(shutil.which("true"))).read_bytes(), b"/lib64/ld-linux-x86-64.so.2"
    header = lambda at, value: true[:at] + bytes([value]) + true[at + 1:64]
    os.chdir(folder)  # the shell takes an ELF header's byte 62 for a redirection
    (folder / "folder" / "tool").mkdir(parents=True)
    (folder / "loop").symlink_to("loop")
    files = {"plain": (true, 0o755), "closed": (true, 0o644), "empty": (b"", 0o755), "junk": (b"\0\1\2\3" * 100, 0o755),
             "cut": (true[:64], 0o755), "machine": (header(18, 0xb7), 0o755), "object": (header(16, 1), 0o755),
             "headers": (header(54, 10), 0o755), "gone": (true.replace(host, host[:-1] + b"9"), 0o755),
             "of-folder": (b"#!%s\n" % bytes(folder), 0o755), "of-closed": (b"#!%s/closed\n" % bytes(folder), 0o755),
             "of-text": (b"#!/etc/passwd\n", 0o755), "of-itself": (b"#!%s/of-itself\n" % bytes(folder), 0o755),
             "of-none": (b"#!\necho $0; exit 3\n", 0o755), "no-line": (b"#!/bin/sh", 0o755)}
    for spaces in range(240, 250):  # where the kernel's buffer ends
        files[f"long{spaces}"] = (b"#!" + b"/" * spaces + b"bin/sh\necho $0; exit 3\n", 0o755)
        files[f"wide{spaces}"] = (b"#! /bin/echo " + b"x" * spaces + b"\n", 0o755)
        files[f"gap{spaces}"] = (b"#!" + b"/" * spaces + b"bin/sh -e\necho $0; exit 3\n", 0o755)
    last = "/bin/sh"
    for depth in range(7):
        files[f"nested{depth}"] = (b"#!%s\necho $0; exit 3\n" % os.fsencode(last), 0o755)
        last = str(folder / f"nested{depth}")
    for name, (content, mode) in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(mode)
    commands = [*files, "nowhere", "folder", "plain/x", "loop", "folder/tool", "x" * 300]
    path = {"PATH": f"{folder}/folder:/usr/bin:/bin"}
    for command in *(folder / name for name in commands), "/x" * 4000, "", "nowhere", "tool", "-x":
        plain, ours = (started([*way, "--", command], env=path) for way in (["env"], [MVLD, "run"]))
        reasons = [done.stderr.decode(errors="replace").strip().rsplit(": ", 1)[-1] for done in (plain, ours)]
        under_mvld = plain.returncode not in (126, 127) and not reasons[0]  # what is said then is a matter of taste
        check((plain.returncode, plain.stdout) == (ours.returncode, ours.stdout) and (under_mvld or reasons[0] == reasons[1]),
              f"{command}: plainly {plain}, by mvld {ours}")
    with open(folder / "plain", "ab"):
        done = started([MVLD, "run", "--", folder / "plain"])
        check(done.returncode == 126 and b"Text file busy" in done.stderr, f"written to: {done}")


def little(folder):
    """A program that works plainly where little memory is allowed does not by `mvld run`, or by a wrapper."""
    status = ["/bin/sh", "-c", "exit 5"]
    least = next(size for size in range(64, 4096, 4) if started(["/bin/true"], limited(resource.RLIMIT_DATA, size << 10)).returncode == 0)
    done = started([STARTER, "/bin/true"], limited(resource.RLIMIT_DATA, least << 10))
    check(done.returncode == 0, f"{least} KB, by a wrapper: {done}")
    for limit, enough, sizes in ((resource.RLIMIT_DATA, 1024, (256, 320, 512, 1023, 1024, 2048)),
                                 (resource.RLIMIT_AS, 8192, (3500, 8191, 8192, 16384))):
        for size, options in product(sizes, ((), ("--direct",), ("--children",))):
            done = started(run_by_mvld(status, *options), limited(limit, size << 10))
            ran = b" objects\n" in done.stderr
            check(done.returncode == 5 and ran == (size >= enough) and ran != (b"without mvld: it may have less" in done.stderr),
                  f"{size} KB, {options}: {done}")
    for tool in ("pipeline", "build"):
        done = started([MVLD, tool, *status[:1]], limited(resource.RLIMIT_DATA, 512 << 10), env={"XDG_CACHE_HOME": str(folder)})
        check(done.returncode == (tool == "build") and b"out of memory" not in done.stderr, f"{tool}: {done}")


def narrow(folder):
    """A program of 32 bits is executed as ever, with its interpreter or without."""
    def write(name, interpreter=b""):
        code = bytes.fromhex("b801000000bb2a000000cd80")  # mov $1, %eax; mov $42, %ebx; int $0x80: exit(42)
        n, text = (2 if interpreter else 1), 0x08048000
        at = 52 + 32 * n
        size = at + len(code) + len(interpreter)
        data = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, text + at, 52, 0, 0, 52, 32, n, 40, 0, 0)
        if interpreter:
            place = at + len(code)
            data += struct.pack("<8I", 3, place, text + place, text + place, len(interpreter), len(interpreter), 4, 1)
        data += struct.pack("<8I", 1, 0, text, text, size, size, 5, 4096) + code + interpreter
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o755)
        return folder / name

    alone = write("alone")
    try:
        plain = started([alone])
    except OSError as error:
        support.skip(f"this kernel runs no programs of 32 bits: {error}")
    check(plain.returncode == 42, f"the fixture: {plain}")
    for program in alone, write("interpreted", bytes(alone) + b"\0"):
        done = started(run_by_mvld([program]))
        check(done.returncode == 42 and b" objects\n" not in done.stderr, f"{program}: {done}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](scratch)
