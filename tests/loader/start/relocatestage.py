#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""relocatestage.py BEHAVIOUR: symbols that a pass binds elsewhere (passes/example/bind.c) or hides
(relocatestage/hide.c); and objects that go (relocatestage/remember.c), and what objects are called (relocatestage/names.c).

Each function below is one test; its text says what a failure means.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

SOURCES = HERE / "relocatestage"
PROGRAM = (SOURCES / "main.c").read_text()


class World:
    def __init__(self, folder):
        self.folder = folder
        support.take(folder, "loader/start/relocatestage", "bind.so", "hide.so", "remember.so", "names.so",
                     *(f"lib{name}.so" for name in ("first", "second", "late", "mine")))
        (folder / "main.c").write_text(PROGRAM)

    def program(self, *options):
        support.compile_c(self.folder / "main", self.folder / "main.c", "-L" + str(self.folder), "-lfirst",
                          "-lsecond", "-Wl,-rpath,$ORIGIN", f"-Wl,--dynamic-linker={LOADER}", *options,
                          plugin=False)
        return self.folder / "main"

    def run(self, program, *arguments, first=(), passes="bind", more="", **environment):
        config = f"[app]\nmatch = main\npasses = {passes}\n{more}"
        return support.run([*first, program, *arguments], config=config,
                           MVLD_PASS_PATH=f"{self.folder}:{support.BUILD}/passes/direct-calls", **environment)


BIND = "[bind]\nfrom = libfirst.so:answer\nto = libsecond.so:other\n"


def says(done, text):
    check(done.returncode == 0 and done.stdout == text + "\n" and not done.stderr,
          f"status {done.returncode}, {done.stdout}{done.stderr} instead of {text}")


def logged(world, program, arguments=(), **options):
    """The finished process, and what passes said in it."""
    done = world.run(program, *arguments, MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=world.folder / "log", **options)
    logs = list(world.folder.glob("log.*"))
    log = "".join(path.read_text() for path in logs)
    for path in logs:
        path.unlink()
    return done, log


def bound(world):
    """Calls, pointers and dlsym reach the other function, in programs of every kind of binding; other symbols are bound as
    before."""
    for options in (["-Wl,-z,now"], ["-Wl,-z,lazy"], ["-no-pie", "-fno-pie"], ["-fno-plt"]):
        program = world.program(*options)
        says(world.run(program, passes="bind", more=BIND), "2 2 2 2 2")
        says(world.run(program, passes="bind", more=BIND, first=[LOADER]), "2 2 2 2 2")
        says(world.run(program, passes="bind", more=BIND.replace("libsecond.so:other", "libsecond.so:nothing")),
             "1 1 1 1 2")
        says(world.run(program, more=BIND, MVLD="off"), "1 1 1 1 2")


def later(world):
    """What comes by dlopen is bound as well, to what was there and to what comes along."""
    program = world.program("-Wl,--no-as-needed")
    says(world.run(program, world.folder / "liblate.so", more=BIND), "2")
    both = "[bind]\nfrom = liblate.so:late\nto = libsecond.so:other\n"
    says(world.run(program, world.folder / "liblate.so", more=both), "2")


APART = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int other(void);
static int late_of(void *handle)
{
    int (*late)(void) = handle ? dlsym(handle, "late") : NULL;
    return late ? late() : -1;
}
int main(int argc, char **argv)
{
    int apart = late_of(dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW));
    printf("%d %d\\n", apart, late_of(dlopen(argv[argc - 1], RTLD_NOW)));
    return other() != 2;
}
"""


def apart(world):
    """In a namespace that the program makes no symbol leads to an object of another one, and none is hidden; also under
    an auditor, which has a namespace as well."""
    (world.folder / "main.c").write_text(APART)
    library(world, ".", "audit", "unsigned la_version(unsigned v) { return v; }\n")
    program = world.program("-Wl,--no-as-needed")
    for passes, more, expected in (("bind", "[bind]\nfrom = liblate.so:late\nto = libsecond.so:other\n", "1 2"),
                                   ("hide", "[hide]\nsymbol = late\nlibrary = liblate.so\n", "1 -1")):
        for audit in ({}, {"LD_AUDIT": world.folder / "libaudit.so"}):
            for first in ([], [LOADER]):
                says(world.run(program, world.folder / "liblate.so", passes=passes, more=more, first=first, **audit),
                     expected)


UNREADABLE = """
PHDRS { head PT_LOAD FILEHDR FLAGS(0); text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); dynamic PT_DYNAMIC;
  stack PT_GNU_STACK FLAGS(6); } /* without it, glibc 2.41 refuses to open the library */
SECTIONS {
  . = SIZEOF_HEADERS; . = ALIGN(4096);
  .headers : { *(.headers) } :text .gnu.hash : { *(.gnu.hash) } :text
  .dynsym : { *(.dynsym) } :text .dynstr : { *(.dynstr) } :text .text : { *(.text .eh_frame) } :text
  . = ALIGN(4096);
  .dynamic : { *(.dynamic) } :data :dynamic
  /DISCARD/ : { *(.note*) }
}
"""


def unreadable(world):
    """mvld reads the ELF header in memory of an object that cannot be read there, and has its program headers elsewhere."""
    (world.folder / "script").write_text(UNREADABLE)
    path = world.folder / "liblate.so"
    library(world, ".", "late", 'int late(void) { return 1; }\n'
            '__attribute__((used, section(".headers"))) const char headers[5 * 56] = {1};\n',
            "-nostdlib", f"-Wl,-T,{world.folder}/script")
    image = bytearray(path.read_bytes())
    image[0x1000:0x1000 + 5 * 56] = image[64:64 + 5 * 56]
    image[32:40] = (0x1000).to_bytes(8, "little")
    path.write_bytes(image)
    program = world.program("-Wl,--no-as-needed")
    for more in {"MVLD": "off"}, {}:
        says(world.run(program, path, passes="hide", more="[hide]\nsymbol = late\nlibrary = liblate.so\n", **more), "1")


def hidden(world):
    """A definition that is hidden is found by nobody: the next one in the order of look-up is."""
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine")
    hide = "[hide]\nsymbol = answer\nlibrary = libfirst.so\n"
    says(world.run(program, passes="hide", more=hide), "3 3 3 3 2")
    says(world.run(program, passes="hide", more=hide.replace("answer", "nothing")), "1 1 1 1 2")


def wrong(world):
    """Wrong edits change nothing, all of the same pass included, and say which symbol is meant."""
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine")
    for kind, words in (("variable", "only functions"), ("twice", "already"), ("stage", "relocate alone"),
                        ("missing", "nobody_defines_this: the object does not define it")):
        done, log = logged(world, program, passes="hide",
                           more=f"[hide]\nsymbol = answer\nlibrary = libfirst.so\nwrong = {kind}\n")
        says(done, "1 1 1 1 2" if kind != "stage" else "3 3 3 3 2")
        check(words in log and ("libfirst.so" in log or "libc.so" in log), log)


def many(world):
    """A hundred thousand definitions are hidden in seconds, and all of them."""
    lines = "".join(f".globl f{i}\n.type f{i},@function\nf{i}:\n" for i in range(100000))
    (world.folder / "mine.s").write_text(".text\n" + lines + ".globl answer\n.type answer,@function\nanswer:\n"
                                         "mov $3, %eax\nret\n.section .note.GNU-stack\n")
    support.compile_c(world.folder / "libfirst.so", "-shared", world.folder / "mine.s", "-nostdlib", plugin=False)
    (world.folder / "main.c").write_text(PROGRAM.replace("through()", "0"))
    program = world.program("-Wl,-z,now", "-Wl,--no-as-needed,-lmine", "-Wl,--allow-shlib-undefined")
    (world.folder / "mine.c").write_text("int answer(void) { return 5; }\n")
    support.compile_c(world.folder / "libmine.so", "-shared", "-fPIC", world.folder / "mine.c", plugin=False)
    says(world.run(program, passes="hide", more="[hide]\nlibrary = libmine.so\nwrong = all\n"), "3 0 3 3 2")
    done = world.run(program, passes="hide", MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=world.folder / "log",
                     more="[hide]\nlibrary = libfirst.so\nwrong = all\n")
    log = "".join(path.read_text() for path in world.folder.glob("log.*"))
    says(done, "5 0 5 5 2")
    check(re.search(r"hide: 10000[1-9] symbols", log), log)


def library(world, folder, name, source, *options, version=None):
    (world.folder / "made.c").write_text(source)
    (world.folder / "made.map").write_text(f"{version} {{ global: *; }};\n")
    (world.folder / folder).mkdir(exist_ok=True)
    options += (f"-Wl,--version-script={world.folder}/made.map",) if version else ()
    support.compile_c(world.folder / folder / f"lib{name}.so", "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so",
                      world.folder / "made.c", *options, plugin=False)


AGAIN = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static char **files;
static void *again(void *unused)
{
    for (int i = 0; i < 50; i++)
        for (char **file = files; *file; file++) {
            void *late = dlopen(*file, RTLD_NOW);
            if (late)
                dlclose(late);
        }
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[3];
    files = argv + 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, again, 0);
    again(0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return printf("%d\\n", argc) < 0;
}
"""


def again(world):
    """A pass with `relocate` reads symbols of what is mapped, and of nothing else: libraries are closed and opened
    again, by several threads; a dlopen fails when a part of it is mapped; and LD_PRELOAD names a file that the host
    loader maps in vain.  The pass is told of all that go, once."""
    library(world, ".", "broken", "int missing(void);\nint broken(void) { return missing(); }\n",
            "-L" + str(world.folder), "-lmine", "-Wl,-z,now,-rpath,$ORIGIN,--no-as-needed")
    (world.folder / "main.c").write_text(AGAIN)
    program = world.program("-pthread")
    files = [world.folder / f"lib{name}.so" for name in ("late", "broken", "mine")]
    for passes, more in (("remember", ""), ("bind", BIND.replace("first", "mine").replace("answer", "none")),
                         ("hide", "[hide]\nsymbol = answer\nlibrary = libmine.so\n")):
        for vain in ({}, {"LD_PRELOAD": program}):
            done = world.run(program, *files, passes=passes, more=more, **vain)
            check(done.returncode == 0 and done.stdout == "4\n", f"{passes}, {vain}: {done}")


def named(world):
    """An object has one name in all stages, the one by which the host loader found it, and beside it its real
    path; of libraries that are links, at the start, by dlopen, and found beside the folder that the program is in.
    `later` tells in each stage what came by dlopen."""
    for name in ("first", "late"):
        (world.folder / f"lib{name}.so").rename(world.folder / f"lib{name}.so.1.2")
        (world.folder / f"lib{name}.so").symlink_to(f"lib{name}.so.1.2")
    for options, first, late in (((), [], world.folder / "liblate.so"), ((), [LOADER], "./liblate.so"),
                                 (["-no-pie", "-fno-pie"], [], "./liblate.so"),
                                 (["-no-pie", "-fno-pie"], [LOADER], "./liblate.so")):
        program = world.program("-Wl,--no-as-needed", *options)
        done, log = logged(world, program, arguments=[late], passes="names",
                           first=["env", "-C", world.folder, *first])
        says(done, "1")
        said = re.findall(r"names: (.*?)(?: = (.*))?$", log, re.M)
        for name, path in ((world.folder / "libfirst.so", world.folder / "libfirst.so.1.2"),
                           (late, world.folder / "liblate.so.1.2")):
            paths = [real for called, real in said if called == str(name)]
            check(sorted(paths) == ["", "", str(path)], log)
            check(str(path) not in [called for called, _ in said], log)
        check(len([real for called, real in said if called == str(program)]) == 3, log)
        later_ones = set(re.findall(r"later: 1 (.*)$", log, re.M))
        check(later_ones == {str(late)} and f"later: 0 {late}" not in log, log)


def unmatched(world):
    """A setting that names a symbol which nobody defines is said, with its place: by `mvld pipeline`, and at the end
    of the start by MVLD_DEBUG; one that a library defines, found through a link, is not.  One that is no LIBRARY:SYMBOL is refused."""
    (world.folder / "libfirst.so").rename(world.folder / "libfirst.so.1.2")
    (world.folder / "libfirst.so").symlink_to("libfirst.so.1.2")
    program = world.program()
    for to, where, expected in (("libsecond.so:other", "", "2 2 2 2 2"), ("libsecond.so:nothing", "bind.to", "1 1 1 1 2"),
                                ("libthird.so:other", "bind.to", "1 1 1 1 2")):
        more = BIND.replace("libsecond.so:other", to)
        done, log = logged(world, program, more=more)
        says(done, expected)
        said = re.findall(r"mvld.conf:(\d+): (bind.\w+) = (\S+): no object of the start", log)
        check(said == ([("6", where, to)] if where else []), log)
        (world.folder / "conf").write_text(f"[app]\nmatch = main\npasses = bind\n{more}")
        done = support.run([support.BUILD / "tools" / "mvld", "pipeline", "--config", world.folder / "conf", program],
                           MVLD_PASS_PATH=world.folder)
        check(done.returncode == 0 and not done.stderr, f"{done}")
        said = re.findall(r"^; (bind.\w+) = (\S+): neither", done.stdout, re.M)
        check(said == ([(where, to)] if where else []), done.stdout)
    for text in ("libsecond.so", ":other", "libsecond.so:"):
        done = world.run(program, more=BIND.replace("libsecond.so:other", text))
        check(done.stdout == "1 1 1 1 2\n" and f"bind.to is LIBRARY:SYMBOL, not '{text}'" in done.stderr, f"{done}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"bound": bound, "later": later, "apart": apart, "unreadable": unreadable, "hidden": hidden, "wrong": wrong, "many": many, "again": again,
         "named": named, "unmatched": unmatched}[sys.argv[1]](World(scratch))
