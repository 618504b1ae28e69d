# SPDX-License-Identifier: MIT
"""startup.py STARTUP: what an exec of true costs, by its interpreter (PT_INTERP).

The same program under the host loader, under mvld with nothing configured, with
MVLD=off, and with the multiverse pass, which then finds nothing to commit.
"""
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402
from report import Spread  # noqa: E402

ROUNDS = 2000


def exec_times(startup, rounds, commands):
    """{name: Spread of µs} of commands, NAME=VALUE words in front of each."""
    words = []
    for command in commands.values():
        words += [*command, "--"]
    done = subprocess.run([str(word) for word in (startup, rounds, *words[:-1])], text=True,
                          env=support.clean_environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=600)
    support.check(done.returncode == 0, "startup: see above")
    return {name: Spread(map(float, line.split()))
            for name, line in zip(commands, done.stdout.splitlines())}


def main():
    with support.scratch_folder() as folder:
        host, mvld = folder / "host", folder / "mvld"
        shutil.copy("/bin/true", host)
        shutil.copy("/bin/true", mvld)
        subprocess.run([support.BUILD / "tools" / "mvld", "set-interp", mvld], check=True,
                       stdout=subprocess.DEVNULL)
        config = folder / "mvld.conf"
        config.write_text(f"[app]\nmatch = {mvld}\npasses = multiverse\n")
        times = exec_times(sys.argv[1], ROUNDS, {
            "host loader": [host],
            "mvld, nothing configured": [mvld],
            "mvld, MVLD=off": ["MVLD=off", mvld],
            "mvld, multiverse pass": [f"MVLD_CONFIG={config}",
                                      f"MVLD_PASS_PATH={support.LIBRARY.parent}", mvld]})
        first = times["host loader"]
        for name, time in times.items():
            print(f"result: exec of true, {name} | {time.median:.0f} | µs | "
                  f"{time.median - first.median:+.0f} µs; {time.beside(first)}")


if __name__ == "__main__":
    main()
