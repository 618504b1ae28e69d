# SPDX-License-Identifier: MIT
"""pages.py PROGRAM CASE: the code of PROGRAM (pages.c) runs in pages as configured, as many huge
ones as the log says, and the rest in small ones.

    thp      of the kernel; skipped where it has none
    empty    hugetlb where the pool is empty: the log says so, and the kernel's own are taken
    pool     hugetlb; skipped unless this is root's own machine, without a pool, of which it makes
             one for a moment

A failure means that the option does nothing, that the log is wrong, or that a program dies
where pages are short.
"""
import re
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PASSES = support.BUILD / "passes" / "concat"
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def start(program, folder, pages, **more):
    done = support.run([program], MVLD_PASS_PATH=PASSES, XDG_CACHE_HOME=folder,
                       MVLD_DEBUG="files,passes",
                       MVLD_TUNABLES=f"app.passes=concat:concat.pages={pages}", **more)
    check(done.returncode == 0, f"status {done.returncode}: {done.stderr}")
    return done


def run(program, folder, pages, said=r"concat: [1-9]\d* objects"):
    """(KB of huge pages in executable memory: of the kernel, the pool, files; the log)."""
    done = start(program, folder, pages)
    *huge, right = map(int, done.stdout.split())
    check(right, done.stdout)
    check(re.search(said, done.stderr), done.stderr)
    return huge, done.stderr


def joined(log):
    """How many huge pages the kernel made, of how many, and the whole sentence."""
    said = re.search(r"huge pages: (\d+) of (\d+) put together by the kernel(: .*)?", log)
    check(said, log)
    check((said[1] == said[2]) == (said[3] is None), said[0])
    return int(said[1]), int(said[2]), said[0]


def pooled(log):
    said = re.search(r"huge pages: (\d+) of (\d+) from the pool(: .*)?", log)
    check(said, log)
    check((said[1] == said[2]) == (said[3] is None), said[0])
    return int(said[1]), int(said[2]), said[0]


def thp(program, folder):
    huge, log = run(program, folder, "small")
    check(huge == [0, 0, 0] and "huge pages" not in log, f"{huge} KB were not asked for")
    huge, log = run(program, folder, "thp")
    made, wanted, said = joined(log)
    check(wanted >= 2 and "the pool" not in log, log)
    check(huge == [2048 * made, 0, 0], f"{huge} KB of huge pages, but: {said}")
    if not made:
        support.skip(said)
    print(said)


def empty(program, folder):
    if (POOL / "free_hugepages").read_text() != "0\n" if POOL.exists() else False:
        support.skip("this machine has a pool of huge pages")
    huge, log = run(program, folder, "hugetlb")
    taken, wanted, said = pooled(log)
    check(taken == 0 and wanted >= 2 and "no more are free" in said or not POOL.exists(), said)
    made, left, said = joined(log)
    check(left == wanted and huge == [2048 * made, 0, 0], f"{huge} KB of huge pages, but: {said}")


@contextmanager
def pool(pages):
    try:
        (POOL / "nr_hugepages").write_text(str(pages))
        if int((POOL / "free_hugepages").read_text()) != pages:
            support.skip(f"this machine has no room for {pages} huge pages")
        yield
    finally:
        (POOL / "nr_hugepages").write_text("0")


def pool_of_all_sizes(program, folder):
    try:
        if (POOL / "nr_hugepages").read_text() != "0\n":
            support.skip("this machine has a pool of huge pages, which is not ours to change")
        (POOL / "nr_hugepages").write_text("0")
    except OSError as error:
        support.skip(f"the pool cannot be changed: {error}")
    with pool(16):
        huge, log = run(program, folder, "hugetlb")
        taken, wanted, said = pooled(log)
        check(taken == wanted >= 2 and "by the kernel" not in log, log)
        check(huge == [0, 2048 * taken, 0], f"{huge} KB of huge pages, but: {said}")
        print(said)
        check((POOL / "free_hugepages").read_text() == "16\n", "all pages came back")
    with pool(1): # what there is, and no death of SIGBUS in parent or child
        huge, log = run(program, folder, "hugetlb")
        taken, wanted, said = pooled(log)
        check(taken == 1, said)
        made, left, more = joined(log)
        check(left == wanted - 1 and huge == [2048 * made, 2048, 0], f"{huge} KB: {said}; {more}")


CASES = {"thp": thp, "empty": empty, "pool": pool_of_all_sizes}


def main():
    with support.scratch_folder() as folder:
        program = shutil.copy(sys.argv[1], folder)
        analyses = folder / "mvld" / "analysis"
        for command in (["set-interp", "--loader", support.LOADER, program],
                        ["analyze", "--output", analyses, "--program", program]):
            done = support.run([MVLD, *command])
            check(done.returncode == 0, done.stdout + done.stderr)
        CASES[sys.argv[2]](program, folder)


main()
