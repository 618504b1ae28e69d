# SPDX-License-Identifier: MIT
"""The kinds of python3.

python3, Debian's own, has the interpreter in the executable, at a fixed address.  python3-shared is made here of
Debian's libpython, and has the interpreter in a library, like programs that embed Python; that library was built
with -fno-semantic-interposition, and calls few of its own functions through the PLT.  python3-built was built from
source with --enable-shared alone, so all of these calls go through the PLT; it is looked for on the PATH, or
$MVLD_BENCH_PYTHON names it.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
from report import say  # noqa: E402

EMBEDDED = """int Py_BytesMain(int argc, char **argv);
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
"""


def embedded(output):
    """Makes `output`, a python3 whose interpreter is a library.  False: there is no such library."""
    libraries = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libpython3.*.so.1.0"))
    if not libraries:
        return False
    subprocess.run([support.CC, "-O2", "-x", "c", "-", "-x", "none", "-o", output, libraries[-1]],
                   input=EMBEDDED, text=True, check=True, timeout=60)
    return True


def built():
    """(executable, what PYTHONHOME a copy of it needs) of a python3 other than the system's that
    is linked with a libpython, or None.  $MVLD_BENCH_PYTHON names one that is not on the PATH."""
    wanted = os.environ.get("MVLD_BENCH_PYTHON")
    found = [wanted] if wanted else [f"{folder}/python3" for folder in os.get_exec_path()]
    system = Path("/usr/bin/python3").resolve()
    for path in filter(os.path.exists, found):
        said = subprocess.run([path, "-c", "import sys; print(sys.executable, sys.base_prefix, sep='\\n')"],
                              capture_output=True, text=True, timeout=60, cwd="/").stdout.splitlines()
        if len(said) != 2:
            continue
        executable = Path(said[0]).resolve()  # what was on the PATH may be a script
        if executable != system and libpython(executable):
            return executable, said[1]
    if wanted:
        say(f"    MVLD_BENCH_PYTHON: {wanted} is no python3 that is linked with a libpython")
    return None


def libpython(executable):
    """The libpython that an executable finds, or None."""
    out = subprocess.run(["ldd", executable], capture_output=True, text=True, timeout=20).stdout
    found = re.search(r"libpython\S+ => (\S+)", out)
    return found and found[1]


def through_plt(library):
    """How many functions it calls through its PLT."""
    out = subprocess.run(["readelf", "-rW", library], capture_output=True, text=True, timeout=60).stdout
    return out.count("R_X86_64_JUMP_SLO")
