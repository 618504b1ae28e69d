#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cache_space.py MVLD LOADER DIRECT_CALLS BEHAVIOUR: analyses, and what caches take.

A failure means: a snapshot that was made without an analysis is taken for one with it, or stays so when the
analysis comes; `mvld cache` does not say what takes how much; or what is removed is not what should go.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support import check, contains, equal, finish, run

mvld, loader, direct_calls = map(os.path.abspath, sys.argv[1:4])


class World:
    """A program with a library of its own, whose calls direct-calls changes."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache/mvld"
        self.path, self.lib = folder / "program", folder / "libown.so"
        self.config = folder / "mvld.conf"
        self.compile("", self.lib)
        (folder / "main.c").write_text("int ask(int); int main(void) { return ask(0) - 1; }")
        subprocess.run(["gcc", "-O2", "main.c", "-o", self.path, "-L.", "-lown", f"-Wl,-rpath,{folder},-I,{loader}"],
                       cwd=folder, check=True)
        self.configure()

    def compile(self, more, to):
        (self.folder / "lib.c").write_text("#include <stdlib.h>\n__attribute__((noipa)) int ask(int x) "
                                           "{ return abs(atoi(\"1\") + rand() * x); }\n" + more)
        subprocess.run(["gcc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-Wl,--build-id", "lib.c", "-o", to],
                       cwd=self.folder, check=True)

    def configure(self, miss="transform"):
        self.config.write_text(f"[app]\nmatch = {self.path}\npasses = direct-calls\non-miss = {miss}\n")

    def env(self, **more):
        return {"XDG_CACHE_HOME": str(self.folder / "cache"), "MVLD_CONFIG": str(self.config),
                "MVLD_PASS_PATH": os.path.dirname(direct_calls), "PATH": os.environ["PATH"], **more}

    def start(self):
        """What MVLD_DEBUG=files says of a start."""
        status, _, said = run(self.path, env=self.env(MVLD_DEBUG="files"))
        equal(status, 0, f"the program fails: {said}")
        return said

    def mvld(self, *words, code=0, said="", **more):
        """Its output; `said`: its standard error, or None."""
        found = run(mvld, *words, env=self.env(**more))
        equal(found[0], code, f"mvld {' '.join(map(str, words))}: {found[1]}{found[2]}")
        if said is not None:
            equal(found[2], said, f"mvld {words[0]}")
        return found[1]

    def build(self, **more):
        return Path(self.mvld("build", self.path, **more).strip())

    def items(self, kind):
        return {item["path"]: item for item in json.loads(self.mvld("cache", "list", "--json")) if item["kind"] == kind
                and item["path"].startswith(str(self.cache))}

    def state(self, image):
        item = self.items("snapshot")[str(image)]
        return item["state"], item["why"], item["remedy"]

    def analysis(self, path):
        """The file of `mvld analyze' for this object."""
        found = [item["path"] for item in self.items("analysis").values() if item["object"] == str(path)]
        return Path(found[0]) if found else None


def stale(world):
    """A snapshot that was made without an analysis, or with another one, is not told from one with it."""
    world.mvld("analyze", "--program", world.path, said=None)
    world.analysis(world.lib).unlink()
    image = world.build(said=f"mvld: the snapshot lacks the analysis of {world.lib}: `mvld analyze --program "
                             f"{world.path}', then `mvld build {world.path}' again\n")
    why = f"it was made without the analysis of {world.lib}"
    remedy = f"mvld analyze --program {world.path} && mvld build {world.path}"
    for _ in range(2):
        equal(world.state(image), ("stale", why, remedy), "before the analysis comes, and then")
        world.mvld("analyze", world.lib)
    contains(world.mvld("cache", "list"), "1 stale: starts take them", "list: what to do")
    contains(world.mvld("status"), f"{world.path}: {why} -> {remedy}\n", "status")
    findings = json.loads(run(mvld, "doctor", "--json", env=world.env())[1])
    equal([(f["text"], f["remedy"]) for f in findings if f["name"] == "stale" and str(world.path) in f["text"]],
          [(f"{world.path}: {why}", remedy)], "doctor")
    contains(world.start(), ": applied", "what is stale fits all the same")
    world.mvld("cache", "prune")
    contains(world.start(), ": applied", "prune leaves it")
    image = world.build()
    equal(world.state(image)[0], "good", "made anew")
    world.mvld("analyze", "--again", "--program", world.path)
    equal(world.state(image)[0], "good", "the same analyses")
    # Another one of the same file, as another version of the analyser makes it.
    moved = world.lib.rename(world.folder / "elsewhere.so")
    world.lib.symlink_to(moved)
    image = world.build()
    equal(world.state(image)[0], "good", "the same file")
    world.mvld("analyze", "--again", moved)
    equal(world.state(image), ("stale", f"it was made with another analysis of {world.lib}",
                               remedy), "another analysis")


def on_miss(world):
    """on-miss = build leaves a snapshot without the analyses that there were for the one before."""
    contains(run(mvld, "build", world.path, env=world.env())[2], f"`mvld analyze' comes first, {world.path} has no", "build")
    world.configure("build")
    contains(world.start(), f"{world.path} has no analysis that fits: `mvld enable PROGRAM' makes it", "none at all")
    check(not list(world.cache.glob("snapshots/*/manifest")), "a snapshot without analyses")
    world.mvld("analyze", "--program", world.path, said=None)
    contains(world.start(), "snapshot: written: ", "all are analysed")
    contains(world.start(), ": applied", "the next start")
    image, = world.cache.glob("snapshots/*/manifest")
    before, overlays = image.read_bytes(), sorted(path.name for path in image.parent.iterdir())
    # The library is replaced, as an upgrade does it.
    world.compile("int more;\n", world.folder / "new.so")
    (world.folder / "new.so").rename(world.lib)
    os.utime(image, (1, 1))  # what is of this minute is not made anew anyway
    said = world.start()
    contains(said, f"{world.lib} has no analysis that fits", "replaced")
    check(image.read_bytes() == before, "a snapshot that lost an analysis")
    contains(world.mvld("status"), f"{world.lib} is another file now -> mvld analyze ", "status")
    world.mvld("analyze", "--program", world.path, said=None)
    contains(world.start(), "snapshot: written: ", "analysed again")
    contains(world.start(), ": applied", "the start after that")
    equal(sorted(path.name for path in image.parent.iterdir()), overlays, "as many objects as before")


def sizes(world):
    """What the list says is not what the disk says."""
    world.mvld("analyze", "--program", world.path, said=None)
    image = world.build()
    items = {**world.items("snapshot"), **world.items("analysis")}

    def on_disk(path):
        paths = [path, *path.rglob("*")] if path.is_dir() else [path]
        return sum(512 * p.stat().st_blocks for p in paths if p.is_file())

    for path, item in items.items():
        equal(item["size"], on_disk(Path(path)), path)
    check({item["kind"] for item in items.values()} == {"snapshot", "analysis"}, str(items))
    check(len(world.items("analysis")) >= 3 and world.analysis(world.lib), "each analysis by its object")
    folders = [str(world.cache / name) for name in ("snapshots", "analysis")]
    total = world.mvld("cache", "list", *folders).splitlines()[-1]
    contains(total, "On disk %.1f MiB: " % (sum(i["size"] for i in items.values()) / 2**20), "the total")
    contains(total, f" of analyses ({len(world.items('analysis'))})", "the total")
    check(on_disk(image) > 4096, "a snapshot takes space")


def gone(world):
    """Analyses of files that are gone stay, or others go."""
    world.mvld("analyze", world.path)
    first = world.folder / "first.so"  # the library is this one, copied
    shutil.copy2(world.lib, first)
    world.mvld("analyze", first)
    world.build(said=None)
    first.unlink()
    check(world.items("analysis")[str(world.analysis(first))]["state"] == "good", "a snapshot needs it")
    world.mvld("analyze", "--again", world.lib)
    other = world.folder / "other.so"
    world.compile("int other;\n", other)
    world.mvld("analyze", other)
    kept, lost = world.analysis(world.lib), world.analysis(other)
    world.mvld("cache", "prune")
    check(kept.exists() and lost.exists(), "prune takes what is in use")
    os.utime(other)  # the same bytes
    equal(world.items("analysis")[str(lost)]["state"], "good", "touched")
    world.compile("int another;\n", other)
    contains(world.mvld("cache", "list"), f"out of date {lost}: analysis, ", "replaced")
    other.unlink()
    contains(world.mvld("cache", "list"), f"{other} is gone\n", "gone")
    findings = json.loads(run(mvld, "doctor", "--json", env=world.env())[1])
    equal([f["text"] for f in findings if f["name"] == "analyses of user"],
          [f"{world.cache}/analysis: 3; 1 are of files that are gone or were replaced"], "doctor")
    took = os.stat(lost).st_blocks * 512
    removed, = json.loads(world.mvld("cache", "prune", "--json"))
    equal((removed["path"], removed["state"], removed["size"], removed["why"]), (str(lost), "out of date", took, f"{other} is gone"), "prune")
    check(kept.exists() and not lost.exists(), "just that one goes")
    kept.write_bytes(kept.read_bytes()[:-8])
    contains(world.mvld("cache", "verify", world.cache / "analysis", code=1), f"damaged     {kept}: ", "verify")


def bound(world):
    """The cache grows without end, what is in use goes before what is not, or looking at it counts as use."""
    world.mvld("analyze", "--program", world.path, said=None)
    image = world.build()
    oldest, newer = world.folder / "oldest.so", world.folder / "newer.so"
    for path in oldest, newer:
        world.compile(f"int {path.stem};\n", path)
        world.mvld("analyze", path)
    items = world.items("snapshot") | world.items("analysis")
    size = sum(item["size"] for item in items.values())
    oldest, newer = str(world.analysis(oldest)), str(world.analysis(newer))
    needed = str(world.analysis(world.lib))  # by the snapshot, which is in use
    for path in items:
        for part in [path, *Path(path).glob("*")]:
            os.utime(part, ns=(2 * 10**18, os.stat(part).st_mtime_ns))  # in use
    os.utime(needed, (1e9, 1e9))
    os.utime(oldest, (1.1e9, 1e9))
    os.utime(newer, (1.2e9, 1e9))
    if Path(oldest).stat().st_atime != 1.1e9:
        print("times of access cannot be set here")
        return
    world.mvld("cache", "verify")
    world.mvld("cache", "list", "--json")
    check(Path(oldest).stat().st_atime == 1.1e9 and (image / "manifest").stat().st_atime == 2e9, "looking is no use")
    world.mvld("cache", "prune", "--size", size)
    check(all(Path(path).exists() for path in items), "all fit")
    world.mvld("cache", "prune", "--size", size - 1,
               said=f"mvld cache: {oldest} removed, last used on 2004-11-09: the cache is to take "
               f"{(size - 1) / 2**20:.1f} MiB at most (MVLD_CACHE_SIZE)\n")
    check([path for path in items if not Path(path).exists()] == [oldest], "just the oldest goes")
    # A build frees space before it starts; a bound that is no size is reported, and 1G counts.
    found = run(mvld, "build", world.path, env=world.env(MVLD_CACHE_SIZE=str(size - items[oldest]["size"] - 1)))
    equal(found[0], 0, found[2])
    contains(found[2], f"mvld build: {newer} removed", "build")
    check(Path(needed).exists() and not Path(newer).exists() and image.exists() and len(list(image.parent.glob("*-*"))) == 1, "build")
    contains(run(mvld, "build", world.path, env=world.env(MVLD_CACHE_SIZE="much"))[2], "is no size such as 500M", "build")
    rest = len(list(world.cache.rglob("*.mvld")))
    check(rest == len(world.items("analysis")) > 0, "1G counts")
    # Everything is removed if the bound is 0; and a start has no bound.
    there = {path: item["size"] for path, item in (world.items("snapshot") | world.items("analysis")).items()}
    removed = json.loads(world.mvld("cache", "prune", "--json", "--size", "0"))
    equal(({item["path"]: item["size"] for item in removed}, {item["state"] for item in removed}), (there, {"oldest"}), "prune, as JSON")
    check(not list(world.cache.rglob("*.mvld")) and not list(world.cache.glob("snapshots/*-*")), "nothing fits")
    world.mvld("analyze", "--program", world.path, said=None)
    world.configure("build")
    contains(run(world.path, env=world.env(MVLD_DEBUG="files", MVLD_CACHE_SIZE="0"))[2], "snapshot: written", "a start")
    check(list(world.cache.rglob("*.mvld")), "a start removes nothing")
    for words in ["list", "--size", "1"], ["prune", "--size", "1X"], ["prune", "--size", "1", "/"]:
        equal(run(mvld, "cache", *words, env=world.env())[0], 2, str(words))


def killed(world):
    """What an analysis that was killed had written goes with the next look at the bound, and nobody's who writes now."""
    world.mvld("analyze", world.lib)
    whole, = world.cache.glob("analysis/*/*.mvld")
    rests = [whole.with_name(f"{whole.name}.{name}") for name in ("aB3xYz", "cD4xYz")]
    for rest in rests:
        rest.write_bytes(whole.read_bytes()[:100])
    os.utime(rests[0], (1, time.time() - 4000))
    foreign = whole.with_name("notes.mvld.aB3xYz")
    foreign.write_text("mine")
    os.utime(foreign, (1, 1))
    world.mvld("cache", "prune")
    equal(sorted(whole.parent.iterdir()), sorted([whole, rests[1], foreign]), "what stays")


def bound_after_analyze(world):
    """What `mvld analyze' calls up to date, the build that follows removes, and makes a snapshot without it; as after
    upgrades of mvld, when no start takes a snapshot with it."""
    other = world.folder / "other.so"
    world.compile("int other;\n", other)
    for _ in range(2):  # with relatime the first reading after a change counts as use, and none of the next day
        world.mvld("analyze", "--program", world.path, said=None)
    time.sleep(1.1)
    world.mvld("analyze", other)
    size = sum(item["size"] for item in world.items("analysis").values())
    time.sleep(1.1)
    world.mvld("analyze", "--program", world.path, said=None)
    code, out, err = run(mvld, "build", world.path, env=world.env(MVLD_CACHE_SIZE=str(size - 1)))
    equal((code, world.analysis(other)), (0, None), f"what was used longest ago stays: {err}")
    equal(world.state(Path(out.strip()))[0], "good", err)


def bound_after_upgrade(world):
    """After an upgrade of mvld the bound takes the analyses that all programs are renewed with before what nobody needs."""
    passes, other = world.folder / "passes", world.folder / "other.so"
    passes.mkdir()
    copy = Path(shutil.copy(direct_calls, passes))
    world.mvld("analyze", "--program", world.path, said=None)
    world.build(MVLD_PASS_PATH=str(passes))  # with relatime its reading counts as use, and no other one of this day
    needed = [world.analysis(world.path), world.analysis(world.lib)]
    for path in {Path(path) for path in world.items("analysis")} - {*needed}:
        path.unlink()  # the host loader's is in no snapshot
    time.sleep(1.1)
    world.compile("int other;\n", other)
    world.mvld("analyze", other)
    time.sleep(1.1)
    image = world.build(said=None, MVLD_PASS_PATH=str(passes))
    built = bytearray(copy.read_bytes())
    built[built.index(b"\x14\0\0\0\3\0\0\0GNU\0") + 12] ^= 1
    copy.unlink()
    copy.write_bytes(built)
    listed = json.loads(world.mvld("cache", "list", "--json", MVLD_PASS_PATH=str(passes)))
    equal([item["state"] for item in listed if item["path"] == str(image)], ["other mvld"], "the fixture")
    size = sum(item["size"] for item in listed if item["path"].startswith(str(world.cache)))
    world.mvld("cache", "prune", "--size", size - 1, said=None, MVLD_PASS_PATH=str(passes))
    equal((world.analysis(other), [path for path in needed if not path.exists()]), (None, []), "what goes")


with tempfile.TemporaryDirectory() as scratch:
    globals()[sys.argv[4]](World(Path(scratch)))
finish()
