# SPDX-License-Identifier: MIT
"""A machine on which mvld is installed, in a private mount namespace, for tests of what `mvld enable` does to it."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from installation import did, in_namespace, install, support
from support import check

COMMANDS = [Path("/usr/local/bin"), Path("/usr/local/sbin")]
UNITS = Path("/etc/systemd/system")
prefix, libdir, sysconfdir, behaviour = sys.argv[1:5]


class Machine:
    """A copy of a program of the machine's, in a folder of its own, and mvld installed."""

    def __init__(self, folder):
        install(folder, "/usr/local")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/var/cache"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/var/lib"], check=True)
        for name in "MVLD_STATE", "XDG_CACHE_HOME":
            os.environ.pop(name, None)
        os.chmod(folder, 0o755)
        self.folder, self.programs = folder, folder / "programs"
        self.programs.mkdir()
        self.mvld, self.restore = f"{prefix}/bin/mvld", f"{prefix}/sbin/mvld-restore"
        self.apps = Path(sysconfdir) / "mvld"

    def program(self, name, original="/bin/bash"):
        to = self.programs / name
        shutil.copy(os.path.realpath(original), to)
        return to

    def files(self):
        """All that a user could miss: names, contents, modes, times."""
        places = [self.apps, self.programs, *COMMANDS, UNITS, Path("/var/cache"), Path("/var/lib")]
        return {str(path): (path.stat().st_mode, path.is_file() and path.stat().st_mtime_ns,
                            path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest())
                for place in places for path in place.rglob("*") if path.exists()}

    def fails(self, *words):
        return self.fails_as([], *words)

    def fails_as(self, prefix, *words):
        done = subprocess.run([*prefix, self.mvld, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check(done.returncode == 1, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def status(self, program, trouble=False):
        done = subprocess.run([self.mvld, "status", "--json", str(program)], capture_output=True, text=True)
        check(done.returncode == trouble and not done.stderr, f"status: {done}")
        return json.loads(done.stdout)[0]

    def is_applied(self, *program):
        """What the program has mapped, not what is said of it.  (Behind the last command there is no exec.)"""
        done = subprocess.run([*program, "-c", "cat /proc/$$/maps; true"], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)
        return "/var/cache/mvld/snapshots/" in done.stdout

    def command(self, name, original="/bin/bash"):
        """A program that a shell finds by its name, behind those in /usr/local/bin."""
        os.environ["PATH"] = f"{COMMANDS[0]}:{self.programs}:{os.environ['PATH']}"
        return self.program(name, original)

    def unit(self, name, program):
        UNITS.mkdir(parents=True, exist_ok=True)
        (UNITS / name).write_text(f"[Service]\nExecStart={program}\n")

    def is_plain(self, before):
        """All is taken back, by whichever command, but for what is made of the configuration, and analyses."""
        now = {path: what for path, what in self.files().items()
               if not path.startswith(("/var/cache/mvld", "/var/lib/mvld")) and path != f"{self.apps}/config.cache"}
        check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")


def start(behaviours):
    if os.geteuid() or (prefix, sysconfdir) != ("/usr/local", "/etc"):
        support.skip("only root has its record and caches in /var, and only /usr/local can be replaced")
    sys.exit(in_namespace(lambda folder: behaviours[behaviour](Machine(folder))))
