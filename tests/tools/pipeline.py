# SPDX-License-Identifier: MIT
"""`mvld pipeline` says what would run in a program and which line says so; what it
prints can be read back.

A failure means that it differs from what the loader does.
"""
import json
import re
import sys
from pathlib import Path

from support import contains, equal, finish, run, scratch

mvld = sys.argv[1]


def pipeline(*arguments, env):
    return run(mvld, "pipeline", *arguments, env=env)


with scratch() as folder:
    folder = Path(folder)
    quiet = {"XDG_CONFIG_HOME": str(folder / "none")}
    code, out, err = pipeline("true", env=quiet)
    equal((code, err), (0, ""), "nothing configured")
    contains(out, "; no pipeline is configured for ", "nothing configured")

    apps = folder / "mvld" / "apps.d"
    apps.mkdir(parents=True)
    config = apps / "true.conf"
    env = {"XDG_CONFIG_HOME": str(folder)}

    def configure(text):
        config.write_text(text)
        equal(run(mvld, "config", "--user", env=env)[0::2], (0, ""), "mvld config")

    configure("[app]\nmatch = false, true\npasses = count\nplacement = as-is\n"
              "; a comment\n[count]\nprefix = here\n")
    code, out, err = pipeline("true", env=env)
    equal((code, err), (0, ""), "configured")
    contains(out, f"the [app] of {config}:1 matches by 'true'", "who says so")
    contains(out, f"passes = count ; {config}:3\n", "the passes")
    contains(out, f"prefix = here ; {config}:7\n", "an option")
    contains(out, "at-most = 100000 ; default\n", "a default")
    contains(out, "its interpreter is ", "how it comes to run")
    contains(out, "by what `mvld enable' makes", "how it comes to run")

    found = json.loads(pipeline("--json", "true", env=env)[1])
    equal((found["file"], found["line"], found["match"], found["placement"]),
          (str(config), 1, "true", "as-is"), "JSON: who says so")
    options = {o["name"]: o for o in found["passes"][0]["options"]}
    equal(options["prefix"], {"name": "prefix", "value": "here", "file": str(config), "line": 7},
          "JSON: an option")
    equal(options["names"]["file"], None, "JSON: a default")

    # The same through the printed text.
    again = folder / "again.conf"
    again.write_text(out)
    code, second, err = pipeline("--config", again, "true", env=quiet)
    equal((code, err), (0, ""), "read back")

    def plain(text):
        return [re.sub(" ;.*", "", line) for line in text.splitlines() if line[0] != ";"]
    equal(plain(second), plain(out), "what was printed means the same")

    # The loader says the same when it runs the program.
    code, _, log = run(mvld, "run", "--debug", "passes", "true", env=env)
    for line in plain(out):
        contains(log, line, "what the loader did")

    # By the path that it was called by, too: a symbolic link.
    link = folder / "link"
    link.symlink_to("/bin/true")
    configure(f"[app]\nmatch = {link}\npasses = count\n[count]\nprefix = linked\n")
    contains(pipeline(link, env=env)[1], f"matches by '{link}'", "through a link")
    contains(run(mvld, "run", "--debug", "passes", link, env=env)[2], "\tlinked ", "and it runs")
    configure("[app]\nmatch = true\npasses = count\n")

    # The command line wins over the file.
    code, out, err = pipeline("--option", "count.prefix=there", "true", env=env)
    contains(out, "prefix = there ; MVLD_TUNABLES", "--option")

    # Refusals name file and line.
    configure("[app]\nmatch = true\npasses = count, absent\n")
    code, out, err = pipeline("true", env=env)
    equal((code, out), (1, ""), "a pass that is not there")
    contains(err, f"mvld pipeline: {config}:3: there is no pass 'absent'", "file and line")
    code, out, err = pipeline("no-such-program", env=env)
    equal((code, err), (1, "mvld pipeline: no-such-program: No such file or directory\n"), "absent")
    equal(pipeline(env=env)[0], 2, "no program is wrong usage")
    contains(pipeline("--help", env=env)[1], "Usage: mvld pipeline", "--help")
finish()
