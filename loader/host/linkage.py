# SPDX-License-Identifier: MIT
"""linkage.py symbols|versions HOST_LOADER...: the host loader's dynamic symbols, for a linker.

The loader is an input of nearly every link: libc.so is a linker script that ends
with AS_NEEDED(/lib64/ld-linux-x86-64.so.2), and libc.so.6 needs it by that name.
When we stand in that place, linkers read our dynamic symbols in the place of the
host loader's.  So we have the same ones: name, version, type, size, and where an
object's alignment and section matter for a COPY relocation, those, too.  What is
linked on such a machine is then byte for byte what it is elsewhere.

Nothing is ever bound to these definitions: in a process the host loader resolves
symbols, and we are not among its objects.  They take no room: all functions are one
trap, all objects lie over each other.  OURS are defined in hook.c, for debuggers.

`symbols` writes assembly, `versions` a version script, for the first of the files
that is there (and is not mvld itself), empty ones when none is.
"""
import struct
import sys
from pathlib import Path

SHT_DYNSYM, SHT_VERDEF, SHT_VERSYM = 11, 0x6ffffffd, 0x6fffffff
SHF_WRITE, SHF_EXECINSTR, SHN_ABS = 1, 4, 0xfff1
OURS = ("_dl_debug_state", "_r_debug")
TYPES = {0: "notype", 1: "object", 2: "function"}


def text(data, at):
    return data[at:data.index(b"\0", at)].decode()


class Elf:
    def __init__(self, path):
        self.data = Path(path).read_bytes()
        start, = struct.unpack_from("<Q", self.data, 40)
        size, n, names = struct.unpack_from("<3H", self.data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + size * i)
                         for i in range(n)]
        self.names = [text(self.data, self.sections[names][4] + s[0]) for s in self.sections]

    def section(self, kind):
        return next(s for s in self.sections if s[1] == kind)

    def versions(self):
        """Index -> name, without the file's own."""
        section = self.section(SHT_VERDEF)
        at, found = section[4], {}
        while True:
            _, flags, index, _, _, aux, following = struct.unpack_from("<4H3I", self.data, at)
            name, = struct.unpack_from("<I", self.data, at + aux)
            if not flags & 1:
                found[index] = text(self.data, self.sections[section[6]][4] + name)
            if not following:
                return found
            at += following

    def symbols(self):
        """(name, version, type, size, value, section) of each that is defined."""
        versions, table = self.versions(), self.section(SHT_DYNSYM)
        for i in range(1, table[5] // 24):
            name, info, _, section, value, size = struct.unpack_from(
                "<IBBHQQ", self.data, table[4] + 24 * i)
            index, = struct.unpack_from("<H", self.data, self.section(SHT_VERSYM)[4] + 2 * i)
            if section and section != SHN_ABS and index & 0x7fff in versions:
                yield (text(self.data, self.sections[table[6]][4] + name), versions[index & 0x7fff],
                       TYPES.get(info & 15, "notype"), size, value, section)


def assembly(elf):
    places = {"linkage_code": ('.text.unlikely, "ax"', "ud2"),
              "linkage_constants": ('.rodata, "a"', ".zero 32"),
              "linkage_relro": ('.data.rel.ro, "aw"', ".zero 32"),
              "linkage_data": ('.bss, "aw", @nobits', ".zero 32")}
    print("/* Made by linkage.py; nothing is ever bound to these. */")
    for label, (section, content) in places.items():
        print(f".section {section}\n.balign 32\n{label}: {content}")
    for name, _, kind, size, value, section in elf.symbols():
        flags = elf.sections[section][2]
        base = ("linkage_code" if flags & SHF_EXECINSTR else
                "linkage_constants" if not flags & SHF_WRITE else
                "linkage_relro" if elf.names[section] == ".data.rel.ro" else "linkage_data")
        offset = 0 if base == "linkage_code" else value % 32
        if name not in OURS:
            print(f".globl {name}\n.type {name}, @{kind}\n.size {name}, {size}\n"
                  f".set {name}, {base} + {offset}")
    print('.section .note.GNU-stack, "", @progbits')


def script(elf):
    print("/* Made by linkage.py. */")
    symbols = list(elf.symbols())
    for version in elf.versions().values():
        names = [name for name, of, *_ in symbols if of == version]
        print(version, "{", " ".join(name + ";" for name in sorted(names)), "};")


def is_host_loader(path):
    """Musl's has no versions, and nobody links with it by this name."""
    return (Path(path).is_file() and b"\0mvld\0" not in Path(path).read_bytes() and
            any(section[1] == SHT_VERDEF for section in Elf(path).sections))


def main():
    path = next(filter(is_host_loader, sys.argv[2:]), None)
    if path:
        (assembly if sys.argv[1] == "symbols" else script)(Elf(path))
    elif sys.argv[1] == "symbols":
        print('.section .note.GNU-stack, "", @progbits')
    else:
        print("{ };")


if __name__ == "__main__":
    main()
