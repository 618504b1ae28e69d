#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a function costs in kernels of several configurations, run in user space, and the bytes that are there.

    figures.py [--version 6.1] [--at FOLDER] [--bytes] [--no-times] [FUNCTION...]
    figures.py --start     instead: the engine's work at the start, on the kernel `multiverse` with all reverted

The kernel `multiverse`, which build.py has built, is booted with one or two processors, and its memory saved by QEMU's
monitor when everything is committed.  Others are linked of the objects that matter, and patched as they are when they
start: returns, calls through pv_ops, static branches, lock prefixes.  Instructions: counted in single steps, less those
of a call of nothing.  Times: medians of interleaved samples.
"""
import argparse
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import build
import user_space

# The kernels, as (name, configuration, processors).
BOTH = [("stock", "stock", 2), ("multiverse", "multiverse", 2)]
LOCKS = [("SMP=n", "one", 1), ("multiverse, for one", "multiverse", 1), ("static branch, for one", "static", 1),
         ("stock, for one", "stock", 1), ("stock", "stock", 2), ("multiverse, for many", "multiverse", 2),
         ("static branch, for many", "static", 2)]
# function: (its arguments, see native.c; the kernels; the objects; what it does)
FUNCTIONS = {
    "inode_get_bytes": ("b", LOCKS, ("fs/stat.o", "kernel/locking/spinlock.o"), "a spin lock, two reads, the release"),
    "ptep_set_access_flags": ("0,0,b,n,1", BOTH, ("arch/x86/mm/pgtable.o", "arch/x86/kernel/paravirt.o"),
                              "a comparison, pv_ops.mmu.set_pte"),
    "rw_verify_area": ("1,b,0,1", BOTH, ("fs/read_write.o", "security/security.o"),
                       "of a write: the hook file_permission, to which nobody listens"),
}
AT = 0x1000000  # where objects are linked
THUNK = ".globl __x86_return_thunk\n.text\n__x86_return_thunk: ret\n"
SCRIPT = """SECTIONS { .image 0x1000000 : { *(.text .text.* *.text) *(.data .data.* .data..* .rodata .rodata.* .bss .bss.*)
    . = ALIGN(8); table = .; *(__jump_table) table_end = .; . = ALIGN(4); locks = .; *(.smp_locks) locks_end = .; } }"""
STARTS = 101
NOPS = {2: b"\x66\x90", 5: b"\x0f\x1f\x44\x00\x00"}


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)


class Linked:
    """Objects as one image, and what a kernel does to its code."""
    def __init__(self, objects, at, cpus):
        (at / "thunk.s").write_text(THUNK)
        (at / "image.lds").write_text(SCRIPT)
        output("as", at / "thunk.s", "-o", at / "thunk.o")
        elf, self.file = at / f"{cpus}.elf", at / f"{cpus}.image"
        one_file = [o for o in objects if o.exists()]
        output("ld", "-T", at / "image.lds", "-e", "0", "--unresolved-symbols=ignore-all", *one_file, at / "thunk.o", "-o", elf)
        output("objcopy", "-O", "binary", "-j", ".image", elf, self.file)
        self.symbols = {n: int(a, 16) for a, n in re.findall(r"^(\w+) \w (\S+)$", output("nm", elf).stdout, re.M)}
        self.code = bytearray(self.file.read_bytes())
        self.settle_calls()
        self.settle_branches(cpus)
        self.settle_locks(cpus)
        self.file.write_bytes(self.code)

    def number(self, form, at):
        return struct.unpack_from(form, self.code, at)[0]

    def settle_calls(self):
        """jmp __x86_return_thunk → ret; call *pv_ops+N(%rip) → call function; nop."""
        pointers, thunk = self.symbols.get("pv_ops", 0), self.symbols["__x86_return_thunk"]
        for at in range(len(self.code) - 8):
            if self.code[at] == 0xe9 and AT + at + 5 + self.number("<i", at + 1) == thunk:
                self.code[at:at + 5] = b"\xc3\xcc\xcc\xcc\xcc"
            to = AT + at + 6 + self.number("<i", at + 2)
            if self.code[at:at + 2] == b"\xff\x15" and pointers and pointers <= to < pointers + 1024:
                function = self.number("<Q", to - AT)
                self.code[at:at + 6] = b"\xe8" + struct.pack("<i", function - AT - at - 5) + b"\x90"

    def settle_branches(self, cpus):
        """A static branch is a jump if its key is not what is expected, else a NOP.  Keys of other objects are unknown."""
        for at in range(self.symbols["table"] - AT, self.symbols["table_end"] - AT, 16):
            key = AT + at + 8 + self.number("<q", at + 8)
            expected, key = key & 1, key & ~3
            if not AT <= key < AT + len(self.code):
                continue
            enabled = cpus > 1 if key == self.symbols.get("spinlock_many_cpus") else self.number("<i", key - AT) > 0
            code, target = at + self.number("<i", at), at + 4 + self.number("<i", at + 4)
            n = 2 if self.code[code] in (0xeb, 0x66) else 5
            leads = struct.pack("<b", target - code - 2) if n == 2 else struct.pack("<i", target - code - 5)
            self.code[code:code + n] = (b"\xeb" if n == 2 else b"\xe9") + leads if enabled != expected else NOPS[n]


    def settle_locks(self, cpus):
        """A kernel that starts with one processor makes a ds of each lock prefix, until a second one comes."""
        for at in range(self.symbols["locks"] - AT, self.symbols["locks_end"] - AT, 4) if cpus == 1 else ():
            prefix = at + self.number("<i", at)
            if not 0 <= prefix < len(self.code):  # code that a kernel drops after its start
                continue
            assert self.code[prefix] == 0xf0
            self.code[prefix] = 0x3e


class Kernels:
    def __init__(self, version, folder, at):
        self.version, self.folder, self.at = version, folder, at
        self.tree = build.prepare(version, folder)

    @staticmethod
    def dumped(out, cpus, name, tests=""):
        file = out / name
        if not file.exists() or file.stat().st_mtime < (out / "vmlinux").stat().st_mtime:
            build.dump(out, cpus, file, tests)
        return file

    def start(self):
        """The program start.c, with the engine as a kernel has it, and its arguments."""
        out, program = self.folder / f"{self.version}-multiverse", self.at / "start"
        output("gcc", *user_space.engine(), build.ROOM / "start.c", "-no-pie", "-o", program)
        symbols = build.addresses(out)
        return program, self.dumped(out, 2, "reverted.2", "reverted"), *(f"{symbols[name]:#x}" for name in (
            "_text", "vmlinux", "__start___ex_table", "__stop___ex_table", "__start_static_call_sites",
            "__stop_static_call_sites"))

    def image(self, config, cpus, function):
        """(file, {symbol: address}, the address where the file begins)"""
        out = self.folder / f"{self.version}-{config}"
        if config == "multiverse":
            file = self.dumped(out, cpus, f"image.{cpus}")
            symbols = build.addresses(out)
            return file, symbols, symbols["_text"]
        objects = [o for o in FUNCTIONS[function][2] if config != "one" or "spinlock" not in o]
        build.configure(self.tree, out, config, 2)
        build.make(self.tree, out, 2, *objects, log=out / "build.log")
        at = self.at / f"{config}.{function}"
        at.mkdir(exist_ok=True)
        linked = Linked([out / o for o in objects], at, cpus)
        return linked.file, linked.symbols, AT


def instructions(native, arguments, what):
    def total(calls):
        return int(output(native, -calls, arguments, what).stdout)
    return (total(300) - total(100)) / 200


def show_start(kernels):
    """Each start is a process, because a boot does it once."""
    command = kernels.start()
    bound, times = zip(*(map(int, output(*command).stdout.split()) for _ in range(STARTS)))
    print(f"{bound[0]} functions bound; least, median, most of {STARTS}: "
          + ", ".join(f"{sorted(times)[i] / 1e6:.2f}" for i in (0, STARTS // 2, -1)) + " ms")


def disassemble(image, name):
    file, symbols, start = image
    end = min(a for a in symbols.values() if a > symbols[name])
    text = output("objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64", f"--adjust-vma={start:#x}",
                  f"--start-address={symbols[name]:#x}", f"--stop-address={end:#x}", file).stdout
    print(re.sub(r"\A.*?>:\n", "", text, flags=re.S))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="6.1")
    parser.add_argument("--at", default="/var/tmp/mvld-kernel", type=Path)
    parser.add_argument("--bytes", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("function", nargs="*")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as at:
        at = Path(at)
        native, nothing = at / "native", at / "nothing"
        output("gcc", "-O2", build.ROOM / "native.c", "-o", native)
        nothing.write_bytes(b"\xc3")
        kernels = Kernels(o.version, o.at, at)
        quiet = os.environ.get("MVLD_QUIET", "").split()  # what lets a measurement be alone
        if o.start:
            show_start(kernels)
            return
        for name in o.function or FUNCTIONS:
            arguments, of, _, does = FUNCTIONS[name]
            of = [k for k in of if k[1] != "static" or o.version == "6.1"]  # the static branch is a patch for 6.1
            images = {shown: kernels.image(config, cpus, name) for shown, config, cpus in of}
            what = {shown: f"{file}:{symbols[name] - start:#x}" for shown, (file, symbols, start) in images.items()}
            what["nothing"] = f"{nothing}:0"
            print(f"{name}: {does}")
            none = instructions(native, arguments, what["nothing"])
            times = [""] * len(what)
            if not o.no_times:
                times = output(*quiet, native, 20001, arguments, *what.values()).stdout.split()
            for (shown, text), time in zip(what.items(), times):
                print(f"  {shown:24} {instructions(native, arguments, text) - none:6.1f} instructions  {time:>6} ns")
            for shown, image in images.items() if o.bytes else ():
                print(f"{name}, {shown}:")
                disassemble(image, name)


if __name__ == "__main__":
    main()
