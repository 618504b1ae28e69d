# SPDX-License-Identifier: MIT
"""patch/insn.py PROGRAM: lets it compare lengths with objdump's, over libc's text."""
import ctypes.util
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77

if not shutil.which("objdump"):
    print("no objdump here")
    sys.exit(SKIP)
with open("/proc/self/maps") as maps:
    libc = next((m[1] for line in maps if (m := re.search(r" (/\S*libc[.-]\S*)$", line))), None)
if not libc:
    print("this python has no shared libc")
    sys.exit(SKIP)
# objdump prints a lone prefix as an instruction: those are left out.
PREFIXES = {"lock", "rep", "repz", "repnz", "data16", "cs", "ds", "addr32", "bnd", "notrack"}
pattern = re.compile(r"^\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*\t(\S+)(.*)")
dump = subprocess.run(["objdump", "-d", "-w", libc], capture_output=True, text=True, timeout=100,
                      check=True)
seen = set()
for line in dump.stdout.splitlines():
    match = pattern.match(line)
    if match and "(bad)" not in line and not (match[2] in PREFIXES and not match[3].strip()):
        seen.add(match[1].strip())
with tempfile.NamedTemporaryFile("w", suffix=".txt") as out:
    for code in sorted(seen):
        out.write(f"{len(code.split())} {code}\n")
    out.flush()
    sys.exit(subprocess.run([sys.argv[1], out.name], timeout=60).returncode)
