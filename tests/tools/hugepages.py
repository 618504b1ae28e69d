#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`mvld hugepages`: what it shows and reserves, of a machine that is made up of files.

A failure means that it shows other numbers than the kernel's, calls a pool reserved that is not,
takes more memory than there is, or changes something where it complains.
"""
import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from support import ENV, check, contains, equal, finish, run, scratch

mvld = os.path.abspath(sys.argv[1])
POOLS = "sys/kernel/mm/hugepages"
THP = "sys/kernel/mm/transparent_hugepage"


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def machine(root, available=1 << 20, **numbers):
    """proc/ and sys/ of a machine with these numbers in its pool of 2 MB pages."""
    pool = {"nr": 0, "free": 0, "resv": 0, "surplus": 0, "nr_overcommit": 0, **numbers}
    write(root, {f"{POOLS}/hugepages-2048kB/{k}_hugepages": f"{n}\n" for k, n in pool.items()})
    write(root, {f"{POOLS}/hugepages-1048576kB/nr_hugepages": "3\n",
                 f"{THP}/enabled": "always madvise [never]\n",
                 f"{THP}/shmem_enabled": "always within_size [advise] never deny force\n",
                 f"{THP}/khugepaged/pages_to_scan": "4096\n",
                 f"{THP}/khugepaged/scan_sleep_millisecs": "10000\n",
                 "proc/mounts": "none /big tmpfs rw,huge=always 0 0\nnone /tmp tmpfs rw 0 0\n",
                 "proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {available} kB\n"})
    return root


def shown(root):
    code, out, err = run(mvld, "hugepages", "show", "--json", "--root", root)
    equal((code, err), (0, ""), "it shows")
    return {f["name"]: f for f in json.loads(out)}


def in_pool(root):
    return (root / POOLS / "hugepages-2048kB/nr_hugepages").read_text().strip()


def show(folder):
    found = shown(machine(folder / "one", nr=8, free=5, resv=2, surplus=1, nr_overcommit=4))
    equal((found["hugetlb 2048kB"]["state"], found["hugetlb 2048kB"]["text"]),
          ("ok", "8 pages, 5 free, 2 reserved, 1 surplus, 4 more on demand"), "the pool")
    contains(found["hugetlb 1048576kB"]["text"], "3 pages, -1 free", "a size that says less")
    equal((found["THP: enabled"]["state"], found["THP: enabled"]["text"]), ("absent", "never"),
          "a setting")
    equal(found["THP: shmem_enabled"]["text"], "advise", "another")
    equal(found["khugepaged"]["text"], "looks at 4096 pages every 10000 ms", "khugepaged")
    contains(found["tmpfs with huge="]["text"], "/big", "a mount")
    check("concat.pages=thp" not in found, "nothing is tried on another machine")
    found = shown(folder / "nothing")
    equal({f["state"] for f in found.values()}, {"absent"}, "a machine without anything")


def reserve(folder):
    root = machine(folder / "two")
    code, out, err = run(mvld, "hugepages", "reserve", "64", "--root", root)
    equal((code, err, in_pool(root)), (0, "", "64"), "64 pages")
    contains(out, "has 64 pages of 2 MB (it had 0)", "how many")
    contains(out, "vm.nr_hugepages=64 > /etc/sysctl.d/", "how to keep them")
    for size, pages in {"100M": "50", "1M": "1", "1G": "512", "0": "0"}.items():
        machine(root, available=8 << 20)
        equal(run(mvld, "hugepages", "reserve", size, "--root", root)[0], 0, size)
        equal(in_pool(root), pages, size)
    for wrong in ("", "-1", "many", "64K", "1MB", "9" * 30):
        machine(root, nr=7)
        code, out, err = run(mvld, "hugepages", "reserve", wrong, "--root", root)
        equal((code, out, in_pool(root)), (2, "", "7"), f"{wrong!r} is wrong usage")
    machine(root, nr=7)
    code, out, err = run(mvld, "hugepages", "reserve", "600", "--root", root)
    equal((code, out, in_pool(root)), (1, "", "7"), "more than there is memory")
    contains(err, "593 more pages are 1186 MB, and the machine has 1024 MB", "why")
    code, out, err = run(mvld, "hugepages", "reserve", "1", "--root", folder / "nothing")
    equal((code, out), (1, ""), "a kernel without")
    contains(err, "no pool of 2 MB pages", "why")
    for arguments in (["reserve"], ["reserve", "1", "2"], ["reserve", "1", "--json"], ["more"]):
        equal(run(mvld, "hugepages", *arguments)[0], 2, f"{arguments} is wrong usage")


def refused(folder):
    """What the kernel gives fewer of, and what another user may not have."""
    root = machine(folder / "three", nr=3)
    number = root / POOLS / "hugepages-2048kB/nr_hugepages"
    number.unlink()
    number.symlink_to("/dev/null") # takes what is written, and reads as nothing: 0 pages
    code, out, err = run(mvld, "hugepages", "reserve", "64", "--root", root)
    equal(code, 1, "fewer than asked for")
    contains(err, "pages of 64: no more memory is free in pieces of 2 MB", "why")
    contains(err, "hugepages=64", "how to get them")
    root = machine(folder / "four", nr=3)
    if os.geteuid():
        (root / POOLS / "hugepages-2048kB/nr_hugepages").chmod(0o444)
    folder.chmod(0o755)
    nobody = pwd.getpwnam("nobody").pw_uid if not os.geteuid() else None
    own = shutil.copy(mvld, folder / "mvld")  # nobody may not look into everybody's build folder
    done = subprocess.run([own, "hugepages", "reserve", "64", "--root", str(root)], env=ENV,
                          capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: nobody and os.setuid(nobody))
    equal((done.returncode, done.stdout, in_pool(root)), (1, "", "3"), "another user")
    contains(done.stderr, "Permission denied; nothing is changed.  As root: mvld hugepages reserve 64",
             "what to do")


with scratch() as scratch_folder:
    show(Path(scratch_folder))
    reserve(Path(scratch_folder))
    refused(Path(scratch_folder))
with scratch() as scratch_folder:
    cache = Path(scratch_folder) / "mvld" / "images"
    for made, state in (False, "absent"), (True, None):
        if made:
            cache.mkdir(parents=True)
        found = json.loads(run(mvld, "hugepages", "--json",
                               env={"XDG_CACHE_HOME": scratch_folder})[1])
        image = next(f for f in found if f["name"] == "frozen images")
        check(image["text"].startswith(f"{cache}: "), image)
        check(image["state"] == (state or image["state"]), image)
        equal(list(cache.iterdir()) if made else [], [], "nothing is left there")
    here = {f["name"]: f for f in found}
check(here["concat.pages=thp"]["state"] in ("ok", "absent"), "it is tried on this machine")
real = Path("/") / POOLS / "hugepages-2048kB/nr_hugepages"
if real.exists():
    contains(here["hugetlb 2048kB"]["text"], f"{real.read_text().strip()} pages", "this machine's")
finish()
