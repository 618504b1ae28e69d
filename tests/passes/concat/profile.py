# SPDX-License-Identifier: MIT
"""profile.py BEHAVIOUR: profiles for `order = profile`, and `mvld profile`, which makes them
(profile.c).

Each function below is one test; its text says what a failure means.
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PASS = support.BUILD / "passes" / "concat"


class Program:
    def __init__(self, folder):
        support.need(support.LOADER, PASS / "concat.so", PASS / "libconcat.so.1")
        self.folder, self.cache = folder, folder / "cache"
        self.path, self.profile = folder / "program", folder / "program.order"
        support.take(folder, "passes/concat", "profiled=program")
        self.at = {name: int(at, 16) for at, name in re.findall(
            r"^([0-9a-f]+) [tT] (\w+)$", subprocess.run(
                ["nm", self.path], capture_output=True, text=True, check=True).stdout, re.M)}
        support.analyze(self.cache, self.path)

    def run(self, *options):
        config = self.folder / "config"
        config.write_text("\n".join([f"[app]\nmatch = {self.path}\npasses = concat\n[concat]",
                                     *(options or [f"order = profile\nprofile = {self.profile}"])]))
        done = subprocess.run([self.path], capture_output=True, text=True, timeout=20,
                              env=support.clean_environment(
                                  MVLD_CONFIG=config, XDG_CACHE_HOME=self.cache, TELL_MAPPED=1,
                                  MVLD_PASS_PATH=PASS, MVLD_DEBUG="passes,image"))
        check((done.returncode, done.stdout) == (0, "96\n"), done.stdout + done.stderr)
        return done

    def fragments(self, done):
        """Where each of its fragments is and was, by place, and its size."""
        base = support.bases(done)["program"]
        return sorted((at, original - base, size) for name, size, original, at in support.moved_code(done.stderr)
                      if name == "program")


def hot(program):
    """What a profile names does not come first, in its order, each at the beginning of a line; or the
    rest is missing, or lies otherwise in its lines."""
    program.profile.write_text(
        "# hot\n\n  program\tgamma # a symbol\nlibnothere.so.1 +0x10\nprogram nothere\n"
        f"program +0x{program.at['local'] + 1:X}\r\nprogram alpha\nprogram +0xffff0\n"
        "program gamma\n")
    done = program.run()
    log, fragments = done.stderr, program.fragments(done)
    check([original for _, original, _ in fragments[:3]] == [program.at[name] for name in ("gamma", "local", "alpha")], log)
    lines = [at % 64 if original % 16 == 0 else (at - original) % 64 for at, original, _ in fragments]
    check(lines[:3] == [0, 0, 0], log)
    check(all((at - original) % 64 == 0 for at, original, _ in fragments[3:]), log)
    check(any(original <= program.at["beta"] < original + size for _, original, size in fragments), log)
    check("2 of 9 lines name nothing" in log, log)


def empty(program):
    """A profile that names nothing of the program keeps it from being moved."""
    program.profile.write_text("# nothing")
    check(len(program.fragments(program.run())) == 1, "it was cut")


def wrong(program):
    """A profile that is none is read all the same; nobody hears where it is wrong; or code is
    moved, or the program does not run."""
    for text, line, words in (("program\n", 1, "an object without a function: program"),
                              ("\n\nprogram main more\n", 3, "more than an object and a function"),
                              ("program +12", 1, "no offset like +0x1f: +12"),
                              ("program +0x", 1, "no offset"),
                              ("program +0x123456789", 1, "no offset"),
                              ("other +0xg", 1, "no offset")):
        program.profile.write_text(text)
        done = program.run()
        check(f"{program.profile}:{line}: {words}" in done.stderr and not support.has_moved(done), done.stderr)
    for path, words in (program.folder / "absent", "cannot be read (error 2)"), \
                       (program.folder, "cannot be read (error 22)"):
        done = program.run("order = profile", f"profile = {path}")
        check(words in done.stderr and not support.has_moved(done), done.stderr)
    done = program.run("order = profile")
    check("needs a file" in done.stderr and not support.has_moved(done), done.stderr)


def made(program):
    """`mvld profile` counts samples for other functions than they are in, or reads what perf did
    not write."""
    where, at = "/nowhere/libother.so", program.at
    segments = subprocess.run(["readelf", "-lW", program.path], capture_output=True, text=True,
                              check=True).stdout
    offset, linked, size = (int(word, 16) for word in re.search(
        r"LOAD +(\w+) (\w+) \w+ (\w+) \w+ R E", segments).groups())
    base, overlay_base = 0x555500000000, 0x555600000000
    # Its code in two snapshots: copies of the file.
    overlays = [program.folder / "mvld" / "snapshots" / name / "0-program" for name in ("0123-4567", "0123-89ab")]
    for copy in overlays:
        copy.parent.mkdir(parents=True)
        shutil.copy(program.path, copy)

    def sample(pid, address, name, path):
        return f" {pid}  {address:16x} {name} ({path})\n"

    text = (f" 7 PERF_RECORD_MMAP2 7/7: [{base:#x}({size:#x}) @ {offset:#x} fe:00 1 2]: r-xp "
            f"{program.path}\n 7 PERF_RECORD_MMAP2 7/7: [0x7000(0x1000) @ 0 fe:00 1 2]: r-xp "
            f"{where}\n 0 PERF_RECORD_COMM: nothing\n(\n) (\n 7 zz (x)\n\n")
    for name, n in (("local", 3), ("gamma", 2)):
        text += n * sample(7, base + at[name] + 2 - linked, name, program.path)
    text += sample(8, base + at["beta"] - linked, "[unknown]", program.path)  # a child
    text += sample(7, 0x7010, "f", where) + sample(7, 0x9010, "f", program.path)
    for i, copy in enumerate(overlays):
        start = overlay_base + i * 0x1000000
        text += (f" 7 PERF_RECORD_MMAP2 7/7: [{start:#x}({size:#x}) @ {offset:#x} fe:00 1 2]: r-xp {copy}\n" +
                 sample(7, start + at["alpha"] + 3 - linked, "alpha", copy))
    text += sample(7, 0x1, "gamma", "/tmp/perf-7.map")
    text += sample(7, 0x1, f"program+{at['beta']:#x}", "/image/concat.so")

    def profile(*arguments, status=0):
        done = subprocess.run([MVLD, "profile", *arguments], input=text, capture_output=True,
                              text=True, timeout=20)
        check(done.returncode == status, done.stderr)
        return done.stdout.splitlines()

    want = [f"program +{at[name]:#x} # {n} {name}" for name, n in sorted(
        (("local", 3), ("gamma", 3)), key=lambda pair: at[pair[0]])]
    rest = [f"program +{at[name]:#x} # 2 {name}".replace("beta", "") for name in sorted(
        ("alpha", "beta"), key=lambda name: at[name])]
    lines = profile("-")
    check(lines == ["# 4 functions; 10 of 12 samples are in functions of files", *want, *rest],
          "\n".join(lines))
    check(profile("--least", "3", "-")[1:] == want, "--least")
    found = json.loads("".join(profile("--json", "--least", "3", "-")))
    check((found["samples"], found["known"]) == (12, 10) and
          [(f["file"], int(f["offset"], 16), f["function"], f["samples"]) for f in found["functions"]] ==
          sorted((("program", at[name], name, 3) for name in ("local", "gamma")), key=lambda f: f[1]), f"--json: {found}")
    program.profile.write_text("\n".join(lines) + "\n")
    check(profile(program.profile, status=1) == [], "a profile is no recording")
    check(len(program.fragments(program.run())) > 4, "it is not read")
    profile(program.folder / "absent", status=1)
    profile("--least", "x", status=2)


def recorded(program):
    """A recording of perf cannot be read."""
    support.need_perf()
    data = program.folder / "perf.data"
    spin = "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done"
    done = subprocess.run(["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "2000", "-g", "-o",
                           data, "sh", "-c", spin], capture_output=True, text=True, timeout=60)
    check(not done.returncode, done.stderr)
    done = subprocess.run([MVLD, "profile", data], capture_output=True, text=True, timeout=60)
    shell = Path("/bin/sh").resolve().name
    check(done.returncode == 0 and re.search(rf"^{shell} \+0x[0-9a-f]+ # \d+", done.stdout, re.M),
          done.stdout + done.stderr)


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


main()
