#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""splices.py BEHAVIOUR: code of a pass in front of instructions: passes/example/count-instructions.c, and a pass that
destroys whatever such code may (splices/pass.c).

Each function below is one test; its text says what a failure means.
"""
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]
TURNS = 1000  # of the loop, as main.c says
COUNT = "[count-instructions]\nfunction = libspliced.so:looped\n"


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/splices", "main", "libspliced.so", "libother.so", "count-instructions.so",
                     "splice.so")
        support.analyze(folder, self.program, folder / "libspliced.so", folder / "libother.so")

    def environment(self, passes, more="", app="", match="main", **variables):
        (self.folder / "conf").write_text(f"[app]\nmatch = {match}\npasses = {passes}\n{app}{COUNT}{more}" +
                                         support.COPY * ("concat" in passes))
        return {**support.clean_environment(
            XDG_CACHE_HOME=self.folder, MVLD_CONFIG=self.folder / "conf", MVLD_DEBUG="passes",
            MVLD_PASS_PATH=":".join(map(str, [self.folder, *PASSES])), MVLD_DEBUG_OUTPUT=self.folder / "log"), **variables}

    def run(self, *arguments, command=None, **more):
        """What it prints, and the log."""
        done = subprocess.run([*(command or [self.program]), *arguments], env=self.environment(**more), text=True,
                              capture_output=True, timeout=100, stdin=subprocess.DEVNULL)
        log = support.take_log(self.folder)
        check(done.returncode == 0, f"{more}: status {done.returncode} {done.stdout[-500:]}{done.stderr[-500:]}\n{log[-3000:]}")
        return done.stdout, log

    def counted(self, passes, **more):
        """{offset in the function: how often it was executed}, what it printed, and the log."""
        with subprocess.Popen([self.program, "wait"], env=self.environment(passes, **more), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            said = process.stdout.readline()
            path = self.folder / f"log.{process.pid}"
            log = path.read_text()
            found = re.findall(r"looped: (\d+) of (\d+) instructions are counted at 0x(\w+)", log)
            counters = []
            if found:
                with open(f"/proc/{process.pid}/mem", "rb") as memory:
                    memory.seek(int(found[0][2], 16))
                    counters = list(struct.iter_unpack("QQ", memory.read(16 * int(found[0][0]))))
            process.communicate("\n")
            path.unlink()
        check(process.returncode == 0, f"{passes}: status {process.returncode}\n{log}")
        low = min((address for address, _ in counters), default=0)
        return {address - low: n for address, n in counters}, said, log


def expected(program):
    """The instructions of `looped`, from its entry: whether each can be displaced, and how often it is executed."""
    dump = subprocess.run(["objdump", "-dw", "--disassemble=looped", program], capture_output=True, text=True).stdout
    lines = [(int(at, 16), len(code.split()), text) for at, code, text in re.findall(
        r"^\s+([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*(.*)$", dump, re.M)]
    first, loop = lines[0][0], min(int(t.split()[1], 16) for _, _, t in lines if t.startswith("jne"))
    return {at - first: 1 if at < loop else TURNS for at, length, text in lines
            if length >= 5 or at <= lines[1][0]}


def counts(world):
    """An instruction is counted more or less often than it is executed, or the program does something else than plainly;
    alone, before and behind direct-calls, in front of concat, twice in one pipeline, and where snapshots are made."""
    plain, _ = world.run(passes="", MVLD="off")
    truth = expected(world.folder / "libspliced.so")
    for passes in ("count-instructions", "direct-calls, count-instructions", "count-instructions, direct-calls",
                   "count-instructions, concat", "direct-calls, count-instructions, concat",
                   "count-instructions, direct-calls, concat", "splice, count-instructions", "count-instructions, splice"):
        found, said, log = world.counted(passes)
        # Behind the other pass the head is displaced already.
        check(found == truth and said == plain, f"{passes}: {found}, not {truth}; {said}{plain}{log}")
        check(passes.startswith("concat") or "libspliced.so" not in {name for name, *_ in support.moved_code(log)}, log)
    for _ in range(3):
        found, said, log = world.counted("count-instructions, direct-calls", app="on-miss = build\n")
        check(found == truth and said == plain, f"from a snapshot: {found}, not {truth}; {said}{log}")


def meets(world):
    """A pass does not lead references elsewhere that are in instructions with code in front of them, or whose code does
    not run."""
    support.take(world.folder, "loader/manager/tables", "main=references", "libcalled.so", "edit.so")
    program = world.folder / "references"
    support.analyze(world.folder, program, world.folder / "libcalled.so")
    plain = {"call": "1", "lea": "1", "word": "1", "relro": "1", "slot": "2", "choose": "201"}
    for passes in "splice, edit", "edit, splice", "splice, direct-calls, edit", "edit, splice, direct-calls":
        for kinds in "call", "lea", "word":
            out, log = world.run(command=[program], match="*", passes=passes,
                                 more=f"[splice]\nlibrary = references\n[edit]\nkinds = {kinds}\nfrom = first\nto = second\n")
            changed = {kinds: "200", **({"relro": "200"} if kinds == "word" else {})}
            check(dict(re.findall(r"(\w+) (-?\d+)", out)) == {**plain, **changed}, f"{passes}, {kinds}: {out}{log}")
            check(int(re.search(r"code runs in front of (\d+) ", log)[1]) > 30, log)


def far(world):
    """Code in front of one instruction that is too far away from where such code goes takes the pass's other code away."""
    plain, _ = world.run(passes="", MVLD="off")
    out, log = world.run(passes="splice", app="placement = as-is\n", more="[splice]\nlibrary =\n")
    check(out == plain and re.search(r"splice: .*/main: no code is spliced in at \w+: the trampoline is out of reach", log) and
          int(re.search(r"code runs in front of (\d+) ", log)[1]) > 30, f"{out}{log}")


def behind(world):
    """Behind concat the function has moved: nothing is counted, the log says why, and the program does what it does
    plainly."""
    plain, _ = world.run(passes="", MVLD="off")
    found, said, log = world.counted("concat, count-instructions")
    check(not found and said == plain and ("is not proven" in log or "was moved before" in log), f"{found} {said}{log}")
    said, log = world.run(passes="concat, splice")
    check(said == plain and "wrong: -61" in log and "the pass 'concat' moves its code" in log, f"{said}{log}")


def destroys(world):
    """Code in front of all instructions changes registers, flags or the stack of the program; that of a pass which fails
    runs; or what is wrong is not refused."""
    plain, _ = world.run(passes="", MVLD="off")
    for passes in ("splice", "splice, direct-calls", "direct-calls, splice", "splice, concat"):
        out, log = world.run(passes=passes)
        made = re.search(r"splice: (\d+) of (\d+), ", log)
        check(out == plain and int(made[1]) > 30, f"{passes}: {out}{log}")
    out, log = world.run(passes="splice", more="[splice]\nfail = yes\n")
    check(out == plain and "it fails" in log, log)
    # In the middle of an instruction, without code, in no object, in data.
    check("wrong: -22 -22 -22 -61" in log, log)


def unwinds(world):
    """At some instruction of a trampoline an unwinder does not find who called."""
    out, log = world.run("step", passes="splice")
    elsewhere = re.search(r"elsewhere (\d+)", out)
    check(" 0 wrong" in out and int(elsewhere[1]) > 3000, f"{out}{log}")


def later(world):
    """Code in front of instructions of a library that comes later, and goes, while threads run; also where it comes
    to the same address again."""
    support.take(world.folder, "loader/manager/splices", "libspliced.so=later-libspliced.so")
    path = world.folder / "later-libspliced.so"
    plain, _ = world.run("later", path, passes="", MVLD="off")
    for placement in ("near", "as-is"):
        out, log = world.run("later", path, passes="splice", app=f"placement = {placement}\n")
        made = [int(n) for n in re.findall(r"code runs in front of (\d+) ", log)]
        check(out == plain and len(made) == 5 and min(made) > 30, f"{placement}: {out}{plain}{log}")


def libc(world):
    """The same in libc and libz, where many instructions are displaced, others in each start: programs print something else,
    or crash."""
    text = world.folder / "text"
    text.write_bytes(b"".join(f"{n * n * 7919 % 100003} line {n}\n".encode() for n in range(3000)))
    gzip = shutil.which("gzip")
    commands = [[shutil.which("sort"), "-n", text], [gzip, "-c", text], [shutil.which("awk"), "{ s += $1 * 1.5 } END { print s }", text]]
    library = next(line.split()[2] for line in subprocess.run(["ldd", gzip], capture_output=True, text=True).stdout.splitlines()
                   if "libc.so.6" in line)
    support.analyze(world.folder, library)
    made = 0
    for command in commands:
        plain = subprocess.run(command, capture_output=True).stdout
        for first in range(0, 60, 16):
            done = subprocess.run([LOADER, *command], capture_output=True, timeout=100, env=world.environment(
                "splice", match="*", more=f"[splice]\nlibrary = libc.so.6\nfirst = {first}\nstride = 60\n"))
            log = support.take_log(world.folder)
            found = re.search(r"code runs in front of (\d+) ", log)
            check(found and done.returncode == 0 and done.stdout == plain,
                  f"{command} {first}: {done.returncode} {done.stderr[-500:]}\n{log[-3000:]}")
            made += int(found[1])
    print(made, "places of libc")
    done = subprocess.run([LOADER, *commands[0]], capture_output=True, timeout=100, env=world.environment(
        "splice", match="*", more="[splice]\nlibrary = libc.so.6\n"))
    log = support.take_log(world.folder)
    check(done.returncode == 0 and "splice: one more: -7" in log and "code runs in front of 4096 " in log, log[-3000:])


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
