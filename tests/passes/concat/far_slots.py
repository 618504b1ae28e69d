#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""far_slots.py: code moves of a program whose slots lie so far apart that its calls are not made direct."""
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent.parent)]
import support  # noqa: E402
from support import check  # noqa: E402

PASSES = [support.BUILD / "passes" / name for name in ("concat", "direct-calls")]
# getenv's slot is in .got, as its address is taken; that of atoi is in .got.plt.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    char *(*volatile get)(const char *) = getenv;

    printf("%d %d\\n", atoi("7") + atoi(getenv("SEVEN")), (unsigned char *)(void *)main == (unsigned char *)get);
    return 0;
}
"""


def run(folder, passes):
    program, config = folder / "program", folder / "config"
    config.write_text(f"[app]\nmatch = {program}\npasses = {passes}\n{support.COPY}")
    done = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          env=support.clean_environment(
                              MVLD_CONFIG=config, XDG_CACHE_HOME=folder / "cache", SEVEN="7", MVLD_DEBUG="passes",
                              MVLD_PASS_PATH=":".join(map(str, PASSES))))
    check(done.returncode == 0 and done.stdout == "14 0\n", f"{passes}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stderr


def main():
    support.need(support.LOADER, PASSES[0] / "concat.so", PASSES[1] / "direct-calls.so")
    with support.scratch_folder() as folder:
        source = folder / "program.c"
        source.write_text(SOURCE)
        support.compile_c(folder / "program", source, "-Wl,-z,lazy,--section-start=.got.plt=0x1000000",
                          f"-Wl,--dynamic-linker={support.LOADER}", plugin=False)
        subprocess.run([support.BUILD / "tools" / "mvld", "analyze", "--output", folder / "cache" / "mvld" / "analysis",
                        "--program", folder / "program"], stdin=subprocess.DEVNULL, check=True, capture_output=True,
                       env=support.clean_environment(), timeout=60)
        for passes in "concat", "direct-calls", "direct-calls, concat":
            said = run(folder, passes)
            if "concat" in passes:
                check(f"{folder / 'program'}: stays" not in said and " moved to " in said, said)
            if "direct-calls" in passes:
                check("too far apart" in said, said)


main()
