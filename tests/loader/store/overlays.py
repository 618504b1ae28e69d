#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""overlays.py BEHAVIOUR: objects of dlopen that a snapshot has learnt (overlays/ holds a program
that opens modules as it is told, and these).

The program must say the same as without mvld, whether a module's code is the snapshot's or not; which of the two it is,
it finds in its mappings.  Each function below is one test; its text says what a failure means.
"""
import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "overlays"
MVLD = support.BUILD / "tools" / "mvld"
PARTS = [support.BUILD / "passes" / "direct-calls" / "direct-calls.so"]


CONCAT = [support.BUILD / "passes" / "concat" / "concat.so", support.BUILD / "passes" / "concat" / "libconcat.so.1"]


class Program:
    passes = "direct-calls"
    parts = PARTS
    options = ""  # of passes

    def __init__(self, folder, *link):
        support.need(MVLD, *self.parts)
        self.folder, self.cache = folder, folder / "cache"
        self.pass_folder = folder / "passes"
        self.pass_folder.mkdir()
        for part in self.parts:
            shutil.copy(part, self.pass_folder)
        files = "libhelper.so", "libwhere.so", "libother.so", "one.so", "two.so", "three.so", "program"
        support.take(folder, "loader/store/overlays", *files)
        self.helper, self.where, self.other, self.one, self.two, self.three, self.path = [
            folder / name for name in files]
        if link:
            support.compile_c(self.path, SOURCES / "main.c", support.MAPPED, "-pthread", "-Wl,--build-id", f"-L{folder}",
                              "-lhelper", f"-Wl,-rpath,{folder}", f"-Wl,-I,{support.LOADER}", *link,
                              plugin=False)
        self.configure()
        self.analyze()

    def library(self, name, *arguments):
        new = self.folder / "new"
        support.compile_c(new, "-shared", "-fPIC", "-Wl,--build-id,-z,lazy", SOURCES / "module.c",
                          f"-L{self.folder}", f"-Wl,-rpath,{self.folder},-soname,{name}", *arguments,
                          plugin=False)
        new.rename(self.folder / name)
        return self.folder / name

    def configure(self, *keys):
        self.config = self.folder / "mvld.conf"
        self.config.write_text("\n".join([f"[app]\nmatch = {self.path}\npasses = {self.passes}", *keys, self.options]))

    def analyze(self, *more):
        support.analyze(self.cache, self.path, *self.folder.glob("*.so"), *more)

    def environment(self, **more):
        return {"MVLD_PASS_PATH": self.pass_folder, "MVLD_CONFIG": self.config,
                "XDG_CACHE_HOME": self.cache, "MVLD_DEBUG": "files,passes", **more}

    def words(self, words):
        """Of open(one) etc., as the program takes them."""
        return [f"{how}:{self.folder}/{name}" for how, name in (word.rsplit(":", 1) for word in words)]

    def run(self, *words, prefix=(), **more):
        words = self.words(words)
        done = support.run([*prefix, self.path, *words], **self.environment(TELL_MAPPED=1, **more))
        plain = support.run([self.path, *words],
                            **{**self.environment(**more), "MVLD": "off", "MVLD_SNAPSHOT": ""})
        said = [line for line in done.stdout.splitlines() if not line.startswith("/")]
        check(done.returncode == 0 and
              said == [line for line in plain.stdout.splitlines() if not line.startswith("/")],
              f"status {done.returncode}, wanted:\n{plain.stdout}{plain.stderr}got:\n{done.stdout}{done.stderr}")
        return done

    def train(self, *words, **more):
        done = self.run(*words, MVLD_SNAPSHOT="run", **more)
        files = [*self.cache.glob("mvld/snapshots/*/*")]
        check(files, f"no snapshot:\n{done.stderr}")
        return max(files, key=lambda file: file.stat().st_mtime_ns).parent

    def learnt(self, folder="*"):
        """The objects that the snapshot's list of learnt ones has, and whether their code is with it."""
        found = {}
        for later in self.cache.glob(f"mvld/snapshots/{folder}/later"):
            overlays = {path.name.partition("-")[2] for path in later.parent.glob("[0-9]*-*")}
            for name in re.findall(rb"/([^/\0]+\.so)\0", later.read_bytes()):
                found[name.decode()] = name.decode() in overlays
        return found

    def applied(self, *words, names, **more):
        """The code of just these comes from the snapshot, however often they are opened."""
        done = self.run(*words, **more)
        got = re.findall("^from a snapshot: (.*)$", done.stderr, re.M)
        check(sorted(got) == sorted(names), f"got {got}, wanted {names}:\n{done.stdout}{done.stderr}")
        return done

    def refused(self, why, *words, names=(), **more):
        done = self.applied(*words, names=list(names), **more)
        check(why is None or re.search("later: .*" + re.escape(why), done.stderr),
              f"wanted '{why}':\n{done.stdout}{done.stderr}")
        return done


def applies(program):
    """What a training run opened is not applied, or not from the snapshot."""
    folder = program.train("open:one.so")
    done = program.applied("open:one.so", "maps:one.so", names=["libwhere.so", "one.so"], MVLD_DEBUG="")
    check(re.search(rf"^{folder}/\d+-one.so$", done.stdout, re.M), f"mapped from another file:\n{done.stdout}")
    check(not any(path.endswith("direct-calls.so") for path, _ in support.mapped_files(done)), f"the pass ran:\n{done.stderr}")
    overlay, = folder.glob("*-one.so")
    check(overlay.read_bytes() != program.one.read_bytes(), "the code in the overlay is not changed")
    check(subprocess.run(["nm", "-D", overlay], capture_output=True, text=True).stdout.count(" ask"),
          "the overlay has no symbols")
    program.applied("open:two.so", names=["libwhere.so"])


def orders(program):
    """In another order, not at all, or again: an object is at another place."""
    program.train("open:one.so", "open:two.so", "open:three.so")
    program.applied("open:three.so", "open:one.so", names=["libwhere.so", "three.so", "one.so"])
    program.applied("open:two.so", "close:two.so", "open:two.so", "open:one.so", "close:one.so",
                   "close:two.so", "open:one.so",
                   names=["libwhere.so", "two.so"] * 2 + ["one.so", "libwhere.so", "one.so"])
    # What was not learnt does not take a place that was.
    program.library("four.so", "-lhelper", "-lwhere")
    program.analyze()
    program.applied("open:four.so", "open:libother.so", "open:one.so", "open:two.so", "open:three.so",
                   names=["libwhere.so", "one.so", "two.so", "three.so"])


def accumulates(program):
    """A second training run forgets what the first has learnt, or does not add to it."""
    folder = program.train("open:one.so")
    check(program.train("open:two.so", "open:one.so") == folder, "another folder")
    check(len(list(folder.glob("[0-9]*-*.so"))) >= 3, "no overlays")
    program.applied("open:two.so", "open:one.so", names=["libwhere.so", "two.so", "one.so"])
    # Another image has another list.
    support.run([program.path], **program.environment(MVLD_SNAPSHOT=1))
    check(not list(folder.glob("*-one.so")) and not (folder / "later").exists(), "the old list stays")
    program.applied("open:one.so", names=[])


def interposed(program):
    """A direct call of the snapshot is used where the program's own scope leads elsewhere."""
    program.train("open:one.so", "open:libother.so")
    program.refused("one.so: not applied: a call leads elsewhere", "global:libother.so", "open:one.so",
                    names=["libother.so"])
    program.refused(None, "global:libother.so", "deep:one.so", names=["libother.so", "libwhere.so", "one.so"])
    program.refused("a call leads elsewhere", "lazy:one.so")
    program.refused(None, "open:one.so", LD_PRELOAD=program.other)
    program.applied("open:one.so", names=["libwhere.so", "one.so"])


def other_files(program):
    """A file that was replaced gets the code of the old one, or what leads to it does."""
    program.train("open:one.so", "open:two.so")
    program.library("one.so", "-lhelper", "-lwhere", "-DMORE")
    program.refused(None, "open:one.so", "open:two.so", names=["libwhere.so", "two.so"])
    program.library("libwhere.so", "-DWHERE=5", "-lhelper")
    program.refused("two.so: not applied: an object that its calls lead to is not there", "open:two.so")
    program.library("libhelper.so", "-DHELPER")
    program.refused(None, "open:two.so")


def elsewhere(program):
    """An object that lies elsewhere gets code that leads from where it lay."""
    program.train("open:one.so")
    program.refused("an object that its calls lead to is not there", "open:libwhere.so", "take:libwhere.so",
                    "open:one.so", names=["libwhere.so"])
    program.refused(None, "open:one.so", "take:one.so", "open:one.so", names=["libwhere.so", "one.so"] + ["libwhere.so"])
    # In a namespace of its own it is left alone.
    program.refused(None, "space:one.so")


def damage(program):
    """A damaged list, or one of another snapshot, is used; an overlay that is not the one written is."""
    folder = program.train("open:one.so")
    later, overlay = folder / "later", next(folder.glob("*-one.so"))
    whole = later.read_bytes()
    for at in range(0, len(whole), len(whole) // 30):
        later.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        program.refused(None, "open:one.so")
    for size in 0, 63, len(whole) - 1:
        later.write_bytes(whole[:size])
        program.refused(None, "open:one.so")
    later.write_bytes(whole)
    program.applied("open:one.so", names=["libwhere.so", "one.so"])
    later.chmod(0o666)
    program.refused(None, "open:one.so")
    later.chmod(0o644)
    overlay.rename(folder / "aside")
    program.refused("one.so: not applied: there is none", "open:one.so", names=["libwhere.so"])
    shutil.copy(folder / "aside", overlay)
    program.refused("its overlay was changed after it was written", "open:one.so", names=["libwhere.so"])
    shutil.rmtree(folder)
    support.run([program.path], **program.environment(MVLD_SNAPSHOT=1))
    later.write_bytes(whole)
    program.refused("of another snapshot", "open:one.so")


def learning(program):
    """on-miss = learn is not followed, or a child of fork learns too, or a traced process."""
    program.analyze("--program", program.path)  # on-miss makes none without the C library's
    program.configure("on-miss = learn")
    program.run("open:one.so", "fork:open:two.so")
    check("one.so" in program.learnt() and "two.so" not in program.learnt(), program.learnt())
    program.applied("open:two.so", "open:one.so", names=["libwhere.so", "one.so"])
    program.configure("on-miss = build")
    program.applied("open:two.so", "open:one.so", "open:three.so", names=["libwhere.so", "two.so", "one.so"])
    check("three.so" not in program.learnt(), program.learnt())
    program.applied("fork:open:two.so", names=["libwhere.so", "two.so"])
    if shutil.which("strace"):
        done = program.run("open:one.so", prefix=["strace", "-o", "/dev/null"])
        check("a debugger may have breakpoints" in done.stderr, done.stderr)


def behind(program):
    """A pass whose work no snapshot holds cannot add code and data to a process that learns, or what it did is
    learnt with what the others did."""
    support.take(program.pass_folder, "loader/manager/new_sections", "count-calls.so")
    program.passes = "direct-calls, count-calls"
    program.configure("on-miss = learn")
    program.train()
    done = program.run("open:one.so")
    check(program.learnt().get("one.so") and re.search(r"/one.so: \d+ slots at 0x\w{5}", done.stderr), done.stderr)
    program.applied("open:one.so", names=["libwhere.so", "one.so"])
    program.options = "[direct-calls]\nrewritable = leave"  # so that there are calls to count
    program.configure("on-miss = learn")
    folder = program.train().name
    done = program.run("open:one.so")
    known = program.learnt(folder)
    counted = support.changed(done, "one.so")
    check(known.get("one.so") is False and counted != (0, 0), f"{known}\n{done.stderr}")
    again = program.run("open:one.so")
    check(program.learnt(folder) == known and support.changed(again, "one.so") == counted, again.stderr)


def moved(program):
    """What leads to an object that is known, but lies elsewhere in this process, is learnt without its code, and
    that stays so."""
    program.train("open:one.so")
    program.configure("on-miss = learn")
    program.run("open:libwhere.so", "take:libwhere.so", "open:two.so")
    check("two.so" not in program.learnt(), program.learnt())
    program.run("open:one.so", "open:two.so")
    check(program.learnt().get("two.so"), "it is not learnt later, either")
    program.configure()
    program.applied("open:two.so", "open:one.so", names=["libwhere.so", "two.so", "one.so"])


def contended(program):
    """What leads to an object that could not be learnt, because another process was learning, is learnt without
    its code, and that stays so."""
    gate = program.folder / "gate"  # to open it waits for a writer
    os.mkfifo(gate)
    images = program.train().parent
    program.configure("on-miss = learn")
    lock = os.open(images.parent / "lock", os.O_RDWR)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    running = subprocess.Popen([program.path, *program.words(["open:one.so", "open:gate", "open:two.so"])], text=True,
                               env=support.clean_environment(**program.environment()), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    with open(gate, "wb"):
        os.close(lock)
    log = running.communicate(timeout=60)[1]
    check(not {"one.so", "two.so"} & {*program.learnt()}, log)
    program.run("open:one.so", "open:two.so")
    check(program.learnt().get("two.so"), "it is not learnt later, either")
    program.configure()
    program.applied("open:two.so", "open:one.so", names=["libwhere.so", "two.so", "one.so"])


def full(program):
    """What cannot be written is taken for learnt, or spoils what was there."""
    folder = program.train("open:two.so")
    limit = ("import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); "
             "resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d)); os.execv(sys.argv[1], sys.argv[1:])")
    for size in 0, 600, 8192:  # nothing; the list, but not what comes; not the overlay
        before = {path.name for path in folder.iterdir()}
        program.configure("on-miss = learn")
        program.run("open:one.so", prefix=[sys.executable, "-c", limit % (size, size)])
        check({path.name for path in folder.iterdir()} == before, "files stay")
        program.configure()
        program.applied("open:two.so", "open:one.so", names=["libwhere.so", "two.so"])
    program.train("open:one.so")
    program.applied("open:two.so", "open:one.so", names=["libwhere.so", "two.so", "one.so"])


def threads(program):
    """Threads that open and close a module at once get wrong code, or none."""
    program.train("open:one.so", "open:two.so")
    applied = 0
    for _ in range(10):  # who holds it open while others come and go spares them the opening
        done = program.run("threads:one.so")
        applied += done.stderr.count("from a snapshot: one.so")
        if applied > 10:
            break
    check(applied > 10, f"{applied} times\n{done.stderr[-2000:]}")
    program.configure("on-miss = learn")
    program.run("threads:three.so")


def fixed_address(program):
    """With an executable at a fixed address, modules are not applied."""
    fixed = type(program)(program.folder / "fixed", "-no-pie")
    support.run([MVLD, "analyze", "--output", fixed.cache / "mvld" / "analysis", "--program", fixed.path])
    fixed.train("open:one.so")
    for _ in range(3):
        fixed.applied("open:one.so", names=["libwhere.so", "one.so"])


def aligned(program):
    """What leads to a library that wants more than page alignment, and so lies at another distance each time, is
    applied with the distance of the process that learnt it: of the one that made the snapshot, or of a later one."""
    more = "-Wl,-z,max-page-size=0x10000"
    program.library("libhelper.so", "-DHELPER", more)
    program.library("two.so", "-lhelper", "-lwhere", more)  # comes by dlopen
    program.analyze()
    for trained in ["one.so"], ["one.so", "two.so", "three.so"]:
        program.train(*[f"open:{name}" for name in trained])
        places = set()
        for _ in range(8):
            done = program.applied("open:three.so", "open:two.so", "open:one.so",
                                  names=["libwhere.so", *sorted(set(trained) - {"two.so"}, reverse=True)])
            at = support.bases(done)
            places.add(at["libhelper.so"] - at["libc.so.6"])
        check(len(places) > 1 or support.GLIBC < (2, 35), "it is not at another distance each time")


def together(program):
    """Programs that learn at once spoil each other's list."""
    program.analyze("--program", program.path)  # on-miss makes none without the C library's
    program.configure("on-miss = learn")
    environment = support.clean_environment(**{k: str(v) for k, v in program.environment().items()})
    modules = ["one.so", "two.so", "three.so", "libother.so"]
    running = [subprocess.Popen([program.path, *program.words([f"open:{modules[(i + k) % 4]}" for k in range(3)])],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
               for i in range(24)]
    for i, process in enumerate(running):
        said, log = process.communicate(timeout=60)
        wanted = "".join(f"{modules[(i + k) % 4]} {7 if (i + k) % 4 == 3 else 201}\n" for k in range(3))
        check(process.returncode == 0 and said == "1\n" + wanted, f"run {i}: {said}\n{log}")
    program.run(*[f"open:{name}" for name in modules])  # what nobody got to learn
    program.configure()
    program.applied(*[f"open:{name}" for name in modules],
                   names=["libwhere.so", "one.so", "two.so", "three.so", "libother.so"])


def command(program):
    """`mvld build --run` does not train, or `mvld cache` does not know what came of it."""
    def tool(*words, status=0, **more):
        done = support.run([MVLD, *words], **program.environment(MVLD_DEBUG="", **more))
        check(done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    words = program.words(["open:one.so", "open:two.so"])
    check(tool("build", "--run", "--", program.path, *words) == "1\none.so 201\ntwo.so 201\n", "it did not run")
    program.applied("open:one.so", names=["libwhere.so", "one.so"])
    images = program.cache / "mvld" / "snapshots"
    said = tool("cache", "list", images)
    check("3 files of dlopen, code of 3" in said and "out of date" not in said, said)
    tool("cache", "verify", images)
    shutil.copy(program.two, program.folder / "copy")
    (program.folder / "copy").rename(program.two)
    check("1 out of date" in tool("cache", "list", images), "an old file is not seen")
    overlay, = images.glob("*/*-one.so")
    with open(overlay, "r+b") as file:
        file.seek(4096)
        file.write(b"spoilt")
    check("damaged" in tool("cache", "verify", images, status=1), "damage is not seen")
    tool("cache", "prune", "--all", images)
    check(not list(images.iterdir()), "files stay")
    program.configure("placement = as-is")
    check(tool("build", "--run", "--", program.path, *words, status=1) == "", "it ran")


def with_moved_code(program):
    """Moved code is learnt, or what leads to it holds a place that each process chooses anew."""
    program.train("open:one.so", "open:two.so")
    check(program.learnt().get("two.so") is False and not any(program.learnt().values()), program.learnt())
    done = program.applied("open:two.so", "maps:two.so", "open:one.so", names=[])
    check("/memory\n" in done.stdout, f"it has not moved:\n{done.stdout}")


class Moved(Program):
    """Code moves (the pass concat)."""
    passes = "direct-calls, concat"
    options = support.COPY
    parts = PARTS + CONCAT


class Idle(Program):
    """The pass concat is there, and nothing is moved: as without it."""
    passes = "direct-calls, concat"
    parts = PARTS + CONCAT


def main():
    kind = {"moved": Moved, "idle": Idle, "": Program}["".join(sys.argv[2:])]
    with support.scratch_folder() as folder:
        if sys.argv[1] == "fixed_address":
            (folder / "fixed").mkdir()
        globals()[sys.argv[1]](kind(folder))


if __name__ == "__main__":
    main()
