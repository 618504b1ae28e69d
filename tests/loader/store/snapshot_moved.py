#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""snapshot_moved.py BEHAVIOUR: programs that start from a snapshot with moved code
(snapshot/place*.c: a program and a library that tell where they run).

The output must be the same with the snapshot, without it, and without any pass; what differs is
where the code runs.  Each function below is one test; its text says what a failure means.
"""
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
import support  # noqa: E402
from image_table import rely_on_another_word, seal, tables  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "snapshot"
MVLD = support.BUILD / "tools" / "mvld"
PARTS = [support.BUILD / "passes" / "direct-calls" / "direct-calls.so",
         support.BUILD / "passes" / "concat" / "concat.so",
         support.BUILD / "passes" / "concat" / "libconcat.so.1"]


class Program:
    main = "loader/store/snapshot", "places=program"

    def __init__(self, folder):
        support.need(MVLD, *PARTS)
        self.folder, self.cache = folder, folder / "cache"
        self.passes = folder / "passes"
        self.passes.mkdir()
        for part in PARTS:
            shutil.copy(part, self.passes)
        self.library, self.later = folder / "libplace.so", folder / "liblater.so"
        self.path = folder / "program"
        support.take(folder, "loader/store/snapshot", "libplace.so", "libplace.so=liblater.so")
        support.take(folder, *self.main)
        self.config = folder / "mvld.conf"
        self.configure()
        self.analyze(self.path, self.library, self.later)

    def configure(self, more=""):
        self.config.write_text(f"[app]\nmatch = {self.path}\npasses = direct-calls, concat\n{more}{support.COPY}")

    def analyze(self, *files):
        support.analyze(self.cache, *files)

    def environment(self, **more):
        return {"MVLD_PASS_PATH": self.passes, "MVLD_CONFIG": self.config,
                "XDG_CACHE_HOME": self.cache, "MVLD_DEBUG": "files,passes", **more}

    def run(self, *words, prefix=(), status=0, **more):
        done = support.run([*prefix, self.path, *words], **self.environment(TELL_MAPPED=1, **more))
        check(status is None or done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def make_snapshot(self):
        folder = Path(self.run(MVLD_SNAPSHOT=1).stdout.strip())
        check((folder / "manifest").is_file() and (folder / "concat.so").is_file(), "no snapshot, or no moved code")
        return folder

    def applied(self, *words, **more):
        done = self.run(*words, **more)
        check(runs_in_image(done), f"not applied:\n{done.stdout}{done.stderr}")
        return done

    def expected(self, *words):
        return self.run(*words, MVLD="off").stdout

    def refused(self, why, **more):
        """Not applied, for this reason; the program is right."""
        done = self.run(**more)
        check(re.search("not applied: .*" + re.escape(why), done.stderr) and
              done.stdout == self.expected() and not runs_in_image(done),
              f"wanted '{why}':\n{done.stdout}{done.stderr}")


def runs_in_image(done):
    """Whether code of objects is mapped from a snapshot and calls moved code.  (Moved code stays mapped, and unused,
    where the snapshot turned out not to fit at the hook.)"""
    return bool({*support.from_snapshot(done)} - {"concat.so"})


def mapping(done, what):
    return re.search(f"^{what} (.*)", done.stdout, re.M).group(1)


def applies(program):
    """The moved code of the snapshot does not run, or a program sees that it does."""
    plain = program.expected("no", program.later)
    check(plain.startswith("libplace.so libplace.so program libplace.so program 1\n1\n"), plain)
    check(program.run("no", program.later).stdout == plain, "moved in the process")
    folder = program.make_snapshot()
    check(program.applied("no", program.later).stdout == plain, "the output is another one")
    done = program.applied("maps", program.later)
    check(f"{folder}/concat.so" in mapping(done, "place") and " r-xp " in mapping(done, "place"),
          f"the moved code does not run: {mapping(done, 'place')}")
    check("/concat.so" in mapping(done, "pointer"), f"a pointer leads to the original: {mapping(done, 'pointer')}")
    # What comes later is moved behind, in this process.
    for what in "later", "later pointer":
        check("/" not in mapping(done, what) and " r-xp " in mapping(done, what), mapping(done, what))
    # perf and gdb know the functions of the file.
    said = subprocess.run(["readelf", "-sW", folder / "concat.so"], capture_output=True, text=True)
    place, = re.findall(r"^ *\d+: ([0-9a-f]+) +\d+ FUNC .* place$", said.stdout, re.M) or ["0"]
    start = int(mapping(done, "place").split("-")[0], 16)
    check(0 <= support.bases(done)["libconcat.so.1"] + int(place, 16) - start < 1 << 20,
          f"place is not named, or elsewhere:\n{said.stdout}{said.stderr}")


def refusals(program):
    """Moved code is used that is not what was written, or whose code is another one."""
    folder = program.make_snapshot()
    moved, aside = folder / "concat.so", program.folder / "aside"
    moved.rename(aside)
    program.refused("there is none")
    moved.symlink_to(aside)
    program.refused("it cannot be opened")
    moved.unlink()
    shutil.copy(aside, moved)
    program.refused("its overlay was changed after it was written")
    program.make_snapshot()
    program.applied()
    moved.chmod(0o666)
    program.refused("may write it")
    moved.chmod(0o644)
    program.applied()
    shutil.copy(program.library, program.folder / "new.so")
    (program.folder / "new.so").rename(program.library)
    program.analyze(program.library)
    program.refused("libplace.so: its file is another one")
    program.make_snapshot()
    program.applied()
    new = program.passes / "new"  # the library whose memory the region is
    shutil.copy(program.passes / "libconcat.so.1", new)
    new.rename(program.passes / "libconcat.so.1")
    program.refused("libconcat.so.1: its file is another one")


def damage(program):
    """A snapshot with any one byte changed is used; or damaged moved code is called good."""
    folder = program.make_snapshot()
    whole = (folder / "manifest").read_bytes()
    plain = program.expected()
    environment = support.clean_environment(**program.environment(TELL_MAPPED=1))
    for at in range(len(whole)):
        (folder / "manifest").write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        if at % 16:  # one program in 16 bytes: snapshot_open sees each (tests/rimf/store/manifest.c)
            continue
        done = subprocess.run([program.path], env=environment, capture_output=True, text=True, timeout=30)
        check((done.returncode, done.stdout) == (0, plain) and not runs_in_image(done),
              f"byte {at}: {done.returncode}\n{done.stdout}{done.stderr}")
    (folder / "manifest").write_bytes(whole)
    program.applied()
    images = program.cache / "mvld" / "snapshots"
    done = support.run([MVLD, "cache", "verify", images])
    check(done.returncode == 0 and re.search("moved in [23] fragments", done.stdout), done.stdout + done.stderr)
    moved = folder / "concat.so"
    size = moved.stat().st_size
    with moved.open("r+b") as file:
        file.seek(size - 100)
        file.write(b"?")
    done = support.run([MVLD, "cache", "verify", images])
    check(done.returncode == 1 and "damaged" in done.stdout and "concat.so" in done.stdout,
          done.stdout + done.stderr)
    program.refused("its overlay was changed after it was written")
    done = support.run([MVLD, "cache", "prune", images])
    check(done.returncode == 0 and not list(images.iterdir()), done.stdout + done.stderr)


def shared(program):
    """Ten processes have moved code of their own each: more than 100 KB more than the plain ones."""
    program.analyze("--program", program.path)  # the C library, too
    program.make_snapshot()

    def memory(**more):
        environment = support.clean_environment(**program.environment(MVLD_DEBUG="", **more))
        running = [subprocess.Popen([program.path, "wait"], env=environment, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE) for _ in range(10)]
        total = 0
        for process in running:
            process.stdout.readline()
            process.stdout.readline()
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Private_Dirty: +([0-9]+) kB", rollup, re.M).group(1))
        for process in running:
            process.communicate(b"\n", timeout=30)
            check(process.returncode == 0, f"status {process.returncode}")
        return total

    done = program.run()
    check(runs_in_image(done), done.stderr)
    plain, snapshot = memory(MVLD="off"), memory()
    size = next(program.cache.glob("mvld/snapshots/*/concat.so")).stat().st_size // 1024
    print(f"ten processes, private: {plain} KB plain, {snapshot} KB from a snapshot; moved code {size} KB")
    check(size > 1000 and snapshot - plain < 10 * size / 4, f"{plain} KB, snapshot {snapshot} KB")


def fixed_address(program):
    """An executable at a fixed address has moved, or its library has not, or its words hold addresses of original code."""
    for flags in ["-fno-pie"], ["-fPIC"]:  # the library's function has the address of a PLT entry; of its own
        support.compile_c(program.path, SOURCES / "place_main.c", support.MAPPED, "-no-pie", *flags,
                          "-Wl,--build-id", f"-L{program.folder}", "-lplace", f"-Wl,-rpath,{program.folder}",
                          f"-Wl,-I,{support.LOADER}", plugin=False)
        program.analyze(program.path)
        plain = program.expected("no", program.later)
        folder = program.make_snapshot()
        for _ in range(3):
            done = program.run("maps", program.later)
            check(runs_in_image(done), done.stderr)
            check(f"{folder}/concat.so" in mapping(done, "place"), done.stdout)
            wanted = program.path if flags == ["-fno-pie"] else folder / "concat.so"
            check(str(wanted) in mapping(done, "pointer"), f"{flags}\n{done.stdout}")
            for what in "chosen", "chosen pointer":
                check(f"{folder}/concat.so" in mapping(done, what), f"{what}, {flags}\n{done.stdout}")
            check(program.run("no", program.later).stdout == plain, "the output is another one")
        leads_to_originals(program, folder)


def aligned(program):
    """A library that wants more than page alignment is moved in the snapshot, or makes it useless.
    Before glibc 2.35 it does not get it, and lies like the others, unless it lay so by chance (one time
    in 16) in the process that made the snapshot."""
    wheres = [str(program.library)] + ["/concat.so"] * (support.GLIBC < (2, 35))
    support.compile_c(program.library, "-shared", "-fPIC", "-Wl,--build-id,-z,max-page-size=0x10000",
                      SOURCES / "place.c", plugin=False)
    program.analyze(program.library)
    plain = program.expected("no", program.later)
    program.make_snapshot()
    for _ in range(4):
        done = program.run("maps", program.later)
        check(runs_in_image(done), done.stderr)
        check(any(where in mapping(done, "place") for where in wheres), done.stdout)
        check(program.run("no", program.later).stdout == plain, "the output is another one")


def leads_to_originals(program, folder):
    """A snapshot that is refused at the hook leaves words with addresses of moved code, which relocation wrote."""
    rely_on_another_word(folder)
    program.refused("a call leads elsewhere")
    done = program.run("maps", program.later)
    check("symbols are not looked up" in done.stderr and "does not fit" in done.stderr, done.stderr)
    for what in "place", "pointer", "chosen", "chosen pointer", "later", "later pointer":
        check("/concat.so" not in mapping(done, what), f"{what} leads to moved code: {mapping(done, what)}")


def words(program):
    """A word gets an address of moved code though it changed since; or some words get one, and others do not."""
    folder = program.make_snapshot()
    plain = program.expected()
    whole = bytearray((folder / "manifest").read_bytes())
    resealed = bytearray(whole)
    seal(resealed)
    check(resealed == whole, "the test computes another checksum")
    at, n = tables(whole)["pointers"]
    check(n >= 1, "no word leads to moved code")

    def spoil(index, field, change, why, **more):
        image = bytearray(whole)
        entry = list(struct.unpack_from("<4I", image, at + 16 * index))
        entry[field] = change(entry[field])
        struct.pack_into("<4I", image, at + 16 * index, *entry)
        seal(image)
        (folder / "manifest").write_bytes(image)
        program.refused(why, **more)
        (folder / "manifest").write_bytes(whole)
        check(program.applied().stdout == plain, "the output is another one")

    # Who wants to see symbols being looked up gets no tables: each word is compared, and written.
    watched = {"LD_DEBUG": "statistics"}
    check(program.applied(**watched).stdout == plain, "words are not led")
    for more in watched, {}:
        check(bool(re.search("symbols are not looked up", program.applied(**more).stderr)) == (not more), str(more))
    spoil(0, 1, lambda linked: 0, "a pointer lies where it cannot be written", **watched)
    spoil(n - 1, 3, lambda offset: offset ^ 1, "a pointer leads elsewhere", **watched)
    spoil(n - 1, 1, lambda linked: linked + 1, "a pointer leads elsewhere", **watched)
    spoil(n - 1, 1, lambda linked: 2**31, "a pointer lies where it cannot be written", **watched)
    # With tables of ours, original addresses are restored in all words, and none is read that is not there.
    at, n = tables(whole)["words"]
    spoil(n - 1, 1, lambda linked: 2**31, "a word lies outside it")


def tables_in_part(program):
    """A word that no table lists keeps its address of moved code; or words do after the snapshot was refused."""
    folder = program.make_snapshot()
    plain = program.expected()
    whole = (folder / "manifest").read_bytes()
    at, n = tables(whole)["relocations"]
    check(n >= 2, f"{n} tables")
    for index in range(n):  # this one lies where nothing can be mapped over
        image = bytearray(whole)
        struct.pack_into("<Q", image, at + 40 * index + 8, 2**31)
        seal(image)
        (folder / "manifest").write_bytes(image)
        done = program.applied("maps", program.later)
        check("/concat.so" in mapping(done, "pointer"), f"a pointer leads to the original: {mapping(done, 'pointer')}")
        check(program.applied().stdout == plain, "the output is another one")
    (folder / "manifest").write_bytes(whole)
    leads_to_originals(program, folder)


def chosen(program):
    """What a resolver chose in the process that made the snapshot is foisted on one where it is another."""
    flag = program.folder / "flag"
    library = program.folder / "libchosen.so"
    support.compile_c(library, "-shared", "-fPIC", "-Wl,--build-id", f'-DFLAG="{flag}"', SOURCES / "chosen.c",
                      plugin=False)
    support.compile_c(program.path, SOURCES / "chosen_main.c", support.MAPPED, "-Wl,--build-id",
                      f"-L{program.folder}", "-lchosen", f"-Wl,-rpath,{program.folder}", f"-Wl,-I,{support.LOADER}", plugin=False)
    program.analyze(program.path, library)
    program.make_snapshot()
    check(program.applied().stdout == "1 1 1\n" == program.expected(), "the first was chosen")
    flag.touch()
    program.refused("a call leads elsewhere")
    check(program.run().stdout == "2 1 1\n", "the second was chosen")
    program.make_snapshot()
    check(program.applied().stdout == "2 1 1\n", "the second is from the snapshot")
    flag.unlink()
    program.refused("a call leads elsewhere")


def outdated(program):
    """With on-miss = build, a snapshot that no longer fits prevents a new one for ever."""
    program.analyze("--program", program.path)  # on-miss makes none without the C library's
    folder = program.make_snapshot()
    rely_on_another_word(folder)
    program.configure("on-miss = build\n")
    support.age_images(program.cache)
    plain = program.expected()
    for n in 0, 1:  # the old one goes, a new one comes
        done = program.run()
        check(not runs_in_image(done) and done.stdout == plain, done.stderr)
        check(len([*program.cache.glob("mvld/snapshots/*/manifest")]) == n, f"not {n} snapshots: {done.stderr}")
    check(program.applied().stdout == plain, "the output is another one")


def bound_now(program):
    """Starts with LD_BIND_NOW and without it refuse each other's image, or make each other's anew."""
    program.analyze("--program", program.path)  # on-miss makes none without the C library's
    plain = program.expected()
    program.make_snapshot()
    check(not runs_in_image(program.run(LD_BIND_NOW="1")), "slots that are bound later were relied on")
    program.run(MVLD_SNAPSHOT="1", LD_BIND_NOW="1")
    for _ in range(2):
        check(program.applied().stdout == plain == program.applied(LD_BIND_NOW="1").stdout, "another output")
    # Run directly: the host loader moves the environment meanwhile, over what stood first.
    direct = {"LD_BIND_NOW": "1", **support.clean_environment(
        **program.environment(TELL_MAPPED=1, MVLD_TUNABLES="app.on-miss=build"))}
    for applied in False, True:
        done = subprocess.run([support.LOADER, program.path], env=direct, capture_output=True, text=True)
        check(runs_in_image(done) == applied and done.stdout == plain, f"{applied}:\n{done.stderr}")
    check(not runs_in_image(program.run(GLIBC_TUNABLES="glibc.cpu.x86_rep_movsb_threshold=4096")),
          "resolvers may choose otherwise")


def lld(program):
    """A program whose code begins anywhere in a page, as lld leaves it, never starts from its snapshot."""
    if not shutil.which("ld.lld"):
        support.skip("ld.lld is missing")
    plain = program.expected("no", program.later)
    for i in range(4):  # its code begins 16 bytes further each time
        support.compile_c(program.path, SOURCES / "place_main.c", support.MAPPED, "-fuse-ld=lld", "-Wl,--build-id",
                          f"-L{program.folder}", "-lplace", f"-Wl,-rpath,{program.folder}{'/.' * 8 * i}",
                          f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
        program.analyze(program.path)
        program.make_snapshot()
        check(program.applied("no", program.later).stdout == plain, "the output is another one")


def killed(program):
    """A builder that is killed at any moment leaves a snapshot that is taken."""
    plain = program.expected()
    environment = support.clean_environment(**program.environment(MVLD_SNAPSHOT="1"))
    for delay in range(0, 60, 4):
        process = subprocess.Popen([program.path], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            process.wait(delay / 1000)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        check(program.run().stdout == plain, f"after {delay} ms")
    program.make_snapshot()
    program.applied()


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


if __name__ == "__main__":
    main()
