#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many source files a start goes through, and how many frames below the pass manager the call that becomes
direct is written: from callgrind, inlined functions counted as frames.  It prints both, for a start with
direct-calls in the process and for one from a snapshot.

A failure means that a start takes more of the house than it did: something is asked twice, or by a detour.  The
limits are what was reached; who needs more raises them, and says why.

    footprint.py            checks
    footprint.py --list     also prints the files, by room, and the frames
"""
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check, BUILD, LOADER  # noqa: E402

PROCESS, SNAPSHOT, FRAMES = 81, 59, 14
WRITER = "store"  # of rimf/realise/calls.c
SAID = """#include <stdio.h>
int main(int argc, char **argv) { return printf("%s\\n", argv[argc - 1]) < 0; }
"""


def blind(folder):
    """A copy of the loader that takes valgrind for a CPU: it does not ask (limits.c), and the program's file,
    for which it would be given valgrind's, is where a link of the test's says."""
    code = LOADER.read_bytes()
    for old, new in ((bytes.fromhex("48c1c70348c1c70d48c1c73d48c1c7334887db"), b"\x90" * 19),
                     (b"/proc/self/exe\0", b"exe".ljust(15, b"\0"))):
        check(code.count(old) == 1, f"the loader has {code.count(old)} times {old}")
        code = code.replace(old, new)
    (folder / "ld.so").write_bytes(code)
    (folder / "ld.so").chmod(0o755)
    (folder / "exe").symlink_to(folder / "said")


class Profile:
    """What callgrind wrote: `addresses` of each function, and `calls` (function, address, function)."""

    def __init__(self, path):
        self.names, self.addresses, self.calls = {}, defaultdict(set), []
        function = at = called = None
        objects = {}
        for line in path.read_text().splitlines():
            if found := re.match(r"(c?)(ob|fn)=(.*)", line):
                objects[found[1], found[2]] = self.name(found[2], found[3])
                if found[2] == "ob" and not found[1]:
                    objects.pop(("c", "ob"), None)
                elif found[1] and found[2] == "fn":
                    called = (objects.pop(("c", "ob"), objects["", "ob"]), objects["c", "fn"])
                elif found[2] == "fn":
                    function = (objects["", "ob"], objects["", "fn"])
            elif line.startswith("calls="):
                self.calls.append([function, None, called])
            elif found := re.match(r"(\*|[+-]?(?:0x[0-9a-f]+|\d+)) ", line):
                step = found[1]
                at = at if step == "*" else at + int(step, 0) if step[0] in "+-" else int(step, 0)
                if self.calls and self.calls[-1][1] is None:
                    self.calls[-1][1] = at
                self.addresses[function].add(at)

    def name(self, kind, text):
        number, name = re.match(r"\((\d+)\)(?: (.*))?", text).groups()
        return self.names.setdefault((kind, number), name)

    def of(self, loader):
        """The functions of the loader's file, {name: addresses in the file}, and its calls.  While its own text can
        be written, callgrind does not know whose it is."""
        symbols = subprocess.run(["nm", loader], capture_output=True, text=True).stdout
        first = {name: int(at, 16) for at, name in re.findall(r"^(\w+) . (.*)$", symbols, re.M)}
        unknown = {min(at) - first[name] for (obj, name), at in self.addresses.items() if obj == "???" and name in first}
        base = {str(loader): 0, **{"???": at for at in unknown}}
        functions = defaultdict(set)
        for (obj, name), addresses in self.addresses.items():
            if obj in base and name.split("'")[0] in first:
                functions[name] |= {at - base[obj] for at in addresses}
        return functions, [(a[1], at - base[a[0]], b[1]) for a, at, b in self.calls
                           if {a[0], b[0]} <= set(base) and {a[1], b[1]} <= set(functions)]


def frames_of(loader, addresses):
    """{address: [(function, file)]}, the innermost first."""
    said = subprocess.run(["addr2line", "-fiae", loader], input="\n".join(map(hex, addresses)), capture_output=True,
                          text=True, check=True).stdout.splitlines()
    frames, lines = {}, iter(said)
    for line in lines:
        if line.startswith("0x"):
            frames[int(line, 16)] = at = []
        else:
            at.append((line, re.sub(r":\S+( \(.*)?$", "", re.sub(r".*/(?=(rimf|loader|include)/)", "", next(lines)))))
    return frames


def deepest(functions, calls, frames):
    """The frames from the last one of the pass manager to the function that writes, where they are most."""
    into, best = defaultdict(list), []
    for caller, at, called in calls:
        into[called].append((caller, at))

    def up(name, tail, seen):
        nonlocal best
        for caller, at in into[name]:
            chain = frames[at][::-1] + tail
            manager = [i for i, (_, file) in enumerate(chain) if file.startswith("loader/manager/")]
            if manager:
                best = max(best, chain[manager[-1]:], key=len)
            elif caller not in seen:
                up(caller, chain, seen | {caller})

    for name, addresses in functions.items():
        writes = [frames[at][::-1] for at in addresses if frames[at][0][0] == WRITER]
        if writes:
            up(name, max(writes, key=len), {name})
    return best


def measure(folder, name, listing):
    """The files, and the frames below the pass manager."""
    out = folder / name
    done = start(folder, "--dump-instr=yes", out, folder / "said", "x")
    check(done.returncode == 0 and done.stdout == "x\n", done.stdout + done.stderr)
    functions, calls = Profile(out).of(folder / "ld.so")
    frames = frames_of(folder / "ld.so", sorted(set().union(*functions.values(), (at for _, at, _ in calls))))
    files = sorted({file for at in frames.values() for _, file in at if re.match("(rimf|loader|include)/", file)})
    if not files:
        support.skip("the loader was built without debug information")
    chain = deepest(functions, calls, frames)
    if listing:
        rooms = defaultdict(list)
        for file in files:
            rooms[file.rpartition("/")[0]].append(file.rpartition("/")[2])
        for room, names in rooms.items():
            print(f"    {room}: {len(names)}: {' '.join(names)}")
        print(*(f"    {function}  {file}" for function, file in chain), sep="\n")
    instructions = re.search(r"^summary: (\d+)", out.read_text(), re.M)[1]
    print(f"{name}: {len(files)} files, {instructions} instructions", end="\n" if len(chain) < 2 else
          f"; the call that becomes direct is written {len(chain) - 1} frames below the pass manager\n")
    return files, len(chain) - 1


def start(folder, option, out, *command, **more):
    """The command under callgrind.  Nothing of the caller's environment: each variable costs the host loader, which
    compares it with the names of all tunables, and us some 500 instructions in all."""
    env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": folder, "MVLD_PASS_PATH": BUILD / "passes" / "direct-calls",
           "MVLD_CONFIG": folder / "conf", **more}
    return subprocess.run(["valgrind", "-q", "--tool=callgrind", option, f"--callgrind-out-file={out}", *command],
                          env={name: str(value) for name, value in env.items()}, capture_output=True, text=True,
                          timeout=120)


def main(folder, listing):
    for tool in "valgrind", "addr2line":
        if not shutil.which(tool):
            support.skip(f"{tool} is missing")
    blind(folder)
    (folder / "said.c").write_text(SAID)
    (folder / "conf").write_text("[app]\nmatch = said\npasses = direct-calls\n")
    # At a fixed address: valgrind puts others where no library fits beside them.
    support.compile_c(folder / "said", folder / "said.c", "-no-pie", "-Wl,--build-id",
                      f"-Wl,--dynamic-linker={folder}/ld.so", plugin=False)
    libc = re.search(r"libc\.so\.6 => (\S+)", subprocess.run(["ldd", folder / "said"], capture_output=True, text=True).stdout)
    support.analyze(folder, folder / "said", libc[1])
    files, frames = measure(folder, "in-the-process", listing)
    check(0 < frames <= FRAMES, f"a call becomes direct {frames} frames below the pass manager, not {FRAMES}")
    check(len(files) <= PROCESS, f"a start in the process takes {len(files)} files, not {PROCESS}")
    done = start(folder, "--dump-instr=no", folder / "made", folder / "said", MVLD_SNAPSHOT=1)
    check(done.returncode == 0, done.stderr)
    files, frames = measure(folder, "from-a-snapshot", listing)
    check(frames < 0 and "rimf/store/apply_start.c" in files, "the snapshot is not used")
    check(len(files) <= SNAPSHOT, f"a start from a snapshot takes {len(files)} files, not {SNAPSHOT}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        os.chdir(scratch)
        main(scratch, "--list" in sys.argv)
