# SPDX-License-Identifier: MIT
"""Installing over a living mvld: programs that start meanwhile have the old loader or the new one, and a
killed installation leaves the one or the other.

A failure means that an upgrade makes starts fail, or that after a power cut no program starts.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from support import check, equal, finish, run, scratch

mvld, loader, install = map(os.path.abspath, sys.argv[1:4])


def versions(folder):
    """Two loaders that differ in their content, as before and after an upgrade."""
    for name, more in ("old", b""), ("new", b"a later version"):
        (folder / name).mkdir()
        (folder / name / "ld.so").write_bytes(Path(loader).read_bytes() + more)
        (folder / name / "ld.so").chmod(0o755)
    return [folder / "old" / "ld.so", folder / "new" / "ld.so"]


def put(folder, source):
    return [sys.executable, install, folder / "list", folder / "lib", source]


def starts_do_not_fail(folder, sources):
    program, done, wrong = folder / "program", threading.Event(), []
    shutil.copy(os.path.realpath("/bin/true"), program)
    equal(run(*put(folder, sources[0]))[0], 0, "the first installation")
    equal(run(mvld, "set-interp", "--loader", folder / "lib/ld.so", program)[0], 0, "set-interp")
    started = [0] * 8

    def start(i):
        while not done.is_set():
            try:
                status = subprocess.run([program], capture_output=True, timeout=60)
                wrong.extend([status] * (status.returncode != 0))
            except OSError as error:
                wrong.append(error)
            started[i] += 1

    threads = [threading.Thread(target=start, args=(i,)) for i in range(len(started))]
    for thread in threads:
        thread.start()
    for i in range(40):
        equal(run(*put(folder, sources[i % 2]))[0], 0, "an upgrade")
    done.set()
    for thread in threads:
        thread.join()
    check(sum(started) > 100, f"{started} starts are too few to tell")
    equal(wrong[:3], [], f"{len(wrong)} of {sum(started)} starts failed")


def killed_anywhere(folder, sources):
    whole, to = {source.read_bytes() for source in sources}, folder / "lib" / "ld.so"
    for i in range(30):
        process = subprocess.Popen([str(word) for word in put(folder, sources[i % 2])], stdout=subprocess.DEVNULL)
        time.sleep(random.random() * 0.06)
        process.send_signal(signal.SIGKILL)
        process.wait()
        check(to.read_bytes() in whole and to.stat().st_mode & 0o777 == 0o755, "a truncated loader")
    equal(run(*put(folder, sources[1]))[0], 0, "the next one goes through")
    check(to.read_bytes() == sources[1].read_bytes(), "and is there")
    inode = to.stat().st_ino
    (to.parent / ".ld.so.new").write_bytes(b"of a killed one")
    equal(run(*put(folder, sources[1]))[0], 0, "the same again")
    equal(to.stat().st_ino, inode, "it stays the same file")
    equal(sorted(path.name for path in to.parent.iterdir()), ["ld.so"], "nothing is left beside it")


with scratch() as scratched:
    os.chmod(scratched, 0o755)
    sources = versions(Path(scratched))
    starts_do_not_fail(Path(scratched), sources)
    killed_anywhere(Path(scratched), sources)
finish()
