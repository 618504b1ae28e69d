#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pairs.py BEHAVIOUR: each pass reaches in front of each other one, and behind it, what it reaches alone.

pairs/main.c tells what a pass reached.  Each function below is one test; its text says what a failure means.
"""
import hashlib
import itertools
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, BUILD, LOADER  # noqa: E402

PLAIN = {"blind": 0, "moved": 0, "edited": 1, "bound": 1, "chosen": 1, "gone": 0, "closed": 0, "refused": 0, "answered": 1,
         "counted": 0, "executed": 0}
REACHED = {  # by each pass, alone
    "direct-calls": {"blind": 1}, "count-calls": {"blind": 1, "counted": 62}, "concat": {"moved": 1},
    "edit": {"edited": 2}, "bind": {"bound": 2}, "multiverse": {"chosen": 2},
    "debloat": {"gone": 1}, "isolate": {"closed": 1}, "verify": {"refused": 1}, "shuffle": {"moved": 1},
    "returns": {"answered": 2},
    "count-instructions": {"executed": 60}}  # the calls of `calls`, twice
REFUSED = {("multiverse", "direct-calls"), ("multiverse", "concat")}  # in words: multiverse comes behind these
FROZEN = {"direct-calls", "concat", "edit", "debloat", "returns"}  # a snapshot holds what they do
ONE = [{"count-instructions", "concat"}, {"count-instructions", "shuffle"}]  # an object has one: the first
OPTIONS = """[edit]
kinds = call
from = first
to = second
[bind]
from = libmeet.so:bound
to = libmeet.so:bound_other
[multiverse]
set.chosen_switch = 1
[debloat]
exported = yes
keep = {}/keep
[isolate]
library = libvault.so
gate.1 = vault_pair
[count-instructions]
function = meet:calls
[returns]
function = answered
value = 2
""" + support.COPY


class World:
    def __init__(self, folder):
        support.need(support.PLUGIN)
        self.folder, self.program = folder, folder / "meet"
        support.take(folder, "loader/manager/new_sections", "count-calls.so")
        self.build_pass("bind", support.SOURCE / "passes" / "example" / "bind.c")
        for name in "debloat", "isolate", "verify", "shuffle", "returns", "count-instructions":
            self.build_pass(name, support.SOURCE / "passes" / "example" / f"{name}.c")
        self.build_pass("edit", HERE / "tables" / "edit.c", "-DFREEZES")
        sources = HERE / "pairs"
        for name in "meet", "chosen":
            support.compile_c(folder / f"lib{name}.so", "-shared", "-fPIC", "-Wl,--build-id",
                              sources / ("library.c" if name == "meet" else "chosen.c"), plugin=name == "chosen")
        support.compile_c(folder / "libvault.so", "-shared", "-fPIC", "-Wl,--build-id,-z,now",
                          HERE / "isolates" / "vault.c", plugin=False)
        support.compile_c(self.program, sources / "main.c", f"-L{folder}", "-lmeet", "-lchosen", "-lvault", "-rdynamic",
                          "-Wl,-z,lazy,--build-id,-rpath,$ORIGIN", f"-Wl,--dynamic-linker={LOADER}", plugin=False)
        libraries = [folder / f"lib{name}.so" for name in ("meet", "chosen", "vault")]
        self.environment = support.moving(folder, self.program, *libraries)
        shutil.copy(libraries[0], folder / "libunlisted.so")
        with open(folder / "libunlisted.so", "ab") as file:
            file.write(b"another file")
        self.listed = "[verify]\n" + "".join(
            f"allow.{i} = {hashlib.blake2b(Path(path).read_bytes(), digest_size=32).hexdigest()}\n" for i, path in enumerate(
                [self.program, *libraries, support.LIBRARY, support.BUILD / "passes" / "concat" / "libconcat.so.1",
                 *re.findall(r"=> (/\S+)", subprocess.run(["ldd", self.program], capture_output=True, text=True).stdout)]))
        self.environment["MVLD_PASS_PATH"] += f":{folder}"
        (folder / "keep").write_text("second\n")  # where `edit` leads to
        self.environment["MVLD_CONFIG"] = folder / "conf"

    def build_pass(self, name, source, *options):
        subprocess.run(["gcc", "-shared", "-nostdlib", "-ffreestanding", "-mgeneral-regs-only", "-fPIC", "-O2",
                        "-fno-stack-protector", *options, "-I", support.SOURCE / "include", "-Wl,-Bsymbolic", "-o",
                        self.folder / f"{name}.so", source], check=True)

    def configure(self, passes):
        (self.folder / "conf").write_text(f"[app]\nmatch = meet\npasses = {', '.join(passes)}\n{self.listed}"
                                          + OPTIONS.format(self.folder))

    def counted(self, process, log):
        """Calls of `called` that the pass counted, in the program."""
        found = re.search(rf"{self.program}: (\d+) slots at 0x(\w+)", log)
        slots = {name: int(at, 16) for at, name in re.findall(
            r"^(\w+) .*R_X86_64_(?:JUMP_SLO|GLOB_DAT)\w* +\w+ (\w+)",
            subprocess.run(["readelf", "-rW", self.program], capture_output=True, text=True).stdout, re.M)}
        if not found:
            return 0
        with open(f"/proc/{process.pid}/mem", "rb") as memory:
            memory.seek(int(found[2], 16))
            counters = dict(struct.iter_unpack("QQ", memory.read(16 * int(found[1]))))
        bias = min(at & ~0xfff for at in counters if at) - min(at & ~0xfff for at in slots.values())
        return counters[bias + slots["called"]]

    def executed(self, process, log):
        """How often the calls of `calls` were executed, as the pass counted."""
        found = re.search(r"calls: (\d+) of \d+ instructions are counted at 0x(\w+)", log)
        if not found:
            return 0
        with open(f"/proc/{process.pid}/mem", "rb") as memory:
            memory.seek(int(found[2], 16))
            counters = list(struct.iter_unpack("QQ", memory.read(16 * int(found[1]))))
        bias = int(re.search(rf"^(\w+)-.*{self.program}$", self.maps, re.M)[1], 16)
        dump = subprocess.run(["objdump", "-d", "--disassemble=calls", self.program], capture_output=True, text=True).stdout
        calls = {bias + int(at, 16) for at in re.findall(r"^ +(\w+):.*call .*<called@plt>", dump, re.M)}
        return sum(n for at, n in counters if at in calls)

    def reached(self, passes):
        """What the program says, and the log."""
        self.configure(passes)
        log = self.folder / "log"
        with subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=support.clean_environment(**self.environment, MVLD_DEBUG="passes,files",
                                                            MVLD_DEBUG_OUTPUT=log)) as process:
            line = process.stdout.readline()
            said = (self.folder / f"log.{process.pid}").read_text()
            self.maps = Path(f"/proc/{process.pid}/maps").read_text()
            found = {key: int(value) for key, value in re.findall(r"(\w+) (\d+)", line)}
            found["counted"] = self.counted(process, said) if line else 0
            found["executed"] = self.executed(process, said) if line else 0
            process.communicate("\n")
        check(process.returncode == 0, f"{passes}: status {process.returncode}\n{said}")
        return found, said

    def build(self, passes):
        self.configure(passes)
        done = support.run([self.program], **self.environment, MVLD_SNAPSHOT=1)
        check(done.returncode == 0, f"{passes}: {done.stderr}")


def expected(passes):
    reached = {**PLAIN, **{key: value for name in passes for key, value in REACHED[name].items()}}
    for one in ONE:
        first, *others = [name for name in passes if name in one] or [None]
        for name in others:
            reached.update({key: PLAIN[key] for key in REACHED[name]})
    return reached


def reaches(world, passes):
    found, said = world.reached(passes)
    check(found == expected(passes), f"{passes}: {found} instead of {expected(passes)}\n{said}")
    return said


def process(world):
    """In a process that runs all passes one of them misses what another one wants."""
    for name in REACHED:
        reaches(world, [name])
    for passes in itertools.permutations(REACHED, 2):
        if passes not in REFUSED:
            reaches(world, passes)
    reaches(world, ["count-calls", "edit", "direct-calls", "bind", "concat", "multiverse"])
    reaches(world, ["bind", "direct-calls", "concat", "edit", "count-calls", "multiverse"])
    reaches(world, ["count-instructions", "count-calls", "edit", "direct-calls", "bind", "multiverse"])


def snapshot(world):
    """Over code of a snapshot a pass misses what it reaches where all passes run."""
    for passes in itertools.permutations(REACHED, 2):
        if passes[0] not in FROZEN or passes in REFUSED or "bind" in passes:
            continue
        world.build(passes)
        said = reaches(world, passes)
        check("/snapshots/" in world.maps, f"{world.maps}\n{said}")
    passes = ["direct-calls", "concat", "count-calls", "multiverse"]
    world.build(passes)
    reaches(world, passes)
    check("/snapshots/" in world.maps, world.maps)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"process": process, "snapshot": snapshot}[sys.argv[1]](World(scratch))
