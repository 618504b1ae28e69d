#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""debug.py BEHAVIOUR: debuggers on a program under mvld (debug/); the same on the
same program under the host loader is the expectation.

Each function below is one test; its text says what a failure means.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402


class Programs:
    def __init__(self, folder):
        self.folder = folder
        self.plugin, self.plain, self.mvld = folder / "plugin.so", folder / "main-p", folder / "main-m"
        support.take(folder, "loader/start/debug", "plugin.so", "main-p", "main-m")

    def configured(self):
        config = self.folder / "config"
        config.write_text(f"[app]\nmatch = {self.mvld}\npasses = count\n")
        return {"MVLD_CONFIG": config, "MVLD_PASS_PATH": support.BUILD / "passes" / "example"}


def gdb(program, *commands, **environment):
    if not shutil.which("gdb"):
        support.skip("gdb is missing")
    words = ["gdb", "-q", "-nx", "-batch", "-ex", "set breakpoint pending on",
             "-ex", "set debuginfod enabled off"]
    for command in commands:
        words += ["-ex", command]
    done = subprocess.run([*words, str(program)], env=support.clean_environment(**environment),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", done.stdout + done.stderr)
    # Of frames, the functions: which values gdb can recover hangs on its luck.
    text = re.sub(r"^(#\d+) .*?([\w@<>]+) \(.*", r"\1 \2", text, flags=re.M)
    text = re.sub(r"\(process \d+\)", "(process)", text).replace("main-m", "main")
    return text.replace("main-p", "main").replace(str(LOADER), HOST_LOADER)


def libraries(text):
    """The library list, in any order, and the rest of the text."""
    listed = sorted(line for line in text.splitlines() if line.startswith("ADDRESS  "))
    return listed, [line for line in text.splitlines() if not line.startswith("ADDRESS  ")]


def same(programs, *commands, **environment):
    plain = libraries(gdb(programs.plain, *commands))
    mvld = libraries(gdb(programs.mvld, *commands, **environment))
    check(plain == mvld, "plain:\n" + "\n".join(plain[0] + plain[1]) +
          "\nmvld:\n" + "\n".join(mvld[0] + mvld[1]))
    return mvld


def pending(programs):
    """gdb does not see a dlopen: a breakpoint in the plugin is not hit, libraries are
    not listed or wrongly named, or a backtrace ends early."""
    for environment in {}, programs.configured():
        listed, text = same(programs, "break in_plugin", f"run {programs.plugin}", "backtrace",
                            "info sharedlibrary", "continue", **environment)
        check(len(listed) == (3 if support.GLIBC >= (2, 34) else 4) and any("Breakpoint 1, in_plugin" in line for line in text),
              "\n".join(listed + text))


def constructors(programs):
    """A constructor of a dlopen is called from another place than under the host loader:
    the functions between it and main differ, or gdb cannot unwind them."""
    for environment in {}, programs.configured():
        listed, text = same(programs, "break plugin_constructor", f"run {programs.plugin}",
                            "backtrace", "continue", **environment)
        check(any(re.match(r"#\d+ main$", line) for line in text), "\n".join(text))


def start(programs):
    """gdb does not know the libraries when main starts, or `start` misses main."""
    same(programs, "break main", f"run {programs.plugin}", "info sharedlibrary",
         "info symbol _dl_debug_state", "break plugin_constructor", "continue", "backtrace")


def directly(programs):
    """gdb on mvld itself, run with the program as its argument, does not see libraries."""
    text = gdb(LOADER, "break in_plugin", f"run {programs.plain} {programs.plugin}",
               "info sharedlibrary")
    check("Breakpoint 1, in_plugin" in text and "plugin.so" in text and "libc.so.6" in text, text)


def valgrind(programs):
    """valgrind does not run programs under mvld, or blames mvld, or misses an error."""
    if not shutil.which("valgrind"):
        support.skip("valgrind is missing")
    for environment in {}, programs.configured():
        for arguments, status in (([programs.plugin], 0), ([programs.plugin, "stray"], 9)):
            done = subprocess.run(["valgrind", "--error-exitcode=9", "--num-callers=20",
                                   str(programs.mvld), *map(str, arguments)], timeout=60,
                                  env=support.clean_environment(**environment), text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            check(done.returncode == status and ("in_plugin (plugin.c:" in done.stderr) ==
                  (status == 9), f"{done.returncode} {done.stderr}")


def main():
    support.need(LOADER)
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Programs(folder))


main()
