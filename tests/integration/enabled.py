#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: programs that are switched on with `mvld enable`, with mvld
installed over this machine in a private mount namespace.

A failure means: an enabled program does not start from a snapshot, `mvld status` says what is not so, or
something of it cannot be taken back.
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from machine import check, did, libdir, prefix, start
import support


def there_and_back(machine):
    """Two programs are enabled, one is disabled, then all; every file is what it was."""
    one, two = machine.program("one"), machine.program("two")
    before = machine.files()
    did([machine.mvld, "enable", one, two])
    for program in one, two:
        check(machine.is_applied(program), f"{program} does not start from its snapshot")
        found = machine.status(program)
        check(found["trouble"] is None and found["code"] > 0, f"status: {found}")
    user = ["env", "HOME=/nowhere", "setpriv", "--reuid=65534", "--clear-groups", machine.mvld]
    check(did([*user, "status"]) == did([machine.mvld, "status"]), "another user is told the same")
    said = machine.fails_as(user[:-1], "disable", one)
    check(said.endswith("it is not in the record of changes, "
                        "/nowhere/.local/state/mvld/changes\n"), f"and takes back nothing: {said}")
    found, = json.loads(did([machine.mvld, "enable", "--json", one]))
    check(found == machine.status(one) and found["applied"], f"enable --json: {found}")
    said = did([machine.mvld, "enable", one])
    check(re.fullmatch(rf"{one} starts under mvld by [^\n]+\n( [^\n]+\n)?", said), f"one thing is said, no step: {said}")
    check(machine.is_applied(one) and machine.status(one)["trouble"] is None, "enabled twice")
    done = subprocess.run([machine.mvld, "enable", "--json", "--pass", "no-such-pass", one], capture_output=True, text=True)
    check(done.returncode == 1 and json.loads(done.stdout)[0]["by"] == "set-interp", f"enable --json, of one that is enabled: {done}")
    did([machine.mvld, "enable", one])
    taken = json.loads(did([machine.mvld, "disable", "--json", one]))
    check({row["changed"] for row in taken} == {str(one), str(machine.apps / "apps.d" / "one.conf")}
          and {(row["program"], row["why"]) for row in taken} == {(str(one), None)}, f"disable --json: {taken}")
    check(one.read_bytes() == Path("/bin/bash").read_bytes() and machine.is_applied(two), "one of two")
    check("not in the record" in machine.fails("disable", one), "disabled twice")
    check(f"{one}: it is neither enabled" in machine.fails("status", one), "status of one that is not enabled")
    did([machine.mvld, "disable", "--all"])
    check(machine.files() == before, f"files differ: {set(machine.files().items()) ^ set(before.items())}")
    check(not Path("/var/cache/mvld").exists() and not Path("/var/lib/mvld").exists(), "something is left in /var")
    check(did([machine.mvld, "status"]) == "no program is enabled\n", "status of nothing")


def masked(machine):
    """root's umask keeps nobody from what root made for everybody."""
    one, two = machine.program("one"), machine.program("two")
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nowhere"]
    mine = machine.apps / "apps.d" / "two.conf"
    mine.write_text(f"[app]\nmatch = {two}\npasses = direct-calls\non-miss = build\n")
    mine.chmod(0o644)
    os.umask(0o077)
    did([machine.mvld, "enable", one])
    check(machine.is_applied(*other, one), "enabled, and no snapshot for others")
    said = did([*other, machine.mvld, "status", one])
    check(said == did([machine.mvld, "status", one]) and "snapshot of " in said, f"status for others: {said}")
    did([machine.mvld, "disable", "--all"])
    did([machine.mvld, "config"])
    did([machine.mvld, "set-interp", two])
    did([machine.mvld, "analyze", "--program", two])
    did([two, "-c", "true"])
    check(machine.is_applied(two), "the fixture: a start writes a snapshot")
    check(machine.is_applied(*other, two), "what a start of root's has written is not for others")
    done = did([machine.mvld, "run", two, "-c", "umask"])
    check(done == "0077\n", f"a program's own umask: {done}")
    subprocess.run([machine.restore, "--all"], check=True)
    check(did([*other, machine.mvld, "status", "--json"]).strip() == "[]", "the record")


def upgraded(machine):
    """The program's package replaces it: it starts plainly, status says so and names what mends it."""
    program = machine.program("upgraded")
    did([machine.mvld, "enable", program])
    new = machine.program("new")
    with open(new, "ab") as file:  # another version
        file.write(b"")
    new.rename(program)
    check(not machine.is_applied(program), "the new program is not enabled")
    found = machine.status(program, trouble=True)
    check("replaced" in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"status: {found}")
    did(found["remedy"].replace("mvld", machine.mvld, 1).split())
    check(machine.is_applied(program) and machine.status(program)["trouble"] is None, "enabled again")
    plain = machine.program("plain")
    did([machine.mvld, "set-interp", plain])
    for path in program, plain:
        machine.program("new").rename(path)
    did([machine.mvld, "enable", "--stale"])
    check(machine.is_applied(program) and machine.status(program)["trouble"] is None, "renewed with those that are stale")
    check(plain.read_bytes() == Path("/bin/bash").read_bytes(), "a program that was never enabled is not")
    was = program.stat()
    check(did([machine.mvld, "enable", "--stale"]) == "" and program.stat() == was, "nothing is stale")
    did([machine.mvld, "disable", plain])
    shutil.rmtree("/var/cache/mvld/snapshots")
    found = machine.status(program, trouble=True)
    check("no snapshot is applied: there is none" in found["trouble"], f"status: {found}")
    doctor = {finding["text"]: finding for finding in json.loads(did([machine.mvld, "doctor", "--json"]))}
    check(doctor[f"{program}: {found['trouble']}"]["remedy"] == f"mvld enable {program}", f"doctor: {doctor}")
    did([machine.mvld, "enable", program])
    os.utime(program)  # its snapshot fits no more, and its file is still one of set-interp
    brief = did([machine.mvld, "doctor"])
    check(brief.count(f"-> mvld enable {program}\n") == 1, f"one remedy is said once:\n{brief}")
    loader = Path(libdir) / "mvld/ld-mvld.so.1"
    whole = loader.read_bytes()
    os.truncate(loader, 4096)
    done = subprocess.run([machine.mvld, "doctor"], capture_output=True, text=True)
    check(done.returncode == 1 and f"Programs, loader: {loader}: it is truncated" in done.stdout, f"doctor: {done}")
    loader.write_bytes(whole)
    program.unlink()
    found = machine.status(program, trouble=True)
    check("gone" in found["trouble"] and found["remedy"] == f"mvld disable {program}", f"status: {found}")
    did([machine.mvld, "disable", program])
    check(did([machine.mvld, "status"]) == "no program is enabled\n", "status of nothing")


LIBRARY = """#include <stdlib.h>
__attribute__((noipa)) int ask(void) { return atoi("%d"); }
"""


def library_upgraded(machine):
    """A library is replaced: the program starts with it at once, and no snapshot is left that lacks its analysis;
    status names what mends it, and then all is as it was."""
    library, program = machine.programs / "libown.so", machine.programs / "own"

    def compile_library(answer):
        new = machine.programs / "new.so"
        subprocess.run(["gcc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-Wl,--build-id", "-x", "c", "-", "-o", new],
                       input=LIBRARY % answer, text=True, check=True)
        new.rename(library)

    def answers():
        done = subprocess.run([program], env={"TELL_MAPPED": "1"}, capture_output=True, text=True)
        return done.returncode, "own" in support.from_snapshot(done)

    compile_library(1)
    subprocess.run(["gcc", "-O2", support.MAPPED, "-x", "c", "-", "-x", "none", "-o", program, library],
                   input="int ask(void); int main(void) { return ask(); }", text=True, check=True)
    did([machine.mvld, "enable", program])
    before = machine.status(program)
    check(answers() == (1, True) and before["code"] > 0, f"enabled: {answers()} {before}")
    image, = Path("/var/cache/mvld/snapshots").glob("*-*")
    check(list(image.glob("*-own")) and list(image.glob("*-libown.so")), "the program's own calls, and the library's")
    for answer in 2, 3:
        compile_library(answer)
        for image in Path("/var/cache/mvld/snapshots").glob("*/manifest"):
            os.utime(image, (1, 1))  # else it is too young to be made anew
        for _ in range(2):
            check(answers() == (answer, False), f"upgraded: {answers()}")
        found = machine.status(program, trouble=True)
        check("libown.so: its file is another one" in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"status: {found}")
        did(found["remedy"].replace("mvld", machine.mvld, 1).split())
        check(answers() == (answer, True) and machine.status(program)["code"] == before["code"],
              f"enabled again: {answers()} {machine.status(program)}, not {before}")
    # A snapshot that somebody had made without the analysis.
    compile_library(4)
    done = subprocess.run([machine.mvld, "build", program], capture_output=True, text=True)
    check(done.returncode == 0 and f"lacks the analysis of {library}: " in done.stderr, f"{done}")
    done = subprocess.run([machine.mvld, "build", "--json", program], capture_output=True, text=True)
    found = json.loads(done.stdout)
    check(done.returncode == 0 and found["lacks"] == [str(library)] and found["state"] == "stale", f"build --json: {done}")
    check(answers() == (4, True), "built by hand")
    found = machine.status(program, trouble=True)
    check("without the analysis of " in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"{found}")
    did(found["remedy"].replace("mvld", machine.mvld, 1).split())
    check(answers() == (4, True) and machine.status(program)["code"] == before["code"], "renewed")


def passes(machine):
    """Said again with other passes, these are what runs; said without, those before stay; what fails changes nothing."""
    program = machine.program("tool")
    config = machine.apps / "apps.d" / "tool.conf"

    def configured():
        return next(line.partition("passes = ")[2] for line in config.read_text().splitlines() if "passes = " in line)

    did([machine.mvld, "enable", program])
    first = machine.status(program)["snapshot"]
    check(configured() == "direct-calls", configured())
    did([machine.mvld, "enable", "--pass", "direct-calls", "--pass", "concat", program])
    check(configured() == "direct-calls, concat" and machine.status(program)["snapshot"] != first, "other passes")
    did([machine.mvld, "enable", program])
    check(configured() == "direct-calls, concat", "none are named")
    check("no-such-pass" in machine.fails("enable", "--pass", "no-such-pass", program), "a pass that is not there")
    check(configured() == "direct-calls, concat" and machine.is_applied(program), "it is as it was")
    config.write_text(config.read_text() + "; mine\n")
    check("changed since" in machine.fails("enable", "--pass", "direct-calls", program), "an edited file")
    check(config.read_text().endswith("; mine\n") and machine.status(program)["trouble"] is None, "it stays, and in the record")
    did([machine.mvld, "enable", program])


def refused(machine):
    """What cannot be enabled whole is not enabled in part."""
    own, configured = machine.program("own"), machine.program("configured")
    (machine.apps / "apps.d" / "configured.conf").write_text("; mine\n")
    static = machine.folder / "programs" / "static"
    subprocess.run(["gcc", "-static", "-o", static, "-x", "c", "-"], input="int main(void) { return 0; }", text=True,
                   check=True)
    high = static.with_name("high")
    subprocess.run(["gcc", "-no-pie", "-Wl,-Ttext-segment=0x7d000000", "-o", high, "-x", "c", "-"], input="int main(void) { return 0; }",
                   text=True, check=True)
    before = machine.files()
    said = machine.fails("enable", high)
    check(said.startswith("mvld enable: ") and "no snapshot" in said and "analys" not in said, f"a program without room for libraries: {said}")
    check("mvld did not make it" in machine.fails("enable", configured), "a file of the user's")
    check("static" in machine.fails("enable", static), "a static program")
    check("the machine needs" in machine.fails("enable", "/bin/ls"), "a program that the machine needs")
    done = subprocess.run([machine.mvld, "enable", "--json", static], capture_output=True, text=True)
    found, = json.loads(done.stdout)
    check((done.returncode, found["program"], found["by"], found["applied"]) == (1, str(static), None, False)
          and found["trouble"] and "static" in done.stderr, f"enable --json: {done}")
    check("nowhere" in machine.fails("enable", "/nowhere"), "a program that is not there")
    check("no-such-pass" in machine.fails("enable", "--pass", "no-such-pass", own), "a pass that is not there")
    now = {path: what for path, what in machine.files().items() if not path.startswith("/var/")}
    check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")
    check(did([machine.mvld, "status"]) == "no program is enabled\n", "status of nothing")


def kept(machine):
    """A file that was edited since is not removed; mvld-restore does all without mvld."""
    edited, other = machine.program("edited"), machine.program("other")
    did([machine.mvld, "enable", edited, other])
    config = machine.apps / "apps.d" / "edited.conf"
    config.write_text(config.read_text() + "; a note of mine\n")
    snapshot = machine.status(edited)["snapshot"]
    check(snapshot.startswith("/var/cache/mvld/snapshots/"), f"the snapshot of a configuration that is to be made anew: {snapshot}")
    check("was changed since mvld made it" in machine.fails("disable", edited), "an edited file")
    check(config.exists() and edited.read_bytes() == Path("/bin/bash").read_bytes(), "the file stays, the program is restored")
    for path in Path(f"{prefix}/bin/mvld"), Path(f"{libdir}/mvld/ld-mvld.so.1"):
        path.unlink()
    subprocess.run([machine.restore, "--all"], check=True)
    check(other.read_bytes() == Path("/bin/bash").read_bytes(), "mvld-restore")
    check(not (machine.apps / "apps.d" / "other.conf").exists(), "its configuration")


def rescued(machine):
    """mvld-restore leaves nothing of what enable made, and what others configured as it was."""
    one, two = machine.program("one"), machine.program("two")
    mine, cache = machine.apps / "apps.d" / "mine.conf", machine.apps / "config.cache"
    before = machine.files()
    mine.write_text("[app]\nmatch = /usr/bin/mine\npasses = direct-calls\n")
    did([machine.mvld, "config"])
    configured = cache.read_text()
    did([machine.mvld, "enable", one, two])
    snapshots = sorted(Path("/var/cache/mvld/snapshots").glob("*-*"))
    another = machine.folder / "another"
    shutil.copytree("/var/lib/mvld", another)
    os.environ["MVLD_STATE"] = str(another)
    did([machine.restore, one])
    del os.environ["MVLD_STATE"]
    check(sorted(Path("/var/cache/mvld/snapshots").glob("*-*")) == snapshots, "a record of its own takes no snapshot")
    cache.chmod(0o640)
    did([machine.restore, one])
    check(len(snapshots) == 2 and len(sorted(Path("/var/cache/mvld/snapshots").glob("*-*"))) == 1, "its snapshot is gone")
    check(cache.stat().st_mode & 0o7777 == 0o640, "config.cache has another mode")
    cache.chmod(0o644)
    check(machine.is_applied(two) and machine.status(two)["trouble"] is None, "the other is as it was")
    did([machine.mvld, "config", "--check"])
    did([machine.mvld, "enable", one])
    did([machine.restore, "--all"])
    check(cache.read_text() == configured, "what is configured besides")
    mine.unlink()
    did([machine.mvld, "config"])
    did([machine.mvld, "enable", one, two])
    did([machine.restore, "--all"])
    now = machine.files()
    check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")
    check(not Path("/var/cache/mvld").exists() and not Path("/var/lib/mvld").exists(), "something is left in /var")


def configured(machine):
    """A program that an administrator configures by hand never gets analyses and a snapshot in the background; or the job
    does it each time, or for a program that is not configured so."""
    program, other, odd = machine.program("by hand"), machine.program("plainly"), machine.programs / "odd"
    often = machine.program("often")
    subprocess.run(["gcc", "-O2", "-Wl,--build-id=none", "-x", "c", "-", "-o", odd], input="int main(void) { return 0; }",
                   text=True, check=True)
    apps = machine.apps / "apps.d"
    apps.mkdir(parents=True, exist_ok=True)
    (apps / "mine.conf").write_text(f"[app]\nmatch = \"{program}\", {odd}, /nowhere/absent\npasses = direct-calls\non-miss = build\n"
                                    f"[app]\nmatch = {other}\npasses = direct-calls\non-miss = plain\n"
                                    f"[app]\nmatch = {often}\npasses = direct-calls\n")
    did([machine.mvld, "config"])
    started = [machine.mvld, "run", program]
    done = subprocess.run([machine.mvld, "status", "--json"], capture_output=True, text=True)
    found = {row["program"]: row for row in json.loads(done.stdout)}
    check(done.returncode == 1 and found.keys() == {str(program), str(odd), str(other), str(often)}, f"status: {done}")
    check({(row["by"], row["applied"]) for row in found.values()} == {("configuration", False)}, f"status: {found}")
    check(found[str(often)]["trouble"] is None and found[str(often)]["remedy"] is None, f"passes run at each start: {found}")
    check(found[str(program)]["trouble"] and found[str(other)]["trouble"], f"status: {found}")
    subprocess.run(found[str(other)]["remedy"].replace("mvld ", f"{machine.mvld} "), shell=True, check=True, stdout=subprocess.DEVNULL)
    check(machine.status(other)["applied"], "what status names mends it")
    typed = machine.program("typed")
    (apps / "typed.conf").write_text(f"[app]\nmatch = {typed}\npasses = direct-cals\n")
    did([machine.mvld, "config"])
    found = machine.status(typed, trouble=True)
    check(f"{apps}/typed.conf:3: " in found["trouble"] and not found["applied"], f"a pass that is not there: {found}")
    done = subprocess.run([machine.mvld, "doctor"], capture_output=True, text=True)
    check(done.returncode == 1 and f"{typed}: {apps}/typed.conf:3: " in done.stdout, f"doctor: {done}")
    (apps / "typed.conf").unlink()
    did([machine.mvld, "config"])
    shutil.rmtree("/var/cache/mvld")
    check(not machine.is_applied(*started) and not machine.is_applied(*started), "a start analyses")
    done = subprocess.run([machine.mvld, "enable", "--stale"], capture_output=True, text=True)
    check(done.returncode == 0 and "build-id" in done.stderr, f"one cannot be analysed: {done}")
    check(machine.is_applied(*started), "no snapshot is applied")
    found = {item["object"]: item for item in json.loads(did([machine.mvld, "cache", "list", "--json"])) if item["kind"] == "snapshot"}
    check(found[str(program)]["state"] == "good" and found[str(program)]["code"] > 0 and str(other) not in found, f"snapshots: {found}")
    was = machine.files()
    done = subprocess.run([machine.mvld, "enable", "--stale"], capture_output=True, text=True)
    check((done.returncode, done.stdout, done.stderr) == (0, "", "") and machine.files() == was, f"it is done again: {done}")
    check(machine.status(program)["trouble"] is None, f"status: {machine.status(program)}")
    shutil.copy(program, machine.programs / "new")
    (machine.programs / "new").rename(program)  # upgraded
    check(not machine.is_applied(*started), "a snapshot of the old file")
    did([machine.mvld, "enable", "--stale"])
    check(machine.is_applied(*started), "not renewed")
    did([machine.mvld, "enable", other])
    was = (machine.apps / "config.cache").stat()
    did([machine.mvld, "enable", other])
    check((machine.apps / "config.cache").stat() == was, "the path unit, which watches it, would start the job again")


# Its start ends before its first constructor, which is as far as `mvld build' goes.
ENDS = """static int yes(void) { return 1; }
static void *choose(void) { __builtin_trap(); return (void *)yes; }
int maybe(void) __attribute__((ifunc("choose")));
"""


def fails(machine):
    """What cannot be built is tried at each run of the job; or never again."""
    library, program, enabled = machine.programs / "libends.so", machine.programs / "ends", machine.program("enabled")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=ENDS, text=True, check=True)
    whole = machine.programs / "whole.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", whole], input=ENDS.replace("__builtin_trap();", ""), text=True,
                   check=True)
    subprocess.run(["gcc", "-O2", "-Wl,-z,now", "-x", "c", "-", "-x", "none", library, "-o", program], input="int maybe(void); int main(void) { return !maybe(); }",
                   text=True, check=True)
    did([machine.mvld, "enable", enabled])
    (machine.apps / "apps.d" / "mine.conf").write_text(f"[app]\nmatch = {program}\npasses = direct-calls\non-miss = build\n")
    did([machine.mvld, "config"])

    def job(status, when):
        done = subprocess.run([machine.mvld, "enable", "--stale"], capture_output=True, text=True)
        check((done.returncode, bool(done.stderr)) == (status, status == 1), f"{when}: {done}")

    job(1, "it cannot be built")
    job(0, "nothing has changed")
    shutil.copy(library, machine.programs / "new.so")
    (machine.programs / "new.so").rename(library)
    job(1, "another library, as bad")
    job(0, "nothing has changed again")
    for mark in Path("/var/cache/mvld/failed").iterdir():
        os.utime(mark, (2**32, 2**32))
    job(1, "the clock was ahead")
    did([machine.mvld, "disable", enabled])
    job(1, "another configuration")
    whole.rename(library)
    job(0, "a better library")
    check(machine.status(program)["applied"], "it is built")
    job(0, "all is well")
    library.rename(whole)
    done = subprocess.run([machine.mvld, "enable", "--stale"], capture_output=True, text=True)
    check(done.returncode == 1, f"its libraries cannot be listed: {done}")
    done = subprocess.run([machine.mvld, "enable", "--stale"], capture_output=True, text=True)
    check(done.returncode == 0 and "analysing" not in done.stderr, f"it is tried again for nothing: {done}")
    whole.rename(library)
    job(0, "the library is back")
    check(machine.status(program)["applied"], "it is built again")
    did([machine.mvld, "disable", "--all"])
    check(not Path("/var/cache/mvld").exists() and not Path("/var/lib/mvld").exists(), "something is left in /var")


def full(machine):
    """No room is left for the record of changes: what was done is not taken back, or stays in the record."""
    program = machine.command("tool", "/bin/true")
    before = machine.files()

    def room(size):
        subprocess.run(["mount", "-o", f"remount,size={size}", "/var/lib"], check=True)

    room("4k")  # for one row, and then for no other file
    said = machine.fails("enable", program)
    check("/var/lib/mvld/changes.new: cannot be written: No space left on device\n" in said, f"enable: {said}")
    check(not Path("/var/lib/mvld").exists(), "a row is left of what was not done")
    machine.is_plain(before)
    for words in [machine.mvld, "disable", "--all"], [machine.restore, "--all"]:
        room("1m")
        did([machine.mvld, "enable", program])
        room("4k")
        did(words)
        now = machine.files()
        check(now == before, f"{words}: files differ: {set(now.items()) ^ set(before.items())}")


def closed(machine):
    """Started without standard input, output or error, as by some daemons: a file gets what is meant to be printed."""
    program = machine.program("tool")
    before = machine.files()
    for fds in (0,), (1,), (2,), (0, 1, 2):
        def close():
            for fd in fds:
                os.close(fd)

        for words in [machine.mvld, "enable", program], [machine.mvld, "enable", "/nowhere"]:
            done = subprocess.run(words, preexec_fn=close)
            check(done.returncode == (words[-1] != program), f"{words} without {fds}: {done}")
        check(machine.is_applied(program) and machine.status(program)["trouble"] is None, f"enabled without {fds}")
        text = Path("/var/lib/mvld/changes").read_text() + (machine.apps / "apps.d" / "tool.conf").read_text()
        check("nowhere" not in text and "starts under" not in text, text)
        for words in [machine.restore, "/nowhere"], [machine.restore, "--all"]:
            done = subprocess.run(words, preexec_fn=close)
            check(done.returncode == (words[-1] == "/nowhere"), f"{words} without {fds}: {done}")
        now = machine.files()
        check(now == before, f"without {fds}: files differ: {set(now.items()) ^ set(before.items())}")


def of_one_name(machine):
    """Of two programs of one name, as two versions of clang, only one can be enabled; or one loses what the other has."""
    (machine.programs / "other").mkdir()
    one, two, three = machine.program("tool"), machine.programs / "other" / "tool", machine.program("tool-2")
    shutil.copy(one, two)
    before = machine.files()
    for again in range(2):
        for program in one, two, three:
            did([machine.mvld, "enable", program])
    names = sorted(path.name for path in (machine.apps / "apps.d").glob("tool*"))
    check(names == ["tool-2-2.conf", "tool-2.conf", "tool.conf"], f"{names}")
    did([machine.mvld, "disable", one])
    for program in two, three:
        check(machine.is_applied(program) and machine.status(program)["trouble"] is None, f"{program} is not enabled")
    did([machine.mvld, "enable", "--pass", "direct-calls", "--pass", "concat", two])
    check("concat" in (machine.apps / "apps.d" / "tool-2.conf").read_text(), "other passes")
    did([machine.mvld, "disable", "--all"])
    now = machine.files()
    check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")


def named(machine):
    """A program whose name has blanks, commas or quotes can be configured by hand, but not enabled; or what tells how to mend
    it is no command."""
    names = ["by hand", "one, two", "half;", "it's", "*", "sp\u00e4t"]
    programs = [machine.program(name) for name in names]
    before = machine.files()
    for program in programs:
        did([machine.mvld, "enable", "--by", "set-interp", program])
        check(machine.is_applied(program) and machine.status(program)["trouble"] is None, f"{program}: {machine.status(program)}")
        shutil.copy("/bin/bash", machine.programs / "new")
        (machine.programs / "new").rename(program)
        remedy = machine.status(program, trouble=True)["remedy"]
        subprocess.run(remedy.replace("mvld", machine.mvld, 1), shell=True, check=True, stdout=subprocess.DEVNULL)
        check(machine.is_applied(program), f"{remedy} does not mend it")
    did([machine.mvld, "disable", programs[0]])
    for name in 'a"b', "a\\b", "a\tb", "a\nb":
        check("cannot be enabled" in machine.fails("enable", machine.program(name)), name)
        (machine.programs / name).unlink()
    did([machine.restore, *programs[1:3]])
    did([machine.mvld, "disable", "--all"])
    for program in programs:
        check(program.read_bytes() == Path("/bin/bash").read_bytes(), f"{program} is not what it was")
    check({path for path in machine.files()} == {path for path in before}, "something is left")


start(globals())
