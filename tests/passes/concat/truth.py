# SPDX-License-Identifier: MIT
"""truth.py TRUTH STOP PROGRAM LEAST [ORDER] [snapshot]: what concat moved of a program of the distribution, read
from its memory by TRUTH (truth.c) once it stopped before main (STOP is a preloaded library that
sees to it).  It has at least so many direct calls.  With STOP "modules", PROGRAM is a Python
that stops itself once modules came by dlopen.  ORDER is concat's; "profile" names every third
function of each object.  SNAPSHOT: what is looked at is a start from a snapshot.

A failure means that a copy does something else than the original.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
MODULES = ("import os, signal, ssl, json, ctypes, decimal, lzma, bz2, hashlib\n"
           "os.kill(os.getpid(), signal.SIGSTOP)")
PASSES = ":".join(str(support.BUILD / "passes" / name) for name in ("direct-calls", "concat"))


def start(program, arguments, folder, cache, order, **environment):
    """The process, and its log."""
    for old in folder.glob("log.*"):
        old.unlink()
    env = support.clean_environment(
        XDG_CACHE_HOME=cache, MVLD_PASS_PATH=PASSES, MVLD_DEBUG="passes,image,files",
        MVLD_TUNABLES=f"app.passes=direct-calls,concat:{support.COPY_TUNABLE}:concat.order={order}"
                      f":concat.profile={folder}/profile", MVLD_DEBUG_OUTPUT=folder / "log",
        **environment)
    return subprocess.Popen([support.LOADER, program, *arguments], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_profile(profile, program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20)
    files = [program, *re.findall(r"=> (/\S+)", done.stdout)]
    lines = []
    for path in files:
        starts = sorted({int(start, 16) for start in re.findall(
            r"pc=([0-9a-f]+)\.\.", subprocess.run(
                ["readelf", "--debug-dump=frames", path], capture_output=True, text=True,
                timeout=60).stdout)})
        lines += [f"{Path(path).name} +{start:#x}" for start in starts[::3]]
    profile.write_text("# every third\n" + "\n".join(lines[::-1]) + "\n")


def wait_stopped(process, seconds=20):
    """1 when it stops, 0 when it ends."""
    for _ in range(int(seconds * 100)):
        pid, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
        if pid:
            process.returncode = None if os.WIFSTOPPED(status) else status
            return os.WIFSTOPPED(status)
        time.sleep(0.01)
    return 0


def make_snapshot(program, folder, cache, order, **environment):
    process = start(program, [], folder, cache, order, MVLD_SNAPSHOT="1", **environment)
    check(process.wait(60) == 0, "no snapshot was made")


def compare(truth, process, folder):
    log, = folder.glob("log.*")
    done = subprocess.run([truth, str(process.pid), log], capture_output=True, text=True,
                          errors="replace", timeout=200)
    return done, log.read_text(errors="replace")


def end(process):
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        process.wait()


def main():
    truth, stop, name, least, *order = sys.argv[1:]
    snapshot = order[-1:] == ["snapshot"]
    order = order[:-1] if snapshot else order
    found = shutil.which(name, path="/usr/bin:/bin")
    if not found:
        support.skip("no " + name)
    support.need(support.BUILD / "passes" / "concat" / "libconcat.so.1")
    with support.scratch_folder() as folder:
        if order == ["profile"]:
            write_profile(folder / "profile", found)
        cache = Path(os.environ.get("MVLD_TEST_ANALYSES", folder / "cache"))
        modules = stop == "modules"
        files = Path("/usr/lib").glob(f"{Path(found).resolve().name}/lib-dynload/*.so")
        done = support.run([MVLD, "analyze", "--output", cache / "mvld" / "analysis", "--program",
                            found, *(files if modules else [])], timeout=100)
        check(done.returncode == 0, done.stdout + done.stderr)
        if snapshot:
            make_snapshot(found, folder, cache, *(order or ["as-loaded"]),
                   **({} if modules else {"LD_PRELOAD": stop}))
        if modules:
            process = start(found, ["-E", "-s", "-c", MODULES], folder, cache,
                            *(order or ["as-loaded"]))
        else:
            process = start(found, [], folder, cache, *(order or ["as-loaded"]), LD_PRELOAD=stop)
        try:
            check(wait_stopped(process), "it ended before it could be looked at")
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            done, log = compare(truth, process, folder)
        finally:
            end(process)
        print(done.stdout)
        check(done.returncode == 0, done.stderr + log)
        direct = int(re.search(r"(\d+) direct ones", done.stdout).group(1))
        fragments = int(re.search(r"(\d+) fragments", done.stdout).group(1))
        cut = order in (["random-functions"], ["profile"])
        check(fragments > int(least) // 20 if cut else fragments < 100, f"{fragments} fragments\n{log}")
        check(direct >= int(least), f"only {direct} direct calls\n{log}")
        check(("/snapshots/" in maps) == snapshot, f"from a snapshot, or not\n{maps}")
        late = {name for name, *_ in support.moved_code(log) if name.endswith("linux-gnu.so")}
        check(not modules or len(late) > 1, f"nothing came late\n{log}")


if __name__ == "__main__":
    main()
