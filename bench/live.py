# SPDX-License-Identifier: MIT
"""Looks at the code of a running process: what stands at the call sites of a
function now, beside what the linker wrote into the file."""
import os
import re
import subprocess
from pathlib import Path


def _objdump(*arguments):
    text = subprocess.run(["objdump", "--insn-width=16", *map(str, arguments)], check=True,
                          capture_output=True, text=True, timeout=30).stdout
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t(.*)", line)
        if match:
            yield (int(match[1], 16), bytes.fromhex(match[2]),
                   " ".join(match[3].split("#")[0].split()))


class LiveProcess:
    """A process that stands still while it is looked at."""

    def __init__(self, pid):
        self.pid = pid
        self.bias = {}   # path -> run-time address minus linked address
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/") and int(fields[2], 16) == 0:
                # Our objects' first segment is linked at 0 (PIE and shared objects).
                self.bias.setdefault(fields[5], int(fields[0].split("-")[0], 16))
        self._names = None

    def read(self, address, length):
        fd = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(fd, length, address)
        finally:
            os.close(fd)

    def name_of(self, address, folder):
        """The function of an object in `folder` that starts at the address, or the address."""
        if self._names is None:
            self._names = {}
            for path, bias in self.bias.items():
                if not path.startswith(str(folder)):
                    continue
                symbols = subprocess.run(["nm", "--defined-only", path], capture_output=True,
                                         text=True, timeout=30).stdout
                for line in symbols.splitlines():
                    value, kind, name = line.split()[:3]
                    if kind in "tTwW":
                        self._names.setdefault(bias + int(value, 16), name)
        return self._names.get(address, hex(address))


def call_sites(path, function):
    """[(linked address, bytes, text)] of the calls and tail calls out of a function, as in
    the file."""
    instructions = list(_objdump("-d", f"--disassemble={function}", path))
    if not instructions:
        raise RuntimeError(f"{function} has no code in {path}")
    low, high = instructions[0][0], instructions[-1][0]
    sites = []
    for address, code, text in instructions:
        match = re.match(r"(?:\S+ )?(call|jmp)\s+(?:\*\S+|([0-9a-f]+))\s*(<.*>)?", text)
        if match and not (match[2] and low <= int(match[2], 16) <= high):
            sites.append((address, code, text))
    return sites


def instruction_at(process, path, address, folder):
    """(bytes, text) of the instruction that stands at a linked address of `path` now."""
    here = process.bias[str(path)] + address
    raw = Path(f"{folder}/.live")
    raw.write_bytes(process.read(here, 16))
    _, code, text = next(_objdump("-D", "-b", "binary", "-m", "i386:x86-64",
                                  f"--adjust-vma={here:#x}", raw))
    raw.unlink()
    target = re.match(r"(.*\b(?:call|jmp)\s+)0x([0-9a-f]+)$", text)
    if target:
        text = target[1] + process.name_of(int(target[2], 16), folder)
    return code, " ".join(text.split())
