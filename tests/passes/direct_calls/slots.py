# SPDX-License-Identifier: MIT
"""What the snapshot says of a lazily bound slot is what the host loader binds it to.

Each program is started twice, as it is and with LD_BIND_NOW=1; a probe prints all slots
and ends it before its code runs.  Wherever the snapshot was certain of a lazy slot, the
host loader must have bound it to that very address.

A failure means: a direct call would go elsewhere than the program's own call.

Arguments: ld-mvld.so, the folder of the probe, programs or folders of them.
"""
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

loader, probes, *places = sys.argv[1:]
MOST = 70 # programs of one folder


def is_lazy(path):
    """A dynamic program that is not linked with -z now."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
    except OSError:
        return False
    text = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True).stdout
    return "(JMPREL)" in text and "NOW" not in text and "(DEBUG)" in text


def slots(program, **more):
    env = {"PATH": os.environ["PATH"], "MVLD_PASS_PATH": probes, "MVLD_DEBUG": "passes",
           "MVLD_TUNABLES": "app.passes=slots", **more}
    done = subprocess.run([loader, program], env=env, capture_output=True, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, timeout=30)
    if done.returncode:
        return None
    found = {}
    for line in done.stderr.splitlines():
        if "slot|" in line:
            name, offset, symbol, state, relro, holder, target, why = \
                line.split("slot|", 1)[1].split("|")
            found[name, offset] = symbol, state, holder, target, why
    return found


programs = []
places = [place for place in places if os.path.exists(place)]
for place in places:
    if os.path.isdir(place):
        programs += [str(p) for p in sorted(Path(place).iterdir())
                     if p.is_file() and not p.is_symlink() and is_lazy(p)][:MOST]
    else:
        programs.append(place)
left, compared, certain = Counter(), 0, 0
for program in programs:
    lazy, now = slots(program), slots(program, LD_BIND_NOW="1")
    if lazy is None or now is None:
        print(f"{program}: does not start")
        continue
    if lazy.keys() != now.keys():
        sys.exit(f"{program}: not the same slots")
    compared += 1
    for slot, (symbol, state, holder, target, why) in lazy.items():
        if state != "lazy":
            continue
        if why:
            left[why] += 1
            continue
        certain += 1
        if now[slot][1:4] != ("bound", holder, target):
            sys.exit(f"{program}: {slot} for {symbol}: foreseen {holder}+{target}, "
                     f"bound {now[slot]}")
print(f"{compared} of {len(programs)} programs, {certain} lazy slots foreseen, all right;",
      "left:", dict(left))
if not certain:
    sys.exit("no lazy slot was foreseen")
