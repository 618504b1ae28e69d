# SPDX-License-Identifier: MIT
"""A tool that writes to GOT slots of the running program (as memray and heaptrack do) sees each call, although
calls were direct before it came: in the process, from a snapshot, in moved code, and when the
tool is there from the start.

A failure means: profilers show less than there is, and nobody knows.

Argument: a way, one of those below.
"""
import os
import sys
from pathlib import Path

import support
from support import check

MVLD = support.BUILD / "tools" / "mvld"
SOURCE = Path(__file__).resolve().parent / "programs" / "hooked.c"
# way -> (passes, what is built before, tunables)
WAYS = {
    "process": ("direct-calls", None, ""),
    "snapshot": ("direct-calls", "1", ""),
    "moved": ("direct-calls, concat", None, support.COPY_TUNABLE),
    "moved-snapshot": ("direct-calls, concat", "1", support.COPY_TUNABLE),
    "preloaded": ("direct-calls", None, ""),
    "spliced": ("splice, direct-calls", None, ""),  # code of a pass before each call (loader/manager/splices/pass.c)
    "linked": ("direct-calls", None, ""),  # a hard link since, so that only their bytes identify files
    "linked-snapshot": ("direct-calls", "1", ""),
    "linked-moved": ("direct-calls, concat", None, support.COPY_TUNABLE),
    "unknown": ("direct-calls", None, ""),
}
SEEN = 7  # calls of all() in programs/hooked.c
way = sys.argv[1]


def build(folder):
    shared = ("-shared", "-fPIC", "-O2", "-L" + str(folder), "-Wl,-rpath,$ORIGIN", "-Wl,-z,now")
    libraries = {"libcounted.so": ("-DCOUNTED",), "tool.so": ("-DTOOL",),
                 "libplt.so": ("-DWAY=by_plt", "-DCONDITION=if_plt", "-lcounted"),
                 "libslot.so": ("-DWAY=by_slot", "-DCONDITION=if_slot", "-fno-plt", "-lcounted")}
    for name, flags in libraries.items():
        support.compile_c(folder / name, *shared, SOURCE, *flags, "-Wl,--build-id", plugin=False)
    support.compile_c(folder / "program", "-O2", SOURCE, support.MAPPED, "-L" + str(folder), "-lcounted", "-lplt", "-lslot",
                      "-Wl,-rpath,$ORIGIN", "-Wl,-z,now", "-Wl,--build-id",
                      f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)


with support.scratch_folder() as folder:
    build(folder)
    program, tool = folder / "program", folder / "tool.so"
    passes, made, tunables = WAYS[way]
    own = {"config": f"[app]\nmatch = *\npasses = {passes}\n" + "[splice]\nlibrary =\n" * (way == "spliced"),
           "MVLD_TUNABLES": tunables, **support.moving(folder / "cache", program, *folder.glob("*.so"))}
    own["MVLD_PASS_PATH"] += f":{support.BUILD / 'tests' / 'loader' / 'manager' / 'splices'}"
    if way.startswith("linked"):
        for file in (program, *folder.glob("*.so")):
            os.link(file, f"{file}.link")
    plain = support.run([program, tool], MVLD="off")
    check(plain.stdout.endswith(f", {SEEN} seen\n"), plain.stdout + plain.stderr)
    if made:
        done = support.run([program], **{**own, "MVLD_SNAPSHOT": made})
        check(done.returncode == 0, done.stdout + done.stderr)
    hidden = support.run([program, tool], TELL_MAPPED=1, **own)
    check(hidden.stdout.endswith(", 0 seen\n"), f"calls were not direct: {hidden.stdout}{hidden.stderr}")
    check(("program" in support.from_snapshot(hidden)) == (made == "1"), hidden.stderr)
    if way == "unknown":  # an object whose analysis has gone since a snapshot was made
        own["MVLD_TUNABLES"] = "app.slot-writers=tool."
        done = support.run([program], **{**own, "MVLD_SNAPSHOT": "1"})
        check(done.returncode == 0, done.stdout + done.stderr)
        for analysis in (folder / "cache" / "mvld" / "analysis").glob("*/*.mvld"):
            analysis.unlink()
        done = support.run([program, tool], **own)
        check(done.stdout.startswith(plain.stdout.split(",")[0]), done.stdout)
        check("tool.so" in done.stderr and "MVLD=off" in done.stderr, f"not said: {done.stdout}{done.stderr}")
        sys.exit(0)
    # By the configuration's list, which is part of what a snapshot is for; then by mvld's own.
    listed = ":".join(filter(None, (tunables, "app.slot-writers=other, tool.")))
    own["MVLD_TUNABLES"] = listed
    if made:
        done = support.run([program], **{**own, "MVLD_SNAPSHOT": made})
        check(done.returncode == 0, done.stdout + done.stderr)
    if way == "preloaded":
        own["LD_PRELOAD"] = tool
        plain = support.run([program, tool], MVLD="off", LD_PRELOAD=tool)
        check(plain.stdout.endswith(f", {2 * SEEN} seen\n"), plain.stdout)
    done = support.run([program, tool], TELL_MAPPED=1, **own)
    check(done.stdout == plain.stdout, f"{done.stdout}, not {plain.stdout}{done.stderr}")
    check(("program" in support.from_snapshot(done)) == (made == "1"), done.stderr)
    quiet = support.run([program, tool], **own)
    check((quiet.stdout, quiet.stderr) == (plain.stdout, ""), quiet.stdout + quiet.stderr)
    own["MVLD_TUNABLES"] = tunables
    if way != "preloaded":
        for name in ("_memray.abi3.so", "libmcount-fast.so", "libasyncProfiler.so")[:1 if made else None]:
            tool = tool.rename(folder / name)
            done = support.run([program, tool], **own)
            check(done.stdout == plain.stdout, f"{name}: {done.stdout}, not {plain.stdout}{done.stderr}")
