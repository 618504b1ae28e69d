# SPDX-License-Identifier: MIT
"""What the Python tests, the demo and the benchmarks share: where the build is,
how to compile a multiversed program, how to run one under mvld.

The build folder comes from MVLD_BUILD (meson sets it for tests).
"""
import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("MVLD_BUILD", SOURCE / "build")).resolve()
LOADER = BUILD / "loader" / "ld-mvld.so.1"
PLUGIN = BUILD / "gcc-plugin" / "multiverse.so"
CC = os.environ.get("MVLD_CC", "gcc")
MUSL = Path(CC).name == "musl-gcc"
PASSES = BUILD / "passes" / "multiverse"
LIBRARY = PASSES / ("musl" if MUSL else "") / "libmultiverse.so.1"
HOST_LOADER = "/lib/ld-musl-x86_64.so.1" if MUSL else "/lib64/ld-linux-x86-64.so.2"
MAPPED = SOURCE / "tests" / "mapped.c"  # a program with it reports its code: see mapped_files() below
# The same for any program, in its environment.
TELL_MAPPED = {"TELL_MAPPED": 1, "LD_PRELOAD": BUILD / "tests" / "mapped.so"}
GLIBC = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
# Before glibc 2.34 dlopen is in a library of its own.
LIBC = ["-Wl,--as-needed", "-ldl"] if GLIBC < (2, 34) else []

# What mvld changes in a test is recorded in a folder of the test's, not in the machine's record.
if "MVLD_STATE" not in os.environ:
    os.environ["MVLD_STATE"] = tempfile.mkdtemp(prefix="mvld-state-")
    atexit.register(shutil.rmtree, os.environ["MVLD_STATE"], ignore_errors=True)


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def check(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


def need(*paths):
    """Skips when a part was not built (a plugin needs gcc's headers)."""
    for path in paths:
        if not Path(path).exists():
            skip(f"{path} was not built")


PRIVATE_MOUNTS = ["unshare", "--mount", "--propagation", "private", "--"]


def may_mount():
    """What a command does behind PRIVATE_MOUNTS to mounts, nobody else sees.  Not so for users other than
    root, nor in a chroot whose root is no mount point."""
    return os.geteuid() == 0 and bool(shutil.which("unshare")) and not subprocess.run(
        [*PRIVATE_MOUNTS, "true"], capture_output=True).returncode


def perf(*words):
    """The command line of perf(1), which for a tracepoint mounts tracefs, and leaves it so: here in a namespace
    that goes with it."""
    return [*(PRIVATE_MOUNTS if may_mount() else []), "perf", *words]


@functools.cache
def need_perf():
    """Skips where perf(1) records no sample.  Without /sys that of Linux 6.12 does so with status 0."""
    if not shutil.which("perf"):
        skip("perf is missing")
    with scratch_folder() as folder:
        data = folder / "data"
        done = subprocess.run(["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "2000", "-o", data, "sh", "-c",
                               "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done"], capture_output=True, text=True)
        samples = subprocess.run(["perf", "script", "-i", data], capture_output=True).stdout
    if done.returncode or not samples:
        skip(f"perf cannot record here: {done.stderr.strip() or 'it takes no sample'}")


def clean_environment(**extra):
    """The caller's environment without anything that steers mvld."""
    env = {k: v for k, v in os.environ.items()
           if (not k.startswith("MVLD") or k == "MVLD_STATE") and k not in ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH")}
    env.update({k: str(v) for k, v in extra.items()})
    return env


def compile_c(output, *arguments, plugin=True, cwd=None, cc=CC):
    """cc -O2 … -o output, with the multiverse plugin unless told otherwise."""
    command = [cc, "-O2", "-g1", "-Wall", "-I", str(SOURCE / "include")]
    command += [f"-fplugin={PLUGIN}"] if plugin else ["-Wno-attributes"]
    command += ["-o", str(output), *map(str, arguments), *LIBC]
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    check(done.returncode == 0, f"{' '.join(command)}\n{done.stdout}")
    return command


def take(folder, part, *names):
    """Copies, each a file of its own, of what meson has built in tests/PART: as NAME, or as OTHER for NAME=OTHER.
    Where that has room for the path of a folder (world_folder in tests/meson.build), this folder's stands."""
    def placed(room):
        path = os.fsencode(folder) + room[1] + b"\0"
        check(len(path) <= len(room[0]), f"the path {folder} is too long")
        return path.ljust(len(room[0]), b"\0")

    for name in names:
        name, _, other = name.partition("=")
        built, new = BUILD / "tests" / part / name, Path(folder) / ".taken"
        need(built)
        new.write_bytes(re.sub(rb"/room-for-the-path-of-a-folder-*([^\0]*)\0", placed, built.read_bytes()))
        new.chmod(built.stat().st_mode)
        new.rename(Path(folder) / (other or name))


def analyze(cache, *objects):
    """Analyses of these objects, where processes with this XDG_CACHE_HOME find them."""
    done = run([BUILD / "tools" / "mvld", "analyze", "--output", cache / "mvld" / "analysis", *objects],
               timeout=120)
    check(done.returncode == 0, done.stdout + done.stderr)


def moving(folder, *objects):
    """Environment in which direct-calls and concat can do their work on these objects, all
    analysed into `folder`, before multiverse."""
    analyze(folder, *objects)
    places = [PASSES, BUILD / "passes" / "direct-calls", BUILD / "passes" / "concat"]
    return {"XDG_CACHE_HOME": folder, "MVLD_PASS_PATH": ":".join(map(str, places))}


MOVING = "passes = direct-calls, concat, multiverse"
# Code moves, also where nothing is asked for that only moved code has (passes/concat/README.md):
# behind an [app] and its other sections; or in MVLD_TUNABLES.
COPY, COPY_TUNABLE = "[concat]\ncopy = always\n", "concat.copy=always"


def run(command, config=None, timeout=30, **env):
    """The finished process, stdout and stderr as text.  `config` is the text of
    a configuration file that MVLD_CONFIG then names."""
    with tempfile.TemporaryDirectory(prefix="mvld-run-") as scratch:
        env.setdefault("MVLD_PASS_PATH", PASSES)
        if config is not None:
            path = Path(scratch) / "mvld.conf"
            path.write_text(config)
            env["MVLD_CONFIG"] = path
        return subprocess.run([str(word) for word in command], env=clean_environment(**env),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=timeout)


def configure(folder, text, mounted=None):
    """The system's configuration, which lies in this folder, as `mvld config` makes it of one file.  Where it is mounted
    elsewhere and tools look at it, the file is there, too."""
    (Path(folder) / "config.cache").write_text(f"@/*/\n@ {mounted or folder}/mvld.conf\n{text}")
    if mounted:
        (Path(folder) / "mvld.conf").write_text(text)


def age_images(cache):
    """What is younger than a minute is not made anew by on-miss."""
    for image in Path(cache).glob("mvld/snapshots/*/manifest"):
        os.utime(image, (1, 1))


def take_log(folder):
    """What processes wrote to the folder's log.PID, which is removed."""
    paths = list(Path(folder).glob("log.*"))
    log = "".join(path.read_text() for path in paths)
    for path in paths:
        path.unlink()
    return log


SNAPSHOT = r"(/\S*/mvld/snapshots/[^/\s]+)/(?:\d+-)?([^/\s]+)"  # a file of a snapshot: its folder, the object's name


def mapped_files(done):
    """[(file, where it begins)]: from what a program with MAPPED had mapped code when it ended, by address."""
    found = re.findall(r"^mapped: (.*) at ([0-9a-f]+)$", done.stderr, re.M)
    check(found, f"it does not report what is mapped:\n{done.stderr}")
    return [(path, int(base, 16)) for path, base in found]


def from_snapshot(done):
    """The names of the objects whose code such a program had mapped from a snapshot; concat.so is moved code."""
    found = [re.fullmatch(SNAPSHOT, path) for path, _ in mapped_files(done)]
    return [match[2] for match in found if match]


def bases(done):
    """Where the objects of such a program began, by name, whether their code was mapped from a snapshot or not."""
    return {(re.fullmatch(SNAPSHOT, path) or ["", "", Path(path).name])[2]: base
            for path, base in mapped_files(done)}


def changed(done, name):
    """(places, pages) at which the code of such a program's object differs from its file."""
    mapped_files(done)
    found = re.search(rf"^changed: (\d+) places on (\d+) pages of \S*/{re.escape(name)}$", done.stderr, re.M)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def has_moved(done):
    """Whether code of such a program was moved, to libconcat's region: from a snapshot, or in this process."""
    return "concat.so" in from_snapshot(done) or changed(done, "libconcat.so.1") != (0, 0)


def moved_code(log):
    """[(object, bytes, where it was, where it runs)] of MVLD_DEBUG=passes: nothing else knows the places."""
    return [(Path(path).name, int(size), int(original, 16), int(at, 16)) for path, size, original, at in
            re.findall(r"(/\S+): (\d+) bytes at 0x(\w+) moved to 0x(\w+)", log)]


@contextlib.contextmanager
def scratch_folder(keep=False):
    folder = Path(tempfile.mkdtemp(prefix="mvld-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
