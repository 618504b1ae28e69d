# SPDX-License-Identifier: MIT
"""Who was started with mvld as its loader, told by the kernel.

fanotify asks us before the kernel opens a watched file.  The loader's file is
opened for execution inside execve, after the program's own: at that moment the
process that we are told about is still the one that called execve, and
/proc/PID/syscall says with which arguments.  So every start of a program is
seen with its name, whoever started it: also set-user-ID programs, programs with
an empty environment, in another root or PID namespace, where nothing that mvld
itself writes would arrive.  A pass is watched in the same way, and so is the folder of each
snapshot, because who starts from one needs no pass; by the time that they are opened,
the process has started with mvld.

The process waits until we answer.  Closing the group (also by dying) lets all go on.
"""
import ctypes
import os
import struct
import threading
import time

FAN_CLOEXEC, FAN_CLASS_CONTENT, FAN_REPORT_TID = 0x1, 0x4, 0x100
FAN_MARK_ADD, FAN_OPEN_PERM, FAN_OPEN_EXEC_PERM, FAN_ALLOW = 0x1, 0x10000, 0x40000, 0x1
FAN_EVENT_ON_CHILD, FAN_ONDIR = 0x08000000, 0x40000000
IMAGE = "an image"
AT_FDCWD = -100
EVENT = struct.Struct("=IBBHQii")
SYS_EXECVE, SYS_EXECVEAT = 59, 322


class Witness:
    """started: names of programs, one for each execve.  opened: (file, program) pairs, in which
    the file of a snapshot in the folder `snapshots` is IMAGE."""

    def __init__(self, loader, files, images, itself=False):
        """`itself`: `mvld run` starts programs; each opens the loader itself, behind its execve.  May raise OSError: the right to watch is root's, outside of user namespaces."""
        self.started, self.opened = [], []
        self.names = {}  # the last program of a thread
        self.files_of = {}  # by argv[0]: the executed file of a process that opened the loader itself
        libc = ctypes.CDLL(None, use_errno=True)
        self.group = libc.fanotify_init(FAN_CLOEXEC | FAN_CLASS_CONTENT | FAN_REPORT_TID,
                                        os.O_RDONLY | os.O_CLOEXEC)
        if self.group < 0:
            raise OSError(ctypes.get_errno(), "fanotify_init: " + os.strerror(ctypes.get_errno()))
        marks = [(loader, FAN_OPEN_PERM if itself else FAN_OPEN_EXEC_PERM), *((f, FAN_OPEN_PERM) for f in files),
                 (images, FAN_OPEN_PERM | FAN_EVENT_ON_CHILD | FAN_ONDIR)]
        for path, mask in marks:
            if libc.fanotify_mark(self.group, FAN_MARK_ADD, ctypes.c_uint64(mask), AT_FDCWD,
                                  os.fsencode(path)) != 0:
                error = ctypes.get_errno()
                os.close(self.group)
                raise OSError(error, f"fanotify_mark: {os.strerror(error)}")
        self.loader = os.stat(loader)
        self.files = {(os.stat(f).st_dev, os.stat(f).st_ino): os.path.basename(f) for f in files}
        threading.Thread(target=self.serve, daemon=True).start()

    def forget(self):
        self.started.clear()
        self.files_of.clear()
        self.opened.clear()

    def serve(self):
        while True:
            data = os.read(self.group, 8192)
            while data:
                length, _, _, _, mask, fd, tid = EVENT.unpack_from(data)
                data = data[length:]
                try:
                    self.note(mask, fd, tid)
                finally:
                    os.write(self.group, struct.pack("=iI", fd, FAN_ALLOW))
                    os.close(fd)

    def note(self, mask, fd, tid):
        if mask & FAN_OPEN_EXEC_PERM:
            self.names[tid] = name_in_execve(tid)
            self.started.append(self.names[tid])
            return
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) == (self.loader.st_dev, self.loader.st_ino):
            self.names[tid], file = executed(tid)
            self.files_of[self.names[tid]] = file
            self.started.append(self.names[tid])
        else:
            name = self.files.get((status.st_dev, status.st_ino), IMAGE)
            self.opened.append((name, self.names.get(tid, "?")))


def executed(tid):
    """argv[0] without folders, and the file."""
    try:
        with open(f"/proc/{tid}/cmdline", "rb") as file:
            return os.path.basename(os.fsdecode(file.read(4096).split(b"\0")[0])), os.readlink(f"/proc/{tid}/exe")
    except OSError:
        return "?", "?"


def name_in_execve(tid):
    """The last part of the path that the thread hands to execve or execveat."""
    try:
        words = system_call(tid)
        number, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
        at = {SYS_EXECVE: 0, SYS_EXECVEAT: 1}.get(number)
        if at is None:
            return "?"
        path = string_of(tid, arguments[at])
        if not path:  # fexecve
            path = os.readlink(f"/proc/{tid}/fd/{arguments[0]}")
        return os.path.basename(path)
    except (OSError, ValueError, IndexError):
        return "?"


def system_call(tid):
    """Number and arguments.  We may be told before the thread waits: until then it is "running"."""
    for _ in range(2000):
        with open(f"/proc/{tid}/syscall") as file:
            words = file.read().split()
        if words != ["running"]:
            break
        time.sleep(0.0005)
    return words


def string_of(tid, address):
    """A string of at most a path's length in another process; it may end at a page's end."""
    text = b""
    with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
        while b"\0" not in text and len(text) < 4096:
            memory.seek(address + len(text))
            text += memory.read(4096 - (address + len(text)) % 4096)
    return os.fsdecode(text.split(b"\0")[0])
