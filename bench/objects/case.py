# SPDX-License-Identifier: MIT
"""How long `mvld switch -p` takes, start to end, with a process of a hundred objects that all ask one switch.

The first request opens libmultiverse in the process.
"""
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import support  # noqa: E402
from programs import MVLD  # noqa: E402

OBJECTS = 100
DECLARED = "extern __attribute__((multiverse)) int wide;\n"


def build(folder):
    names = [f"object{i}" for i in range(OBJECTS)]
    for name in names:
        (folder / f"{name}.c").write_text(
            DECLARED + f"int total_{name};\n__attribute__((multiverse)) void work_{name}(void)\n"
            f"{{ if (wide) total_{name} += 3; else total_{name}--; }}\nvoid {name}(void) {{ work_{name}(); }}\n")
        support.compile_c(folder / f"lib{name}.so", "-fPIC", "-shared", folder / f"{name}.c")
    declared, called = ("".join(f"{text}();\n" for text in texts) for texts in ([f"void {n}" for n in names], names))
    (folder / "main.c").write_text(
        f"#include <stdio.h>\n#include <unistd.h>\n__attribute__((multiverse)) int wide;\n{declared}int main(void)\n{{\n"
        f"    for (putchar('\\n'), fflush(stdout);; usleep(1000)) {{\n{called}    }}\n}}\n")
    support.compile_c(folder / "main", folder / "main.c", "-Wl,-E", f"-L{folder}", "-Wl,-rpath,$ORIGIN",
                      *(f"-l{n}" for n in names))
    return folder / "main"


class Process:
    def __init__(self, program):
        self.process = subprocess.Popen([str(program)], stdout=subprocess.PIPE)

    def __enter__(self):
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def switch(self, *arguments):
        """Milliseconds of the tool, from start to end."""
        begin = time.monotonic()
        done = subprocess.run([str(MVLD), "switch", "-p", str(self.process.pid), *arguments], capture_output=True,
                              text=True, timeout=60)
        support.check(done.returncode == 0, f"mvld switch: {done.stderr}")
        return 1000 * (time.monotonic() - begin)


def first(program):
    with Process(program) as process:
        return process.switch()


def row(what, walls):
    return what, f"{sorted(walls)[len(walls) // 2]:.1f} | ms | median", None


def run(folder, times=200):
    """The rows for the summary: (what, result, ok)."""
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    rows = [row("list, first request to a process", [first(program) for _ in range(times // 8)])]
    with Process(program) as process:
        return [*rows, row("list", [process.switch() for _ in range(times)]),
                row("set", [process.switch("--keep", f"wide={i % 2}") for i in range(times)]),
                row("list, set and commit", [process.switch(f"wide={i % 2}") for i in range(times)])]
