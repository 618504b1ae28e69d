#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stock Debian programs with mvld as the system's loader.

In a private mount namespace mvld is bound over /lib64/ld-linux-x86-64.so.2, so
that every program started there runs under it, unmodified: the shell that reads
a case, the programs that it starts, and theirs.  Nothing outside changes.  Each
case runs in such a namespace and in one without the bind; output (stdout and
stderr) and exit status must be equal.

A failure means that a program which knows nothing of mvld behaves differently
because mvld is installed.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402
from stock_cases import CASES  # noqa: E402

# The folder of the loader: /lib64 is a link to usr/lib64 on merged-usr systems.
LOADER_FOLDER = Path(os.path.realpath("/lib64"))
LOADER_NAME = Path(support.HOST_LOADER).name


def namespace():
    """The command that starts a private mount namespace; skips where none may be made."""
    reason = "unshare(1) is missing"
    for flags in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *flags, "--propagation", "private", "--"]
        try:
            probe = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"],
                                   capture_output=True, text=True, timeout=20)
        except FileNotFoundError:
            continue
        if probe.returncode == 0:
            return command
        reason = probe.stderr.strip()
    support.skip(f"private mount namespaces are not permitted here ({reason})")


def loader_folder(target):
    """A copy of the loader's folder in which mvld has the loader's name and the
    host loader lies beside it under the name that mvld looks for first."""
    target.mkdir()
    for entry in LOADER_FOLDER.iterdir():
        if entry.name != LOADER_NAME:
            shutil.copy2(entry, target / entry.name, follow_symlinks=False)
    shutil.copy2(support.LOADER, target / LOADER_NAME)
    shutil.copy2(support.HOST_LOADER, target / (LOADER_NAME + ".host"))
    return target



class Harness:
    def __init__(self, scratch, config=None):
        self.scratch = scratch
        self.plain = namespace()
        folder = loader_folder(scratch / "lib64")
        bind = 'mount --bind "$0" "$1" && shift && exec "$@"'
        self.under_mvld = [*self.plain, "sh", "-c", bind, str(folder), str(LOADER_FOLDER)]
        self.environment = support.clean_environment(
            HOME=scratch / "home", TMPDIR=scratch / "tmp", LC_ALL="C.UTF-8", TZ="UTC",
            PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        self.config = None
        if config is not None:
            self.config = scratch / "mvld.conf"
            self.config.write_text(config)

    def shell(self, script, under_mvld, timeout=60):
        """(output, status) of a shell script in a fresh folder."""
        for name in ("home", "tmp", "work"):
            shutil.rmtree(self.scratch / name, ignore_errors=True)
            (self.scratch / name).mkdir()
        env = dict(self.environment)
        if under_mvld and self.config:
            env["MVLD_CONFIG"] = str(self.config)
            env["MVLD_PASS_PATH"] = str(support.LIBRARY.parent)
        prefix = self.under_mvld if under_mvld else self.plain
        process = subprocess.Popen([*prefix, "sh", "-c", script], cwd=self.scratch / "work", env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            status = f"none after {timeout} s"
        return output.decode(errors="replace"), status

    def check_in_place(self):
        """A stock program's own map must show both loaders, else nothing is tested."""
        maps, status = self.shell("cat /proc/self/maps", True)
        inode = str((self.scratch / "lib64" / LOADER_NAME).stat().st_ino)
        ours = [line for line in maps.splitlines() if line.split()[4:5] == [inode]]
        host = [line for line in maps.splitlines() if line.endswith(LOADER_NAME + ".host")]
        support.check(status == 0 and ours and host,
                      f"cat does not run under mvld (status {status}):\n{maps}")
        if self.config:
            ask = "import ctypes; print(ctypes.CDLL(None).multiverse_commit())"
            answer, _ = self.shell(f'"{sys.executable}" -c "{ask}"', True)
            support.check(answer == "0\n", f"python has no multiverse run time:\n{answer}")

    def compare(self, case):
        """None when the program is not installed, else the plain run's output and
        status, and what differs ("" when nothing does)."""
        path = self.environment["PATH"]
        if not all(shutil.which(name, path=path) for name in case.needs):
            return None
        script = "set -u\n" + case.script
        output, status = self.shell(script, under_mvld=False)
        got, got_status = self.shell(script, under_mvld=True)
        difference = ""
        if status != 0 or case.expect not in output:
            difference = f"the plain run is broken: status {status}\n{output}"
        elif (got, got_status) != (output, status):
            difference = (f"status {got_status}, plain {status}\n--- under mvld\n{got}\n"
                          f"--- plain\n{output}")
        return output, status, difference


def run_all(harness, report=print):
    """Runs every case; the numbers of (equal, different, not installed) ones."""
    equal = different = absent = 0
    for case in CASES:
        result = harness.compare(case)
        if result is None:
            absent += 1
            report(f"  {case.name:<10} not installed, left out")
            continue
        output, _, difference = result
        if difference:
            different += 1
        else:
            equal += 1
        report(f"  {case.name:<10} {case.what:<62} {output.count(chr(10)):3} lines  "
               + ("DIFFERENT\n" + difference if difference else "equal"))
    return equal, different, absent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", help="a pipeline to configure for every program")
    arguments = parser.parse_args()
    support.need(support.LOADER)
    before = os.lstat(support.HOST_LOADER)
    config = f"[app]\nmatch = *\npasses = {arguments.passes}\n" if arguments.passes else None
    with support.scratch_folder() as scratch:
        harness = Harness(scratch, config)
        harness.check_in_place()
        equal, different, _ = run_all(harness)
    after = os.lstat(support.HOST_LOADER)
    support.check((before.st_ino, before.st_mtime) == (after.st_ino, after.st_mtime)
                  and not os.path.lexists(support.HOST_LOADER + ".host"),
                  "the machine's own loader was touched")
    support.check(different == 0, f"{different} programs behave differently under mvld")
    support.check(equal >= 4, f"only {equal} programs are installed: too few to say anything")


if __name__ == "__main__":
    main()
