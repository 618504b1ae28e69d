#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled_within.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: `mvld enable` has a program started by a unit of systemd's; and
mvld in a container.

A failure means: there a program does not start from its snapshot, or not as it does plainly; others than it should be
are reached; or something is left.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from machine import UNITS, check, did, libdir, start, support


def mounts_of(unit):
    """The command line in front of a program for the mounts of the unit's drop-ins.  As for systemd, sources are what is
    there before, and what is missing on a tmpfs is made; the order is no matter to it, but to mount(8), which needs an
    ld.so."""
    texts = [drop_in.read_text() for drop_in in sorted((UNITS / f"{unit}.d").glob("*.conf"))]
    lines = [(binds.split(":") * 2)[:2] for text in texts for binds in re.findall("^BindReadOnlyPaths=-(.*)$", text, re.M)]
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
    for i, (source, _) in enumerate(lines):
        (folder / str(i)).mkdir(exist_ok=True) if Path(source).is_dir() else (folder / str(i)).touch()
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
    check(found["code"] > 0, f"status says nothing of its code: {found}")
    item, = [item for item in json.loads(did([machine.mvld, "cache", "list", "--json"])) if item["kind"] == "snapshot"]
    check((item["path"], item["state"]) == (found["snapshot"], "good"), f"outside of the unit's mounts its snapshot is {item}")
    check(["BindReadOnlyPaths=-/var/cache/mvld/snapshots"] == [line for line in drop_in.read_text().splitlines() if "cache" in line],
          "in a unit with NoExecPaths= no snapshot could be mapped")
    check(not machine.is_applied(program) and program.stat() == was, "its file is as it was, and starts plainly")
    others = subprocess.run([*mounts_of("own.service"), "sh", "-c", "setpriv --reuid=65534 --clear-groups "
                             "mount --version; grep host-loader /proc/self/maps"], capture_output=True, text=True)
    check(others.stdout.startswith("mount from ") and "/run/mvld/host-loader\n" in others.stdout and not others.stderr,
          f"other programs of the unit, one with set-id bits among them: {others}")
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", UNITS / "own.service"], capture_output=True, text=True)
        check(not done.returncode and not done.stderr, f"systemd-analyze verify: {done}")
    inside = json.loads(did([*mounts_of("own.service"), machine.mvld, "status", "--json"]))
    check(inside == json.loads(did([machine.mvld, "status", "--json"])), f"status in the unit's mounts: {inside}")
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


def unit_runs(machine):
    """While a unit runs, status says whether its process has its snapshot, which the unit's own settings may prevent.  A
    systemctl that knows the process stands for systemd."""
    program = machine.program("service")
    machine.unit("own.service", program)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run"], check=True)
    Path("/run/systemd/system").mkdir(parents=True)
    commands, pid = machine.folder / "commands", machine.folder / "pid"
    commands.mkdir()
    (commands / "systemctl").write_text(f'#!/bin/sh\n[ "$1" != show ] || {{ [ "$5" = own.service ] && cat {pid}; }}\n')
    (commands / "systemctl").chmod(0o755)
    os.environ["PATH"] = f"{commands}:{os.environ['PATH']}"

    def runs(*within):
        process = subprocess.Popen([*within, program, "-c", "echo up; read -r line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(process.stdout.readline() == "up\n", "the service does not start")
        pid.write_text(f"{process.pid}\n")
        return process

    def ends(process):
        process.communicate("", 20)
        pid.write_text("0\n")

    plain = runs()
    did([machine.mvld, "enable", "--unit", "own", program])
    found = machine.status(program, trouble=True)
    check((found["applied"], found["process"], found["remedy"]) == (False, plain.pid, "systemctl restart own.service"),
          f"it has run since before: {found}")
    ends(plain)
    found = machine.status(program)
    check((found["applied"], found["process"], found["trouble"]) == (True, None, None), f"it does not run: {found}")
    check("settings: it does not run" in did([machine.mvld, "status", program]), "a unit that does not run cannot be tried")
    pid.write_text(f"{os.getpid()}\n")
    check(f" {os.getpid()} runs another" in did([machine.mvld, "status", program]), "its process is not the program")
    good = runs(*mounts_of("own.service"))
    found = machine.status(program)
    check((found["applied"], found["process"], found["trouble"]) == (True, good.pid, None), f"it runs: {found}")
    snapshot = found["snapshot"]
    ends(good)
    no_exec = [*mounts_of("own.service"), "sh", "-c", 'mount -o remount,bind,ro,noexec /var/cache/mvld/snapshots && exec "$@"', "sh"]
    confined = runs(*no_exec)  # what NoExecPaths= does
    check(not re.search("r-xp .*/snapshots/", Path(f"/proc/{confined.pid}/maps").read_text()), "code is mapped in spite of that")
    found = machine.status(program, trouble=True)
    check((found["applied"], found["process"], found["snapshot"]) == (False, confined.pid, snapshot)
          and f"process {confined.pid} " in found["trouble"], f"no snapshot can be mapped: {found}")
    done = subprocess.run([machine.mvld, "doctor", program], capture_output=True, text=True)
    check(f"process {confined.pid} " in done.stdout, f"doctor does not say so: {done}")
    was = machine.files()
    did([machine.mvld, "enable", "--stale"])
    check(machine.files() == was, "to enable it again does not mend that")
    ends(confined)


def answers(pid, name, asks):
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
                os.stat(folder / "ns/mnt").st_ino == os.stat(f"/proc/{pid}/ns/mnt").st_ino
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
        said, mapped = answers(process.pid, name, asks)
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
ASKS_NGINX = [sys.executable, "-c", "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
              "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(4096), s.recv(4096))"]


def nginx(machine):
    """nginx as a unit, with its workers."""
    if not shutil.which("nginx") or not Path("/lib/systemd/system/nginx.service").exists():
        support.skip("nginx is not installed")
    (machine.folder / "conf").write_text(NGINX.format(machine.folder))
    subprocess.run(["mount", "-t", "tmpfs", "none", "/var/log"], check=True)
    for part in "body", "proxy", "fastcgi", "uwsgi", "scgi":
        (Path("/var/lib/nginx") / part).mkdir(parents=True)
    service(machine, "nginx", "nginx.service", ["/usr/sbin/nginx", "-c", machine.folder / "conf"],
            [*ASKS_NGINX, machine.folder / "socket"], "of nginx")


def image(machine, *programs):
    """A container's root folder, without mvld; and the mounts of mvld-admin(7), by which passes act in it."""
    for program in programs:
        if not shutil.which(program):
            support.skip(f"{program} is not installed")
        file = os.path.realpath(shutil.which(program))
        did([machine.mvld, "analyze", "--program", file])
        (machine.apps / "apps.d" / f"{program}.conf").write_text(f"[app]\nmatch = {file}\npasses = direct-calls\n")
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
    mounts = [words.replace("LIBDIR", libdir).replace("./", f"{machine.folder}/", 1).split(":")
              for words in re.findall(r"-v (\S+):ro", page)]
    check(len(mounts) == 5, f"mvld-admin(7) has {mounts}")
    return root, mounts


def is_served(pid, program, asks, expected):
    """The program answers, is the executed file, and passes changed its code."""
    said = answers(pid, Path(program).name, asks)[0]
    check(expected in said, f"{program} says {said}")
    exe = os.readlink(f"/proc/{pid}/exe")
    check(exe.endswith(os.path.realpath(program)), f"/proc/self/exe is {exe}")
    code = re.findall(r" r-xp \S+ \S+ \S+ +\S+/" + os.path.basename(exe) + r"\n(?:[A-Z].*\n)*?Anonymous: +(\d+) kB",
                      Path(f"/proc/{pid}/smaps").read_text())
    check(any(map(int, code)), f"{program}: no page of its code was changed: {code}")


def container(machine):
    """Into a container of an image without mvld it is mounted as mvld-admin(7) says: passes act."""
    root, mounts = image(machine, "redis-server")
    for source, place in mounts:
        to = root / os.path.realpath(place).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)  # as engines do
        to.mkdir(exist_ok=True) if Path(source).is_dir() else to.exists() or to.touch()
        subprocess.run(["mount", "--bind", source, to], check=True)
    for what in "proc", "dev":
        subprocess.run(["mount", "--rbind", f"/{what}", root / what], check=True)
    process = subprocess.Popen(["chroot", root, "/usr/bin/redis-server", "--port", "0", "--unixsocket", "/socket",
                                "--save", ""], stdout=subprocess.DEVNULL)
    try:
        is_served(process.pid, "/usr/bin/redis-server", ["redis-cli", "-s", root / "socket", "ping"], "PONG")
    finally:
        process.terminate()
        process.wait(20)


def oci(root, mounts, arguments):
    """A configuration of the OCI's, with a filter of system calls, as engines write it."""
    spaces = ("pid", "mount", "ipc", "uts")
    bind = [{"destination": to, "source": str(source), "type": "bind", "options": ["rbind", "ro"]} for source, to in mounts]
    rights = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETGID", "CAP_SETUID"]
    return {"ociVersion": "1.0.0", "root": {"path": str(root)}, "hostname": "container",
            "process": {"args": arguments, "cwd": "/", "user": {"uid": 0, "gid": 0}, "noNewPrivileges": True,
                        "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                        "capabilities": {of: rights for of in ("bounding", "effective", "permitted")}},
            "mounts": [{"destination": "/proc", "source": "proc", "type": "proc"},
                       {"destination": "/dev", "source": "tmpfs", "type": "tmpfs"}, *bind],
            "linux": {"namespaces": [{"type": space} for space in spaces], "maskedPaths": ["/proc/kcore"],
                      "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
                          {"names": ["bpf", "mount", "ptrace", "userfaultfd"], "action": "SCMP_ACT_ERRNO"}]}}}


def engine(machine):
    """The same in containers of a runtime of the OCI's: redis-server and nginx."""
    words = (["runc"] if shutil.which("runc") else ["crun", "--cgroup-manager=disabled"]) + ["--root", machine.folder / "state"]
    if not shutil.which(words[0]):
        support.skip("neither runc nor crun is installed")
    root, mounts = image(machine, "redis-server", "nginx")
    (machine.folder / "config.json").write_text(json.dumps(oci(root, [], ["true"])))
    plain = subprocess.run([*words, "run", "-b", machine.folder, "plain"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if plain.returncode:
        support.skip(f"no container here: {plain.stderr.strip()}")
    (root / "conf").write_text(NGINX.format(""))
    (root / "var/lib/nginx").mkdir(exist_ok=True)
    for program, arguments, asks, expected in (
            ("/usr/bin/redis-server", ["--port", "0", "--unixsocket", "/socket", "--save", ""],
             ["redis-cli", "-s", root / "socket", "ping"], "PONG"),
            ("/usr/sbin/nginx", ["-c", "/conf"], [*ASKS_NGINX, root / "socket"], "of nginx")):
        (root / "socket").unlink(missing_ok=True)
        (machine.folder / "config.json").write_text(json.dumps(oci(root, mounts, [program, *arguments])))
        with open(machine.folder / "said", "w+") as said:
            process = subprocess.Popen([*words, "run", "--pid-file", machine.folder / "pid", "-b", machine.folder, "mvld"],
                                       stdout=said, stderr=said, stdin=subprocess.DEVNULL)
            try:
                while not (machine.folder / "pid").exists():
                    check(process.poll() is None, f"{words[0]}: {Path(said.name).read_text()}")
                    time.sleep(0.05)
                is_served(int((machine.folder / "pid").read_text()), program, asks, expected)
            finally:
                subprocess.run([*words, "delete", "-f", "mvld"])
                process.wait(20)
        (machine.folder / "pid").unlink()


start(globals())
