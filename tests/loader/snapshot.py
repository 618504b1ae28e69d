#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot.py BEHAVIOUR: programs that start from a snapshot (snapshot/ holds a
program, a library, and a pass that makes the library's answer 2 instead of 1).

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

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import image_table  # noqa: E402
import support  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "snapshot"
PASS = ["-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only",
        "-fPIC", "-Wl,-Bsymbolic"]


class Program:
    def __init__(self, folder):
        self.folder = folder
        self.passes, self.cache = folder / "passes", folder / "cache"
        self.passes.mkdir()
        support.take(self.passes, "loader/snapshot", "answer.so")
        self.library = folder / "libanswer.so"
        self.flag = folder / "flag"
        self.make_library()
        self.path = folder / "program"
        support.take(folder, "loader/snapshot", "program")

    def make_program(self, *more):
        """Another one than that of most tests."""
        support.compile_c(self.path, SOURCES / "main.c", support.MAPPED, "-rdynamic", "-L" + str(self.folder),
                          "-lanswer", f"-Wl,-rpath,{self.folder}", f"-Wl,-I,{support.LOADER}",
                          *more, plugin=False)

    def make_library(self):
        """The library anew, with a flag in this folder."""
        support.take(self.folder, "loader/snapshot", "libanswer.so")

    def run(self, *words, keys="", prefix=(), status=0, **environment):
        environment.setdefault("MVLD_DEBUG", "files,passes")
        done = support.run([*prefix, self.path, *words], MVLD_PASS_PATH=self.passes, TELL_MAPPED=1,
                           XDG_CACHE_HOME=self.cache,
                           config=f"[app]\nmatch = {self.path}\npasses = answer\n{keys}",
                           **environment)
        check(done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def make_snapshot(self, **options):
        done = self.run(MVLD_SNAPSHOT=1, **options)
        folder = Path(done.stdout.strip())
        check(folder.is_absolute() and (folder / "manifest").is_file(),
              f"no snapshot:\n{done.stdout}{done.stderr}")
        return folder

    def applied(self, *words, expected="2 0\n", **options):
        done = self.run(*words, **options)
        check(len(from_image(done)) == 1 and done.stdout.startswith(expected),
              f"it was not applied, or is wrong:\n{done.stdout}{done.stderr}")
        return done

    def refused(self, why, *words, expected="2 0\n", **options):
        """Not applied, for this reason; the program is right."""
        done = self.run(*words, **options)
        check(re.search("not applied: .*" + re.escape(why), done.stderr) and
              done.stdout == expected and not from_image(done),
              f"wanted '{why}':\n{done.stdout}{done.stderr}")


def from_image(done):
    """The objects whose code is mapped from a snapshot."""
    check("mapped: " in done.stderr, f"it does not tell what is mapped:\n{done.stderr}")
    return re.findall(r"^mapped: /\S+/mvld/snapshots/\S+/\d+-(\S+)$", done.stderr, re.M)


def applies(program):
    """A snapshot is not used, or not to the same effect."""
    done = program.run()
    check(done.stdout == "2 0\n" and not from_image(done), done.stdout + done.stderr)
    folder = program.make_snapshot()
    done = program.applied("maps")
    copies = [line for line in done.stdout.splitlines() if " r-xp " in line]
    check(len(copies) == 1 and str(folder) in copies[0] and "libanswer.so" in copies[0],
          f"the code is not mapped from the snapshot:\n{done.stdout}")
    check(done.stdout.splitlines()[-1] == str(program.library), "dladdr names another file")
    check(subprocess.run(["nm", "-D", *folder.glob("*-libanswer.so")], capture_output=True,
                         text=True).stdout.count(" answer"), "the copy has no symbols")
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
    check("the pass is not the one of the start: what comes now stays as it is" in done.stderr,
          done.stderr)
    done = program.run(MVLD_DEBUG="")
    check(done.stdout.startswith("1 ") and "there is no pass 'answer'" in done.stderr,
          f"a pass that is gone: {done.stdout}{done.stderr}")
    shutil.copy(kept, plan)  # another file
    done = program.run(**quiet)
    check(done.stdout == "2 0\n" and not from_image(done), done.stdout + done.stderr)


def building_runs_nothing(program):
    """MVLD_SNAPSHOT let the program run, or left a snapshot that cannot be."""
    check(program.run(MVLD_SNAPSHOT=1).stdout.strip().startswith(str(program.cache)), "it ran")
    done = support.run([program.path], MVLD_SNAPSHOT=1, MVLD_PASS_PATH=program.passes, config="")
    check(done.returncode == 1 and not done.stdout and "no pass is configured" in done.stderr,
          f"without a pipeline: {done.returncode} {done.stdout}{done.stderr}")
    program.cache.rename(program.folder / "gone")
    program.cache.write_text("no folder")
    done = program.run(MVLD_SNAPSHOT=1, status=1)
    check(not done.stdout and "mvld: no snapshot: " in done.stderr, done.stdout + done.stderr)


def failure(program):
    """A snapshot that cannot be written takes files with it that are not its own."""
    there = sorted(program.folder.rglob("*"))
    for size in 0, 4096, 8192:
        done = program.run(MVLD_SNAPSHOT=1, status=1,
                           prefix=[sys.executable, "-c", "import os, resource, signal, sys; "
                                   "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); "
                                   "resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d)); "
                                   "os.execv(sys.argv[1], sys.argv[1:])" % (size, size)])
        check("mvld: no snapshot: " in done.stderr and not done.stdout, done.stdout + done.stderr)
        check(not list((program.cache / "mvld/snapshots").iterdir()), "half a snapshot stays")
    if support.may_mount():  # without /proc, who the program is is not known
        done = program.run(MVLD_SNAPSHOT=1, status=1, prefix=[
            *support.PRIVATE_MOUNTS, "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"])
        check("mvld: no snapshot: " in done.stderr, done.stderr)
    shutil.rmtree(program.cache)
    check(sorted(program.folder.rglob("*")) == there, "files are gone")


def noexec(program):
    """Where no code may be mapped from the cache, each start writes a snapshot that none can use."""
    if not support.may_mount():
        support.skip("a mount of its own is not to be had")
    program.cache.mkdir()
    done = program.run(keys="on-miss = build\n", prefix=[
        *support.PRIVATE_MOUNTS, "sh", "-c", f'mount -t tmpfs -o noexec,mode=755 none {program.cache} && "$@"; find {program.cache} -type f -size +0', "sh"])
    check(str(program.cache) not in done.stdout, f"it was written: {done.stdout}")
    check("not written: " in done.stderr and "(noexec)" in done.stderr, done.stderr)


def as_is(program):
    """A snapshot is made, or used, where libraries lie elsewhere each time."""
    done = program.run(MVLD_SNAPSHOT=1, status=1, keys="placement = as-is\n")
    check("placement" in done.stderr and not done.stdout, done.stdout + done.stderr)
    done = program.run(keys="placement = as-is\non-miss = build\n")
    check(done.stdout == "2 0\n" and not program.cache.exists(), done.stdout + done.stderr)
    program.make_snapshot()
    done = program.run(keys="placement = as-is\n")
    check(done.stdout == "2 0\n" and not from_image(done), done.stdout + done.stderr)


def other_files(program):
    """A snapshot is used with a library that is not the one it was made with."""
    program.make_snapshot()
    shutil.copy(program.library, program.folder / "copy.so")
    (program.folder / "copy.so").rename(program.library)
    program.refused("libanswer.so: its file is another one")
    program.make_snapshot()
    program.applied()


def none_found(program, images=None, **options):
    """There is no snapshot of such starts, and objects lie as they do where there is none of the program."""
    done = program.run(**options)
    check(done.stdout == "2 0\n" and "snapshot: there is none: " in done.stderr and not from_image(done) and
          "distances: none but their lengths" in done.stderr, done.stdout + done.stderr)
    if images is not None:
        there = list((program.cache / "mvld" / "snapshots").iterdir())
        check("none is written: " in done.stderr and len(there) == images, f"images: {there}\n{done.stderr}")


def preloaded(program):
    """A start with LD_PRELOAD or --preload finds a snapshot of other starts, which does not fit, or drives it
    out; `mvld build` makes none for it; or each value leaves a snapshot, though nobody asked for one."""
    build, more = {"keys": "on-miss = build\n"}, [program.folder / f"more{i}.so" for i in range(3)]
    for path in more:
        support.compile_c(path, "-shared", "-fPIC", "-x", "c", "/dev/null", plugin=False)
    directly = {"prefix": [support.LOADER]}
    also = {"prefix": [support.LOADER, "--preload", more[0]]}
    folders = {program.make_snapshot(), program.make_snapshot(**directly)}
    for options in {"LD_PRELOAD": more[0]}, {"LD_PRELOAD": more[1]}, {"LD_PRELOAD": more[0], **directly}, also:
        none_found(program, **options)
        none_found(program, 2, **build, **options)
    program.applied(LD_PRELOAD="")  # says nothing
    ways = {"LD_PRELOAD": more[0]}, {"LD_PRELOAD": f"{more[0]}:{more[1]}"}, also, {"LD_PRELOAD": more[1], **also}
    folders |= {program.make_snapshot(**way) for way in ways}
    check(len(folders) == 6, f"these take each other's place: {folders}")
    for _ in range(2):
        for way in {}, directly, *ways:
            check("not applied" not in program.applied(**way).stderr, f"{way} has another's image")
        none_found(program, 6, **build, LD_PRELOAD=more[2])
        # Asked for once, it is renewed as any.
        program.make_library()
        support.age_images(program.cache)
        for way in {}, directly, *ways:
            check("snapshot: written: " in program.run(**build, **way).stderr, f"{way} does not renew its snapshot")
    check(all((folder / "manifest").is_file() for folder in folders), "images are gone")


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
        done = program.run(**build)
        check("none is written: the one that is there is of this minute" in done.stderr, done.stderr)
        support.age_images(program.cache)
        done = program.run(**build)
        check("snapshot: written: " in done.stderr, f"not renewed: {done.stderr}")
        check("not applied" not in program.applied(**build).stderr, "another one was tried")
    check(len(list((program.cache / "mvld" / "snapshots").iterdir())) == 1, "old ones stay")


def other_words(program):
    """A change that relied on where a call leads is used where it leads elsewhere."""
    program.make_snapshot()
    program.applied()
    program.flag.touch()
    program.refused("libanswer.so: a call leads elsewhere", expected="2 1\n")


def before_relocation(program):
    """Code is laid before relocation for another CPU than that of the snapshot, or stays there though
    the snapshot is refused."""
    laid = "snapshot: the code of 1 segments lies there before relocation"
    folder = program.make_snapshot()
    check(laid in program.applied("maps").stderr, "it is not laid before relocation")
    program.flag.touch()  # a resolver chooses otherwise
    done = program.run("maps")
    code = [line for line in done.stdout.splitlines() if " r-xp " in line]
    check(laid in done.stderr and "not applied: libanswer.so: a call leads elsewhere" in
          re.sub(r"/\S*/libanswer", "libanswer", done.stderr) and done.stdout.startswith("2 1\n") and
          len(code) == 1 and str(program.library) in code[0],
          f"the code is still the snapshot's:\n{done.stdout}{done.stderr}")
    program.flag.unlink()
    image = bytearray((folder / "manifest").read_bytes())
    image[56] ^= 1  # header.cpu
    image_table.seal(image)
    (folder / "manifest").write_bytes(image)
    done = program.applied("maps")
    check("before relocation" not in done.stderr, f"the CPU is another one:\n{done.stderr}")


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
    image, copy = folder / "manifest", next(folder.glob("*-libanswer.so"))
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
    copy.rename(folder / "aside")
    program.refused("there is none")
    copy.symlink_to(folder / "aside")
    program.refused("it cannot be opened")
    copy.unlink()
    shutil.copy(folder / "aside", copy)
    program.refused("its overlay was changed after it was written")


def on_miss(program):
    """`on-miss` is not followed."""
    done = program.run(keys="on-miss = plain\n")
    check(done.stdout == "1 0\n" and "no snapshot" in done.stderr, done.stdout + done.stderr)
    done = program.run(keys="on-miss = build\n")
    check(done.stdout == "2 0\n" and "snapshot: written: " in done.stderr, done.stdout + done.stderr)
    said = re.search("snapshot: there is none: (.*)", done.stderr)
    check(said and (Path(said[1]) / "manifest").exists(), f"what is looked for is not said: {done.stderr}")
    program.applied(keys="on-miss = build\n")
    program.applied(keys="on-miss = plain\n")
    program.make_library()
    for said in "none is written", "snapshot: written: ":
        done = program.run(keys="on-miss = build\n")
        check(done.stdout == "2 0\n" and said in done.stderr, done.stdout + done.stderr)
        support.age_images(program.cache)
    program.applied(keys="on-miss = build\n")
    check(len(list((program.cache / "mvld" / "snapshots").iterdir())) == 1, "the old snapshot stays")


def in_turn(program):
    """A program that is started in turn in two ways, which no one snapshot fits, writes one each time."""
    snapshot = 0
    for _ in range(4):
        for flag in program.flag.touch, program.flag.unlink:
            flag()
            done = program.run(keys="on-miss = build\n")
            check(done.stdout in ("2 0\n", "2 1\n"), done.stdout + done.stderr)
            snapshot += "snapshot: written: " in done.stderr
    check(snapshot == 1, f"{snapshot} snapshots were written")


def limited_space(program):
    """Under RLIMIT_AS a library of the pass is left out: the snapshot of such starts and that of all
    others take each other's place."""
    support.compile_c(program.passes / "libmore.so", "-shared", "-fPIC", "-x", "c", "/dev/null", plugin=False)
    support.compile_c(program.passes / "answer.so", SOURCES / "pass.c", '-DLIBRARY="libmore.so"', *PASS,
                      plugin=False)
    limited = {"prefix": ["sh", "-c", 'ulimit -v 4000000 && exec "$@"', "sh"]}
    for options in {}, limited:
        done = program.run(keys="on-miss = build\n", **options)
        check(done.stdout == "2 0\n" and "snapshot: written: " in done.stderr and
              ("(RLIMIT_AS)" in done.stderr) == bool(options), done.stdout + done.stderr)
    for more in {}, {"MVLD_DEBUG": "files"}: # all passes are mapped at once, and only when needed
        for options in {}, limited, {}:
            support.age_images(program.cache)
            done = program.applied(keys="on-miss = build\n", **options, **more)
            check("not applied" not in done.stderr, done.stderr)
    images = program.cache / "mvld" / "snapshots"
    check(len(list(images.iterdir())) == 2, "there is another number of snapshots")
    # What takes little space is there in either.
    shutil.rmtree(program.cache)
    support.compile_c(program.passes / "answer.so", SOURCES / "pass.c", *PASS, plugin=False)
    program.run(keys="on-miss = build\n")
    program.applied(**limited)


def ways_to_start(program):
    """Run through the loader, objects lie elsewhere: each way needs its own snapshot."""
    program.make_snapshot()
    program.make_snapshot(prefix=[support.LOADER])
    program.applied()
    program.applied(prefix=[support.LOADER])


def fixed_address(program):
    """An executable at a fixed address, which is unplaced, has no snapshot; its own code is
    in it; or a library's code is applied where it holds a distance to the executable."""
    program.make_program("-no-pie", "-fno-pie")
    folder = program.make_snapshot()
    check([path.name.split("-", 1)[1] for path in folder.glob("[0-9]*")] == ["libanswer.so"],
          "the snapshot holds other code than the library's")
    places = set()
    for _ in range(4):
        done = program.applied()
        check("program: left plain: it lies elsewhere" in done.stderr, done.stderr)
        places.add(re.search("object: .*libanswer.so at (.*)", done.stderr).group(1))
    check(len(places) > 1, f"the library always lies at {places}")
    # The program's own answer, which the pass would change, and may not.
    program.make_program("-no-pie", "-fno-pie", f'-DFLAG="{program.flag}"', SOURCES / "library.c")
    done = program.run(MVLD_SNAPSHOT=1, status=1)
    check("mvld: no snapshot: " in done.stderr and "error 95" in done.stderr, done.stderr)


def aligned(program):
    """A library that wants more than page alignment, which is at another distance each time,
    keeps the others from being applied."""
    aligned = program.folder / "libaligned.so"
    support.compile_c(aligned, "-shared", "-fPIC", "-Wl,-z,max-page-size=0x10000", "-x", "c", "/dev/null",
                      plugin=False)
    program.make_program("-Wl,--no-as-needed", aligned)
    program.make_snapshot()
    places = set()
    for _ in range(6):
        done = program.applied()
        at = dict(re.findall("object: .*/(libaligned.so|libanswer.so) at ([0-9a-f]+)", done.stderr))
        places.add(int(at["libaligned.so"], 16) - int(at["libanswer.so"], 16))
        check(len(places) == 1 or "libaligned.so: left plain: it lies elsewhere" in done.stderr, done.stderr)
    check(len(places) > 1 or support.GLIBC < (2, 35), "it is not at another distance each time")


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
    check(len(from_image(done)) == 2 and done.stdout == "2 0\n", done.stdout + done.stderr)


def traced(program):
    """Code under which a debugger has set breakpoints is covered."""
    if not shutil.which("strace"):
        support.skip("strace is not installed")
    program.make_snapshot()
    program.refused("a debugger may have breakpoints", prefix=["strace", "-o", "/dev/null"])
    done = program.run(MVLD_SNAPSHOT=1, prefix=["strace", "-o", "/dev/null"], status=1)
    check("a debugger may have breakpoints" in done.stderr, done.stderr)


def together(program):
    """Two builders at once leave half a snapshot, or a program in between is wrong."""
    environment = support.clean_environment(MVLD_PASS_PATH=program.passes,
                                            XDG_CACHE_HOME=program.cache)
    config = program.folder / "mvld.conf"
    config.write_text(f"[app]\nmatch = {program.path}\npasses = answer\n")
    environment["MVLD_CONFIG"] = str(config)
    running = [subprocess.Popen([program.path], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, **({"MVLD_SNAPSHOT": "1"} if i % 2 else {})))
               for i in range(60)]
    for i, process in enumerate(running):
        said = process.communicate(timeout=60)[0]
        check(i % 2 or said == "2 0\n", f"run {i}: status {process.returncode}, {said}")
    program.applied()


def distances(done):
    """Of the executable's other objects, from it; as the log says."""
    at = {name: int(place, 16) for name, place in re.findall(r"object: \S*?([^/ ]+) at ([0-9a-f]+)", done.stderr)
          if "vdso" not in name}
    check(len(at.keys() - {"libdl.so.2"}) == 4, f"these are not its objects: {at}")  # before glibc 2.34
    return tuple(place - at["program"] for place in at.values())


def drawn(program):
    """Distances of a snapshot are those of the snapshot before, or not those of each start from it; those of
    a process that neither has nor makes one are others each time; or they are drawn where the kernel
    draws nothing."""
    seen = set()
    for _ in range(6):
        program.make_snapshot()
        applied = {distances(program.applied()) for _ in range(4)}
        check(len(applied) == 1, f"starts from one snapshot: {applied}")
        seen |= applied
    check(len(seen) == 6, f"images have distances of other images: {seen}")
    shutil.rmtree(program.cache)
    check(len({distances(program.run()) for _ in range(6)}) == 1, "ready code is for starts without a snapshot")
    seen = {distances(program.run(keys="on-miss = build\n")) for _ in range(6) if not shutil.rmtree(program.cache, True)}
    check(len(seen) == 6, f"with on-miss = build: {seen}")
    shutil.rmtree(program.cache)
    done = program.run(keys="on-miss = build\n", LD_BIND_NOT=1)
    check("distances: none" in done.stderr, "where calls are watched no snapshot is made: " + done.stderr)
    fixed = {"prefix": ["setarch", "-R"]}
    if support.run(["setarch", "-R", "true"]).returncode:
        support.skip("personalities are not to be had")
    for make in program.run, program.make_snapshot, program.run:
        make(**fixed)
        check(len({distances(program.run(**fixed)) for _ in range(3)}) == 1, "drawn under setarch -R")
    check("distances: none" in program.applied(**fixed).stderr, "a snapshot under setarch -R")


def drawn_beside(program):
    """A user's image, tried when root's does not fit, has other distances than root's and never fits;
    or root makes a new one with distances of the old."""
    inside = {"prefix": [*support.PRIVATE_MOUNTS, "sh", "-c",
                         'mount -t tmpfs -o mode=755 none /var/cache && mkdir -p /var/cache/mvld/snapshots && '
                         f'mount --bind {program.folder}/roots /var/cache/mvld/snapshots && exec "$@"', "sh"]}
    (program.folder / "roots").mkdir()
    if not support.may_mount() or support.run([*inside["prefix"], "true"]).returncode:
        support.skip("a mount of its own is not to be had")
    program.make_snapshot()
    first = distances(program.applied())
    (program.folder / "roots").rmdir()
    (program.cache / "mvld" / "snapshots").rename(program.folder / "roots")
    program.applied(**inside)
    program.flag.touch()
    program.refused("a call leads elsewhere", expected="2 1\n", **inside)
    older = program.make_snapshot()  # by who has not seen root's
    program.refused("root's is tried first and has other distances", expected="2 1\n", **inside)
    check(older == program.make_snapshot(**inside), "another start's")
    for _ in range(4):
        done = program.applied(expected="2 1\n", **inside)
        check("not applied: " in done.stderr and str(program.cache) in done.stderr, done.stderr)
    program.flag.unlink()
    check(distances(program.applied(**inside)) == first, "root's has other distances")


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


if __name__ == "__main__":
    main()
