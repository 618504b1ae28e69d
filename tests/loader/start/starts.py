# SPDX-License-Identifier: MIT
"""What the tests of starts share (start.py, process/confined.py): a program with each loader, and what must
be equal of the two.
"""
import difflib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

SOURCES, WORLD = HERE / "programs", "loader/start/programs"
COUNT = support.BUILD / "passes" / "example"
# mvld's own variables, which plain runs must see too for the environments to be equal
NEUTRAL = {"MVLD_DEBUG": "", "MVLD_CONFIG": "", "MVLD_PASS_PATH": str(COUNT)}


class Programs:
    """The same program with each loader, under names of the same length."""

    def __init__(self, folder):
        self.folder = folder
        self.plain, self.mvld, self.confine = folder / "echo-p", folder / "echo-m", folder / "confine"
        support.take(folder, WORLD, *("musl-" * support.MUSL + f"{name}={name}" for name in ("echo-p", "echo-m")), "confine")

    def build(self, name, loader, *arguments):
        """Another one, linked otherwise."""
        path = self.folder / name
        support.compile_c(path, SOURCES / "echo.c", f"-Wl,--dynamic-linker={loader}", *arguments,
                          plugin=False)
        return path


def execute(command, env=None, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command],
                          env=support.clean_environment(**{**NEUTRAL, **(env or {})}),
                          capture_output=True, text=True, errors="replace", timeout=60, **options)


def same(plain, mvld, names=(), what=""):
    """Equal but for names that must differ: pairs of a text and what stands for it."""
    def text(done):
        out = f"status {done.returncode}\n{done.stdout}--- stderr\n{done.stderr}"
        out = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", out)
        for word, instead in names:
            out = out.replace(str(word), instead)
        return out
    difference = "\n".join(difflib.unified_diff(text(plain).splitlines(), text(mvld).splitlines(),
                                                "plain", "mvld", lineterm=""))
    check(not difference, f"{what}\n{difference}")


def both(programs, arguments=("all",), prefix=(), hidden="arguments|/proc/self/cmdline", **options):
    """The program with its two loaders says the same of its environment; hidden are
    lines in which its name counts."""
    plain = execute([*prefix, programs.plain, *arguments], **options)
    mvld = execute([*prefix, programs.mvld, *arguments], **options)
    if plain.returncode == 77:
        support.skip(plain.stdout.strip())
    strip = re.compile(rf"^({hidden}):.*\n", re.M)
    for done in plain, mvld:
        done.stdout = strip.sub("", done.stdout)
    check(plain.returncode == 0, plain.stdout + plain.stderr)
    same(plain, mvld, [("echo-p", "echo"), ("echo-m", "echo")])
    return mvld


def bring(programs, name="bring.so"):
    """The folder of a pass that brings a library, and the library."""
    passes = programs.folder / "passes"
    passes.mkdir()
    support.take(programs.folder, WORLD, "libbrought.so", f"{name}=passes/bring.so")
    return passes, programs.folder / "libbrought.so"


def start(behaviours):
    support.need(LOADER)
    with support.scratch_folder() as folder:
        behaviours[sys.argv[1]](Programs(folder))
