# SPDX-License-Identifier: MIT
"""A program and its library, in a folder of their own: what several tests start."""
from pathlib import Path

import support
from support import check

HERE = Path(__file__).resolve().parent
MVLD = support.BUILD / "tools" / "mvld"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
SOURCES = HERE / "programs"
WORLD = "passes/direct_calls/programs"


class World:
    """The program own_main.c and its library own.c."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.lib, self.program = folder / "libown.so", folder / "program"
        support.take(folder, WORLD, "libown.so", "program")
        self.plain = support.run([self.program], MVLD="off").stdout
        check(self.plain.splitlines()[0].count(" ") == 1, f"the program says '{self.plain}'")
        self.analyse(self.lib, self.program)

    def compile(self, name, *more, source=SOURCES / "own_main.c"):
        """Another program, whose libraries are found beside it."""
        support.compile_c(self.folder / name, source, support.MAPPED, "-L" + str(self.folder), "-Wl,--no-as-needed",
                          "-lown", f"-Wl,-rpath,{self.folder}", "-Wl,-z,now",
                          f"-Wl,--dynamic-linker={support.LOADER}", *more, plugin=False)
        return self.folder / name

    def library(self, path, *more, source=SOURCES / "own.c"):
        """Another library."""
        support.compile_c(path, "-shared", "-fPIC", "-fsemantic-interposition", source, "-Wl,--build-id=0xabcdef01",
                          "-Wl,-rpath,$ORIGIN", *more, plugin=False)

    def analyse(self, *objects):
        support.analyze(self.cache, *objects)

    def start(self, *arguments, prefix=(), program=None, **more):
        more = {"config": CONFIG, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls",
                "MVLD_DEBUG": "passes", "XDG_CACHE_HOME": self.cache, "TELL_MAPPED": 1, **more}
        return support.run([*prefix, program or self.program, *arguments], **more)

    def run(self, *arguments, says=None, **more):
        done = self.start(*arguments, **more)
        check((done.returncode, done.stdout) == (0, says or self.plain),
              f"{done.returncode} '{done.stdout}'\n{done.stderr}")
        return done
