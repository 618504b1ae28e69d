# SPDX-License-Identifier: MIT
"""A setuid program takes its pipeline from root's files alone.

A copy of cat, setuid root and with ld-mvld.so as its interpreter, runs as nobody:
the environment must not matter, root's configuration must, and neither may a file
that somebody else can write, or that lies where somebody else can write.  The same
holds when file capabilities or set-group-ID raise it.  A failure means: a user can
put code into programs that have more rights than he has.

Works on overlays of /etc and the pass folder in a mount namespace of its own.
Arguments: ld-mvld.so, count.so, multiverse.so (its library beside it), mvld, the folder of the
configuration, that of passes.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from privileged import HERE, NOBODY, alone, own  # noqa: E402

alone("patchelf")
loader, count, multiverse, mvld, config, passes = map(Path, map(os.path.abspath, sys.argv[1:]))
built = {name: path.read_bytes() for name, path in (
    ("loader", loader), ("count", count), ("multiverse.so", multiverse),
    ("libmultiverse.so.1", multiverse.parent / "libmultiverse.so.1"))}
own(config, passes)
(HERE / "ld-mvld.so.1").write_bytes(built["loader"])
os.chmod(HERE / "ld-mvld.so.1", 0o755)
installed = passes / "count.so"
installed.write_bytes(built["count"])
cat = HERE / "cat"
shutil.copy("/bin/cat", cat)
subprocess.run(["patchelf", "--set-interpreter", HERE / "ld-mvld.so.1", cat], check=True)
os.chmod(cat, 0o4755)
conf, made = config / "mvld.conf", config / "config.cache"


def configure(text):
    conf.write_text(text)
    subprocess.run([mvld, "config"], check=True, stdout=subprocess.DEVNULL, timeout=20)


configure(f"[app]\nmatch = {cat}\npasses = count\n")


def check(what, has_pass, *words, **env):
    done = subprocess.run([*NOBODY, *words, str(cat), "/proc/self/maps"],
                          env={"PATH": os.environ["PATH"], **env}, capture_output=True,
                          text=True, timeout=20)
    if done.returncode or "/cat" not in done.stdout:
        sys.exit(f"{what}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    if ("/count.so" in done.stdout) != has_pass:
        sys.exit(f"{what}: the pass is {'missing' if has_pass else 'there'}\n{done.stdout}")


check("root's configuration", True)
check("a wrong environment", True, MVLD_TUNABLES="nonsense", MVLD_CONFIG="/nowhere",
      MVLD_PASS_PATH="/tmp")
check("switched off by the environment", True, MVLD_TUNABLES="app.passes=")
for path in (made, installed):
    for mode in (0o664, 0o646):
        os.chmod(path, mode)
        check(f"{path} with mode {mode:o}", False)
    os.chmod(path, 0o644)
    os.chown(path, 65534, 0)
    check(f"{path} of nobody", False)
    os.chown(path, 0, 0)
check("all as before", True)

# Whoever may write a folder can put another of root's files there.
for folder in (config.parent, config, passes):
    # With the sticky bit, a file can be put there, but no folder of root's in the place of another.
    for mode in (0o775, 0o777 if folder == config.parent else 0o1777):
        os.chmod(folder, mode)
        check(f"{folder} with mode {mode:o}", False)
    os.chmod(folder, 0o755)
    os.chown(folder, 65534, 0)
    check(f"{folder} of nobody", False)
    os.chown(folder, 0, 0)
check("folders as before", True)

# A symbolic link counts as its target.
theirs = HERE / "theirs.cache"
shutil.move(made, theirs)
made.symlink_to(theirs)
check("a link to a file of root's", True)
os.chown(theirs, 65534, 0)
check("a link to somebody's file", False)
os.chown(theirs, 0, 0)
os.chmod(HERE, 0o757)
check("a link to where somebody can put a file", False)
os.chmod(HERE, 0o755)
check("a link to a file of root's, as before", True)
made.unlink()
configure(f"[app]\nmatch = {cat}\npasses = count\n")

# Placement costs randomness: only when root says so.
def near():
    done = subprocess.run([*NOBODY, str(cat), "/proc/self/maps"], capture_output=True, text=True,
                          timeout=20)
    at = {name: int(line.split("-")[0], 16) for line in reversed(done.stdout.splitlines())
          for name in ("/cat", "/libc") if re.search(name + r"([.-]|$)", line)}
    return abs(at["/cat"] - at["/libc"]) < 1 << 31


if near():
    sys.exit("libraries were placed near a set-user-ID program that nobody asked it for")
configure(f"[app]\nmatch = {cat}\npasses = count\nplacement = near\n")
if not near():
    sys.exit("libraries were not placed near although root asked for it")

# A library that a pass brings goes through LD_PRELOAD, and that is not for such programs.
for name in "multiverse.so", "libmultiverse.so.1":
    (passes / name).write_bytes(built[name])
configure(f"[app]\nmatch = {cat}\npasses = multiverse\n")
for mode, brought in (0o755, True), (0o4755, False):
    os.chmod(cat, mode)
    done = subprocess.run([*NOBODY, str(cat), "/proc/self/maps"], capture_output=True, text=True,
                          timeout=20)
    if "/multiverse.so" not in done.stdout or ("/libmultiverse" in done.stdout) != brought:
        sys.exit(f"mode {mode:o}: the library is {'missing' if brought else 'there'}\n"
                 f"{done.stdout}{done.stderr}")
configure(f"[app]\nmatch = {cat}\npasses = count\n")

# Other ways to more rights than the caller's.
os.chmod(cat, 0o2755)
check("set-group-ID", True, MVLD_TUNABLES="app.passes=")
os.chmod(cat, 0o755)
check("no rights, so the environment counts", False, MVLD_TUNABLES="app.passes=")
if shutil.which("setcap", path=os.environ["PATH"] + ":/sbin:/usr/sbin"):
    setcap = shutil.which("setcap", path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    if subprocess.run([setcap, "cap_net_raw+ep", cat]).returncode == 0:
        check("file capabilities", True, MVLD_TUNABLES="app.passes=", MVLD="off",
              MVLD_HOST_LOADER="/nowhere")
        os.chmod(made, 0o646)
        check("file capabilities and a configuration that others can write", False)
        os.chmod(made, 0o644)
        subprocess.run([setcap, "-r", cat], check=True)
    else:
        print("file capabilities cannot be set on this file system: not tried")
else:
    print("setcap is missing: file capabilities were not tried")
os.chmod(cat, 0o4755)

configure("[app]\nmatch = other\npasses = count\n")
check("called by another name", False, "bash", "-c", 'exec -a other "$@"', "bash")
users = HERE / "own.conf"
users.write_text(f"[app]\nmatch = {cat}\npasses = count\n")
os.chmod(users, 0o644)
check("the user's own configuration", False, MVLD_CONFIG=str(users))
check("asked for by the environment", False, MVLD_TUNABLES="app.passes=count")
