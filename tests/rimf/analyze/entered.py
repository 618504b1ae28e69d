# SPDX-License-Identifier: MIT
"""entered.py MVLD: who comes in, where a jump may be written, what may not move, what is a
jump table, what keeps its address: small objects, and what their analyses say.

Every object has `victim`, hidden, and its symbols are stripped.  A failure means that a jump
is written over a place that is entered, that a function may be removed to which pointers lead, that code moves that is known by its address, that an
object is told that its function is another's, or that moved code reads other numbers than the original.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

mvld = sys.argv[1]
failures = []
DECODED, REACHED, HEAD, JOINED, HELD = 1, 2, 4, 8, 16
FIXED, TEXTREL, RESTARTS, PROFILED, LOOKED_UP, MAPS = 1, 2, 4, 8, 16, 32
SEGMENTS, UNITS, CALLS, REFERENCES, TABLES, FRAMES, FIXES, BRANCHES, FIXED_CODE = range(1, 10)
TO_JUMP_TABLE, TO_CODE = 3, 6


def function(name, body, visibility="globl"):
    return (f".{visibility} {name}\n.type {name},@function\n{name}:\n.cfi_startproc\n{body}\n"
            f".cfi_endproc\n.size {name}, .-{name}\n.balign 16\n")


CALLER = function("caller", "call victim\n ret")
TAKER = function("taker", "lea victim(%rip),%rax\n ret")
POINTER = ".data\n.balign 8\n.quad victim{}\n.text\n"
ROOM = "push %rbx\n push %rbp\n push %r12\n push %r13\n ret"  # bytes 1, 2, 4 start one
STAYS = function("stays", "call victim\n .byte 0x06")
TAKE, READ, ADD, JUMP = ("lea table(%rip),%rdx\n ", "movslq (%rdx,%rdi,4),%rax\n ",
                         "add %rdx,%rax\n ", "jmp *%rax")
DISPATCH = function("dispatch", TAKE + READ + ADD + "{}")
TABLE = ".section .rodata\n.balign 4\ntable: .long victim{}-table, victim-table\n.text\n"

# name, the victim's code, what else is there, its flags
CASES = [
    ("called by movable code", ROOM, CALLER, 0),
    ("its address is taken", ROOM, TAKER, REACHED | HEAD),
    ("a pointer", ROOM, POINTER.format(""), REACHED | HEAD | HELD),
    ("a distance", ROOM, '.section .rodata\n.balign 4\n.long 1, victim-.\n.text\n', REACHED | HEAD | HELD),
    ("a distance into it", ROOM, CALLER + '.section .rodata\n.balign 4\n.long 1, victim+1-.\n.text\n', 0),
    ("called by code that stays", ROOM, STAYS, REACHED | HEAD | HELD),
    ("called by code without a description", ROOM, "call victim\n ret\n", REACHED | HEAD | HELD),
    ("... behind its endbr64", "endbr64\n" + ROOM, "call victim+4\n ret\n", REACHED | HEAD | HELD),
    ("exported", ROOM, ".globl alias\n.type alias,@function\n.set alias,victim\n",
     REACHED | HEAD),
    ("four bytes", "xor %eax,%eax\n nop\n ret", TAKER, REACHED),
    ("five bytes, and it falls into the next function", "mov $1,%eax", TAKER,
     REACHED | HEAD | JOINED),
    ("four bytes behind endbr64", "endbr64\n xor %eax,%eax\n nop\n ret", TAKER, REACHED),
    ("five bytes behind endbr64", "endbr64\n xor %eax,%eax\n nop\n nop\n ret", TAKER,
     REACHED | HEAD),
    ("a loop to its start", "push %rbx\n" + ROOM + "\n jmp victim", TAKER, REACHED | HEAD),
    ("a loop to its second byte", ROOM + "\n jmp victim+1", TAKER, REACHED),
    ("a loop to its fifth byte", ROOM + "\n jmp victim+4", TAKER, REACHED),
    ("a loop to its sixth byte", "nop\n" + ROOM + "\n jmp victim+5", TAKER, REACHED | HEAD),
    ("a loop to its head", "endbr64\n" + ROOM + "\n jmp victim+4", TAKER, REACHED | HEAD),
    ("a loop behind its head", "endbr64\n" + ROOM + "\n jmp victim+5", TAKER, REACHED),
    ("another function leads in", ROOM, TAKER + function("other", "jmp victim+2"),
     REACHED | JOINED),
    ("undescribed code leads in", ROOM, TAKER + "nop\n je victim+2\n ret\n", REACHED | HELD),
    ("... with one byte", ROOM, TAKER + "je victim+2\n ret\n", REACHED | HELD),
    ("a label leads in", ROOM + "\n jmp *%rax", TAKER + POINTER.format("+1"), REACHED | HELD),
    ("a symbol leads in", ROOM, TAKER + ".globl inner\n.set inner,victim+1\n", REACHED),
    ("a jump table leads in", ROOM,
     TAKER + DISPATCH.format("jmp *%rax") + TABLE.format("+2"), REACHED | HELD),
    ("a call that returns there", "push %rax\n call *%rax\n nop\n nop\n ret", TAKER, REACHED),
    ("a call that returns behind", "push %rax\n call external@PLT\n ret", TAKER,
     REACHED | HEAD),
]

RETURNS = function("user", "call external@PLT\n1: ret")
DISTANCES = (".rept {0}\n.cfi_startproc\n call *%rax\n1: ret\n ret\n.cfi_endproc\n"
             ".pushsection .rodata\n.long {1}1b-.\n.popsection\n.endr\n")
READS_MAPS = '.section .rodata\n.asciz "/proc/self/maps"\n.text\n'
# name, what else is there, the object's flags
FLAGS = [
    ("nothing", "", 0),
    ("a restartable sequence", ".byte 0x0f,0xb9,0x3d\n .long 0x53053053\n", RESTARTS),
    ("descriptions of such", '.section __rseq_cs,"aw"\n .quad 1\n .text\n', RESTARTS),
    ("gprof", function("user", "call mcount@PLT\n ret"), PROFILED),
    ("ftrace", function("user", "call __fentry__@PLT\n ret"), PROFILED),
    ("who defines it", function("mcount", "ret"), 0),
    ("a sanitizer", function("user", "call __asan_init@PLT\n ret"), PROFILED),
    ("the end of its code, by code", ".hidden etext\n" + function("user", "lea etext(%rip),%rax\n ret"), PROFILED),
    ("the end of its code, by data", ".hidden etext\n.data\n.quad etext\n.text\n", PROFILED),
    ("a place behind its end", ".hidden etext\n.data\n.quad etext+1\n.text\n", 0),
    ("a return address", RETURNS + ".data\n.quad 1b\n.text\n", LOOKED_UP),
    ("a label behind a call", RETURNS.replace("ret", "jmp *%rax") + ".data\n.quad 1b\n.text\n", 0),
    ("a place behind a system call", function("user", "syscall\n1: ret") + ".data\n.quad 1b\n.text\n", 0),
    ("distances to return addresses", DISTANCES.format(100, ""), LOOKED_UP),
    ("... with other numbers", DISTANCES.format(100, "0, 0x120010, "), LOOKED_UP),
    ("... a few", DISTANCES.format(40, ""), 0),
    ("stack maps of LLVM", '.section .llvm_stackmaps,"a"\n .quad 3, 0\n .text\n', LOOKED_UP),
    ("who reads the mappings", READS_MAPS + RETURNS, MAPS),
    ("... and asks the loader", READS_MAPS + function("user", "call dladdr@PLT\n ret"), 0),
    ("... as the C library does", READS_MAPS + function("dl_iterate_phdr", "ret"), 0),
    ("who names them in a sentence", READS_MAPS.replace("maps", "maps:"), 0),
    ("distances to other places", DISTANCES.format(100, "").replace("1b", "1b+1"), 0),
]

# What names a place in the victim, and whether it stays for that (ANALYSIS_KEPT).
ENTERED, KEPT = 6, 16
PLACES = [
    ("a word between bounds", '.section keys,"a"\n.long 7, victim+1-.\n.text\n', KEPT),
    ("... of eight bytes", '.section keys,"aw"\n.long 7\n.quad victim-.\n.text\n', KEPT),
    ("... to no instruction", '.section keys,"a"\n.long victim+3-.\n.text\n', 0),
    ("... to elsewhere", '.section keys,"a"\n.long 7, -1\n.text\n', 0),
    ("... of multiverse", '.section multiverse_callsites,"a"\n.long victim+1-.\n.text\n', 0),
    ("a word without bounds", '.section .keys,"a"\n.long victim+1-.\n.text\n', 0),
    ("a section that is not loaded", '.section keys,""\n.long victim+1-.\n.text\n', 0),
]

# What else there is, whether the victim holds together with the next function and with the one
# before it, and how many displacements lead from one function into another.
NEXT = function("next", "ret")
SEPARATE = [
    ("nothing", ROOM, NEXT, 0, 0, 0),
    ("a call", ROOM, function("next", "call victim\n ret"), 0, 0, 1),
    ("a jump of four bytes", ROOM, function("next", ".byte 0xe9\n .long victim+1-.-4"), 0, 0, 1),
    ("a branch of four bytes", ROOM,
     function("next", ".byte 0x0f,0x84\n .long victim-.-4\n ret"), 0, 0, 1),
    ("a branch of one byte", ROOM, function("next", "je victim\n ret"), 1, 0, 0),
    ("... over another function", ROOM, NEXT + function("far", "je victim\n ret"), 1, 0, 0),
    ("a branch of one byte back", "je first\n ret", NEXT, 0, 1, 0),
    ("it falls", "push %rbx", NEXT, 1, 0, 0),
    ("... into code that stays", "push %rbx", function("next", ".byte 0x06"), 0, 0, 0),
    ("a call at its end", "push %rax\n call next", function("next", "ret", "hidden"), 0, 0, 1),
    ("... at once behind which another one begins", "push %rax\n .skip 10,0x90\n"
     " call next", function("next", "ret", "hidden"), 1, 0, 1),
    ("a branch inside", "1: push %rbx\n jmp 1b", NEXT, 0, 0, 0),
]

# What the function `dispatch` does, what else there is, how many tables there are, and how many lea of
# moved code lead to a moved one: all, or none.
OTHER_TABLE = ".section .rodata\n.balign 4\nother: .long victim-other, 0x7fffffff\n.text\n"
AGAIN = "lea table(%rip),%rcx\n "
TABLES_OF = [
    ("jmp", TAKE + READ + ADD + JUMP, "", 1, 1),
    ("notrack jmp", TAKE + READ + ADD + "notrack jmp *%rax", "", 1, 1),
    ("lea adds", TAKE + READ + "lea (%rdx,%rax),%rcx\n jmp *%rcx", "", 1, 1),
    ("other instructions between", TAKE + READ + ADD + "mov %rdi,%rsi\n " + JUMP, "", 1, 1),
    ("another register", TAKE + READ + ADD + "jmp *%rcx", "", 0, 0),
    ("numbers", TAKE + READ + ADD + "ret", "", 0, 0),
    ("a branch between", TAKE + READ + ADD + "test %edi,%edi\n je victim\n " + JUMP, "", 1, 1),
    ("taken twice into the same register", TAKE + READ + TAKE + ADD + JUMP, "", 1, 2),
    ("... into another one", TAKE + READ + AGAIN + "add %rcx,%rax\n " + JUMP, "", 1, 2),
    ("... for nothing", TAKE + AGAIN + READ + ADD + JUMP, "", 1, 2),
    ("two that jump", TAKE + "test %esi,%esi\n je 1f\n " + READ + ADD + JUMP + "\n 1: " + TAKE + READ +
     ADD + JUMP, "", 1, 2),
    ("copied", TAKE + "mov %rdx,%rcx\n " + READ + "add %rcx,%rax\n " + JUMP, "", 1, 1),
    ("copied in part", TAKE + "mov %edx,%ecx\n " + READ + ADD + JUMP, "", 0, 0),
    ("the sum copied", TAKE + READ + ADD + "mov %rax,%rsi\n xor %eax,%eax\n jmp *%rsi", "", 1, 1),
    ("the sum written over", TAKE + READ + ADD + "mov %rsi,%rax\n " + JUMP, "", 0, 0),
    ("the sum changed", TAKE + READ + ADD + "add $1,%rax\n " + JUMP, "", 0, 0),
    ("the entry changed", TAKE + READ + "inc %rax\n " + ADD + JUMP, "", 0, 0),
    ("the entry kept", TAKE + READ + "mov %rax,(%rsi)\n " + ADD + JUMP, "", 0, 0),
    ("out of a loop", TAKE + "1: dec %edi\n test %edi,%edi\n jne 1b\n " + READ + ADD + JUMP, "", 1, 1),
    ("on one of two ways", "test %edi,%edi\n je 1f\n " + TAKE + "1: " + READ + ADD + JUMP, "", 0, 0),
    ("one of two", "lea other(%rip),%rdx\n test %edi,%edi\n je 1f\n " + TAKE + "1: " + READ + ADD + JUMP,
     OTHER_TABLE, 0, 0),
    ("... by cmov", "lea other(%rip),%rcx\n " + TAKE + "test %edi,%edi\n cmove %rcx,%rdx\n " + READ +
     ADD + JUMP, OTHER_TABLE, 0, 0),
    ("the entry of another", "lea other(%rip),%rcx\n " + TAKE + READ + "add %rcx,%rax\n " + JUMP,
     OTHER_TABLE, 0, 0),
    ("written over", TAKE + "mov %rsi,%rdx\n " + READ + ADD + JUMP, "", 0, 0),
    ("... by a call", TAKE + "call external@PLT\n " + READ + ADD + JUMP, "", 0, 0),
    ("... in part", TAKE + "mov $1,%dl\n " + READ + ADD + JUMP, "", 0, 0),
    ("... behind the jump", "1: " + TAKE + READ + ADD + "test %edi,%edi\n je 2f\n " + JUMP +
     "\n 2: mov $1,%dl\n test %dl,%dl\n je 1b\n ret", "", 1, 1),
    ("kept by a call", "mov %rbx,%r12\n lea table(%rip),%rbx\n call external@PLT\n"
     " movslq (%rbx,%rdi,4),%rax\n add %rbx,%rax\n " + JUMP, "", 1, 1),
    ("popped", TAKE + "pop %rdx\n " + READ + ADD + JUMP, "", 0, 0),
    ("pushed", TAKE + "push %rdx\n " + READ + "pop %rdx\n " + ADD + JUMP, "", 0, 0),
    ("stored", TAKE + "mov %rdx,-8(%rsp)\n " + TAKE + READ + ADD + JUMP, "", 1, 0),
    ("exchanged", TAKE + "xchg %rdx,%rcx\n movslq (%rcx,%rdi,4),%rax\n add %rcx,%rax\n " + JUMP, "", 0, 0),
    ("computed with", TAKE + READ + ADD + "lea 64(%rdx),%rcx\n " + JUMP, "", 1, 0),
    ("compared", TAKE + READ + ADD + "cmp %rdx,%rsi\n " + JUMP, "", 1, 0),
    ("the end of an array elsewhere", TAKE + READ + ADD + JUMP,
     function("ends", AGAIN + "cmp %rcx,%rax\n ret"), 1, 0),
    ("a jump through it in code that stays", TAKE + READ + ADD + JUMP,
     function("user", TAKE + READ + ADD + "jmp *%rax\n .byte 0x06"), 1, 0),
    ("a word that holds it", TAKE + READ + ADD + JUMP, ".data\n.balign 8\n.quad table\n.text\n", 1, 0),
    ("an instruction that reads it", TAKE + READ + ADD + JUMP,
     function("user", "movslq table(%rip),%rax\n ret"), 1, 0),
    ("an address inside", TAKE + READ + ADD + JUMP, function("user", "lea table+4(%rip),%rax\n ret"), 1, 0),
]

# The entries behind the first two of a table, and how many it has.
LENGTHS = [
    ("a case", "victim-table", 3),
    ("a number", "0x7fffffff, victim-table", 2),
    ("behind the victim", "victim+7-table, victim-table", 4),
    ("... after a case elsewhere", "next-table, victim+7-table, victim-table", 5),
    ("a byte further", "victim+8-table, victim-table", 2),
]

# Where an object asks whose addresses are: what else there is, and whether victim keeps its own.
# A virtual table, and what holds its address.
VTABLE = '.section .data.rel.ro,"aw"\n.balign 16\n.quad 1\ntable: .quad {}\n.quad 1\n.text\n'
AT = "lea table+{}(%rip),%rax\n "
LOCATES = [
    ("a virtual table", VTABLE.format("0,0,victim"), AT.format(16), 0),
    ("... addressed at its start", VTABLE.format("0,0,victim"), AT.format(0), 0),
    ("... addressed nowhere", VTABLE.format("0,0,victim"), "", 0),
    ("... with a type", ".data\ntype: .quad 0\n" + VTABLE.format("0,type,victim"), AT.format(16), 0),
    ("... of a part", VTABLE.format("-24,0,victim"), AT.format(16), 0),
    ("... of two functions", VTABLE.format("0,0,first,victim"), AT.format(16), 0),
    ("... with a pure one", VTABLE.format("0,0,first,0,victim"), AT.format(16), 0),
    ("... with one of another object", VTABLE.format("0,0,external,victim,external,victim"),
     AT.format(16), 1),
    ("... behind its first function", VTABLE.format("0,0,first,external,victim"), AT.format(16), 0),
    ("lea, too", VTABLE.format("0,0,victim") + TAKER, AT.format(16), 1),
    ("another word, too", VTABLE.format("0,0,victim") + POINTER.format(""), AT.format(16), 1),
    ("a symbol, too", VTABLE.format("0,0,victim") + ".globl alias\n.type alias,@function\n"
     ".set alias,victim\n", AT.format(16), 1),
    ("a word that code reads", VTABLE.format("0,0,victim"), "mov table+16(%rip),%rax\n ", 1),
    ("a word that code names", VTABLE.format("0,0,first,victim"), AT.format(24), 1),
    ("a word that a word names", VTABLE.format("0,0,first,victim") + ".data\n.quad table+24\n.text\n",
     AT.format(16), 1),
    ("a number in front", VTABLE.format("8,0,victim"), AT.format(16), 1),
    ("a number that is no distance", VTABLE.format("-7,0,victim"), AT.format(16), 1),
    ("a pointer in front", VTABLE.format("table,0,victim"), AT.format(16), 1),
    ("a number for a type", VTABLE.format("0,8,victim"), AT.format(16), 1),
    ("a type that is addressed", VTABLE.format("0,0,victim"), AT.format(8), 1),
    ("a table that may be written", VTABLE.format("0,0,victim").replace(".data.rel.ro", ".data"),
     AT.format(16), 1),
    ("a number and a zero in between", VTABLE.format("0,0,first,1,0,victim"), AT.format(16), 1),
    ("a pointer to data in between", VTABLE.format("0,0,first,table,victim"), AT.format(16), 1),
    ("nothing", "", "", 1),
]


class Analysis:
    def __init__(self, path):
        self.bytes = open(path, "rb").read()
        size, self.flags = struct.unpack_from("<I", self.bytes, 12)[0], self.word(36)
        n = self.word(44)
        self.tables = {}
        for i in range(n):
            kind, entry, offset, count, _ = struct.unpack_from("<IIQQQ", self.bytes,
                                                               size - 32 * (n - i))
            self.tables[kind] = [self.bytes[offset + k * entry:offset + (k + 1) * entry]
                                 for k in range(count)]

    def word(self, at):
        return struct.unpack_from("<I", self.bytes, at)[0]

    def unit(self, start):
        for entry in self.tables[UNITS]:
            if struct.unpack_from("<I", entry)[0] == start:
                return entry[8], entry[9]  # reason, flags
        return None, 0

    def keeps(self, address):
        return any(start <= address < start + size for start, size in
                   (struct.unpack_from("<II", entry) for entry in self.tables[FIXED_CODE]))

    def kinds(self):
        return [entry[4] for entry in self.tables[REFERENCES]]


def analyse(scratch, body, rest, has_sections=True, link=()):
    """The analysis, and where victim is."""
    source, full, output = (os.path.join(scratch, name) for name in ("a.S", "full.so", "a.so"))
    with open(source, "w") as f:
        f.write(".text\n" + function("first", "ret") + ".hidden victim\n" +
                function("victim", body) + rest + '\n.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,-z,undefs,-z,relro", "-Wl,--build-id", "-o", full,
                    source, CRTEND, *link], check=True, timeout=60)
    subprocess.run(["strip", "-o", output, full], check=True, timeout=60)
    if not has_sections:
        with open(output, "r+b") as f:
            f.seek(40)  # e_shoff
            f.write(bytes(8))
    names = subprocess.run(["nm", full], check=True, timeout=60, capture_output=True,
                           text=True).stdout
    subprocess.run([mvld, "analyze", "--output", scratch, output], check=True, timeout=60,
                   capture_output=True)
    found = [os.path.join(folder, name) for folder, _, files in os.walk(scratch)
             for name in files if name.endswith(".mvld")]
    return Analysis(found[0]), int(re.search(r"(\w+) t victim", names)[1], 16)


def equal(name, is_so, want):
    if is_so != want:
        failures.append(f"{name}: {is_so}, should be {want}")


for tool in ("gcc", "strip", "nm"):
    if not shutil.which(tool):
        print(f"no {tool} here")
        sys.exit(77)
CRTEND = subprocess.run(["gcc", "-print-file-name=crtendS.o"], check=True, timeout=60,
                        capture_output=True, text=True).stdout.strip()


def with_object(body, rest, look, **more):
    with tempfile.TemporaryDirectory(prefix="mvld-entered-") as scratch:
        look(*analyse(scratch, body, rest, **more))


for name, body, rest, flags in CASES:
    def look(analysis, victim):
        equal(name, analysis.unit(victim), (0, DECODED | flags))
        if rest == TAKER:
            equal(name + ", references", analysis.kinds(), [TO_CODE])
    with_object(body, rest, look)
for name, rest, flags in FLAGS:
    def look(analysis, victim):
        equal(name, analysis.flags, flags)
        equal(name + ", moved frames", analysis.tables[FRAMES] == [], flags != 0)
        if "call external" in rest:
            equal(name + ", calls", analysis.tables[CALLS] == [], flags in (LOOKED_UP, MAPS))
        equal(name + ", HEAD", analysis.unit(victim)[1],
              DECODED | (REACHED | HELD if flags else REACHED | HEAD))
    with_object(ROOM, TAKER + rest, look)
    if "etext" in rest:
        with_object(ROOM, TAKER + rest + '.section .rodata\n.quad 1\n', look, link=["-Wl,-z,noseparate-code"])
for name, rest, reason in PLACES:
    with_object(ROOM, TAKER + rest, lambda analysis, victim: equal("places, " + name, analysis.unit(victim)[0], reason))
# Two segments of code side by side: the first begins late in its page, so that the page behind its last one
# overlaps the second.
SCRIPT = """PHDRS { head PT_LOAD FLAGS(4); one PT_LOAD FLAGS(5); two PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6);
                    dynamic PT_DYNAMIC FLAGS(6); note PT_NOTE FLAGS(4); eh PT_GNU_EH_FRAME FLAGS(4); }
SECTIONS { . = SIZEOF_HEADERS; .note.gnu.build-id : { *(.note.gnu.build-id) } :head :note
           .dynsym : { *(.dynsym) } :head .dynstr : { *(.dynstr) } :head .gnu.hash : { *(.gnu.hash) } :head
           .eh_frame_hdr : { *(.eh_frame_hdr) } :head :eh .eh_frame : { *(.eh_frame) } :head
           . = 0x1ff0; .text : { *(.text) . = 0x1008; } :one
           . = 0x3000; .second : { *(.second) } :two
           . = 0x5000; .dynamic : { *(.dynamic) } :data :dynamic .data : { *(.data) *(.got*) } :data }"""
with tempfile.NamedTemporaryFile("w", suffix=".lds") as script:
    script.write(SCRIPT)
    script.flush()
    with_object(ROOM, '.section .second,"ax"\n' + function("inside", "mov $1,%eax\n ret") +
                ".hidden inside\n" + function("leads", "jmp inside+1"),
                lambda analysis, victim: equal("a branch in the second segment", analysis.unit(0x3000)[0], ENTERED),
                link=[f"-Wl,-T,{script.name}", "-Wl,--eh-frame-hdr"])
# Linkers align tables of bytes and of words as little as these need.
for linker in ("lld", "mold"):
    for exports, style in [(n, style) for n in range(4) for style in ("gnu", "sysv")]:
        if not shutil.which(f"ld.{linker}"):
            break
        rest = TAKER + "".join(function(f"out{n}", "ret") for n in range(exports)) + function("user", "call mcount@PLT")

        def look(analysis, victim):
            name = f"{linker}, {style}, {exports} exported"
            first = struct.unpack_from("<I", analysis.tables[UNITS][0])[0]
            equal(name, (analysis.flags, analysis.unit(first)[1] & REACHED), (PROFILED, REACHED))
        with_object(ROOM, rest, look, link=[f"-fuse-ld={linker}", f"-Wl,--hash-style={style}"])
# Code without a description that computes with its own address may take any (large code model).
LARGE = [
    ("as gcc does", "0: movabs $good-0b,%r11\n lea 0b(%rip),%rax\n add %r11,%rax\n ret\n", True),
    ("as clang does", "0: lea 0b(%rip),%rax\n movabs $good-0b,%r11\n add %r11,%rax\n ret\n", True),
    ("by a call", "call 0f\n0: pop %rax\n movabs $good-0b,%r11\n add %r11,%rax\n ret\n", True),
    ("a number", "0: movabs $0x1234567812345678,%r11\n lea 0b(%rip),%rax\n ret\n", False),
    ("no number", "0: lea 0b(%rip),%rax\n ret\n", False),
]
for name, code, held in LARGE:
    def look(analysis, victim):
        equal("large, " + name, (analysis.keeps(victim), analysis.unit(victim)[1] & HELD != 0), (held, held))
    with_object(ROOM, function("good", "ret", "hidden") + code, look)
# Without names of sections none is known whose bounds code may ask for.
with_object(ROOM, TAKER, lambda analysis, victim: equal("no sections", analysis.flags, PROFILED), has_sections=False)
for name, rest, code, keeps in LOCATES:
    def look(analysis, victim):
        equal("addresses, " + name, analysis.keeps(victim), bool(keeps))
    with_object(ROOM, rest + function("user", code + "call dl_iterate_phdr@PLT\n ret"), look)
    if rest:  # who does not ask
        with_object(ROOM, rest, lambda analysis, victim:
                    equal("addresses, not asked for, " + name, analysis.keeps(victim), False))
for name, body, rest, tables, led in TABLES_OF:
    def look(analysis, victim):
        equal("tables, " + name, (len(analysis.tables[TABLES]), analysis.kinds().count(TO_JUMP_TABLE)),
              (tables, led))
    with_object(ROOM, function("dispatch", body) + rest + TABLE.format(""), look)
for name, entries, count in LENGTHS:
    def look(analysis, victim):
        equal("length, " + name, [struct.unpack_from("<II", entry)[1] for entry in analysis.tables[TABLES]], [count])
    with_object(ROOM, function("dispatch", TAKE + READ + ADD + JUMP) + function("next", "ret", "hidden") +
                TABLE.format("").replace("\n.text", f", {entries}\n.text"), look)
for name, body, rest, behind, before, branches in SEPARATE:
    def look(analysis, victim):
        first = struct.unpack_from("<I", analysis.tables[UNITS][0])[0]
        equal("joined, " + name, [analysis.unit(at)[1] & JOINED != 0 for at in (victim, first)],
              [bool(behind), bool(before)])
        equal("branches, " + name, len(analysis.tables[BRANCHES]), branches)
    with_object(body, rest, look)
print("\n".join(failures) or "as it should be")
sys.exit(bool(failures))
