# SPDX-License-Identifier: MIT
"""What the tests of the tools share: run a command, compare, build a file."""
import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time

ENV = dict(os.environ, LC_ALL="C", LANG="C")
for name in [n for n in ENV if n.startswith("MVLD")]:
    del ENV[name]
ENV["MVLD_STATE"] = tempfile.mkdtemp(prefix="mvld-state-")  # the record of changes
atexit.register(shutil.rmtree, ENV["MVLD_STATE"], ignore_errors=True)

# What the pass `answer` looks for.
ANSWER_PROGRAM = r"""
__asm__(".globl answer\n.type answer, @function\n"
        "answer: movl $1, %eax\nret\n.size answer, . - answer\n");
int answer(void);
int main(void) { return answer(); }
int (*const word)(void) = main;
"""

failures = 0


def run(*command, env=None, cwd=None, stdin=None):
    """(exit code, standard output, standard error) of a command."""
    p = subprocess.run([str(c) for c in command], env=dict(ENV, **(env or {})), cwd=cwd,
                       input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")


def check(condition, what):
    """Counts a failure and says what it was; the test goes on."""
    global failures
    if not condition:
        failures += 1
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        print(f"{frame.f_code.co_filename}:{frame.f_lineno}: FAILED: {what}", flush=True)
    return condition


def equal(found, expected, what):
    check(found == expected, f"{what}\n--- expected\n{expected}\n--- found\n{found}")


def contains(text, part, what):
    check(part in text, f"{what}: no {part!r} in\n{text}")


def compile_file(to, *arguments):
    """Builds a fixture; a compiler that cannot is an error of the test."""
    subprocess.run(["gcc", "-o", str(to), *map(str, arguments)], check=True, timeout=60)
    return to


def meanwhile(first, change, *command):
    """The same of a command that finds process `first` busy with another tool, while change() is made."""
    with open(f"/proc/{first}/mem", "rb") as memory:
        fcntl.flock(memory, fcntl.LOCK_EX)
        p = subprocess.Popen([str(c) for c in command], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        change()
    out, err = p.communicate(timeout=60)
    return p.returncode, out, err


def scratch():
    return tempfile.TemporaryDirectory(prefix="mvld-tools-")


def finish():
    sys.exit(1 if failures else 0)


def skip(why):
    print("SKIP:", why)
    sys.exit(77)
