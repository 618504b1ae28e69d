# SPDX-License-Identifier: MIT
"""A setuid program takes snapshots from root's cache alone, and leaves none.

A program that is setuid root runs as nobody; what it has mapped says whose files it took.  The same
program where its set-id bit gives no rights (no_new_privs) takes nobody's own, so each refusal is one of AT_SECURE.  A failure means: a
user can put code into programs that have more rights than he has, or have them write files.

Works on overlays of /etc, the pass folder and /var/cache in a mount namespace of its own.
Arguments: the folder of the configuration, that of passes.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "loader"))
import support  # noqa: E402
from privileged import HERE, NOBODY, alone, own  # noqa: E402
from own_world import MVLD, World  # noqa: E402
from support import check  # noqa: E402

SYSTEM = Path("/var/cache/mvld")
SETUID, PLAIN = [], ["setpriv", "--no-new-privs"]  # a chmod would make it another file

alone()
config, passes = map(Path, sys.argv[1:])
os.environ.pop("XDG_CACHE_HOME", None)
built = {path.name: path.read_bytes() for path in (
    support.LOADER, support.BUILD / "passes" / "direct-calls" / "direct-calls.so")}
own(config, passes, SYSTEM)
for name, folder in ("ld-mvld.so.1", HERE), ("direct-calls.so", passes):
    (folder / name).write_bytes(built[name])
    os.chmod(folder / name, 0o755)
support.LOADER = HERE / "ld-mvld.so.1"
work, home = HERE / "work", HERE / "home"
work.mkdir()
home.mkdir()
os.chown(home, 65534, 65534)
theirs = home / ".cache" / "mvld"
conf = config / "mvld.conf"


def configure(more=""):
    conf.write_text(f"[app]\nmatch = {work}/program\npasses = direct-calls\nplacement = near\n{more}")
    done = support.run([MVLD, "config"])
    check(done.returncode == 0, done.stdout + done.stderr)


def start(mode, user=NOBODY, **more):
    done = subprocess.run([*user, *mode, world.program], capture_output=True, text=True, timeout=30, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": str(home), "TELL_MAPPED": "1", **more})
    check(done.returncode == 0 and done.stdout, f"{done.returncode} {done.stderr}")
    return done.stdout + done.stderr


def takes(mode, **more):
    """From which folder the code of libown.so is: root's, the user's, or None."""
    out = start(mode, **more)
    check(out.startswith(world.plain.splitlines()[0] + "\n"), out)
    found = set(re.findall(r"^mapped: (/\S+)/mvld/snapshots/\S+/\d+-libown.so at ", out, re.M))
    check(len(found) < 2, out)
    return {"/var/cache": "root's", f"{home}/.cache": "the user's"}[found.pop()] if found else None


def expect(**answers):
    """What the program takes, with the set-id bit and without."""
    for mode, name in (SETUID, "setuid"), (PLAIN, "plain"):
        got = takes(mode)
        check(got == answers[name], f"{name}: {got}")


def own_by(folder, user):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user, user)


configure()
analysis = SYSTEM / "analysis"
SYSTEM.joinpath("analysis").mkdir(exist_ok=True)
world = World(work)
world.compile("program")  # with this loader
os.chmod(world.program, 0o4755)
listed = support.run(["/lib64/ld-linux-x86-64.so.2", "--list", world.program]).stdout
done = support.run([MVLD, "analyze", world.program, *re.findall(r"=> (/\S+)", listed)])  # all: on-miss wants that
check(done.returncode == 0 and list(analysis.rglob("*.mvld")), done.stdout + done.stderr)

expect(setuid=None, plain=None)
for user, system in (NOBODY, False), ([], True):  # what root has left nobody leaves again
    start(PLAIN, user, MVLD_SNAPSHOT="1")
    found = sorted(path.name for path in (SYSTEM if system else theirs).iterdir())
    check("snapshots" in found, f"{user}: {found}")

images = theirs / "snapshots"
good = SYSTEM / "snapshots"
expect(setuid="root's", plain="root's")
good.rename(SYSTEM / "aside")
expect(setuid=None, plain="the user's")
# Root's, in the user's folder.
own_by(images, 0)
expect(setuid=None, plain="the user's")
own_by(images, 65534)
# The user's, in root's folder; and what others may write there.
shutil.copytree(images, good)
for path in images.rglob("*"):
    times = path.stat()
    os.utime(good / path.relative_to(images), ns=(times.st_atime_ns, times.st_mtime_ns))
shutil.rmtree(images)
own_by(good, 65534)
expect(setuid=None, plain=None)
shutil.rmtree(good)
(SYSTEM / "aside").rename(good)
expect(setuid="root's", plain="root's")
for path in good.rglob("*"):
    if path.is_file():
        path.chmod(0o646)
expect(setuid=None, plain=None)
shutil.rmtree(good)

configure("on-miss = build\n")
for variables in {}, {"XDG_CACHE_HOME": str(home / "chosen")}, {"MVLD_SNAPSHOT": "1"}:
    start(SETUID, **variables)
    left = [path for folder in (SYSTEM, home) for path in folder.rglob("*")
            if "snapshots" in path.parts]
    check(not left, f"{variables}: it has left {left}")
start(PLAIN)
check(list(theirs.glob("snapshots/*/manifest")), "nobody has left none")
