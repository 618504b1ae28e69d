# SPDX-License-Identifier: MIT
"""Ready code: an object's own calls, made direct once for all processes (rimf/store/manifest.h).

A failure means: a process runs code of somebody else's, or that is not what the pass would have
made of its own; or it calls something else than under the host loader.

Argument: one of the functions below.
"""
import os
import re
import shutil
import subprocess
import sys

import support
from ready_world import CONFIG, MVLD, SOURCES, WORLD, World, laid, refused, reseal, same_in_memory
from support import check


def same(world):
    same_in_memory(world, "calls to itself", "libown.so", "libc.so.6")


def interposed(world):
    """A preloaded definition takes a call away: other ready code, and none until it is written."""
    other = world.folder / "other.so"
    (world.folder / "other.c").write_text("int f1(int x) { return x * 2; }\n")
    support.compile_c(other, "-shared", "-fPIC", world.folder / "other.c", plugin=False)
    says = world.start(MVLD="off", LD_PRELOAD=other).stdout
    check(says != world.plain, "nothing was interposed")
    world.build()
    check(laid(world.run()), "not used")
    check(not laid(world.run(LD_PRELOAD=other, says=says)), "that of other slots was used")
    first = world.one().read_bytes()
    world.build(LD_PRELOAD=other)
    check(len(world.files()) == 2, "it has the same name")
    check(laid(world.run(LD_PRELOAD=other, says=says)), "its own is not used")
    check(laid(world.run()), "not used any more")
    # Under the wrong name, with everything else in order: the slots are compared.
    for file in world.files():
        if file.read_bytes() != first:
            file.write_bytes(first)
            reseal(world, file)
    refused(world.run(LD_PRELOAD=other, says=says), "a call leads elsewhere")


def damage(world):
    """Each byte of the tables flipped, cut short, longer; fields that are wrong with checksums that
    fit."""
    world.build()
    file = world.one()
    whole = file.read_bytes()
    begin = -(-world.lib.stat().st_size // 4096) * 4096
    check(whole[begin:begin + 8] == b"MVLDmnfs", "where are the tables")

    def put(data):
        file.write_bytes(data)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    times = file.stat()
    put(whole)
    check(laid(world.run()), "as it was")
    for at in range(begin, len(whole), max(1, (len(whole) - begin) // 60)):
        put(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        refused(world.run(), "")
    for n in (0, 1, begin - 1, begin, begin + 8, begin + 439, begin + 440, len(whole) - 1):
        put(whole[:n])
        refused(world.run(), "it is")
    put(whole + bytes(8))
    refused(world.run(), "cut short, or longer")
    file.write_bytes(whole)
    refused(world.run(), "changed after it was written")
    for field, why in (("word0", "a call leads elsewhere"), ("call0", ""), ("made_by", "another mvld"),
                       ("build_id", "another one"), ("file_inode", "another one"), ("text0", "")):
        put(whole)
        reseal(world, file, field, 4096 if field == "text0" else 1)
        log = world.run()
        if field != "call0":
            refused(log, why)
    put(whole)
    check(laid(world.run()), "as it was")


def owner(world):
    """Owned by somebody else, or writable by others, or a link, or no file."""
    world.build()
    file = world.one()
    for mode in (0o666, 0o620):
        file.chmod(mode)
        refused(world.run(), "may write it")
    file.chmod(0o644)
    check(laid(world.run()), "a good one is refused")
    aside = file.with_name("aside")
    file.rename(aside)
    file.symlink_to(aside)
    refused(world.run(), "cannot be opened")
    file.unlink()
    os.mkfifo(file)
    refused(world.run(), "no regular file")
    file.unlink()
    aside.rename(file)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
        refused(world.run(), "own")


def replaced(world):
    """The object is another file: upgraded in place, or written over."""
    world.build()
    was = world.lib.stat()
    data = (support.BUILD / "tests" / WORLD / "own-new.so").read_bytes()
    check(len(data) == was.st_size, "sizes differ")
    with open(world.lib, "r+b") as file:
        file.write(data)  # the same inode
    says = world.start(MVLD="off").stdout
    check(says != world.plain, "it is the same library")
    check(not laid(world.run(says=says)), "of the file as it was")
    cache = subprocess.run([MVLD, "cache", "list", world.cache / "mvld" / "ready"], capture_output=True, text=True,
                           check=False).stdout
    check(re.search(r"out of date .*libown.so .*is another file now", cache), cache)
    os.utime(world.lib, ns=(was.st_atime_ns, was.st_mtime_ns))
    world.lib.rename(world.folder / "old.so")
    shutil.copy2(world.folder / "old.so", world.lib)  # another inode
    check(not laid(world.run(says=says)), "of another inode")


def cache(world):
    """`mvld cache` knows them."""
    folder = world.cache / "mvld" / "ready"

    def ask(*words, code=0):
        done = subprocess.run([MVLD, "cache", *words, folder], capture_output=True, text=True, check=False)
        check(done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    world.build()
    file = world.one()
    check(re.search(r"good  .*libown.so  ready code, .* calls through \d+ slots; on disk ", ask("list")), ask("list"))
    check("good  " in ask("verify") and "removed" not in ask("prune"), "a good one")
    times, whole = file.stat(), file.read_bytes()
    file.write_bytes(whole[:0x2000] + b"\xcc" + whole[0x2001:])
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    check("not what was written" in ask("verify", code=1), "code that was changed")
    left = folder / ".new"
    left.write_bytes(whole[:5000])
    check(f"unfinished  {left}: " in ask("list"), ask("list"))
    out = ask("prune")
    check(str(file) in out and str(left) in out and not file.exists() and not left.exists(), out)
    left.mkdir()
    world.build()
    file = world.one()
    check(not left.exists(), "a folder in the place of a file that is not finished")
    (left / "mine").mkdir(parents=True)
    file.unlink()
    ask("prune", code=1)
    done = world.start(MVLD_SNAPSHOT="ready")
    check(done.returncode == 1 and "what lies beside it as .new is not of mvld: remove it" in done.stderr and
          (left / "mine").exists() and not file.exists(), f"of others: {done.stderr}")
    shutil.rmtree(left)
    world.build()
    check("removed" in ask("prune", "--all") and not world.files(), "all")


def lazy(world):
    """Slots that wait for the first call: the pass says where they lead."""
    done = support.run([world.program], MVLD="off", LD_BIND_NOW="1")
    check(done.stdout == world.plain, done.stdout)
    world.build()
    check(laid(world.run()), "not used")
    check(not laid(world.run(LD_BIND_NOW=1)), "other slots")
    log = world.run(MVLD_TUNABLES="direct-calls.rewritable=leave")
    refused(log, "a call leads elsewhere")
    for variable in ("LD_BIND_NOT", "LD_DYNAMIC_WEAK"):
        check(not laid(world.run(**{variable: 1})), variable)


def inline(world):
    """Functions of a single instruction, which another configuration leaves calls."""
    world.library(world.lib, "-DSINGLE", "-Wl,-z,now", "-Wl,-z,relro")
    world.analyse(world.lib)
    world.build()
    check(laid(world.run()), "not used")
    log = world.run(MVLD_TUNABLES="direct-calls.inline=no")
    if not re.search(r"libown.so: not used: .*single instruction", log):
        check(laid(log), log)
        support.skip("the compiler made no such function")


def tunables(world):
    """What the C library's IFUNCs choose is another thing: other ready code."""
    libc = "libc.so.6"
    world.analyse(*{line.split()[2] for line in subprocess.run(
        ["ldd", world.program], capture_output=True, text=True, check=True).stdout.splitlines() if libc in line})
    world.build()
    check(laid(world.run(), libc), "not used")
    less = "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-ERMS,-AVX512VL,-EVEX,-BMI2"
    check(not laid(world.run(GLIBC_TUNABLES=less), libc), "of another choice")
    world.build(GLIBC_TUNABLES=less)
    check(len(world.files(libc)) == 2 and laid(world.run(GLIBC_TUNABLES=less), libc), "its own")


def later(world):
    """Objects of dlopen."""
    late = world.folder / "liblate.so"
    support.take(world.folder, WORLD, late.name)
    world.analyse(late)
    log = world.build(late, snapshot="run")
    check("liblate.so: written (calls to itself)" in log, log)
    log = world.run(late)
    check(laid(log) and laid(log, "liblate.so"), log)


def traced(world):
    """Somebody may have breakpoints in the code."""
    if not shutil.which("strace"):
        support.skip("no strace")
    world.build()
    check(not laid(world.run(prefix=["strace", "-f", "-o", "/dev/null"])), "used")


def off(world):
    """Written nowhere but where snapshots are, and used by no program without the pass."""
    world.run()
    check(not world.files(), "written unasked")
    world.build()
    check(not laid(world.start(MVLD="off").stderr) and not laid(world.start(config="").stderr), "used")
    folder = world.cache / "mvld" / "ready"
    noexec = world.start(prefix=["unshare", "-m", "sh", "-c", f"mount --bind {folder} {folder} && "
                                 f"mount -o remount,bind,noexec {folder} && exec \"$0\""])
    if "mount:" not in noexec.stderr and "unshare:" not in noexec.stderr:
        check(noexec.stdout == world.plain, noexec.stdout + noexec.stderr)
        check("not used: its overlay cannot be mapped" in noexec.stderr and not laid(noexec.stderr), noexec.stderr)


def multiverse(world):
    """The library has variation points, too: commits change its sites over the ready code."""
    support.need(support.PLUGIN, support.LIBRARY)
    (world.folder / "lib.c").write_text("""
__attribute__((multiverse)) _Bool fast;
int f1(int), f2(int);
__attribute__((multiverse)) int vary(int x) { return fast ? x + 100 : f1(x); }
int call_vary(int x) { return vary(x) + f2(x); }
""" + f'#include "{SOURCES}/own.c"\n')
    (world.folder / "main.c").write_text("""#include <multiverse.h>
#include <stdio.h>
extern _Bool fast;
int call_vary(int);
int main(void)
{
    int a = call_vary(1), b, c;
    fast = 1;
    multiverse_commit();
    fast = 0;
    b = call_vary(1);
    multiverse_revert();
    c = call_vary(1);
    printf("%d %d\\n", b - a == 101 - (a - c) - a + a ? 1 : b - a, a == c);
    return 0;
}
""")
    link = ["-L" + str(support.PASSES), "-lmultiverse", f"-Wl,-rpath,{support.PASSES}"]
    support.compile_c(world.lib, "-shared", "-fPIC", "-fsemantic-interposition", world.folder / "lib.c",
                      "-Wl,-z,now", "-Wl,--build-id=0xabcdef01", *link)
    support.compile_c(world.program, world.folder / "main.c", support.MAPPED, "-L" + str(world.folder), "-lown", *link,
                      "-Wl,-rpath,$ORIGIN", "-Wl,-z,now", f"-Wl,--dynamic-linker={support.LOADER}")
    world.analyse(world.lib, world.program)
    world.plain = world.start(MVLD="off").stdout
    both = {"config": CONFIG.replace("calls", "calls, multiverse"),
            "MVLD_PASS_PATH": f"{support.BUILD}/passes/direct-calls:{support.PASSES}"}
    check(not laid(world.run(**both)), "there is none yet")
    world.build(**both)
    check(laid(world.run(**both)), "not used")
    check(laid(world.run(**both, MVLD_TUNABLES="multiverse.commit=before-constructors")), "not used")


def faults(world):
    """Each system call of ours fails in turn: the program says what it says under the host loader."""
    driver = support.BUILD / "tests" / "loader" / "faults_driver"
    config = world.folder / "mvld.conf"
    config.write_text(CONFIG)
    ours = [os.path.realpath(support.LOADER), support.BUILD / "passes" / "direct-calls" / "direct-calls.so"]
    host = os.path.realpath(support.HOST_LOADER)
    env = support.clean_environment(MVLD_CONFIG=config, XDG_CACHE_HOME=world.cache,
                                    MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
    world.build()
    for mode in ([], ["-l"]):
        done = subprocess.run([driver, "-j2", *mode, *ours, "--", world.program, "--", host, "--", host,
                               world.program], env=env, capture_output=True, text=True, check=False)
        print(done.stdout)
        check(done.returncode == 0, done.stderr)


def writing(world):
    """Each system call of ours fails in turn while a snapshot and ready code are written: the program says the
    same, and what is left under its name is whole."""
    driver = support.BUILD / "tests" / "loader" / "faults_driver"
    fresh, kept = world.folder / "fresh", world.folder / "kept"
    # Without a loader, so that the driver takes none of its calls for ours.
    support.compile_c(fresh, SOURCES / "fresh.c", "-static", "-no-pie", plugin=False)
    config = world.folder / "mvld.conf"
    config.write_text(CONFIG + "on-miss = build\n")
    ours = [os.path.realpath(support.LOADER), support.BUILD / "passes" / "direct-calls" / "direct-calls.so"]
    host = os.path.realpath(support.HOST_LOADER)
    env = support.clean_environment(MVLD_CONFIG=config, XDG_CACHE_HOME=world.cache,
                                    MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
    world.build()  # the record of the CPU, too, which only the first start writes
    for mode in ([], ["-l"]):
        kept.mkdir()
        done = subprocess.run([driver, *mode, *ours, "--", fresh, world.cache / "mvld", kept, world.program,
                               "--", host, "--", host, world.program], env=env, capture_output=True, text=True,
                              check=False)
        print(done.stdout)
        check(done.returncode == 0, done.stdout + done.stderr)
        starts = int(re.search(r"(\d+) runs", done.stdout)[1])
        found = subprocess.run([MVLD, "cache", "verify", *kept.iterdir()], capture_output=True, text=True,
                               check=False).stdout
        # With .PID behind it is what nobody takes: a call that removes it has failed.
        damaged = [line for line in found.splitlines()
                   if line.startswith("damaged") and not re.search(r"\.\d+: ", line)]
        check(not damaged, "\n".join(damaged))
        ready = len(re.findall("^good .*libown.so +ready code", found, re.M))
        check(starts / 20 < ready < starts, f"{ready} of {starts} have left ready code:\n{found}")
        shutil.rmtree(kept)


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](World(scratch, "own-lazy.so" if sys.argv[1] == "lazy" else "libown.so"))
