# SPDX-License-Identifier: MIT
"""truth.py TRUTH [ARCHIVE...]: links whole archives of Debian with --emit-relocs, in
every way and with every linker that takes them, and lets TRUTH compare.

Without archives, a few that the tests' packages bring.  By hand, with all there are:

    truth.py build/tests/rimf/analyze/analyze_truth /usr/lib/x86_64-linux-gnu/*.a
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

truth, archives = sys.argv[1], sys.argv[2:]
if not shutil.which("gcc"):
    print("no gcc here")
    sys.exit(77)


def archive(name):
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return path if os.path.isabs(path) else None


MAIN = "int main(void) { return 0; }\n"
WAYS = {
    "shared": ["-shared", "-Wl,-z,undefs"],
    "symbolic": ["-shared", "-Wl,-z,undefs", "-Wl,-Bsymbolic"],
    "pie": ["-pie", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-z,lazy"],
    "fixed": ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"],
    "static-pie": ["-static-pie", "-Wl,-z,muldefs"],  # libc itself clashes with its parts
}
# What is tried when nothing is named: archive, ways, linkers.
SUITE = [
    ("libstdc++.a", ["pie"], ["bfd", "lld"]),
    ("libcrypto.a", ["shared"], ["bfd"]),
    ("libelf.a", ["pie", "fixed"], ["bfd", "gold"]),
    ("libc.a", ["static-pie"], ["bfd"]),
    ("libz.a", ["pie", "symbolic"], ["bfd", "lld", "gold", "mold"]),
]


def link(scratch, path, way, linker):
    """The linked file, or None: this archive cannot be linked so."""
    output = scratch / f"{Path(path).stem}-{way}-{linker}"
    whole = ["-Wl,--whole-archive", path, "-Wl,--no-whole-archive"]
    command = ["gcc", f"-fuse-ld={linker}", *WAYS[way], "-Wl,--emit-relocs", "-Wl,--build-id",
               *([] if "-shared" in WAYS[way] else [str(scratch / "main.c")]), *whole,
               "-o", str(output), "-w"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return output if done.returncode == 0 else None


failed = compared = 0
with tempfile.TemporaryDirectory(prefix="mvld-truth-") as name:
    scratch = Path(name)
    (scratch / "main.c").write_text(MAIN)
    plan = [(a, list(WAYS), ["bfd", "lld", "gold", "mold"]) for a in archives] or SUITE
    for path, ways, linkers in plan:
        path = path if archives else archive(path)
        for way in ways if path else []:
            for linker in linkers:
                if not shutil.which("ld." + linker):
                    continue
                if linker == "mold" and way in ("pie", "fixed") and archives:
                    continue  # where symbols are not defined, it writes wrong code
                output = link(scratch, path, way, linker)
                if not output:
                    print(f"{path}: not linked, {way} with {linker}")
                    continue
                done = subprocess.run([truth, output], timeout=300)
                failed += done.returncode not in (0, 77)
                compared += done.returncode != 77
                output.unlink()
print(f"{compared} files compared, {failed} failed")
if not compared:
    print("no archive could be linked")
sys.exit(1 if failed else 0 if compared else 77)
