#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot_symbols.py BEHAVIOUR: programs that start from a snapshot with tables of
relocations that ask for no symbols (symbols/ has references and definitions of many kinds;
the pass of snapshot/ makes the library's answer 2 instead of 1).

What each reference leads to must be the same as under the host loader alone.  Each function
below is one test; its text says what a failure means.
"""
import re
import shutil
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "symbols"
PASS = ["-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only",
        "-fPIC", "-Wl,-Bsymbolic"]
PT_DYNAMIC, PF_R = 2, 4
SPARED = re.compile(r"snapshot: (\d+) symbols are not looked up")


class Program:
    libraries = ["-lsymbols"]

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "program"
        self.cache, self.passes = folder / "cache", folder / "passes"
        self.passes.mkdir()
        support.take(self.passes, "loader/store/snapshot", "answer.so")
        self.take("libsymbols.so", "program")

    def take(self, *names):
        support.take(self.folder, "loader/store/symbols", *names)

    def library(self, *options, name="libsymbols.so"):
        new = self.folder / "new.so"
        support.compile_c(new, "-shared", "-fPIC", SOURCES / "library.c", f"-Wl,-soname,{name}",
                          "-Wl,--defsym,absolute=0x1234", *options, plugin=False)
        new.rename(self.folder / name)

    def executable(self, *options):
        support.compile_c(self.path, SOURCES / "main.c", support.MAPPED, f"-L{self.folder}", *self.libraries,
                          f"-Wl,-rpath,{self.folder}", f"-Wl,-I,{support.LOADER}",
                          *options, plugin=False)

    def run(self, prefix=(), passes="answer", **environment):
        environment.setdefault("MVLD_DEBUG", "files,passes")
        done = support.run([*prefix, self.path], MVLD_PASS_PATH=self.passes,
                           XDG_CACHE_HOME=self.cache, TELL_MAPPED=1,
                           config=f"[app]\nmatch = {self.path}\npasses = {passes}\n", **environment)
        check(done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def make_snapshot(self, **environment):
        return Path(self.run(MVLD_SNAPSHOT=1, **environment).stdout.strip())

    def like_plain(self, spared, answer=2, **environment):
        """The program under the host loader says the same.  How many symbols were not looked
        up, 0 unless `spared`."""
        plain = self.run(MVLD="off", **environment)
        done = self.run(**environment)
        check(done.stdout == plain.stdout.replace("answer 1", f"answer {answer}") and
              f"answer {answer}" in done.stdout,
              f"a reference leads elsewhere:\n{plain.stdout}\n{done.stdout}{done.stderr}")
        found = SPARED.search(done.stderr)
        check(bool(found) == spared, f"expected {spared}:\n{done.stderr}")
        return int(found.group(1)) if found else 0


def same(program):
    """A reference has another target when its symbol is not looked up; or all symbols are looked up."""
    program.like_plain(False)
    folder = program.make_snapshot()
    check((folder / "relocations").stat().st_size, "there are no tables")
    spared = program.like_plain(True)
    check(spared > 150, "only few symbols")
    if shutil.which("setarch"):  # the tables lie below the objects
        check(program.like_plain(True, prefix=["setarch", "-L"]) == spared, "fewer symbols there")
    program.library("-Wl,-z,noseparate-code")  # code in the pages of the tables
    program.make_snapshot()
    check(program.like_plain(True) == spared, "fewer symbols where code lies beside the tables")
    notes = program.folder / "notes.c"  # more than fit into the first page
    notes.write_text('__asm__(".section .note.large,\\"a\\",@note\\n.balign 4\\n.long 4, 8192, 1\\n.asciz \\"one\\"\\n.zero 8192");\n')
    program.library("-Wl,--build-id", notes)
    program.make_snapshot()
    check(program.like_plain(True) == spared, "fewer symbols where the build-id stands elsewhere")
    program.take("libsymbols.so")
    for options in ["-fPIE", "-pie"], ["-fPIE", "-pie", "-rdynamic"], ["-no-pie", "-fno-pie"]:
        program.executable(*options)  # lazily; with copies of variables; unplaced
        program.make_snapshot()
        program.like_plain(True)
        program.like_plain(False, LD_BIND_NOW=1)  # which has a snapshot of its own
        program.make_snapshot(LD_BIND_NOW=1)
        program.like_plain(True, LD_BIND_NOW=1)
        program.like_plain(True)


def others(program):
    """What another process found is taken for true where other objects are loaded."""
    program.make_snapshot()
    spared = program.like_plain(True)
    preloaded = program.folder / "preloaded.so"
    source = program.folder / "preloaded.c"
    source.write_text("int f1(void) { return 1000; } int v2 = 2000; "
                      "int replaced(void) { return 9; }\n")
    support.compile_c(preloaded, "-shared", "-fPIC", source, plugin=False)
    program.like_plain(False, LD_PRELOAD=preloaded)
    moved = program.folder / "elsewhere"
    moved.mkdir()
    shutil.copy(program.folder / "libsymbols.so", moved)
    program.executable("-fPIE", "-pie", "-Wl,-z,now", "-Wl,--disable-new-dtags")
    program.make_snapshot()
    check(program.like_plain(True) == spared, "another number of symbols")
    program.take("libsymbols.so")
    program.like_plain(False)
    program.make_snapshot()
    program.like_plain(True)


def aligned(program):
    """Of a library that wants more than page alignment, and so lies at another distance each time, a reference
    leads to where it lay once; or symbols are looked up because of it."""
    # All references are bound to the first: to the unplaced library, or to the other.
    for libraries in ["-lsymbols", "-laligned"], ["-laligned", "-lsymbols"]:
        program.libraries = ["-Wl,--no-as-needed", *libraries]
        for kind in ["-fPIE", "-pie"], ["-no-pie", "-fno-pie"]:
            counts, places = set(), set()
            for alignment in 0x1000, 0x10000:
                program.library(f"-Wl,-z,max-page-size={alignment}", "-DMUTE", name="libaligned.so")
                program.executable(*kind, "-Wl,-z,now")
                program.make_snapshot()
                for _ in range(6):
                    counts.add(program.like_plain(True))
                    at = support.bases(program.run())
                    places.add(at["libaligned.so"] - at["libsymbols.so"])
            check(len(counts) == 1, f"of so many symbols, {libraries}, {kind}: {counts}")
            check(len(places) > 2 or support.GLIBC < (2, 35), "it is not at another distance each time")


def read_only(program):
    """A start crashes where the host loader leaves a dynamic section as it was linked, because its segment is not
    writable (lld's -z rodynamic)."""
    library = program.folder / "libsymbols.so"
    data = bytearray(library.read_bytes())
    at, size, n = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    headers = [at + i * size for i in range(n)]
    dynamic = [header for header in headers if struct.unpack_from("<I", data, header)[0] == PT_DYNAMIC]
    check(len(dynamic) == 1, f"dynamic sections at {dynamic}")
    struct.pack_into("<I", data, dynamic[0] + 4, PF_R)
    library.unlink()
    library.write_bytes(data)
    program.make_snapshot()
    program.like_plain(True)


def watched(program):
    """Who listens to symbols being bound hears nothing; or passes that look for slots find
    none."""
    program.make_snapshot()
    done = program.run(LD_DEBUG="bindings")
    check("binding file" in done.stderr and "f7" in done.stderr and not SPARED.search(done.stderr),
          done.stderr)
    check("answer 2" in done.stdout, done.stdout)
    program.like_plain(False, LD_BIND_NOT=1)
    if shutil.which("strace"):  # its snapshot is refused, and the pass runs here
        program.like_plain(False, prefix=["strace", "-o", "/dev/null"])
    later = program.passes / "later.c"
    later.write_text('#include <mvld/pass.h>\n__attribute__((visibility("default")))\n'
                     "const struct mvld_pass mvld_pass = {.abi = MVLD_PASS_ABI, .name = \"later\","
                     " .help = \"does nothing\"};\n")
    support.compile_c(program.passes / "later.so", later, *PASS, plugin=False)
    done = program.run(passes="answer, later")
    check(support.from_snapshot(done) and not SPARED.search(done.stderr), done.stderr)


def damage(program):
    """Tables that were changed are used, or a snapshot that does not fit takes the program
    with it."""
    folder = program.make_snapshot()
    tables, image = folder / "relocations", folder / "manifest"
    whole = tables.read_bytes()
    tables.write_bytes(whole[:-1] + b"x")
    program.like_plain(False)
    shutil.rmtree(folder)
    folder = program.make_snapshot()
    program.like_plain(True)
    tables.chmod(0o666)
    program.like_plain(False)
    tables.rename(folder / "aside")
    program.like_plain(False)
    tables.symlink_to("aside")
    program.like_plain(False)
    bytes_of = image.read_bytes()
    image.write_bytes(bytes_of[:-1])
    program.like_plain(False)


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](Program(scratch))
