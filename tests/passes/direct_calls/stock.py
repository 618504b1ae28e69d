# SPDX-License-Identifier: MIT
"""Programs of the distribution: with direct-calls their output is the same, and each changed
call leads where the host loader sends it; so it does when the calls come from a snapshot.

A failure means: a program breaks, or calls something else.

Argument: the program's name below.
"""
import os
import re
import shutil
import sys
from pathlib import Path

import memory
import support
from support import check

MVLD = support.BUILD / "tools" / "mvld"
CONFIG = "[app]\nmatch = *\npasses = direct-calls\n"
PYTHON = ("import json, re, hashlib, subprocess, threading, ctypes, decimal, sqlite3\n"
          "print(json.dumps({str(i): i * i for i in range(50)}), re.sub('a+', 'b', 'caat'))\n"
          "print(hashlib.sha256(b'x' * 1000).hexdigest(), decimal.Decimal(2).sqrt())\n"
          "print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)\n"
          "t = [threading.Thread(target=lambda: sorted(range(9999))) for _ in range(4)]\n"
          "[x.start() for x in t]; [x.join() for x in t]\n"
          "print(sqlite3.connect(':memory:').execute('select 6 * 7').fetchall())\n"
          "print(ctypes.CDLL(None).strlen(b'four5'))\n")
# program, arguments, at least so many sites
PROGRAMS = {
    "bash": (["-c", "for i in {1..200}; do x=$((x+i)); done; echo $x; echo a | tr a b; "
              "printf '%s %d\\n' q 7; declare -A h=([k]=v); echo ${h[k]}"], 6000),
    "python3": (["-E", "-s", "-c", PYTHON], 3000),
    "sqlite3": ([":memory:", "create table t(a); with recursive c(x) as (select 1 union all "
                 "select x+1 from c where x<3000) insert into t select x from c; "
                 "select sum(a), count(*), max(a||'x') from t;"], 9000),
    "perl": (["-e", "use POSIX; print join(',', map { $_ ** 2 } 1..20), \"\\n\"; "
              "my %h = map { $_ => 1 } 'a'..'zz'; print scalar(keys %h), floor(2.5), \"\\n\""], 2000),
    "git": (["--version"], 14000),
    "openssl": (["dgst", "-sha256", "/etc/hostname"], 15000),
}
name = sys.argv[1]
arguments, least = PROGRAMS[name]
found = shutil.which(name, path="/usr/bin:/bin")
if not found:
    support.skip("no " + name)
with support.scratch_folder() as folder:
    program = folder / Path(found).resolve().name
    shutil.copy(Path(found).resolve(), program)
    done = support.run([MVLD, "set-interp", "--loader", support.LOADER, program])
    check(done.returncode == 0, done.stderr)
    cache = Path(os.environ.get("MVLD_TEST_ANALYSES", folder))
    done = support.run([MVLD, "analyze", "--output", cache / "mvld" / "analysis", "--program",
                        program], timeout=100)
    check(done.returncode == 0, done.stdout + done.stderr)
    own = {"XDG_CACHE_HOME": cache, "MVLD_PASS_PATH": support.BUILD / "passes" / "direct-calls"}
    plain = support.run([program, *arguments], MVLD="off")
    check(plain.returncode == 0, plain.stderr)
    direct = support.run([program, *arguments], config=CONFIG, **own)
    check((direct.returncode, direct.stdout) == (0, plain.stdout),
          f"{direct.returncode} {direct.stdout}{direct.stderr}")
    dump = folder / "dump.so"
    support.take(folder, "passes/direct_calls/programs", dump.name)
    own["LD_BIND_NOW"] = "1"
    objects = memory.take(program, config=CONFIG, dump=dump, folder=folder, **own)
    checked = memory.check_targets(objects)
    check(checked >= least, f"{checked} sites were checked")
    # From a snapshot, made by a process that lies elsewhere than the one that is looked at.
    own.update(support.TELL_MAPPED)
    preload = {"config": CONFIG, **own, "LD_PRELOAD": f"{dump} {own['LD_PRELOAD']}"}
    done = support.run([program], MVLD_SNAPSHOT="1", **preload)
    check(done.returncode == 0, done.stdout + done.stderr)
    objects = memory.take(program, config=CONFIG, dump=dump, folder=folder, **own)
    whole = support.run([program, *arguments], **preload)
    shutil.rmtree(done.stdout.strip())
    applied = memory.check_targets(objects)
    check("libc.so.6" in support.from_snapshot(whole), whole.stderr)
    fixed = objects[0].bias == 0
    check(least <= applied <= checked if fixed else applied == checked,
          f"{applied} sites of {checked} were applied")
    print(f"{name}: {checked} sites checked in memory, {applied} from a snapshot")
