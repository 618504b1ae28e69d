# SPDX-License-Identifier: MIT
"""An analysis that is not of exactly this object, or not to be trusted, is refused with a
reason, and the program runs plainly.

A failure means: code would be changed at places that somebody else chose, or that nobody
looked at.

Argument: the damage, one of those below.
"""
import os
import re
import shutil
import struct
import sys
from pathlib import Path

import support
from support import check

HERE = Path(__file__).resolve().parent
MVLD = support.BUILD / "tools" / "mvld"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
SOURCE = HERE / "programs" / "answer.c"
WORLD = "passes/direct_calls/programs"


class World:
    """A small program of its own, a library, their analyses."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.program = folder / "program"
        support.take(folder, WORLD, "libx.so", "answer=program")
        self.analyse()

    def analyse(self):
        done = support.run([MVLD, "analyze", "--output", self.cache / "mvld" / "analysis",
                            self.program, self.folder / "libx.so"])
        check(done.returncode == 0, done.stdout + done.stderr)
        self.analysis = self.cache / "mvld" / "analysis" / "12" / "345678.mvld"
        check(self.analysis.exists(), "no analysis was written")

    def run(self, prefix=(), program=None, **more):
        program = program or self.program
        more = {"config": CONFIG, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls", **more}
        done = support.run([*prefix, program], MVLD_DEBUG="passes", XDG_CACHE_HOME=self.cache,
                           **{**support.TELL_MAPPED, **more})
        check((done.returncode, done.stdout) == (0, "42 42\n"),
              f"{done.returncode} {done.stdout}\n{done.stderr}")
        return done

    def made(self, program=None, **more):
        """How many calls of the program's code became direct."""
        program = program or self.program
        return support.changed(self.run(program=program, **more), program.name)[0]

    def refused(self, reason, program=None, **more):
        """The sentence names the file, and why nothing is done with it."""
        program = program or self.program
        done = self.run(program=program, **more)
        check(not support.changed(done, program.name)[0], f"taken in spite of {reason}\n{done.stderr}")
        check(re.search(rf"{program}[^\n]*: [^\n]*{reason}", done.stderr), f"no reason '{reason}' in\n{done.stderr}")


def good(world):
    """(The undamaged one is taken.)"""
    check(world.made() >= 3, "nothing was made direct")


def bytes_(world):
    """A byte flipped, one after the other: the checksums find each.  (Tables that the pass does
    not read are not looked at; tests/rimf/analysis/analysis.c flips every byte of every table.)"""
    original = world.analysis.read_bytes()
    header_size, = struct.unpack_from("<I", original, 12)
    read = [range(header_size)]
    n_tables, = struct.unpack_from("<I", original, 44)
    for at in range(header_size - 32 * n_tables, header_size, 32):
        kind, size, offset, count = struct.unpack_from("<IIQQ", original, at)
        if kind in (1, 3):  # segments, calls
            read.append(range(offset, offset + size * count))
    every = [at for part in read for at in part]
    for at in every[::max(1, len(every) // 60)]:
        damaged = bytearray(original)
        damaged[at] ^= 0x41
        world.analysis.write_bytes(damaged)
        world.refused("")


def truncated(world):
    """Cut short, or empty, or longer."""
    original = world.analysis.read_bytes()
    for n in (0, 1, 100, 151, 152, len(original) // 2, len(original) - 1):
        world.analysis.write_bytes(original[:n])
        world.refused("it is")
    world.analysis.write_bytes(original + b"\0" * 8)
    world.refused("cut short, or longer")


def other(world):
    """Of another object; of another object that has the same build-id."""
    shutil.copy(world.analysis, world.folder / "own")
    shutil.copy(world.cache / "mvld/analysis/ab/cdef01.mvld", world.analysis)
    world.refused("another build-id")
    support.compile_c(world.folder / "twin", "-DTWIN", SOURCE, "-L" + str(world.folder), "-lx",
                      "-Wl,-z,now", "-Wl,--build-id=0x12345678", plugin=False)
    done = support.run([MVLD, "analyze", "--output", world.cache / "mvld" / "analysis",
                        world.folder / "twin"])
    check(done.returncode == 0, done.stderr)
    world.refused("of an object with other")


def owner(world):
    """Owned by somebody else, or writable by others, or a link, or no file."""
    os.chmod(world.analysis, 0o666)
    world.refused("may write it")
    os.chmod(world.analysis, 0o620)
    world.refused("may write it")
    os.chmod(world.analysis, 0o644)
    check(world.made(), "a good one is refused")
    aside = world.analysis.with_suffix(".aside")
    world.analysis.rename(aside)
    world.analysis.symlink_to(aside)
    world.refused("")
    world.analysis.unlink()
    os.mkfifo(world.analysis)
    world.refused("no regular file|kind")
    world.analysis.unlink()
    world.analysis.mkdir()
    world.refused("")
    world.analysis.rmdir()
    aside.rename(world.analysis)
    if os.geteuid() == 0:
        os.chown(world.analysis, 12345, 12345)
        world.refused("own")


def copied(world):
    """A copy of the file, which is another inode, is the same object: what nobody writes of it is
    hashed.  One whose code or constants were changed is not."""
    copy = world.folder / "copy-of-program"
    shutil.copy(world.program, copy)
    check(world.made(copy) >= 3, "a copy is not recognised")
    original = copy.read_bytes()
    data = bytearray(original)
    at = data.find(b"some text")
    check(at > 0, "where is the text")
    data[at] = ord("S")
    copy.write_bytes(data)
    world.refused("of an object with other code or constants", program=copy)
    data[at] = original[at]
    copy.write_bytes(data)
    check(world.made(copy) >= 3, "the same bytes again")
    nop = re.search(rb"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00|\x0f\x1f\x44\x00\x00|\x0f\x1f\x00",
                    bytes(data))
    check(nop, "no padding in the code")
    data[nop.end() - 1] = 1  # another nop of the same length
    copy.write_bytes(data)
    world.refused("of an object with other code", program=copy)


def replaced(world):
    """The library was replaced on disk after it was analysed, by one of the same build-id,
    size and modification time."""
    was = (world.folder / "libx.so").stat()
    new = world.folder / "new.so"
    support.compile_c(new, "-shared", "-fPIC", "-DLIBRARY", "-DNUMBER=43", SOURCE, "-Wl,--build-id=0xabcdef01",
                      plugin=False)
    if new.stat().st_size != was.st_size:
        with open(new, "ab") as file:
            file.write(b"\0" * max(0, was.st_size - new.stat().st_size))
    os.utime(new, ns=(was.st_atime_ns, was.st_mtime_ns))
    new.rename(world.folder / "libx.so")
    done = support.run([world.program], config=CONFIG, MVLD_DEBUG="passes",
                       XDG_CACHE_HOME=world.cache,
                       MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
    check(done.stdout == "43 43\n", done.stdout + done.stderr)
    check("libx.so: it is of an object with other" in done.stderr, done.stderr)


def watched(world):
    """An auditor or profiler counts calls in the PLT, or slots are bound by other rules."""
    audit = world.folder / "audit.so"
    (world.folder / "audit.c").write_text(
        "unsigned la_version(unsigned v) { return v; }\n")
    support.compile_c(audit, "-shared", "-fPIC", world.folder / "audit.c", plugin=False)
    for variable, value in (("LD_AUDIT", audit), ("LD_PROFILE", "libx.so"), ("LD_BIND_NOT", "1"),
                            ("LD_DYNAMIC_WEAK", "1")):
        done = world.run(**{variable: value, "LD_PROFILE_OUTPUT": world.folder})
        check(variable in done.stderr and not support.changed(done, world.program.name)[0],
              f"{variable}:\n{done.stderr}")
        check(world.made(**{variable: ""}), f"an empty {variable}")
    check(not world.made(prefix=[support.LOADER, "--audit", audit]), "--audit")
    own = world.folder / "audited"
    support.compile_c(own, SOURCE, "-L" + str(world.folder), "-lx",
                      "-Wl,-rpath,$ORIGIN", f"-Wl,--audit={audit}",
                      f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
    support.analyze(world.cache, own)
    done = world.run(program=own)
    check("DT_AUDIT" in done.stderr and not support.changed(done, own.name)[0], f"DT_AUDIT:\n{done.stderr}")


def rewritable(world):
    """rewritable = leave: only slots that are read-only after relocation are used."""
    lazy = world.folder / "lazy"
    support.compile_c(lazy, SOURCE, "-L" + str(world.folder), "-lx",
                      "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy", "-Wl,--build-id=0x56789abc",
                      f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
    support.run([MVLD, "analyze", "--output", world.cache / "mvld" / "analysis", lazy])
    leave = {"MVLD_TUNABLES": "direct-calls.rewritable=leave"}
    check(world.made(lazy) >= 3, "lazy slots are not used")
    check(world.made(lazy, **leave) <= 1, "lazy slots are used")  # __libc_start_main
    check(world.made(**leave) >= 3, "RELRO slots are not used")


def unpatchable(world):
    """/proc is not there: the program runs plainly."""
    done = support.run(["unshare", "-m", "sh", "-c",
                        f"mount -t tmpfs none /proc && exec {world.program}"], config=CONFIG,
                       MVLD_DEBUG="passes", XDG_CACHE_HOME=world.cache,
                       LD_LIBRARY_PATH=world.folder,
                       MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        support.skip("no mount namespace")
    check((done.returncode, done.stdout) == (0, "42 42\n"), done.stdout + done.stderr)


def moved(world):
    """With concat behind it, calls become direct in moved code alone; what has none, whatever the reason,
    is changed in the original as without concat."""
    passes = ":".join(str(support.BUILD / "passes" / name) for name in ("direct-calls", "concat"))
    both = {"config": CONFIG.replace("calls", "calls, concat") + support.COPY, "MVLD_PASS_PATH": passes}
    plain = world.made()
    check(world.made(**both) < plain, "calls are changed where they no longer run")
    for prefix, tunables in (([], f"concat.leave={world.program.name}"),
                             (["prlimit", "--as=8000000000"], "")):  # no addresses for moved code are free
        made = world.made(prefix=prefix, MVLD_TUNABLES=tunables, **both)
        check(made == plain, f"{prefix} {tunables}: {made} of {plain}")


def cold(world):
    """A page whose only call is one that a program makes at most once stays the file's; the same
    page with another call does not."""
    source = world.folder / "page.c"
    source.write_text("void abort(void); int answer(void), puts(const char *);\n"
                      "__attribute__((aligned(4096), noinline)) int page(int n)\n"
                      "{ if (n > 9) CALL; return n; }\n"
                      "__attribute__((aligned(4096))) int main(int argc, char **argv)\n"
                      "{ (void)argv; return page(argc) + answer() + answer() - 85; }\n")
    made = {}
    for call in ("abort()", 'puts("")'):
        program = world.folder / f"page-{len(made)}"
        support.compile_c(program, f"-DCALL={call}", source, "-L" + str(world.folder),
                          "-lx", "-Wl,-rpath,$ORIGIN", "-Wl,-z,now", f"-Wl,--build-id=0x6789abc{len(made)}",
                          f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
        support.run([MVLD, "analyze", "--output", world.cache / "mvld" / "analysis", program])
        done = support.run([program], config=CONFIG, XDG_CACHE_HOME=world.cache, **support.TELL_MAPPED,
                           MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
        check(done.returncode == 0, done.stdout + done.stderr)
        made[call] = support.changed(done, program.name)
    first, second = made.values()
    check(second == (first[0] + 1, first[1] + 1) and first[0], made)


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](World(scratch))
