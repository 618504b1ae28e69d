#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""outside.py BEHAVIOUR PREFIX LIBDIR: the passes that passes/README.md shows, by somebody who has mvld
installed, and no checkout.

mvld is installed below a scratch folder.  Each pass is taken out of the text and built there, as the
text says; it finds installed headers alone, and programs run under the installed loader.  Each
function below is one test; its text says what a failure means.
"""
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "loader" / "manager")]
import support  # noqa: E402
from new_sections import calls_counted  # noqa: E402
from support import check  # noqa: E402

LINES = 200
CALLS = 1234
HEADER = "extern \"C\" { int called(int); int other(int); int through(int (*)(int)); void tell(); }\n"
PROGRAM = HEADER + """
#include <cstdio>
static int thrower(int n) { throw n; }
static int telling(int) { tell(); return 0; }
int main(int argc, char **)
{
    for (int i = 0; i < CALLS; i++)
        called(i);
    std::printf("called %d\\n", called(1));
    through(telling);
    try { through(thrower); } catch (int n) { std::printf("caught %d\\n", n); }
    try { called(-1); } catch (const char *text) { std::printf("caught %s\\n", text); }
    std::fflush(stdout);
    return argc > 1 && std::getchar() == EOF;
}
"""
LIBRARY = HEADER + """
#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
int called(int n) { if (n < 0) throw "it"; return n; }
int through(int (*f)(int)) { return f(7) + 1; }
void tell()  /* who called whom from where */
{
    void *at[32];
    for (int i = 0, n = backtrace(at, 32); i < n; i++) {
        Dl_info info;
        int known = dladdr(at[i], &info);
        std::printf("frame %s+%lx\\n", known ? info.dli_fname : "?",
                    (long)((char *)at[i] - (known ? (char *)info.dli_fbase : 0)));
    }
}
"""
OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        puts(dlopen(argv[i], RTLD_NOW) ? "opened" : "refused");
    return 0;
}
"""
OTHER = HEADER + "int other(int) { return 100; }\nint called(int) { return 200; }\n"


def did(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=support.clean_environment(), **more)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


class World:
    def __init__(self, folder, prefix, libdir):
        if not shutil.which("meson") or not shutil.which("g++"):
            support.skip("no meson or no g++")
        self.folder = folder
        root = folder / "root"
        did(["meson", "install", "-C", support.BUILD, "--no-rebuild", "--quiet", "--destdir", root])
        self.pkg_config = f"PKG_CONFIG_PATH={root}{libdir}/pkgconfig", f"PKG_CONFIG_SYSROOT_DIR={root}"
        self.mvld, self.loader = f"{root}{prefix}/bin/mvld", f"{root}{libdir}/mvld/ld-mvld.so.1"
        self.documentation = Path(f"{root}{prefix}/share/doc/mvld/passes")
        check((self.documentation / "README.md").exists(), "passes/README.md is not installed")
        readme = (self.documentation / "README.md").read_text()
        self.command = next(block for block in re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S)
                            if "-o NAME.so" in block).replace("\\\n", " ").splitlines()[0]
        self.blocks = dict(re.findall(r"^```c (\S+)\.c\n(.*?)^```$", readme, re.M | re.S))
        for name, text in (("main", PROGRAM), ("called", LIBRARY), ("other", OTHER)):
            (folder / f"{name}.cc").write_text(text)
        for name in ("called", "other"):
            did(["g++", "-O2", "-shared", "-fPIC", "-Wl,--build-id", "-o", folder / f"lib{name}.so",
                 folder / f"{name}.cc", *support.LIBC])
        self.program = folder / "main"
        did(["g++", "-O2", f"-DCALLS={CALLS}", "-Wl,--build-id", "-Wl,--no-as-needed", "-o", self.program,
             folder / "main.cc", f"-L{folder}", "-lcalled", "-lother", "-Wl,-rpath,$ORIGIN", "-Wl,-z,now"])

    def build(self, name):
        """As the text says, in a folder of its own."""
        source = self.documentation / "example" / f"{name}.c"
        check(source.exists(), f"{name}.c is not installed")
        text = source.read_text()
        check(text.count("\n") <= LINES, f"{name}.c has {text.count(chr(10))} lines")
        check(self.blocks.get(name, text) == text, f"passes/README.md shows another {name}.c than is installed beside it")
        (self.folder / f"{name}.c").write_text(text)
        command = self.command.replace("NAME", name) + " -Wall -Wextra -Werror"
        did(["env", *self.pkg_config, "sh", "-c", command], cwd=self.folder)

    def run(self, name, options="", command=None, **more):
        config = f"[app]\nmatch = main\npasses = {name}\n[{name}]\n{options}"
        return support.run(command or [self.loader, self.program], config=config,
                           MVLD_PASS_PATH=self.folder, **more)

    def plain(self):
        return support.run([self.program]).stdout


def refuses(world):
    """verify.c: what is listed runs; a program of which one file is not listed does not."""
    world.build("verify")
    files = [world.program, *(world.folder / f"lib{name}.so" for name in ("called", "other"))]
    for line in subprocess.run(["ldd", world.program], capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        files += [words[2]] if len(words) > 2 and words[2].startswith("/") else []

    def listed(paths):
        return "".join(f"allow.{i} = {hashlib.blake2b(Path(path).read_bytes(), digest_size=32).hexdigest()}\n"
                       for i, path in enumerate(paths))

    done = world.run("verify", listed(files))
    check(done.returncode == 0 and done.stdout == world.plain(), f"all listed: {done}")
    done = world.run("verify", listed(path for path in files if "libother" not in str(path)))
    check(done.returncode == 127 and not done.stdout and "libother.so: its digest is not listed" in done.stderr,
          f"one is not listed: {done}")
    # By dlopen: the program runs on, and is told.
    (world.folder / "opens.c").write_text(OPENS)
    did(["gcc", "-o", world.folder / "main", world.folder / "opens.c", "-Wl,--build-id", *support.LIBC])
    (world.folder / "late.c").write_text("int late;")
    for stack in ("no", ""):
        did(["gcc", "-shared", "-fPIC", f"-Wl,-z,{stack}execstack", "-o", world.folder / f"lib{stack}stack.so",
             world.folder / "late.c"])
    late = [world.folder / f"lib{stack}stack.so" for stack in ("no", "")]
    for strict in ("yes", "no"):
        # An executable stack is what newer hosts refuse by themselves.
        done = world.run("verify", f"strict = {strict}\n" + listed([*files, *late]),
                         command=[world.loader, world.program, *late])
        said = done.stdout.splitlines()
        check(done.returncode == 0 and said[0] == "opened" and (strict == "no" or said[1] == "refused"), f"{strict}: {done}")
        check(("libstack.so: it may write what it executes" in done.stderr) == (strict == "yes"), f"{strict}: {done}")
    done = world.run("verify", listed(files), command=[world.loader, world.program, late[0]])
    check(done.returncode == 0 and done.stdout == "refused\n" and "its digest is not listed" in done.stderr, f"{done}")


def binds(world):
    """bind.c: calls of one library's function go to the other's, also of one that is found through a link; those of
    a hidden one to the next that is there."""
    world.build("bind")
    (world.folder / "libother.so").rename(world.folder / "libother.so.1.2")
    (world.folder / "libother.so").symlink_to("libother.so.1.2")
    done = world.run("bind", "from = libcalled.so:called\nto = libother.so:other\n")
    check(done.returncode == 0 and "called 100\n" in done.stdout and "caught it" not in done.stdout, f"{done}")
    done = world.run("bind", "from = libcalled.so:called\n")
    check(done.returncode == 0 and "called 200\n" in done.stdout and "caught it" not in done.stdout, f"{done}")
    done = world.run("bind", "from = libcalled.so:nothing\nto = libother.so:other\n")
    check(done.returncode == 0 and done.stdout == world.plain(), f"{done}")


def counts(world):
    """count-calls.c: the counter is the number of calls, and exceptions and backtraces go through
    calls that are counted as through those that are not."""
    world.build("count-calls")
    did([world.mvld, "analyze", "--output", world.folder / "mvld" / "analysis", world.program,
         world.folder / "libcalled.so"])
    plain, log = world.plain(), world.folder / "log"
    (world.folder / "conf").write_text("[app]\nmatch = main\npasses = count-calls\n")
    env = support.clean_environment(XDG_CACHE_HOME=world.folder, MVLD_PASS_PATH=world.folder,
                                    MVLD_CONFIG=world.folder / "conf", MVLD_DEBUG="passes", MVLD_DEBUG_OUTPUT=log)
    with subprocess.Popen([world.loader, str(world.program), "wait"], stdin=subprocess.PIPE, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = "".join(process.stdout.readline() for _ in plain.splitlines())
        text = Path(f"{log}.{process.pid}").read_text()
        counted = calls_counted(process, text, world.program)
        process.communicate("\n")
    check(said == plain and "caught 7\n" in said and "caught it\n" in said,
          f"under mvld:\n{said}plainly:\n{plain}")
    check(any(f"{world.program}+" in line for line in said.splitlines()), f"no frame of the program:\n{said}")
    check(process.returncode == 0 and counted == CALLS + 2, f"{counted} calls counted of {CALLS + 2}\n{text}")


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        {"refuses": refuses, "binds": binds, "counts": counts}[sys.argv[1]](World(scratch, *sys.argv[2:4]))
