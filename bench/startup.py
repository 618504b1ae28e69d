# SPDX-License-Identifier: MIT
"""startup.py STARTUP: what an exec of true costs, by its interpreter (PT_INTERP), and by a command that starts it.

The same program under the host loader, under mvld with nothing configured, with
MVLD=off, and with the multiverse pass, which then finds nothing to commit; and the
unchanged one by env(1), by `mvld run` and by what wrappers execute.  Beside the
times stand system calls and page faults, which a busy machine does not change, where
perf(1) may count them.
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


# Of perf; what the machine cannot count is left out.
EVENTS = {"raw_syscalls:sys_enter": "system calls", "page-faults": "page faults",
          "instructions:u": "instructions"}


def counts(command, env):
    """{unit: number} of one start, or {}: the mean of five."""
    if not shutil.which("perf"):
        return {}
    done = subprocess.run(support.perf("stat", "-x;", "-r5", "-e", ",".join(EVENTS), "--",
                                        *map(str, command)), env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    found = {}
    for line in done.stderr.splitlines() if done.returncode == 0 else ():
        value, _, event, *_ = [*line.split(";"), "", "", ""]
        if event in EVENTS and value.replace(".", "").isdigit():
            found[EVENTS[event]] = float(value)
    return found


def show_counts(name, jobs):
    """`jobs`: {way: (command, environment)}, the first is what the others are compared with."""
    first = None
    for way, (command, env) in jobs.items():
        found = counts(command, env)
        first = first or found
        for unit, value in found.items():
            print(f"result: {name}, {way} | {value:.0f} | {unit} | "
                  f"{value - first.get(unit, value):+.0f}", flush=True)


def with_words(command):
    """NAME=VALUE words in front of a command become its environment."""
    n = 0
    while "=" in str(command[n]):
        n += 1
    own = dict(str(word).split("=", 1) for word in command[:n])
    return command[n:], support.clean_environment(**own)


def main():
    with support.scratch_folder() as folder:
        host, mvld = folder / "host", folder / "mvld"
        shutil.copy("/bin/true", host)
        shutil.copy("/bin/true", mvld)
        subprocess.run([support.BUILD / "tools" / "mvld", "set-interp", mvld], check=True,
                       stdout=subprocess.DEVNULL)
        config = folder / "mvld.conf"
        config.write_text(f"[app]\nmatch = {mvld}\npasses = multiverse\n")
        commands = {
            "host loader": [host],
            "mvld, nothing configured": [mvld],
            "mvld, MVLD=off": ["MVLD=off", mvld],
            "mvld, multiverse pass": [f"MVLD_CONFIG={config}",
                                      f"MVLD_PASS_PATH={support.LIBRARY.parent}", mvld],
            "env": ["/usr/bin/env", host],
            "mvld run": [support.BUILD / "tools" / "mvld", "run", host],
            "mvld-run": [support.BUILD / "tools" / "mvld-run", host]}
        times = exec_times(sys.argv[1], ROUNDS, commands)
        first = times["host loader"]
        for name, time in times.items():
            print(f"result: exec of true, {name} | {time.median:.0f} | µs | "
                  f"{time.median - first.median:+.0f} µs; {time.beside(first)}")
        show_counts("exec of true", {name: with_words(c) for name, c in commands.items()})


if __name__ == "__main__":
    main()
