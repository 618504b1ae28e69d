# SPDX-License-Identifier: MIT
"""bounds.py MVLD: objects that are made to cost much: each is analysed within a second or
two, because nothing is followed more often than its size allows.

A failure means that a file can hold up who analyses all files of a system.
"""
import os
import resource
import subprocess
import sys
import tempfile

mvld = sys.argv[1]
N = 20000
SECONDS = 5  # of processor time; each takes far less than one
HEAD = ".text\n"
# The end of the list of unwinding descriptions: without it nothing is movable.
CRTEND = subprocess.run(["gcc", "-print-file-name=crtendS.o"], check=True, timeout=60,
                        capture_output=True, text=True).stdout.strip()
TAIL = '\n.section .note.GNU-stack,"",@progbits\n'


def functions(bodies):
    return "".join(f"f{i}:\n.cfi_startproc\n{body}\n.cfi_endproc\n" for i, body in bodies)


# Each function depends on one some distance before or behind it, and the last one stays:
# who goes over all of them until nothing changes goes over them N times.
def zigzag():
    def next_of(i):
        return i + 3 if i % 2 == 0 else i - 1

    def body(i):
        to = next_of(i)
        return f" jmp f{to}" if 0 <= to < N else " .byte 0x06, 0x06"
    return HEAD + functions((i, body(i)) for i in range(N)) + TAIL


# All functions share one long table of landing pads.
def landing_pads():
    text = HEAD + functions((i, " .cfi_personality 0x1b,p\n .cfi_lsda 0x1b,table\n nop\n ret")
                            for i in range(N))
    text += "p: ret\n.section .gcc_except_table,\"a\"\ntable: .byte 0xff,0xff,1\n"
    text += ".uleb128 end-start\nstart:\n" + ".rept 100000\n.byte 0,1,0,0\n.endr\nend:\n"
    return text + TAIL


DISPATCH = " movslq (%rax,%rdi,4),%rdx\n add %rax,%rdx\n jmp *%rdx"


# Each word of a long jump table is taken for the start of another one.
def jump_tables():
    text = HEAD + functions((i, f" lea table+{4 * i}(%rip),%rax\n" + DISPATCH) for i in range(N))
    text += ".section .rodata\n.balign 4\ntable:\n"
    return text + f".rept {N}\n.long f0-table\n.endr\n" + TAIL


# The same, for all that may be tables and labels of one function, each with each.
def labels():
    body = "".join(f" lea table+{4 * i}(%rip),%rax\n1: lea 1b(%rip),%rdx\n" for i in range(N))
    text = HEAD + functions([(0, body + " ret")])
    text += ".section .rodata\n.balign 4\ntable:\n"
    return text + f".rept {N}\n.long f0-table\n.endr\n" + TAIL


# The unwinding descriptions refer in turn to one of two whose augmentations are ten times as long as all code.
def augmentations():
    text = HEAD + "".join(f"f{i}: nop\n ret\n" for i in range(N)) + '.section .eh_frame,"a"\n'
    for cie in ("a", "b"):
        text += f"{cie}: .long {cie}end-.-4\n .long 0\n .byte 1,'z'\n .rept 400000\n .byte 'R'\n .endr\n"
        text += " .byte 0\n .uleb128 1\n .sleb128 -8\n .uleb128 16\n .uleb128 400000\n"
        text += f" .rept 400000\n .byte 0x1b\n .endr\n .balign 4\n{cie}end:\n"
    return text + "".join(f" .long 16\n .long .-{'ab'[i % 2]}\n .long f{i}-.\n .long 2\n .long 0\n"
                          for i in range(N)) + TAIL


def check(name, source, n=N):
    with tempfile.TemporaryDirectory(prefix="mvld-bounds-") as scratch:
        path = os.path.join(scratch, "a.S")
        output = os.path.join(scratch, "a.so")
        with open(path, "w") as f:
            f.write(source)
        subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,--build-id", "-o", output, path, CRTEND],
                       check=True, timeout=120)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run([mvld, "analyze", "--output", scratch, output], check=True,
                              timeout=120, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {seconds:.2f} s; {said.split(': ', 1)[1].strip()}")
    if f": {n} functions" not in said:
        sys.exit(f"{name}: the object is not what was meant")
    return seconds > SECONDS


failed = [check("zigzag", zigzag()), check("landing pads", landing_pads()),
          check("jump tables", jump_tables()), check("labels", labels(), 1),
          check("augmentations", augmentations(), 0)]
sys.exit(any(failed))
