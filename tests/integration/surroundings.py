#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""surroundings.py BEHAVIOUR: a program with mvld as its interpreter in a service's sandbox, a container, cron, on a
read-only system and in an initramfs.

A failure means: mvld-admin(7) tells administrators something that is not so.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import BUILD, LOADER, check  # noqa: E402

MVLD = BUILD / "tools" / "mvld"
CONFINE = BUILD / "tests" / "loader" / "start" / "programs" / "confine"
# Behind the last command there is no exec.
MAPS = ["-c", 'while read -r line; do echo "$line"; done </proc/$$/maps; true']


def done(*command, status=0, **environment):
    env = support.clean_environment(MVLD_PASS_PATH=BUILD / "passes" / "direct-calls", **environment)
    found = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=60)
    check(found.returncode == status, f"{command}: status {found.returncode}\n{found.stdout}{found.stderr}")
    return found.stdout


def program(path):
    """A copy of bash with mvld as its interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath("/bin/bash"), path)
    done(MVLD, "set-interp", "--loader", LOADER, path)
    return path


def mounted(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


class Cache:
    """A folder in which analyses and snapshots are, by XDG_CACHE_HOME."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder = folder

    def tunables(self, on_miss=False):
        return {"XDG_CACHE_HOME": self.folder,
                "MVLD_TUNABLES": "app.passes=direct-calls" + ":app.on-miss=build" * on_miss}

    def analyze(self, path):
        done(MVLD, "analyze", "--program", path, XDG_CACHE_HOME=self.folder)

    def build(self, path):
        self.analyze(path)
        done(MVLD, "build", path, **self.tunables())
        check(self.applied(path), "it starts from its snapshot")

    def applied(self, path, *before, on_miss=False):
        """Whether the program starts from its snapshot: by what it has mapped."""
        return "/mvld/snapshots/" in done(*before, path, *MAPS, **self.tunables(on_miss))

    def snapshots(self):
        return list(self.folder.glob("mvld/snapshots/*/manifest"))


def system_calls(group):
    """What systemd has in a group of its SystemCallFilter=."""
    found = set()
    for word in done("systemd-analyze", "syscall-filter", group).split("\n")[1:]:
        word = word.strip()
        if word and not word.startswith("#"):
            found |= system_calls(word) if word.startswith("@") else {word}
    return found


def service(folder):
    """Units with MemoryDenyWriteExecute= and with filters start from snapshots; they write none."""
    support.need(CONFINE)
    cache, tool = Cache(folder / "cache"), program(folder / "tool")
    cache.analyze(tool)
    check(not cache.applied(tool, CONFINE, "no-exec", "--", on_miss=True) and not cache.snapshots(), "under a filter")
    cache.build(tool)
    done(CONFINE, "no-exec", "--", MVLD, "build", tool, **cache.tunables())
    check(cache.applied(tool), "what mvld build writes under a filter")
    for how in "no-exec", "mdwe":
        check(cache.applied(tool, CONFINE, how, "--"), how)
    if shutil.which("systemd-analyze"):
        text = (support.SOURCE / "loader" / "SECURITY.md").read_text()
        named = re.search(r"to the host loader's calls and (.*?) A filter that", text, re.S).group(1)
        names = set(re.findall(r"`([a-z0-9_]+)`", named)) - {"dlopen"}
        check(len(names) > 10 and names <= system_calls("@system-service"), f"{names} of @system-service")


def read_only(folder):
    """On a read-only system a snapshot applies that was made before, and none is made."""
    cache, tool = Cache(folder / "cache"), program(folder / "tool")
    cache.analyze(tool)
    mounted("--bind", folder, folder)
    mounted("-o", "remount,bind,ro", folder)
    check(not cache.applied(tool, on_miss=True) and not cache.snapshots(), "read-only")
    mounted("-o", "remount,bind,rw", folder)
    cache.build(tool)
    mounted("-o", "remount,bind,ro", folder)
    check(cache.applied(tool), "from a snapshot of before")


def container(folder, image, name):
    """One more overlay over the image's folder, at the place where all are."""
    place = folder / "container"
    if os.path.ismount(place):
        subprocess.run(["umount", place], check=True)
    for part in place, folder / name / "upper", folder / name / "work":
        part.mkdir(parents=True, exist_ok=True)
    lower, upper, work = image, folder / name / "upper", folder / name / "work"
    found = subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                            f"lowerdir={lower},upperdir={upper},workdir={work}", place], capture_output=True, text=True)
    if found.returncode:
        support.skip("no overlay here: " + found.stderr.strip())
    return place


def layers(folder):
    """A snapshot of one container fits it, and no other one; analyses fit all."""
    tool = program(folder / "image" / "tool")
    cache = Cache(folder / "image" / "cache")
    cache.analyze(tool)
    place = container(folder, folder / "image", "first")
    cache = Cache(place / "cache")
    check(not cache.applied(place / "tool", on_miss=True), "there is none")
    check(cache.applied(place / "tool"), "the first start has left one, of the image's analyses")
    # What the second container has, a third mount keeps from having the first one's device number.
    shutil.copytree(folder / "first" / "upper" / "cache", folder / "image" / "cache", dirs_exist_ok=True)
    (folder / "other").mkdir()
    mounted("--bind", place, folder / "other")
    place = container(folder, folder / "image", "second")
    check(len(cache.snapshots()) == 1 and not cache.applied(place / "tool"), "made in the image")
    private = Cache(folder / "private")
    mounted("-t", "tmpfs", "-o", "mode=755,noexec", "none", private.folder)
    mounted("-t", "tmpfs", "-o", "mode=755", "none", "/var/cache")
    shutil.copytree(folder / "image" / "cache" / "mvld" / "analysis", "/var/cache/mvld/analysis")
    check(not private.applied(place / "tool", on_miss=True) and not private.snapshots(), "on noexec")
    mounted("-o", "remount,exec", private.folder)
    mounted("-o", "remount,bind,ro", place)
    check(not private.applied(place / "tool", on_miss=True) and private.applied(place / "tool"), "a cache of its own")


def volume(folder):
    """A folder that is mounted in several containers has one snapshot for all."""
    program(folder / "volume" / "tool")
    place = folder / "container"
    place.mkdir()
    mounted("--bind", folder / "volume", place)
    cache = Cache(place / "cache")
    cache.build(place / "tool")
    subprocess.run(["umount", place], check=True)
    mounted("--bind", folder / "volume", place)
    check(cache.applied(place / "tool"), "mounted once more")


def cron(folder):
    """Of an environment, HOME is enough: the user's cache is found, the snapshot applies.  Root's cache needs
    nothing, and counts for other users."""
    cache, tool = Cache(folder / ".cache"), program(folder / "tool")
    cache.build(tool)
    words = ["env", "-i", f"MVLD_TUNABLES={cache.tunables()['MVLD_TUNABLES']}",
             f"MVLD_PASS_PATH={BUILD / 'passes' / 'direct-calls'}"]
    check("/mvld/snapshots/" in done(*words, f"HOME={folder}", "PATH=/usr/bin:/bin", tool, *MAPS), "cron's environment")
    check("/mvld/snapshots/" not in done(*words, tool, *MAPS), "no HOME")
    mounted("-t", "tmpfs", "-o", "mode=755", "none", "/var/cache")
    os.environ.pop("XDG_CACHE_HOME", None)
    done(MVLD, "analyze", "--program", tool)
    done(MVLD, "build", tool, MVLD_TUNABLES="app.passes=direct-calls")
    check("/var/cache/mvld/snapshots/" in done(*words, tool, *MAPS), "root's cache")
    other = ["setpriv", "--reuid=65534", "--clear-groups"]
    if shutil.which("setpriv") and not subprocess.run([*other, "test", "-x", LOADER]).returncode:
        check("/var/cache/mvld/snapshots/" in done(*other, *words, tool, *MAPS), "root's cache, another user")


def initramfs(folder):
    """initramfs-tools copies what stands right in ldd's lines: that is not our loader."""
    tool = program(folder / "tool")
    line, = (line.strip() for line in done("ldd", tool).splitlines() if "ld-mvld" in line)
    check(line.startswith(f"{LOADER} => {support.HOST_LOADER} "), line)
    root = folder / "root"
    for file in [support.HOST_LOADER, *(word for word in done("ldd", "/bin/bash").split() if word[0] == "/")]:
        to = root / file.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(file), to)
    shutil.copy(tool, root / "tool")
    done("chroot", root, "/tool", "-c", ":", status=127)
    to = root / str(LOADER).lstrip("/")
    to.parent.mkdir(parents=True)
    shutil.copy(LOADER, to)
    done("chroot", root, "/tool", "-c", ":")


behaviour = sys.argv[1]
if "MVLD_TEST_INSIDE" in os.environ:
    globals()[behaviour](Path(os.environ["MVLD_TEST_INSIDE"]))
    sys.exit(0)
if not support.may_mount():
    support.skip("private mount namespaces are not permitted here")
with support.scratch_folder() as scratch:
    os.chmod(scratch, 0o755)
    sys.exit(subprocess.run([*support.PRIVATE_MOUNTS, sys.executable, *sys.argv],
                            env={**os.environ, "MVLD_TEST_INSIDE": str(scratch)}).returncode)
