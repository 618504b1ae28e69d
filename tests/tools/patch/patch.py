#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`mvld patch`: functions of a library are replaced in processes that run, for all who call them, and are what they
were again; what cannot be replaced safely is refused, and then nothing has changed.

    patch.py MVLD LD_MVLD PASSES KILLED.so BEHAVIOUR        PASSES: folders, a colon between them
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from support import ENV, check, compile_file, equal, finish, meanwhile, run, scratch, skip  # noqa: E402

MVLD, LD_MVLD = map(os.path.abspath, sys.argv[1:3])
PASSES, KILLED = sys.argv[3], os.path.abspath(sys.argv[4])
PRIVATE = ["unshare", "--mount", "--propagation", "private", "--"]
AT_BASE = 7
LIBRARY = f"lib{sys.argv[5]}.so"
# value through the PLT, inside of its library, by two pointers; and second.
OLD, NEW, BOTH = "4 104 4 4 7", "1001 1101 1001 1001 7", "1001 1101 1001 1001 2001"


class Program:
    def __init__(self, *command, env=None):
        self.p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=dict(ENV, **(env or {})))
        equal(self.p.stdout.readline(), "ready\n", f"{command}: its first line")

    def ask(self, line=""):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        equal((self.p.stdout.read(), self.p.wait(20)), ("whole\n", 0), "its end")

    def patch(self, *arguments, **more):
        """Again where the machine was too busy for the tool."""
        for _ in range(5):
            done = run(MVLD, "patch", "-p", self.p.pid, *arguments, **more)
            if not any(words in done[2] for words in ("too busy", "waited for", "for a processor")):
                break
        return done

    def listed(self):
        code, out, err = self.patch("--json")
        equal((code, err), (0, ""), "the list")
        return [(p["function"], p["with"], p["in_force"]) for p in json.loads(out)]

    def refuses(self, what, *arguments):
        before, listed = self.ask(), self.listed()
        code, out, err = self.patch(*arguments)
        check(code == 1 and what in err and not out, f"{arguments}: {code} {out} {err}")
        equal((self.ask(), self.listed()), (before, listed), f"{arguments}: nothing has changed")


class World:
    def __init__(self, folder):
        self.folder = folder
        # --all would reach other tests' processes.
        self.library, self.other, self.program = folder / f"lib{sys.argv[5]}.so.1", folder / "other.so", folder / "calls"
        self.library_of(self.library)
        compile_file(self.other, "-O2", "-fPIC", "-shared", HERE / "other.c")
        compile_file(self.program, "-O2", "-D_GNU_SOURCE", HERE / "calls.c", self.library, "-pthread", f"-Wl,-rpath,{folder}")

    @staticmethod
    def library_of(path, *options):
        compile_file(path, "-O2", "-fPIC", "-shared", f"-Wl,-soname,lib{sys.argv[5]}.so.1", "-Wl,--build-id", HERE / "some.c", *options)

    def replace(self, name="value", with_="value"):
        return "--replace", f"{LIBRARY}:{name}={self.other}:{with_}"


UNDO = "--undo", f"{LIBRARY}:value"


def walk(world, program):
    """Everything that the manual says, once."""
    equal(program.ask(), OLD, "as it was started")
    equal(program.patch()[0], 0, "the empty list")
    code, out, err = program.patch(*world.replace())
    equal((code, err), (0, ""), f"replace: {out}")
    equal((program.ask(), program.listed()), (NEW, [("value", "value", True)]), "replaced")
    equal(program.ask("fork"), NEW, "in a child")
    program.refuses(f"is replaced already, by value of {world.other}: --undo {LIBRARY}:value first",
                    "--replace", f"{world.library}:value={world.other}:value")
    program.refuses("not in the list", "--undo", f"{world.library}:value")
    program.refuses("is replaced already", *world.replace("second", "second"), *world.replace())
    equal(program.patch(*world.replace("second", "second"))[0], 0, "another one")
    equal(program.ask(), BOTH, "both")
    equal(program.patch(*UNDO, "--undo", f"{LIBRARY}:second")[0], 0, "undo")
    equal((program.ask(), program.listed()), (OLD, []), "undone")
    program.refuses("not in the list", *UNDO)
    equal(program.patch(*world.replace(), *world.replace("second", "second"))[0], 0, "both at once")
    equal(program.ask(), BOTH, "both at once")
    program.end()


def plain(world):
    walk(world, Program(world.program))


def under_mvld(world):
    """Moved code is replaced where it runs: in the process, from a snapshot, and where the loader was run."""
    env = {"MVLD_PASS_PATH": PASSES, "XDG_CACHE_HOME": str(world.folder / "cache"), "MVLD_CONFIG": str(world.folder / "conf")}
    (world.folder / "conf").write_text("[app]\nmatch = *\npasses = direct-calls, concat\n[concat]\ncopy = always\n")
    code, out, err = run(MVLD, "analyze", "--program", world.program, env=env)
    equal(code, 0, f"analyze: {out}{err}")
    for way in ((), ("--direct",)):
        command = [MVLD, "run", "--loader", LD_MVLD, *way, world.program]
        program = Program(*command, env=env)
        equal(program.ask(), OLD, "under mvld")
        check(any(name in Path(f"/proc/{program.p.pid}/maps").read_text() for name in ("libconcat", "concat.so")), "concat")
        walk(world, program)
        code, out, err = run(MVLD, "build", "--loader", LD_MVLD, world.program, env=env)
        equal(code, 0, f"build: {out}{err}")
        walk(world, Program(*command, env=env))


def closing(world):
    """A library whose code moved is being closed: its own code is gone before mvld in the process hears of it."""
    env = {"MVLD_PASS_PATH": PASSES, "XDG_CACHE_HOME": str(world.folder / "cache"), "MVLD_CONFIG": str(world.folder / "conf")}
    (world.folder / "conf").write_text("[app]\nmatch = *\npasses = direct-calls, concat\n[concat]\ncopy = always\n")
    equal(run(MVLD, "analyze", "--program", world.program, env=env)[0], 0, "analyze")
    program = Program(MVLD, "run", "--loader", LD_MVLD, world.program, env=env)
    for line in Path(f"/proc/{program.p.pid}/maps").read_text().splitlines():
        if world.library.name in line and "r-xp" in line:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            equal(program.ask(f"unmap 0x{start:x} {end - start}"), "unmapped", line)
    code, out, err = program.patch(*world.replace())
    check(code == 1 and "its code cannot be read" in err, f"{code} {out} {err}")
    equal(program.listed(), [], "it runs on")
    program.p.kill()


def threads(world):
    program = Program(world.program, 8)
    for _ in range(5):
        equal(program.patch(*world.replace())[::2], (0, ""), "replace")
        equal(program.ask(), NEW, "replaced")
        equal(program.patch(*UNDO)[::2], (0, ""), "undo")
        equal(program.ask(), OLD, "undone")
    program.end()


def refused(world):
    program = Program(world.program)
    for name, why in (("tiny", "shorter than a jump"), ("looping", "goes back to its first instructions"),
                      ("entered", "leads to its first bytes"), ("tabled", "leads to its first bytes"),
                      ("worded", "leads to its first bytes"), ("over", "leads to its first bytes"),
                      ("under", "leads to its first bytes"), ("crossing", "lie on two pages"), ("returned", "returns to them"), ("chosen", "an IFUNC"),
                      ("none", "no such function")):
        program.refuses(why, *world.replace("second", "second"), *world.replace(name))
    # Numbers that look like branches into a function do not keep it.
    equal(program.patch(*world.replace("chanced"))[::2], (0, ""), "nothing leads to its first bytes")
    equal(program.patch("--undo", f"{LIBRARY}:chanced")[0], 0, "undo")
    fixed = compile_file(world.folder / "fixed", "-O2", "-D_GNU_SOURCE", "-no-pie", HERE / "calls.c", HERE / "some.c", "-pthread")
    unmoved = Program(fixed)
    code, out, err = unmoved.patch("--replace", f"fixed:worded={world.other}:value")
    check(code == 1 and "leads to its first bytes" in err, f"a pointer that is not relocated: {code} {out} {err}")
    equal(unmoved.patch("--replace", f"fixed:value={world.other}:value")[::2], (0, ""), "no pointer leads there")
    unmoved.end()
    program.refuses("undefined symbol", *world.replace("second", "second"), *world.replace("value", "none"))
    program.refuses("is no function", *world.replace("second", "second"), *world.replace("value", "datum"))
    program.refuses("is no function", *world.replace("value", "own_datum"))
    program.refuses("by itself", "--replace", f"{LIBRARY}:value={world.library}:value")
    program.refuses("regular file", "--replace", f"{LIBRARY}:value={world.folder}:value")
    os.mkfifo(world.folder / "fifo") # a process would wait there for ever
    program.refuses("regular file", "--replace", f"{LIBRARY}:value={world.folder / 'fifo'}:value")
    program.refuses("there is no libnone.so", "--replace", f"libnone.so:value={world.other}:value")
    program.refuses("another build-id", "--build-id", "00" * 20, *world.replace())
    text = world.folder / "text"
    text.write_text("no library")
    program.refuses("text", "--replace", f"{LIBRARY}:value={text}:value")
    notes = subprocess.run(["readelf", "-n", world.library], capture_output=True, text=True, timeout=60).stdout
    identity = notes.split("Build ID:")[1].split()[0]
    equal(program.patch("--build-id", identity, *world.replace())[0], 0, "the right build-id")
    program.refuses("named twice", *UNDO, *UNDO)
    # One by the other, and that by the one: at two times, at one, and by a third.
    back = "--replace", f"other.so:value={world.library}:value"
    program.refuses("neither would end", *world.replace("second", "second"), *back)
    equal(program.patch(*UNDO)[0], 0, "undo")
    program.refuses("neither would end", *world.replace(), *back)
    equal(program.patch("--replace", f"other.so:second={world.library}:value", *world.replace())[0], 0, "no circle yet")
    equal(program.ask(), NEW, "no circle yet")
    program.refuses("neither would end", "--replace", f"other.so:value={world.other}:second")
    equal(program.patch(*UNDO, "--undo", "other.so:second")[0], 0, "undo")
    if not subprocess.run([*PRIVATE, "true"], capture_output=True).returncode: # where its file is another one
        away = world.folder / "away.so"
        shutil.copy(world.other, away)
        private = Program(*PRIVATE, "sh", "-c", 'mount --bind "$1" "$2"; exec "$3"', "sh", away, world.other, world.program)
        private.refuses("sees another file as", *world.replace())
        equal(private.patch("--replace", f"{LIBRARY}:value={away}:value")[0], 0, "the file that both see")
        private.end()
    # An upgrade: the name is another build's, whose functions lie elsewhere.
    world.library_of(world.folder / "new", "-DAPI=__attribute__((noinline,noclone,aligned(4096)))")
    os.replace(world.folder / "new", world.library)
    program.refuses(f"{world.library}: it is another build than the one that runs", *world.replace())
    code, out, err = run(MVLD, "patch", "--all", "--replace", f"{LIBRARY}.1:value={world.other}:value")
    check(code == 1 and "another build than the one that runs" in err, f"--all passes it over: {code} {out} {err}")
    program.end()
    for arguments in (["-p", "1x"], [], ["-p", "1", "--replace", "a=b"], ["-p", "1", "--undo", "a"], ["-p", "1", "x"],
                      ["-p", "1", "--build-id", "00"]):
        equal(run(MVLD, "patch", *arguments)[0], 2, f"usage: {arguments}")


def standing(world):
    """A thread is in a signal's handler, which came in the middle of what is to be written."""
    program = Program(world.program)
    equal(program.ask("fault"), "in the handler", "the fault")
    code, out, err = program.patch("--replace", f"{LIBRARY}:faults={world.other}:value")
    check(code == 1 and "stands where code is to be written" in err, f"it stands there: {code} {out} {err}")
    equal((program.ask(), program.listed()), ("7", []), "the handler returns")
    equal(program.patch("--replace", f"{LIBRARY}:faults={world.other}:value")[0], 0, "nobody stands there")
    equal(program.ask("fault"), "1000", "replaced")
    program.end()


def writing(world):
    """A thread is in our loader, which may be changing the same code; the loader has the name of the machine's, or its own."""
    for way in "--children", None:
        program = Program(MVLD, "run", "--loader", LD_MVLD, *[way] * bool(way), world.program)
        process = Path(f"/proc/{program.p.pid}")
        base = f"{dict(struct.iter_unpack('<QQ', (process / 'auxv').read_bytes()))[AT_BASE]:x}"
        loader, = (line for line in (process / "maps").read_text().splitlines() if line.startswith(base + "-"))
        equal(program.ask(f"loader 0x{base}"), "waits there", loader)
        if way and loader.endswith(Path(LD_MVLD).name):
            skip("run --children has no namespace here")
        code, out, err = program.patch(*world.replace())
        check(code == 1 and "stands where code is to be written" in err, f"in {loader}: {code} {out} {err}")
        program.p.kill()


def every(world):
    """--all; and a process that is gone, one without dlopen, a library that is closed."""
    programs = [Program(world.program) for _ in range(3)]
    equal(run(MVLD, "patch", "--all", *world.replace())[0], 0, "--all")
    equal([p.ask() for p in programs], [NEW] * 3, "all")
    equal(programs[0].patch("-p", programs[0].p.pid, *world.replace("second", "second"))[0], 0, "named twice, it is visited once")
    equal(run(MVLD, "patch", "--all", "--undo", f"{LIBRARY}:second")[0], 0, "undo of one")
    code, out, _ = run(MVLD, "patch", "--all", "--json")
    equal({p["pid"] for p in json.loads(out)} >= {p.p.pid for p in programs}, True, f"the list of all: {code}")
    equal(run(MVLD, "patch", "--all", *UNDO)[0], 0, "--all --undo")
    equal([p.ask() for p in programs], [OLD] * 3, "all are as they were")
    code, out, err = meanwhile(programs[0].p.pid, programs[2].end, MVLD, "patch", "--all", *world.replace())
    equal((code, err, programs[1].ask()), (0, "", NEW), f"one has ended meanwhile: {out}")
    for p in programs[:2]:
        p.end()
    linked = world.folder / "linked"
    linked.mkdir()
    world.library_of(linked / "of-another-name")
    (linked / world.library.name).symlink_to("of-another-name")
    program = Program(world.program, env={"LD_LIBRARY_PATH": str(linked)})
    equal((run(MVLD, "patch", "--all", *world.replace())[0], program.ask()), (0, NEW), "a library by its link's name")
    program.end()
    program = Program("env", "-C", world.folder, "LD_LIBRARY_PATH=linked", world.program)
    equal((program.patch(*world.replace())[::2], program.ask()), ((0, ""), NEW), "by a name relative to a folder")
    program.end()
    equal(run(MVLD, "patch", "--all", *world.replace())[0], 1, "no process has the library")
    static = compile_file(world.folder / "static", "-O2", "-D_GNU_SOURCE", "-static", HERE / "calls.c", HERE / "some.c", "-pthread")
    program = Program(static)
    code, _, err = program.patch("--replace", f"static:value={world.other}:value")
    check(code == 1 and "dlopen" in err, f"a static program: {err}")
    program.end()


def killed(world):
    """The tool is killed at each call with which it changes the process."""
    program = Program(world.program, 1)
    died = 0
    for n in range(1, 1000):
        tool = subprocess.run([MVLD, "patch", "-p", str(program.p.pid), *world.replace()], timeout=60, text=True,
                              env=dict(ENV, LD_PRELOAD=KILLED, KILLED_AT=str(n)), capture_output=True)
        if tool.returncode != -signal.SIGKILL:
            equal((tool.returncode, tool.stderr), (0, ""), "the tool that was not killed")
            break
        died += 1
        said = program.ask()
        check(said in (OLD, NEW), f"killed at call {n}: {said}")
        if said == NEW:
            equal(program.patch(*UNDO)[::2], (0, ""), f"killed at call {n}: undo")
            equal(program.ask(), OLD, f"killed at call {n}: undone")
    check(20 < died < 500, f"the tool was killed at {died} calls")
    equal(program.ask(), NEW, "replaced at last")
    program.end()


def ended(world):
    """The command is killed whenever its child changes the process: that finishes it, and no thread notices."""
    program = Program(world.program, 1, "epoll")
    maps, replaced = Path(f"/proc/{program.p.pid}/maps"), 0
    regions = lambda: [line for line in maps.read_text().splitlines() if "x" in line.split()[1] and len(line.split()) == 5]
    for n in range(1, 1000):
        tool = subprocess.run([MVLD, "patch", "-p", str(program.p.pid), *world.replace()], timeout=60, text=True,
                              env=dict(ENV, LD_PRELOAD=KILLED, KILLED_AT=str(n), KILLS_PARENT="1"), capture_output=True)
        if tool.returncode != -signal.SIGKILL:
            equal((tool.returncode, tool.stderr), (0, ""), "the command that was not killed")
            break
        said = program.ask()
        check(said in (OLD, NEW), f"killed at call {n}: {said}")
        if said == NEW:
            replaced += 1
            equal(program.patch(*UNDO)[::2], (0, ""), f"killed at call {n}: undo")
        equal((program.ask(), regions()), (OLD, []), f"killed at call {n}: nothing is left")
    check(n - 5 < replaced < 500, f"killed at {n - 1} calls, of which {replaced} were finished")
    equal(program.patch(*UNDO)[0], 0, "undo")
    program.end()


SEVERAL = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int (*values[2])(int);
    for (int i = 0; i < 2; i++)
        values[i] = (int (*)(int))dlsym(dlopen(argv[argc - 2 + i], RTLD_NOW), "value");
    puts("ready");
    do {
        fflush(stdout);
        if (getchar() == EOF)
            return puts("whole") < 0;
    } while (printf("%d %d\\n", values[0](1), values[1](1)) > 0);
}
"""


def several(world):
    """Two libraries have one name: the path says which; and whole names go before names without a version."""
    folder, names = world.folder, ("one/many.so", "other/many.so", "some.so.2", "some.so")
    (folder / "several.c").write_text(SEVERAL)
    program = compile_file(folder / "several", "-O2", folder / "several.c", "-ldl")
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        compile_file(folder / name, "-O2", "-fPIC", "-shared", HERE / "some.c")
    for first, second, wanted in ((*names[:2], str(folder / names[1])), (*names[2:], names[3])):
        one = Program(program, folder / first, folder / second)
        if wanted != names[3]:
            code, out, err = one.patch("--replace", f"many.so:value={world.other}:value")
            check(code == 1 and f"say which, as {folder / first}" in err, f"two of one name: {code} {out} {err}")
        equal(one.ask(), "4 4", "as it was started")
        equal(one.patch("--replace", f"{wanted}:value={world.other}:value")[::2], (0, ""), wanted)
        equal(one.ask(), "4 1001", f"{wanted}: the second one")
        equal(one.patch("--undo", f"{wanted}:value")[::2], (0, ""), f"{wanted}: undo")
        equal(one.ask(), "4 4", f"{wanted}: undone")
        one.end()


EXECUTES = """
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static char **arguments;
static void *waits(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}
static void *executes(void *nothing)
{
    usleep(1000 + getpid() % 7 * 1000 + clock() % 7 * 3000);
    execl("/proc/self/exe", arguments[0], NULL);
    return nothing;
}
int main(int argc, char **argv)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    pthread_t thread;
    arguments = argv;
    if (poll(&input, 1, 0) == 1)
        return puts("whole") < 0;
    for (int i = 0; i < 100; i++)
        pthread_create(&thread, NULL, i ? waits : executes, NULL);
    waits(NULL);
}
"""


def executing(world):
    """A thread executes another program, and waits for the ends of all others, of which the tool traces some."""
    (world.folder / "executes.c").write_text(EXECUTES)
    program = compile_file(world.folder / "executes", "-O2", world.folder / "executes.c", "-pthread")
    for way in ([], [MVLD, "run", "--loader", LD_MVLD, "--"]):
        p = subprocess.Popen([*map(str, way), str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV)
        said = {run(MVLD, "patch", "-p", p.pid, "--replace", f"libc.so.6:strverscmp={world.other}:value")[0] for _ in range(60)}
        check(said <= {0, 1}, f"patch says {said}")
        equal((*p.communicate(timeout=20), p.returncode), ("whole\n", None, 0), "executed again and again")


def stray(world):
    """A thread that did not stop when it was tried is traced still when all are stopped."""
    program = Program(world.program)
    for how, after in (world.replace(), NEW), (UNDO, OLD):
        equal(program.patch(*how, env={"LD_PRELOAD": KILLED, "STRAY": "1"})[::2], (0, ""), f"{how}")
        equal(program.ask(), after, f"{how}")
    program.end()


def unlisted(world):
    """A thread that the kernel leaves out of its list, because another one ends, is stopped like the others."""
    program = Program(world.program, 1)
    busy = max(int(thread.name) for thread in Path(f"/proc/{program.p.pid}/task").iterdir())
    for n in range(1, 9):
        env = {"LD_PRELOAD": KILLED, "UNLISTED": f"{busy}:{n}"}
        for how, after in (world.replace(), NEW), (UNDO, OLD):
            equal(program.patch(*how, env=env)[::2], (0, ""), f"{how}, missing in {n} lists")
            equal(program.ask(), after, f"{how}, missing in {n} lists")
    program.end()


def starved(world):
    """Threads that stop too late have been asked to: they are let go when they do, and their calls do not fail."""
    program = Program(world.program, 0, "epoll")
    for _ in range(3):
        code, out, err = run(MVLD, "patch", "-p", program.p.pid, *world.replace(), env={"LD_PRELOAD": KILLED, "STARVED": "1"})
        check(code == 1 and "does not stop" in err, f"{code} {out} {err}")
        equal(program.ask(), OLD, "as it was")
    equal(program.patch(*world.replace())[::2], (0, ""), "replace")
    equal(program.ask(), NEW, "replaced")
    program.end()


def ring(world):
    """Workers of io_uring's are threads of the process that run none of its code: one that is stopped loses its request."""
    os.mkfifo(world.folder / "fifo")
    command = [compile_file(world.folder / "ring", "-O2", "-D_GNU_SOURCE", HERE / "ring.c", world.library,
                            f"-Wl,-rpath,{world.folder}"), world.folder / "fifo"]
    if subprocess.run(command, input="", capture_output=True, text=True).stdout == "none\n":
        skip("there is no io_uring")
    program = Program(*command)
    workers = lambda: [task for task in Path(f"/proc/{program.p.pid}/task").iterdir() if "iou-wrk" in (task / "comm").read_text()]
    for _ in range(100):
        if workers():
            break
        time.sleep(0.01)
    check(workers(), "a worker waits")
    equal(program.patch(*world.replace())[::2], (0, ""), "replace")
    equal(program.ask(), "1001", "replaced")
    equal(program.patch(*UNDO)[::2], (0, ""), "undo")
    equal(program.ask(), "4", "undone")
    program.end()


VERSIONED = """
static __attribute__((noinline, used)) int twice(int n) { return n * 7 + 3; }
int old_value(int n) { return n * 3 + 1; }
int new_value(int n) { return n * 5 + 1; }
__asm__(".symver old_value, value@V1\\n.symver new_value, value@@V2");
"""
USES_VERSIONS = """
#include <stdio.h>
int value(int), old_value(int);
__asm__(".symver old_value, value@V1");
int main(void)
{
    puts("ready");
    do {
        fflush(stdout);
        if (getchar() == EOF)
            return puts("whole") < 0;
    } while (printf("%d %d\\n", old_value(1), value(1)) > 0);
}
"""


def versions(world):
    """A name of several versions is that of the default one; NAME@VERSION is any."""
    folder, library = world.folder, world.folder / "libversioned.so"
    for name, text in (("versioned.c", VERSIONED), ("more.c", VERSIONED.split("int old_value")[0]), ("uses.c", USES_VERSIONS),
                       ("script", "V1 { global: value; local: old_value; new_value; };\nV2 { } V1;\n")):
        (folder / name).write_text(text)
    compile_file(library, "-O2", "-fPIC", "-shared", f"-Wl,--version-script={folder}/script", folder / "versioned.c", folder / "more.c")
    program = Program(compile_file(folder / "uses", "-O2", folder / "uses.c", library, f"-Wl,-rpath,{folder}"))
    equal(program.ask(), "4 6", "as it was started")
    for name, replaced in (("value", "4 1001"), ("value@V1", "1001 6"), ("value@@V2", "4 1001"), ("value@V2", "4 1001")):
        equal(program.patch("--replace", f"libversioned.so:{name}={world.other}:value")[::2], (0, ""), name)
        equal((program.ask(), program.listed()), (replaced, [(name, "value", True)]), name)
        equal(program.patch("--undo", f"libversioned.so:{name}")[::2], (0, ""), f"{name}: undo")
        equal(program.ask(), "4 6", f"{name}: undone")
    for name, why in (("value@V3", "no such function"), ("twice", "several functions have this name"), ("twice@V1", "no such function")):
        program.refuses(why, "--replace", f"libversioned.so:{name}={world.other}:value")
    program.end()


with scratch() as scratch_folder:
    globals()[sys.argv[5]](World(Path(scratch_folder)))
finish()
