# SPDX-License-Identifier: MIT
"""mvld-restore takes back what `mvld set-interp` changed, by the record of changes; and set-interp
leaves alone what a machine cannot be without.

A failure means: a program keeps a loader that may go away, a file is not byte for byte what it was,
or a machine can be made one that does not start.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import ENV, check, contains, equal, finish, run, scratch

mvld, restore, loader = map(os.path.abspath, sys.argv[1:4])
RECORD = Path(ENV["MVLD_STATE"]) / "changes"


def copies(folder, *names):
    """Copies of `true`: (file, its bytes)."""
    for name in names:
        shutil.copy(os.path.realpath("/bin/true"), folder / name)
    return [(folder / name, (folder / name).read_bytes()) for name in names]


def set_interp(*words):
    equal(run(mvld, "set-interp", "--loader", loader, *words)[0], 0, f"set-interp {words}")


def rows():
    return RECORD.read_text().splitlines() if RECORD.exists() else []


def everything_taken_back(folder):
    programs = copies(folder, "one", "with space", "three")
    set_interp(*(path for path, _ in programs))
    equal(len(rows()), 3, "rows of the record")
    set_interp(programs[0][0])
    equal(len(rows()), 3, "twice is one row")
    listed = run(restore, "--list")[1]
    equal(run("sh", "-c", 'exec "$0" --list >/dev/full', restore)[::2], (1, "mvld-restore: the output cannot be written\n"), "--list")
    for path, before in programs:
        check(path.read_bytes() != before, f"{path} was changed")
        contains(listed, f"{path}: {loader}\n", "--list")
    stands = [{"program": str(path), "changed": str(path), "loader": loader, "stands": True} for path, _ in programs]
    found = json.loads(run(restore, "--list", "--json")[1])
    equal(sorted(found, key=str), sorted(stands, key=str), "--list --json")
    equal(run(mvld, "set-interp", "--restore", programs[2][0])[0], 0, "set-interp --restore")
    equal(len(rows()), 2, "a row goes with its change")
    code, out, err = run(restore, "--json", programs[0][0])
    equal((code, json.loads(out), err), (0, [{"program": str(programs[0][0]), "changed": str(programs[0][0]), "why": None}], ""), "one by name")
    check(programs[0][0].read_bytes() == programs[0][1], "one by name: its bytes")
    check(programs[1][0].read_bytes() != programs[1][1], "the other is as it was")
    equal(run(restore, "--all"), (0, "", ""), "--all")
    for path, before in programs:
        check(path.read_bytes() == before, f"{path}: byte for byte")
    equal(rows(), [], "the record is empty")
    equal(run(restore, folder / "one"), (1, "", f"mvld-restore: {folder}/one is not in the record; --list shows what is\n"),
          "what is not in the record")


def changed_since(folder):
    """A package replaced one, another one was stripped of its record, a third one is gone."""
    (replaced, before), (stripped, _), (gone, _) = copies(folder, "replaced", "stripped", "gone")
    set_interp(replaced, stripped, gone)
    shutil.copy(os.path.realpath("/bin/false"), replaced)
    subprocess.run(["strip", stripped], check=True)
    gone.unlink()
    stand = {row["changed"]: row["stands"] for row in json.loads(run(restore, "--list", "--json")[1])}
    equal(stand, {str(replaced): False, str(stripped): True, str(gone): False}, "--list --json")
    code, out, err = run(restore, "--all", "--json")
    equal((code, [row["changed"] for row in json.loads(out) if row["why"]]), (1, [str(stripped)]), "one is not what it was")
    contains(err, f"{stripped}: it was changed after set-interp: it starts under", "which, and what is true")
    equal(err.count("\n"), 1, "nothing else is said")
    equal(run(stripped)[0], 0, "it starts")
    contains(run(mvld, "set-interp", "--print", stripped)[1], "/ld-linux-x86-64.so.2", "under the machine's loader")
    equal(run(replaced)[0], 1, "the new file is left alone")
    equal(rows(), [], "no change is left")


def without_a_loader(folder):
    """The loader went away: nothing dynamic needs to start for the mend."""
    own = folder / "ld-own.so.1"
    shutil.copy(loader, own)
    (program, before), = copies(folder, "program")
    equal(run(mvld, "set-interp", "--loader", own, program)[0], 0, "set-interp")
    own.unlink()
    code, out, err = run(mvld, "doctor", "--json")
    equal((code, [f["remedy"] for f in json.loads(out) if f["name"] == "changed"]), (1, ["mvld-restore --all"]), "doctor")
    try:
        run(program)
        check(False, "the program starts without its loader")
    except FileNotFoundError:
        pass
    equal(run("env", "-i", f"MVLD_STATE={ENV['MVLD_STATE']}", restore, "--all"), (0, "", ""), "mvld-restore")
    check(program.read_bytes() == before, "byte for byte")
    contains(run("readelf", "-lW", restore)[1], "LOAD", "it is an ELF file")
    check("INTERP" not in run("readelf", "-lW", restore)[1], "it has no interpreter")


def another_root(folder):
    """As from a rescue system: the machine is mounted below a folder.  Its absolute links stay inside."""
    if os.geteuid():
        print("not tried: only root may --root")
        return
    (folder / "mnt/var/lib/mvld").mkdir(parents=True)
    (folder / "mnt/var/cache/mvld/snapshots/1-2").mkdir(parents=True)
    (folder / "mnt/programs").mkdir()
    (folder / "mnt/linked").symlink_to("/programs")
    (program, before), = copies(folder, "mnt/programs/program")
    set_interp(program)
    row = rows()[0].replace(str(program), "/linked/program")
    (folder / "mnt/var/lib/mvld/changes").write_text(row + "\n")
    equal(run(restore, "--root", folder / "mnt", "--list")[1], f"/linked/program: {loader}\n", "--list")
    equal(run(restore, "--root", folder / "mnt", "--all"), (0, "", ""), "--root")
    check(program.read_bytes() == before, "byte for byte")
    check(not (folder / "mnt/var/lib/mvld").exists(), "its record is gone")
    check(not (folder / "mnt/var/cache/mvld").exists(), "its cache, too")
    equal(run(restore, "--all")[0], 0, "ours, whose change is gone")


def damaged(folder):
    (program, _), = copies(folder, "program")
    set_interp(program)
    good = RECORD.read_text()
    for bad in good + "nonsense\n", good.replace("\t/", "\t", 1), good + "interp\t/a\t/b\t/c\t/d\n":
        RECORD.write_text(bad)
        now = program.read_bytes()
        code, out, err = run(restore, "--all")
        equal(code, 1, f"of {bad!r}")
        contains(err, f"{RECORD}: line ", "the sentence names file and line")
        check(program.read_bytes() == now and RECORD.read_text() == bad, "nothing was changed")
    RECORD.write_text("later\t/a\t/b\t/c\n" + good)
    code, out, err = run(restore, "--all")
    contains(err, "does not know the change `later'", "a change of a later version")
    equal(rows(), ["later\t/a\t/b\t/c"], "that row stays, the other is taken back")
    (RECORD.parent / "other").write_text("")
    RECORD.write_text("")
    equal(run(restore, "--all")[0], 0, "nothing is left to restore")
    check(not RECORD.exists() and (RECORD.parent / "other").exists(), "what is not mvld's stays beside the record")
    blocked = folder / "file"
    blocked.write_text("")
    before = program.read_bytes()
    code, out, err = run(mvld, "set-interp", "--loader", loader, program, env={"MVLD_STATE": str(blocked)})
    equal(code, 1, "no record can be kept")
    check(program.read_bytes() == before, "so nothing is changed")


def essential(folder):
    """Not one byte of these may change, so only what is refused is tried; a copy is nobody's."""
    tried = 0
    for name in ("/bin/sh", "/usr/bin/dpkg", "/usr/bin/apt-get", "/bin/ls", "/usr/bin/sudo", "/sbin/init",
                 "/usr/bin/perl", "/usr/sbin/useradd", "/bin/mount", "/lib/x86_64-linux-gnu/libc.so.6"):
        real = os.path.realpath(name)
        if not os.path.exists(real) or open(real, "rb").read(4) != b"\x7fELF" or os.stat(real).st_mode & 0o6000:
            continue
        before = os.stat(real)
        code, out, err = run(mvld, "set-interp", "--loader", loader, name)
        equal(code, 1, name)
        contains(err, "the machine needs ", name)
        equal(os.stat(real).st_ino, before.st_ino, f"{name} is as it was")
        tried += 1
    check(tried >= 3, "most were there")
    if os.geteuid() == 0:
        others = folder / "others"
        others.mkdir(mode=0o777)
        others.chmod(0o777)
        shutil.copy(loader, others / "ld.so")
        (program, before), = copies(folder, "of-others")
        code, out, err = run(mvld, "set-interp", "--loader", others / "ld.so", program)
        equal(code, 1, "a loader that others may exchange")
        contains(err, "others could change its loader, because of", "the sentence")
        check(program.read_bytes() == before, "the program is as it was")


def another_file_system(folder):
    (program, before), = copies(folder, "program")
    (folder / "fs").mkdir()
    inside = 'mount -t tmpfs none "$1" && cp "$2" "$1"/ld.so && shift 2 && exec "$@"'
    if os.geteuid() or run("unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none",
                           folder / "fs")[0]:
        print("not tried: a loader on a file system of its own")
        return
    code, out, err = run("unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", folder / "fs",
                         loader, mvld, "set-interp", "--loader", folder / "fs/ld.so", program)
    equal(code, 1, "a loader on a file system of its own")
    contains(err, "lies on a file system that may not be mounted", "the sentence")
    check(program.read_bytes() == before, "the program is as it was")


for test in (everything_taken_back, another_file_system, changed_since, without_a_loader, another_root, damaged, essential):
    RECORD.unlink(missing_ok=True)
    with scratch() as scratched:
        os.chmod(scratched, 0o755)
        test(Path(scratched))
finish()
