# SPDX-License-Identifier: MIT
"""known_sites.py HEADER HOST_LOADER...: where a host loader calls mmap, as a C table.

hosttext.c looks for these calls in all of the host loader's code.  For the first
of these files that is there (and is not mvld itself) the answer is known
beforehand, by its build-id; for any other, and when none is there, it searches.
"""
import re
import struct
import sys
from pathlib import Path

SITE = b"\xb8\x09\x00\x00\x00\x0f\x05"  # movl $9, %eax; syscall
PT_LOAD, PT_NOTE, PF_X = 1, 4, 1


def notes(data, headers):
    """(name, type, description) of each note."""
    for kind, _, offset, _, _, size, _, _ in headers:
        at, end = offset, offset + size
        while kind == PT_NOTE and at + 12 <= end:
            name_size, desc_size, note = struct.unpack_from("<3I", data, at)
            name, desc = at + 12, at + 12 + (name_size + 3) // 4 * 4
            yield data[name:name + name_size], note, data[desc:desc + desc_size]
            at = desc + (desc_size + 3) // 4 * 4


def look(path):
    """Build-id and addresses as linked; None when this is no host loader."""
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
    return build_id, [address + at.start()
                      for kind, flags, offset, address, _, size, _, _ in headers
                      if kind == PT_LOAD and flags & PF_X
                      for at in re.finditer(re.escape(SITE), data[offset:offset + size])]


known = next(filter(None, (look(path) for path in map(Path, sys.argv[2:]) if path.is_file())),
             (b"", []))
Path(sys.argv[1]).write_text(
    "static const uint8_t known_build_id[] = {%s};\n" % (", ".join(map(str, known[0])) or "0") +
    "static const uint32_t known_sites[] = {%s};\n" % (", ".join(map(hex, known[1])) or "0"))
