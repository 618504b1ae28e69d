#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot.py BEHAVIOUR: whether a program starts from its snapshot.

The answer must be 2 whenever the pass is asked for, applied or not; what differs is
what the log says.  Each function below is one test; its text says what a failure
means.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import image_table  # noqa: E402
import support  # noqa: E402
from snapshots import SOURCES, start  # noqa: E402
from support import check, from_snapshot  # noqa: E402


def applies(program):
    """A snapshot is not used, or not to the same effect."""
    done = program.run()
    check(done.stdout == "2 0\n" and not from_snapshot(done), done.stdout + done.stderr)
    folder = program.make_snapshot()
    done = program.applied("maps")
    code = [line for line in done.stdout.splitlines() if " r-xp " in line]
    check(len(code) == 1 and str(folder) in code[0] and "libanswer.so" in code[0],
          f"the code is not mapped from the snapshot:\n{done.stdout}")
    check(done.stdout.splitlines()[-1] == str(program.library), "dladdr names another file")
    check(subprocess.run(["nm", "-D", *folder.glob("*-libanswer.so")], capture_output=True,
                         text=True).stdout.count(" answer"), "the overlay has no symbols")
    os.link(next(folder.glob("*-libanswer.so")), program.folder / "link")  # perf record does so
    program.applied()
    os.link(program.library, program.folder / "another")  # as what replaces a file changes it
    program.refused("libanswer.so: its file is another one")
    program.make_snapshot()
    program.applied()


def unmapped(program):
    """A pass is mapped though the snapshot has its work, or is not when something comes that the
    image does not hold; or what goes wrong with it then touches the program."""
    other, plan = program.folder / "libother.so", program.passes / "answer.so"
    kept = program.folder / "kept.so"
    shutil.copy(program.library, other)
    shutil.copy(plan, kept)
    program.make_snapshot()
    quiet = {"MVLD_DEBUG": "files"}
    program.applied("open", other, expected="2 0\n0 2 1\n", **quiet)
    program.applied("open", other, expected="2 0\n1 2 1\n")  # the plan is printed
    program.refused("a call leads elsewhere", "open", other, expected="2 1\n1 2 1\n",
                    prefix=["sh", "-c", f'touch {program.flag} && exec "$@"', "sh"], **quiet)
    program.flag.unlink()
    done = program.applied("open", other, plan, expected="2 0\n0 1 0\n", **quiet)
    check("answer.so: the pass cannot be opened (error 2): what comes now stays as it is" in done.stderr,
          done.stderr)
    done = program.run(MVLD_DEBUG="")
    check(done.stdout.startswith("1 ") and "there is no pass 'answer'" in done.stderr,
          f"a pass that is gone: {done.stdout}{done.stderr}")
    shutil.copy(kept, plan)  # another file
    done = program.run(**quiet)
    check(done.stdout == "2 0\n" and not from_snapshot(done), done.stdout + done.stderr)


def other_files(program):
    """A snapshot is used with a library that is not the one it was made with."""
    program.make_snapshot()
    shutil.copy(program.library, program.folder / "copy.so")
    (program.folder / "copy.so").rename(program.library)
    program.refused("libanswer.so: its file is another one")
    program.make_snapshot()
    program.applied()


def reads(program):
    """A snapshot is used though a pass would read another file now; or it is not made anew, or somewhere else."""
    file = program.folder / "file"
    keys = f"[answer]\nnote.first = 1\nnote.second = 2\nfile = {file}\n"
    build = {"keys": "on-miss = build\n" + keys}

    def replace(text):
        (program.folder / "new").write_text(text)
        (program.folder / "new").rename(file)

    def edit(text):
        was = file.stat()
        check(len(text) == was.st_size, "it has another size")
        file.write_text(text)
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    file.write_text("one")
    program.make_snapshot(keys=keys)
    program.applied(keys=keys)
    for change in lambda: replace("two"), lambda: edit("six"), file.unlink, lambda: file.write_text("three"):
        change()
        for quiet in {}, {"MVLD_DEBUG": "files"}: # passes are mapped at once, or only when needed
            program.refused(f"{file}: it is another file", keys=keys, **quiet)
        done, written = program.writes(**build)
        check(not written, f"one of this minute was renewed: {done.stderr}")
        support.age_images(program.cache)
        done, written = program.writes(**build)
        check(written, f"not renewed: {done.stderr}")
        program.applied(**build)
    check(len(list((program.cache / "mvld" / "snapshots").iterdir())) == 1, "old ones stay")


def other_words(program):
    """A change that relied on where a call leads is used where it leads elsewhere."""
    program.make_snapshot()
    program.applied()
    program.flag.touch()
    program.refused("libanswer.so: a call leads elsewhere", expected="2 1\n")


def before_relocation(program):
    """Code of a snapshot is mapped before relocation, and stays there though the snapshot is refused, or takes the
    program with it where the CPU is another one."""
    folder = program.make_snapshot()
    program.applied("maps")
    program.flag.touch()  # a resolver chooses otherwise
    done = program.run("maps")
    code = [line for line in done.stdout.splitlines() if " r-xp " in line]
    check(done.stdout.startswith("2 1\n") and len(code) == 1 and str(program.library) in code[0],
          f"the code is still the snapshot's:\n{done.stdout}{done.stderr}")
    program.flag.unlink()
    image = bytearray((folder / "manifest").read_bytes())
    image[56] ^= 1  # header.cpu
    image_table.seal(image)
    (folder / "manifest").write_bytes(image)
    program.applied("maps")


def unreadable(program):
    """A program that may be executed and not read ends where its snapshot does not fit, because its code
    was laid before that was known."""
    if os.getuid() or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    support.compile_c(program.path, SOURCES / "main.c", SOURCES / "library.c", support.MAPPED, f'-DFLAG="{program.flag}"',
                      "-rdynamic", "-fPIE", "-pie", f"-Wl,-I,{support.LOADER}", plugin=False)
    program.folder.chmod(0o755)
    program.cache.mkdir()
    user = {"prefix": ["sh", "-c", 'chmod 755 "${MVLD_CONFIG%/*}" && '
                       'exec setpriv --reuid=65534 --clear-groups "$@"', "sh"]}
    program.path.chmod(0o711)
    program.make_snapshot()
    os.chown(program.cache, 65534, 65534)
    program.applied(**user)
    program.flag.touch()
    program.refused("program: a call leads elsewhere", expected="2 1\n", **user)


def damage(program):
    """A damaged image, or one of somebody else, is used."""
    folder = program.make_snapshot()
    image, overlay = folder / "manifest", next(folder.glob("*-libanswer.so"))
    whole = image.read_bytes()
    for at in range(0, len(whole), len(whole) // 40):
        image.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        program.refused("")
    for size in 0, 1, 55, 56, len(whole) - 1:
        image.write_bytes(whole[:size])
        program.refused("")
    image.write_bytes(whole + b"\0")
    program.refused("it is cut short, or longer than it says")
    image.write_bytes(whole)
    program.applied()
    for mode, good in (0o664, False), (0o646, False), (0o600, True):
        image.chmod(mode)
        program.applied() if good else program.refused("may write it")
    folder.chmod(0o777)
    program.refused("may write it")
    folder.chmod(0o755)
    if os.getuid() == 0:
        os.chown(image, 65534, 65534)
        program.refused("others than root and the user own it")
        os.chown(image, 0, 0)
    program.applied()
    overlay.rename(folder / "aside")
    program.refused("there is none")
    overlay.symlink_to(folder / "aside")
    program.refused("it cannot be opened")
    overlay.unlink()
    shutil.copy(folder / "aside", overlay)
    program.refused("its overlay was changed after it was written")


def any_order(program):
    """Executable segments may lie in any order in their file: what the pass changed in one that
    lies behind a later one is lost."""
    data = bytearray(program.library.read_bytes())
    first, = struct.unpack_from("<Q", data, 32)
    loads = [at for at in range(first, first + 56 * data[56], 56) if data[at:at + 4] == b"\1\0\0\0"]
    text, rodata = loads[1:3]
    check(data[text + 4] == 5 and data[rodata + 4] == 4, "these are not its segments")
    offset, = struct.unpack_from("<Q", data, text + 8)
    size, = struct.unpack_from("<Q", data, text + 32)
    data += bytes(-len(data) % 4096)
    struct.pack_into("<Q", data, text + 8, len(data))
    data += data[offset:offset + size]
    data[rodata + 4] = 5
    new = program.folder / "new.so"
    new.write_bytes(data)
    new.rename(program.library)
    program.make_snapshot()
    done = program.run()
    check(len(from_snapshot(done)) == 2 and done.stdout == "2 0\n", done.stdout + done.stderr)


def checked(program):
    """MVLD_SNAPSHOT=check says otherwise than a start does, writes something, or lets the program run."""
    def files():
        return {path: path.stat().st_ctime_ns for path in program.cache.rglob("*")}

    def asks(status, said, **options):
        options = {"keys": "on-miss = build\n", **options}
        before = files()
        done = program.run("constructor", MVLD_SNAPSHOT="check", MVLD_DEBUG="", status=status, **options)
        check(said in (done.stderr if status else done.stdout) and len((done.stdout + done.stderr).splitlines()) == 1,
              f"wanted '{said}':\n{done.stdout}{done.stderr}")
        check(files() == before, "it wrote something")

    asks(1, "mvld: no snapshot: there is none for these passes and options")
    keys = {"keys": "on-miss = build\n"}
    folder = program.make_snapshot(**keys)
    asks(0, f"{folder}\n")
    asks(1, "libraries lie where the kernel puts them", keys="placement = as-is\n")
    asks(1, "no pass is configured", MVLD="off")
    program.flag.touch()
    asks(1, "libanswer.so: a call leads elsewhere")
    program.flag.unlink()
    asks(0, f"{folder}\n")
    os.link(program.library, program.folder / "another")
    asks(1, f"{program.library}: its file is another one")
    program.refused("libanswer.so: its file is another one", **keys)


def calls(program):
    """A start asks the kernel more than loader/DECISIONS.md says: beside what it makes with MVLD=off, and a look at
    each folder on the way to the user's cache, 4 to 5 calls for each file of the cache, and some 20 others."""
    def counted(**environment):
        said = program.folder / "counted"
        prefix = support.perf("stat", "-x;", "-o", said, "-e", "raw_syscalls:sys_enter", "--")
        program.run(prefix=prefix, status=None, MVLD_DEBUG="", **environment)
        found = re.search(r"^(\d+);", said.read_text() if said.exists() else "", re.M)
        return int(found[1]) if found else support.skip("perf cannot count system calls")

    if not shutil.which("perf"):
        support.skip("perf is not installed")
    folder = program.make_snapshot()
    program.applied()
    files = len(list(folder.iterdir())) + (folder.parent.parent / "cpu").exists()
    more = counted() - counted(MVLD="off")
    check(more <= len(folder.parents) + 5 * files + 24, f"{more} calls for {files} files at {folder}")


def traced(program):
    """Code under which a debugger has set breakpoints is covered."""
    if not shutil.which("strace"):
        support.skip("strace is not installed")
    program.make_snapshot()
    program.refused("a debugger may have breakpoints", prefix=["strace", "-o", "/dev/null"])
    done = program.run(MVLD_SNAPSHOT=1, prefix=["strace", "-o", "/dev/null"], status=1)
    check("a debugger may have breakpoints" in done.stderr, done.stderr)


start(globals())
