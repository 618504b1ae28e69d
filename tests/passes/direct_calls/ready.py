# SPDX-License-Identifier: MIT
"""Ready code: an object's own calls, made direct once for all processes (rimf/ready.h).

A failure means: a process runs code of somebody else's, or that is not what the pass would have
made of its own; or it calls something else than under the host loader.

Argument: one of the functions below.
"""
import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import memory
import support
from support import check

HERE = Path(__file__).resolve().parent
MVLD = support.BUILD / "tools" / "mvld"
RESEAL = support.BUILD / "tests" / "passes" / "direct_calls" / "reseal"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
N = 40
# Each function fills a page, and calls some of the others, which could be interposed.
LIBRARY = """
#define CALL(n) int f##n(int);
%s
static int one(int x) { return x + 1; }
static int two(int x) { return x + 2; }
static int (*choose(void))(int) { __builtin_cpu_init(); return sizeof one > 99 ? two : one; }
int chosen(int) __attribute__((ifunc("choose")));
%s
"""
FUNCTION = ("__attribute__((aligned(4096))) int f%d(int x) {{ int y = x; for (int i = 0; i < 3; i++) "
            "y += chosen(x) - x; {} return y; }}\n")
MAIN = """#include <dlfcn.h>
#include <stdio.h>
int f0(int);
int main(int argc, char **argv)
{
    int (*f)(int) = f0;
    if (argc > 1) {
        void *handle = dlopen(argv[1], RTLD_NOW);
        f = handle ? (int (*)(int))dlsym(handle, "g0") : 0;
        if (!f) { puts(dlerror()); return 1; }
    }
    printf("%d %d\\n", f(1), f(2));
    return 0;
}
"""


def source():
    body = "".join(FUNCTION % n.__index__() for n in range(N))
    calls = [f"y += f{n + 1}(x + {n}) % 1000 - f{N - 1}(y % 7);" if n + 1 < N else "" for n in range(N)]
    return LIBRARY % ("".join(f"CALL({n})" for n in range(N)), body.format(*calls))


class World:
    def __init__(self, folder, *link):
        self.folder, self.cache = folder, folder / "cache"
        (folder / "lib.c").write_text(source())
        (folder / "main.c").write_text(MAIN)
        self.lib, self.program = folder / "libown.so", folder / "program"
        self.library(self.lib, *link)
        support.compile_c(self.program, folder / "main.c", "-L" + str(folder), "-lown",
                          "-Wl,-rpath,$ORIGIN", "-Wl,-z,now", f"-Wl,--dynamic-linker={support.LOADER}",
                          plugin=False)
        self.plain = support.run([self.program], MVLD="off").stdout
        check(self.plain.count(" ") == 1, f"the program says '{self.plain}'")
        self.analyse(self.lib, self.program)

    def library(self, path, *more):
        support.compile_c(path, "-shared", "-fPIC", "-fsemantic-interposition", self.folder / "lib.c",
                          "-Wl,--build-id=0xabcdef01", *(more or ["-Wl,-z,now", "-Wl,-z,relro"]), plugin=False)

    def analyse(self, *objects):
        done = support.run([MVLD, "analyze", "--output", self.cache / "mvld" / "analysis", *objects])
        check(done.returncode == 0, done.stdout + done.stderr)

    def start(self, *arguments, prefix=(), program=None, **more):
        more = {"config": CONFIG, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls",
                "MVLD_DEBUG": "passes", "XDG_CACHE_HOME": self.cache, **more}
        return support.run([*prefix, program or self.program, *arguments], **more)

    def build(self, *arguments, freeze="1", **more):
        """Ready code is written where an image is; which goes again."""
        done = self.start(*arguments, MVLD_FREEZE=freeze, **more)
        check(done.returncode == 0, done.stdout + done.stderr)
        shutil.rmtree(self.cache / "mvld" / "images")
        return done.stderr

    def run(self, *arguments, says=None, **more):
        done = self.start(*arguments, **more)
        check((done.returncode, done.stdout) == (0, says or self.plain),
              f"{done.returncode} '{done.stdout}'\n{done.stderr}")
        return done.stderr

    def files(self, name="libown.so"):
        return sorted((self.cache / "mvld" / "ready").glob("*-" + name))

    def one(self):
        files = self.files()
        check(len(files) == 1, f"{files}: not one")
        return files[0]


def laid(log, name="libown.so"):
    return bool(re.search(rf"ready code of [^\n]*{re.escape(name)}: laid over", log))


def refused(log, why):
    check(not laid(log), f"used in spite of '{why}':\n{log}")
    check(re.search(rf"ready code of [^\n]*libown.so: not used: [^\n]*{why}", log), f"no '{why}' in\n{log}")


def same(world):
    """Memory is what it is without ready code, byte for byte; and nothing of it is the process's
    own."""
    dump = world.folder / "dump.so"
    support.compile_c(dump, "-shared", "-fPIC", HERE / "dump.c", plugin=False)
    if ctypes.CDLL(None).personality(0x40000) < 0:  # ADDR_NO_RANDOMIZE, for what is started from here
        support.skip("addresses cannot be fixed")
    libc = next(Path(line.split()[2]) for line in subprocess.run(
        ["ldd", world.program], capture_output=True, text=True, check=True).stdout.splitlines() if "libc.so" in line)
    world.analyse(libc.resolve())

    def code():
        objects, log = memory.take(world.program, config=CONFIG, dump=dump, folder=world.folder,
                                   XDG_CACHE_HOME=world.cache, LD_BIND_NOW=1,
                                   MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls")
        n = memory.check_targets(objects)
        sites = re.findall(r"(\S+): (\d+ of \d+) sites made direct", log)
        return {o.name: [data for _, data, flags in o.loads if flags & 1]
                for o in memory.of_files(objects)}, n, sites, log

    way = {"LD_PRELOAD": dump, "LD_BIND_NOW": 1}
    before, n, sites, log = code()
    check(n > 100 and not laid(log), log)
    log = world.build(**way)
    check("libown.so: written" in log and "libc.so.6: written" in log, log)
    after, m, again, log = code()
    check(laid(log) and laid(log, "libc.so.6"), log)
    check((n, sites) == (m, again), f"{n} {m}\n{sites}\n{again}")
    check(before == after, "code differs: " + " ".join(name for name in before if before[name] != after[name]))
    check(re.search(r"libown.so: \d+ of \d+ sites made direct, 0 pages made private", log), log)
    check("not written" not in world.build(**way) and "written: " not in world.build(**way),
          "written again")


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


def reseal(world, file, field="nothing", value=0):
    done = subprocess.run([RESEAL, file, str(world.lib.stat().st_size), field, str(value)], check=False)
    check(done.returncode == 0, f"reseal {field}")


def damage(world):
    """Each byte of the tables flipped, cut short, longer; fields that are wrong with checksums that
    fit."""
    world.build()
    file = world.one()
    whole = file.read_bytes()
    begin = -(-world.lib.stat().st_size // 4096) * 4096
    check(whole[begin:begin + 8] == b"MVLDredy", "where are the tables")

    def put(data):
        file.write_bytes(data)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    times = file.stat()
    put(whole)
    check(laid(world.run()), "as it was")
    for at in range(begin, len(whole), max(1, (len(whole) - begin) // 60)):
        put(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        refused(world.run(), "")
    for n in (0, 1, begin - 1, begin, begin + 8, begin + 151, begin + 152, len(whole) - 1):
        put(whole[:n])
        refused(world.run(), "it is")
    put(whole + bytes(8))
    refused(world.run(), "cut short, or longer")
    file.write_bytes(whole)
    refused(world.run(), "changed after it was written")
    for field, why in (("slot0", "a call leads elsewhere|leads to no code"), ("rest0", ""), ("made_by", "another mvld"),
                       ("build_id", "another file"), ("file_inode", "another file"), ("text0", "")):
        put(whole)
        reseal(world, file, field, 4096 if field == "text0" else 1)
        log = world.run()
        if field != "rest0":
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
    new = world.folder / "new.so"
    was = world.lib.stat()
    text = source().replace("return x + 1", "return x + 3")
    (world.folder / "lib.c").write_text(text)
    world.library(new)
    data = new.read_bytes()
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
    check(re.search(r"good  .*libown.so  ready code, .* calls through \d+ slots\n", ask("list")), ask("list"))
    check("good  " in ask("verify") and "removed" not in ask("prune"), "a good one")
    times, whole = file.stat(), file.read_bytes()
    file.write_bytes(whole[:0x2000] + b"\xcc" + whole[0x2001:])
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    check("not what was written" in ask("verify", code=1), "code that was changed")
    left = folder / f".{file.name}.999999999"
    left.write_bytes(whole[:5000])
    mine = folder / f".{file.name}.{os.getpid()}"
    mine.write_bytes(whole[:5000])
    out = ask("prune")
    check(str(file) in out and str(left) in out and not file.exists() and not left.exists() and mine.exists(), out)
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
    (world.folder / "lib.c").write_text(source() + "__attribute__((noinline, noclone, visibility(\"hidden\"))) "
                                        "int always(void) { __asm__(\"\"); return 7; }\n"
                                        "int f(void) { return always() + always(); }\n")
    world.library(world.lib)
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
    (world.folder / "lib.c").write_text(re.sub(r"\bf(##|\d)", r"g\1", source()).replace("chosen", "taken"))
    world.library(late, "-Wl,-z,now", "-Wl,--build-id=0xabcdef02")
    world.analyse(late)
    log = world.build(late, freeze="run")
    check("liblate.so: written" in log, log)
    log = world.run(late)
    check(laid(log) and laid(log, "liblate.so"), log)


def traced(world):
    """Somebody may have breakpoints in the code."""
    if not shutil.which("strace"):
        support.skip("no strace")
    world.build()
    check(not laid(world.run(prefix=["strace", "-f", "-o", "/dev/null"])), "used")


def off(world):
    """Written nowhere but where images are, and used by no program without the pass."""
    world.run()
    check(not world.files(), "written unasked")
    world.build()
    check(not laid(world.start(MVLD="off").stderr) and not laid(world.start(config="").stderr), "used")
    folder = world.cache / "mvld" / "ready"
    noexec = world.start(prefix=["unshare", "-m", "sh", "-c", f"mount --bind {folder} {folder} && "
                                 f"mount -o remount,bind,noexec {folder} && exec \"$0\""])
    if "mount:" not in noexec.stderr and "unshare:" not in noexec.stderr:
        check(noexec.stdout == world.plain, noexec.stdout + noexec.stderr)
        refused(noexec.stderr, "it cannot be mapped")


def multiverse(world):
    """The library has variation points, too: commits change its sites over the ready code."""
    support.need(support.PLUGIN, support.LIBRARY)
    (world.folder / "lib.c").write_text("""
__attribute__((multiverse)) _Bool fast;
int f1(int), f2(int);
__attribute__((multiverse)) int vary(int x) { return fast ? x + 100 : f1(x); }
int call_vary(int x) { return vary(x) + f2(x); }
""" + source())
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
    support.compile_c(world.program, world.folder / "main.c", "-L" + str(world.folder), "-lown", *link,
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


with support.scratch_folder() as scratch:
    globals()[sys.argv[1]](World(scratch, *(["-Wl,-z,lazy"] if sys.argv[1] == "lazy" else [])))
