# SPDX-License-Identifier: MIT
"""try.py MVLD [slow]: `mvld try` says of a program that looks up many symbols that it gains, of `true` that it does not, and
leaves nothing behind.

A failure means: people are told to switch on what does not help them or the reverse, or a trial changes
their machine.
"""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support import ENV, check, compile_file, contains, equal, finish, run, scratch

mvld = os.path.abspath(sys.argv[1])
COUNT = 15000


def many_symbols(folder):
    """A program whose library refers to COUNT functions of another one, by name."""
    name = "a_rather_long_name_of_a_function_as_those_of_cxx_are_%d"
    (folder / "exports.s").write_text("".join(
        f".globl {name % i}\n.type {name % i}, @function\n{name % i}: ret\n.size {name % i}, 1\n" for i in range(COUNT)))
    (folder / "table.s").write_text(".data\n.globl table\ntable:\n" + "".join(f".quad {name % i}\n" for i in range(COUNT)))
    (folder / "main.c").write_text("extern void (*table[])(void);\nint main(void) { table[1](); return 5; }\n")
    compile_file(folder / "libexports.so", "-shared", "-nostdlib", folder / "exports.s")
    compile_file(folder / "libtable.so", "-shared", "-nostdlib", folder / "table.s", folder / "libexports.so")
    return compile_file(folder / "program", folder / "main.c", folder / "libtable.so", folder / "libexports.so",
                        f"-Wl,-rpath,{folder}")


def tried(folder, *words):
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    code, out, err = run(mvld, "try", *words, env={"TMPDIR": str(temporary)})
    equal(list(temporary.iterdir()), [], f"what {words} leaves behind")
    return code, out, err


def in_a_chroot(folder, program):
    """Where the root folder is not that of the mount namespace: what is measured there is that machine's program."""
    (folder / "root").mkdir()
    inside = 'mount --rbind / "$1" && cd "$1" && exec chroot "$1" env TMPDIR="$2" "$3" try --seconds 2 "$4"'
    if os.geteuid() or run("unshare", "--mount", "--propagation", "private", "mount", "--rbind", "/", folder / "root")[0]:
        print("not tried: a chroot")
        return
    code, out, err = run("unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", folder / "root",
                         folder / "tmp", mvld, program)
    equal((code, err), (0, ""), "in a chroot")
    contains(out, " with set-interp, direct-calls", "in a chroot")


def as_a_command(folder, program):
    """What a shell finds by its name behind a folder for commands is also tried as `mvld enable' has it started."""
    home = folder / "home"
    place = "/usr/local/bin" if os.geteuid() == 0 else f"{home}/.local/bin"
    os.makedirs(place, exist_ok=True)
    code, out, err = run(mvld, "try", "--seconds", "2", "--json", program.name,
                         env={"TMPDIR": str(folder / "tmp"), "HOME": str(home),
                              "PATH": f"{place}:{program.parent}:{ENV['PATH']}"})
    found = {way["name"]: way["wrong"] for way in json.loads(out)["ways"]}
    equal((found.get("wrapper, direct-calls", "absent"), "mvld run, direct-calls" in found), (None, False), out)
    check(not os.path.exists(f"{place}/{program.name}"), "nothing is made there")


def without_room(folder, program):
    """A snapshot that cannot be made is no start under mvld, and nothing is known of the gain."""
    code, out, err = run("sh", "-c", 'ulimit -f 8; exec "$@"', "sh", mvld, "try", "--seconds", "1", "--json", program,
                         env={"TMPDIR": str(folder / "tmp")})
    found = json.loads(out)
    wrong = [way["wrong"] for way in found["ways"]]
    check(code == 1 and wrong[:2] == [None, None] and len(wrong) > 2 and all(wrong[2:]), f"{code} {out}")
    contains(err, f"mvld try: {program}: nothing under mvld could be measured: no snapshot: ", "why")


def interrupted(folder, program):
    temporary = folder / "tmp"
    process = subprocess.Popen([mvld, "try", "--seconds", "60", program], env={**ENV, "TMPDIR": str(temporary)},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    while not list(temporary.iterdir()):
        time.sleep(0.01)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    equal(process.returncode, 1, "it was interrupted")
    equal(list(temporary.iterdir()), [], "what an interruption leaves behind")


if sys.argv[2:] == ["slow"]:  # nobody waits for more than a minute, also for what takes seconds
    with scratch() as scratched:
        begin = time.monotonic()
        code, out, err = tried(Path(scratched), "sleep", "8")
        check(time.monotonic() - begin < 61, f"{time.monotonic() - begin} s")
        equal((code, out), (1, ""), "nothing is known")
        contains(err, "too few to tell", "why")
    finish()

with scratch() as scratched:
    folder = Path(scratched)
    os.chmod(folder, 0o755)
    program = many_symbols(folder)
    before = program.read_bytes(), program.stat().st_mtime_ns
    for seconds in "3", "10":  # a loaded machine needs more rounds
        code, out, err = tried(folder, "--seconds", seconds, "--json", program)
        found = json.loads(out)
        if found["gain"]:
            break
    ways = {way["name"]: way for way in found["ways"]}
    equal([name for name, way in ways.items() if way["wrong"]], [], "all ways can be measured")
    check(ways["plain, beside itself"]["wall"]["low_ppm"] < 1_050_000, "the control")
    if os.geteuid() == 0 and "set-interp, direct-calls" in ways:
        equal((code, found["gain"]), (0, True), f"symbols from a snapshot\n{out}")
        check(ways["set-interp, direct-calls"]["wall"]["high_ppm"] < 1_000_000, "by set-interp")
        code, out, err = tried(folder, "--seconds", "2", program)
        contains(out, ": worth it\n  mvld enable", "the sentence")
        script = folder / "script"
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        remedy = json.loads(tried(folder, "--seconds", "6", "--json", script)[1])["remedy"]
        check(remedy and remedy.startswith("mvld enable ") and remedy.endswith(f" {program}"), f"of a script: {remedy}")
        script.write_text(f"#!/usr/bin/env -S {program} -x\n")
        code, out, err = tried(folder, "--seconds", "1", script)
        equal((code, out), (1, ""), "a script of env(1)")
        contains(err, f": mvld try {program} {script}\n", "a script of env(1)")
        in_a_chroot(folder, program)
    code, out, err = tried(folder, "--seconds", "2", "true")
    equal((code, err), (3, ""), f"`true' gains nothing\n{out}")
    contains(out, "true: no gain: leave it\n", "the sentence")
    check("set-interp" not in out and "wrapper" not in out, f"a way that `mvld enable' refuses\n{out}")
    check((program.read_bytes(), program.stat().st_mtime_ns) == before, "the program is as it was")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    static = compile_file(folder / "static", "-static", folder / "main.c")
    code, out, err = tried(folder, static)
    equal((code, out), (1, ""), "a static program")
    contains(err, f"mvld try: {static}: ", "the sentence names it")
    code, out, err = tried(folder, "--seconds", "0.5", "--json", "sleep", "0.2")
    equal((code, err, json.loads(out)["rounds"]), (3, "", 6), "a slow program has its six rounds")
    equal(tried(folder, "/nowhere/at-all")[0], 1, "a program that is not there")
    for mode in (0o644, 0o755):
        (folder / "main.c").chmod(mode)
        equal(tried(folder, folder / "main.c")[:2], (1, ""), f"no program, mode {mode:o}")
    begin = time.monotonic()
    equal(tried(folder, "sleep", "60")[:2], (1, ""), "a program that does not end")
    check(time.monotonic() - begin < 40, "neither its analysis nor its snapshot waits for its end")
    equal(tried(folder, "--seconds", "x", "true")[0], 2, "wrong usage")
    code, out, err = run("sh", "-c", 'exec "$0" try --seconds 0.5 true >/dev/full', mvld)
    equal((code, err), (1, "mvld try: the output cannot be written: No space left on device\n"), "output that is lost")
    without_room(folder, program)
    as_a_command(folder, program)
    interrupted(folder, program)
finish()
