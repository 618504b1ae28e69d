# SPDX-License-Identifier: MIT
"""Programs start while somebody renames over the analyses of their objects, and over their frozen
image, again and again: whichever file a start meets, good, damaged, or of no fitting kind, the
program's output and status are the plain ones, and it does not wait.

A failure means: a file was looked at in one place and used in another, so that a writer who keeps
the rule (files are renamed into place whole) breaks programs, or somebody's FIFO stops them.

That it raced is seen in what was met: in each round some starts took what was there and some
refused it, and files changed while programs started.
"""
import ctypes
import os
import random
import re
import shutil
import sys
import threading
import time
from pathlib import Path

import support
from support import check

sys.path.insert(0, str(support.SOURCE / "tests" / "loader"))
from frozen_copies import Program  # noqa: E402

STARTS = 50  # in each round, and more, up to MOST, while an outcome was not met
MOST = 250
AT_FDCWD, RENAME_EXCHANGE = -100, 2
THAWED, NOT_THAWED = r"image [^\n]*: thawed, the code of", r"image [^\n]*: not thawed: "


def exchange(one, other):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


class Rival(threading.Thread):
    """Exchanges each target with one of its others, or takes it away for a moment.  Nothing is
    lost: what stood there is the next one's other."""

    def __init__(self, others):
        super().__init__(daemon=True)
        self.others, self.moves, self.error = others, 0, None
        self.ending = threading.Event()

    def run(self):
        try:
            while not self.ending.is_set():
                for target, others in self.others.items():
                    self.move(target, others)
        except OSError as error:
            self.error = error

    def move(self, target, others):
        if random.random() < 0.1:
            away = others[0].with_name("away")
            target.rename(away)
            time.sleep(random.random() / 10000)
            away.rename(target)
        else:
            exchange(random.choice(others), target)
            time.sleep(random.random() / 10000)
        self.moves += 1


class Pool:
    """What is to be exchanged with one target."""

    def __init__(self, folder, target):
        self.folder, self.target, self.all = folder, target, []
        self.good = target.with_name("good-" + target.name)
        folder.mkdir()

    def new(self):
        self.all.append(self.folder / str(len(self.all)))
        return self.all[-1]

    def add_unfit(self):
        """What may not be taken whatever is in it: a FIFO, a link to a good one, a folder."""
        os.mkfifo(self.new())
        check(self.good.exists(), f"no {self.good}")
        self.new().symlink_to(self.good)
        self.new().mkdir()

    def put_back(self):
        exchange(self.good, self.target)

    def add_files(self, other):
        """Good ones, one of something else, damaged ones, those of others."""
        whole = self.target.read_bytes()
        shutil.copy2(self.target, self.good)
        for _ in range(9):
            shutil.copy2(self.target, self.new())
        shutil.copy2(other, self.new())
        self.new().write_bytes(whole[:len(whole) // 2])
        for at in 40, len(whole) - 40:
            self.new().write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        shutil.copy2(self.target, self.new())
        self.all[-1].chmod(0o666)
        if os.geteuid() == 0:
            shutil.copy2(self.target, self.new())
            os.chown(self.all[-1], 12345, 12345)
        self.add_unfit()


class Race:
    def __init__(self, program):
        self.program, self.words = program, ("no", program.later)
        self.plain = support.run([program.path, *self.words], **program.environment(MVLD="off"))
        check(self.plain.returncode == 0, self.plain.stderr)

    def start(self):
        done = support.run([self.program.path, *self.words], timeout=20,
                           **self.program.environment())
        check((done.returncode, done.stdout) == (self.plain.returncode, self.plain.stdout),
              f"{done.returncode} {done.stdout}\n{done.stderr}")
        return done.stderr

    def run(self, what, pools, *outcomes):
        """Each pair of outcomes: both must be met."""
        rival = Rival({pool.target: pool.all for pool in pools})
        met, stirred, starts = {outcome: 0 for outcome in outcomes}, 0, 0
        rival.start()
        while starts < STARTS or (starts < MOST and not all(met.values())):
            starts += 1
            before = rival.moves
            log = self.start()
            stirred += rival.moves > before
            for outcome in outcomes:
                met[outcome] += bool(re.search(outcome, log))
        rival.ending.set()
        rival.join()
        print(f"{what}: {starts} starts, {rival.moves} renames, {stirred} starts among them; "
              f"{', '.join(map(str, met.values()))}")
        check(not rival.error, f"{what}: {rival.error}")
        check(stirred > starts // 5, f"{what}: no race")
        for outcome, n in met.items():
            check(n, f"{what}: never '{outcome}'\n{log}")


def analyses(race, folder):
    program = race.program
    program.analyze("--program", program.path)  # the C library, too
    libc, = re.findall(r"object: (/\S*/libc\.so\.6) at", race.start())
    # The two libraries are the same code, so one analysis is of both.  What root has analysed is
    # there for everybody, whatever becomes of this cache.
    raced = [path for path in (program.path, program.library, Path(libc))
             if not (Path("/var/cache/mvld/analysis") / build_id(path)).exists()]
    paths = {path: program.cache / "mvld" / "analysis" / build_id(path) for path in raced}
    check(len(set(paths.values())) == len(paths), "two pools for one file")
    others = dict(zip(raced, raced[1:] + raced[:1]))
    pools = [Pool(folder / path.name, analysis) for path, analysis in paths.items()]
    outcomes = []
    for path in (*raced, program.later):
        outcomes += [rf"{re.escape(str(path))}: \d+ of \d+ sites made direct",
                     rf"no analysis of [^\n]*{re.escape(str(path))}[^\n]*: "]
    contents = folder / "contents"
    contents.mkdir()
    for path, analysis in paths.items():
        shutil.copy2(analysis, contents / path.name)
    for pool, path in zip(pools, paths):
        pool.add_files(contents / others[path].name)
    whole = program.config.read_text()
    program.config.write_text(whole.replace(", concat", ""))
    race.run("analyses, direct-calls", pools, *outcomes)
    program.config.write_text(whole)
    race.run("analyses, direct-calls and concat", pools, *outcomes)
    for pool in pools:
        pool.put_back()


def build_id(path):
    said = support.run(["readelf", "-n", path]).stdout
    digits = re.search(r"Build ID: ([0-9a-f]+)", said).group(1)
    return Path(digits[:2]) / (digits[2:] + ".mvld")


def images(race, folder):
    program = race.program
    image, second = program.freeze(), folder / "second"
    image.rename(second)
    check(program.freeze() == image, "an image has another name")
    check(re.search(THAWED, race.start()), "an image is not used")
    pools = [Pool(folder / name, image / name) for name in ("image", "concat.so")]
    pools[0].add_files(second / "image")
    os.link(pools[1].target, pools[1].good)  # a copy of this file would be another file
    for _ in range(6):
        os.link(pools[1].target, pools[1].new())
    shutil.copy2(second / "concat.so", pools[1].new())
    pools[1].new().write_bytes(pools[1].target.read_bytes()[:5000])
    pools[1].add_unfit()
    race.run("files of an image", pools, THAWED, NOT_THAWED)


def folders(race, folder):
    program = race.program
    pool = Pool(folder / "folders", program.freeze())
    for _ in range(5):
        program.freeze().rename(pool.new())
    for damage in (lambda at: os.truncate(at / "image", 100),
                   lambda at: (at / "concat.so").unlink(),
                   lambda at: next(at.glob("*-libplace.so")).unlink(),
                   lambda at: at.chmod(0o777)):
        program.freeze().rename(pool.new())
        damage(pool.all[-1])
    program.freeze().rename(pool.good)
    program.freeze()
    pool.add_unfit()
    race.run("folders of images", [pool], THAWED, NOT_THAWED)


def main():
    with support.scratch_folder() as scratch:
        program = Program(scratch)
        for round_ in (analyses, images, folders):
            folder = scratch / round_.__name__
            folder.mkdir()
            race = Race(program)
            race.start()
            round_(race, folder)
            shutil.rmtree(program.cache / "mvld" / "images", ignore_errors=True)


main()
