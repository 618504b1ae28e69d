#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme_example.py README: the "Five minutes" of README.md, as printed there.

Takes program, commands and configuration out of the text and runs them in a folder
with a `build` and an `include` as in the checkout.  A failure means that the first
thing that a newcomer tries does not do what README.md says.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402
from support import check  # noqa: E402

PLAIN = ["hey Ada", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]
COMMITTED = ["Good morning, Ada.", "Good morning, Ada.", "Good morning, Ada.", "hey Ada"]


def block(text, language):
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    check(found, f"README has no {language or 'plain'} block any more")
    return found[1]


def commands(text):
    """The lines after `$ `, with continuations."""
    joined = text.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def main():
    support.need(support.PLUGIN, support.LIBRARY)
    text = Path(sys.argv[1]).read_text()
    text = text[text.index("## Five minutes"):]
    with support.scratch_folder() as folder:
        (folder / "build").symlink_to(support.BUILD)
        (folder / "include").symlink_to(support.SOURCE / "include")
        (folder / "hello.c").write_text(block(text, "c"))

        def shell(command, config=None):
            # MVLD_PASS_PATH is not set for a reader of README either.
            here = f'cd "{folder}" && {command}'
            done = support.run(["env", "-u", "MVLD_PASS_PATH", "sh", "-c", here],
                               config=config)
            check(done.returncode == 0 and not done.stderr,
                  f"$ {command}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout.splitlines()

        printed = commands(re.search(r"^```\n(\$ gcc .*?)^```$", text, re.M | re.S)[1])
        said = {line.split()[0] + " " + line.split()[1]: shell(line) for line in printed}
        check(len(said) == 5, f"README has other commands: {printed}")
        check(said["gcc -O2"] == [], "the compiler says something")
        check(said["./hello #"] == PLAIN, f"./hello says {said['./hello #']}")
        check(said["build/tools/mvld run"] == COMMITTED, f"{said['build/tools/mvld run']}")
        show = "\n".join(said["build/tools/mvld show"])
        check("switch polite" in show and "call site" in show and "polite_1" in show, show)

        # The configuration file, and our loader for good: for this hello.
        config = block(text, "ini").replace("/usr/local/bin/hello", f"{folder}/hello")
        check(f"match = {folder}/hello" in config, "README's configuration names another program")
        line = re.search(r"`(mvld set-interp) /usr/local/bin/hello` \(`--restore`", text)
        check(line, "README says set-interp otherwise")
        pipeline = shell(next(c for c in printed if "mvld pipeline" in c), config)
        check(any("set.polite = 1" in line for line in pipeline), "\n".join(pipeline))
        shell(f"build/tools/{line[1]} hello")
        check(shell("MVLD_PASS_PATH=$PWD/build/passes/multiverse ./hello", config) == COMMITTED,
              "the configuration does not commit")
        check(shell("MVLD=off ./hello", config) == PLAIN, "MVLD=off does not switch off")
        shell(f"build/tools/{line[1]} --restore hello")
        check(shell("./hello", config) == PLAIN, "--restore does not restore")


main()
