# SPDX-License-Identifier: MIT
"""What direct-calls did to a program's code, read from its memory.

dump.so is preloaded, writes all objects' memory before main, and ends the program.  Code is
compared with the file, and whatever differs is decoded here once more, independently:
objdump says where instructions begin, the file where the PLT leads, the memory what the slots
hold.
"""
import bisect
import re
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

# tail of the instruction before -> the same bytes after: (opcode, opcode, distance at)
FORMS = [(b"\xe8", b"\xe8", 1, 5), (b"\xe9", b"\xe9", 1, 5), (b"\xff\x15", b"\x67\xe8", 2, 6),
         (b"\xff\x25", b"\xe9", 1, 6)]
FORMS += [(bytes([0x0f, 0x80 + c]), bytes([0x0f, 0x80 + c]), 2, 6) for c in range(16)]


class Object:
    def __init__(self, name, bias):
        self.name, self.bias, self.loads = name, bias, []
        self._starts = None

    def holds(self, address):
        return any(self.bias + start <= address < self.bias + start + len(data)
                   for start, data, _ in self.loads)

    def read(self, address, size):
        for start, data, _ in self.loads:
            at = address - self.bias - start
            if 0 <= at < len(data):
                return data[at:at + size]
        return b""

    def instructions(self):
        """Where instructions begin, and how long they are."""
        if self._starts is None:
            text = subprocess.run(["objdump", "-d", "-w", "--insn-width=16", self.name],
                                  capture_output=True, text=True, check=True).stdout
            found = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", text, re.M)
            self._starts = [(int(at, 16), len(code) // 3) for at, code in found]
        return self._starts


def take(program, arguments=(), config="", dump=None, folder=None, **environment):
    """The objects of the program, as they are in memory before main, where it ends."""
    path = folder / "dump"
    preload = " ".join([str(dump), str(environment.pop("LD_PRELOAD", ""))]).strip()
    done = support.run([program, *arguments], config=config, DUMP=path, LD_PRELOAD=preload,
                       **environment)
    check(done.returncode == 0 and path.exists(), f"no dump of {program}\n{done.stderr}")
    objects, data, at = {}, path.read_bytes(), 0
    while at < len(data):
        end = data.index(b"\n", at)
        name, bias, start, size, flags = data[at:end].decode().split("|")
        size, at = int(size, 16), end + 1
        obj = objects.setdefault((name, bias), Object(name or str(program), int(bias, 16)))
        obj.loads.append((int(start, 16), data[at:at + size], int(flags, 16)))
        at += size
    return list(objects.values())


def file_loads(path):
    """(vaddr, bytes of the file) of each executable PT_LOAD."""
    data = Path(path).read_bytes()
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, flags, where, start, _, length = struct.unpack_from("<IIQQQQ", data,
                                                                  offset + i * size)
        if kind == 1 and flags & 1:
            yield start, data[where:where + length]


def entry_slot(obj, address):
    """The slot behind a PLT entry, as bytes of memory say (nobody changes the PLT)."""
    code = obj.read(address, 32)
    found = re.match(rb"(?:\xf3\x0f\x1e\xfa)?(?:\x41\xbb....)?\xf2?\xff\x25(....)", code, re.S)
    if not found:
        return None
    return address + found.end() + struct.unpack("<i", found.group(1))[0]


def decode(obj, address, before, after):
    """(slot, new target) of a changed instruction, or None."""
    for old, new, at, length in FORMS:
        b, a, start = before[-length:], after[-length:], address + len(before) - length
        if len(b) < length or not b.startswith(old) or not a.startswith(new) or \
                before[:-length] != after[:-length]:
            continue
        led = start + length + struct.unpack_from("<i", b, length - 4)[0]
        target = start + at + 4 + struct.unpack_from("<i", a, at)[0]
        if old == b"\xff\x25" and a[5] != 0x90:
            continue
        slot = led if old[0] == 0xff else entry_slot(obj, led)
        if slot:
            return slot, target
    return None


def changes(obj):
    """(address as linked, slot, target) of each instruction that is not the file's."""
    found = []
    for start, data in file_loads(obj.name):
        memory = obj.read(obj.bias + start, len(data))
        if memory == data:
            continue
        for at, length in obj.instructions():
            k = at - start
            if not 0 <= k < len(data) or memory[k:k + length] == data[k:k + length]:
                continue
            site = decode(obj, obj.bias + at, data[k:k + length], memory[k:k + length])
            check(site, f"{obj.name}: {at:x}: {data[k:k + length].hex()} became "
                        f"{memory[k:k + length].hex()}")
            found.append((at, *site))
        # Nothing outside of instructions changed either.
        spans = [(a - start, a - start + n) for a, n in obj.instructions()]
        starts = [s for s, _ in spans]
        for k in (k for k in range(0, len(data)) if memory[k] != data[k]):
            i = bisect.bisect_right(starts, k) - 1
            check(i >= 0 and k < spans[i][1], f"{obj.name}: a byte between instructions changed")
    return found


def end_of(objects, slot):
    """Where the host loader sends a call through `slot`: its value, and on through the
    executable's PLT entries."""
    for _ in range(4):
        obj = next(o for o in objects if o.holds(slot))
        value, = struct.unpack("<Q", obj.read(slot, 8))
        holder = next((o for o in objects if o.holds(value)), None)
        slot = entry_slot(holder, value) if holder is objects[0] else None
        if not slot:
            break
    return value


def place(objects, address):
    obj = next((o for o in objects if o.holds(address)), None)
    return (obj.name, address - obj.bias) if obj else address


def of_files(objects):
    """Not the vDSO, and not the host loader: mvld's hook is in it."""
    return [o for o in objects if Path(o.name).is_file() and "/ld-linux" not in o.name]


def direct_sites(objects):
    """{(object, site): (object, target)} of all that was changed."""
    return {(o.name, at): place(objects, target) for o in of_files(objects)
            for at, _, target in changes(o)}


def check_targets(objects):
    """In a program without lazy binding: each site has the target of its slot."""
    n = 0
    for o in of_files(objects):
        for at, slot, target in changes(o):
            want = end_of(objects, slot) if slot else target
            check(target == want, f"{o.name}: {at:x} leads to {place(objects, target)}, its slot "
                                  f"to {place(objects, want)}")
            n += 1
    return n
