# SPDX-License-Identifier: MIT
"""`mvld doctor ANSWER_PROGRAM` says what the next start of a program does: what MVLD_DEBUG says of one start is the
expectation.

A failure means that it sends somebody who looks for a fault into the wrong direction.
"""
import json
import os
import shutil
import sys
from pathlib import Path

from support import ANSWER_PROGRAM, check, compile_file, contains, equal, finish, run, scratch

mvld, loader, answer = map(os.path.abspath, sys.argv[1:4])

with scratch() as folder:
    folder = Path(folder)
    (folder / "program.c").write_text(ANSWER_PROGRAM)
    program = compile_file(folder / "program", "-O1", "-rdynamic", folder / "program.c")
    config = folder / "mvld.conf"
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "none"),
           "MVLD_CONFIG": str(config), "MVLD_PASS_PATH": os.path.dirname(answer), "PATH": os.environ["PATH"]}

    def doctor(code, *start):
        """Its findings; what it says of the snapshot is what this start does."""
        found = run(mvld, "doctor", "--json", program, env=env)
        equal((found[0], found[2]), (code, ""), "its exit code")
        text = run(mvld, "doctor", program, env=env)
        equal((text[0], text[2], len(text[1].splitlines()) <= 10), (code, "", True), f"ten lines:\n{text[1]}")
        findings = {f["name"]: f for f in json.loads(found[1])}
        check(all(f["part"] == str(program) for f in findings.values()), "the part is the program")
        if start:
            said = run(*start, env={**env, "MVLD_DEBUG": "files"})[2]
            equal(findings.get("snapshot", {"state": ""})["state"] == "ok", ": applied, " in said,
                  f"whether a start has the snapshot: {findings}\n{said}")
        return {name: (f["state"], f["text"], f["remedy"]) for name, f in findings.items()}

    config.write_text("")
    run_it = mvld, "run", "--loader", loader, program
    found = doctor(0, *run_it)
    equal([found[name][0] for name in ("loader", "passes")], ["absent", "absent"], "a plain program")
    contains(found["loader"][2], f"mvld enable {program}", "what to do")

    needed = json.loads(run(mvld, "doctor", "--json", "dpkg" if shutil.which("dpkg") else "mount", env=env)[1])
    loaders = [(f["remedy"], "the machine needs" in f["text"]) for f in needed if f["name"] == "loader"]
    equal(loaders, [(None, True)], "what `mvld enable' refuses is no advice")

    config.write_text(f"[app]\nmatch = {program}\npasses = answer\n")
    found = doctor(0, *run_it)
    equal(found["passes"], ("ok", f"answer ({config}:1)", None), "a configured one")
    equal((found["snapshot"][0], found["snapshot"][2]), ("absent", f"mvld build {program}"), "without a snapshot")
    equal(run(mvld, "build", "--loader", loader, program, env=env)[0], 0, "build")
    equal(doctor(0, *run_it)["snapshot"][0], "ok", "with one, for `mvld run'")
    overlay, = folder.glob("**/snapshots/*/0-*")
    overlay.write_bytes(overlay.read_bytes())
    contains(doctor(0, *run_it)["snapshot"][1], "its overlay was changed after it was written", "which no start takes")
    equal(run(mvld, "build", "--loader", loader, program, env=env)[0], 0, "build again")
    config.write_text(f"[app]\nmatch = {program}\npasses = answer\nslot-writers = x\n")
    contains(doctor(0, *run_it)["snapshot"][1], "there is none", "which is of another configuration")
    config.write_text(f"[app]\nmatch = {program}\npasses = answer\n[answer]\ngone = any, thing\n")
    found = doctor(0, *run_it)
    equal((found["passes"][0], found["options"]), ("ok", ("absent", f"{config}:5: answer.gone has no effect any more",
                                                          "remove the line")), "an option of an earlier version")
    config.write_text(f"[app]\nmatch = {program}\npasses answer\n")
    found = doctor(1)
    equal((found["passes"][0], "snapshot" in found), ("problem", False), "a wrong configuration")
    contains(found["passes"][1], f"{config}:3: ", "where it is wrong")

    config.write_text(f"[app]\nmatch = {program}\npasses = answer\n")
    plain = program.read_bytes()
    equal(run(mvld, "set-interp", "--force", "--loader", loader, program, env=env)[0], 0, "set-interp")
    found = doctor(1, program)
    equal((found["loader"][0], found["snapshot"][0]), ("ok", "problem"), "set-interp, and none for such starts")
    contains(found["loader"][1], loader, "the loader")
    equal(run(mvld, "build", program, env=env)[0], 0, "build")
    equal(doctor(0, program)["snapshot"][0], "ok", "from a snapshot")
    os.link(program, folder / "link")
    found = doctor(1, program)
    equal(found["snapshot"], ("problem", f"no start takes it: {program} is another file now", f"mvld enable {program}"),
          "another file")

    program.write_bytes(plain)
    found = doctor(1)
    equal((found["loader"][0], found["loader"][2]), ("problem", f"mvld enable {program}"), "an upgrade took it away")
    copy = folder / "ld.so"
    shutil.copy(loader, copy)
    equal(run(mvld, "set-interp", "--force", "--loader", copy, program, env=env)[0], 0, "set-interp")
    copy.unlink()
    equal(doctor(1)["loader"], ("problem", f"it does not start: {copy}: No such file or directory", "mvld-restore --all"), "no loader")
    copy.write_bytes(Path(loader).read_bytes()[:4096])
    copy.chmod(0o755)
    equal(doctor(1)["loader"], ("problem", f"it does not start: {copy}: it is truncated", "mvld-restore --all"), "a part of one")

    # Where no snapshot can be made, nothing is advised that would make one; and none can be made there.
    for build, option, near in (["-no-pie", "-Wl,-Ttext-segment=0x7d000000"], "", 0), ([], "placement = as-is\n", 0), ([], "", 1):
        program = compile_file(folder / "linked", "-O1", "-rdynamic", *build, folder / "program.c")
        config.write_text("")
        if not option:
            equal(doctor(0)["loader"][2] is not None, bool(near), f"{build}: whether to enable it is advised")
        config.write_text(f"[app]\nmatch = {program}\npasses = answer\n{option}")
        found = doctor(0, mvld, "run", "--loader", loader, program)["snapshot"]
        equal(found[2], f"mvld build {program}" if near else None, f"{build} {option}: advice")
        equal(run(mvld, "build", "--loader", loader, program, env=env)[0], int(not near), f"{build} {option}: to build")

    script = folder / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    contains(run(mvld, "doctor", script, env=env)[1], "it is a script of /bin/sh", "a script")
    equal(run(mvld, "doctor", "no-such-program", env=env)[0], 1, "no such program")
finish()
