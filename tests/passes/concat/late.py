# SPDX-License-Identifier: MIT
"""late.py CASE: a program under concat opens and closes libraries again and again, while
exceptions go through them and threads throw all the time (late_main.cc).

    cycles   a thousand times; each time the library runs in moved code, whose memory is given back
    full     the region is small: at some time the library stays, and one is told
    frames   the same when it is the room for unwind tables that is short

A failure means that what comes late is not moved, that exceptions do not find their way
through moved code that comes and goes, or that a program fails when there is no room left.
"""
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

PASSES = support.BUILD / "passes"
ROOM = support.SOURCE / "passes" / "concat" / "lib" / "concat.S"


def with_room(folder, code, frames):
    """The pass, beside a library that reserves so many bytes."""
    shutil.copy(PASSES / "concat" / "concat.so", folder)
    done = subprocess.run(
        [support.CC, "-nostdlib", "-static", "-Wl,--oformat,binary", "-Wl,--build-id=none",
         "-Wl,-Ttext=0", "-Wl,-e,0", "-DCONCAT_ROOM_H", f"-DCONCAT_CODE_SIZE={code}",
         f"-DCONCAT_FRAMES_SIZE={frames}", "-o", folder / "libconcat.so.1", ROOM],
        capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, done.stderr)
    return folder


def run(folder, cycles, library, concat):
    """How often it ran in moved code, the log, and the KB that it took behind the first 200 times."""
    log = folder / "log"
    for old in folder.glob("log.*"):
        old.unlink()
    done = support.run(
        [support.LOADER, folder / "main", cycles, library, folder / "libother.so"], timeout=100,
        XDG_CACHE_HOME=folder / "cache", MVLD_PASS_PATH=f"{PASSES / 'direct-calls'}:{concat}",
        MVLD_TUNABLES=f"app.passes=direct-calls,concat:{support.COPY_TUNABLE}", MVLD_DEBUG="passes",
        MVLD_DEBUG_OUTPUT=log)
    if done.returncode == -signal.SIGSEGV and any(
            support.run([folder / "main", 1000, library, folder / "libother.so"]).returncode < 0 for _ in range(30)):
        support.skip("under the host loader a handler that walks the stack crashes, too")  # Ubuntu 24.04
    said = "".join(path.read_text() for path in folder.glob("log.*"))
    tail = "\n".join(said.splitlines()[-40:])
    check(done.returncode == 0, f"{done.returncode} {done.stdout}{done.stderr}\n{tail}")
    return int(re.search(r"(\d+) of", done.stdout)[1]), said, int(re.search(r"(\S+) KB more", done.stdout)[1])


def main():
    case = sys.argv[1]
    with support.scratch_folder() as folder:
        support.take(folder, "passes/concat", "late=main", "libsmall.so", "libother.so", "liblarge.so")
        support.analyze(folder / "cache", "--program", folder / "main", folder / "libsmall.so",
                        folder / "libother.so", folder / "liblarge.so")
        moved, log, more = run(folder, 1000 if case == "cycles" else 1, folder / "libsmall.so",
                          PASSES / "concat")
        if case == "cycles":
            check(moved == 1000, f"{moved} times in moved code\n{log[-3000:]}")
            check(more < 2000, f"800 times took {more} KB")  # the sorted table, and the list of what moved
        elif case == "full":
            used = int(re.search(r" (\d+) KB of code", log).group(1)) * 1024
            concat = with_room(folder, (used // 4096 + 2000) * 4096, 0x4000000)
            moved, log, _ = run(folder, 60, folder / "liblarge.so", concat)
            check(3 <= moved <= 8, f"{moved} times in moved code\n{log[-3000:]}")
        else:
            used = int(re.search(r" (\d+) KB of unwind tables", log).group(1)) * 1024
            concat = with_room(folder, 0x10000000, (used // 4096 * 4 // 3 + 60) * 4096)
            moved, log, _ = run(folder, 200, folder / "libsmall.so", concat)
            check(10 <= moved <= 100, f"{moved} times in moved code\n{log[-3000:]}")
        print(f"{moved} times in moved code")


if __name__ == "__main__":
    main()
