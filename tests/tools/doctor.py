# SPDX-License-Identifier: MIT
"""`mvld doctor` finds out what works by trying it, and sees what is wrong with a
host loader, a configuration file, a pass.

A failure means that it reports a machine that is not this one.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import ENV, check, compile_file, contains, equal, finish, run, scratch

mvld, include = sys.argv[1], sys.argv[2]
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
# What a command does behind these to mounts, nobody else sees; not to be had in each chroot.
PRIVATE = ["unshare", "--mount", "--propagation", "private", "--"]
may_mount = os.getuid() == 0 and not subprocess.run([*PRIVATE, "true"], capture_output=True).returncode

PASS = """
#include <mvld/pass.h>
const struct mvld_pass mvld_pass = { .abi = ABI,
                                     .name = "count", .help = "counts the objects" };
"""


def findings(*options, **more):
    code, out, err = run(mvld, "doctor", "--json", *options, **more)
    equal(err, "", "no complaint")
    return code, {f["name"]: f for f in json.loads(out)}


def huge_pages(mm, env):
    """What is said of a kernel whose /sys/kernel/mm is made up."""
    files = {"transparent_hugepage/enabled": "always madvise [never]\n",
             "transparent_hugepage/shmem_enabled": "always within_size [advise] never deny force\n",
             "transparent_hugepage/khugepaged/pages_to_scan": "4096\n",
             "transparent_hugepage/khugepaged/scan_sleep_millisecs": "10000\n"}
    for name, text in files.items():
        (mm / name).parent.mkdir(parents=True, exist_ok=True)
        (mm / name).write_text(text)

    def shown():
        out = run(*PRIVATE, "sh", "-c", f'mount --bind {mm} /sys/kernel/mm && "$@"', "sh",
                  mvld, "doctor", "--json", env=env)[1]
        return {f["name"]: f for f in json.loads(out)}

    found = shown()
    equal((found["THP: enabled"]["state"], found["THP: enabled"]["text"]), ("absent", "never"),
          "a setting")
    equal(found["THP: shmem_enabled"]["text"], "advise", "another")
    equal(found["khugepaged"]["text"], "looks at 4096 pages every 10000 ms", "khugepaged")
    shutil.rmtree(mm / "transparent_hugepage")
    found = shown()
    for name in "THP: enabled", "THP: shmem_enabled", "khugepaged":
        equal(found[name]["state"], "absent", "a kernel without anything")


with scratch() as folder:
    folder = Path(folder)
    quiet = {"XDG_CONFIG_HOME": str(folder / "none"), "XDG_CACHE_HOME": str(folder / "cache"),
             "PATH": os.environ["PATH"]}
    code, found = findings(env=quiet)
    for name in ("mprotect", "remap", "selfmem", "PR_SET_MDWE", "membarrier SYNC_CORE", "FSRM",
                 "THP: enabled", "concat.pages=thp",
                 "khugepaged", "tmpfs with huge=", "vm.overcommit_memory", "_dl_debug_state",
                 "mmap sites", "system", "gcc"):
        check(name in found, f"{name} is reported")
    equal(code, int(any(f["state"] == "problem" for f in found.values())), "exit code")
    check(all(set(f) == {"part", "name", "state", "text", "remedy"} for f in found.values()), "fields")
    equal(found["vm.overcommit_memory"]["text"][0],
          Path("/proc/sys/vm/overcommit_memory").read_text()[0], "the kernel's value")
    contains(run(mvld, "doctor", "--all", env=quiet)[1], "_dl_debug_state", "as text")

    # Under PR_SET_MDWE the methods that make pages executable stop working, and
    # doctor, which tries them, says so.
    libc = ctypes.CDLL(None)
    with subprocess.Popen([mvld, "doctor", "--json"], stdout=subprocess.PIPE,
                          env=dict(ENV, **quiet),
                          preexec_fn=lambda: libc.prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)
                          ) as p:
        denied = {f["name"]: f for f in json.loads(p.communicate(timeout=60)[0])}
    if not denied["PR_SET_MDWE"]["text"].startswith("set here"):
        print("not tried: this kernel has no PR_SET_MDWE")
    else:
        equal((denied["mprotect"]["state"], denied["remap"]["state"]), ("absent", "absent"),
              "methods under PR_SET_MDWE")
        contains(denied["mprotect"]["text"], "mprotect back to R-X: Permission denied", "the step")
        equal(denied["selfmem"]["state"], found["selfmem"]["state"], "selfmem under PR_SET_MDWE")

    code, bad = findings("--host-loader", "/bin/ls", env=quiet)
    equal((code, bad["_dl_debug_state"]["state"]), (1, "problem"), "no host loader")
    code, bad = findings("--host-loader", folder / "absent", env=quiet)
    equal((code, bad["file"]["state"]), (1, "problem"), "an absent host loader")

    # An update of glibc brings another host loader than this mvld knows.
    host = found["file"]["text"].split(" (")[0]
    equal((found["build"]["state"], found["build"]["remedy"]), ("ok", None), "the host loader of the build")
    updated = bytearray(Path(host).read_bytes())
    updated[updated.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16] ^= 0xff  # its build-id
    (folder / "updated").write_bytes(updated)
    other = findings("--host-loader", folder / "updated", env=quiet)[1]
    equal((other["build"]["state"], other["build"]["remedy"]), ("absent", "rebuild mvld"), "a host loader after an update")
    contains(run(mvld, "doctor", "--host-loader", folder / "updated", env=quiet)[1], "-> rebuild mvld", "without --all")

    apps = folder / "mvld" / "apps.d"
    apps.mkdir(parents=True)
    config = apps / "a.conf"
    own = {**quiet, "XDG_CONFIG_HOME": str(folder)}
    config.write_text("[app]\n")
    config.chmod(0o644)
    code, bad = findings(env=own)
    equal((code, bad["user"]["state"]), (1, "problem"), "a file with an error")
    contains(bad["user"]["text"], f"{config}:1: ", "a file with an error")
    config.write_text("[app]\nmatch = nothing\n")
    code, bad = findings(env=own)
    equal((code, bad["user"]["state"], bad["user"]["remedy"]), (1, "problem", "mvld config --user"), "nothing was made")
    contains(bad["user"]["text"], f"{config} is not in ", "which file")
    made = folder / "mvld" / "config.cache"
    equal(run(mvld, "config", "--user", env=own)[0], 0, "mvld config")
    good = findings(env=own)[1]
    equal((good["configuration file"]["state"], good["configuration file"]["text"]), ("ok", str(config)), "a good file")
    equal((good["user"]["state"], good["user"]["text"]), ("ok", f"{made}: 1 [app] of 1 files"), "and what was made")
    equal(good["syntax"]["state"], "ok", "as the loader reads it")
    config.chmod(0o666)
    code, bad = findings(env=own)
    equal((code, bad["user"]["state"]), (1, "problem"), "a file that others can write")
    contains(bad["user"]["text"], f"because of {config}: others may write it", "which file")
    config.chmod(0o644)
    made.chmod(0o666)
    code, bad = findings(env=own)
    equal((code, bad["user"]["state"]), (1, "problem"), "others can write what was made")
    contains(bad["user"]["text"], f"because of {made}: others may write it", "which file")
    made.chmod(0o644)
    equal(findings(env={**own, "MVLD_CONFIG": "/nonexistent"})[1]["syntax"]["text"],
          "/nonexistent: the file does not exist (error 2)", "MVLD_CONFIG")

    # What other users may write, no start takes; nor a snapshot where no code may be mapped.
    for what, name in ("analysis", "analyses of user"), ("snapshots", "snapshots of user"):
        kept = folder / "cache" / "mvld" / what
        equal(good[name]["state"], "absent", f"{what}: no folder")
        kept.mkdir(parents=True)
        (kept / "one").mkdir()
        found = findings(env=quiet)[1][name]
        equal((found["state"], found["text"]), ("ok", f"{kept}: 1"), f"{what}: one")
        equal([p.name for p in kept.iterdir()], ["one"], f"{what}: what was tried there is gone")
        (kept / "one").chmod(0o777)
        code, bad = findings(env=quiet)
        equal((code, bad[name]["state"]), (1, "problem"), f"{what}: others can write it")
        contains(bad[name]["text"], f"{kept}: 1 of 1 are not taken", f"{what}: how many")
        (kept / "one").chmod(0o755)
    images = f"{folder / 'cache' / 'mvld' / 'snapshots'}: "
    equal((good["huge pages of snapshots"]["state"], good["huge pages of snapshots"]["text"][:len(images)]),
          ("absent", images), "huge pages of snapshots, without a folder")
    contains(findings(env=quiet)[1]["huge pages of snapshots"]["text"], images, "and with one")
    if may_mount:
        for at in folder / "cache", folder / "cache/mvld":  # with a folder of snapshots, and without
            out = run(*PRIVATE, "sh", "-c", f'mount -t tmpfs -o noexec,mode=755 none {at} && "$@"', "sh",
                      mvld, "doctor", "--json", env=quiet)[1]
            found = {f["name"]: f for f in json.loads(out)}
            equal(found["snapshots of user"]["state"], "problem", "images on noexec")
            contains(found["snapshots of user"]["text"], "(noexec)", "the reason")
            equal(found["analyses of user"]["state"], "absent", "analyses on noexec")
        huge_pages(folder / "mm", quiet)

    passes = folder / "passes"
    passes.mkdir()
    (folder / "pass.c").write_text(PASS)
    options = ["-shared", "-fPIC", "-nostdlib", "-Wl,-Bsymbolic", f"-I{include}", folder / "pass.c"]
    compile_file(passes / "count.so", "-DABI=MVLD_PASS_ABI", *options)
    compile_file(passes / "future.so", "-DABI=99", *options)
    (passes / "text.so").write_text("no pass\n")
    code, found = findings("--passes", passes, env=quiet)
    equal(code, 1, "wrong passes are a problem")
    equal((found["count.so"]["state"], found["count.so"]["text"]), ("ok", "counts the objects"),
          "a pass")
    equal((found["future.so"]["state"], found["text.so"]["state"]), ("problem", "problem"),
          "a pass of another ABI, and a file that is none")
    contains(found["future.so"]["text"], "99", "its ABI")

    # Without --all, what is wrong comes first, in fifteen lines.
    code, out, err = run(mvld, "doctor", "--passes", passes, env=quiet)
    equal((code, out[:6], len(out.splitlines()) <= 15), (1, "  !!  ", True), "what is wrong is first")
    contains(out, f"Passes, text.so: {passes}/text.so: ", "what is wrong")
    check("_dl_debug_state" not in out, "what is right is not shown")
    for i in range(20):
        (passes / f"text-{i}.so").write_text("no pass\n")
    lines = run(mvld, "doctor", "--passes", passes, env=quiet)[1].splitlines()
    equal((len(lines), lines[0][:6], "more to mend" in lines[-1]), (15, "  !!  ", True), "much is wrong")
    # Of what is absent: a folder that a stopped build has left, not a kind of page that this machine has not.
    shutil.rmtree(passes)
    kept = folder / "cache/mvld/snapshots"
    (kept / ".new/0-half").mkdir(parents=True, exist_ok=True)
    (kept.parent / "lock").touch()
    code, out, err = run(mvld, "doctor", env=quiet)
    if code == 0:
        equal(out.splitlines()[0], "Nothing is wrong.", "what is said first")
    contains(out, "snapshots of user: ", "what can be mended")
    check("tmpfs with huge=" not in out, "what the machine lacks")

    equal(run(mvld, "doctor", "--nonsense")[0], 2, "wrong usage")
    contains(run(mvld, "doctor", "--help")[1], "Usage: mvld doctor", "--help")
finish()
