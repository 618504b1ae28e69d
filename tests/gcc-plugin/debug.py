#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""debug.py PLUGIN INCLUDE LIBRARY: gdb and a committed program: breakpoints by the
function's name and by the variant's stop in the variant, backtraces go through
variants and stubs, lines and locals are right.  A failure means that a programmer
cannot see what runs."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASE = Path(__file__).resolve().parent / "cases" / "debug" / "debug.c"


def gdb(program, *commands):
    arguments = [a for c in ("set confirm off", "set debuginfod enabled off", *commands)
                 for a in ("-ex", c)]
    done = subprocess.run(["gdb", "-nx", "-batch", *arguments, program], capture_output=True,
                          text=True, timeout=60, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    return done.stdout + done.stderr


def main():
    plugin, include, library = (Path(a).resolve() for a in sys.argv[1:4])
    if not shutil.which("gdb"):
        print("no gdb")
        return 77
    failures = 0

    def need(text, *patterns):
        nonlocal failures
        at = 0
        for pattern in patterns:
            match = re.compile(pattern, re.M).search(text, at)
            if not match:
                failures += 1
                print(f"{options}: no {pattern!r} in\n{text}", file=sys.stderr)
                return
            at = match.end()

    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/program"
        for options in ("-O0 -g", "-O2 -g", "-O2 -g3 -gdwarf-4 -fPIE", "-O1 -g -fcf-protection=full",
                        "-O2 -g -flto"):
            subprocess.run(["gcc", *options.split(), f"-fplugin={plugin}", f"-I{include}", CASE,
                            library / "libmultiverse.a", "-o", program], check=True, timeout=60)
            # Stopped below a variant: the frames, the line, the local, the symbol.
            need(gdb(program, "break do_b", "run", "backtrace", "frame 1", "info symbol $pc"),
                 r"^#0 .*do_b ", r"^#1 .* foo \(x=.*debug.c:1\d", r"^#2 .* main \(",
                 r"^foo\.multiverse\.config_0(\.lto_priv\.\d+)? \+ \d+ in section .text")
            # By the function's name: its variants count as places of it.  (A breakpoint
            # in the pad of a generic that begins at once would keep it unbound.)
            for arguments, value in ("", 1), ("x", 2):
                need(gdb(program, "break committed", f"run {arguments}", "break foo", "continue",
                         "info symbol $pc"),
                     r"^Breakpoint 2 at .*[(]3 locations[)]", r"^Breakpoint 2.*, foo [(]x=",
                     rf"^foo\.multiverse\.config_{value - 1}")
            # By the variant's own name.
            if "-flto" not in options:
                need(gdb(program, "break foo.multiverse.config_0", "run", "print x", "finish"),
                     r"^Breakpoint 1.*, foo \(x=1\)", r"= 1$", r"^Value returned is .* = 6$")
            # Through the stub of a function pointer, not bound and bound.
            for arguments in "", "x":
                need(gdb(program, "tbreak through", f"run {arguments}", "break do_b", "continue",
                         "backtrace"), r"^#1 .* behind \(", r"^#2 .* through \(", r"^#3 .* main \(")
            need(gdb(program, "break *'pointer.multiverse_stub'", "tbreak main", "run", "stepi",
                     "backtrace"), r"main \(argc=1")
    return failures != 0


sys.exit(main())
