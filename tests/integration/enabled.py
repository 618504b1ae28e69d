#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""enabled.py PREFIX LIBDIR SYSCONFDIR BEHAVIOUR: programs that are switched on with `mvld enable`, with mvld
installed over this machine in a private mount namespace.

A failure means: an enabled program does not start from a snapshot, `mvld status` says what is not so, or
something of it cannot be taken back.
"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from installation import did, in_namespace, install, support
from support import check


COMMANDS = [Path("/usr/local/bin"), Path("/usr/local/sbin")]
UNITS = Path("/etc/systemd/system")
PASSES = "passes = "


class Machine:
    """A copy of a program of the machine's, in a folder of its own, and mvld installed."""

    def __init__(self, folder):
        install(folder, "/usr/local")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/var/cache"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/var/lib"], check=True)
        for name in "MVLD_STATE", "XDG_CACHE_HOME":
            os.environ.pop(name, None)
        os.chmod(folder, 0o755)
        self.folder, self.programs = folder, folder / "programs"
        self.programs.mkdir()
        self.mvld, self.restore = f"{prefix}/bin/mvld", f"{prefix}/sbin/mvld-restore"
        self.apps = Path(sysconfdir) / "mvld"

    def program(self, name, original="/bin/bash"):
        to = self.programs / name
        shutil.copy(os.path.realpath(original), to)
        return to

    def files(self):
        """All that a user could miss: names, contents, modes, times."""
        places = [self.apps, self.programs, *COMMANDS, UNITS, Path("/var/cache"), Path("/var/lib")]
        return {str(path): (path.stat().st_mode, path.is_file() and path.stat().st_mtime_ns,
                            path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest())
                for place in places for path in place.rglob("*") if path.exists()}

    def fails(self, *words):
        done = subprocess.run([self.mvld, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check(done.returncode == 1, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def status(self, program, trouble=False):
        done = subprocess.run([self.mvld, "status", "--json", str(program)], capture_output=True, text=True)
        check(done.returncode == trouble and not done.stderr, f"status: {done}")
        return json.loads(done.stdout)[0]

    def is_applied(self, *program):
        """What the program has mapped, not what is said of it.  (Behind the last command there is no exec.)"""
        done = subprocess.run([*program, "-c", "cat /proc/$$/maps; true"], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)
        return "/var/cache/mvld/snapshots/" in done.stdout

    def command(self, name, original="/bin/bash"):
        """A program that a shell finds by its name, behind those in /usr/local/bin."""
        os.environ["PATH"] = f"{COMMANDS[0]}:{self.programs}:{os.environ['PATH']}"
        return self.program(name, original)

    def unit(self, name, program):
        UNITS.mkdir(parents=True, exist_ok=True)
        (UNITS / name).write_text(f"[Service]\nExecStart={program}\n")

    def is_plain(self, before):
        """All is taken back, in whatever way: but for what is made of the configuration, and analyses."""
        now = {path: what for path, what in self.files().items()
               if not path.startswith(("/var/cache/mvld", "/var/lib/mvld")) and path != f"{self.apps}/config.cache"}
        check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")


def there_and_back(machine):
    """Two programs are enabled, one is disabled, then all; every file is what it was."""
    one, two = machine.program("one"), machine.program("two")
    before = machine.files()
    did([machine.mvld, "enable", one, two])
    for program in one, two:
        check(machine.is_applied(program), f"{program} does not start from its snapshot")
        found = machine.status(program)
        check(found["trouble"] is None and found["code"] > 0, f"status: {found}")
    did([machine.mvld, "enable", one])
    check(machine.is_applied(one) and machine.status(one)["trouble"] is None, "enabled twice")
    did([machine.mvld, "disable", one])
    check(one.read_bytes() == Path("/bin/bash").read_bytes() and machine.is_applied(two), "one of two")
    check("not in the record" in machine.fails("disable", one), "disabled twice")
    did([machine.mvld, "disable", "--all"])
    check(machine.files() == before, f"files differ: {set(machine.files().items()) ^ set(before.items())}")
    check(not Path("/var/cache/mvld").exists() and not Path("/var/lib/mvld").exists(), "something is left in /var")
    check(did([machine.mvld, "status"]) == "", "status of nothing")


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
    program.unlink()
    found = machine.status(program, trouble=True)
    check("gone" in found["trouble"] and found["remedy"] == f"mvld disable {program}", f"status: {found}")
    did([machine.mvld, "disable", program])
    check(did([machine.mvld, "status"]) == "", "status of nothing")


def wrapper(machine):
    """A command is enabled by a script that is found before it: its file stays as it is, the script starts it from
    the snapshot, plainly with MVLD=off and without mvld, and by the name that it was enabled by."""
    program = machine.command("tool")
    (machine.programs / "other").symlink_to(program)
    before, was = machine.files(), program.stat()
    did([machine.mvld, "enable", "other"])
    script = COMMANDS[0] / "other"
    check(shutil.which("other") == str(script) and program.stat() == was, "there is a script, and the file is as it was")
    check(machine.is_applied(script) and not machine.is_applied(program), "the script alone starts from the snapshot")
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
    check(script.read_text() in did(["cat", script]) and did([machine.mvld, "enable", "other"]), "enabled twice")
    check(did([machine.mvld, "build", "--check", "other"]).startswith("/var/cache/mvld/snapshots/"), "by the script's name")
    aside = Path(machine.mvld + ".aside")
    os.rename(machine.mvld, aside)
    done = subprocess.run(says, capture_output=True, text=True)
    check((done.stdout, done.returncode, done.stderr) == ("a b *\n", 7, ""), f"without mvld: {done}")
    os.rename(aside, machine.mvld)
    script.write_text(script.read_text() + "# mine\n")
    found = machine.status("other", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "changed since" in found["trouble"], f"edited: {found}")
    check("was changed since" in machine.fails("disable", "other") and script.exists(), "an edited script stays")
    script.unlink()
    machine.is_plain(before)
    own = machine.command("own")
    (COMMANDS[0] / "own").write_text("#!/bin/sh\n")
    check("is there already" in machine.fails("enable", "--by", "wrapper", own), "a command of that name")
    did([machine.mvld, "enable", own])
    check(machine.status(own)["by"] == "set-interp", "no wrapper is to be had")
    did([machine.mvld, "disable", own])
    did([machine.mvld, "enable", "tool"])
    program.unlink()
    found = machine.status("tool", trouble=True)
    check(found["remedy"] == f"mvld disable {program}" and "gone" in found["trouble"], f"status: {found}")
    did([machine.mvld, "disable", "tool"])
    check(not (COMMANDS[0] / "tool").exists(), "the program is gone, and now its script")


def users_wrapper(machine):
    """A user without rights enables a program of the machine's for herself."""
    home = machine.folder / "home"
    (home / ".local" / "bin").mkdir(parents=True)
    machine.command("tool")
    subprocess.run(["chown", "-R", "65534:65534", home], check=True)
    own = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-u", "XDG_CONFIG_HOME", f"HOME={home}",
           f"PATH={home}/.local/bin:{os.environ['PATH']}"]
    if not shutil.which("setpriv") or subprocess.run([*own, "test", "-r", machine.mvld]).returncode:
        support.skip("another user cannot read what is installed")
    before = sorted(home.rglob("*"))
    did([*own, machine.mvld, "enable", "tool"])
    found = json.loads(did([*own, machine.mvld, "status", "--json"]))
    check([(f["by"], f["made"], f["applied"]) for f in found] == [("wrapper", f"{home}/.local/bin/tool", True)], f"{found}")
    done = did([*own, "sh", "-c", "tool -c 'cat /proc/$$/maps; true'"])
    check(f"{home}/.cache/mvld/snapshots/" in done, "it does not start from the snapshot")
    did([*own, machine.mvld, "disable", "--all"])
    left = [path for path in sorted(home.rglob("*")) if path.is_file()]
    check(left == [path for path in before if path.is_file()], f"left: {left}")


def mounts_of(unit):
    """The command line in front of a program for the mounts of the unit's drop-ins.  As for systemd, sources are what is
    there before; the order is no matter to it, but to mount(8), which needs an ld.so."""
    lines = [line.partition("=-")[2].split(":") for drop_in in sorted((UNITS / f"{unit}.d").glob("*.conf"))
             for line in drop_in.read_text().splitlines() if line.startswith("BindReadOnlyPaths=-")]
    check(lines, f"{unit} has no mounts")
    script = "".join(f'mount --bind "{source}" "$1/{i}"\n' for i, (source, _) in enumerate(lines))
    for i, (_, place) in enumerate(lines):
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
    check("--unit says" in machine.fails("enable", "--by", "unit", program), "no unit")
    machine.is_plain(before)
    did([machine.mvld, "enable", "--unit", "own", program])
    drop_in = UNITS / "own.service.d" / "mvld-service.conf"
    found = machine.status(program)
    check((found["by"], found["made"], found["applied"]) == ("unit", str(drop_in), True), f"status: {found}")
    check(machine.is_applied(*mounts_of("own.service"), program), "in the unit it does not start from its snapshot")
    check(not machine.is_applied(program) and program.stat() == was, "its file is as it was, and starts plainly")
    others = subprocess.run([*mounts_of("own.service"), "sh", "-c", "grep -c ld-linux /proc/self/maps; su -s /bin/sh "
                             "nobody -c 'id -un'"], capture_output=True, text=True)
    check(others.stdout.endswith("\nnobody\n") and not others.stderr, f"other programs of the unit: {others}")
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


def answers(process, name, asks):
    """What the service says, and whether its first and its newest process have mapped a snapshot."""
    for _ in range(200):
        done = subprocess.run(asks, capture_output=True, text=True)
        if not done.returncode:
            break
        time.sleep(0.05)
    pids = [p for p in Path("/proc").glob("[0-9]*") if (p / "comm").exists() and (p / "comm").read_text().strip() == name
            and os.stat(p / "ns/mnt").st_ino == os.stat(f"/proc/{process.pid}/ns/mnt").st_ino]
    return done.stdout, pids and all("/var/cache/mvld/snapshots/" in (p / "maps").read_text() for p in pids)


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
    process = subprocess.Popen(["chroot", root, "env", "MVLD_DEBUG=passes", redis_server, "--port", "0", "--unixsocket", "/socket",
                                "--save", ""], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        check("PONG" in answers(process, "redis-server", ["redis-cli", "-s", root / "socket", "ping"])[0], "it is silent")
        exe = os.readlink(f"/proc/{process.pid}/exe")
        check(exe.endswith(os.path.realpath(redis_server)), f"/proc/self/exe is {exe}")
    finally:
        process.terminate()
        log = process.communicate(timeout=20)[1]
    check("pass direct-calls: done" in log, log)


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


def passes(machine):
    """Said again with other passes, these are what runs; said without, those before stay; what fails changes nothing."""
    program = machine.program("tool")
    config = machine.apps / "apps.d" / "tool.conf"

    def configured():
        return next(line for line in config.read_text().splitlines() if line.startswith(PASSES))[len(PASSES):]

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


def in_turns(machine):
    """One tool at a time changes programs: another one waits, and then finds what that one has done."""
    program = machine.program("tool")
    before = machine.files()
    did([machine.mvld, "enable", program])
    for words in ([machine.mvld, "enable", program], [machine.mvld, "set-interp", "--restore", program],
                  [machine.mvld, "disable", "--all"], [machine.restore, "--all"]):
        state = Path("/var/lib/mvld")
        state.mkdir(exist_ok=True)
        lock = os.open(state, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        check("waiting for it" in process.stderr.readline() and process.poll() is None, f"{words} does not wait")
        os.close(lock)
        check(process.wait(60) == 0, f"{words}: {process.stderr.read()}")
    machine.is_plain(before)


def at_once(machine):
    """Many tools at once on the same programs: whoever comes first, each change has its row."""
    one, two = machine.program("one", "/bin/true"), machine.command("two", "/bin/true")
    machine.unit("own.service", one)
    before = machine.files()
    words = [["enable", one], ["enable", two], ["disable", one], ["set-interp", two], ["disable", two],
             ["enable", "--unit", "own", one], ["disable", "--all"], ["set-interp", "--restore", two]]
    for turn in range(3):
        tools = [subprocess.Popen([machine.mvld, *map(str, w)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for w in words[turn:] + words[:turn]]
        for tool in tools:
            check(tool.wait(100) in (0, 1), f"{tool.args}: {tool.returncode}")
        for program in one, two:
            check(subprocess.run([program]).returncode == 0, f"{program} does not start")
        subprocess.run([machine.restore, "--all"], check=True)
        machine.is_plain(before)


CHANGING = "rename,renameat2,link,linkat,unlink,unlinkat,mkdir,rmdir,openat,write,fsync,fchmod,flock,exit_group"


def killed(machine, *words):
    """The tool, killed before each of its calls that could change something, until it comes to its end."""
    for n in range(1, 400):
        done = subprocess.run(["strace", "-o", "/dev/null", "-e", f"inject={CHANGING}:signal=KILL:when={n}", *words],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield done.returncode
        if done.returncode != -signal.SIGKILL and done.returncode != 128 + signal.SIGKILL:
            check(done.returncode == 0, f"{words}: {done.returncode}")
            return
    check(False, f"{words} has no end")


def killed_way(machine, *words):
    program = machine.programs / "tool"
    before = {path: what for path, what in machine.files().items() if not path.startswith("/var/")}

    def taken_back():
        check(subprocess.run([program]).returncode == 0, "it does not start")
        subprocess.run([machine.restore, "--all"], check=True)
        machine.is_plain(before)

    did([machine.mvld, "enable", *words])  # the analyses are there from now on
    for tool in [machine.mvld, "disable", program], [machine.restore, "--all"]:
        turns = 0
        for _ in killed(machine, *tool):
            turns += 1
            taken_back()
            did([machine.mvld, "enable", *words])
        check(turns > 10, f"{tool}: only {turns} calls")
    turns = 0
    taken_back()
    for _ in killed(machine, machine.mvld, "enable", *words):
        turns += 1
        taken_back()
    check(turns > 20, f"enable: only {turns} calls")


def killed_set_interp(machine):
    """enable and disable are killed at any call: what they did has its row, and can be taken back."""
    need_strace()
    killed_way(machine, "--by", "set-interp", machine.program("tool", "/bin/true"))


def killed_wrapper(machine):
    """The same with a wrapper."""
    need_strace()
    killed_way(machine, "--by", "wrapper", machine.command("tool", "/bin/true"))


def killed_unit(machine):
    """The same with a unit's drop-in."""
    need_strace()
    machine.unit("own.service", machine.program("tool", "/bin/true"))
    killed_way(machine, "--unit", "own", machine.programs / "tool")


def need_strace():
    if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"]).returncode:
        support.skip("no strace, or it may not trace")


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
        done = subprocess.run([program], env={"MVLD_DEBUG": "files"}, capture_output=True, text=True)
        return done.returncode, ": applied" in done.stderr

    compile_library(1)
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-x", "none", "-o", program, library],
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
    did([machine.mvld, "build", program])
    check(answers() == (4, True), "built by hand")
    found = machine.status(program, trouble=True)
    check("without the analysis of " in found["trouble"] and found["remedy"] == f"mvld enable {program}", f"{found}")
    did(found["remedy"].replace("mvld", machine.mvld, 1).split())
    check(answers() == (4, True) and machine.status(program)["code"] == before["code"], "renewed")


def refused(machine):
    """What cannot be enabled whole is not enabled in part."""
    own, configured = machine.program("own"), machine.program("configured")
    (machine.apps / "apps.d" / "configured.conf").write_text("; mine\n")
    static = machine.folder / "programs" / "static"
    subprocess.run(["gcc", "-static", "-o", static, "-x", "c", "-"], input="int main(void) { return 0; }", text=True,
                   check=True)
    before = machine.files()
    check("mvld did not make it" in machine.fails("enable", configured), "a file of the user's")
    check("static" in machine.fails("enable", static), "a static program")
    check("the machine needs" in machine.fails("enable", "/bin/ls"), "a program that the machine needs")
    check("nowhere" in machine.fails("enable", "/nowhere"), "a program that is not there")
    check("no-such-pass" in machine.fails("enable", "--pass", "no-such-pass", own), "a pass that is not there")
    now = {path: what for path, what in machine.files().items() if not path.startswith("/var/")}
    check(now == before, f"files differ: {set(now.items()) ^ set(before.items())}")
    check(did([machine.mvld, "status"]) == "", "status of nothing")


def kept(machine):
    """A file that was edited since is not removed; mvld-restore does all without mvld."""
    edited, other = machine.program("edited"), machine.program("other")
    did([machine.mvld, "enable", edited, other])
    config = machine.apps / "apps.d" / "edited.conf"
    config.write_text(config.read_text() + "; a note of mine\n")
    check("was changed since mvld made it" in machine.fails("disable", edited), "an edited file")
    check(config.exists() and edited.read_bytes() == Path("/bin/bash").read_bytes(), "the file stays, the program is restored")
    for path in Path(f"{prefix}/bin/mvld"), Path(f"{libdir}/ld-mvld.so.1"):
        path.unlink()
    subprocess.run([machine.restore, "--all"], check=True)
    check(other.read_bytes() == Path("/bin/bash").read_bytes(), "mvld-restore")
    check(not (machine.apps / "apps.d" / "other.conf").exists(), "its configuration")


prefix, libdir, sysconfdir, behaviour = sys.argv[1:5]
if os.geteuid() or (prefix, sysconfdir) != ("/usr/local", "/etc"):
    support.skip("only root has its record and caches in /var, and only /usr/local can be replaced")
sys.exit(in_namespace(lambda folder: globals()[behaviour](Machine(folder))))
