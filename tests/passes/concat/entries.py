#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""entries.py: which originals begin with a jump to where they moved, where most functions keep their
original addresses (entries/part.c): those that somebody may call by their address, and none that is
only called by name, whether the caller has moved itself or lies at a fixed address."""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent)]
import support  # noqa: E402
from support import check  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]
EXPECTED = ["by_name runs in moved code", "by_name begins with its code",
            "by_address runs in moved code", "by_address begins with a jump"]


def run(folder, *options):
    program, library, config = folder / "program", folder / "libpart.so", folder / "config"
    analysis = folder / "cache" / "mvld" / "analysis"
    support.compile_c(library, "-DLIBRARY", "-shared", "-fPIC", HERE / "entries" / "part.c",
                      plugin=False)
    support.compile_c(program, HERE / "entries" / "part.c", library, *options,
                      f"-Wl,-rpath,{folder}", f"-Wl,--dynamic-linker={support.LOADER}",
                      plugin=False)
    done = subprocess.run([support.BUILD / "tools" / "mvld", "analyze", "--output", analysis,
                           "--program", program], stdin=subprocess.DEVNULL, capture_output=True,
                          env=support.clean_environment(), text=True, timeout=60)
    check(done.returncode == 0, done.stdout + done.stderr)
    config.write_text(f"[app]\nmatch = {program}\npasses = direct-calls, concat\n{support.COPY}")
    done = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, env=support.clean_environment(
                              MVLD_CONFIG=config, XDG_CACHE_HOME=folder / "cache",
                              MVLD_PASS_PATH=":".join(map(str, PASSES))))
    check(done.returncode == 0 and done.stdout.splitlines() == EXPECTED,
          f"{options}: {done.returncode} {done.stdout}{done.stderr}")


def main():
    support.need(support.LOADER, PASSES[0] / "concat.so", PASSES[0] / "libconcat.so.1")
    for options in ("-fPIE", "-pie"), ("-fno-pie", "-no-pie"):
        with support.scratch_folder() as folder:
            run(folder, *options)


main()
