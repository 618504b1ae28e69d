#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stress.py METHOD LOADER COUNT: a program in three objects (stress/) calls its
variation points from several threads while another commits and reverts, COUNT
times each.

METHOD is a value of `[app] patch`, LOADER is mvld, moved (mvld, and code moves:
direct-calls and concat come first) or plain (ld.so with libmultiverse, where no method can be
asked for: auto).  "mprotect" and "selfmem" give way to another method when
threads run, so there a timer's signal handler calls instead.

A failure means: a crash, a call that ran with a wrong value of the switch, a
commit or revert that did not bind everything, a page that was writable and
executable for a moment (seen by stress/watch.c in a process of its own), or that
the method asked for was not used.
"""
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402


def command(program, loader, count, how):
    start = [] if loader == "plain" else [support.LOADER]
    # Under a plain ld.so libraries are out of the program's reach.
    return [str(w) for w in [*start, program, count, how] + ([] if start else ["far"])]


def environment(folder, program, loader, method, **more):
    if loader != "plain":
        moved = loader == "moved"
        passes = support.MOVING if moved else "passes = multiverse"
        config = folder / "mvld.conf"
        config.write_text(f"[app]\nmatch = {program}\n{passes}\npatch = {method}\n"
                          "[multiverse]\nset.mode = 1\n" + support.COPY * moved)
        more.update(MVLD_CONFIG=config, MVLD_PASS_PATH=support.PASSES)
        if moved:
            more.update(support.moving(folder, "--program", program))
    return support.clean_environment(**more)


def used_methods(folder, program, loader, method, how):
    """The methods of a few commits, from MVLD_DEBUG=patch."""
    log = folder / "log"
    env = environment(folder, program, loader, method, MVLD_DEBUG="patch,passes",
                      MVLD_DEBUG_OUTPUT=log)
    done = subprocess.run(command(program, loader, 300, how), env=env, capture_output=True,
                          text=True, timeout=60)
    text = "".join(p.read_text() for p in folder.glob("log.*"))
    check(done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}{text[-2000:]}")
    if loader == "moved":
        moved = {name for name, *_ in support.moved_code(text)}
        check({"stress", "liboneof.so", "libother.so"} <= moved, f"only these have moved: {moved}")
    found = re.findall(r"changes by (\w+)", text)
    return {name: found.count(name) for name in set(found)}, text


def main():
    method, loader, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    how = "signals" if method in ("mprotect", "selfmem") else "threads"
    kind = "musl-" if support.MUSL else ""
    with support.scratch_folder() as folder:
        support.take(folder, "integration/stress", "watch",
                     *(f"{kind}{name}={name}" for name in ("liboneof.so", "libother.so", "stress")))
        program = folder / "stress"
        if loader != "plain":
            used, log = used_methods(folder, program, loader, method, how)
            if "cannot be used" in log:
                support.skip(f"patch = {method} cannot be used on this machine")
            expected = {"auto": "remap"}.get(method, method)
            check(used.get(expected, 0) >= 590, f"methods used: {used}")
            print("methods of the first 600:", used)
        begin = time.monotonic()
        running = subprocess.Popen(command(program, loader, count, how), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   env=environment(folder, program, loader, method))
        watcher = subprocess.Popen([folder / "watch", str(running.pid)], stdout=subprocess.PIPE,
                                   text=True)
        try:
            said = running.communicate(timeout=200)[0]
            seen = watcher.communicate(timeout=10)[0]
        finally:
            running.kill()
            watcher.kill()
        print(f"{said.strip()}; {seen.strip()}; {time.monotonic() - begin:.1f} s")
        check(running.returncode == 0, f"status {running.returncode}")
        check(watcher.returncode == 0, "a page was writable and executable")
        check(int(seen.split()[0]) > 10, "the watcher did not look")


if __name__ == "__main__":
    main()
