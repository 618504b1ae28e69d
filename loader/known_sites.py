# SPDX-License-Identifier: MIT
"""known_sites.py HEADER HOST_LOADER...: places in a host loader's code, as C tables.

hosttext.c looks for calls of mmap in all of the host loader's code.  For the first
of these files that is there (and is not mvld itself) the answer is known
beforehand, by its build-id; for any other, and when none is there, it searches.

Where the host loader asks cpuid the same again and again is known here only, because
that takes more than to look for bytes: objdump tells where instructions begin.
"""
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

SITE = b"\xb8\x09\x00\x00\x00\x0f\x05"  # movl $9, %eax; syscall
PT_LOAD, PT_NOTE, PF_X = 1, 4, 1

# Questions whose answer tells neither the CPU's number nor the time (hostsites.c).
LEAVES = {0x80000000, 0x80000005, 0x80000006, 0x8000001d}
# Only handle_amd asks these, and it is called a dozen times.  Functions that run once
# lie in other pages, and to copy a page costs as much as they would save.
DECISIVE = {0x80000005, 0x80000006}
PAGE = 4096


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


def questions(path):
    """(address, leaf, subleaf or -1) of each

        b8 <leaf>         movl $leaf, %eax
        [b9 <subleaf>     movl $subleaf, %ecx]
        0f a2             cpuid

    in the pages where that pays."""
    code, found = instructions(path), []
    for i, (at, text) in enumerate(code):
        eax = re.fullmatch(r"mov \$0x([0-9a-f]+),%eax", text)
        if not eax or int(eax[1], 16) not in LEAVES:
            continue
        rest = code[i + 1:i + 3]
        ecx = rest and re.fullmatch(r"mov \$0x([0-9a-f]+),%ecx", rest[0][1])
        subleaf = int(ecx[1], 16) if ecx else -1
        expected = [(at + 5, rest[0][1])] * bool(ecx) + [(at + 5 + 5 * bool(ecx), "cpuid")]
        if rest[:len(expected)] == expected and (ecx or eax[1] != "8000001d"):
            found.append((at, int(eax[1], 16), subleaf))
    pages = {at // PAGE for at, leaf, _ in found if leaf in DECISIVE}
    return [site for site in found if site[0] // PAGE in pages and (site[0] + 4) // PAGE in pages]


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
    return build_id, calls, questions(path)


def c_table(kind, name, words, nothing="0"):
    return f"static const {kind} {name}[] = {{{', '.join(words) or nothing}}};\n"


known = next(filter(None, (look(path) for path in map(Path, sys.argv[2:]) if path.is_file())),
             (b"", [], []))
Path(sys.argv[1]).write_text(
    c_table("uint8_t", "known_build_id", map(str, known[0])) +
    c_table("uint32_t", "known_sites", map(hex, known[1])) +
    c_table("struct question", "known_questions",
            (f"{{{at:#x}, {leaf:#x}, {subleaf}}}" for at, leaf, subleaf in known[2]), "{0, 0, 0}"))
