# SPDX-License-Identifier: MIT
"""`mvld show` reads what the compiler plugin really writes: C and C++, executables
and shared objects, optimised or not, whichever linker.

A failure means that plugin and tool disagree about the format.
"""
import json
import shutil
import subprocess
import sys
from pathlib import Path

from support import check, compile_file, contains, equal, finish, run, scratch

mvld, gcc, gxx, plugin = sys.argv[1:5]

SOURCE = """
#define MULTIVERSE __attribute__((multiverse))
MULTIVERSE int level;
MULTIVERSE _Bool fast;
enum mode { OFF, SLOW = 5, FAST = 9 };
MULTIVERSE enum mode mode;
int sink;
MULTIVERSE __attribute__((noinline)) void step(int n) { if (fast) sink += n; else sink -= n; }
MULTIVERSE __attribute__((noinline)) int depth(void) { return level == 3 ? sink : sink * 7; }
MULTIVERSE __attribute__((noinline)) int speed(void) { return mode == FAST ? sink : mode; }
MULTIVERSE void (*hook)(int) = step;
__attribute__((multiverse("inline"))) static int quick(int n) { return fast ? n * 3 : n; }
int main(void) { step(1); step(2); hook(3); return depth() + speed() + quick(sink); }
"""


def build(to, compiler, source, *options):
    subprocess.run([compiler, f"-fplugin={plugin}", "-o", str(to), str(source), *options],
                   check=True, timeout=60)
    code, out, err = run(mvld, "show", "--json", to)
    equal((code, err), (0, ""), f"{' '.join(options)}")
    text = run(mvld, "show", "--disassemble", to)
    equal((text[0], text[2]), (0, ""), f"as text: {' '.join(options)}")
    return json.loads(out)[0]


with scratch() as folder:
    folder = Path(folder)
    source = folder / "source.c"
    source.write_text(SOURCE)
    for options in (["-O2"], ["-O0"], ["-Os"], ["-O2", "-fPIE", "-pie"], ["-O2", "-no-pie", "-fno-pie"],
                    ["-O2", "-fPIC", "-shared"], ["-O2", "-static"], ["-O2", "-fno-plt"],
                    ["-O2", "-fcf-protection"], ["-O2", "-s"], ["-O2", "-Wl,--gc-sections"],
                    *(["-O2", f"-fuse-ld={linker}"] for linker in ("lld", "gold")
                      if shutil.which(f"ld.{linker}"))):
        found = build(folder / "program", gcc, source, *options)
        what = " ".join(options)
        equal(sorted((s["name"], s["width"], s["signed"], s["bool"]) for s in found["switches"])[:2],
              [("fast", 1, False, True), ("level", 4, True, False)], f"{what}: switches")
        check(all(s["defined"] for s in found["switches"]), f"{what}: they are defined here")
        functions = {f["name"]: f for f in found["functions"]}
        equal(sorted(functions), ["depth", "hook", "quick", "speed", "step"], f"{what}: variation points")
        check(functions["hook"]["pointer"], f"{what}: hook is a pointer")
        arms = [("quick", [[(g["switch"], g["low"]) for g in arm["guards"]] for arm in call["arms"]])
                for call in found["inline_calls"]]
        equal(arms, [] if "-O0" in options else [("quick", [[("fast", 0)], [("fast", 1)]])],
              f"{what}: inline calls")
        guards = {(g["switch"], g["low"], g["high"]) for v in functions["step"]["variants"]
                  for g in v["guards"]}
        equal(guards, {("fast", 0, 0), ("fast", 1, 1)}, f"{what}: guards of step")
        guards = {(g["switch"], g["low"]) for v in functions["speed"]["variants"]
                  for g in v["guards"]}
        check({("mode", 0), ("mode", 9)} <= guards, f"{what}: guards of speed: {guards}")
        callees = [s["callee"] for s in found["callsites"]]
        check(callees.count("step") >= 2, f"{what}: calls of step: {callees}")
        check(all(s["instruction"] != "not a call" for s in found["callsites"]),
              f"{what}: every site is a call")

    # A call of a variation point that another object defines.
    library = folder / "caller.c"
    library.write_text("__attribute__((multiverse)) void step(int);\n"
                       "void twice(void) { step(1); step(2); }\n")
    found = build(folder / "caller.so", gcc, library, "-O2", "-fPIC", "-shared")
    equal([s["callee"] for s in found["callsites"]], ["step", "step"], "calls to another object")
    contains(run(mvld, "show", folder / "caller.so")[1], "calls to step of another object", "as text")

    # The lines of the call sites, from debug information.
    build(folder / "debug", gcc, source, "-O2", "-g")
    found = json.loads(run(mvld, "show", "--json", "--lines", folder / "debug")[1])[0]
    last = SOURCE[:SOURCE.index("int main")].count("\n") + 1
    equal({s["line"] for s in found["callsites"] if s["caller"] == "main"}, {f"source.c:{last}"},
          "--lines")
    contains(run(mvld, "show", "--lines", folder / "debug")[1], f" at source.c:{last}: call", "as text")

    cxx = folder / "source.cc"
    cxx.write_text("namespace ns { __attribute__((multiverse)) bool on;\n"
                   "__attribute__((multiverse, noinline)) int f(int a) { return on ? a : 7; } }\n"
                   "int main() { return ns::f(1); }\n")
    found = build(folder / "cxx", gxx, cxx, "-O2")
    equal((len(found["switches"]), len(found["functions"]), len(found["callsites"])), (1, 1, 1), "C++")
finish()
