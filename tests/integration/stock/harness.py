# SPDX-License-Identifier: MIT
"""Runs a case plainly and with mvld as the system's loader, and compares.

Both runs have private mount and PID namespaces of their own.  In the one, mvld is bound
over the folder of /lib64/ld-linux-x86-64.so.2, so that every program that is
started there runs under it, unmodified, and the configuration and the passes of
this run stand where an installation would put them: programs with an empty
environment and set-user-ID ones find them, too.  Nothing outside changes.
"""
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
import support  # noqa: E402
from stock.witness import IMAGE, Witness  # noqa: E402

# The folder of the loader: /lib64 is a link to usr/lib64 on merged-usr systems.
LOADER_FOLDER = Path(os.path.realpath("/lib64"))
LOADER_NAME = Path(support.HOST_LOADER).name
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

# $1: the scratch folder; $2: mount options of an overlay; then "where=what" pairs up
# to "--": folders to bind.  A folder that does not exist is made in an overlay over the nearest
# one that does; /etc always gets one, so that no case can change the machine's.
SETUP = r"""
set -eu
scratch=$1 options=$2 n=0; shift 2
mount -t tmpfs none "$scratch/overlay"
overlay() {
    n=$((n + 1)); o=$scratch/overlay/$n; mkdir -p "$o/up" "$o/work"
    mount -t overlay none -o "lowerdir=$1,upperdir=$o/up,workdir=$o/work$options" "$1"
}
overlay /etc
while [ "$1" != -- ]; do
    where=${1%%=*} base=${1%%=*}
    while ! [ -d "$base" ]; do base=$(dirname "$base"); done
    if [ "$base" != "$where" ]; then
        case $base in /etc*) ;; *) overlay "$base" ;; esac
        mkdir -p "$where"
    fi
    mount --bind "${1#*=}" "$where"; shift
done
shift
status=0; "$@" || status=$?; exit $status
"""


def namespace():
    """(command that starts private mount and PID namespaces, options that an overlay needs in
    them, whether they have a user namespace); skips where none may be made.  What a case
    leaves running ends with its PID namespace."""
    reason = "unshare(1) is missing"
    for flags, options in ((["--mount"], ""),
                           (["--user", "--map-root-user", "--mount"], ",userxattr")):
        command = ["unshare", *flags, "--propagation", "private", "--pid", "--fork",
                   "--kill-child", "--mount-proc", "--",
                   "env", "--default-signal=INT,TERM"]  # Debian 11's unshare has them ignored
        try:
            probe = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"],
                                   capture_output=True, text=True, timeout=20)
        except FileNotFoundError:
            continue
        if probe.returncode == 0:
            return command, options, "--user" in flags
        reason = probe.stderr.strip()
    support.skip(f"private namespaces are not permitted here ({reason})")


def installed_places():
    """(folder of the configuration, folder of the passes) that the build has compiled in."""
    with open(support.BUILD / "meson-info" / "intro-buildoptions.json") as file:
        options = {option["name"]: option["value"] for option in json.load(file)}
    prefix = Path(options["prefix"])
    return prefix / options["sysconfdir"] / "mvld", prefix / options["libdir"] / "mvld" / "passes"


def known_passes():
    """The passes of this build, without the example: name -> file."""
    files = sorted((support.BUILD / "passes").glob("*/*.so"))
    return {f.stem: f for f in files if f.parent.name == f.stem and f.stem != "example"}


def copy_passes(target, passes):
    """The passes and the libraries that they bring, as an installation has them."""
    for name in passes:
        file = known_passes().get(name)
        support.check(file, f"the pass {name} was not built")
        shutil.copy2(file, target)
        for library in file.parent.glob("lib*.so.*"):
            if library.is_file():
                shutil.copy2(library, target)


# With this word in a pipeline programs are unchanged, and `mvld run` starts those of a case.
RUN = "run"
# What these words in a pipeline add: the first start of a program leaves a snapshot; with "learnt"
# each start adds what it has loaded to it.
SNAPSHOT, LEARNT = "snapshot", "learnt"
ON_MISS = {SNAPSHOT: "on-miss = build\n", LEARNT: "on-miss = learn\n"}
CACHE = Path("/var/cache/mvld")


def analyses(folder):
    """The analyses of everything that is installed, made once: a pass that reads them does
    nothing without."""
    if not folder.exists():
        print("analysing the programs and libraries of this machine", flush=True)
        done = analyse(folder, ["--all"])
        support.check(folder.exists(), f"mvld analyze --all: {done.stdout}{done.stderr}")
    return folder


def analyse(folder, arguments):
    return subprocess.run([support.BUILD / "tools" / "mvld", "analyze", "--output", folder,
                           *arguments], capture_output=True, text=True, timeout=1800)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@dataclass
class Result:
    """What a case gave.  `state`: equal, different, scatters (two plain runs differ, too),
    broken (plainly, too) or absent."""
    state: str
    detail: str = ""
    lines: int = 0
    status: object = None
    plain_status: object = None
    started: list = field(default_factory=list)
    transformed: list = field(default_factory=list)
    seconds: float = 0


def is_file_of(name, file):
    """Whether a program of this name was executed from its own file, or from that of a script's interpreter.  In a chroot
    a path of another mount namespace begins at the file system's root."""
    program = shutil.which(name, path=PATH)
    return not program or not is_elf(program) or file.endswith(os.path.realpath(program))


def difference(one, other, *names):
    lines = list(difflib.unified_diff(one.splitlines(), other.splitlines(), *names, lineterm="",
                                      n=1))
    return "\n".join(line[:400] for line in lines[:60]) + "\n"


class Plain:
    """The runs without mvld; their results serve every configuration."""

    def __init__(self, scratch, analysis):
        self.scratch, self.analysis = scratch, analysis
        for name in ("overlay", "home", "tmp", "work"):
            (scratch / name).mkdir(exist_ok=True)
        self.unshare, self.options, self.user_namespace = namespace()
        self.is_root = os.geteuid() == 0 and not self.user_namespace
        self.environment = {
            "HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp"), "LC_ALL": "C.UTF-8",
            "TZ": "UTC", "PATH": PATH, "USER": "root", "LOGNAME": "root", "TERM": "vt100"}
        self.done, self.made = {}, {}

    def command(self, binds=()):
        pairs = [f"{where}={what}" for where, what in binds]
        return [*self.unshare, "sh", "-c", SETUP, "setup", str(self.scratch), self.options,
                *pairs, "--"]

    def shell(self, script, binds=(), timeout=60, made=None, path=""):
        """(output, status) of a shell script in fresh folders."""
        for name in ("home", "tmp", "work"):
            shutil.rmtree(self.scratch / name, ignore_errors=True)
            (self.scratch / name).mkdir()
        if path:
            script = f"PATH={path}; export PATH; {script}"
        process = subprocess.Popen([*self.command(binds), "sh", "-c", script],
                                   cwd=self.scratch / "work",
                                   env={**self.environment, "MADE": str(made or "")},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            status = f"none after {timeout} s"
        return output.decode(errors="replace"), status

    def run(self, case, binds=(), path=""):
        output, status = self.shell("set -u\n" + case.script, binds, case.timeout,
                                    self.scratch / "made" / case.name, path)
        for pattern, replacement in case.normalise:
            output = re.sub(pattern, replacement, output, flags=re.M)
        return output, status

    def make(self, case):
        """What the case wants made before its first run; the error, or ""."""
        folder = self.scratch / "made" / case.name
        folder.mkdir(parents=True)
        output, status = self.shell("set -eu; cd $MADE\n" + case.make, (), 1800, folder)
        if status != 0:
            return f"what it needs cannot be made: {output.strip()[-300:]}"
        files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
        done = analyse(analyses(self.analysis), sorted(filter(is_elf, files)))
        # Some of a wheel have no build-id, and are left plain.
        support.check("proven" in done.stdout, f"mvld analyze: {done.stdout}{done.stderr}")
        return ""

    def plain(self, case):
        """The plain run, once a case; its output, status, and what is wrong with it."""
        if case.name not in self.done:
            output, status = self.run(case)
            missing = [text for text in case.expect if text not in output]
            wrong = ""
            if status != 0 or missing:
                wrong = f"the plain run is broken: status {status}, without {missing}\n{output}"
            self.done[case.name] = output, status, wrong
        return self.done[case.name]

    def absent(self, case):
        """Why the case cannot run here, or ""."""
        lacking = [name for name in case.needs
                   if not (os.path.exists(name) if "/" in name else shutil.which(name, path=PATH))]
        if lacking:
            return f"not installed: {' '.join(lacking)}"
        if case.root and not self.is_root:
            return "needs root"
        if case.probe:
            output, status = self.shell(case.probe)
            if status != 0:
                lines = output.strip().splitlines() or ["the machine does not permit it"]
                return lines[-1]
        if case.make and case.name not in self.made:
            self.made[case.name] = self.make(case)
        return self.made.get(case.name, "")


class Harness:
    """One configuration: a pipeline for every program, or none."""

    def __init__(self, plain, passes=(), rounds=1):
        self.plain = plain
        self.by_run, passes = RUN in passes, tuple(name for name in passes if name != RUN)
        self.passes = tuple(name for name in passes if name not in ON_MISS)
        self.rounds, self.images = rounds, len(self.passes) < len(passes)
        self.folder = plain.scratch / ("mvld-" + "run-" * self.by_run + ("+".join(passes) or "none"))
        self.loader = self.folder / "lib64" / LOADER_NAME
        for name in ("lib64", "etc", "passes", "cache/snapshots", "cache/analysis"):
            (self.folder / name).mkdir(parents=True)
        self.copy_loader(self.folder / "lib64")
        copy_passes(self.folder / "passes", self.passes)
        configuration, pass_folder = installed_places()
        if self.passes:
            support.configure(self.folder / "etc",
                f"[app]\nmatch = *\npasses = {', '.join(self.passes)}\n"
                + "".join(ON_MISS.get(word, "") for word in passes)
                + support.COPY * ("concat" in passes), configuration if self.by_run else None)
        self.binds = [(configuration, self.folder / "etc"), (pass_folder, self.folder / "passes"),
                      (CACHE, self.folder / "cache")]
        if "direct-calls" in self.passes:
            self.binds += [(CACHE / "analysis", analyses(plain.analysis))]
        # Last: from here on the mount commands, too, run under mvld.
        if not self.by_run:
            self.binds += [(LOADER_FOLDER, self.folder / "lib64")]
        files = [self.folder / "passes" / f"{name}.so" for name in self.passes]
        try:
            self.witness = Witness(self.loader, files, self.folder / "cache" / "snapshots", self.by_run)
            self.blind = ""
        except OSError as error:
            self.witness, self.blind = None, str(error)

    def copy_loader(self, target):
        """The loader's folder, in which mvld has the loader's name and the host loader lies
        beside it under the name that mvld looks for first."""
        for entry in LOADER_FOLDER.iterdir():
            if entry.name != LOADER_NAME:
                shutil.copy2(entry, target / entry.name, follow_symlinks=False)
        shutil.copy2(support.LOADER, target / LOADER_NAME)
        shutil.copy2(support.HOST_LOADER, target / (LOADER_NAME + ".host"))

    def check_in_place(self):
        """A stock program's own map must show both loaders, else nothing is tested."""
        if self.by_run:
            maps, status = self.plain.shell("readlink /proc/self/exe", self.binds, path=self.wrap(["readlink"]))
            support.check((maps, status) == (os.path.realpath("/usr/bin/readlink") + "\n", 0), f"readlink by `mvld run': {maps}")
            return
        maps, status = self.plain.shell("cat /proc/self/maps", self.binds)
        inode = str(self.loader.stat().st_ino)
        ours = [line for line in maps.splitlines() if line.split()[4:5] == [inode]]
        host = [line for line in maps.splitlines() if line.endswith(LOADER_NAME + ".host")]
        support.check(status == 0 and ours and host,
                      f"cat does not run under mvld (status {status}):\n{maps}")
        pipeline, _ = self.plain.shell("env -i MVLD_DEBUG=passes cat /dev/null", self.binds)
        for name in self.passes:
            support.check(f"{name}" in pipeline and "untransformed" not in pipeline,
                          f"the pipeline of cat is not {self.passes}:\n{pipeline}")
        if "direct-calls" in self.passes:
            support.check(re.search(r": [1-9]\d* of \d+ sites made direct", pipeline) or
                          "its work is in the snapshot" in pipeline, f"no call is direct:\n{pipeline}")
        if "concat" in self.passes:
            support.check(re.search(r"concat: [1-9]\d* objects", pipeline) or
                          "pass concat: its work is in the snapshot" in pipeline, f"no moved code:\n{pipeline}")
        if "multiverse" in self.passes:
            ask = "import ctypes; print(ctypes.CDLL(None).multiverse_commit())"
            answer, _ = self.plain.shell(f"/usr/bin/python3 -c '{ask}'", self.binds)
            support.check(answer == "0\n", f"python has no multiverse run time:\n{answer}")

    def wrap(self, names):
        """PATH with a folder in which each of these programs is a script that runs it by `mvld run`, with the PATH
        that it has plainly (gcc looks there for itself), and notes that."""
        folder, mvld = self.folder / "bin", self.folder / "mvld"  # that of the build has passes beside it
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy2(support.BUILD / "tools" / "mvld", mvld)
        for name in names:
            program = "/" not in name and shutil.which(name, path=PATH)
            if program and not os.stat(program).st_mode & 0o6000:
                called = f"--argv0 {name} " if is_elf(program) else ""
                (folder / name).write_text(f'#!/bin/sh\ntest -e {folder}/.{name} || : > {folder}/.{name}\nPATH=${{PATH#{folder}:}}\n'
                                           f'exec {mvld} run --loader {self.loader} {called}-- {program} "$@"\n')
                (folder / name).chmod(0o755)
        folder.chmod(0o777)
        return f"{folder}:{PATH}"

    def unseen(self, case, number, started, opened):
        """What the witness misses: mvld was not there, and the comparison says nothing."""
        if not self.witness:
            return ""
        wanted = case.must_be_seen()
        if self.by_run:
            wanted = [file.name[1:] for file in (self.folder / "bin").glob(".*") if is_elf(shutil.which(file.name[1:], path=PATH))]
        missing = [name for name in wanted if not {name, f"x86_64-linux-gnu-{name}"} & set(started)]
        if missing:
            return f"not started with mvld: {' '.join(missing)}; were: {' '.join(started)}"
        other = [name for name, file in self.witness.files_of.items() if self.by_run and not is_file_of(name, file)]
        if other:
            return f"/proc/self/exe is another one: {other}"
        elsewhere = [*case.elsewhere, *(case.filtered if self.by_run else ())]  # these run the loader's file
        for name in self.passes:
            having = {program for file, program in opened if file in (name + ".so", IMAGE)}
            missing = [program for program in wanted
                       if program not in having and program not in elsewhere]
            if missing:
                return f"without the pass {name}: {' '.join(missing)}"
        having = {program for file, program in opened if file == IMAGE}
        missing = [program for program in wanted
                   if program not in having and program not in elsewhere]
        if self.images and number > 1 and missing and not case.other_user:
            return f"no snapshot was opened: {' '.join(missing)}"
        return ""

    def compare(self, case):
        reason = self.plain.absent(case)
        if reason:
            return Result("absent", reason)
        output, plain_status, wrong = self.plain.plain(case)
        if wrong:
            return Result("broken", wrong, plain_status=plain_status)
        for number in range(1, self.rounds + 1):
            result = self.once(case, number, output, plain_status)
            if result.state != "equal":
                return replace(result, detail=f"run {number} of {self.rounds}: {result.detail}")
        return result

    def once(self, case, number, output, plain_status):
        if self.witness:
            self.witness.forget()
        if self.by_run:
            got, status = self.plain.run(case, self.binds, self.wrap({*case.needs, *case.must_be_seen()}))
            got = got.replace(str(self.folder / "bin"), "/usr/bin")
        else:
            got, status = self.plain.run(case, self.binds)
        started = list(self.witness.started) if self.witness else []
        for name in case.filtered if self.by_run else ():
            got, said = re.subn(rf"^mvld run: \S+/{name}: started as with --direct: .*\n", "", got, flags=re.M)
            started += [name] * said
        opened = list(self.witness.opened) if self.witness else []
        result = Result("equal", "", output.count("\n"), status, plain_status, started,
                        [program for _, program in opened])
        unseen = self.unseen(case, number, started, opened)
        if (got, status) == (output, plain_status):
            return replace(result, state="different", detail=unseen) if unseen else result
        again = self.plain.run(case)
        result.state = ("scatters" if not unseen and scatters(case, (output, plain_status), again,
                                                              (got, status)) else "different")
        result.detail = (f"status {status}, plain {plain_status}, once more {again[1]}\n{unseen}\n"
                         + difference(output, got, "plain", "under mvld")
                         + difference(output, again[0], "plain", "plain, once more"))
        return result


def scatters(case, plain, again, got):
    """Is it the case that is not deterministic?  Two plain runs must differ, and the one under
    mvld must still say what it ought to and end as one of them did; else it may be mvld."""
    return (again != plain and got[1] in (plain[1], again[1])
            and all(text in got[0] for text in case.expect))
