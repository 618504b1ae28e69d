# SPDX-License-Identifier: MIT
"""The pipeline in a real program: passes run before constructors, hear of dlopen
and dlclose, a failing one stops neither the others nor the program, and what is
configured wrongly leaves the program as it was.

A failure means: the pass manager and stage 0 do not understand each other.

Arguments: ld-mvld.so, the folder of the probes.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

loader, folder = map(os.path.abspath, sys.argv[1:])
passes = pathlib.Path(folder)
cache = tempfile.TemporaryDirectory(prefix="mvld-cache-")


def run(tunables, times=0, debug=""):
    env = {"PATH": os.environ["PATH"], "MVLD_DEBUG": "passes,statistics" + debug,
           "MVLD_PASS_PATH": folder, "MVLD_TUNABLES": tunables, "XDG_CACHE_HOME": cache.name}
    done = subprocess.run([loader, str(passes / "load"), str(passes / "bad_none.so"), str(times)],
                          env=env, capture_output=True, text=True, timeout=30)
    if done.returncode or done.stdout != "done\n":
        sys.exit(f"{tunables}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def expect(log, *lines):
    at = 0
    for line in lines:
        found = log.find(line, at)
        if found < 0:
            sys.exit(f"'{line}' is missing, or not in order, in\n{log}")
        at = found + len(line)


log = run("app.passes=first,second:second.set.colour=red", times=2)
expect(log, "first.number = 7", "second.set.colour = red", "time in second:",
       "first added 1 after 1", "second added 1 after 1", "second removed 1", "first removed 1",
       "first added 1 after 1", "second removed 1")
expect(run("app.passes=failing,second", times=1),
       "the pass 'failing' failed (error 5): failing does not want to", "second.flag", "second added 1")
expect(run("app.passes=positive,second", times=1),
       "the pass 'positive' failed (error 71): positive: run gave 5", "second.flag", "second added 1")
for tunables, sentence in {
        "app.passes=first,first": "the pass 'first' is in the pipeline twice",
        "app.passes=first:first.number=x": "first.number is a number, not 'x'",
        "app.passes=nowhere": "there is no pass 'nowhere'",
        "nonsense": "'nonsense' is not pass.option=value"}.items():
    log = run(tunables, times=1)
    expect(log, f"mvld: MVLD_TUNABLES: {sentence}", "the program runs untransformed")
    if "added" in log:
        sys.exit(f"{tunables}: a pass ran\n{log}")

# A pass that runs behind others is moved there, and no further; the rest stays as it was said.
for said, runs in {
        "first,behind-first": "first,behind-first",
        "behind-first,first": "first,behind-first",
        "behind-first,second": "behind-first,second",
        "behind-first,idle,first,second": "first,behind-first,second",
        "behind-first,first,second": "first,behind-first,second",
        "behind-both,behind-first,first": "first,behind-first,behind-both",
        "behind-both,first,second,behind-first": "first,second,behind-first,behind-both"}.items():
    log = run(f"app.passes={said}", times=1)
    done = re.findall(r"(\S+)\.flag = ", log)
    if done != runs.split(","):
        sys.exit(f"app.passes={said}: {done}\n{log}")
expect(run("app.passes=behind-first,first"), "the pass 'behind-first' runs behind 'first'")
expect(run("app.passes=square,first,circle"), "each run behind the other", "the program runs untransformed")

# A pass that has nothing to do with its options is as good as not there: its library is not looked for
# (it has one that would be refused), and it is never called.
log = run("app.passes=idle,second", times=1)
expect(log, "; nothing to do: its flag says so", "idle: its flag says so", "second.flag",
       "time in idle: nothing to do", "second added 1 after 1", "second removed 1")
if "idle.flag" in log:
    sys.exit(f"an idle pass was called\n{log}")
log = run("app.passes=idle", times=1)
expect(log, "idle: its flag says so")
# Nor is its work that of a snapshot: none would ever be there.
log = run("app.passes=idle,second:app.on-miss=build", debug=",files")
expect(log, "second.flag")
if list(pathlib.Path(cache.name).rglob("manifest")):
    sys.exit(f"a snapshot holds the work of no pass\n{log}")
expect(run("app.passes=idle,second:idle.flag=no"), "is neither a name nor an absolute path",
       "the program runs untransformed")

# A program is known by its real path, by a link to it, and by a script that it runs.
if not shutil.which("patchelf"):
    print("no patchelf: programs are not matched by their paths here")
    sys.exit(0)
with tempfile.TemporaryDirectory(prefix="mvld-match-") as name:
    home = pathlib.Path(name).resolve()
    shutil.copy("/bin/sh", home / "real-sh")
    subprocess.run(["patchelf", "--set-interpreter", loader, home / "real-sh"], check=True)
    (home / "my-sh").symlink_to("real-sh")
    (home / "script").write_text(f"#!{home}/my-sh\necho done\n")
    os.chmod(home / "script", 0o755)
    env = {"PATH": f"{home}:{os.environ['PATH']}", "MVLD_DEBUG": "passes",
           "MVLD_PASS_PATH": folder, "MVLD_CONFIG": str(home / "conf")}
    for match, command, runs in (
            (home / "real-sh", "my-sh -c 'echo done'", True),
            (home / "my-sh", "my-sh -c 'echo done'", True),
            ("my-sh", "my-sh -c 'echo done'", True),
            (home / "my-sh", "real-sh -c 'echo done'", False),
            (home / "script", "script", True),
            ("script", "script", True),
            ("script", "my-sh -c 'echo done'", False)):
        (home / "conf").write_text(f"[app]\nmatch = {match}\npasses = first\n")
        done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, text=True,
                              timeout=30)
        if done.stdout != "done\n" or ("first.flag" in done.stderr) != runs:
            sys.exit(f"match = {match}, {command}: {done.stdout}{done.stderr}")
