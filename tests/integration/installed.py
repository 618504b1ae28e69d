#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""installed.py SOURCE PREFIX LIBDIR SYSCONFDIR PLUGIN_DIR: what `meson install` leaves
works by itself.

Installs into a scratch folder, lays that over this machine in a private mount
namespace, hides checkout and build there, and goes the way of a user: pkg-config,
the plugin by its short name, `mvld run`, a configuration file, `mvld set-interp`.
A failure means: a file lies in a wrong folder, or something installed still looks
into the build tree.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from installation import did, in_namespace, install, support
from support import check

PROGRAM = r"""
#include <multiverse.h>
#include <stdio.h>
__attribute__((multiverse)) int mode;
__attribute__((multiverse)) void say(void) { puts(mode ? "one" : "zero"); }
__attribute__((constructor)) static void early(void) { say(); }
int main(void)
{
    say();
    mode = 1;
    printf("%d\n", multiverse_commit());
    mode = 0;
    say();
    return 0;
}
"""
STATIC = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    puts(dlopen("libm.so.6", RTLD_NOW) ? "opened" : dlerror());
    return 0;
}
"""
UNCOMMITTED = "zero\nzero\n1\none\n"
COMMITTED = "one\none\n0\none\n"
CONFIGURATION = """[app]
match = {program}
passes = multiverse
[multiverse]
set.mode = 1
"""


def equal(found, expected, what):
    check(found == expected, f"{what}: it says\n{found}instead of\n{expected}")


def use(source, prefix, libdir, sysconfdir, plugin_dir, folder):
    """In the namespace: all of it as a user would."""
    destination = install(folder)
    with_plugin = support.PLUGIN.exists()
    for path in [f"{prefix}/bin/mvld", f"{prefix}/include/multiverse.h",
                 f"{prefix}/include/mvld/pass.h", f"{prefix}/include/mvld/descriptor.h",
                 f"{libdir}/mvld/ld-mvld.so.1", f"{libdir}/libmultiverse.so.1",
                 f"{libdir}/libconcat.so.1",
                 f"{libdir}/mvld/passes/multiverse.so", f"{libdir}/mvld/passes/count.so",
                 f"{prefix}/share/man/man1/mvld.1",
                 f"{prefix}/share/man/man3/multiverse.3", f"{prefix}/share/doc/mvld/LICENSE",
                 f"{prefix}/share/bash-completion/completions/mvld", f"{prefix}/share/zsh/site-functions/_mvld",
                 f"{prefix}/share/fish/vendor_completions.d/mvld.fish"] + \
            [f"{plugin_dir}/multiverse.so", f"{prefix}/share/doc/mvld/gcc-plugin/COPYING"] * with_plugin:
        check(Path(f"{destination}{path}").exists(), f"{path} is not installed")
    mine = destination / sysconfdir[1:] / "mvld"
    check(sorted(mine.rglob("*")) == [mine / "apps.d", mine / "apps.d/README"], f"a file that users change is installed: {list(mine.rglob('*'))}")
    for hidden in support.BUILD, source:
        if hidden.exists():
            subprocess.run(["mount", "-t", "tmpfs", "none", str(hidden)], check=True)
    os.chdir(folder)
    done = subprocess.run(["ldconfig"], capture_output=True, text=True)
    check(not done.returncode and "ld-linux" not in done.stderr, f"ldconfig: {done}")
    # What is linked statically loads libraries by what ldconfig has found.
    subprocess.run([support.CC, "-static", "-o", "static", "-x", "c", "-"], input=STATIC, text=True, check=True)
    equal(did(["./static"]), "opened\n", "a static program that opens a library")

    mvld = f"{prefix}/bin/mvld"
    if shutil.which("systemd-analyze") and prefix in ("/usr", "/usr/local"):  # where systemd looks
        did(["systemd-analyze", "verify", "--man=no",
             *(f"{prefix}/lib/systemd/system/mvld-renew.{kind}" for kind in ("path", "service"))])
    listed = did([mvld, "passes"])
    check("count: " in listed and "multiverse: " in listed, f"mvld passes says\n{listed}")
    equal(did([f"{libdir}/mvld/ld-mvld.so.1", "/bin/echo", "direct"]), "direct\n", "direct mode")
    if not with_plugin:
        return
    Path("program.c").write_text(PROGRAM)
    flags = did(["pkg-config", "--cflags", "--libs", "multiverse"]).split()
    by_name = did(["pkg-config", "--variable=plugin", "multiverse"]).strip()
    equal(by_name, f"{plugin_dir}/multiverse.so", "the plugin in multiverse.pc")
    by_name = "multiverse" if prefix == "/usr" else by_name
    did([support.CC, "-O2", f"-fplugin={by_name}", "program.c", *flags, "-o", "program"])
    program = folder / "program"
    equal(did([program]), UNCOMMITTED, "under the plain ld.so")
    equal(did([mvld, "run", "--set", "mode=1", "--", program]), COMMITTED, "mvld run")
    # The first word of what set-interp, and what the configuration, make of it.
    Path(f"{sysconfdir}/mvld/apps.d/program.conf").write_text(
        CONFIGURATION.format(program=program))
    equal(did([mvld, "config"]), f"{sysconfdir}/mvld/config.cache: 1 [app] of 1 files\n", "mvld config")
    check("set.mode = 1" in did([mvld, "pipeline", program]), "mvld pipeline")
    equal(did([program]), UNCOMMITTED, "another loader than ours")
    did([mvld, "set-interp", program])
    equal(did([program]), COMMITTED, "after mvld set-interp")
    equal(did([mvld, "status"]), f"{program}: set-interp, no snapshot: its passes run at each start\n", "nothing is wrong")
    did([mvld, "set-interp", "--restore", program])
    equal(did([program]), UNCOMMITTED, "after mvld set-interp --restore")
    musl = Path(libdir) / "mvld" / "musl" / "libmultiverse.so.1"
    if musl.exists():
        did(["musl-gcc", "-O2", f"-fplugin={by_name}", "program.c", "-idirafter", f"{prefix}/include",
             musl, f"-Wl,-rpath,{musl.parent}", "-o", "musl-program"])
        program = folder / "musl-program"
        equal(did([program]), UNCOMMITTED, "under musl's loader")
        equal(did([mvld, "run", "--set", "mode=1", "--", program]), COMMITTED, "musl, mvld run")
        check(str(musl) in did([mvld, "pipeline", "--pass", "multiverse", program]), "its library")


source, prefix, libdir, sysconfdir, plugin_dir = sys.argv[1:6]
sys.exit(in_namespace(lambda folder: use(Path(source), prefix, libdir, sysconfdir, plugin_dir, folder)))
