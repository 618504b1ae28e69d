# SPDX-License-Identifier: MIT
"""Installing over a living mvld: programs that start meanwhile have the old loader or the new one, and a
killed installation leaves the one or the other.

A failure means that an upgrade makes starts fail, or that after a power cut no program starts.

$MVLD_UPGRADES names another number of upgrades than 40, $MVLD_STARTERS of programs that start meanwhile.
"""
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from support import check, equal, finish, run, scratch

mvld, loader, install = map(os.path.abspath, sys.argv[1:4])
UPGRADES, STARTERS = int(os.environ.get("MVLD_UPGRADES", 40)), int(os.environ.get("MVLD_STARTERS", 8))
sys.dont_write_bytecode = True  # beside the sources
PTRACE = ctypes.CDLL(None).ptrace


def versions(folder):
    """Two loaders that differ in their content, as before and after an upgrade."""
    for name, more in ("old", b""), ("new", b"a later version"):
        (folder / name).mkdir()
        (folder / name / "ld.so").write_bytes(Path(loader).read_bytes() + more)
        (folder / name / "ld.so").chmod(0o755)
    return [folder / "old" / "ld.so", folder / "new" / "ld.so"]


def put(folder, source):
    return [sys.executable, install, folder / "list", folder / "lib", source]


# Starts a program without pause until a file is there, and says each status but 0, and how often it started.
STARTS = 'n=0; while [ ! -e "$2" ]; do "$1" || echo "status $?"; n=$((n + 1)); done; echo "$n starts"'


def starts_do_not_fail(folder, sources):
    program, enough = folder / "program", folder / "enough"
    shutil.copy(os.path.realpath("/bin/true"), program)
    equal(run(*put(folder, sources[0]))[0], 0, "the first installation")
    equal(run(mvld, "set-interp", "--loader", folder / "lib/ld.so", program)[0], 0, "set-interp")
    starters = [subprocess.Popen(["sh", "-c", STARTS, "sh", program, enough], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for _ in range(STARTERS)]
    for i in range(UPGRADES):
        equal(run(*put(folder, sources[1 - i % 2]))[0], 0, "an upgrade")
    enough.touch()
    said = "".join(starter.communicate()[0] for starter in starters).splitlines()
    started = sum(int(line.split()[0]) for line in said if line.endswith(" starts"))
    print(f"{UPGRADES} upgrades under {STARTERS} programs: {started} starts")
    check(started > 100, f"{started} starts are too few to tell")
    equal([line for line in said if not line.endswith(" starts")][:3], [], "starts that failed")


def killed_at(stop, function, *arguments):
    """A child calls the function, and is killed at its stop of this number at a system call: each stops twice, before
    and behind.  False: it came to its end before."""
    child = os.fork()
    if not child:
        PTRACE(0, 0, None, None)  # PTRACE_TRACEME
        os.kill(os.getpid(), signal.SIGSTOP)
        function(*arguments)
        os._exit(0)
    for _ in range(stop + 1):
        status = os.waitpid(child, 0)[1]
        if not os.WIFSTOPPED(status):
            equal(status, 0, "what nobody killed")
            return False
        PTRACE(24, child, None, None)  # PTRACE_SYSCALL
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def killed_anywhere(folder, sources):
    found = importlib.util.spec_from_file_location("install", install)
    installing = importlib.util.module_from_spec(found)
    found.loader.exec_module(installing)
    whole, to, stop = [source.read_bytes() for source in sources], folder / "lib" / "ld.so", 0
    seen, wanted = [], whole.index(to.read_bytes()) ^ 1  # always the other one: the same content is left at once
    while killed_at(stop, installing.put, sources[wanted], to.parent):
        content = to.read_bytes()
        check(content in whole and to.stat().st_mode & 0o777 == 0o755, f"killed at stop {stop}: a truncated loader")
        equal(run(folder / "program")[0], 0, f"killed at stop {stop}: a start")
        seen.append(content == whole[wanted])
        wanted ^= seen[-1]
        stop += 1
    check(0 < sum(seen) < stop - 40, f"{stop} stops, {sum(seen)} with the new one: not killed on its way")
    equal(run(*put(folder, sources[wanted]))[0], 0, "the next one goes through")
    check(to.read_bytes() == whole[wanted], "and is there")
    inode = to.stat().st_ino
    (to.parent / ".ld.so.new").write_bytes(b"of a killed one")
    equal(run(*put(folder, sources[wanted]))[0], 0, "the same again")
    equal(to.stat().st_ino, inode, "it stays the same file")
    equal(sorted(path.name for path in to.parent.iterdir()), ["ld.so"], "nothing is left beside it")


def moved_elsewhere(folder, sources):
    """Later versions have the loader in another folder."""
    old, new = folder / "lib/ld.so", folder / "lib/own/ld.so"
    before = old.read_bytes()
    for variable in "DESTDIR", "MESON_INSTALL_DRY_RUN":
        equal(run(sys.executable, install, folder / "list", new.parent, sources[0], env={variable: str(folder / "other")})[0], 0, variable)
        check(not old.is_symlink() and old.read_bytes() == before, f"{variable}: this machine stays as it is")
    for source in sources:
        equal(run(sys.executable, install, folder / "list", new.parent, source)[0], 0, "the loader in another folder")
        check(old.read_bytes() == new.read_bytes() == source.read_bytes(), "a program that names the earlier place has this version")
        equal(run(folder / "program")[0], 0, "a start of it")
    equal((folder / "list").read_text().split(), [str(old), str(new)], "what is to be uninstalled")
    old.unlink()
    equal(run(sys.executable, install, folder / "list", new.parent, sources[0])[0], 0, "where nothing is there")
    check(not old.is_symlink(), "what was removed does not come back")


with scratch() as scratched:
    os.chmod(scratched, 0o755)
    sources = versions(Path(scratched))
    starts_do_not_fail(Path(scratched), sources)
    killed_anywhere(Path(scratched), sources)
    moved_elsewhere(Path(scratched), sources)
finish()
