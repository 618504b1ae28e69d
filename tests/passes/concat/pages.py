# SPDX-License-Identifier: MIT
"""pages.py PROGRAM CASE [LIBRARY]: the code of PROGRAM (pages.c) runs in pages as configured, as many huge
ones as the log says, and the rest in small ones.

    thp      of the kernel; skipped where it has none
    quick    the default: of the kernel, where its setting has them; none in a snapshot
    snapshot from a snapshot, thp
    shared   the same, PROGRAM being linked for 2 MiB; skipped where the filesystem keeps files in
             small pages
    fixed    the same, PROGRAM being at a fixed address and its code in a LIBRARY, with
             `placement = huge`

A failure means that the option does nothing, that the log is wrong, or that a program dies
where pages are short.
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
PLACEMENT = "huge" if sys.argv[2] == "fixed" else "near"


def start(program, folder, pages, **more):
    done = support.run([program], MVLD_PASS_PATH=PASSES, XDG_CACHE_HOME=folder,
                       MVLD_DEBUG="files,passes", LD_LIBRARY_PATH=folder, **support.TELL_MAPPED,
                       MVLD_TUNABLES=f"app.passes=concat:app.placement={PLACEMENT}:"
                                     f"concat.pages={pages}:{support.COPY_TUNABLE}", **more)
    check(done.returncode == 0, f"status {done.returncode}: {done.stderr}")
    return done


def run(program, folder, pages, snapshot=False):
    """(KB of huge pages in executable memory: of the kernel, of files; the log)."""
    done = start(program, folder, pages)
    *huge, right = map(int, done.stdout.split())
    check(right, done.stdout)
    check(support.has_moved(done) and bool(support.from_snapshot(done)) == snapshot, done.stderr)
    return huge, done.stderr


def joined(log):
    """How many huge pages the kernel made, of how many, and the whole sentence."""
    said = re.search(r"huge pages: (\d+) of (\d+) put together by the kernel(: .*)?", log)
    check(said, log)
    check((said[1] == said[2]) == (said[3] is None), said[0])
    return int(said[1]), int(said[2]), said[0]


def make_snapshot(program, folder, pages):
    done = start(program, folder, pages, MVLD_SNAPSHOT="1")
    check(Path(done.stdout.strip(), "concat.so").exists(), done.stdout + done.stderr)


def applied(program, folder, pages):
    """What a start from a snapshot says that it has: whole 2 MiB, those of its file, of the kernel; and the
    sentence.  It must be so."""
    huge, log = run(program, folder, pages, snapshot=True)
    said = re.search(r"huge pages: (\d+) of (\d+) of the snapshot's file, (\d+) of the kernel(: .*)?", log)
    check(said, log)
    of_file, whole, of_kernel = map(int, said.groups()[:3])
    check(whole >= 2 and (of_file + of_kernel == whole or said[4]), said[0])
    check(huge == [2048 * of_kernel, 2048 * of_file], f"{huge} KB, but: {said[0]}")
    return whole, of_file, of_kernel, said[0]


def thp(program, folder):
    huge, _ = run(program, folder, "small")
    check(huge == [0, 0], f"{huge} KB were not asked for")
    huge, log = run(program, folder, "thp")
    made, wanted, said = joined(log)
    check(wanted >= 2, log)
    check(huge == [2048 * made, 0], f"{huge} KB of huge pages, but: {said}")
    if not made:
        support.skip(said)
    print(said)


def quick(program, folder):
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    huge, log = run(program, folder, "quick")
    check(huge[1] == 0, f"{huge}: {log}")
    if setting.exists() and "[never]" in setting.read_text():
        check(huge[0] == 0, f"{huge} KB of huge pages")
    elif not huge[0]:
        support.skip("the kernel had no huge page at once")
    check(huge[0] % 2048 == 0, f"{huge} KB of huge pages")
    make_snapshot(program, folder, "quick")
    huge, log = run(program, folder, "quick", snapshot=True)
    check(huge[0] == 0, f"{huge} KB from a snapshot: {log}")


def snapshot(program, folder):
    make_snapshot(program, folder, "small")
    huge, _ = run(program, folder, "small", snapshot=True)
    # Those of the file cost nothing: as the page cache holds it.
    check(huge[0] == 0, f"{huge} KB were not asked for")
    make_snapshot(program, folder, "thp")
    whole, of_file, of_kernel, said = applied(program, folder, "thp")
    if of_file + of_kernel == 0:
        support.skip(said)
    check(of_file + of_kernel <= whole, said) # memory may be short
    print(said)


def shared(program, folder):
    make_snapshot(program, folder, "thp")
    _, of_file, _, said = applied(program, folder, "thp")
    check("do not fit" not in said, said)
    check(of_file == applied(program, folder, "thp")[1], "another start finds the same")
    if not of_file:
        support.skip(said)
    print(said)


CASES = {"thp": thp, "quick": quick, "snapshot": snapshot, "shared": shared, "fixed": shared}


def main():
    with support.scratch_folder() as folder:
        program = shutil.copy(sys.argv[1], folder)
        for library in sys.argv[3:]:
            shutil.copy(library, folder)
        analyses = folder / "mvld" / "analysis"
        for command in (["set-interp", "--loader", support.LOADER, program],
                        ["analyze", "--output", analyses, "--program", program]):
            done = support.run([MVLD, *command], LD_LIBRARY_PATH=folder)
            check(done.returncode == 0, done.stdout + done.stderr)
        CASES[sys.argv[2]](program, folder)


main()
