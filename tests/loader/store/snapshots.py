# SPDX-License-Identifier: MIT
"""What the tests of snapshots share (snapshot.py, snapshot_made.py, snapshot_placed.py): snapshot/ holds a program,
a library, and a pass that makes the library's answer 2 instead of 1.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, from_snapshot  # noqa: E402

SOURCES = HERE / "snapshot"


class Program:
    def __init__(self, folder):
        self.folder = folder
        self.passes, self.cache = folder / "passes", folder / "cache"
        self.passes.mkdir()
        support.take(self.passes, "loader/store/snapshot", "answer.so")
        self.library = folder / "libanswer.so"
        self.flag = folder / "flag"
        self.make_library()
        self.path = folder / "program"
        support.take(folder, "loader/store/snapshot", "program")

    def make_program(self, *more):
        """Another one than that of most tests."""
        support.compile_c(self.path, SOURCES / "main.c", support.MAPPED, "-rdynamic", "-L" + str(self.folder),
                          "-lanswer", f"-Wl,-rpath,{self.folder}", f"-Wl,-I,{support.LOADER}",
                          *more, plugin=False)

    def make_library(self):
        """The library anew, with a flag in this folder."""
        support.take(self.folder, "loader/store/snapshot", "libanswer.so")

    def run(self, *words, keys="", prefix=(), status=0, **environment):
        environment.setdefault("MVLD_DEBUG", "files,passes")
        done = support.run([*prefix, self.path, *words], MVLD_PASS_PATH=self.passes, TELL_MAPPED=1,
                           XDG_CACHE_HOME=self.cache,
                           config=f"[app]\nmatch = {self.path}\npasses = answer\n{keys}",
                           **environment)
        check(status is None or done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def make_snapshot(self, **options):
        done = self.run(MVLD_SNAPSHOT=1, **options)
        folder = Path(done.stdout.strip())
        check(folder.is_absolute() and (folder / "manifest").is_file(),
              f"no snapshot:\n{done.stdout}{done.stderr}")
        return folder

    def manifests(self):
        """Which snapshots there are: a start that writes one changes this."""
        found = {path.parent.name: path.stat() for path in (self.cache / "mvld" / "snapshots").glob("*/manifest")}
        return {name: (stat.st_ino, stat.st_ctime_ns) for name, stat in found.items()}

    def writes(self, *words, **options):
        """The start, and whether it wrote a snapshot."""
        before = self.manifests()
        done = self.run(*words, **options)
        return done, self.manifests() != before

    def applied(self, *words, expected="2 0\n", **options):
        done = self.run(*words, **options)
        check(len(from_snapshot(done)) == 1 and done.stdout.startswith(expected),
              f"it was not applied, or is wrong:\n{done.stdout}{done.stderr}")
        return done

    def refused(self, why, *words, expected="2 0\n", **options):
        """Not applied, for this reason; the program is right."""
        done = self.run(*words, **options)
        check(re.search("not applied: .*" + re.escape(why), done.stderr) and
              done.stdout == expected and not from_snapshot(done),
              f"wanted '{why}':\n{done.stdout}{done.stderr}")


def start(behaviours):
    with support.scratch_folder() as folder:
        behaviours[sys.argv[1]](Program(folder))
