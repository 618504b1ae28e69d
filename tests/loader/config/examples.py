# SPDX-License-Identifier: MIT
"""The files in config/ do what they say.

A failure means: a user who copies an example gets an error, or another pipeline
than the example promises.

Arguments: plan, the folder config/, and the folders of the passes.
"""
import os
import pathlib
import re
import subprocess
import sys

plan, config, *folders = sys.argv[1:]
config = pathlib.Path(config)
EXPECT = {
    "redis.conf": ("/usr/bin/redis-server", "passes = multiverse"),
    "by-build-id.conf": ("/bin/true", "nothing"),
    "concat.conf": ("/usr/bin/git", "order = as-loaded"),
    "direct-calls.conf": ("/usr/bin/python3", "rewritable = direct"),
    "off.conf": ("/usr/lib/firefox/firefox", "nothing"),
    "count.conf": ("/bin/true", "note.reason = trying it out; once"),
}


def planned(file, program):
    env = {"MVLD_CONFIG": str(file), "MVLD_PASS_PATH": ":".join(folders)}
    run = subprocess.run([plan, program], env=env, capture_output=True, text=True, timeout=10)
    if run.returncode not in (0, 3):
        sys.exit(f"{file.name}: {run.stdout}{run.stderr}")
    return run.stdout


found = {path.name for path in (config / "examples").iterdir()}
if found != set(EXPECT):
    sys.exit(f"examples without an expectation, or the reverse: {found ^ set(EXPECT)}")
for name, (program, want) in EXPECT.items():
    text = planned(config / "examples" / name, program)
    if want not in text:
        sys.exit(f"{name} for {program}: no '{want}' in\n{text}")

# The README's own example, and each sentence's shape.
block = re.search(r"```ini\n(.*?)```", (config / "README.md").read_text(), re.S).group(1)
own = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"mvld-readme-{os.getpid()}.conf"
own.write_text(block)
try:
    if "passes = multiverse" not in planned(own, "/usr/bin/redis-server"):
        sys.exit("the README's example does not ask for multiverse")
finally:
    own.unlink()
