#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which programs an [app] is for, in whatever way they are started: the same when `mvld config` has
made it as when MVLD_CONFIG names it, where nothing is decided by a list of names.

A failure means that a program does not get its passes, or gets another's.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
BY_DESCRIPTOR = "import os, sys; f = os.open(sys.argv[1], os.O_RDONLY); os.execve(f, ['called'], os.environ)"


def make(folder):
    """The program under its names."""
    bin_, deep = folder / "bin", folder / "deep, with comma"
    bin_.mkdir()
    deep.mkdir()
    program = deep / "program-1.2"
    shutil.copy("/bin/true", program)
    done = support.run([MVLD, "set-interp", "--force", program])
    check(done.returncode == 0, done.stdout + done.stderr)
    (bin_ / "program").symlink_to(program)
    (bin_ / "twice").symlink_to("program")
    (folder / "folder").symlink_to(deep)
    os.link(program, bin_ / "hard")
    for name, interpreter in ("script", folder / "folder" / program.name), ("linked-script", bin_ / "twice"):
        (bin_ / name).write_text(f"#!{interpreter}\n")
        (bin_ / name).chmod(0o755)
    return bin_, program


def ways(folder, bin_, program):
    yield "its path", [program]
    yield "a link", [bin_ / "program"]
    yield "a link to a link", [bin_ / "twice"]
    yield "a folder that is a link", [folder / "folder" / program.name]
    yield "a hard link", [bin_ / "hard"]
    yield "a script", [bin_ / "script"]
    yield "a script of a link", [bin_ / "linked-script"]
    yield "a name of its own", ["bash", "-c", 'exec -a called "$0"', program]
    yield "a path that is not it", ["bash", "-c", f'exec -a {bin_}/hard "$0"', program]
    yield "a relative path", ["sh", "-c", f'cd "{program.parent}" && exec ./{program.name}']
    yield "a descriptor", [sys.executable, "-c", BY_DESCRIPTOR, program]
    yield "directly", [support.LOADER, program]
    yield "directly, by a link", [support.LOADER, bin_ / "twice"]


def patterns(folder, bin_, program):
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    build_id = re.search("Build ID: (\\w+)", notes)[1]
    yield f'"{program}"'
    yield f'"{folder}/folder/{program.name}"'
    for name in "program", "twice", "hard", "script", "linked-script":
        yield f"{bin_}/{name}"
        yield name
    yield from (program.name, "called", "*", f"build-id:{build_id}", f"build-id:{build_id.upper()}",
                f"build-id:{build_id[2:]}", f"/elsewhere/{program.name}", "/elsewhere/twice", "true", "-1.2",
                f"x, {program.name}")


def main():
    runs = {True: 0, False: 0}
    with support.scratch_folder() as folder:
        names = folder, *make(folder)
        apps = folder / "mvld" / "apps.d"
        apps.mkdir(parents=True)
        for pattern in patterns(*names):
            config = apps / "a.conf"
            config.write_text(f"[app]\nmatch = {pattern}\npasses = count\n")
            done = support.run([MVLD, "config", "--user"], XDG_CONFIG_HOME=folder)
            check(done.returncode == 0, done.stdout + done.stderr)
            for way, command in ways(*names):
                found = []
                for more in {"XDG_CONFIG_HOME": folder}, {"XDG_CONFIG_HOME": "/nonexistent", "MVLD_CONFIG": config}:
                    done = support.run(command, MVLD_DEBUG="passes", **more,
                                       MVLD_PASS_PATH=support.BUILD / "passes" / "example")
                    check(done.returncode == 0, f"{way}: {done.stderr}")
                    found.append(" objects\n" in done.stderr)  # the pass counts them
                runs[found[0]] += 1
                check(found[0] == found[1], f"match = {pattern}, started by {way}: made {found[0]}, named {found[1]}")
                if pattern in ("*", program_name := names[2].name) and way != "a hard link":
                    check(found[0], f"match = {pattern}, started by {way}, of {program_name}")
    check(runs[True] > 80 and runs[False] > 100, f"{runs}")


main()
