#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled_ways.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: the ways in which `mvld enable` has a program started: as a
command, by a unit of systemd's; and mvld in a container.

A failure means: by such a way a program does not start from its snapshot, or not as it does plainly; others than it
should be are reached; or something is left.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from machine import COMMANDS, UNITS, check, did, libdir, start, support


def wrapper(machine):
    """A command is enabled by a wrapper that is found before it: its file stays as it is, the wrapper starts it from
    the snapshot, plainly with MVLD=off, and by the name that it was enabled by."""
    program = machine.command("tool")
    (machine.programs / "other").symlink_to(program)
    before, was = machine.files(), program.stat()
    did([machine.mvld, "enable", "other"])
    script = COMMANDS[0] / "other"
    check(shutil.which("other") == str(script) and program.stat() == was, "there is a wrapper, and the file is as it was")
    check(machine.is_applied(script) and not machine.is_applied(program), "the wrapper alone starts from the snapshot")
    found = machine.status("other")
    check((found["by"], found["made"], found["applied"]) == ("wrapper", str(script), True), f"status: {found}")
    check(f"{program}: wrapper {script}, snapshot of " in did([machine.mvld, "status"]), "status as text")
    check("/snapshots/" not in subprocess.run([script, "-c", "cat /proc/$$/maps; true"], capture_output=True, text=True,
                                       env={**os.environ, "MVLD": "off"}).stdout, "MVLD=off")
    says = [script, "-c", 'echo "$0 $*"; exit 7', "a b", "*"]
    done = subprocess.run(says, capture_output=True, text=True)
    check((done.stdout, done.returncode, done.stderr) == ("a b *\n", 7, ""), f"arguments and status: {done}")
    done = subprocess.run(["sh", "-c", 'exec other -c "echo \\$BASH"'], capture_output=True, text=True)
    check(done.stdout == f"{machine.programs}/other\n", f"by which name: {done}")
    check(did([machine.mvld, "enable", "other"]), "enabled twice")
    check(did([machine.mvld, "build", "--check", "other"]).startswith("/var/cache/mvld/snapshots/"), "by the wrapper's name")
    script.write_bytes(script.read_bytes() + b"# mine\n")
    found = machine.status("other", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "changed since" in found["trouble"], f"edited: {found}")
    check("was changed since" in machine.fails("disable", "other") and script.exists(), "an edited wrapper stays")
    script.unlink()
    machine.is_plain(before)
    own = machine.command("own")
    (COMMANDS[0] / "own").write_text("#!/bin/sh\n")
    check("is there already" in machine.fails("enable", "--by", "wrapper", own), "a command of that name")
    did([machine.mvld, "enable", own])
    check(machine.status(own)["by"] == "set-interp", "no wrapper is to be had")
    did([machine.mvld, "disable", own])
    did([machine.mvld, "enable", "tool"])
    check(f"{COMMANDS[0]}/tool: made for {program}\n" in did([machine.restore, "--list"]), "mvld-restore --list")
    did([machine.restore, program])
    check(not (COMMANDS[0] / "tool").exists() and did([machine.restore, "--list"]) == "", "mvld-restore by name")
    did([machine.mvld, "enable", "tool"])
    program.unlink()
    found = machine.status("tool", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "gone" in found["trouble"], f"status: {found}")
    did([machine.mvld, "disable", "tool"])
    check(not (COMMANDS[0] / "tool").exists(), "the program is gone, and now its wrapper")


def wrapper_alone(machine):
    """Whatever of mvld is gone, and whatever the program has become: its wrapper starts it."""
    program = machine.command("tool")
    did([machine.mvld, "enable", "tool"])
    place = COMMANDS[0] / "tool"
    parts = [Path(machine.mvld), Path(libdir) / "mvld/mvld-run", Path(libdir) / "ld-mvld.so.1"]

    def says(when):
        done = subprocess.run([place, "-c", 'echo "$0 $*"; exit 7', "a b", "*"], capture_output=True, text=True)
        check((done.stdout, done.returncode, done.stderr) == ("a b *\n", 7, ""), f"{when}: {done}")

    for gone in [[part] for part in parts] + [parts]:
        for part in gone:
            part.rename(f"{part}.aside")
        says(f"without {gone}")
        for part in gone:
            Path(f"{part}.aside").rename(part)
    check(machine.is_applied(place), "all is there again")
    environment = subprocess.run(["env", "-i", "MVLD=off", "A=", place, "-c", "tr '\\0' ' ' </proc/$$/environ; true"],
                                 capture_output=True, text=True).stdout
    check(environment == "MVLD=off A= ", f"its environment: {environment}")
    if shutil.which("strace"):
        traced = subprocess.run(["strace", "-o", machine.folder / "trace", place, "-c", "exit 7"], capture_output=True)
        check(traced.returncode == 7, f"no other process may trace it: {traced}")
        trace = (machine.folder / "trace").read_text()
        check(re.findall(r'execve\("([^"]+)', trace)[1] == str(parts[1]), f"it executes something else first: {trace}")
    program.unlink()
    done = subprocess.run([place], capture_output=True, text=True)
    check((done.returncode, done.stderr) == (127, f"mvld run: {program}: No such file or directory\n"), f"no program: {done}")
    program.write_text('#!/bin/sh\necho "$0 $*"\n')
    program.chmod(0o755)
    check(subprocess.run([place, "a b"], capture_output=True, text=True).stdout == f"{program} a b\n", "a script")
    shutil.copy(os.path.realpath("/bin/bash"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o6755)
    done = subprocess.run([place, "-pc", "echo $EUID"], capture_output=True, text=True)
    check(done.stdout == "65534\n", f"set-id bits: {done}")


OLD_WRAPPER = """#!/bin/sh
# made by `mvld enable'; `mvld disable' removes it
# starts {0}
test "$MVLD" = off || test ! -x '{1}' || exec '{1}' run -- '{0}' "$@"
exec '{0}' "$@"
"""


def wrapper_of_earlier(machine):
    """A wrapper of an earlier mvld, a shell script, works, is known as one, renewed, and taken back."""
    program = machine.command("tool")
    before = machine.files()
    place, record = COMMANDS[0] / "tool", Path("/var/lib/mvld/changes")

    def make_old():
        text = OLD_WRAPPER.format(program, machine.mvld)
        value = 0xcbf29ce484222325
        for byte in text.encode():
            value = (value ^ byte) * 0x100000001b3 % 2**64
        place.write_text(text)
        record.write_text(re.sub(rf"(wrapper\t{place}\t)\w+", rf"\g<1>{value:016x}", record.read_text()))

    did([machine.mvld, "enable", "tool"])
    new = place.read_bytes()
    make_old()
    check(machine.is_applied(place), "it does not start its program from the snapshot")
    found = machine.status("tool", trouble=True)
    check("another mvld made" in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"status: {found}")
    check(did([machine.mvld, "build", "--check", "tool"]).startswith("/var/cache/mvld/snapshots/"), "by its name")
    did([machine.mvld, "enable", "--stale"])
    check(place.read_bytes() == new and machine.status("tool")["trouble"] is None, "renewed")
    for back in [machine.mvld, "disable", "tool"], [machine.restore, "--all"]:
        did([machine.mvld, "enable", "tool"])
        make_old()
        did(back)
        machine.is_plain(before)



def users_wrapper(machine):
    """A user without rights enables a program of the machine's for herself; at first her home is empty."""
    home = machine.folder / "home"
    home.mkdir()
    machine.command("tool")
    subprocess.run(["chown", "-R", "65534:65534", home], check=True)
    own = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "XDG_CONFIG_HOME", f"HOME={home}",
           f"PATH={home}/.local/bin:{os.environ['PATH']}"]
    if not shutil.which("setpriv") or subprocess.run([*own, "test", "-r", machine.mvld]).returncode:
        support.skip("another user cannot read what is installed")
    before = sorted(home.rglob("*"))
    done = subprocess.run([*own, "env", f"PATH={machine.programs}:/usr/bin:/bin", machine.mvld, "enable", "tool"], capture_output=True,
                          text=True)
    first = done.stderr.splitlines()[0]
    check(done.returncode == 1 and first.endswith(f": export PATH={home}/.local/bin:$PATH"), f"not in PATH: {done}")
    left = [path for path in sorted(home.rglob("*")) if path.is_file() or path.name in ("mvld", ".config")]
    check(left == [], f"what a failed one leaves: {left}")
    remedy = first.rpartition(": ")[2]
    script = home / "script"
    script.write_text(f"#!/usr/bin/env -S {machine.programs}/tool -x\n")
    script.chmod(0o755)
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    command = re.search("`(.*)'", done.stderr)
    check(done.returncode == 1 and command and command[1] == f"mvld enable {machine.programs}/tool", f"a script: {done}")
    script.write_text("#!/bin/sh\n")
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    check(done.returncode == 1 and "the machine needs" in done.stderr, f"a script of the machine's shell: {done}")
    script.write_text(f"#!{script}\n")
    done = subprocess.run([*own, machine.mvld, "enable", script], capture_output=True, text=True)
    check(done.returncode == 1 and "a script, too" in done.stderr, f"a script that reads itself: {done}")
    done = subprocess.run(["env", "-i", machine.mvld, "disable", "--json", "tool"], user=65534, capture_output=True, text=True)
    check((done.returncode, done.stdout) == (1, "[]\n") and "neither HOME" in done.stderr, f"without a record: {done}")
    script.unlink()
    done = subprocess.run([*own, machine.mvld, "enable", "--by", "wrap", "tool"], capture_output=True, text=True)
    check(done.returncode == 2 and done.stderr == "mvld enable: --by wrap: it is wrapper, unit or set-interp\n", f"{done}")
    said = did([*own, "env", f"PATH={machine.programs}:/usr/bin:/bin", "sh", "-c", f"{remedy}; {machine.mvld} enable tool"])
    check(said, "what was said first is no remedy")
    found = json.loads(did([*own, machine.mvld, "status", "--json"]))
    check([(f["by"], f["made"], f["applied"]) for f in found] == [("wrapper", f"{home}/.local/bin/tool", True)], f"{found}")
    done = did([*own, "sh", "-c", "tool -c 'cat /proc/$$/maps; true'"])
    check(f"{home}/.cache/mvld/snapshots/" in done, "it does not start from the snapshot")
    did([*own, machine.mvld, "disable", "--all"])
    left = [path for path in sorted(home.rglob("*")) if path.is_file() or path.name in ("mvld", ".config")]
    check(left == [path for path in before if path.is_file()], f"left: {left}")


def mounts_of(unit):
    """The command line in front of a program for the mounts of the unit's drop-ins.  As for systemd, sources are what is
    there before, and what is missing on a tmpfs is made; the order is no matter to it, but to mount(8), which needs an
    ld.so."""
    texts = [drop_in.read_text() for drop_in in sorted((UNITS / f"{unit}.d").glob("*.conf"))]
    lines = [binds.split(":") for text in texts for binds in re.findall("^BindReadOnlyPaths=-(.*)$", text, re.M)]
    own = [words.split(":") for text in texts for words in re.findall("^TemporaryFileSystem=(.*)$", text, re.M)]
    check(lines, f"{unit} has no mounts")
    script = "".join(f'mount --bind "{source}" "$1/{i}"\n' for i, (source, _) in enumerate(lines))
    for place, options in own:
        script += f'mkdir -p "{place}"; mount -t tmpfs -o {options.replace("ro,", "")} none "{place}"\n'
    for i, (_, place) in enumerate(lines):
        script += "".join(f'touch "{place}"\n' for folder, _ in own if place.startswith(folder))
        script += f'mount --bind "$1/{i}" "{place}" && mount -o remount,bind,ro "{place}"\n'
    folder = Path(os.environ["MVLD_TEST_INSIDE"]) / "sources"
    folder.mkdir(exist_ok=True)
    for i in range(len(lines)):
        (folder / str(i)).touch()
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-ec", f'{script} shift; exec "$@"', "sh", folder]


def unit(machine):
    """A program is enabled for one unit: no file of it is changed, and nobody else has it under mvld."""
    program = machine.program("service")
    machine.unit("own.service", program)
    before, was = machine.files(), program.stat()
    for wrong, why in ("none.service", "there is no unit"), ("own.socket", "not the name of a service"), \
                      ("../x.service", "not the name of a service"):
        check(why in machine.fails("enable", "--unit", wrong, program), f"{wrong} is not refused")
    check("say which unit starts it: --unit " in machine.fails("enable", "--by", "unit", program), "no unit")
    machine.is_plain(before)
    did([machine.mvld, "enable", "--unit", "own", program])
    drop_in = UNITS / "own.service.d" / "mvld-service.conf"
    found = machine.status(program)
    check((found["by"], found["made"], found["applied"]) == ("unit", str(drop_in), True), f"status: {found}")
    check(machine.is_applied(*mounts_of("own.service"), program), "in the unit it does not start from its snapshot")
    check(not machine.is_applied(program) and program.stat() == was, "its file is as it was, and starts plainly")
    others = subprocess.run([*mounts_of("own.service"), "sh", "-c", "setpriv --reuid=65534 --clear-groups "
                             "mount --version; grep host-loader /proc/self/maps"], capture_output=True, text=True)
    check(others.stdout.startswith("mount from ") and "/run/mvld/host-loader\n" in others.stdout and not others.stderr,
          f"other programs of the unit, one with set-id bits among them: {others}")
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", UNITS / "own.service"], capture_output=True, text=True)
        check(not done.returncode and not done.stderr, f"systemd-analyze verify: {done}")
    did([machine.mvld, "enable", "--stale"])
    did([machine.mvld, "enable", program])
    check(len(json.loads(did([machine.mvld, "status", "--json"]))) == 1, "enabled again is enabled for the unit")
    did([machine.mvld, "enable", "--by", "set-interp", program])
    check(machine.is_applied(program) and machine.is_applied(*mounts_of("own.service"), program), "both ways")
    did([machine.mvld, "disable", "--all"])
    check(machine.files() == before, f"files differ: {set(machine.files().items()) ^ set(before.items())}")
    did([machine.mvld, "enable", "--unit", "own", program])
    subprocess.run([machine.restore, "--all"], check=True)
    machine.is_plain(before)


def unit_upgraded(machine):
    """While a unit runs, each file of mvld is replaced as a package does it, then all are removed: what the unit
    executes starts."""
    program = machine.program("service")
    machine.unit("own.service", program)
    did([machine.mvld, "enable", "--unit", "own", program])
    asks = 'while read -r line; do "$0" -c "grep -c /run/mvld/host-loader /proc/self/maps; echo \\$0" $line; echo $?; done'
    running = subprocess.Popen([*mounts_of("own.service"), program, "-c", asks, program], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def starts(when):
        running.stdin.write(f"{when}\n")
        running.stdin.flush()
        said = [running.stdout.readline() for _ in range(3)]
        check(int(said[0]) and said[1:] == [f"{when}\n", "0\n"], f"{when}: {said}")

    starts("before")
    installed = [path for path in Path(libdir).rglob("*") if path.is_file()] + [Path(machine.mvld)]
    for path in installed:
        shutil.copy(path, f"{path}.dpkg-new")
        os.rename(f"{path}.dpkg-new", path)
    starts("upgraded")
    subprocess.run([machine.restore, "--all"], check=True)
    for path in installed:
        path.unlink()
    starts("removed")
    running.stdin.close()
    check(running.wait(20) == 0, "it ends")


def answers(process, name, asks):
    """What the service says, and whether each of its processes has mapped a snapshot."""
    for _ in range(200):
        done = subprocess.run(asks, capture_output=True, text=True)
        if not done.returncode:
            break
        time.sleep(0.05)
    maps = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_its = (folder / "comm").read_text().strip() == name and \
                os.stat(folder / "ns/mnt").st_ino == os.stat(f"/proc/{process.pid}/ns/mnt").st_ino
            maps += [(folder / "maps").read_text()] if is_its else []
        except OSError:  # it has ended
            pass
    return done.stdout, maps and all("/var/cache/mvld/snapshots/" in text for text in maps)


def service(machine, name, unit, command, asks, expected):
    """The machine's own service with its drop-in."""
    file = Path(os.path.realpath(shutil.which(name)))
    was = file.stat()
    did([machine.mvld, "enable", "--unit", unit, file])
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        check(not done.returncode and "mvld" not in done.stderr, f"systemd-analyze verify: {done}")
    process = subprocess.Popen([*mounts_of(unit), *command])
    try:
        said, mapped = answers(process, name, asks)
        check(expected in said, f"{name} says {said}")
        check(mapped and file.stat() == was, f"{name} does not run from a snapshot, or its file was changed")
    finally:
        process.terminate()
        process.wait(20)
    did([machine.mvld, "disable", file])
    check(not (UNITS / f"{unit}.d").exists(), "the drop-in is left")


def redis(machine):
    """redis-server as a unit."""
    if not shutil.which("redis-server") or not Path("/lib/systemd/system/redis-server.service").exists():
        support.skip("redis-server is not installed")
    socket = machine.folder / "socket"
    service(machine, "redis-server", "redis-server.service",
            ["/usr/bin/redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", machine.folder],
            ["redis-cli", "-s", socket, "ping"], "PONG")


NGINX = """daemon off; pid {0}/pid; error_log {0}/log; worker_processes 2;
events {{}}
http {{ access_log off; server {{ listen unix:{0}/socket; location / {{ return 200 "of nginx"; }} }} }}
"""


def nginx(machine):
    """nginx as a unit, with its workers."""
    if not shutil.which("nginx") or not Path("/lib/systemd/system/nginx.service").exists():
        support.skip("nginx is not installed")
    (machine.folder / "conf").write_text(NGINX.format(machine.folder))
    subprocess.run(["mount", "-t", "tmpfs", "none", "/var/log"], check=True)
    asks = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(4096), s.recv(4096))")
    for part in "body", "proxy", "fastcgi", "uwsgi", "scgi":
        (Path("/var/lib/nginx") / part).mkdir(parents=True)
    service(machine, "nginx", "nginx.service", ["/usr/sbin/nginx", "-c", machine.folder / "conf"],
            [sys.executable, "-c", asks, machine.folder / "socket"], "of nginx")


def container(machine):
    """Into a container of an image without mvld it is mounted as mvld-admin(7) says: passes act."""
    redis_server = shutil.which("redis-server", path="/usr/bin")
    if not redis_server:
        support.skip("redis-server is not installed")
    did([machine.mvld, "analyze", "--program", redis_server])
    conf = machine.apps / "apps.d" / "redis.conf"
    conf.write_text(f"[app]\nmatch = {os.path.realpath(redis_server)}\npasses = direct-calls\n")
    did([machine.mvld, "config"])
    root = machine.folder / "root"
    for part in "root", "upper", "work":
        (machine.folder / part).mkdir()
    done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={machine.folder}/upper,"
                           f"workdir={machine.folder}/work", root], capture_output=True, text=True)
    if done.returncode:
        support.skip("no overlay here: " + done.stderr.strip())
    (machine.folder / "ld.so").write_bytes((root / "lib64/ld-linux-x86-64.so.2").resolve().read_bytes())
    page = (support.SOURCE / "tools/man/mvld-admin.7").read_text()
    mounts = [words.replace("LIBDIR", libdir).split(":") for words in re.findall(r"-v (\S+):ro", page)]
    check(len(mounts) == 5, f"mvld-admin(7) has {mounts}")
    for source, place in mounts:
        source = Path(source.replace("./", f"{machine.folder}/"))
        to = root / os.path.realpath(place).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)  # as engines do
        to.mkdir(exist_ok=True) if source.is_dir() else to.exists() or to.touch()
        subprocess.run(["mount", "--bind", source, to], check=True)
    for what, kind in ("proc", "proc"), ("dev", "devtmpfs"):
        subprocess.run(["mount", "--rbind", f"/{what}", root / what], check=True)
    process = subprocess.Popen(["chroot", root, redis_server, "--port", "0", "--unixsocket", "/socket",
                                "--save", ""], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        check("PONG" in answers(process, "redis-server", ["redis-cli", "-s", root / "socket", "ping"])[0], "it is silent")
        exe = os.readlink(f"/proc/{process.pid}/exe")
        check(exe.endswith(os.path.realpath(redis_server)), f"/proc/self/exe is {exe}")
        code = re.findall(r" r-xp \S+ \S+ \S+ +\S+/redis-\S+\n(?:[A-Z].*\n)*?Private_Dirty: +(\d+) kB",
                          Path(f"/proc/{process.pid}/smaps").read_text())
        check(any(map(int, code)), f"no page of its code was changed: {code}")
    finally:
        process.terminate()
        process.communicate(timeout=20)


start(globals())
