# SPDX-License-Identifier: MIT
"""rules.py MVLD: each rule of the analyser, broken by a small object of its own.

Every object has `victim`, which must stay with the reason that is said here, and
`good`, which must not.  A failure means that code is believed to be understood that is
not, or that code is given up without need.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

mvld = sys.argv[1]
failures = []

FUNCTION = """
    .globl {name}
    .type {name},@function
{name}:
    .cfi_startproc
{body}
    .cfi_endproc
    .size {name}, .-{name}
"""


def function(name, body):
    return FUNCTION.format(name=name, body=body)


GOOD = function("good", "call external@PLT\n call *external@GOTPCREL(%rip)\n"
                        " mov word(%rip),%eax\n ret")
DATA = ".data\nword: .long 1, 2, 3\n.text\n"

# reason: what `victim` is, and what else is in the object.
RULES = {
    "bytes that are no instruction": ("nop\n .byte 0x06\n ret", ""),
    "an instruction that no compiler emits": ("nop\n in $1,%al\n ret", ""),
    "its last instruction ends behind its end": ("nop\n .byte 0xe8,0,0", ".byte 0,0,0"),
    "an address of 32 bits relative to RIP": ("mov word(%eip),%eax\n ret", ""),
    "a relocation changes it": ("movabs $external,%rax\n ret", ""),
    "a branch leads into the middle of an instruction":
        ("mov $1,%eax\n ret", function("other", "jmp victim+1")),
    "a pointer, symbol or landing pad into the middle of an instruction":
        ("mov $1,%eax\n ret", ".data\n .quad victim+1\n .text\n"),
    "it is read as data": ("mov $1,%eax\n ret", function("other", "mov victim(%rip),%eax\n ret")),
    "it computes with its own address (large code model)":
        ("1: lea 1b(%rip),%rax\n movabs $0x1234,%rcx\n add %rcx,%rax\n ret", ""),
    "an operand outside the object": ("mov 0x7f000000(%rip),%eax\n ret", ""),
    "the address of a place inside it is taken":
        ("mov $1,%eax\n2: ret", function("other", "lea 2b(%rip),%rax\n ret")),
    "it takes the address of a place inside a function":
        ("lea other+5(%rip),%rax\n ret", function("other", "mov $1,%eax\n ret")),
    "it runs on into code that stays":
        ("xor %eax,%eax", function("other", "nop\n .byte 0x06\n ret")),
    "a short branch into code that stays":
        ("jmp 3f", function("other", "3: nop\n .byte 0x06\n ret")),
    "its unwinding description cannot be made one of moved code":  # DW_OP_addr
        (".cfi_escape 0x16,6,9,3,0,0,0,0,0,0,0,0\n ret", ""),
    "data keeps a place inside it, such as a return address":
        ("mov $1,%eax\n7: ret", ".data\n .quad 7b\n .text\n"),
}

FRAME_ODD = "its unwinding description cannot be made one of moved code"
BASE = "it computes with its own address (large code model)"
# More ways to break a rule, and code that looks odd and is right: reason or None.
CASES = [
    ("a call over a number, which is read", BASE, "call 1f\n .long 0x90909090\n1: pop %rax\n ret", ""),
    ("... not popped", BASE, "call 1f\n .long 0x90909090\n1: mov (%rsp),%rax\n pop %rcx\n ret", ""),
    ("a retpoline", None, "call 1f\n2: pause\n lfence\n jmp 2b\n1: mov %rax,(%rsp)\n ret", ""),
    ("a subroutine inside", None, "call 1f\n ret\n1: push %rax\n pop %rax\n ret", ""),
    ("a symbol inside", "a pointer, symbol or landing pad into the middle of an instruction",
     "mov $1,%eax\n ret", ".globl inner\n.type inner,@function\n.set inner, victim+2\n"),
    ("data among code", "it is read as data", "mov $1,%eax\n ret",
     ".globl inner\n.set inner, victim+5\n.type inner,@object\n.size inner, 1\n"),
    ("call next", "it computes with its own address (large code model)",
     "call 4f\n4: pop %rax\n ret", ""),
    ("nothing behind", "it runs on into code that stays", "xor %eax,%eax", ".byte 0x06\n"),
    ("jmp through code", "it is read as data", "mov $1,%eax\n ret",
     function("other", "jmp *victim(%rip)")),
    ("short branch to code without a description", "a short branch into code that stays",
     "jmp 5f", "5: ret\n"),
    ("an exchange with %r8, which is no NOP", "it runs on into code that stays", "jmp *%rdi\n xchg %rax,%r8",
     ".byte 0x06\n"),
    ("a pause", "it runs on into code that stays", "jmp *%rdi\n pause", ".byte 0x06\n"),
    ("a NOP of two bytes", None, "jmp *%rdi\n .byte 0x66,0x90", ".byte 0x06\n"),
    ("a chain of short branches", "a short branch into code that stays", "jmp b",
     function("a", "jmp bad") + function("b", "jmp a") + function("bad", ".byte 0x06")),
    ("over a lock prefix", None, "jmp 6f+1\n6: lock incl word(%rip)\n ret", ""),
    ("into its neighbour that is proven", None, "xor %eax,%eax",
     function("other", "jmp victim")),
    ("a call that does not return", None, "call external@PLT", ""),
    ("data16 before a TLS call", None,
     "data16 lea word(%rip),%rdi\n .word 0x6666\n rex64 call external@PLT\n ret", ""),
    ("an rseq signature", None, "ret\n .byte 0x0f,0xb9,0x3d\n .long 0x53053053\n", ""),
    ("its own start", None, "nop\n lea victim(%rip),%rax\n ret", ""),
    ("large constants", None, "movabs $0x123456789abcdef,%rax\n ret", ""),
    ("a program that names an address", FRAME_ODD,
     ".cfi_escape 1,0,0,0,0\n ret", ""),  # DW_CFA_set_loc
    ("an expression of registers", None, ".cfi_escape 0x10,3,2,0x77,8\n ret", ""),
    ("an expression of RIP", FRAME_ODD, ".cfi_escape 0x10,3,2,0x80,8\n ret", ""),
    ("an unknown step of unwinding", FRAME_ODD, ".cfi_escape 0x3f\n ret", ""),
    ("a signal handler's return", None, ".cfi_signal_frame\n ret", ""),  # makes no unit
    ("runs on into one that unwinds oddly", "it runs on into code that stays", "nop",
     function("other", ".cfi_escape 0x3f\n ret")),
    ("a label", None, "jmp *word(%rip)\n9: ret", ".data\n .quad 9b\n .text\n"),
    ("a label behind a call", "data keeps a place inside it, such as a return address",
     "call external@PLT\n9: jmp *word(%rip)", ".data\n .quad 9b\n .text\n"),
    ("a return address", "data keeps a place inside it, such as a return address",
     "call *(%rdi)\n9: ret", ".data\n .quad 9b\n .text\n"),
    ("a place behind a system call", "data keeps a place inside it, such as a return address",
     "syscall\n9: jmp *word(%rip)", ".data\n .quad 9b\n .text\n"),
    ("a function's start", None, "ret", ".data\n .quad victim\n .text\n"),
    ("far functions", None, "call *external@GOTPCREL(%rip)\n jmp *external@GOTPCREL(%rip)", ""),
]


def reasons(scratch, body, rest):
    source = os.path.join(scratch, "a.S")
    output = os.path.join(scratch, "a.so")
    with open(source, "w") as f:
        f.write(DATA + GOOD + function("victim", body) + rest +
                '\n.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,-z,notext", "-Wl,-Bsymbolic",
                    "-Wl,--build-id", "-o", output, source, CRTEND], check=True, timeout=60,
                   stderr=subprocess.DEVNULL)
    said = subprocess.run([mvld, "analyze", "--explain", output], check=True, timeout=60,
                          capture_output=True, text=True).stdout
    return dict(re.findall(r"<(\w+)>, \d+ bytes: (.*?), at ", said))


def expect(name, reason, body, rest=""):
    with tempfile.TemporaryDirectory() as scratch:
        found = reasons(scratch, body, rest)
    if found.get("victim") != reason or "good" in found:
        failures.append(f"{name}: victim should be {reason!r}; found {found}")


if not shutil.which("gcc"):
    print("no gcc here")
    sys.exit(77)
# Ends the list of unwinding descriptions, as in every object that a compiler links.
CRTEND = subprocess.run(["gcc", "-print-file-name=crtendS.o"], check=True, timeout=60,
                        capture_output=True, text=True).stdout.strip()
for reason, (body, rest) in RULES.items():
    expect("rule", reason, body, rest)
for name, reason, body, rest in CASES:
    expect(name, reason, body, rest)
FUNCTION = '.section own,"ax",@progbits\n' + FUNCTION
expect("section", "its section has bounds that code may ask for", "ret")
FUNCTION = FUNCTION.replace("own", "multiverse_own")
expect("section named like multiverse's tables", "its section has bounds that code may ask for", "ret")
FUNCTION = FUNCTION.replace("multiverse_own", "own")
FUNCTION = FUNCTION.replace("own", ".own")
expect("no bounds", None, "ret")
print("\n".join(failures) or "each rule keeps what breaks it where it is")
sys.exit(bool(failures))
