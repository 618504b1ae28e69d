#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""link.py PLUGIN INCLUDE LIBRARY [CLANG-PLUGIN]: the program in cases/link, linked by every linker
there is, in every way: sections collected, identical code folded, static,
static-pie, stripped, partially linked first, as a shared library, with LTO.  With
CLANG-PLUGIN clang compiles two of its three units.  A
failure means that a linker dropped a live record, kept one whose code is gone, or
joined tables wrongly."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases" / "link"
UNITS = ("main", "other", "strong")
LINKERS = [name for name in ("bfd", "gold", "lld", "mold")
           if shutil.which("mold" if name == "mold" else f"ld.{name}")]
WAYS = ["", "-Wl,--gc-sections", "-Wl,--gc-sections -static", "-Wl,--gc-sections -static-pie",
        "-no-pie -Wl,--gc-sections", "-Wl,-z,now -Wl,-O1 -s", "-Wl,--gc-sections -Wl,--icf=safe"]
UNABLE = {("bfd", "--icf=safe"), ("gold", "-static-pie")}
PLAIN = """
#include <stdio.h>
#include <string>
int main(int c, char **v)
{
    try { if (c > 9) throw 1; } catch (int) { return 1; }
    return puts(std::string(v[0]).c_str()) < 0;
}
"""
LIBRARIES = ["", "-Wl,-Bsymbolic", "-Wl,-z,now -Wl,--gc-sections"]


class Ways:
    """Compiles, links and runs in a folder of its own, and counts."""

    def __init__(self, plugin, include, library, folder, clang_plugin=None):
        self.flags = [f"-fplugin={plugin}", f"-I{include}"]
        self.by_clang = ["clang++", f"-fplugin={clang_plugin}", f"-I{include}", "-w"] if clang_plugin else None
        self.library, self.folder = library, Path(folder)
        self.good = self.bad = 0
        for name, options in (("descriptors", ["-fPIC", "-c", "-o", "descriptors.o"]),
                              ("launcher", ["-rdynamic", "-o", "launcher"])):
            self.run("gcc", "-O1", f"-I{include}", HERE / f"{name}.c", *options, check=True)

    def run(self, *command, check=False):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        if check and done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr

    def finish(self):
        print(f"{self.good} of {self.good + self.bad} ways good, linkers: {', '.join(LINKERS)}")
        return self.bad != 0

    def compile(self, *options):
        for unit in UNITS:
            compiler = self.by_clang if self.by_clang and unit != "other" else ["g++", *self.flags]
            self.run(*compiler, *options, "-c", CASES / f"{unit}.cc", "-o", f"{unit}.o",
                     check=True)

    def able(self, linker, way):
        """Whether such programs run at all: mold 2.37 over glibc 2.41 makes static-pie
        programs that crash before main, without the plugin too."""
        if "-static-pie" not in way:
            return True
        (self.folder / "plain.cc").write_text(PLAIN)
        status, _ = self.run("g++", "-O2", f"-fuse-ld={linker}", *way.split(), "plain.cc",
                             "-o", "plain")
        if not status:
            status, _ = self.run("./plain")
        if status:
            print(f"left out: {linker} {way}: a program without the plugin does not run either")
        return not status

    def link(self, said, *arguments, start=("./program",), expect=""):
        """Links and runs; `expect` must be in what the program prints."""
        command = ["g++", *arguments, "-o", "program"]
        status, text = self.run(*command)
        if not status:
            status, text = self.run(*start)
            status = status or expect not in text
        self.good += not status
        self.bad += bool(status)
        if status:
            print(f"{said}: {' '.join(map(str, command))}\n{text}", file=sys.stderr)


def programs(ways, options, linkers, manners):
    ways.compile(*options.split())
    ways.run("ld", "-r", "main.o", "other.o", "-o", "both.o", check=True)
    for linker in linkers:
        for way in manners:
            if any(linker == name and option in way for name, option in UNABLE) or \
                    not ways.able(linker, way):
                continue
            for objects in ["main.o", "other.o"], ["both.o"]:
                # lld alone really drops what only a table refers to.
                drops = linker == "lld" and "gc-sections" in way and \
                    "-ffunction-sections" in options and "both.o" not in objects
                ways.link(options, f"-fuse-ld={linker}", *way.split(), *objects, "strong.o",
                          "descriptors.o", ways.library / "libmultiverse.a",
                          expect="dead function dropped" if drops else "")


def shared_libraries(ways, options):
    """Weak and strong definitions, COMDAT functions and pointers inside a library."""
    ways.compile(*options.split(), '-Dmain=__attribute__((visibility("default"))) case_main')
    for linker in LINKERS:
        for way in LIBRARIES:
            ways.link(options, f"-fuse-ld={linker}", "-shared", *way.split(), "main.o", "other.o",
                      "strong.o", "descriptors.o", f"-L{ways.library}", "-lmultiverse",
                      f"-Wl,-rpath,{ways.library}", start=("./launcher", "./program"))


def link_time_optimised(ways, options):
    """COMDAT functions and weak definitions are resolved before code is generated."""
    ways.compile(*options.split())
    ways.link(options, *options.split(), *ways.flags, "main.o", "other.o", "strong.o",
              "descriptors.o", ways.library / "libmultiverse.a")


def main():
    places = [Path(a).resolve() for a in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        ways = Ways(*places[:3], folder, *places[3:])
        if ways.by_clang:
            programs(ways, "-O2 -ffunction-sections -fdata-sections", LINKERS, WAYS)
            programs(ways, "-O0", LINKERS[:1], WAYS)
            shared_libraries(ways, "-O2 -fPIC")
            return ways.finish()
        for options in ("-O2 -ffunction-sections -fdata-sections", "-O0", "-O2 -fno-plt"):
            programs(ways, options, LINKERS, WAYS)
        # These do not differ from the first three in their sections.
        for options in ("-O1", "-O3 -fPIC", "-Os -fno-pie"):
            programs(ways, options, LINKERS[:1], ["-no-pie"])
        for level in ("-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -fno-plt", "-O2 -fvisibility=hidden"):
            shared_libraries(ways, f"{level} -fPIC")
        for options in ("-O2 -flto", "-O0 -flto", "-O2 -flto -fno-plt -flto-partition=max",
                        "-O2 -flto -ffat-lto-objects -fuse-ld=gold", "-O2 -flto -fuse-ld=mold",
                        "-O2 -flto -ffunction-sections -Wl,--gc-sections -static"):
            linker = options.partition("-fuse-ld=")[2]
            if not linker or linker in LINKERS:
                link_time_optimised(ways, options)
    return ways.finish()


sys.exit(main())
