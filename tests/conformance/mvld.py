# SPDX-License-Identifier: MIT
"""mvld as the conformance tests need it: built to wrap the ld.so of the glibc at hand and to
read a configuration of its own, so that nothing in a test's environment need say so."""
import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import support
from glibc import say

SOURCE = Path(__file__).resolve().parent.parent.parent


class Mvld:
    def __init__(self, glibc):
        self.glibc = glibc
        self.build, self.prefix, self.etc = (glibc.cache / d for d in ("mvld", "prefix", "etc"))
        self.passes, self.loader, self.command, self.key = {}, None, None, None

    def configure(self):
        if (self.build / "build.ninja").exists():
            info = json.loads((self.build / "meson-info" / "meson-info.json").read_text())
            if info["directories"]["source"] == str(SOURCE):
                return
            shutil.rmtree(self.build) # another checkout's, which may be gone
        say("Configuring mvld for it")
        options = {"host_loader": self.glibc.kept_loader,
                   "host_loader_diverted": self.glibc.kept_loader,
                   "plugin": "disabled", "sysconfdir": self.etc}
        self.glibc.logged("mvld-setup", ["meson", "setup", str(self.build), str(SOURCE),
                                         f"--prefix={self.prefix}",
                                         *(f"-D{k}={v}" for k, v in options.items())])

    def make(self):
        self.configure()
        say("Building mvld")
        self.glibc.logged("mvld-build", ["ninja", "-C", str(self.build), "product"])
        self.glibc.logged("mvld-install", ["meson", "install", "-C", str(self.build), "--no-rebuild"])
        self.command = self.prefix / "bin" / "mvld"
        self.loader, = self.prefix.rglob("ld-mvld.so.1")
        self.passes = {path.stem: path for path in sorted(self.prefix.rglob("mvld/passes/*.so"))}
        digest = hashlib.sha256()
        for path in self.loader, *self.passes.values(), *sorted(self.prefix.rglob("lib*.so.1")):
            digest.update(path.read_bytes())
        self.key = digest.hexdigest()

    def analyze(self, objects):
        """For passes that change code.  The loader looks below XDG_CACHE_HOME."""
        say(f"Analysing {len(objects)} objects, where they have changed")
        folder = Path(self.glibc.environment["XDG_CACHE_HOME"]) / "mvld" / "analysis"
        self.glibc.logged("analyze", ["nice", str(self.command), "analyze",
                                      f"--jobs={self.glibc.jobs}", f"--output={folder}",
                                      *map(str, objects)],
                          may_fail=True) # a few objects hold no code
        if not any(folder.glob("*/*.mvld")):
            sys.exit(f"no object could be analysed; see {self.glibc.logs}/analyze.log")

    @contextlib.contextmanager
    def in_place(self, passes):
        """mvld is the loader of the built glibc, and every program gets these passes."""
        config = self.etc / "mvld"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.cache").unlink(missing_ok=True)
        if passes:
            support.configure(config, f"[app]\nmatch = *\npasses = {', '.join(passes)}\n"
                              + support.COPY * ("concat" in passes))
        self.glibc.exchange_loader(self.loader)
        try:
            self.check(passes)
            yield
        finally:
            self.glibc.restore_loader()

    def check(self, passes):
        """A program with that interpreter must run under mvld with these passes."""
        program = self.glibc.build / "support" / "true-container"
        if not program.exists():
            sys.exit(f"{program} was not built")
        for command in ([program], [self.glibc.loader, program]):
            done = subprocess.run(command, capture_output=True, text=True, env={
                "MVLD_DEBUG": "files,passes", "LD_LIBRARY_PATH": str(self.glibc.build)})
            if (str(self.glibc.kept_loader) not in done.stderr
                    or any(word in done.stderr for word in ("untransformed", "; nothing to do"))
                    or not all(name in done.stderr for name in passes)):
                sys.exit(f"{program} does not run under mvld with {', '.join(passes) or 'no pass'}:"
                         f"\n{done.stderr}")
