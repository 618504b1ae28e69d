#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kernel/core and the engine, compiled as a kernel compiles them, in user space over a stand-in for the platform.

What the plugin leaves in a kernel's objects is looked at first: a kernel has no GOT, `ld -r` merges its sections,
and code that is there while it starts only is not recorded.

    core.py SOURCE PLUGIN
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "kernel"))
import user_space  # noqa: E402

WARNINGS = ["-Wall", "-Werror", "-Wno-attributes"]


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_object(file):
    relocations = run("readelf", "-rW", file)
    assert "R_X86_64_PC32" in relocations and "GOT" not in relocations, relocations
    sections = run("readelf", "-SW", file)
    assert ".note.multiverse" not in sections, sections
    flags = re.findall(r"\] multiverse_\w+ +PROGBITS +\S+ \S+ \S+ \S+ +(\S+)", sections)
    assert len(flags) >= 3 and set(flags) == {"A"}, sections
    calls = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t.*PLT32\s+(?:take|operations)", run("objdump", "-dwr", file), re.M)
    assert sum("2e" in code for _, code in calls) >= 4, calls
    for at, code in calls:  # prefixes, and the call in one word; no NOP aligns it
        code = code.split()
        first = int(at, 16) + len(code) - 5
        assert first % 8 <= 3 and set(code[:-5]) <= {"2e"}, (at, code)
    start = re.search(r"'\.rela(multiverse_callsites)'.*?(?=\n\n)", relocations, re.S).group()
    assert ".init" not in start, start


def main():
    source, plugin = Path(sys.argv[1]), sys.argv[2]
    tests = source / "tests/kernel"
    with tempfile.TemporaryDirectory() as at:
        at = Path(at)
        for name in ("world", "module"):
            run("gcc", *user_space.FLAGS, *WARNINGS, f"-fplugin={plugin}", "-DMULTIVERSE_PLUGIN", "-fno-zero-initialized-in-bss",
                f"-I{source}", f"-I{source}/include", "-c", tests / f"{name}.c", "-o", at / f"{name}.o")
        check_object(at / "world.o")
        run("ld", "-r", at / "world.o", "-o", at / "merged.o")
        renamed = {".noinstr.text": "{}_text,alloc,load,contents,code,readonly", ".text": "{}_text,alloc,load,contents,code,readonly", ".data": "{}_data,alloc,load,contents,data"}
        tables = {f"multiverse_{t}": f"module_{t}" for t in ("functions", "callsites", "switches")}
        for name, file, more in ("kernel", "merged.o", {}), ("module", "module.o", tables):
            pairs = {k: v.format(name) for k, v in renamed.items()} | {k: v + ",alloc,load,contents,data" for k, v in more.items()}
            run("objcopy", *(f"--rename-section={k}={v}" for k, v in pairs.items()), at / file)
        run("gcc", *user_space.engine(), *WARNINGS, tests / "core.c", at / "merged.o", at / "module.o", "-no-pie", "-g",
            "-o", at / "core")
        for arguments in [], ["damage"]:
            run(at / "core", *arguments)


if __name__ == "__main__":
    main()
