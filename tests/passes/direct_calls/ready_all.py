# SPDX-License-Identifier: MIT
"""Ready code with all calls direct, also those to other objects (rimf/store/manifest.h).

A failure means: a process runs code whose calls lead where nothing is, or to somebody else; or it has
not the code that the pass would have made of its own.

Argument: one of the functions below.
"""
import re
import shutil
import subprocess
import sys

import support
from ready_world import CONFIG, MVLD, N, PAGE, WORLD, World, done, laid, reseal, same_in_memory
from support import check

ALL, OWN = "all calls", "calls to itself"
BETWEEN = "int between(int x) { return x; } char room[%d];\n"


def same(world):
    same_in_memory(world, ALL, "libown.so")


def kinds(world):
    """With and without ready code the same calls are direct, and the same ones left for the same reasons."""
    before = done(world.run())
    log = world.build()
    check(f"libown.so: written ({OWN})" in log and f"libown.so: written ({ALL})" in log, log)
    log = world.run()
    check(laid(log, reach=ALL) and done(log) == before, f"{before}\n{log}")
    check(any("such calls run once" in why for why in before[1]), f"{before}: no call that is left")
    check(re.search(r"libown.so: \d+ of \d+ sites made direct, 0 pages", log), log)
    for file in all_files(world):
        file.unlink()
    log = world.run()
    check(laid(log, reach=OWN) and done(log) == before, f"{before}\n{log}")


def all_files(world):
    """Those of the library in which all calls are direct."""
    said = subprocess.run([MVLD, "cache", "list", world.cache / "mvld" / "ready"], capture_output=True, text=True,
                          check=False).stdout
    size = world.lib.stat().st_size
    at = -(-size // 4096) * 4096 + 176  # header.n_reads: the program
    found = [file for file in world.files() if file.read_bytes()[at] == 1]
    check(len(found) == len(re.findall(f"libown.so  ready code, {ALL}", said)), said)
    return found


def moved(world):
    """Other distances: another program, with a library between the two.  Each has its own; that of the other
    is refused, whether it says so or not."""
    between = world.folder / "libbetween.so"
    (world.folder / "between.c").write_text(BETWEEN % 20000)
    support.compile_c(between, "-shared", "-fPIC", world.folder / "between.c", "-Wl,--build-id", plugin=False)
    second = world.compile("second", libraries=("-lown", "-lbetween"))
    world.build()
    check(laid(world.run(), reach=ALL), "not used")
    check(laid(world.run(program=second), reach=OWN), "not that of the library alone")
    first = all_files(world)
    check(len(first) == 1, f"{first}")
    log = world.build(program=second)
    check(f"libown.so: written ({ALL})" in log and f"written ({OWN})" not in log, log)
    check(laid(world.run(program=second), reach=ALL) and laid(world.run(), reach=ALL), "each its own")
    content = first[0].read_bytes()
    for file in all_files(world):
        if file.read_bytes() != content:
            file.write_bytes(content)
            reseal(world, file)
            log = world.run(program=second)
            check(re.search("libown.so: not used: [^\n]*: an object that its calls lead to lies elsewhere", log) and
                  laid(log, reach=OWN), log)


def preloaded(world):
    """A library in front moves all others alike; one that defines a function takes calls away, and what is
    written then takes the place of what was there."""
    (world.folder / "front.c").write_text("int front;\n")
    (world.folder / "taking.c").write_text("int o7(int x) { return x - 99; }\n")
    for name in ("front", "taking"):
        support.compile_c(world.folder / f"lib{name}.so", "-shared", "-fPIC", world.folder / f"{name}.c", plugin=False)
    world.build()
    check(laid(world.run(LD_PRELOAD=world.folder / "libfront.so"), reach=ALL), "not used")
    taking = {"LD_PRELOAD": world.folder / "libtaking.so"}
    says = world.start(MVLD="off", **taking).stdout
    check(says != world.plain, "no call was taken")
    check(laid(world.run(says=says, **taking), reach=OWN), "not that of the library alone")
    world.build(**taking)
    check(laid(world.run(says=says, **taking), reach=ALL) and laid(world.run(), reach=OWN), "not the last one")
    world.build()
    check(laid(world.run(), reach=ALL) and len(all_files(world)) == 1, f"{all_files(world)}")


def replaced(world):
    """The program is another file: what was written for it is out of date."""
    world.build()
    (world.folder / "new").write_bytes(world.program.read_bytes())
    (world.folder / "new").chmod(0o755)
    (world.folder / "new").rename(world.program)
    check(laid(world.run(), reach=OWN), "of another program")
    done = subprocess.run([MVLD, "cache", "prune", world.cache / "mvld" / "ready"], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0 and not all_files(world) and world.files(), done.stdout + done.stderr)


def misfit(world):
    """The program's image is found and does not fit, so objects lie at the distances that were drawn for it;
    those of starts without a snapshot are taken for theirs.  Of starts with LD_PRELOAD there is none."""
    (world.folder / "front.c").write_text("int front;\n")
    front = world.folder / "libfront.so"
    support.compile_c(front, "-shared", "-fPIC", world.folder / "front.c", plugin=False)
    other = {"LD_LIBRARY_PATH": world.folder / "others"}
    other["LD_LIBRARY_PATH"].mkdir()
    shutil.copy(world.folder / "libother.so", other["LD_LIBRARY_PATH"])
    for _ in range(3):
        check(world.start(MVLD_SNAPSHOT=1).returncode == 0, "no snapshot")
        check("snapshot's" in world.run(MVLD_DEBUG="files"), "its distances are not those of the snapshot")
        log = world.run(**other)
        check(laid(log, reach=OWN) and not laid(log, reach=ALL), log)
        check(laid(world.run(LD_PRELOAD=front), reach=ALL), "with LD_PRELOAD")
    shutil.rmtree(world.cache / "mvld" / "snapshots")
    check(laid(world.run(), reach=ALL), "not used")
    # Where it would fit, but for a library that is another file.
    log = world.run(**other)
    check("libown.so: not used: " in log and "its file is another one" in log and laid(log, reach=OWN), log)


def executable(world, *link):
    """The program defines one of the functions itself."""
    program = world.compile("takes", "-DTAKES", *link)
    says = world.start(MVLD="off", program=program).stdout
    before = done(world.run(program=program, says=says))
    check(says != world.plain and before[0], f"no call was taken: {before}")
    world.build(program=program)
    log = world.run(program=program, says=says)
    check(laid(log, reach=ALL) and done(log) == before, f"{before}\n{log}")
    world.build()
    check(laid(world.run(), reach=ALL), "not used")
    return log


def fixed(world):
    """It lies at a fixed address, and so elsewhere each time; that call is made direct by each process."""
    for _ in range(3):
        log = executable(world, "-no-pie", "-fno-pie")
        check(re.search(r"libown.so: \d+ of \d+ sites made direct, [1-9] pages", log), log)


def lazy(world):
    """Executables have ready code, too; their slots wait for the first call."""
    (world.folder / "pages.c").write_text(
        "#include <stdio.h>\n" + "".join(f"int f{n}(int);\n" for n in range(N)) +
        "".join(PAGE % (n, n, N - 1 - n) for n in range(N)) +
        "int main(void) { int s = 0; %s printf(\"%%d\\n\", s); return 0; }\n" % "".join(
            f"s += p{n}(s % 9);" for n in range(N)))
    program = world.compile("pages", "-Wl,-z,lazy", source=world.folder / "pages.c")
    world.analyse(program)
    says = world.start(MVLD="off", program=program).stdout
    before = done(world.run(program=program, says=says), "pages")
    world.build(program=program)
    log = world.run(program=program, says=says)
    check(laid(log, "pages", ALL) and done(log, "pages") == before, f"{before}\n{log}")
    check(re.search(r"pages: \d+ of \d+ sites made direct, 0 pages", log), log)
    log = world.run(program=program, says=says, MVLD_TUNABLES="direct-calls.rewritable=leave")
    check(not laid(log, "pages"), log)
    for variable in ("LD_BIND_NOT", "LD_DYNAMIC_WEAK"):
        check(not laid(world.run(program=program, says=says, **{variable: 1})), variable)
    check(laid(world.run(program=program, says=says, LD_BIND_NOW=1), reach=ALL), "the library's slots are the same")


def damage(world):
    """Fields that are wrong, with checksums that fit."""
    world.build()
    files = all_files(world)
    whole = files[0].read_bytes()
    for field, value, why in (("word0", 1, "a call leads elsewhere"), ("word0", 4096, "a call leads elsewhere"),
                              ("build_id", 1, "its file is another one")):
        files[0].write_bytes(whole)
        reseal(world, files[0], field, value)
        log = world.run()
        check(re.search(f"libown.so: not used: [^\n]*: {why}", log) and laid(log, reach=OWN), f"{field}: {log}")
    files[0].write_bytes(whole)
    reseal(world, files[0])
    check(laid(world.run(), reach=ALL), "as it was")


def later(world):
    """Objects of dlopen: where they lie depends on what came before."""
    late = world.folder / "liblate.so"
    support.take(world.folder, WORLD, "late-other.so=liblate.so")
    world.analyse(late)
    says = world.start(late, MVLD="off").stdout
    before = done(world.run(late, says=says), "liblate.so")
    log = world.build(late, snapshot="run")
    check(f"liblate.so: written ({ALL})" in log, log)
    log = world.run(late, says=says)
    check(laid(log, "liblate.so") and done(log, "liblate.so") == before, f"{before}\n{log}")


def concat(world):
    """With moved code, for which it is not."""
    world.build()
    both = {"config": CONFIG.replace("calls", "calls, concat") + support.COPY,
            "MVLD_PASS_PATH": f"{support.BUILD}/passes/direct-calls:{support.BUILD}/passes/concat"}
    log = world.run(**both)
    check("concat: " in log and " moved to " in log and not laid(log), log)
    shutil.rmtree(world.cache / "mvld" / "analysis")
    world.analyse(world.program)
    check(not laid(world.run(**both), reach=ALL), "used beside moved code")


def alone(world):
    """`mvld build --ready` writes a snapshot, too, or code that starts without one have no use for, or says nothing."""
    def build(*words):
        return support.run([MVLD, "build", "--ready", *words, world.program], config=CONFIG, XDG_CACHE_HOME=world.cache,
                           MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")

    log = world.run()
    check(not laid(log), log)
    folder = world.cache / "mvld" / "ready"
    done = build()
    said = re.fullmatch(rf"{folder}: (\d+) written, 0 there already\n", done.stdout)
    check(done.returncode == 0 and said and not done.stderr, done.stdout + done.stderr)
    check(int(said[1]) == len(world.files()) >= 2 and not (world.cache / "mvld" / "snapshots").exists(), said[0])
    check(laid(world.run(), reach=ALL), "it is not used")
    check(build().stdout == f"{folder}: 0 written, {said[1]} there already\n", "written twice")
    # Beside a snapshot, whose distances are others.
    check(world.start(MVLD_SNAPSHOT=1).returncode == 0, "no snapshot")
    shutil.rmtree(folder)
    check(build().stdout == said[0], "not beside a snapshot")
    shutil.rmtree(world.cache / "mvld" / "snapshots")
    check(laid(world.run(), reach=ALL), "it was written for the snapshot's distances")
    # What is refused.
    shutil.rmtree(folder)
    folder.write_text("")
    done = build()
    check(done.returncode == 1 and "mvld: no ready code: " in done.stderr and "could not be written" in done.stderr,
          done.stdout + done.stderr)
    folder.unlink()
    done = support.run([MVLD, "build", "--ready", world.program], XDG_CACHE_HOME=world.cache)
    check(done.returncode == 1 and "no pass" in done.stderr, done.stdout + done.stderr)
    shutil.rmtree(world.cache / "mvld" / "analysis")
    done = build()
    check(done.returncode == 1 and "mvld: no ready code: of no object is it worth a file" in done.stderr,
          done.stdout + done.stderr)


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](World(scratch, other=True))
