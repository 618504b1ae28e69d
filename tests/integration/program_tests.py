#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""program_tests.py BEHAVIOUR [moved|snapshot]: one behaviour of a multiversed program in
several objects (program/), end to end under the built loader.  With "moved" its code moves
(direct-calls and concat come before multiverse), with "snapshot" it comes so from a
snapshot.

Each function below is one test; its text says what a failure means.  With
MVLD_CC=musl-gcc all of it is a program of musl's.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402

SOURCES = HERE / "program"
COMMITTED = "[app]\nmatch = {program}\npasses = multiverse\n[multiverse]\nset.mode = 1\n"
MANUAL = "[app]\nmatch = {program}\npasses = multiverse\n[multiverse]\ncommit = manual\n"


class Program:
    """mvld is its own loader, as after `mvld set-interp`."""

    def __init__(self, folder, way):
        kind = "musl-" if support.MUSL else ""
        for name in "libpoints.so", "libcalls.so", "liblate.so", "program":
            support.take(folder, "integration/program", f"{kind}{name}={name}")
        self.folder, self.path = folder, folder / "program"
        self.way = way
        self.environment = support.moving(
            folder, "--program", self.path, folder / "liblate.so") if way else {}
        if way == "snapshot":  # leave a snapshot
            self.run("constructor", config=MANUAL, prefix=[])

    def with_moved_code(self, config, environment):
        """The same with moved code, and where the log is: it must tell of that."""
        log = self.folder / "log"
        for old in self.folder.glob("log.*"):
            old.unlink()
        config = config.replace("passes = multiverse", support.MOVING +
                                ("\non-miss = build" if self.way == "snapshot" else "")) + support.COPY
        return config, {**self.environment, "MVLD_DEBUG": "passes,files",
                        "MVLD_DEBUG_OUTPUT": log, **environment}

    def check_moved(self, snapshot):
        said = "".join(path.read_text() for path in self.folder.glob("log.*"))
        if snapshot:
            check("pass concat: its work is in the snapshot" in said, said)
        else:
            check({"program", "libpoints.so", "libcalls.so"} <= {name for name, *_ in support.moved_code(said)}, said)

    def run(self, *arguments, config=None, prefix=(), **environment):
        images = self.folder / "mvld" / "snapshots"
        snapshot = self.way == "snapshot" and images.exists()
        if config is not None:
            config = config.format(program=self.path)
            if self.way:
                config, environment = self.with_moved_code(config, environment)
        done = support.run([*prefix, self.path, *arguments], config=config, **environment)
        check(done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        if self.way and config is not None:
            self.check_moved(snapshot)
        return done

    def says(self, expected, *arguments, **options):
        done = self.run(*arguments, **options)
        check(done.stdout.strip() == expected.strip(),
              f"it says\n{done.stdout}instead of\n{expected}\n{done.stderr}")
        return done


def constructor(program):
    """The initial commit comes too late, or not at all: a constructor must already run
    the variant for the value that the configuration sets."""
    program.says("run time: yes, mode 1, constructor saw 1, main sees 1", "constructor",
                 config=COMMITTED)


def manual(program):
    """`commit = manual` commits on its own."""
    program.says("run time: yes, mode 0, constructor saw 2, main sees 2", "constructor",
                 config=MANUAL)


# What the program says of commits by hand.
COMMITS = """commit mode=1: 1 function
switch 0: executable 1, library 11
commit_refs: 1
switch 2: executable 0, library 10
revert: 1
switch 2: executable 2, library 12
"""


def commit(program):
    """Commit and revert through dlsym do not reach every object of a program that is
    not linked with libmultiverse."""
    program.says(COMMITS, "commit", config=MANUAL)


def callsites(program):
    """Call sites in the executable and in a library are not known to one function."""
    program.says("""commit mode=1: 1 function
which: 3 variants, call sites >= 3, active yes""", "callsites", config=MANUAL)


def dlopen(program):
    """A library that comes by dlopen is not bound before its constructor, or one that
    went is still looked at."""
    # musl closes nothing, and no constructor runs again.
    again = 21 if support.MUSL else 20
    program.says(f"""commit mode=1: 1 function
opened: constructor 21, call 21
commit mode=0: 1 function
committed again: call 20
opened: constructor {again}, call 20
commit mode=1: 1 function
closed: executable 1, library 11
""", "dlopen", program.folder / "liblate.so", config=MANUAL)


def nested(program):
    """A body is copied into a call site as a commit left it, with another call taken out."""
    path = program.folder / "nested"
    support.compile_c(path, SOURCES / "nested.c", support.LIBRARY,
                      f"-Wl,-rpath,{support.LIBRARY.parent}")
    done = support.run([path])
    check(done.stdout == "counted 1\n", done.stdout + done.stderr)


def dlopen_first(program):
    """What a program opens is not bound when nothing attributed was there before: its switch
    is set, and nobody commits it."""
    library, path = program.folder / "libwhole.so", program.folder / "opens"
    support.compile_c(library, "-fPIC", "-shared", SOURCES / "whole.c")
    support.compile_c(path, SOURCES / "opens.c", "-ldl", f"-Wl,--dynamic-linker={support.LOADER}",
                      plugin=False)
    for config, said in ((COMMITTED, "mode 1, seen 1\n"), (MANUAL, "mode 0, seen 2\n")):
        done = support.run([path, library], config=config.format(program=path))
        check(done.stdout == said, f"{config}: {done.stdout}{done.stderr}")


def fork(program):
    """A child does not start with its parent's state, or changes it."""
    program.says("""commit mode=1: 1 function
child: 1
commit mode=0: 1 function
child after its commit: 0
status 0, parent: 1
""", "fork", config=MANUAL)


def exec_(program):
    """A program started by exec is not committed again."""
    program.says("run time: yes, mode 1, constructor saw 1, main sees 1", "exec", program.path,
                 config=COMMITTED)


def threads(program):
    """Threads that run call sites while they are patched see something else than a variant,
    or a call after a commit does not run the new one."""
    program.says("wrong 0, failed 0", "threads", config=MANUAL, timeout=60)


def environment(program):
    """The library that the loader adds shows in the program's environment or its children's."""
    program.says("run time: yes, in environ: 0, LD_PRELOAD: none\nin a child: none", "environment",
                 config=MANUAL)


def preload(program):
    """A user's own LD_PRELOAD is lost, or gets company."""
    own = program.folder / "libown.so"
    support.compile_c(own, "-shared", "-x", "c", "/dev/null", plugin=False)
    program.says(f"run time: yes, in environ: 0, LD_PRELOAD: {own}\nin a child: {own}",
                 "environment", config=MANUAL, LD_PRELOAD=own)


def off(program):
    """MVLD=off does not switch mvld off."""
    program.says("run time: no, mode 0, constructor saw 2, main sees 2", "constructor",
                 config=COMMITTED, MVLD="off")


def unconfigured(program):
    """A program that no configuration names is changed."""
    program.says("run time: no, mode 0, constructor saw 2, main sees 2", "constructor",
                 config=COMMITTED.replace("{program}", "/somewhere/else"))


def wrong_configuration(program):
    """A syntax error does not leave the program untransformed, or is not explained once with
    file and line."""
    for env in {}, {"MVLD_DEBUG": "patch"}:
        done = program.says("run time: no, mode 0, constructor saw 2, main sees 2", "constructor",
                            config=COMMITTED + "this is no key\n", **env)
        check(re.search("mvld: .*/mvld.conf:6: .*: the program runs untransformed\n", done.stderr)
              and done.stderr.count("\n") == 1, f"not one line, with {env}:\n{done.stderr}")


def wrong_switch(program):
    """A switch that the program does not have breaks it."""
    done = program.run("constructor", config=COMMITTED + "set.nothing = 1\n", MVLD_DEBUG="passes")
    check("nothing" in done.stderr, f"MVLD_DEBUG does not name the switch:\n{done.stderr}")


def direct(program):
    """ld-mvld.so.1 PROGRAM does not do what the program's own PT_INTERP does."""
    program.says("run time: yes, mode 1, constructor saw 1, main sees 1", "constructor",
                 config=COMMITTED, prefix=[support.LOADER])


def host_loader(program):
    """A multiversed program does not run under the plain ld.so."""
    program.says("run time: no, mode 0, constructor saw 2, main sees 2", "constructor",
                 prefix=[support.HOST_LOADER])


def host_loader_with_library(program):
    """Under the plain ld.so, libmultiverse does not find the descriptors itself."""
    program.says(COMMITS, "commit", prefix=[support.HOST_LOADER, "--preload", support.LIBRARY])


def near(program):
    """A library lies where a direct call from the executable does not reach it."""
    done = program.run("constructor", config=COMMITTED, **support.TELL_MAPPED)
    objects = support.bases(done)
    for name in "libpoints.so", "libcalls.so", support.LIBRARY.name:
        check(abs(objects[name] - objects["program"]) < 1 << 30, f"{name}: {done.stderr}")


def stands_back(program):
    """direct-calls, which knows glibc's rules of symbol look-up, changes a program of musl's;
    or does not say that it leaves it, or keeps another pass from its work."""
    config = COMMITTED.replace("= multiverse", "= direct-calls, multiverse")
    done = program.says("run time: yes, mode 1, constructor saw 1, main sees 1", "constructor",
                        config=config, MVLD_DEBUG="passes",
                        MVLD_PASS_PATH=f"{support.PASSES}:{support.BUILD}/passes/direct-calls")
    check(re.search(r"direct-calls: .*musl", done.stderr), done.stderr)


def without_library(program):
    """Where libmultiverse for musl is not installed, glibc's is loaded in its place, or the
    program does not run; or nobody says what is missing."""
    alone = program.folder / "passes"
    alone.mkdir()
    (alone / "multiverse.so").symlink_to(support.PASSES / "multiverse.so")
    (alone / "libmultiverse.so.1").symlink_to(support.PASSES / "libmultiverse.so.1")
    done = program.says("run time: no, mode 1, constructor saw 1, main sees 1", "constructor",
                        config=COMMITTED, MVLD_PASS_PATH=alone, MVLD_DEBUG="files")
    check("library 'musl/libmultiverse.so.1' of this pass" in done.stderr, done.stderr)


def main():
    behaviour = globals()[sys.argv[1]]
    support.need(support.PLUGIN)
    with support.scratch_folder() as folder:
        behaviour(Program(folder, sys.argv[2] if len(sys.argv) > 2 else ""))


if __name__ == "__main__":
    main()
