#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mapstage.py BEHAVIOUR: files that a pass refuses are not mapped (passes/example/verify.c); and files that
options name, which a pass reads (mapstage/read.c).

Each function below is one test; its text says what a failure means.
"""
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402


def digest(path):
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=32).hexdigest()


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        self.files = {name: folder / f"lib{name}.so" for name in ("first", "late", "aligned")}
        self.files["main"] = self.program
        support.take(folder, "loader/start/mapstage", "main", "verify.so", "read.so",
                     *(f"lib{name}.so" for name in ("first", "late", "aligned")))
        for line in subprocess.run(["ldd", self.program], capture_output=True, text=True).stdout.splitlines():
            if "libc.so" in line or "libdl" in line:
                self.files[line.split()[0]] = line.split()[2]

    def run(self, *arguments, without=(), command=None, placement="near", **more):
        listed = "".join(f"allow.{i} = {digest(path)}\n" for i, (name, path) in enumerate(self.files.items())
                         if name not in without)
        config = f"[app]\nmatch = main\npasses = verify\nplacement = {placement}\n[verify]\n{listed}"
        return support.run([*(command or [self.program]), *arguments], config=config,
                           MVLD_PASS_PATH=self.folder, **more)


def good(done, *more):
    check(done.returncode == 0 and done.stdout.splitlines() == ["first runs", *more] and not done.stderr,
          f"status {done.returncode}\n{done.stdout}{done.stderr}")


def refused(done, file):
    check(done.returncode == 127 and not done.stdout and str(file) in done.stderr and
          "its digest is not listed" in done.stderr, f"status {done.returncode}\n{done.stdout}{done.stderr}")


def start(world):
    """What is listed runs; a program of which one file is not does not start, and says which file."""
    for placement in ("near", "as-is"):
        good(world.run(placement=placement), "first 7")
        refused(world.run(without=("main",), placement=placement), world.program)
        refused(world.run(without=("first",), placement=placement), world.files["first"])
        refused(world.run(without=("libc.so.6",), placement=placement), "libc.so.6")
    good(world.run(without=("main", "first"), MVLD="off"), "first 7")
    command = ["sh", "-c", 'ulimit -v 7000 && exec "$0"', world.program]  # where other passes are left out
    good(world.run(command=command), "first 7")
    refused(world.run(command=command, without=("first",)), world.files["first"])


def directly(world):
    """The same when mvld is run as a program: the host loader maps the executable."""
    command = [LOADER, world.program]
    good(world.run(command=command), "first 7")
    refused(world.run(command=command, without=("main",)), world.program)
    refused(world.run(command=command, without=("first",)), world.files["first"])


def opened(world):
    """A dlopen of what is not listed fails, no constructor of it runs, and the program goes on; the reason, which
    dlerror() has not, is on standard error."""
    for name in ("late", "aligned"):
        good(world.run(world.files[name]), f"{name} runs", "first 7", "late")
        done = world.run(world.files[name], without=(name,))
        lines = done.stdout.splitlines()
        check(done.returncode == 0 and lines[:2] == ["first runs", "first 7"] and len(lines) == 3 and
              f"lib{name}.so" in lines[2], done.stdout + done.stderr)
        said = done.stderr.splitlines()
        check(len(said) == 1 and f"lib{name}.so" in said[0] and "its digest is not listed" in said[0], done.stderr)


def changed(world):
    """A library that is replaced after it was listed is refused; so is one that was changed in place."""
    library = world.files["first"]
    before = {**world.files}
    lists = {name: digest(path) for name, path in before.items()}
    config = "[app]\nmatch = main\npasses = verify\n[verify]\n" + "".join(
        f"allow.{i} = {hex}\n" for i, hex in enumerate(lists.values()))

    def run():
        return support.run([world.program], config=config, MVLD_PASS_PATH=world.folder)

    good(run(), "first 7")
    shutil.copy(library, world.folder / "kept")
    with open(library, "ab") as file:
        file.write(b"\0")
    refused(run(), library)
    shutil.copy(world.folder / "kept", library)
    good(run(), "first 7")


def read(world):
    """A file that an option names can be read in each stage: where files are looked at, too, of the start and of dlopen;
    and a file has its path."""
    listed, log = world.folder / "listed", world.folder / "log"
    listed.write_text("what is listed")
    config = f"[app]\nmatch = main\npasses = read\n[read]\nlist = {listed}\n"
    done = support.run([world.program, world.files["late"], "apart"], config=config, MVLD_DEBUG="passes",
                       MVLD_PASS_PATH=world.folder, MVLD_DEBUG_OUTPUT=log)
    text = "".join(path.read_text() for path in world.folder.glob("log.*"))
    good(done, "late runs", "first 7", "late")
    said = re.findall(r"list in (\w+): (.*)", text)
    check(said.count(("map", "what is listed")) >= 3 and said.count(("run", "what is listed")) == 2 and
          len(set(said)) == 2, f"{said}\n{text}")
    check(f"maps {world.files['late']}\n" in text, f"another file's path, of the thread that has other descriptors:\n{text}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"start": start, "directly": directly, "opened": opened, "changed": changed,
         "read": read}[sys.argv[1]](World(scratch))
