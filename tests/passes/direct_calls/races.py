# SPDX-License-Identifier: MIT
"""Files of the cache are exchanged while a program starts, at each of its system calls in turn
(loader/faults/exchange.c): whichever file the start meets there, good, damaged, another's, or of no fitting
kind, output and status are the plain ones, and it does not wait.

A failure means: a file was looked at in one place and used in another, so that a writer who keeps
the rule (files are renamed into place whole) breaks programs, or somebody's FIFO stops them.

Argument: one of the functions below.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import support
from support import check

sys.path.insert(0, str(support.SOURCE / "tests" / "loader" / "store"))
from snapshot_moved import Program  # noqa: E402

DRIVER = support.BUILD / "tests" / "loader" / "exchange_driver"


class Raced(Program):
    """It reports on standard error what was done to it (programs/report.c)."""
    main = "passes/direct_calls/programs", "raced=program"

    def analysis(self, path):
        said = support.run(["readelf", "-n", path]).stdout
        digits = re.search(r"Build ID: ([0-9a-f]+)", said).group(1)
        return self.cache / "mvld" / "analysis" / digits[:2] / (digits[2:] + ".mvld")

    def race(self, target, others, *options):
        ours = [os.path.realpath(support.LOADER), *self.passes.iterdir()]
        done = subprocess.run([DRIVER, *options, *ours, "--", target, *others.all, "--", self.path, "no", self.later],
                              env=support.clean_environment(**self.environment(MVLD_DEBUG="")),
                              capture_output=True, text=True, timeout=240)
        print(f"{target.name}: {done.stdout}", end="")
        if done.returncode == 77:
            support.skip(done.stdout)
        check(done.returncode == 0, done.stderr)


class Others:
    """What is to be exchanged with one target."""

    def __init__(self, folder):
        self.folder, self.all = folder, []
        folder.mkdir()

    def new(self, sign):
        path = self.folder / str(len(self.all))
        self.all.append(f"{sign}{path}")
        return path

    def unfit(self, good):
        """What may not be taken whatever is in it: a FIFO, a link to a good one, a folder."""
        os.mkfifo(self.new("-"))
        self.new("-").symlink_to(good)
        self.new("-").mkdir()
        return self

    def files(self, target, another):
        """A good one, one of something else, damaged ones, those of others."""
        whole = target.read_bytes()
        good = self.new("+")
        shutil.copy2(target, good)
        shutil.copy2(another, self.new("-"))
        self.new("-").write_bytes(whole[:len(whole) // 2])
        self.new("-").write_bytes(whole[:40] + bytes([whole[40] ^ 4]) + whole[41:])
        writable = self.new("-")
        shutil.copy2(target, writable)
        writable.chmod(0o666)
        if os.geteuid() == 0:
            foreign = self.new("-")
            shutil.copy2(target, foreign)
            os.chown(foreign, 12345, 12345)
        return self.unfit(good)


def analyses(program, folder):
    own, library = program.analysis(program.path), program.analysis(program.library)
    others = {own: Others(folder / "own").files(own, library), library: Others(folder / "library").files(library, own)}
    whole = program.config.read_text()
    program.config.write_text(whole.replace(", concat", ""))
    program.race(own, others[own])  # the library has no call that direct-calls changes
    program.config.write_text(whole)
    for target in own, library:
        program.race(target, others[target])


def images(program, folder):
    image, second = program.make_snapshot(), folder / "second"
    image.rename(second)
    check(program.make_snapshot() == image, "a snapshot has another name")
    manifest, moved = image / "manifest", image / "concat.so"
    program.race(manifest, Others(folder / "manifests").files(manifest, second / "manifest"))
    others = Others(folder / "moved")
    shutil.copy2(second / "concat.so", others.new("-"))
    others.new("-").write_bytes(moved.read_bytes()[:5000])
    program.race(moved, others.unfit(second / "concat.so"))


def folders(program, folder):
    others = Others(folder / "others")
    program.make_snapshot().rename(others.new("+"))
    for damage in (lambda at: os.truncate(at / "manifest", 100),
                   lambda at: (at / "concat.so").unlink(),
                   lambda at: at.chmod(0o777)):
        program.make_snapshot().rename(others.new("-"))
        damage(Path(others.all[-1][1:]))
    program.make_snapshot().rename(folder / "good")
    program.race(program.make_snapshot(), others.unfit(folder / "good"))


with support.scratch_folder() as scratch:
    (scratch / "exchanged").mkdir()
    globals()[sys.argv[1]](Raced(scratch), scratch / "exchanged")
