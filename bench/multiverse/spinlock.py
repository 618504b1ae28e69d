# SPDX-License-Identifier: MIT
"""The spin lock of Figure 1 of the EuroSys 2019 paper, in all ways to write it (spinlock_way.c).

What it costs for one CPU (UP) and for several (SMP), beside the compile-time one; and the instructions
of each way's loop, read from the running process.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import support  # noqa: E402
from report import say, table  # noqa: E402

# name: (WAY of spinlock_way.c, whether it commits, what it is).
WAYS = {
    "static_up": ("STATIC_UP", 0, "#ifdef, inlined"),
    "static_smp": ("STATIC_SMP", 0, "#ifdef, inlined"),
    "static_up_again": ("STATIC_UP", 0, "the same once more: what the measurement is wrong by"),
    "static_smp_again": ("STATIC_SMP", 0, "the same once more: what the measurement is wrong by"),
    "branch": ("BRANCH", 0, "an if, inlined"),
    "function": ("FUNCTION", 0, "the if in a function"),
    "pointer": ("POINTER", 0, "functions through a pointer"),
    "pointer_committed": ("POINTER_POINT", 1, "the pointer is a variation point, committed"),
    "uncommitted": ("POINT", 0, "the lock is a variation point, uncommitted"),
    "committed": ("POINT", 1, "the lock is a variation point, committed"),
    "floor": ("FLOOR", 0, "no lock: what a commit leaves of it, an argument and a NOP for each call, and no "
                          "NOPs that align the calls"),
    "caller_uncommitted": ("CALLER", 0, "the loop is a variation point, uncommitted"),
    "caller_committed": ("CALLER", 1, "the loop is a variation point, committed"),
    "constant_uncommitted": ("CONSTANT", 0, "the switch is a run-time constant, uncommitted"),
    "constant_committed": ("CONSTANT", 1, "the switch is a run-time constant, committed"),
    "inline_uncommitted": ("INLINE", 0, 'the lock is multiverse("inline"), uncommitted'),
    "inline_committed": ("INLINE", 1, 'the lock is multiverse("inline"), committed'),
}
INSIDE = {"empty": "nothing inside", "counts": "one addition inside"}
# All loops lie alike in the lines of the cache.
ALIGNED = ["-falign-functions=64", "-falign-loops=64"]


def compile_way(folder, name):
    """Its object file, or None: this plugin does not know the way."""
    way, commits, _ = WAYS[name]
    output = folder / f"{name}.o"
    command = [support.CC, "-O2", *ALIGNED, "-Wall", "-Werror=attributes", "-fno-pie", f"-I{support.SOURCE}/include",
               f"-fplugin={support.PLUGIN}", f"-DWAY={way}", f"-DNAME={name}", f"-DCOMMITS={commits}",
               "-c", HERE / "spinlock_way.c", "-o", output]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    if done.returncode:
        reasons = [line.partition("error: ")[2] for line in done.stderr.splitlines() if "error: " in line]
        say(f"    {name} is left out: {reasons[0] if reasons else done.stderr}")
    return None if done.returncode else output


def build(folder):
    objects = {name: compile_way(folder, name) for name in WAYS}
    objects = {name: path for name, path in objects.items() if path}
    ways = " ".join(f"X({name})" for name in objects)
    support.compile_c(folder / "spinlock", "-no-pie", f"-DWAYS={ways}", HERE / "spinlock.c",
                      *objects.values(), support.PASSES / "library" / "libmultiverse.a", plugin=False)
    return folder / "spinlock"


def decode(folder, address, code):
    """The instructions of the loop: from the first that is jumped back to, to that jump."""
    (folder / "code").write_bytes(bytes.fromhex(code))
    done = subprocess.run(["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn",
                           f"--adjust-vma={address}", folder / "code"], capture_output=True, text=True)
    lines = [(int(at, 16), " ".join(text.split("#")[0].split()))
             for at, text in re.findall(r"^\s*([0-9a-f]+):\t(.*)$", done.stdout, re.M)]
    for at, text in lines:
        back = re.fullmatch(r"j\w+ 0x([0-9a-f]+)", text)
        if back and int(back[1], 16) < at:
            return [t for a, t in lines if int(back[1], 16) <= a <= at]
        if text.startswith("ret"):
            break
    return [text for _, text in lines]


def main():
    support.need(support.PLUGIN, support.PASSES / "library" / "libmultiverse.a")
    with tempfile.TemporaryDirectory(prefix="mvld-spinlock-") as scratch:
        folder = Path(scratch)
        done = support.run([build(folder)], timeout=200)
        support.check(done.returncode == 0, done.stderr)
        cycles, code = {}, {}
        for line in done.stdout.splitlines():
            kind, name, cpus, loop, *rest = line.split()
            if kind == "cycles:":
                cycles[name, cpus, loop] = float(rest[0])
            else:
                code[name, cpus, loop] = decode(folder, *rest)
    for cpus in ("UP", "SMP"):
        static = f"static_{cpus.lower()}"
        names = [n for n in WAYS if (n, cpus, "empty") in cycles and ("static" not in n or n.startswith(static))
                 and (n != "floor" or cpus == "UP")]
        lines = []
        for name in names:
            values = [(cycles[name, cpus, loop], cycles[static, cpus, loop]) for loop in INSIDE]
            lines.append([name, *(f"{value:.2f}" for value, _ in values), *(f"{v / s:.2f}" for v, s in values)])
            for (value, least), loop in zip(values, INSIDE.values()):
                print(f"result: {cpus}, {loop}, {name} | {value:.2f} | cycles | {value / least:.2f} of static; "
                      f"{WAYS[name][2]}")
        table(lines, [cpus, "empty", "counts", "of static", "of static"])
        # With several CPUs the innermost loop is the one that waits.
        for name, loop in [(name, loop) for name in names for loop in INSIDE if cpus == "UP"]:
            print(f"result: {cpus}, {INSIDE[loop]}, {name}, its loop | {len(code[name, cpus, loop])} | "
                  f"instructions | {'; '.join(code[name, cpus, loop])}")


if __name__ == "__main__":
    main()
