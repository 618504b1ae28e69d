#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kept_home.py BEHAVIOUR: root's programs with the HOME of another user, as su and `sudo -E` keep it.
That user leads paths in that home to folders of root's, whose files are good by owner and mode.

Each function below is one test; its text says what a failure means.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
import snapshots  # noqa: E402
import support  # noqa: E402
from support import check  # noqa: E402

MVLD, ALICE = support.BUILD / "tools" / "mvld", 65534


def by_alice(*command):
    subprocess.run(["setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", *map(str, command)],
                   check=True, timeout=30)


def home_of_alice(folder):
    home = folder / "alice"
    home.mkdir(exist_ok=True)
    os.chown(home, ALICE, ALICE)
    return home


def leads(home, path, target):
    """Alice makes the path in her home, whose last part is a link of hers to the target."""
    if home.exists():
        shutil.rmtree(home)
    home = home_of_alice(home.parent)
    by_alice("mkdir", "-p", (home / path).parent)
    by_alice("ln", "-s", target, home / path)


class World:
    """A program, and a folder of root's that is a home like others."""

    def __init__(self, folder):
        folder.chmod(0o755)
        self.program = snapshots.Program(folder)
        self.home = folder / "root"
        self.alice = folder / "alice"
        self.config = self.home / ".config" / "mvld"
        (self.config / "apps.d").mkdir(parents=True)
        (self.config / "apps.d" / "program.conf").write_text(
            f"[app]\nmatch = {self.program.path}\npasses = answer\n")

    def environment(self, home, **more):
        return {"HOME": home, "MVLD_PASS_PATH": self.program.passes, "MVLD_DEBUG": "files,passes", "TELL_MAPPED": 1, **more}

    def run(self, home, **more):
        done = support.run([self.program.path], **self.environment(home, **more))
        check(done.returncode == 0, f"{done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def obeys(self, home, **more):
        """1 when the pass ran: it changes what the program says."""
        done = self.run(home, **more)
        check(done.stdout in ("1 0\n", "2 0\n") and "ERROR" not in done.stderr, done.stdout + done.stderr)
        return done.stdout == "2 0\n"

    def tool(self, *words, **more):
        return support.run([MVLD, *words], **self.environment(self.home, **more))


def config(world):
    """Programs of root's obey files to which another user leads them."""
    done = world.tool("config", "--user")
    check(done.returncode == 0, done.stdout + done.stderr)
    check(world.obeys(world.home), "root's own configuration does not count")
    places = {".config": world.config.parent, ".config/mvld": world.config,
              ".config/mvld/config.cache": world.config / "config.cache",
              ".config/mvld/apps.d": world.config / "apps.d"}
    for path, target in places.items():
        leads(world.alice, path, target)
        check(not world.obeys(world.alice), f"HOME of another, {path} leads to {target}")
        check(not world.obeys(world.home, XDG_CONFIG_HOME=world.alice / ".config"), f"XDG_CONFIG_HOME, {path}")
        done = world.tool("config", "--user", HOME=world.alice)
        check(done.returncode == 1 or path.endswith("cache"), f"{path}: {done.stdout}{done.stderr}")
    # A link of root's own is one of root's own.
    (world.program.folder / "link").symlink_to(world.home)
    check(world.obeys(world.program.folder / "link"), "a link in a folder of root's")
    # Where others may write, they can put such a link.
    for part in world.config / "config.cache", world.config, world.config.parent, world.home:
        mode = part.stat().st_mode
        for more in 0o002, 0o020:
            part.chmod(mode & 0o777 | more)
            check(not world.obeys(world.home), f"{part} may be written by others")
        part.chmod(mode & 0o777)
    check(world.obeys(world.home), "all as before")


def caches(world):
    """They start from images, or leave some, where another user leads them to."""
    configured = {"MVLD_CONFIG": world.config / "apps.d" / "program.conf"}
    cache = world.home / ".cache"

    def applied(home, **more):
        done = world.run(home, **configured, **more)
        check(done.stdout == "2 0\n", done.stdout + done.stderr)
        return len(support.from_snapshot(done)) == 1

    done = world.run(world.home, MVLD_SNAPSHOT="1", XDG_CACHE_HOME=cache, **configured)
    check(Path(done.stdout.strip()).is_relative_to(cache), done.stdout)
    check(applied(world.home), "root's own snapshot is not taken")
    for path, target in {".cache": cache, ".cache/mvld": cache / "mvld",
                         ".cache/mvld/snapshots": cache / "mvld" / "snapshots"}.items():
        leads(world.alice, path, target)
        check(not applied(world.alice), f"HOME of another, {path} leads to {target}")
        check(not applied(world.home, XDG_CACHE_HOME=world.alice / ".cache"), f"XDG_CACHE_HOME, {path}")
    # And nothing is made there.
    for path in ".cache", ".cache/mvld", ".cache/mvld/snapshots":
        empty = world.program.folder / "empty"
        empty.mkdir()
        leads(world.alice, path, empty)
        chosen = {"XDG_CACHE_HOME": world.alice / ".cache"}
        done = support.run([world.program.path], **world.environment(world.home, MVLD_SNAPSHOT="1", **chosen, **configured))
        check(done.returncode == 1 and not done.stdout, done.stdout + done.stderr)
        world.run(world.home, **chosen,
                  MVLD_TUNABLES="app.on-miss=build", **configured)
        done = world.tool("analyze", "/bin/true", **chosen)
        check(done.returncode == 1 and "another user owns it" in done.stderr, done.stdout + done.stderr)
        check(not list(empty.rglob("*")), f"{path}: {list(empty.rglob('*'))}")
        empty.rmdir()


if __name__ == "__main__":
    os.environ.pop("XDG_CACHE_HOME", None)  # the homes are what is tested
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
