# SPDX-License-Identifier: MIT
"""The service case study: committed before main by a configuration file, committed
again while it runs, with the bytes at its call sites before and after."""
import re
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tests")]
import live  # noqa: E402
import support  # noqa: E402
from report import progress, say  # noqa: E402

POINTS = ("trace", "checksum", "store_lock", "store_unlock")


def build(folder):
    """Four objects, as anybody would build them, plus -fplugin."""
    folder.mkdir(parents=True, exist_ok=True)
    here = ["-L" + str(folder), "-Wl,-rpath,$ORIGIN"]
    shared = ["-fPIC", "-shared"]
    support.compile_c(folder / "libstore.so", *shared, HERE / "store.c")
    support.compile_c(folder / "libingest.so", *shared, HERE / "ingest.c", *here, "-lstore")
    support.compile_c(folder / "libexport.so", *shared, HERE / "export.c", *here, "-lstore")
    support.compile_c(folder / "service", HERE / "service.c", *here, "-lingest", "-lstore")
    config = (HERE / "service.conf").read_text().replace("@SERVICE@", str(folder / "service"))
    (folder / "service.conf").write_text(config)
    return folder


def command(folder, *arguments):
    return [str(folder / "service"), "--export", str(folder / "libexport.so"), *arguments]


class Stepped:
    """The service with --step: reads what it says up to the next step."""

    def __init__(self, folder):
        environment = support.clean_environment(
            MVLD_CONFIG=folder / "service.conf", MVLD_PASS_PATH=support.LIBRARY.parent)
        self.process = subprocess.Popen(
            [str(support.LOADER), *command(folder, "--step", "--lines", "100000")],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = []

    def until(self, text):
        for line in self.process.stdout:
            say("    | " + line.rstrip())
            self.said.append(line.rstrip())
            if line.startswith(text):
                return line.rstrip()
        support.check(False, f"the service ended (status {self.process.wait()}) before saying "
                             f"{text!r}")

    def resume(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        rest, _ = self.process.communicate(timeout=30)
        for line in rest.splitlines():
            say("    | " + line)
            self.said.append(line)
        return self.process.returncode


def sites(folder):
    """The calls from libingest's hot path to libstore's variation points."""
    found = live.call_sites(folder / "libingest.so", "ingest_line")
    return [site for site in found if re.search(rf"\b({'|'.join(POINTS)})\b", site[2])]


def look(stepped, folder, call_sites):
    process = live.LiveProcess(stepped.process.pid)
    return [live.instruction_at(process, folder / "libingest.so", address, folder)
            for address, _, _ in call_sites]


def show(call_sites, stages):
    """For each call site what stands in the file, and in memory at each stage."""
    for i, (address, code, text) in enumerate(call_sites):
        say(f"    libingest.so+{address:#x}, in ingest_line")
        text = re.sub(r"[0-9a-f]+ <(.*)>", r"\1", text)
        say(f"        {'in the file':<28} {code.hex(' '):<15}  {text}")
        for name, instructions in stages.items():
            now, now_text = instructions[i]
            if now == code:
                now_text = "as in the file"
            say(f"        {name:<28} {now.hex(' '):<15}  {now_text}")


def nanoseconds(folder):
    """A run's times of a line with the same switches, (committed, reverted, still reverted)."""
    done = support.run([support.LOADER, *command(folder)], MVLD_CONFIG=folder / "service.conf")
    times = [re.search(rf"{what}:.* ([0-9.]+) ns", done.stdout)[1]
             for what in ("tracing=0, committed", "tracing=0, reverted", "tracing=0, again")]
    return tuple(map(float, times))


def run_plain(folder):
    say("\n    under the plain ld.so:")
    done = support.run(command(folder))
    for line in done.stdout.splitlines():
        say("    | " + line)
    return done.returncode == 0 and "no multiverse run time" in done.stdout


def run_stepped(folder, call_sites):
    """What the service said at its steps, and what stood at its call sites there."""
    stepped, said, seen = Stepped(folder), {}, {}
    watchdog = threading.Timer(60, stepped.process.kill)
    watchdog.start()
    try:
        for step in ("start", "tracing=1, no commit", "tracing=1, committed", "dlopen",
                     "tracing=0, committed", "tracing=0, reverted", "tracing=0, again"):
            said[step] = stepped.until(step)
            seen[step] = look(stepped, folder, call_sites)
            stepped.resume()
        said["status"] = stepped.finish()
    finally:
        watchdog.cancel()
        stepped.process.kill()
    said["constructor"] = next(line for line in stepped.said if line.startswith("constructor"))
    return said, seen


def run(folder):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    progress("compiling the service: one executable, three libraries")
    build(folder)
    say("    mvld show libstore.so, as built with the plugin:")
    shown = support.run([support.BUILD / "tools" / "mvld", "show", folder / "libstore.so"])
    for line in shown.stdout.splitlines():
        say("    | " + line.replace(str(folder) + "/", ""))
    plain_works = run_plain(folder)

    say("\n    under mvld; service.conf says smp=0, tracing=0, checksum=sum:")
    call_sites = sites(folder)
    said, seen = run_stepped(folder, call_sites)
    before, reverted = seen["start"], seen["tracing=0, reverted"]
    say("\n    the call sites, read from the memory of the live process:")
    show(call_sites, {"before main, tracing=0": before,
                      "after a commit, tracing=1": seen["tracing=1, committed"],
                      "reverted": reverted})
    progress("timing the service, 15 runs")
    # The least: what else the machine does only ever adds to such short times.
    committed_ns, dynamic_ns, again_ns = map(min, zip(*(nanoseconds(folder) for _ in range(15))))

    variant = said["constructor"].split("bound to ")[-1]
    patched = sum(now[0] != site[1] for now, site in zip(before, call_sites))
    restored = sum(now[0] == site[1] for now, site in zip(reverted, call_sites))
    n = len(call_sites)
    return [
        ("service: runs under the plain ld.so", "switches read at each call", plain_works),
        ("service: committed before a constructor ran", variant,
         variant.endswith("CHECKSUM_SUM") and " 0 locks, 0 traces" in said["start"]),
        ("service: a switch changed without commit", "no effect",
         " 0 traces" in said["tracing=1, no commit"]),
        ("service: committed through dlsym", "takes effect",
         " 200001 traces" in said["tracing=1, committed"]),
        ("service: library that came by dlopen", "bound before its constructor",
         "1 traces in its constructor, 1 traces and 0 locks" in said["dlopen"]),
        ("service: call sites patched before main", f"{patched} of {n}", patched == n >= 5),
        ("service: call sites restored by a revert", f"{restored} of {n}", restored == n),
        ("service: exit status", str(said["status"]), said["status"] == 0),
        ("a line of the service, switches committed, best of 15 runs",
         f"{committed_ns:.1f} ns; not committed {dynamic_ns:.1f} ns, and again {again_ns:.1f} ns", None),
    ]
