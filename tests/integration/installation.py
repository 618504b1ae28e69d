# SPDX-License-Identifier: MIT
"""An installation over this machine, in a private mount namespace: nobody else sees it, and nothing is left."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402


def did(command, **more):
    """What `command` says; it must not fail, and says nothing on standard error."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60,
                          env=support.clean_environment(XDG_CONFIG_HOME="/nonexistent"), **more)
    check(done.returncode == 0 and not done.stderr,
          f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def lay_over(folder, trees):
    """Mounts every tree of the installation over the machine's own, writable."""
    for tree in trees:
        upper, work = folder / ("upper" + tree.name), folder / ("work" + tree.name)
        upper.mkdir()
        work.mkdir()
        done = subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir={tree}:/{tree.name},upperdir={upper},workdir={work}", f"/{tree.name}"],
            capture_output=True, text=True)
        if done.returncode:
            support.skip("no overlay here: " + done.stderr.strip())


def install(folder, instead=None):
    """In the namespace: what `meson install` makes is mounted over the machine's own files, as an overlay above a
    tmpfs.  No snapshots are made of files there, so with `instead`, a folder such as /usr/local, the installation's
    folder is mounted in its place."""
    if not instead:
        subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], check=True)
    destination = folder / "destination"
    done = subprocess.run([shutil.which("meson"), "install", "-C", str(support.BUILD), "--no-rebuild"],
                          env={**os.environ, "DESTDIR": str(destination)}, capture_output=True, text=True)
    check(done.returncode == 0, f"meson install: {done.stdout}{done.stderr}")
    if instead:
        subprocess.run(["mount", "--bind", f"{destination}{instead}", instead], check=True)
        shutil.copytree(destination / "etc", folder / "etc")
        lay_over(folder, [folder / "etc"])
    else:
        lay_over(folder, sorted(destination.iterdir()))
    return destination


def in_namespace(use):
    """Calls use(folder) in a mount namespace of its own: the script runs once more there."""
    if "MVLD_TEST_INSIDE" in os.environ:
        use(Path(os.environ["MVLD_TEST_INSIDE"]))
        return 0
    if not shutil.which("meson") or not shutil.which("pkg-config"):
        support.skip("no meson or no pkg-config")
    namespace = ["unshare", "--mount"] + ["--map-root-user"] * (os.geteuid() != 0)
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        support.skip("no private mount namespace here")
    with support.scratch_folder() as folder:
        return subprocess.run([*namespace, sys.executable, *sys.argv],
                              env={**os.environ, "MVLD_TEST_INSIDE": str(folder)}).returncode
