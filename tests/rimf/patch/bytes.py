# SPDX-License-Identifier: MIT
"""patch/bytes.py PROGRAM METHOD: objdump must read at every site the instruction that was asked
for, and around it the caller as it was assembled.  A failure means that a method writes other
bytes, or more of them, than it was told to."""
import re
import shutil
import subprocess
import sys
import tempfile

if not shutil.which("objdump"):
    print("no objdump here")
    sys.exit(77)
with tempfile.NamedTemporaryFile() as memory:
    said = subprocess.run([sys.argv[1], sys.argv[2], memory.name], capture_output=True, text=True,
                          timeout=60)
    if said.returncode:
        sys.exit(said.stderr)
    lines = said.stdout.splitlines()
    start = int(lines[0].split()[1], 16)
    listing = subprocess.run(["objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64",
                              f"--adjust-vma={start:#x}", memory.name],
                             capture_output=True, text=True, timeout=60, check=True).stdout
code = {}
for line in listing.splitlines():
    match = re.match(r"^\s*([0-9a-f]+):\t[0-9a-f ]+\t(.*)$", line)
    if match:
        text = re.sub(r"^(call|jmp|ret)q\b", r"\1", match[2].strip())  # binutils before 2.37
        code[int(match[1], 16)] = re.sub(r"\s+", " ", text)
sites = [line.split(maxsplit=2)[1:] for line in lines[1:]]
assert len(sites) == 12, sites
for address, want in sites:
    at = int(address, 16)
    around = {-5: "mov $0xffffffff,%eax", 0: want, 5: "ret"}
    for offset, text in around.items():
        if code.get(at + offset) != text:
            sys.exit(f"{at + offset:#x}: {code.get(at + offset)!r}, want {text!r}")
print(f"{len(sites)} sites as objdump reads them")
