#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a spin lock costs: inode_get_bytes() of four kernels, a lock, two reads and a release, run in user space.

    figures.py [--version 6.1] [--at FOLDER]

`one` and `many` are the text of the booted kernel `multiverse`, committed, as QEMU's monitor saved it; `stock` and
`SMP=n` are linked of the objects of kernels so configured, with their return thunks made `ret`, as a kernel does when it
starts.  Instructions: callgrind, less those of a call of nothing.  Times: medians of interleaved samples.
"""
import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import build

THUNK = ".globl __x86_return_thunk, nothing\n.text\n__x86_return_thunk: ret\nnothing: ret\n"


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)


def settle_returns(code, start, thunk):
    """`jmp __x86_return_thunk` becomes `ret; int3...`."""
    code = bytearray(code)
    for at in range(len(code) - 4):
        if code[at] == 0xe9 and start + at + 5 + int.from_bytes(code[at + 1:at + 5], "little", signed=True) == thunk:
            code[at:at + 5] = b"\xc3\xcc\xcc\xcc\xcc"
    return bytes(code)


def link(name, objects, at):
    """The objects' text as one file: FILE:OFFSET of inode_get_bytes, and of nothing."""
    (at / "thunk.s").write_text(THUNK)
    output("as", at / "thunk.s", "-o", at / "thunk.o")
    (at / "text.lds").write_text("SECTIONS { .text 0x1000000 : { *(.text) *(.spinlock.text) } }")
    elf, raw = at / f"{name}.elf", at / f"{name}.raw"
    output("ld", "-T", at / "text.lds", "-e", "0", "--unresolved-symbols=ignore-all", *objects, at / "thunk.o", "-o", elf)
    output("objcopy", "-O", "binary", "-j", ".text", elf, raw)
    symbols = dict((n, int(a, 16)) for a, n in re.findall(r"^(\w+) \w (\S+)$", output("nm", elf).stdout, re.M))
    raw.write_bytes(settle_returns(raw.read_bytes(), 0x1000000, symbols["__x86_return_thunk"]))
    return [f"{raw}:{symbols[s] - 0x1000000:#x}" for s in ("inode_get_bytes", "nothing")]


def instructions(native, what, at):
    def total(calls):
        said = output("valgrind", "--tool=callgrind", f"--callgrind-out-file={at}/callgrind", native, -calls, what)
        return int(re.search(r"Collected : (\d+)", said.stderr)[1])
    return (total(3000) - total(1000)) / 2000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="6.1")
    parser.add_argument("--at", default="/var/tmp/mvld-kernel", type=Path)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as at:
        at = Path(at)
        native = at / "native"
        output("gcc", "-O2", build.ROOM / "native.c", "-o", native)
        of = {c: o.at / f"{o.version}-{c}" for c in ("stock", "one", "multiverse")}
        tree = build.prepare(o.version, o.at)
        for config, objects in ("stock", ["fs/stat.o", "kernel/locking/spinlock.o"]), ("one", ["fs/stat.o"]):
            build.configure(tree, of[config], config, 2)
            build.make(tree, of[config], 2, *objects, log=of[config] / "build.log")
        stock, nothing = link("stock", [of["stock"] / "fs/stat.o", of["stock"] / "kernel/locking/spinlock.o"], at)
        alone, _ = link("alone", [of["one"] / "fs/stat.o"], at)
        what = {"SMP=n": alone, "committed for one": build.dump(of["multiverse"], 1), "stock": stock,
                "committed for many": build.dump(of["multiverse"], 2), "nothing": nothing}
        times = [float(t) for t in output(native, 20001, *what.values()).stdout.split()]
        none = instructions(native, nothing, at)
        for (name, text), time in zip(what.items(), times):
            print(f"{name:20} {instructions(native, text, at) - none:6.1f} instructions  {time:6.2f} ns")


if __name__ == "__main__":
    main()
