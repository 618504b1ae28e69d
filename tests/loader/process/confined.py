#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""confined.py BEHAVIOUR: starting programs where something is short, denied or missing; what
the host loader does alone is the expectation.

Each function below is one test; its text says what a failure means.
"""
import os
import re
import shutil
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "start"), str(HERE.parent / "store")]
import snapshot_moved  # noqa: E402
import support  # noqa: E402
from starts import COUNT, SOURCES, both, bring, execute, start  # noqa: E402
from support import check, HOST_LOADER, LOADER  # noqa: E402


def small_stack(programs):
    """mvld needs more stack than a program of 256 KB has."""
    both(programs, prefix=[programs.confine, "stack=256", "--"])


def smallest_stack(programs):
    """mvld needs more stack than the host loader: programs that start without it do not
    start with it, or only as long as it has nothing to do or to say."""
    # Where the stack begins is drawn, which is what the smallest sizes then depend on.
    fixed = ["setarch", "-R", programs.confine]
    if not shutil.which("setarch") or execute([*fixed[:2], "true"]).returncode:
        support.skip("needs setarch -R (util-linux)")
    plain, mvld, wrong = (programs.folder / name for name in ("tiny-p", "tiny-m", "wrong.conf"))
    for path, loader in (plain, HOST_LOADER), (mvld, LOADER):
        support.compile_c(path, SOURCES / "tiny.c", f"-Wl,--dynamic-linker={loader}", plugin=False)
    wrong.write_text("[app]\nmatch = *\npasses count\n")
    count = ["MVLD_TUNABLES=app.passes=count", f"MVLD_PASS_PATH={COUNT}"]
    environments = [], ["MVLD=off"], count, [*count, "MVLD_DEBUG=all"], [f"MVLD_CONFIG={wrong}"]

    def status(size, env, *command):
        return execute(["env", "-i", *env, *fixed, f"stack={size}", "--", *command]).returncode

    started = 0
    for size in range(4, 33, 4):
        for env in environments:
            if status(size, env, plain) == 0:
                started += 1
                check(status(size, env, mvld) == 0, f"{size} KiB, {env}")
            if status(size, env, HOST_LOADER, plain) == 0:
                check(status(size, env, LOADER, plain) == 0, f"{size} KiB, run directly, {env}")
    check(started > 20, f"the host loader alone started {started} times")


def address_space(programs):
    """mvld needs address space that RLIMIT_AS does not leave, or brings a library there that
    says that it takes much."""
    limited = [programs.confine, "space=64", "--"]
    both(programs, prefix=[programs.confine, "space=16", "--"])
    passes, library = bring(programs, "bring-moves.so")
    env = {"MVLD_TUNABLES": "app.passes=bring", "MVLD_PASS_PATH": passes, "MVLD_DEBUG": "files"}
    for prefix, brought in ([], True), (limited, False):
        done = execute([*prefix, programs.mvld], env={**env, **support.TELL_MAPPED})
        check((str(library) in {path for path, _ in support.mapped_files(done)}) == brought and
              ("address space" in done.stderr) != brought, done.stderr)


def closed(programs):
    """Without standard descriptors the program fails, or a line of ours goes astray."""
    for env in {}, {"MVLD_DEBUG": "all"}:
        done = execute([programs.confine, "closed", "--", programs.mvld], env=env)
        check(done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr)


def seccomp_open(programs):
    """mvld uses open(2), which sandboxes of today forbid."""
    both(programs, prefix=[programs.confine, "no-open", "--"])


def hooked(programs, how, expected, **options):
    both(programs, prefix=[programs.confine, *how, "--"], **options)
    done = execute([programs.confine, *how, "--", programs.mvld], env={"MVLD_DEBUG": "files"})
    check(done.returncode == 0 and re.search(expected, done.stderr), done.stderr)


def mdwe(programs):
    """Under PR_SET_MDWE the program is not hooked, or does not run."""
    hooked(programs, ["mdwe"], r"hooked: .* by /proc/self/mem")


def no_exec(programs):
    """Under systemd's MemoryDenyWriteExecute the program is not hooked, or does not run."""
    hooked(programs, ["no-exec"], r"hooked: .* by /proc/self/mem")


def no_moved_code(programs):
    """A process that may make no memory executable, so that no code moves, crashes when it is to write a snapshot."""
    program = snapshot_moved.Program(programs.folder)
    program.analyze("--program", program.path)  # on-miss makes none without the C library's
    plain = program.expected()
    done = program.run(prefix=[programs.confine, "no-exec", "--"], status=1, MVLD_SNAPSHOT="1")
    check("mvld: no snapshot: a pass failed" in done.stderr, done.stderr)
    program.configure("on-miss = build\n")
    done = program.run(prefix=[programs.confine, "mdwe", "--"], status=None)
    if done.returncode != 77:  # the kernel knows it
        check((done.returncode, done.stdout) == (0, plain), f"status {done.returncode}\n{done.stdout}{done.stderr}")
        check(support.changed(done, "program") != (0, 0) and not support.has_moved(done),
              f"calls are not direct, or code moved:\n{done.stderr}")
    check(not [*program.cache.glob("mvld/snapshots/*/manifest")], "there is a snapshot")


def no_sync(programs):
    """Each file of a snapshot waits for the disk before the next one is written; or the manifest waits for none."""
    program = snapshot_moved.Program(programs.folder)
    folder = program.make_snapshot()
    overlays = {path.name for path in folder.glob("[0-9]*-*")}
    check(len(overlays) > 1, f"these are too few: {overlays}")
    shutil.rmtree(folder)
    program.run(prefix=[programs.confine, "no-sync", "--"], status=-signal.SIGSYS, MVLD_SNAPSHOT="1")
    left = {path.name for path in (folder.parent / ".new").iterdir()}
    check(left == overlays | {"concat.so"}, f"at the first fsync there are {left}, not {overlays} and concat.so")
    program.make_snapshot()
    program.applied()


def unhooked(programs):
    """Where the host loader's text cannot be written at all, the program does not run."""
    hooked(programs, ["no-exec", "no-memfile"], r"not hooked: .*may not be written",
           hidden="arguments|/proc/self/cmdline|loader")


def no_host(programs):
    """Without a host loader there is not one clear sentence."""
    for path, reason in (("/nonexistent", "does not exist"), (LOADER, "is mvld itself"),
                         ("/bin/sh", None), ("/etc/passwd", "is not an ELF loader")):
        done = execute([programs.mvld], env={"MVLD_HOST_LOADER": path, "MVLD_DEBUG": "files"})
        check(done.returncode == 0 and f"host loader: not {path}" in done.stderr if reason else
              True, f"{path}: {done.returncode} {done.stderr}")
    done = execute(["sh", "-c", 'ulimit -n 3 && exec "$0"', programs.mvld])
    check(done.returncode == 127 and "too many open files" in done.stderr,
          f"no descriptor is free: {done.returncode} {done.stderr}")
    alone = programs.folder / "alone"
    done = execute(["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
                    f"mount --bind {LOADER} {os.path.realpath(HOST_LOADER)} && "
                    f"exec {programs.mvld}"]) if os.geteuid() == 0 else None
    if done is None or "unshare" in done.stderr:
        support.skip("private mount namespaces are not permitted here")
    check(done.returncode == 127 and done.stderr.count("\n") == 1 and
          "mvld: found no host loader:" in done.stderr and "is mvld itself" in done.stderr,
          f"{alone} {done.returncode} {done.stderr}")


def no_proc(programs):
    """Where /proc is not mounted the program does not run, or its pipeline stops it."""
    inside = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
              'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if os.geteuid() != 0 or execute([*inside, "/bin/true"]).returncode:
        support.skip("private mount namespaces are not permitted here")
    for env in {}, {"MVLD_TUNABLES": "app.passes=count"}:
        both(programs, prefix=inside, env=env)
        done = execute([*inside, programs.mvld], env={**env, "MVLD_DEBUG": "passes"})
        check(done.returncode == 0 and (" objects\n" in done.stderr) == bool(env), done.stderr)


def raised(programs):
    """A set-user-ID program lets its caller's environment steer mvld."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    os.chmod(programs.folder, 0o755)
    os.chmod(programs.mvld, 0o4755)
    reachable = execute(["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", programs.mvld])
    if reachable.returncode:
        support.skip("another user may not reach the build")
    env = {"MVLD_DEBUG": "all", "MVLD_HOST_LOADER": "/nonexistent", "MVLD_TUNABLES": "x",
           "MVLD_DEBUG_OUTPUT": programs.folder / "stolen"}
    # Variables that glibc itself takes away (meson sets one) would leave a gap before auxv.
    done = execute(["env", "-u", "MALLOC_PERTURB_", "setpriv", "--reuid=65534", "--clear-groups",
                    programs.mvld, "all"], env=env)
    check(done.returncode == 0 and not done.stderr and "  MVLD" not in done.stdout and
          not list(programs.folder.glob("stolen*")), done.stdout + done.stderr)
    check("auxv: walked" in done.stdout, done.stdout)


def unreadable(programs):
    """A program that may be executed and not read does not start."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        support.skip("needs root and setpriv(1)")
    os.chmod(programs.folder, 0o755)
    os.chmod(programs.mvld, 0o711)
    done = execute(["setpriv", "--reuid=65534", "--clear-groups", programs.mvld, "sizes"])
    check(done.returncode == 0 and "auxv: walked" in done.stdout, done.stdout + done.stderr)


start(globals())
