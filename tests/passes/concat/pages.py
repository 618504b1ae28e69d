# SPDX-License-Identifier: MIT
"""pages.py PROGRAM: with `pages = thp` the code of PROGRAM (pages.c) runs in huge pages, as many
as the log says; without, and from a frozen image, in none.  Skipped where the kernel has none.

A failure means that the option does nothing, or that the log is wrong.
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PASSES = support.BUILD / "passes" / "concat"


def start(program, folder, pages, **more):
    done = support.run([program], MVLD_PASS_PATH=PASSES, XDG_CACHE_HOME=folder,
                       MVLD_DEBUG="files,passes",
                       MVLD_TUNABLES=f"app.passes=concat:concat.pages={pages}", **more)
    check(done.returncode == 0, f"status {done.returncode}: {done.stderr}")
    return done


def run(program, folder, pages, said=r"concat: [1-9]\d* objects"):
    """(KB of huge pages in executable memory, the log)."""
    done = start(program, folder, pages)
    huge, two = map(int, done.stdout.split())
    check(two == 2, done.stdout)
    check(re.search(said, done.stderr), done.stderr)
    return huge, done.stderr


def main():
    with support.scratch_folder() as folder:
        program = shutil.copy(sys.argv[1], folder)
        analyses = folder / "mvld" / "analysis"
        for command in (["set-interp", "--loader", support.LOADER, program],
                        ["analyze", "--output", analyses, "--program", program]):
            done = support.run([MVLD, *command])
            check(done.returncode == 0, done.stdout + done.stderr)
        huge, log = run(program, folder, "small")
        check(huge == 0 and "huge pages" not in log, f"{huge} KB of huge pages were not asked for")
        huge, log = run(program, folder, "thp")
        said = re.search(r"(\d+) huge pages of (\d+) that the code fills(: .*)?", log)
        check(said and int(said[2]) >= 2, log)
        check(huge == 2048 * int(said[1]), f"{huge} KB of huge pages, but: {said[0]}")
        start(program, folder, "thp", MVLD_FREEZE="1")
        frozen, log = run(program, folder, "thp", r"thawed, the code of [1-9]")
        check(frozen == 0, "an image has huge pages that nobody said it has")
        if said[1] == "0":
            support.skip(said[0])
        print(said[0])


main()
