# SPDX-License-Identifier: MIT
"""Every C file of the project is free of warnings under clang too.

A failure means: clang sees something in our C that gcc let pass.  Reads
compile_commands.json, keeps warnings, definitions and include paths, and runs
`clang -fsyntax-only -Wall -Wextra -Werror`, two at a time.
"""
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys

build, source = sys.argv[1:3]
clang = shutil.which("clang")
if not clang:
    print("clang is not installed")
    sys.exit(77)
# Ours is code in integer registers only, and clang 11 cannot do that on x86.
if subprocess.run([clang, "-Werror", "-mgeneral-regs-only", "-fsyntax-only", "-x", "c", "/dev/null"],
                  capture_output=True).returncode:
    print("this clang does not know -mgeneral-regs-only")
    sys.exit(77)
with open(os.path.join(build, "compile_commands.json")) as file:
    commands = json.load(file)

KEEP = ("-I", "-D", "-U", "-std=", "-ffreestanding", "-mgeneral-regs-only", "-fPIC", "-fPIE")


def check(entry):
    words = shlex.split(entry["command"])
    kept = [w for w in words if w.startswith(KEEP)]
    run = subprocess.run(
        [clang, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *kept, entry["file"]],
        cwd=entry["directory"], capture_output=True, text=True)
    return run.returncode, run.stderr


seen, entries = set(), []
for entry in commands:
    path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
    # Fixtures that only our GCC plugin can compile are not clang's business.
    if path.endswith(".c") and path not in seen and "-fplugin=" not in entry["command"] \
            and path.startswith(os.path.realpath(source) + os.sep):
        seen.add(path)
        entries.append(entry)
if not entries:
    sys.exit("no C file in compile_commands.json")
failed = 0
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for entry, (status, text) in zip(entries, pool.map(check, entries)):
        if status:
            failed += 1
            print(text)
print(f"{len(entries)} files, {failed} with warnings")
sys.exit(1 if failed else 0)
