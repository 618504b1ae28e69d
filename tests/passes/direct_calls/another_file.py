# SPDX-License-Identifier: MIT
"""A library is replaced by another one that has its name, size, time of modification and inode, and its
build-id or none: what was kept of the old one is not used (rimf/base/file_id.h).

A failure means: after an upgrade, programs run code of the old library in the new one.

Arguments: what is kept, one of the functions below; how it is replaced: `tar`, `rm` (and then tar), or
`edit` (in place, and the times are set back).
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import support
from own_world import WORLD, World
from support import check

TIME = 1_000_000_000  # as reproducible archives have it


def takes_inode(path, was, unpack):
    """Until the new file has the inode of the old one, which is free."""
    for attempt in range(200):
        unpack()
        if path.stat().st_ino == was.st_ino:
            return
        path.rename(path.with_name(f"taken{attempt}"))
    support.skip("the file system does not use inodes again")


def replace(path, new, how):
    was = path.stat()
    check(new.stat().st_size == was.st_size and new.read_bytes() != path.read_bytes(), "sizes differ")
    os.utime(new, (TIME, TIME))
    if how == "edit":
        with open(path, "r+b") as file:
            file.write(new.read_bytes())
        os.utime(path, (TIME, TIME))
    else:
        archive = path.with_name("archive.tar")
        inside = path.with_name("inside")
        inside.mkdir()
        shutil.copy2(new, inside / path.name)
        subprocess.run(["tar", "-C", inside, "-cf", archive, path.name], check=True)
        if how == "rm":
            path.unlink()
        takes_inode(path, was, lambda: subprocess.run(["tar", "-C", path.parent, "-xf", archive], check=True))
    now = path.stat()
    check((now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) ==
          (was.st_dev, was.st_ino, was.st_size, TIME * 10 ** 9), f"{was}\n{now}")


def upgrade(world, path, how, new):
    """By one of those that meson has built."""
    support.take(world.folder, WORLD, f"{new}=new.so")
    replace(path, world.folder / "new.so", how)


def plain(world, *arguments):
    return world.start(*arguments, MVLD="off").stdout


def upgraded(world, how):
    """With the build-id of the old one, and code that differs in one number."""
    before = plain(world)
    upgrade(world, world.lib, how, "own-new.so")
    says = plain(world)
    check(says != before, "it is the same library")
    return says


def old(world, path):
    os.utime(path, (TIME, TIME))
    world.analyse(path)


def make_snapshot(world, *arguments, code=0, **more):
    done = world.start(*arguments, **{"MVLD_SNAPSHOT": "1", **more})
    check(code in (None, done.returncode), done.stdout + done.stderr)


def image(world, how):
    old(world, world.lib)
    make_snapshot(world)
    check("libown.so" in support.from_snapshot(world.run()), "it is not used")
    done = world.run(says=upgraded(world, how))
    check(not support.from_snapshot(done), done.stderr)


def unnamed(world, how):
    """No build-id; calls of the program would reach the other of two functions."""
    support.take(world.folder, WORLD, "libswapped.so", "swapped-new.so=new.so", "swapped")
    world.program, lib, new = [world.folder / name for name in ("swapped", "libswapped.so", "new.so")]
    os.utime(lib, (TIME, TIME))
    world.analyse(world.program)
    make_snapshot(world)
    done = world.run(says="1 2\n")
    check("swapped" in support.from_snapshot(done), done.stderr)
    replace(lib, new, how)
    done = world.run(says="1 2\n")
    check(not support.from_snapshot(done), done.stderr)


def learnt(world, how):
    """An object of dlopen."""
    module = world.folder / "module.so"
    support.take(world.folder, WORLD, module.name)
    old(world, module)
    check(world.start(module, MVLD_SNAPSHOT="run").returncode == 0, "no snapshot")
    before = plain(world, module)
    done = world.run(module, says=before)
    check("module.so" in support.from_snapshot(done), done.stderr)
    upgrade(world, module, how, "module-new.so")
    says = plain(world, module)
    check(says != before, "it is the same module")
    done = world.run(module, says=says)
    check("module.so" not in support.from_snapshot(done), done.stderr)


def analysis(world, how):
    old(world, world.lib)
    check(support.changed(world.run(), "libown.so")[0], "it is not used")
    done = world.run(says=upgraded(world, how))
    check(not support.changed(done, "libown.so")[0], done.stderr)


def constants(world, how):
    """Code is the same, what is only read is not: calls may be entered elsewhere."""
    world.library(world.lib, "-DTEXT", "-Wl,-z,now", "-Wl,-z,relro")
    old(world, world.lib)
    check(support.changed(world.run(), "libown.so")[0], "it is not used")
    new = world.folder / "new.so"
    new.write_bytes(world.lib.read_bytes().replace(b"some text", b"more text"))
    replace(world.lib, new, how)
    done = world.run()
    check(not support.changed(done, "libown.so")[0], done.stderr)


def mounted(world, how):
    """The library lies in a image of a file system, and another one is mounted in its place."""
    if os.geteuid() or not shutil.which("mksquashfs") or "squashfs" not in Path("/proc/filesystems").read_text():
        support.skip("needs root and squashfs")
    where, ids = world.folder / "mounted", set()
    where.mkdir()

    def image(name):
        inside = world.folder / name
        inside.mkdir()
        shutil.copy(world.lib, inside)
        subprocess.run(["mksquashfs", inside, f"{inside}.sq", "-all-time", str(TIME), "-quiet", "-no-progress"],
                       check=True, stdout=subprocess.DEVNULL)
        there = {"prefix": ["unshare", "-m", "sh", "-c", f'mount -o loop "$0" {where} && exec "$@"', f"{inside}.sq"],
                 "LD_LIBRARY_PATH": where}
        ids.add(support.run([*there["prefix"], "stat", "-c", "%d %i %s %Y %Z", where / world.lib.name]).stdout)
        return there

    first = image("first")
    make_snapshot(world, **first, code=None)
    upgraded(world, how)
    second = image("second")
    if len(ids) > 1:
        support.skip("it is mounted as another device")
    world.run(says=world.start(**second, MVLD="off").stdout, **second)


if __name__ == "__main__":
    kept, way = sys.argv[1:]
    with support.scratch_folder() as scratch:
        globals()[kept](World(Path(scratch)), way)
    print(f"ok: {kept} {way}")
