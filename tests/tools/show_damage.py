# SPDX-License-Identifier: MIT
"""`mvld show` answers a damaged file with one sentence that names file and
offset, and exit code 1.

A failure means that damage was accepted, or that the sentence points elsewhere.
"""
import struct
import sys
from pathlib import Path

from support import compile_file, contains, equal, finish, run, scratch

mvld, fixture = sys.argv[1], sys.argv[2]


def section(image, name):
    """(offset, size) of a section."""
    shoff, = struct.unpack_from("<Q", image, 0x28)
    size, count, strings = struct.unpack_from("<HHH", image, 0x3a)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, shoff + i * size) for i in range(count)]
    for h in headers:
        start = headers[strings][4] + h[0]
        if image[start:image.index(b"\0", start)] == name.encode():
            return h[4], h[5]
    raise KeyError(name)


def program_header(image, kind):
    """Where the header of a segment of this type lies."""
    phoff, = struct.unpack_from("<Q", image, 0x20)
    count, = struct.unpack_from("<H", image, 0x38)
    return next(at for at in range(phoff, phoff + count * 56, 56) if struct.unpack_from("<I", image, at)[0] == kind)


with scratch() as folder:
    folder = Path(folder)
    pie = compile_file(folder / "pie", "-pie", fixture)
    good = pie.read_bytes()
    note = section(good, ".note.multiverse")[0] + 12 + 12
    switches = section(good, "multiverse_switches")[0]
    functions = section(good, "multiverse_functions")[0]
    sites = section(good, "multiverse_callsites")[0]

    def damage(offset, form, value, place, sentence):
        bad = bytearray(good)
        struct.pack_into(form, bad, offset, value)
        path = folder / "bad"
        path.write_bytes(bad)
        code, out, err = run(mvld, "show", path)
        equal((code, out), (1, ""), sentence)
        where = f"mvld show: {path}: " + ("" if place is None else f"offset 0x{place:x}: ")
        contains(err, where + sentence, "the sentence")
        equal(err.count("\n"), 1, "one line")

    damage(0, "4s", b"text", None, "not an ELF file")
    damage(0x12, "<H", 3, None, "not an ELF file for x86-64")
    damage(0x10, "<H", 1, None, "a relocatable object")
    damage(0x20, "<Q", 1 << 40, 0x20, "program headers lie outside the file")
    damage(note - 20, "<I", 1 << 30, None, "")  # n_descsz
    damage(note, "<I", 7, note, "descriptors of version 7")
    damage(note + 8, "<i", 0, note + 4, "the table of functions ends before it begins")
    damage(note + 24, "<i", 1 << 30, note + 20, "the table of switches")
    damage(switches, "<I", 0, switches, "a switch record of 0 bytes")
    damage(switches, "<I", 12, switches, "a switch record of 12 bytes")
    damage(switches, "<I", 1 << 20, switches, "a switch record of 1048576 bytes")
    damage(switches + 4, "<B", 3, switches + 4, "a switch of 3 bytes")
    damage(switches + 6, "<H", 5000, switches + 6, "the switch's name")
    damage(switches + 6, "<H", 0, switches + 6, "the switch's name")
    damage(switches + 8, "<i", 1 << 30, switches + 8, "the slot at address")
    damage(functions + 8, "<H", 60000, functions + 8, "60000 variants and 2 guards do not fit")
    damage(functions + 10, "<H", 1, functions + 24 + 16 + 8, "guards 1 to 2 of a function that")
    damage(functions + 12, "<i", 1 << 30, functions + 12, "1 bytes at address")
    damage(functions + 16, "<i", 0, functions + 16, "5 bytes at address")
    damage(functions + 24 + 4, "<I", 1 << 20, functions + 24, "1048576 bytes at address")
    damage(functions + 24 + 8, "<H", 9, functions + 24 + 8, "guards 9 to 10 of a function")
    damage(functions + 24 + 32 + 4, "<B", 5, functions + 24 + 32 + 4, "a guard of 5 bytes")
    damage(sites, "<i", 1 << 30, sites, "5 bytes at address")
    damage(sites + 4, "<i", 1 << 30, sites + 4, "the slot at address")

    # The dynamic section ends where it says so, whatever its size is said to be.
    want = run(mvld, "show", pie)
    for size in (1 << 64) - 1, (1 << 64) - 16, 1 << 63:
        bad = bytearray(good)
        struct.pack_into("<Q", bad, program_header(good, 2) + 32, size)
        pie.write_bytes(bad)
        equal(run(mvld, "show", pie), want, f"a dynamic section of {size} bytes")

    # Cut off anywhere, it is damaged or merely without names; it never crashes.
    for size in range(0, len(good), 397):
        (folder / "cut").write_bytes(good[:size])
        code, out, err = run(mvld, "show", folder / "cut")
        if code not in (0, 1):
            equal(code, 1, f"cut to {size} bytes: {err}")
finish()
