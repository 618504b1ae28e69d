# SPDX-License-Identifier: MIT
"""Long work says on a terminal how far it is, and nowhere else.

A failure means that somebody waits and sees nothing, or that a log is full of lines that overwrite each other.
"""
import os
import pty
import subprocess
import sys
from pathlib import Path

from support import ANSWER_PROGRAM, ENV, check, compile_file, contains, equal, finish, run, scratch

mvld, loader, answer = map(os.path.abspath, sys.argv[1:4])


def on_terminal(*command, env):
    """What reaches a terminal that is standard error."""
    main, end = pty.openpty()
    done = subprocess.run(list(map(str, command)), env=dict(ENV, **env), stdout=subprocess.DEVNULL, stderr=end, timeout=60)
    equal(done.returncode, 0, f"{command}")
    os.write(end, b".")  # so that there is something to read
    os.close(end)
    said = os.read(main, 65536).decode()
    os.close(main)
    return said


with scratch() as folder:
    folder = Path(folder)
    (folder / "program.c").write_text(ANSWER_PROGRAM)
    program = compile_file(folder / "program", "-O1", "-rdynamic", "-Wl,--build-id", folder / "program.c")
    (folder / "mvld.conf").write_text(f"[app]\nmatch = {program}\npasses = answer\n")
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "MVLD_CONFIG": str(folder / "mvld.conf"),
           "MVLD_PASS_PATH": os.path.dirname(answer)}
    for command, text in ((mvld, "analyze", "--again", program), "[1/1] "), \
            ((mvld, "build", "--loader", loader, program), f"snapshot of {program}"):
        contains(on_terminal(*command, env=env), text, "progress")
        equal(run(*command, env=env)[2], "", "none in a log")
finish()
