# SPDX-License-Identifier: MIT
"""A pass can be written outside the tree, with nothing but mvld/pass.h.

The example in pass.h is taken out and built by the command that stands there;
passes/example/count.c by other compilers and linkers.  Each result runs in a real
program.  (What passes/README.md shows: tests/integration/outside.py.)  A failure means: what is promised to authors of
passes is not true.

Arguments: plan, ld-mvld.so, include/, passes/example/count.c.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

plan, loader, include, count = map(os.path.abspath, sys.argv[1:])


def from_comment():
    """The example's source and the command that builds it."""
    text = (pathlib.Path(include) / "mvld" / "pass.h").read_text()
    text = text[text.index(" * Example"):text.index(" * Errors are")]
    lines = [line.removeprefix(" *").removeprefix("     ") for line in text.splitlines()[1:]]
    at = next(i for i, line in enumerate(lines) if line.startswith("cc "))
    return "\n".join(lines[:at]) + "\n", " ".join("\n".join(lines[at:]).replace("\\", " ").split())


def run(command, folder, **env):
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def links(compiler, linker, option):
    """Whether this linker knows the option."""
    with tempfile.TemporaryDirectory(prefix="mvld-pass-") as folder:
        pathlib.Path(folder, "empty.c").write_text("")
        return not run([compiler, "-shared", "-nostdlib", f"-fuse-ld={linker}", option, "empty.c",
                        "-o", "empty.so"], folder)[0]


def check(name, source, command):
    with tempfile.TemporaryDirectory(prefix="mvld-pass-") as folder:
        pathlib.Path(folder, "count.c").write_text(source)
        status, text = run(command, folder)
        if status:
            sys.exit(f"{name}: {' '.join(command)}\n{text}")
        env = {"MVLD_PASS_PATH": folder, "MVLD_TUNABLES": "app.passes=count"}
        status, text = run([plan, "/bin/true"], folder, **env)
        if status or f"; {folder}/count.so: counts the objects" not in text:
            sys.exit(f"{name}: is not planned:\n{text}")
        status, text = run([loader, "/bin/true"], folder, MVLD_DEBUG="passes", **env)
        if status or not re.search(r"\t(count: )?[0-9]+ objects\n", text):
            sys.exit(f"{name}: does not run:\n{text}")


source, command = from_comment()
command = command.split()
if command[0] != "cc" or "count.c" not in command:
    sys.exit(f"no command in pass.h: {command}")
command += ["-I", include]
check("the example of pass.h", source, command)
variants = 0
for compiler in ("gcc", "clang"):
    for linker in ("bfd", "gold", "lld", "mold"):
        program = "ld.lld" if linker == "lld" else linker if linker == "mold" else "ld." + linker
        if not shutil.which(compiler) or not shutil.which(program) or (
                compiler == "gcc" and linker == "mold" and not shutil.which("ld.mold")):
            print(f"{compiler} with {linker}: not installed")
            continue
        for extra in ([], ["-O2", "-g", "-Wl,-z,pack-relative-relocs"], ["-Os", "-flto"]):
            if "-flto" in extra and (compiler, linker) in (("clang", "bfd"), ("clang", "gold"),
                                                           ("gcc", "lld")):
                continue  # needs a linker plugin, or has none
            if extra and "relative" in extra[-1] and not links(compiler, linker, extra[-1]):
                continue  # gold has no RELR, lld since 15
            check(f"{compiler}, {linker}, {extra}", pathlib.Path(count).read_text(),
                  [compiler, *command[1:], "-fuse-ld=" + linker, *extra])
            variants += 1
print(f"{variants} variants of count.c")
