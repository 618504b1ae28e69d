# SPDX-License-Identifier: MIT
"""The service case study: committed before main by a configuration file, committed
again while it runs, with the bytes at its call sites before and after."""
import re
import subprocess
import sys
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


def number(pattern, line):
    return float(re.search(pattern, line)[1])


def run(folder):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    progress("compiling the service: one executable, three libraries")
    build(folder)
    rows = []

    say("    under the plain ld.so, no multiverse run time:")
    plain = support.run(command(folder))
    for line in plain.stdout.splitlines():
        say("    | " + line)
    rows.append(("service: runs under the plain ld.so", "exit status " + str(plain.returncode),
                 plain.returncode == 0 and "no multiverse run time" in plain.stdout))

    say("\n    under mvld; service.conf says smp=0, tracing=0, checksum=sum:")
    stepped = Stepped(folder)
    call_sites = sites(folder)
    try:
        start = stepped.until("start")
        before = look(stepped, folder, call_sites)
        stepped.resume()
        uncommitted = stepped.until("tracing=1, no commit")
        stepped.resume()
        committed = stepped.until("tracing=1, committed")
        after = look(stepped, folder, call_sites)
        stepped.resume()
        stepped.until("dlopen")
        dlopen = stepped.said[-1]
        stepped.resume()
        fast = stepped.until("tracing=0, committed")
        stepped.resume()
        slow = stepped.until("tracing=0, reverted")
        reverted = look(stepped, folder, call_sites)
        stepped.resume()
        status = stepped.finish()
    finally:
        stepped.process.kill()

    say("\n    the call sites in the live process (mapped at another address each run):")
    show(call_sites, {"before main, tracing=0": before, "after a commit, tracing=1": after,
                      "reverted": reverted})
    in_constructor = next(line for line in stepped.said if line.startswith("constructor"))
    rows += [
        ("service: committed before its constructors", in_constructor.split("is ")[-1],
         "generic" not in in_constructor and " 0 locks, 0 traces" in start),
        ("service: a switch changed without commit", "no effect", " 0 traces" in uncommitted),
        ("service: committed through dlsym", "takes effect",
         " 200001 traces" in committed),
        ("service: library that came by dlopen", "bound before its constructor",
         "1 traces in its constructor, 1 traces and 0 locks" in dlopen),
        ("service: call sites patched", f"{sum(a != b for a, b in zip(before, reverted))} of "
         f"{len(call_sites)}", all(a != b for a, b in zip(before, reverted))),
        ("service: exit status", str(status), status == 0),
        ("service: time of a line, committed against dynamic",
         f"{number(r'([0-9.]+) ns', fast) / number(r'([0-9.]+) ns', slow):.2f}", None),
    ]
    return rows
