# SPDX-License-Identifier: MIT
"""`mvld show` reads descriptors of executables, shared objects, static and
stripped files, as text and as JSON.

A failure means that what it says differs from what points.S holds.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

from support import check, compile_file, contains, equal, finish, run, scratch

mvld, fixture = sys.argv[1], sys.argv[2]

# Every address is replaced by A: they differ by linker.
TEXT = """\
FILE: 2 switches, 3 variation points, 5 call sites
switch fast: 1 byte, unsigned, A
switch level: 4 bytes, signed, tracked, A
function depth: generic at A, entry pad at A
    variant A, when level in -2..3
    call site A in main+A: call, across two words
function step: generic at A, entry pad at A
    variant step.fast=0 at A, 3 bytes, when fast = 0
    variant step.fast=1 at A, 6 bytes, when fast = 1
    call site A in main+A: call
    call site A in main+A: call (relaxed)
function pointer hook: stub at A, variable A
    call site A in main+A: call
calls to outside of another object
    call site A in main+A: call
"""


def blocks(text):
    """Text without addresses, its blocks sorted: their order is the linker's."""
    text = re.sub(r"0x[0-9a-f]+", "A", text)
    found = re.split(r"\n(?=\S)", text.rstrip("\n"))
    return "\n".join(sorted(found))


def show(path, *options):
    code, out, err = run(mvld, "show", *options, path)
    equal((code, err), (0, ""), f"mvld show {path}")
    return out.replace(str(path), "FILE")


with scratch() as folder:
    folder = Path(folder)
    pie = compile_file(folder / "pie", "-pie", fixture)
    equal(blocks(show(pie)), blocks(TEXT), "a PIE")
    equal(blocks(show(compile_file(folder / "nopie", "-no-pie", fixture))), blocks(TEXT), "no-pie")
    # RELR packs RELATIVE relocations: slots hold their addends.
    relr = compile_file(folder / "relr", "-pie", "-Wl,-z,pack-relative-relocs", fixture)
    equal(blocks(show(relr)), blocks(TEXT), "a PIE with DT_RELR")

    # A static file knows that nobody defines `outside`.
    static = TEXT.replace("outside of another object", "nothing")
    equal(blocks(show(compile_file(folder / "static", "-static", fixture))), blocks(static),
          "a static executable")
    equal(blocks(show(compile_file(folder / "spie", "-static-pie", fixture))), blocks(static),
          "a static PIE")

    # In a shared object all of these can be interposed: names come with them.
    shared = TEXT.replace("tracked, A", "tracked, level at A")
    shared = shared.replace("unsigned, A", "unsigned, fast at A")
    shared = shared.replace("variable A", "variable hook at A")
    shared = shared.replace("call (relaxed)", "call *GOT")
    library = compile_file(folder / "points.so", "-shared", fixture)
    equal(blocks(show(library)), blocks(shared), "a shared object")

    # Stripped: PT_NOTE is left, the callers' names are not.
    for more in ([], ["--strip-section-headers"]):
        stripped = folder / "stripped"
        if subprocess.run(["strip", *more, "-o", stripped, pie],
                          stderr=subprocess.DEVNULL).returncode:
            continue  # an older binutils has no --strip-section-headers
        equal(blocks(show(stripped)), blocks(TEXT.replace(" in main+A", "")), f"stripped {more}")
    headless = bytearray(pie.read_bytes())
    headless[0x28:0x30] = bytes(8)  # e_shoff
    headless[0x3a:0x40] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    (folder / "headless").write_bytes(headless)
    equal(blocks(show(folder / "headless")), blocks(TEXT.replace(" in main+A", "")),
          "without section headers")

    contains(show("/bin/ls"), "FILE: no multiverse descriptors\n", "a file without a note")

    code = show(pie, "--disassemble")
    contains(code, "movl $1, %eax", "disassembly of a variant")
    contains(code, "nopl (%rax, %rax)", "disassembly of a generic")

    first, second = json.loads(run(mvld, "show", "--json", pie, "/bin/ls")[1])
    equal([s["name"] for s in first["switches"]], ["level", "fast"], "JSON: switches")
    level = first["switches"][0]
    equal((level["width"], level["signed"], level["tracked"], level["defined"]),
          (4, True, True, True), "JSON: level")
    functions = {f["name"]: f for f in first["functions"]}
    equal(functions["depth"]["variants"][0]["guards"],
          [{"switch": "level", "low": -2, "high": 3}], "JSON: a signed guard")
    equal([v["size"] for v in functions["step"]["variants"]], [3, 6], "JSON: sizes")
    equal([s["callee"] for s in first["callsites"]], ["step", "step", "depth", "outside", "hook"],
          "JSON: callees")
    equal([s["one_word"] for s in first["callsites"]][:3], [True, True, False], "JSON: one_word")
    equal(second["descriptors"], False, "JSON: a file without a note")
    coded = json.loads(run(mvld, "show", "--json", "--disassemble", pie)[1])[0]
    check(any("ret" in line for f in coded["functions"] for line in f["code"]), "JSON: code")

    equal(run(mvld, "show")[0], 2, "no file is wrong usage")
    equal(run(mvld, "show", "--nonsense")[0], 2, "an unknown option is wrong usage")
    contains(run(mvld, "show", "--help")[1], "Usage: mvld show", "--help")
    code, out, err = run(mvld, "show", folder / "absent", pie)
    equal((code, err), (1, f"mvld show: {folder}/absent: No such file or directory\n"), "absent")
    contains(out, "3 variation points", "the other files are still shown")
finish()
