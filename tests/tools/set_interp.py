# SPDX-License-Identifier: MIT
"""`mvld set-interp` gives a program another loader, keeps everything else, and
takes it back byte for byte.

A copy of the machine's own loader stands in for ld-mvld.so.1, once under a short
name and once under one that is longer than what it replaces.  A failure means
that a program does not start, or is not what it was after --restore.
"""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from support import check, contains, equal, finish, run, scratch

mvld = os.path.abspath(sys.argv[1])
HOST = Path("/lib64/ld-linux-x86-64.so.2")
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) { printf("%d %s\\n", argc, argv[argc - 1]); return 7; }
"""


def interpreter(path):
    text = run("readelf", "-lW", path)[1]
    return re.search(r"program interpreter: (.*)\]", text).group(1)


UPGRADE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int fsync(int fd)
{
    char aside[4096], path[4096];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, aside, sizeof aside - 1);
    aside[n > 0 ? n : 0] = 0;
    if (__builtin_strstr(aside, ".mvld-"))
        rename(getenv("NEW"), getenv("OLD"));
    return fdatasync(fd);
}
"""


def build(path, *options):
    """1 when this linker is there."""
    return not subprocess.run(["gcc", "-o", str(path), "-x", "c", "-", *options], input=SOURCE,
                              text=True, stderr=subprocess.DEVNULL).returncode


def round_trip(program, loader, runs=True):
    before = program.read_bytes()
    program.chmod(0o750)
    os.utime(program, ns=(1_000_000_000_123, 2_000_000_000_456))
    was = program.stat()
    attributes = os.listxattr(program)
    code, out, err = run(mvld, "set-interp", "--loader", loader, program)
    if not check(code == 0, f"{program.name} to {loader}: {err}"):
        return
    equal(interpreter(program), str(loader), f"{program.name}: interpreter")
    now = program.stat()
    for name in ("st_mode", "st_uid", "st_gid", "st_mtime_ns"):
        equal(getattr(now, name), getattr(was, name), f"{program.name}: {name}")
    equal(os.listxattr(program), attributes, f"{program.name}: extended attributes")
    if runs:
        equal(run(program, "a", "b"), (7, "3 b\n", ""), f"{program.name} under {loader}")
        for tool in (["strip"], ["objcopy"]):
            copy = shutil.copy(program, program.with_suffix(".copy"))
            equal(run(*tool, copy)[0], 0, tool)
            equal(run(copy, "a"), (7, "2 a\n", ""), f"{program.name} after {tool}")
    equal(run(mvld, "set-interp", "--loader", loader, program)[0], 0, "twice is once")
    code, out, err = run(mvld, "set-interp", "--restore", program)
    equal((code, err), (0, ""), f"{program.name}: restore")
    check(program.read_bytes() == before, f"{program.name}: restored byte for byte")
    equal(program.stat().st_mtime_ns, was.st_mtime_ns, f"{program.name}: time after restore")
    check(not list(program.parent.glob(".mvld*")), "nothing is left aside")


with scratch() as folder:
    folder = Path(folder)
    short = Path(f"/tmp/l{os.getpid()}/l.so.1")  # in a folder: what lies in /tmp itself, others may exchange
    long = folder / "a-folder-with-a-long-name" / "lib" / "ld-mvld.so.1"
    long.parent.mkdir(parents=True)
    shutil.copy(HOST, long)
    programs = folder / "programs"
    programs.mkdir()
    kinds = {"pie": ["-pie"], "nopie": ["-no-pie"], "noseparate": ["-Wl,-z,noseparate-code"],
             "nopie-noseparate": ["-no-pie", "-Wl,-z,noseparate-code"],
             "stripped": ["-s"], "debug": ["-g3", "-O0"], "big-pages": ["-Wl,-z,max-page-size=0x200000"],
             "lld": ["-fuse-ld=lld"], "gold": ["-fuse-ld=gold"], "mold": ["-fuse-ld=mold"],
             "lld-nopie": ["-fuse-ld=lld", "-no-pie"]}
    try:
        short.parent.mkdir(mode=0o755)
        shutil.copy(HOST, short)
        for kind, options in kinds.items():
            program = programs / kind
            if not build(program, *options):
                print("not tried:", kind)
                continue
            for loader in (short, long):
                round_trip(program, loader)
    finally:
        shutil.rmtree(short.parent, ignore_errors=True)

    # Programs of the distribution.
    for path in ("/bin/bash", "/bin/ls", "/usr/bin/python3", "/usr/bin/git"):
        if os.path.exists(path):
            program = programs / ("stock-" + os.path.basename(path))
            shutil.copy(os.path.realpath(path), program)
            round_trip(program, long, runs=False)
            run(mvld, "set-interp", "--loader", long, program)
            equal(run(program, "--version")[:2], run(path, "--version")[:2], f"{path} runs")

    # What must not be touched is not touched.
    program = programs / "pie"

    def refused(file, sentence, *options):
        before = file.read_bytes() if file.is_file() else None
        code, out, err = run(mvld, "set-interp", *(options or ("--loader", long)), file)
        equal(code, 1, sentence)
        contains(err, f"mvld set-interp: {file}: ", "the sentence names the file")
        contains(err, sentence, "the sentence")
        if before is not None:
            check(file.read_bytes() == before, f"{file.name} is as it was")

    # As JSON.
    def as_json(*words):
        code, out, err = run(mvld, "set-interp", "--json", *words)
        return code, [(row["program"], row["interpreter"], bool(row["why"])) for row in json.loads(out)]

    link = folder / "link-for-json"
    link.symlink_to(program)
    plainly = interpreter(program)
    equal(as_json("--print", link, folder / "absent"), (1, [(str(program), plainly, False), (str(folder / "absent"), None, True)]),
          "--print, and a file that is not there")
    equal(as_json("--loader", long, program), (0, [(str(program), str(long), False)]), "changed")
    equal(as_json("--restore", program), (0, [(str(program), plainly, False)]), "restored")
    equal(as_json("--restore", program), (1, [(str(program), plainly, True)]), "not restored")
    equal(as_json("--loader", folder / "absent", program), (1, [(str(program), plainly, True)]), "a loader that is not there")

    refused(folder / "absent", "No such file")
    refused(program, "no record", "--restore")
    script = folder / "script"
    script.write_text("#!/bin/sh\n")
    refused(script, "not an ELF file")
    build(folder / "static", "-static")
    refused(folder / "static", "no interpreter")
    build(folder / "suid")
    (folder / "suid").chmod(0o4755)
    refused(folder / "suid", "set-id bits")
    equal(run(mvld, "set-interp", "--force", "--loader", long, folder / "suid")[0], 0, "--force")
    equal(stat.S_IMODE((folder / "suid").stat().st_mode), 0o4755, "set-id bits are kept")
    build(folder / "payload")
    with open(folder / "payload", "ab") as f:
        f.write(b"an archive")
    refused(folder / "payload", "data follows the ELF file")
    build(folder / "foreign", "-Wl,--dynamic-linker=/lib/ld-other.so.1")
    refused(folder / "foreign", "its interpreter is not the machine's")
    code, out, err = run(mvld, "set-interp", "--loader", folder / "nowhere", program)
    equal(code, 1, "a loader that does not exist")
    contains(err, f"{folder}/nowhere: No such file or directory", "a loader that does not exist")
    equal(interpreter(program), plainly, "a loader that does not exist")
    program_under = folder / "under-nowhere"
    build(program_under, f"-Wl,--dynamic-linker={folder}/nowhere")
    refused(program_under, f"{folder}/nowhere: No such file or directory", "--loader", folder / "nowhere")

    # A name is looked up as a shell does it; what lies here by that name stays.
    here = folder / "here"
    here.mkdir()
    shutil.copy(program, here / "pie")
    shutil.copy(program, here / "only-here")
    search = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    for words, now in ((["--loader", long, "pie"], str(long)), (["--print", "pie"], str(long)), (["--restore", "pie"], plainly)):
        done = subprocess.run([mvld, "set-interp", *words], cwd=here, env=search, capture_output=True, text=True, check=False)
        equal((done.returncode, done.stderr, interpreter(program), interpreter(here / "pie")), (0, "", now, plainly), words)
    done = subprocess.run([mvld, "set-interp", "--print", "only-here"], cwd=here, env=search, capture_output=True, text=True,
                          check=False)
    equal((done.returncode, done.stdout), (0, f"only-here: {plainly}\n"), "a file that no folder of PATH has")
    equal(run(mvld, "set-interp", "--loader", "relative", program)[0], 2, "a relative loader")
    equal(run(mvld, "set-interp")[0], 2, "no file is wrong usage")
    equal(run(mvld, "set-interp", "--print", "--restore", "/bin/true")[0], 2, "one of them, or none")

    # Changed since: not restored into something else.
    build(folder / "changed")
    run(mvld, "set-interp", "--loader", long, folder / "changed")
    data = bytearray((folder / "changed").read_bytes())
    data[0x400] ^= 1
    (folder / "changed").write_bytes(data)
    refused(folder / "changed", "changed after set-interp", "--restore")

    # What cannot be written is not changed, and has no row in the record of changes; an earlier row stays.
    build(folder / "large")
    rows = folder / "rows"
    too_large = ["sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", mvld, "set-interp", "--loader", long]
    listed = lambda: (rows / "changes").read_text().count("/large\t") if (rows / "changes").exists() else 0
    code, out, err = run("env", f"MVLD_STATE={rows}", *too_large, folder / "large")
    equal((code, interpreter(folder / "large"), listed()), (1, plainly, 0), f"the disk is full: {err}")
    equal(run("env", f"MVLD_STATE={rows}", mvld, "set-interp", "--loader", long, folder / "large")[0], 0, "it has space")
    code, out, err = run("env", f"MVLD_STATE={rows}", mvld, "status", folder / "large")
    check(code == 1 and out.endswith(f"it starts under another mvld's loader, {long} -> mvld disable {folder}/large\n"),
          f"status: {code} {out}{err}")
    build(folder / "large")
    equal(run("env", f"MVLD_STATE={rows}", *too_large, folder / "large")[0], 1, "an upgrade, and the disk is full again")
    equal((interpreter(folder / "large"), listed()), (plainly, 1), "the row for `mvld enable --stale'")

    # A package replaces the program while set-interp writes or restores it: the new one stays.
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "upgrade.so", "-x", "c", "-"], input=UPGRADE,
                   text=True, check=True)
    for options in (["--loader", long], ["--restore"]):
        old, new = folder / "upgraded", folder / "new"
        build(old)
        shutil.copy("/bin/true", new)
        if options == ["--restore"]:
            equal(run(mvld, "set-interp", "--loader", long, old)[0], 0, "before its restoration")
        code, out, err = run("env", f"LD_PRELOAD={folder}/upgrade.so", f"NEW={new}", f"OLD={old}", mvld, "set-interp",
                             *options, old)
        equal(code, 1, f"{options}: an upgrade meanwhile")
        contains(err, "meanwhile, and stays", "the sentence")
        check(old.read_bytes() == Path("/bin/true").read_bytes(), f"{options}: the upgrade is lost")
        equal(sorted(folder.glob(".mvld-*")), [], f"{options}: what is left aside")

    # Through a symbolic link the file changes, not the link.
    link = folder / "link"
    link.symlink_to(program)
    equal(run(mvld, "set-interp", "--loader", long, link)[0], 0, "a symbolic link")
    check(link.is_symlink(), "a symbolic link stays one")
    contains(run(mvld, "set-interp", "--print", link)[1], f"{link}: {long}\n", "--print")

    try:  # an attribute of a user comes along
        os.setxattr(program, "user.note", b"kept")
    except OSError:
        print("not tried: extended attributes")
    else:
        run(mvld, "set-interp", "--restore", program)
        equal(os.getxattr(program, "user.note"), b"kept", "an extended attribute")
finish()
