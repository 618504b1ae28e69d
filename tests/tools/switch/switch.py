#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`mvld switch` lists, sets and commits the switches of a program that runs: one that has libmultiverse, one
that has none, a static one, one under mvld; and changes nothing when a part of the request is wrong.

    switch.py MVLD LD_MVLD GCC PLUGIN LIBRARY BEHAVIOUR
"""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import ENV, check, compile_file, equal, finish, meanwhile, run, scratch  # noqa: E402

MVLD, LD_MVLD, GCC, PLUGIN, LIBRARY = map(os.path.abspath, sys.argv[1:6])

# It says on each line of input what step() says; sum() is computed by four threads all the time, and checked.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define MULTIVERSE __attribute__((multiverse))
MULTIVERSE _Bool fast;
MULTIVERSE int level = 3;
MULTIVERSE static signed char depth = -1;
enum mode { OFF, SLOW = 5 };
MULTIVERSE enum mode mode;
MULTIVERSE __attribute__((noinline)) int step(int n) { return fast ? n + 1000 : n + level; }
MULTIVERSE __attribute__((noinline)) int deep(void) { return mode == SLOW ? depth * 2 : depth; }
static void *work(void *nothing)
{
    for (;;) {
        int n = step(1);
        if (n != 1001 && (n < -9 || n > 11)) { printf("wrong: %d\n", n); exit(1); }
    }
    return nothing;
}
int main(void)
{
    pthread_t thread;
    char line[100];
    for (int i = 0; i < 2; i++) pthread_create(&thread, NULL, work, NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) { printf("%d %d\n", step(1), deep()); fflush(stdout); }
    puts("whole");
    exit(0);
}
"""


class Program:
    def __init__(self, *command, env=None):
        self.p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=dict(ENV, **(env or {})))
        equal(self.p.stdout.readline(), "ready\n", f"{command}: its first line")

    def ask(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        equal((self.p.stdout.read(), self.p.wait(20)), ("whole\n", 0), "its end")


def switch(program, *arguments):
    return run(MVLD, "switch", "-p", program.p.pid, *arguments)


def values(program):
    code, out, err = switch(program, "--json")
    equal((code, err), (0, ""), "list")
    return {s["name"]: s["value"] for s in json.loads(out)[0]["switches"]}


def build(folder, name, *options):
    (folder / "source.c").write_text(SOURCE)
    subprocess.run([GCC, "-O2", f"-fplugin={PLUGIN}", "-o", folder / name, folder / "source.c", "-pthread", *options],
                   check=True, timeout=60)
    return folder / name


def walk(program):
    """Everything that the manual says, once."""
    equal(program.ask(), "4 -1", "as it was started")
    equal(values(program), {"fast": "0", "level": "3", "depth": "-1", "mode": "0"}, "values")
    code, out, err = switch(program, "fast=true")
    equal((code, err), (0, ""), f"fast=true: {out}")
    equal(program.ask(), "1001 -1", "fast")
    code, out, _ = switch(program, "--json")
    functions = {f["name"]: f for f in json.loads(out)[0]["functions"]}
    check(functions["step"]["active"] and not functions["deep"]["active"], f"step alone is bound: {functions}")
    equal(sorted(functions["step"]["switches"]), ["fast", "level"], "what step asks")
    equal(switch(program, "fast=0", "level=-10", "d*=-7")[0], 0, "several at once, one a pattern")
    equal(program.ask(), "-9 -7", "several at once")
    equal(switch(program, "fast=1")[0], 0, "fast=1")
    equal(switch(program, "--keep", "fast=0")[0], 0, "--keep")
    equal((program.ask(), values(program)["fast"]), ("1001 -7", "0"), "a value alone")
    equal(switch(program, "--commit")[0], 0, "--commit")
    equal(program.ask(), "-9 -7", "everything is committed")
    equal(switch(program, "--revert")[0], 0, "--revert")
    equal(switch(program, "--keep", "mode=5")[0], 0, "--keep")
    equal(program.ask(), "-9 -14", "what is reverted looks at its switches")


def plain(folder):
    program = Program(build(folder, "plain"))
    walk(program)  # the library came by itself
    check("libmultiverse" in Path(f"/proc/{program.p.pid}/maps").read_text(), "the library")
    program.end()


def linked(folder):
    where = Path(LIBRARY).parent
    program = Program(build(folder, "linked", "-Wl,--no-as-needed", f"-L{where}", "-lmultiverse", f"-Wl,-rpath,{where}"))
    walk(program)
    program.end()


def library(folder):
    """A library that has switches: its file is gone, or another one, by now; or it was linked to an address."""
    (folder / "library.c").write_text("__attribute__((multiverse)) int fast;\n"
                                      "__attribute__((multiverse, noinline)) int step(int n) { return fast ? n + 1000 : n; }\n")
    (folder / "main.c").write_text('#include <stdio.h>\nint step(int);\nint main(void)\n{\n    char line[9];\n    puts("ready");\n'
                                   '    fflush(stdout);\n    while (fgets(line, sizeof line, stdin)) { printf("%d\\n", step(1));'
                                   ' fflush(stdout); }\n    puts("whole");\n}\n')
    library = folder / "libstep.so"
    for pie in "-no-pie", "-pie":  # where the kernel's choice is the linked address, and where it is another one
        subprocess.run([GCC, "-O2", f"-fplugin={PLUGIN}", "-fPIC", "-shared", "-Wl,-Ttext-segment=0x10000000", "-o",
                        library, folder / "library.c"], check=True)
        subprocess.run([GCC, "-O2", pie, "-o", folder / "main", folder / "main.c", library], check=True)
        program = Program(folder / "main")
        code, out, err = switch(program, "fast=1")
        equal((code, err), (0, ""), f"{pie}: a switch of a library that is linked to an address")
        equal(program.ask(), "1001", f"{pie}: it was committed")
        program.end()
    for change in library.unlink, lambda: (folder / "main.c").rename(library):
        subprocess.run([GCC, "-O2", f"-fplugin={PLUGIN}", "-fPIC", "-shared", "-o", library, folder / "library.c"], check=True)
        subprocess.run([GCC, "-O2", "-o", folder / "main", folder / "main.c", library], check=True)
        program = Program(folder / "main")
        change()
        equal(switch(program, "fast=1")[0], 0, "a switch of a library whose file is not there")
        equal(program.ask(), "1001", "it was committed")
        program.end()


def static(folder):
    many = folder / "many.s"  # notes, as of many source files, before that of the library
    many.write_text('.section .note.multiverse,"a",@note\n.balign 4\n.rept 400\n.long 4, 28, 1\n.asciz "any"\n.zero 28\n.endr\n'
                    '.section .note.GNU-stack,"",@progbits\n')
    for name, kind in ("static", "-static"), ("static-pie", "-static-pie"):  # as a program that calls multiverse_init()
        program = Program(build(folder, name, kind, "-fPIE", "-Wl,-u,multiverse_init", many, Path(LIBRARY).parent / "libmultiverse.a"))
        walk(program)
        program.end()


def under_mvld(folder):
    build(folder, "program")
    program = Program(MVLD, "run", "--pass", "multiverse", folder / "program")
    code, out, err = run(MVLD, "status", "-p", program.p.pid, "--json")
    said = json.loads(out)[0] if code == 0 else {}
    equal((said.get("loader"), [os.path.basename(p) for p in said.get("passes", [])], said.get("snapshot")),
          (LD_MVLD, ["multiverse.so"], None), f"mvld status -p{err}")
    equal(program.ask(), "4 -1", "committed at its start")
    equal(switch(program, "level=8")[0], 0, "level=8")
    equal(program.ask(), "9 -1", "level")
    program.end()


def wrong(folder):
    program = Program(build(folder, "plain"))
    before = values(program)
    for arguments, what in ((["fast=2"], "bool, from 0 to 1"), (["depth=128"], "int8, from -128 to 127"),
                            (["level=1", "none=1"], "no switch none"), (["level=1", "fast=x"], "fast is bool"),
                            (["level="], "level is int32"), (["level=0x100000000"], "level is int32")):
        code, out, err = switch(program, *arguments)
        check(code == 1 and what in err and not out, f"{arguments}: {code} {out} {err}")
    equal((values(program), program.ask()), (before, "4 -1"), "nothing was changed")
    equal(run(MVLD, "switch")[0], 2, "no process")
    for number in f"{program.p.pid}x", str(program.p.pid + (1 << 32)), "-1", "":  # and no other process is taken
        for command in "switch", "status":
            code, out, err = run(MVLD, command, "-p", number)
            check(code == 2 and not out and "number" in err, f"{command} -p {number}: {code} {out} {err}")
    equal(switch(program, "--commit", "fast")[0], 2, "a name without a value")
    equal(switch(program, "--keep", "--revert", "fast=1")[0], 2, "two of --commit, --revert, --keep")
    for arguments in ["none"], ["fast", "none"], ["--json", "no*"]:
        code, out, err = switch(program, *arguments)
        check((code, out.strip("[]\n")) == (1, "") and "no switch no" in err, f"list {arguments}: {code} {out} {err}")
    program.end()
    code, _, err = switch(program)
    check(code == 1 and "no process" in err, f"a process that has ended: {err}")
    other = subprocess.Popen(["sleep", "100"])
    time.sleep(0.2)
    code, out, _ = run(MVLD, "status", "-p", other.pid)
    check(code == 0 and "without mvld" in out, f"mvld status -p of a plain program: {out}")
    code, _, err = run(MVLD, "switch", "-p", other.pid)
    check(code == 1 and "no switches" in err, f"a program without switches: {err}")
    other.kill()


def refused(folder):
    """Somebody else has changed each place of a function: nothing of the whole request is done."""
    file = build(folder, "plain", "-fcf-protection=none")
    program = Program(file)
    shown = json.loads(run(MVLD, "show", "--json", file)[1])[0]
    linked = next(int(f["address"], 16) for f in shown["functions"] if f["name"] == "deep")
    entry = next(int(f["address"], 16) for f in json.loads(switch(program, "--json")[1])[0]["functions"]
                 if f["name"] == "deep")
    sites = [entry - linked + int(s["address"], 16) for s in shown["callsites"] if s["callee"] == "deep"]
    with open(f"/proc/{program.p.pid}/mem", "r+b", 0) as memory:

        def exchange(address, before, after):
            memory.seek(address)
            equal(memory.read(len(before)).hex(), before.hex(), "what stands there")
            memory.seek(address)
            memory.write(after)

        # nopl 0(%rax,%rcx,1); and no call while the program waits for its next line.
        places = [(entry, bytes.fromhex("0f1f440000"), bytes.fromhex("0f1f440800"))]
        places += [(site, b"\xe8", b"\xe9") for site in sites]
        for address, before, after in places:
            exchange(address, before, after)
        code, out, err = switch(program, "fast=1", "level=5", "mode=5")
        for address, before, after in places:
            exchange(address, after, before)
    check(code == 1 and not out and "linker" in err, f"a function is refused: {code} {out} {err}")
    equal((values(program), program.ask()), ({"fast": "0", "level": "3", "depth": "-1", "mode": "0"}, "4 -1"),
          "all is as it was")
    functions = json.loads(switch(program, "--json")[1])[0]["functions"]
    equal([f["active"] for f in functions], [None, None], "none is bound")
    other = folder / "other.so"
    (folder / "other.c").write_text("int step(int n) { return n; }\n")
    compile_file(other, "-O2", "-fPIC", "-shared", folder / "other.c")
    code, out, err = run(MVLD, "patch", "-p", program.p.pid, "--replace", f"{file.name}:step={other}:step")
    check(code == 1 and "variation point" in err, f"mvld patch: its variants are called as well: {code} {out} {err}")
    equal(switch(program, "fast=1", "mode=5")[0], 0, "once more, when nobody is in the way")
    equal(program.ask(), "1001 -2", "both")
    program.end()


def reports(folder):
    """Of several switches that are set at once, what is reported of any but the last is lost."""
    program = Program(build(folder, "plain"))
    for values_ in (["fast=0", "mode=7"], ["mode=7", "fast=0"]):
        code, out, err = switch(program, *values_)
        check(code == 0 and "deep: no variant fits" in out, f"{values_}: {code} {out} {err}")
    program.end()


def every(folder):
    """--all, and many tools at once, while threads compute."""
    program = build(folder, "many")
    programs = [Program(program) for _ in range(3)]
    equal(run(MVLD, "switch", "--all", program, "fast=1")[0], 0, "--all")
    equal([p.ask() for p in programs], ["1001 -1"] * 3, "all")
    tools = [subprocess.Popen([MVLD, "switch", "-p", str(programs[0].p.pid), f"level={i % 10}", f"fast={i // 2 % 2}"],
                              env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for i in range(12)]
    for tool in tools:
        err = tool.communicate(timeout=60)[1]
        equal((tool.returncode, err), (0, ""), "tools at once wait for each other")
    equal(run(MVLD, "switch", "--all", program, "fast=0", "level=4")[0], 0, "--all behind them")
    equal([p.ask() for p in programs], ["5 -1"] * 3, "all are what was asked for last")
    code, out, err = meanwhile(programs[0].p.pid, programs[2].end, MVLD, "switch", "--all", program, "fast=1")
    equal((code, err, programs[1].ask()), (0, "", "1001 -1"), f"one has ended meanwhile: {out}")
    for p in programs[:2]:
        p.end()
    equal(run(MVLD, "switch", "--all", program, "fast=0")[0], 1, "no process of it is left")


with scratch() as scratch_folder:
    globals()[sys.argv[6]](Path(scratch_folder))
finish()
