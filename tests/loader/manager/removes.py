#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""removes.py BEHAVIOUR: unreachable functions become traps: passes/example/debloat.c, and a pass that removes
what must not be removed (removes/pass.c).

Each function below is one test; its text says what a failure means.
"""
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls", "multiverse")]
KEEP = "keep = {}/keep\n"
STAYS = ["used", "looked_up", "in_data", "taken", "bound_by_itself"]  # with exported = yes


class World:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/removes", "main", "libbloat.so", "debloat.so", "remove.so", "lead.so", "both.so")
        support.take(folder, "loader/manager/splices", "count-instructions.so")
        support.analyze(folder, self.program, folder / "libbloat.so")
        (folder / "keep").write_text("looked_up\nno_such_name\n")

    def run(self, *arguments, passes="debloat", options="exported = yes\n" + KEEP, app="", command=None, match="main", **more):
        """The finished process, and the log."""
        section = passes.split(", ")[0] if "debloat" not in passes else "debloat"
        (self.folder / "conf").write_text(f"[app]\nmatch = {match}\npasses = {passes}\n{app}[{section}]\n"
                                         f"{options.format(self.folder)}" + support.COPY * ("concat" in passes))
        done = subprocess.run([*(command or [self.program]), *arguments], stdin=subprocess.DEVNULL, timeout=100,
                              capture_output=True, text=True, errors="replace", env=support.clean_environment(
                                  XDG_CACHE_HOME=self.folder, MVLD_CONFIG=self.folder / "conf", MVLD_DEBUG="passes",
                                  MVLD_PASS_PATH=":".join(map(str, [self.folder, *PASSES])),
                                  MVLD_DEBUG_OUTPUT=self.folder / "log", **more))
        log = support.take_log(self.folder)
        return done, log

    def traps(self, name, **more):
        """What is removed says so, by a signal and a sentence; what stays does what it does plainly."""
        done, log = self.run(name, **more)
        check("8 10 9\n" == done.stdout, f"{name}: {done}\n{log}")
        if name in STAYS:
            check(done.returncode == 0 and not done.stderr, f"{name}: {done}\n{log}")
        else:
            check(done.returncode == -signal.SIGILL and "libbloat.so: a function was called that the pass 'debloat' removed"
                  in done.stderr, f"{name}: {done}\n{log}")
        return log


def process(world):
    """An unreachable function stays; a function that is called, that the user says is looked up, or whose address is stored
    becomes a trap; or a call of a removed function gives no sentence.  Alone, behind and before passes that change calls and
    move code."""
    for passes in ("debloat", "debloat, direct-calls", "direct-calls, debloat", "concat, debloat", "debloat, concat",
                   "direct-calls, debloat, concat"):
        for name in ["unused", *STAYS]:
            log = world.traps(name, passes=passes)
            # `unused`, and what only it calls, which no symbol names.
            check(re.search(r"libbloat.so: 2 of \d+ functions go", log), log)
            check(("libbloat.so" in {name for name, *_ in support.moved_code(log)}) == ("concat" in passes), log)


def snapshot(world):
    """From a snapshot the same functions are not gone, or others are; or nobody is told why there is none."""
    for passes in ("debloat", "debloat, direct-calls", "direct-calls, debloat", "concat, debloat", "debloat, concat"):
        world.run(passes=passes, MVLD_SNAPSHOT=1)
        for name in ("unused", *STAYS):
            log = world.traps(name, passes=passes)
            check("functions go" not in log, f"the pass runs in the process: {log}")
    # Who builds one is told why a pass failed.
    done, log = world.run(options="keep = {}/missing\n", MVLD_SNAPSHOT=1)
    check(done.returncode == 1 and "missing cannot be read" in done.stderr, f"{done}{log}")


def exported(world):
    """Without `exported` a function goes that dlsym may find."""
    done, log = world.run("unused", options="")
    check(done.returncode == 0 and "libbloat.so: 0 of " in log, f"{done}{log}")


def wrong(world):
    """What must not be removed is; or all of a pass that fails is not taken back."""
    plain = world.run(passes="remove", MVLD="off")[0].stdout
    for name, error in (("used", -16), ("in_data", -16), ("taken", 0), ("bound_by_itself", -16), ("unused", 0)):
        done, log = world.run(passes="remove", options=f"name = {name}\n")
        found = re.search(rf"remove: {name}: (\S+) twice (\S+) wrong -22 -22: ", log)
        check(found and int(found[1]) == error and int(found[2]) == (error or -17), f"{name}: {log}")
        check(done.stdout == plain and done.returncode == 0, f"{name}: {done}{log}")
        # `take` stays, which leads to it; `only_unused` may stay without `unused`.
        check(("a function that stays leads to it" in log) == (name == "taken"), log)
    done, log = world.run(passes="remove", options="exported = no\n")
    check("remove: unused: -16" in log and "dlsym finds it" in log, log)
    done, log = world.run("unused", passes="remove", options="fail = yes\n")
    check(done.returncode == 0 and done.stdout == plain and "it fails" in log, f"{done}{log}")


def all_of_it(world):
    """Of a pass that removes what must stay something else is made all the same: its code in front of an instruction."""
    for name, status in ("taken", 0), ("unused", -signal.SIGILL):
        done, log = world.run(passes="both", options=f"name = {name}\nsplice = yes\n")
        check(done.returncode == status, f"{name}: {done}\n{log}")
        check(("a function that stays leads to it" in log) == (status == 0), log)


def altered(world):
    """Where a pass has changed code by then, references that its bytes do not show any more do not count, and what is
    needed goes; or a pass that moves code does not start behind one that removed some."""
    counts = "exported = yes\n[count-instructions]\nfunction = libbloat.so:used\n"
    made = "exported = yes\n" + KEEP + "[remove]\nname = none\nfirst = yes\n"
    for passes, options, gone in (("debloat", counts, 3), ("count-instructions, debloat", counts, 3),
                                  ("count-instructions, remove, debloat", counts + "[remove]\nname = none\nfirst = yes\n", 0),
                                  ("concat, remove, debloat", made, 0),
                                  ("debloat, remove, concat", made, 2), ("direct-calls, remove, debloat", made, 2)):
        done, log = world.run(passes=passes, options=options)
        check(done.returncode == 0 and done.stdout == "8 10 9\n", f"{passes}: {done}\n{log}")
        check(f"libbloat.so: {gone} of 9 functions go" in log, f"{passes}: {log}")
    leads = made + "[lead]\nname = unused\nleads = yes\n"
    done, log = world.run(passes="lead, remove, debloat", options=leads)
    check(done.returncode == 0 and done.stdout.endswith(" 10 9\n") and "libbloat.so: 0 of 9 functions go" in log, f"{done}\n{log}")
    done, log = world.run(passes="lead, remove, debloat", options=made + "[lead]\nname = none\ndetour = yes\n")
    check(done.returncode == 0 and done.stdout == "8 10 9\n" and "libbloat.so: 0 of 9 functions go" in log, f"{done}\n{log}")


def spliced(world):
    """A function in which code of another pass runs is removed, or a removed one gets such code; or nobody says which
    pass has it."""
    remove, count = "name = unused\n", "function = libbloat.so:unused\n"
    done, log = world.run("unused", passes="remove, count-instructions", options=f"{remove}[count-instructions]\n{count}")
    check(done.returncode == -signal.SIGILL and "code runs in front of" not in log, f"{done}\n{log}")
    done, log = world.run("unused", passes="count-instructions, remove", options=f"{count}[remove]\n{remove}")
    check(done.returncode == 0 and "code of the pass 'count-instructions' runs in it" in log and
          "code runs in front of" in log, f"{done}\n{log}")


def detours(world):
    """A reference in a function that an earlier pass removes takes all others of the pass with it."""
    done, log = world.run("unused", passes="remove, lead", options="name = unused\n[lead]\nname = none\ndetour = yes\nsplice = yes\n")
    check(done.returncode == -signal.SIGILL and "the pass 'remove' removes its function" in log, f"{done}\n{log}")
    check(re.search(r"lead: \d+ references lead elsewhere", log) and "pass 'lead' failed" not in log, f"{done}\n{log}")


def multiverse(world):
    """Variants go that multiverse calls, or functions that it calls again."""
    support.need(support.PLUGIN)
    program, library = world.folder / "switched", support.BUILD / "passes" / "multiverse"
    support.compile_c(program, HERE / "removes" / "switched.c", f"-L{library}", "-lmultiverse",
                      f"-Wl,--build-id,-rpath,{library},--dynamic-linker={LOADER}")
    support.analyze(world.folder, program)
    for passes in "debloat", "debloat, multiverse", "multiverse, debloat":
        done, log = world.run(command=[program], match="*", passes=passes, options="exported = yes\nlibrary = switched\n")
        check(done.returncode == 0 and done.stdout == 2 * "Good morning, Ada.\n", f"{passes}: {done}\n{log}")
        check("functions go" in log, log)


def stock(world):
    """Programs of the system without what no object of theirs refers to do something else; or next to nothing goes."""
    text = world.folder / "text"
    text.write_bytes(b"".join(f"{n * n * 7919 % 100003} line {n}\n".encode() for n in range(3000)))
    commands = [[shutil.which("sort"), "-n", text], [shutil.which("gzip"), "-c", text],
                [shutil.which("awk"), "{ s += $1 * 1.5 } END { print s }", text], [shutil.which("date"), "-u", "-d", "@0"],
                [shutil.which("g++"), "--version"]]
    for command in commands:
        libraries = [line.split()[2] for line in subprocess.run(["ldd", command[0]], capture_output=True,
                                                                text=True).stdout.splitlines() if "=> /" in line]
        support.analyze(world.folder, command[0], *libraries)
        plain = subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
        for passes in ("debloat", "direct-calls, debloat, concat", "concat, debloat"):
            done, log = world.run(command=[LOADER, *command], match="*", passes=passes, options="exported = yes\n")
            gone = {Path(name).name: int(n) for name, n in re.findall(r"debloat: (\S+): \d+ functions are removed, (\d+)", log)}
            check(done.returncode == 0 and done.stdout == plain, f"{command} {passes}: {done.returncode} {done.stderr[-500:]}\n"
                  f"{log[-3000:]}")
            check(gone.get("libc.so.6", 0) > 300000, f"{command} {passes}: {gone}\n{log[-3000:]}")
            print(Path(command[0]).name, passes, gone)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
