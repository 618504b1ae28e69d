# SPDX-License-Identifier: MIT
"""known_sites.py BUILD_ID HEADER STUBS HOST_LOADER...: which host loader mvld is built beside (its build-id),
places in its code, as C tables, and code that stands in for some of them.

host/text.c looks for calls of mmap in all of the host loader's code.  For the first
of these files that is there (and is not mvld itself) the answer is known
beforehand, by its build-id; for any other, and when none is there, it searches.

Where the host loader asks cpuid is known here only, because that takes more than to look for
bytes: objdump tells where instructions begin.  A cpuid has two bytes and a jump five, so the
jump replaces instructions before it:

    b8 06 00 00 80    movl $0x80000006, %eax          44 89 e0    movl %r12d, %eax
    0f a2             cpuid                           89 f1       movl %esi, %ecx
                                                      0f a2       cpuid

and the stub begins with them.  They are only such as do the same elsewhere.  One that is five bytes
long alone leaves everybody who branches behind it what was there.  Where it takes several,
nobody may branch between them: neither a branch of all the code, nor a table of distances, which
is whatever begins where some code takes an address.
"""
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

SITE = b"\xb8\x09\x00\x00\x00\x0f\x05"  # movl $9, %eax; syscall
PT_LOAD, PT_NOTE, PF_X = 1, 4, 1

JUMP = 5
CPUID = b"\x0f\xa2"
# What does the same elsewhere, when no operand counts from %rip.
MOVABLE = re.compile(r"(mov[lbq]?|xor|lea|add|sub|set\w+) (?!.*\(%rip\)).*")
FLAGS_READ = re.compile(r"(j(?!mp)|set|cmov|adc|sbb|rc[lr]|lahf|pushf|loop)")
FLAGS_LOST = re.compile(r"(cmp|test|and|or|xor|add|sub|neg|imul|jmp|call|ret)[bwlq]?\b")
MOVED = 24  # bytes at most
UNKNOWN = -1  # the leaf is in a register, as that of intel_check_word and handle_intel, which ask leaf 4 three dozen times
# What is asked again and again, so that it pays to remember it without an earlier process
# (is_asked_again in cpuid.c).
AGAIN = {4, 0x80000000, 0x80000005, 0x80000006, UNKNOWN}
# Only handle_amd asks these, and it is called a dozen times.  Functions that run once
# lie in other pages, and to copy a page costs as much as they would save.
DECISIVE = {0x80000005, 0x80000006}
PAGE = 4096
SITES = 64  # CPUID_SITES


def notes(data, headers):
    """(name, type, description) of each note."""
    for kind, _, offset, _, _, size, _, _ in headers:
        at, end = offset, offset + size
        while kind == PT_NOTE and at + 12 <= end:
            name_size, desc_size, note = struct.unpack_from("<3I", data, at)
            name, desc = at + 12, at + 12 + (name_size + 3) // 4 * 4
            yield data[name:name + name_size], note, data[desc:desc + desc_size]
            at = desc + (desc_size + 3) // 4 * 4


def instructions(path):
    """(address, "mnemonic operands") of all code; nothing without GNU's objdump."""
    try:
        done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], text=True,
                              env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    found = (re.match(r" *([0-9a-f]+):\t(.*)", line) for line in done.stdout.splitlines())
    return [(int(m[1], 16), " ".join(m[2].split())) for m in found if m]


class Memory:
    """The file as it is linked."""

    def __init__(self, data, headers):
        self.data = data
        self.loads = [h[1:6] for h in headers if h[0] == PT_LOAD]

    def bytes(self, at, size):
        """Less where the file's part of a segment ends."""
        for _, offset, address, _, length in self.loads:
            if address <= at < address + length:
                at += offset - address
                return self.data[at:min(at + size, offset + length)]
        return b""

    def is_code(self, at):
        return any(flags & PF_X and address <= at < address + length
                   for flags, _, address, _, length in self.loads)


def branched_to(code, memory):
    """Every address to which a branch, a call or a table may lead; rather too many."""
    targets = set()
    for _, text in code:
        branch = re.match(r"(?:bnd |notrack )*(?:j\w+|call|loop\w*|xbegin)[a-z,]* (?:0x)?([0-9a-f]+)\b", text)
        taken = re.match(r"lea .*# ([0-9a-f]+)\b", text)
        if branch:
            targets.add(int(branch[1], 16))
        if not taken:
            continue
        table = int(taken[1], 16)
        targets.add(table)
        for distance, in struct.iter_unpack("<i", memory.bytes(table, PAGE)[:PAGE // 4 * 4]
                                            if not memory.is_code(table) else b""):
            if not memory.is_code(table + distance):
                break
            targets.add(table + distance)
    return targets


def replaced(code, i, targets):
    """Index of the first of the instructions that the stub of code[i], a cpuid, begins with; None: there
    is no room for a jump."""
    at, after = code[i][0], code[i][0] + len(CPUID)
    for first in range(i - 1, max(i - 6, -1), -1):
        start, text = code[first]
        if not MOVABLE.fullmatch(text) or at - start > MOVED:
            return None
        covered = {address for address, _ in code[first + 1:i + 1] if address < start + JUMP}
        if after - start >= JUMP and not covered & targets:
            return first
    return None


def keeps_flags(code, i):
    """Whether somebody may read, behind code[i], flags of before it."""
    for _, text in code[i + 1:i + 40]:
        if FLAGS_READ.match(text):
            return True
        if FLAGS_LOST.match(text):
            return False
    return True


def questions(path, memory):
    """(address, bytes before the cpuid, whether it pays without an earlier process) of each cpuid to
    whose stub a jump can lead."""
    code = instructions(path)
    targets = branched_to(code, memory)
    found = []
    for i, (at, text) in enumerate(code):
        first = replaced(code, i, targets) if text == "cpuid" else None
        if first is None or memory.bytes(at, 2) != CPUID or keeps_flags(code, i):
            continue
        start = code[first][0]
        leaf = re.findall(r"\bmov \$0x([0-9a-f]+),%eax", " ".join(text for _, text in code[first:i]))
        found.append((start, memory.bytes(start, at - start), int(leaf[0], 16) if leaf else UNKNOWN))
    pages = {at // PAGE for at, _, leaf in found if leaf in DECISIVE}
    return [(at, before, leaf in AGAIN and {at // PAGE, (at + JUMP - 1) // PAGE} <= pages)
            for at, before, leaf in found][:SITES]


def look(path):
    """Build-id, calls of mmap, questions, as linked; None when this is no host loader."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    start, = struct.unpack_from("<Q", data, 32)
    n, = struct.unpack_from("<H", data, 56)
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + 56 * i) for i in range(n)]
    found = {(name, kind): desc for name, kind, desc in notes(data, headers)}
    build_id = found.get((b"GNU\0", 3))
    if not build_id or any(name == b"mvld\0" for name, _ in found):
        return None
    calls = [address + at.start()
             for kind, flags, offset, address, _, size, _, _ in headers
             if kind == PT_LOAD and flags & PF_X
             for at in re.finditer(re.escape(SITE), data[offset:offset + size])]
    return build_id, calls, questions(path, Memory(data, headers))


def c_table(kind, name, words, nothing="0"):
    return f"static const {kind} {name}[] = {{{', '.join(words) or nothing}}};\n"


known = next(filter(None, (look(path) for path in map(Path, sys.argv[4:]) if path.is_file())),
             (b"", [], []))
Path(sys.argv[1]).write_text(c_table("uint8_t", "known_build_id", map(str, known[0])))
Path(sys.argv[2]).write_text(
    c_table("uint32_t", "known_sites", map(hex, known[1])) +
    c_table("struct question", "known_questions",
            [f"{{{at:#x}, {len(before)}, {int(again)}}}" for at, before, again in known[2]],
            "{0, 0, 0}"))
# host/entry.S has the macro.
Path(sys.argv[3]).write_text("".join(f"    cpuid_stub {i}, {', '.join(map(hex, before))}\n"
                                     for i, (_, before, _) in enumerate(known[2])))
