# SPDX-License-Identifier: MIT
"""Builds and learners are killed at any moment, and run beside each other.

A failure means: what they had written stays for ever, or for one keeps others from writing; or one
build takes away what another is writing.

Argument: one of the functions below.
"""
import random
import subprocess
import sys
import time
from pathlib import Path

import support
from own_world import MVLD, World
from support import check

ROUNDS = 60


def environment(world, **more):
    config = world.folder / "mvld.conf"
    config.write_text("[app]\nmatch = *\npasses = direct-calls\non-miss = learn\n")
    return support.clean_environment(
        MVLD_CONFIG=config, MVLD_PASS_PATH=support.BUILD / "passes" / "direct-calls",
        XDG_CACHE_HOME=world.cache, **more)


def kill_after(seconds, command, env):
    """1 when it was still there."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    was = process.poll() is None
    process.kill()
    process.wait()
    return was


def length(command, env):
    begin = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)
    return time.monotonic() - begin


def cache(world, action):
    return subprocess.run([MVLD, "cache", action], env=environment(world), capture_output=True, text=True,
                          check=False).stdout


def everything(world):
    """Files and folders of snapshots."""
    return {str(path.relative_to(world.cache)) for path in (world.cache / "mvld" / "snapshots").rglob("*")}


def builds(world):
    """What a hundred leave is what one leaves; the next build removes that, and so does prune."""
    env = environment(world, MVLD_SNAPSHOT="1")
    whole = length([world.program], env)
    clean, killed, left = everything(world), 0, 0
    for _ in range(ROUNDS):
        killed += kill_after(random.uniform(0, 1.2 * whole), [world.program], env)
        images = list((world.cache / "mvld" / "snapshots").iterdir())
        left += (world.cache / "mvld" / "snapshots" / ".new").exists()
        check(len(images) <= 2 and len(everything(world)) <= 2 * len(clean) + 2, f"{sorted(everything(world))}")
    check(killed > ROUNDS / 4, f"only {killed} were killed")
    print(f"{killed} killed, {left} had left something")
    unfinished = world.cache / "mvld" / "snapshots" / ".new"
    unfinished.mkdir(exist_ok=True)  # of one that was killed in time
    (unfinished / "0-program").write_text("half")
    check(f"unfinished  {unfinished}" in cache(world, "list"), cache(world, "list"))
    length([world.program], env)
    check(everything(world) == clean, f"{everything(world) ^ clean}")
    check("unfinished" not in cache(world, "list"), cache(world, "list"))
    unfinished.mkdir()
    (unfinished / "0-program").write_text("half")
    check(f"{unfinished} removed" in cache(world, "prune") and everything(world) == clean, f"{everything(world)}")


def learners(world):
    """What a killed learner left is gone when the next has learnt, and it does learn."""
    modules = []
    for n in range(4):
        module = world.folder / f"module{n}.so"
        world.library(module, "-DPREFIX=g", f"-DCHOSEN=picked{n}", "-Wl,-z,now", f"-Wl,-soname,{module.name}",
                      f"-Wl,--build-id=0x1234567{n}")
        modules.append(module)
    world.analyse(*modules)
    env = environment(world)
    length([world.program], {**env, "MVLD_SNAPSHOT": "1"})
    folder, = (world.cache / "mvld" / "snapshots").iterdir()
    whole = length([world.program], env)
    for n in range(ROUNDS):
        kill_after(random.uniform(0, 3 * whole), [world.program, modules[n % 4]], env)
        files = [path.name for path in folder.iterdir() if path.name[0].isdigit()]
        check(len(files) <= 1 + 1 + 2 * 4, f"{files}")
    for name in ("9-module0.so", "77-module0.so", "later.new"):
        (folder / name).write_text("half")
    new = world.folder / "module9.so"
    new.write_bytes(modules[0].read_bytes())
    world.analyse(new)
    for module in (*modules, new):
        length([world.program, module], env)
    for module in (*modules, new):
        done = subprocess.run([world.program, module], env={**env, "TELL_MAPPED": "1"}, capture_output=True,
                              text=True, check=False)
        check(module.name in support.from_snapshot(done), f"{module} was not learnt\n{done.stderr}")
    numbered = sorted(path.name for path in folder.iterdir() if path.name[0].isdigit())
    names = [name.split("-", 1)[1] for name in numbered]
    check(len(set(names)) == len(names) and not (folder / "later.new").exists(), f"{sorted(folder.iterdir())}")


def beside(world):
    """Builds of several programs at once: each leaves its snapshot, whole."""
    programs = [world.compile(f"program{n}", f"-DN={n}") for n in range(6)]
    world.analyse("--program", programs[0], *programs)  # all that they need, or they are stale
    env = environment(world, MVLD_SNAPSHOT="1")
    for _ in range(5):
        running = [subprocess.Popen([program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for program in (*programs, *programs[:3])]
        for process in running:
            out, error = process.communicate(timeout=120)
            check(process.returncode == 0 and Path(out.strip()).is_dir(), out + error)
    found = cache(world, "verify")
    check(found.count("MiB of code") == 6 and "unfinished" not in found and
          all(line.startswith("good ") for line in found.splitlines()), found)


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(Path(scratch)))
    print("ok")
