# SPDX-License-Identifier: MIT
"""glibc's source and its test suite, as Debian's package glibc-source has them.

The package holds one archive in which Debian's patches are already applied.  It
is unpacked and built below the cache folder, never installed, and its tests are
run by its own make rules, so that each test gets the arguments, environment and
checks that its authors gave it.

Two things differ from Debian's own build: the programs are linked with the built
ld.so as their interpreter (rtlddir), so that they can also be started by name,
and what no test here needs is left out.
"""
import fcntl
import fnmatch
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ARCHIVE_FOLDER = Path("/usr/src/glibc")

# Which tests of which folder: the loader's own, and what rests on it (TLS,
# unwinding, exit handlers of libraries, starting programs).  An empty list: all.
# Not those that only look at headers.
GROUPS = {
    "elf": [],
    "dlfcn": [],
    "nptl": ["tst-tls*", "tst-pt-tls*", "tst-dlsym*", "tst-stack4", "tst-unload", "tst-join7",
             "tst-atfork*", "tst-fini*", "tst-_res*", "tst-exec*",
             "tst-cleanup*", "tst-cancelx*", "tst-vfork*", "tst-fork*", "tst-audit*",
             "tst-stackguard*", "tst-create1", "tst-tsd*", "tst-execstack*"],
    "stdlib": ["tst-tls-atexit*", "test-dlclose-exit-race", "tst-makecontext*", "tst-atexit*",
               "tst-at_quick_exit*", "tst-quick_exit*", "test-atexit*", "test-at_quick_exit*",
               "test-cxa_atexit*"],
    "debug": ["tst-backtrace*"],
    "posix": ["tst-exec*", "tst-spawn*", "tst-vfork*"],
    "malloc": ["tst-interpose*"],
    "libio": ["tst-vtables*"],
    "gmon": ["tst-*"],
}

NOT_TESTED = ["check-installed-headers*", "check-wrapper-headers", "check-obsolete-constructs"]

CONFIGURE = ["--prefix=/usr", "--without-selinux", "--disable-crypt", "--disable-werror",
             "--disable-nscd", "--disable-profile", "--disable-mathvec",
             "--enable-stackguard-randomization", "--enable-stack-protector=strong",
             "CC=gcc -Wl,--hash-style=both", "CXX=g++ -Wl,--hash-style=both",
             "AUTOCONF=false", "MAKEINFO=:"]


def say(text):
    print(f"\033[1m==> {text}\033[0m", flush=True)


def package_version():
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "glibc-source"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


class Glibc:
    """One unpacked and built glibc below `cache`."""

    def __init__(self, cache, jobs):
        self.cache, self.jobs = cache, jobs
        archives = sorted(ARCHIVE_FOLDER.glob("glibc-*.tar.xz"))
        if not archives:
            sys.exit(f"{ARCHIVE_FOLDER}: no archive; is the package glibc-source installed?")
        self.archive = archives[-1]
        self.source = cache / self.archive.name[:-len(".tar.xz")]
        self.build = cache / "build"
        self.loader = self.build / "elf" / "ld.so"
        self.kept_loader = self.build / "elf" / "ld.so.host"
        self.logs = cache / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.environment = {"HOME": os.environ.get("HOME", "/"), "LC_ALL": "C",
                            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC",
                            "XDG_CACHE_HOME": str(cache / "xdg"), # for the analyses of objects
                            "TIMEOUTFACTOR": "10"} # of glibc's test driver: 200 s a test

    def lock(self):
        """One run at a time: the loader in the build folder is exchanged."""
        self._lock = open(self.cache / "lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {self.cache}")

    # ---- unpack, configure, build ----------------------------------------------------------

    def unpack(self):
        version = package_version()
        stamp = self.cache / "source.version"
        if stamp.exists() and stamp.read_text() == version:
            return
        say(f"Unpacking {self.archive} ({version})")
        for folder in (self.source, self.build, self.cache / "results"):
            shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["tar", "-xf", self.archive, "-C", self.cache], check=True)
        stamp.write_text(version)

    def logged(self, name, command, may_fail=False, **more):
        """Runs a long command with its output in a log file; the last lines on failure."""
        path = self.logs / f"{name}.log"
        with open(path, "wb") as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, env=self.environment, **more)
        if done.returncode and not may_fail:
            print("".join(path.read_text(errors="replace").splitlines(True)[-20:]), end="")
            sys.exit(f"{command[0]} failed; its output is in {path}")

    def make_library(self):
        self.restore_loader()
        if (self.build / "built").exists():
            return
        if not (self.build / "config.make").exists():
            say("Configuring glibc")
            self.build.mkdir(exist_ok=True)
            (self.build / "configparms").write_text(
                "CFLAGS = -O2 -g1 -pipe\n"
                "BASH := /bin/bash\n"
                "slibdir = /lib/x86_64-linux-gnu\n"
                "libdir = /usr/lib/x86_64-linux-gnu\n"
                f"rtlddir = {self.build}/elf\n")
            self.logged("configure", [str(self.source / "configure"), *CONFIGURE], cwd=self.build)
        say(f"Building glibc, about 6000 files (output in {self.logs}/build.log)")
        self.logged("build", ["nice", "make", f"-j{self.jobs}"], cwd=self.build)
        say("Installing it into the root of the tests that run in containers")
        self.logged("testroot", ["nice", "make", f"{self.build}/testroot.pristine/install.stamp"],
                    cwd=self.build)
        (self.build / "built").touch()

    # ---- tests ---------------------------------------------------------------------------------

    def make(self, folder, *arguments):
        return ["nice", "make", "-r", "-C", str(self.source / folder), "PARALLELMFLAGS=",
                f"subdir={folder}", "..=../", f"objdir={self.build}", *arguments]

    def tests_of(self, folder):
        """The names of a folder's tests, those made by rules of their own included."""
        show = ("$(foreach t,$(sort $(tests-expected) $(tests-special-notdir:.out=)),"
                "$(info test $t))")
        command = self.make(folder, "-s", f"--eval=mvld-list: ; @: {show}", "mvld-list")
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("test ")]
        if done.returncode or not names:
            sys.exit(f"{folder}: make does not tell its tests:\n{done.stderr}")

        def match(name, globs):
            return any(fnmatch.fnmatch(name, g) for g in globs)

        return [n for n in names if match(n, GROUPS[folder] or ["*"]) and not match(n, NOT_TESTED)]

    def objects(self):
        """The programs and libraries that were built."""
        found = []
        for folder in (self.build, *(d for d in self.build.iterdir() if d.is_dir())):
            for path in folder.iterdir():
                if path.is_symlink() or not path.is_file() or path.suffix in (".o", ".os", ".a"):
                    continue
                with open(path, "rb") as file:
                    head = file.read(20)
                if head[:4] == b"\x7fELF" and head[16] in (2, 3): # ET_EXEC, ET_DYN
                    found.append(path)
        return sorted(found)

    def outputs(self, test):
        return [self.build / f"{test}{suffix}" for suffix in (".out", ".test-result")]

    def result(self, test):
        """The word that evaluate-test.sh wrote, or what its absence means."""
        path = self.outputs(test)[1]
        try:
            return path.read_text().split(":")[0]
        except FileNotFoundError:
            return "NONE"

    def run(self, name, tests, variables=(), jobs=None, progress=True):
        """Runs tests ("folder/name") by their make rules; {test: word}."""
        start, seen = time.monotonic(), 0
        for test in tests:
            for path in self.outputs(test):
                path.unlink(missing_ok=True)
        for folder in GROUPS:
            mine = [t for t in tests if t.split("/")[0] == folder]
            if not mine:
                continue
            log = open(self.logs / f"{name}-{folder}.log", "ab")
            command = self.make(folder, "-k", f"-j{jobs or self.jobs}", *variables,
                                *(str(self.outputs(t)[0]) for t in mine))
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, env=self.environment,
                                       start_new_session=True)
            try:
                while True:
                    try:
                        process.wait(timeout=2)
                        break
                    except subprocess.TimeoutExpired:
                        pass
                    done = seen + sum(self.outputs(t)[1].exists() for t in mine)
                    if progress and sys.stdout.isatty():
                        print(f"\r    {done}/{len(tests)} {folder:<8}", end="", flush=True)
            finally: # Ctrl-C, too, ends what it started
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            seen += len(mine)
        if progress:
            print(("\r" if sys.stdout.isatty() else "") +
                  f"    {len(tests)} tests in {time.monotonic() - start:.0f} s        ", flush=True)
        return {t: self.result(t) for t in tests}

    def keep_outputs(self, tests, target):
        """Copies what the tests wrote, so that the next run does not lose it."""
        for test in tests:
            for path in self.outputs(test):
                if path.exists():
                    to = target / path.relative_to(self.build)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, to)

    # ---- the loader ------------------------------------------------------------------------

    def replace_loader(self, make):
        """Puts make(new path) in the place of both names of the built ld.so."""
        for name in ("ld.so", "ld-linux-x86-64.so.2"):
            new = self.loader.with_name(name + ".new")
            new.unlink(missing_ok=True)
            make(new)
            os.replace(new, self.loader.with_name(name))
            new.unlink(missing_ok=True) # two names of one file already: nothing was moved

    def restore_loader(self):
        """After a run that was killed, too."""
        if self.kept_loader.exists():
            self.replace_loader(lambda new: os.link(self.kept_loader, new))
            self.kept_loader.unlink()

    def exchange_loader(self, mvld):
        """mvld in the place of the built ld.so, which then lies beside it.  The time of
        the file stays, or make would link every test anew."""
        status = self.loader.stat()
        os.link(self.loader, self.kept_loader)

        def copy(new):
            shutil.copyfile(mvld, new)
            new.chmod(0o755)
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))

        self.replace_loader(copy)
