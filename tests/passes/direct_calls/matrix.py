# SPDX-License-Identifier: MIT
"""A program that calls in every way, built by each compiler and linker, bound lazily or not:
it does under direct-calls what it does under the plain ld.so, and its code is what it
should be, byte for byte.

A failure means: a direct call goes elsewhere than the call that it replaced.

Arguments: a compiler, a linker.  MVLD_BUILD is the build folder.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import memory
import support
from support import check

HERE = Path(__file__).resolve().parent
compiler, linker = sys.argv[1:]
cc, cxx = {"gcc": (support.CC, support.CC.replace("gcc", "g++")),
           "clang": ("clang", "clang++")}[compiler]
for needed in (cc, cxx, "ld." + linker):
    if not shutil.which(needed):
        support.skip("no " + needed)
MVLD = support.BUILD / "tools" / "mvld"
PASSES = support.BUILD / "passes" / "direct-calls"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
# name -> (flags of the compiler, flags of the linker)
WAYS = {
    "lazy": ([], ["-Wl,-z,lazy"]),
    "now": ([], ["-Wl,-z,now", "-Wl,-z,relro"]),
    "no-plt": (["-fno-plt"], ["-Wl,-z,now"]),
    "ibt": (["-fcf-protection"], ["-Wl,-z,lazy", "-Wl,-z,ibtplt"]),
    "non-pie": (["-fno-pie", "-fno-pic"], ["-no-pie", "-Wl,-z,lazy"]),
}


def tool(*command, cwd=None):
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, cwd=cwd,
                          timeout=120)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder, way):
    c, link = WAYS[way]
    link = [f for f in link if linker == "bfd" or "ibtplt" not in f]
    if linker != "bfd" and way == "ibt":
        link.append("-Wl,-z,force-ibt" if linker == "lld" else "-Wl,-z,lazy")
    fast = ["-O2", "-g0", "-fsemantic-interposition"]
    if compiler == "clang":
        fast.append("-Wno-unused-command-line-argument")
    pic = [f for f in c if "pi" not in f]
    use = [f"-fuse-ld={linker}"]
    rpath = ["-Wl,-rpath,$ORIGIN", "-L."]
    tool(cc, *fast, *pic, "-fPIC", "-shared", *use, *link[-1:], "-Wl,--version-script",
         HERE / "programs" / "library.map", "-o", "liblibrary.so", HERE / "programs" / "library.c", cwd=folder)
    tool(cc, *fast, *pic, "-fPIC", "-shared", *use, "-DPLUGIN", "-o", "libplugin.so",
         HERE / "programs" / "library.c", *rpath, "-llibrary", cwd=folder)
    tool(cc, *fast, "-fPIC", "-shared", "-o", "interposer.so", HERE / "programs" / "interposer.c", cwd=folder)
    tool(cc, *fast, "-fPIC", "-shared", "-o", "dump.so", HERE / "programs" / "dump.c", cwd=folder)
    tool(cxx, *fast, *c, *(link if "-no-pie" in link else ["-fPIE", "-pie", *link]), *use,
         *(["-DNO_UNIQUE"] if linker == "mold" else []), "-rdynamic", "-o", "main",
         HERE / "programs" / "main.cc", HERE / "programs" / "tails.S", *rpath, "-llibrary", "-pthread", *support.LIBC, "-Wl,--dynamic-linker=" + str(support.LOADER), cwd=folder)
    return folder / "main"


def analyse(folder, *files):
    cache = folder / "cache"
    tool(MVLD, "analyze", "--output", cache / "mvld" / "analysis", *files)
    return cache


def one(folder, way):
    program = build(folder, way)
    plugin = folder / "libplugin.so"
    cache = analyse(folder, folder / "liblibrary.so", plugin, program)
    own = {"XDG_CACHE_HOME": cache, "MVLD_PASS_PATH": PASSES}
    for preload in ({}, {"LD_PRELOAD": folder / "interposer.so"}):
        watched = {**support.TELL_MAPPED,
                   "LD_PRELOAD": " ".join(map(str, [*preload.values(), support.TELL_MAPPED["LD_PRELOAD"]]))}
        for arguments in ([plugin], [plugin, "threads"]):
            plain = support.run([program, *arguments], MVLD="off", **preload)
            with_pass = support.run([program, *arguments], config=CONFIG, MVLD_DEBUG="passes", **own, **watched)
            check("plugin: 501\n" in plain.stdout and "plugin: 502\n" in plain.stdout,
                  f"{linker} {way}: {plain.stdout}{plain.stderr}")
            check((plain.returncode, plain.stdout) == (with_pass.returncode, with_pass.stdout),
                  f"{linker} {way} {preload}: {plain.stdout}became {with_pass.returncode} "
                  f"{with_pass.stdout}{with_pass.stderr}")
            made = support.changed(with_pass, "main")[0]
            check(made >= 20, f"{linker} {way}: {made}\n{with_pass.stderr}")
            # It is closed again, so nothing else tells of it.
            check(re.search(r"libplugin.so: [1-9]\d* of", with_pass.stderr),
                  f"{linker} {way}: nothing of the plugin\n{with_pass.stderr}")
        dump = dict(config=CONFIG, dump=folder / "dump.so", folder=folder,
                    arguments=[plugin], **own, **preload)
        now = memory.take(program, LD_BIND_NOW="1", **dump)
        lazy = memory.take(program, **dump)
        n = memory.check_targets(now)
        check(n >= 20, f"{linker} {way}: {n} sites")
        foreseen, bound = memory.direct_sites(lazy), memory.direct_sites(now)
        for site, target in foreseen.items():
            check(bound.get(site) == target, f"{linker} {way}: {site} leads to {target}, bound "
                                             f"at start to {bound.get(site)}")
        print(f"{compiler} {linker} {way}: {n} sites, {len(foreseen)} of them when lazy")


for way in WAYS:
    with support.scratch_folder() as folder:
        one(folder, way)
