# SPDX-License-Identifier: MIT
"""code/tables.py TABLES MVLD: functions and instructions of real libraries (tables.c) against objdump's.

A failure means that a pass is told of an instruction where none begins, of another length, or of a call or jump that
leads elsewhere.  Of large libraries the functions in the first megabyte are compared.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

tables, mvld = sys.argv[1:3]
if not shutil.which("objdump"):
    print("no objdump here")
    sys.exit(77)
PREFIX = re.compile(r"^(?:rex\S*|lock|rep|repz|repnz|data16|cs|ss|ds|es|fs|gs|addr32|bnd|notrack|xacquire|xrelease)(?: +|$)")
NEXT, CALL, CALL_INDIRECT, JUMP, BRANCH, JUMP_INDIRECT, END = range(7)


def library(name):
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    found = [Path(path)] if path.startswith("/") else sorted(Path("/usr/lib").glob(f"**/{name}*"))
    return str(found[0].resolve()) if found else None


def flow_of(text):
    """Flow and target of an instruction as objdump prints it."""
    last = None
    while text != last:
        last, text = text, PREFIX.sub("", text, count=1)
    word, _, rest = text.partition(" ")
    target = re.match(r"\s*([0-9a-f]+)(?: <|$)", rest)
    target = int(target[1], 16) if target else 0
    word = word.split(",")[0]  # jne,pn
    if word in ("call", "callq"):
        return (CALL_INDIRECT, 0) if rest.lstrip().startswith("*") else (CALL, target)
    if word in ("syscall", "sysenter", "int"):
        return CALL_INDIRECT, 0
    if word in ("jmp", "jmpq"):
        return (JUMP_INDIRECT, 0) if rest.lstrip().startswith("*") else (JUMP, target)
    if word.startswith("j") or word.startswith("loop") or word == "xbegin":
        return BRANCH, target
    if word in ("ret", "retq", "ud2", "hlt", "int3", "iret", "iretq"):
        return END, 0
    return NEXT, 0


def disassemble(path, start, end):
    """{address: (flow, target)}; a prefix that stands alone begins what follows."""
    dump = subprocess.run(["objdump", "-d", "-w", "-z", "--no-show-raw-insn", f"--start-address={start}",
                           f"--stop-address={end}", path], capture_output=True, text=True, timeout=200, check=True)
    found, pending = {}, None
    for line in dump.stdout.splitlines():
        match = re.match(r"^\s*([0-9a-f]+):\t(.*?)\s*(?:#.*)?$", line)
        if not match:
            continue
        address, text = pending or int(match[1], 16), match[2]
        pending = address if PREFIX.fullmatch(text.strip()) else None
        if not pending:
            found[address] = flow_of(text)
    return found


def compare(path, functions):
    truth = disassemble(path, functions[0]["entry"], max(f["end"] for f in functions))
    addresses = sorted(truth)
    wrong, n, compared, dead = [], 0, 0, 0
    for f in functions:
        if not f["proof"]:
            continue
        compared += 1
        if f["entry"] not in truth:  # objdump came out of step in zeros between functions
            truth.update(disassemble(path, f["entry"], f["end"]))
        for address, length, flow, target, others, live in f["list"]:
            n += 1
            dead += not live & 1 << 16
            if truth.get(address) != (flow, target) or (address + length < f["end"] and address + length not in truth):
                wrong.append(f"{path}: {address:x} {length} {flow} {target:x}, not {truth.get(address)}")
        covered = sum(length for _, length, *_ in f["list"])
        if covered != f["end"] - f["entry"] or f["list"][0][4] != 1:
            wrong.append(f"{path}: the instructions of {f['entry']:x} are not all of it")
    names = dict(re.findall(r"^([0-9a-f]+) \w[ ligu!]*F \.text\s+[0-9a-f]+\s+(?:\S+\s+)?(\S+)$", subprocess.run(
        ["objdump", "-T", path], capture_output=True, text=True).stdout, re.M))
    exported = {int(a, 16) for a in names}
    nameless = [f for f in functions if f["entry"] in exported and f["name"] == "-"]
    if nameless:
        wrong.append(f"{path}: {len(nameless)} exported functions have no name: {nameless[0]['entry']:x}")
    print(f"{path}: {len(functions)} functions, {compared} proven, {n} instructions, "
          f"flags are dead before {100 * dead // max(n, 1)} %; {len(addresses)} of objdump's")
    return wrong, n


def read(lines):
    files = {}
    for line in lines:
        kind, *words = line.split(" ", 7)
        if kind == "O":
            functions = files.setdefault(words[0], [])
        elif kind == "F":
            functions.append({"entry": int(words[0], 16), "end": int(words[1], 16), "proof": int(words[2]),
                              "name": words[5], "list": []})
        else:
            address, length, flow, target, others, live = words
            functions[-1]["list"].append((int(address, 16), int(length), int(flow), int(target, 16), int(others),
                                          int(live, 16)))
    return files


libraries = [path for path in map(library, sys.argv[3:] or ["libc.so.6", "libz.so.1", "libstdc++.so.6", "libclang-cpp.so"])
             if path]
wrong, n = [], 0
with tempfile.TemporaryDirectory(prefix="mvld-tables-") as folder:
    for path in libraries:
        subprocess.run([mvld, "analyze", "--output", folder, path], check=True, capture_output=True, timeout=300)
    done = subprocess.run([tables, folder, *libraries], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(done.stdout[-300:] + done.stderr)
    for path, functions in read(done.stdout.splitlines()).items():
        more, some = compare(path, functions)
        wrong += more
        n += some
print(*wrong[:20], sep="\n")
sys.exit(f"{len(wrong)} wrong" if wrong else n < 100000)
