#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""calls.py BEHAVIOUR [CONFIGURATION FOLDER]: a program for which nothing is configured, under a filter
that kills for every system call but those that it makes under the host loader alone; these are
traced here.

Each function below is one test; its text says what a failure means.
"""
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]
import privileged  # noqa: E402
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"


class Program:
    """A copy of `true` with each loader, and the ways in which they are started."""

    def __init__(self, folder):
        self.folder = folder
        self.plain, self.mvld = folder / "plain", folder / "ours"
        for path in self.plain, self.mvld:
            shutil.copy("/bin/true", path)
        self.tool("set-interp", self.mvld, "--force")
        support.take(folder, "loader/start/programs", "confine", "calls")
        for way, path in ("plain", self.plain), ("ours", self.mvld):
            (folder / f"{way}-link").symlink_to(path.name)
            script = folder / f"{way}-script"
            script.write_text(f"#!{path}\n")
            script.chmod(0o755)

    def tool(self, *words, **environment):
        done = support.run([MVLD, *words], **environment)
        check(done.returncode == 0, done.stdout + done.stderr)

    def ways(self):
        """How it is started: plainly, and with mvld."""
        loaders = os.path.realpath(support.HOST_LOADER), support.LOADER
        yield [self.plain], [self.mvld]
        yield [loaders[0], self.plain], [loaders[1], self.plain]
        for name in "link", "script":
            yield [self.folder / f"plain-{name}"], [self.folder / f"ours-{name}"]

    def survives(self, what, **environment):
        for plain, ours in self.ways():
            traced = support.run([self.folder / "calls", *plain], **environment)
            if traced.returncode == 77:
                support.skip("nobody may trace here")
            check(traced.returncode == 0, traced.stdout + traced.stderr)
            only = [self.folder / "confine", f"only={traced.stdout.strip()}", "--"]
            check(support.run([*only, *plain], **environment).returncode == 0, "the filter is too narrow")
            done = support.run([*only, *ours], **environment)
            check(done.returncode == 0 and not done.stdout + done.stderr,
                  f"{what}: {' '.join(map(str, ours))}: {done.returncode}\n{done.stdout}{done.stderr}")
            # That the filter kills: a call that the host loader has no use for.
            done = support.run([*only, *ours], MVLD_TUNABLES="app.passes=count", MVLD_DEBUG="passes",
                               **environment)
            check(done.returncode == -31, f"nothing is killed: {done.returncode}\n{done.stderr}")


def configurations(folder):
    """Makes one after the other; yields what it is."""
    apps = folder / "apps.d"
    yield "no folder"
    apps.mkdir(parents=True)
    yield "an empty folder"
    (folder / "mvld.conf").write_text("; nothing\n")
    (apps / "README").write_text("as installed\n")
    yield "as installed"
    (apps / "a.conf").write_text("[app]\nmatch = /usr/bin/nobody, nobody, build-id:00\npasses = count\n")
    yield "one other program"
    for i in range(100):
        (apps / f"{i}.conf").write_text(f"; {i}\n[app]\nmatch = /usr/bin/program-{i}, other-{i}\n"
                                        f"passes = count\n[count]\nprefix = {'x' * 50}\n")
    yield "a hundred other programs"


def users(program):
    """A user's configuration of other programs kills this one."""
    config = program.folder / "config"
    for what in configurations(config / "mvld"):
        program.tool("config", "--user", XDG_CONFIG_HOME=config)
        program.survives(what, XDG_CONFIG_HOME=config)


def system(program):
    """The system's does."""
    for what in configurations(Path(sys.argv[2])):
        program.tool("config")
        program.survives(what, XDG_CONFIG_HOME="/nonexistent")


def main():
    behaviour = {"users": users, "system": system}[sys.argv[1]]
    if behaviour == system:
        privileged.alone()
        privileged.own(Path(sys.argv[2]))
    with support.scratch_folder() as folder:
        behaviour(Program(folder))


main()
