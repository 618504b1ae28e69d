#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds Debian's kernel with multiverse, boots it under QEMU, runs the tests inside, prints a table.

    build.py [--version 6.1|6.12] [--at FOLDER] [--jobs N] [--long] [--cpu MODEL] [CONFIG...]     see kernel/config
    build.py --patches                     only: do the patches apply to the sources that are installed?

The source is that of the package linux-source-VERSION.  What is unpacked and built stays: an interrupted run goes
on there.  Guests are booted again.
Nothing is written into the checkout.  MVLD_BUILD says where the plugin was built.
"""
import argparse
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOM = Path(__file__).resolve().parent
SOURCE = ROOM.parent
TOOLS = ("sh cat ls mount insmod rmmod dmesg grep sed head tail sleep reboot tr wc").split()
MODULES = ("kernel/torture.ko", "kernel/locking/locktorture.ko", "kernel/rcu/rcutorture.ko",
           "multiverse/multiverse_test.ko")
DAMAGED = 100
# What a kernel says that something is wrong with.
WARNING = (r".*(WARNING:|BUG:|Oops|Kernel panic|possible recursive|detected .*stalls|lockup|hung task|Call Trace:"
           r"(?!.*\n.*<TASK>.*\n.*dump_stack_lvl.*\n.*warn_alloc)).*")  # that one says that memory was refused
# What it says of processors that need return thunks, whatever it does about that (arch/x86/kernel/cpu/bugs.c).
MITIGATIONS = (
    "RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!",
    "Speculative Return Stack Overflow: WARNING: See https://kernel.org/doc/html/latest/admin-guide/hw-vuln/srso.html for "
    "mitigation options.")
# config: [processors, tests, repetitions, repetitions with --long, under which hypervisor]
BOOTS = {
    "multiverse": [(1, "locks,selftest,control,places,damage,chance,modules", 20, 1000),
                   (2, "locks,selftest,control,writers,crossing,places", 1, 1),
                   (2, "failing_hotplug,probed_hotplug,hotplug", 20, 1000), (2, "torture", 15, 600)],
    "lockdep": [(1, "locks,selftest,places,damage,shortages,starved_control,starved_module,tracer,modules", 5, 100),
                (2, "locks,selftest,hotplug,starved_hotplug,tracer", 5, 200), (3, "stopped_hotplug", 1, 1),
                (2, "torture", 15, 600)],
    "guests": [(1, "locks,selftest,control,places,damage,modules", 20, 1000, "xen"),
               (2, "locks,selftest,control,writers,places", 1, 1, "xen"), (2, "hotplug", 20, 1000, "xen"),
               (2, "torture", 15, 600, "xen")],
    "stock": [(1, "", 1, 1), (2, "", 1, 1)],
    "one": [(1, "", 1, 1)],
    "static": [(1, "", 1, 1), (2, "", 1, 1)],
}


def say(text):
    print(f"==> {text}", flush=True)


def run(*command, log=None, **more):
    command = [str(c) for c in command]
    if not log:
        subprocess.run(command, check=True, **more)
        return
    with open(log, "a") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, **more).returncode:
            sys.exit(f"build.py: failed: {' '.join(command)}\n  its output: {log}")


def versions():
    return sorted(p.name for p in (ROOM / "patches").iterdir())


def patches(version):
    return sorted((ROOM / "patches" / version).glob("*.patch"))


def archive(version):
    return Path(f"/usr/src/linux-source-{version}.tar.xz")


def check_patches():
    """0, 1, or 77 where no source is installed."""
    found = 0
    for version in versions():
        if not archive(version).exists():
            print(f"linux-source-{version} is not installed")
            continue
        found += 1
        names = {n for p in patches(version) for n in re.findall(r"^\+\+\+ b/(\S+)", p.read_text(), re.M)}
        with tempfile.TemporaryDirectory() as at, tarfile.open(archive(version)) as tar:
            left = set(names)
            for member in tar:
                name = member.name.partition("/")[2]
                if name in left:
                    target = Path(at) / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
                    left.discard(name)
                    if not left:
                        break
            if left:
                print(f"{version}: there is no {', '.join(sorted(left))}")
                return 1
            for p in patches(version):
                done = subprocess.run(["patch", "-p1", "-F0", "-i", str(p)], cwd=at, capture_output=True, text=True)
                print(f"{version} {p.name}: {'applies' if not done.returncode else done.stdout}")
                if done.returncode:
                    return 1
    return 0 if found else 77


def prepare(version, at):
    """The patched source, with our files linked into it."""
    plugin = SOURCE / os.environ.get("MVLD_BUILD", "build") / "gcc-plugin/multiverse.so"
    if not plugin.exists():
        sys.exit(f"build.py: {plugin} is missing: ./dev build")
    tree = at / f"linux-source-{version}"
    stamp = tree / "multiverse/patched"
    if not archive(version).exists():
        sys.exit(f"build.py: the package linux-source-{version} is not installed, there is no {archive(version)}.\n"
                 "  Debian 12 has 6.1 and, in bookworm-security, 6.12; Debian 13 has 6.12.  If apt-get does not find it,\n"
                 "  the package's .deb of another Debian can be installed as well: it contains sources only.")
    want = f"{archive(version).stat().st_mtime}\n" + "".join(p.read_text() for p in patches(version))
    if not stamp.exists() or stamp.read_text() != want:
        say(f"Unpacking and patching Linux {version}")
        shutil.rmtree(tree, ignore_errors=True)
        at.mkdir(parents=True, exist_ok=True)
        run("tar", "-C", at, "-xmf", archive(version))  # -m: newer than what was built of an earlier one
        for p in patches(version):
            run("patch", "-s", "-p1", "-F0", "-d", tree, "-i", p)
        (tree / "multiverse").mkdir()
        stamp.write_text(want)
    links = {f"multiverse/{name}": SOURCE / name for name in ("passes", "rimf", "include", "kernel")}
    links |= {f"multiverse/{name}": ROOM / "linux" / name for name in ("Kbuild", "Kconfig", "Makefile.plugin")}
    links |= {"multiverse/multiverse.so": plugin, "include/linux/multiverse.h": ROOM / "linux/multiverse.h"}
    for name, target in links.items():
        link = tree / name
        if not link.is_symlink() or os.readlink(link) != str(target):
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return tree


def make(tree, out, jobs, *targets, log):
    gcc = "ccache gcc" if shutil.which("ccache") else "gcc"
    prefix = os.environ.get("MVLD_PREFIX", "").split()  # as "nice"
    run(*prefix, "make", "-s", f"-j{jobs}", "-C", tree, f"O={out}", f"CC={gcc}", f"HOSTCC={gcc}",
        "KBUILD_BUILD_TIMESTAMP=0", "KBUILD_BUILD_USER=mvld", "KBUILD_BUILD_HOST=mvld", *targets, log=log)


def configure(tree, out, config, jobs):
    fragments = [ROOM / "config/base.config", ROOM / f"config/{config}.config"]
    want = "".join(f.read_text() for f in fragments)
    out.mkdir(exist_ok=True)
    if not (out / "configured").exists() or (out / "configured").read_text() != want:
        make(tree, out, jobs, "tinyconfig", log=out / "config.log")
        run("sh", tree / "scripts/kconfig/merge_config.sh", "-m", "-O", out, out / ".config", *fragments,
            log=out / "merge.log")
        make(tree, out, jobs, "olddefconfig", log=out / "config.log")
        (out / "configured").write_text(want)


def build(tree, out, config, jobs):
    """Returns what objtool said, also of what an interrupted run built.  What it warned of is built again by the next."""
    configure(tree, out, config, jobs)
    say(f"Building {out.name}")
    log = out / "build.log"
    make(tree, out, jobs, "bzImage", "modules", log=log)
    said = re.findall(r"^(\S+): (warning: objtool.*)", log.read_text(), re.M)
    for name, _ in said:
        (out / name).unlink(missing_ok=True)
    log.replace(out / "built.log")
    return f"FAILED: {said[0][0]}: {said[0][1]}" if said else "ok"


def descriptor_bytes(module):
    """Offsets in the file, by table, of bytes that no relocation fills: the kernel refuses those if they are not 0."""
    listed = subprocess.run(["readelf", "-SrW", module], check=True, capture_output=True, text=True).stdout
    tables = {}
    for name, at, size in re.findall(r"\] (multiverse_\w+) +PROGBITS +\S+ (\S+) (\S+)", listed):
        part = re.search(rf"section '\.rela{name}'.*?(?=\n\n|\Z)", listed, re.S)
        filled = {int(offset, 16) + i for offset, bits in re.findall(r"^(\w+) +\w+ +R_X86_64_\w*?(32|64)", part[0], re.M)
                  for i in range(int(bits) // 8)}
        tables[name] = [int(at, 16) + i for i in range(int(size, 16)) if i not in filled]
    return tables


def damage(module, root):
    """Copies: one whose first function's record is longer than its table; and some with random bytes in descriptors."""
    tables = descriptor_bytes(module)
    whole = module.read_bytes()
    code = bytearray(whole)
    code[tables["multiverse_functions"][2]] ^= 0xff
    (root / "damaged.ko").write_bytes(code)
    for number in range(DAMAGED):
        chance = random.Random(number)
        code = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            table = chance.choice([t for t in tables.values() if t])
            code[chance.choice(table)] = chance.choice((0, 1, 4, 0x7f, 0xff, chance.randrange(256)))
        (root / f"damaged.{number}.ko").write_bytes(code)


def initrd(out):
    """init, busybox, the modules."""
    root, cpio = out / "root", out / "initrd"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    listed = subprocess.run(["ldd", "/bin/busybox"], capture_output=True, text=True).stdout  # none if it is static
    for library in re.findall(r"(/\S+) \(0x", listed):
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library[1:])
    for tool in TOOLS:
        (root / "bin" / tool).symlink_to("busybox")
    shutil.copy(ROOM / "guest/init", root / "init")
    (root / "init").chmod(0o755)
    for name in MODULES:
        if (out / name).exists():
            shutil.copy(out / name, root)
    if (root / "multiverse_test.ko").exists():
        damage(root / "multiverse_test.ko", root)
    names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
    with open(cpio, "wb") as file:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names.encode(), stdout=file, check=True)
    return cpio


def xen(at):
    """Debian's hypervisor, out of its package, which is not installed."""
    file = at / "xen/hypervisor"
    if not file.exists():
        listed = subprocess.run(["apt-cache", "search", "--names-only", r"^xen-hypervisor-[0-9.]+-amd64$"], check=True,
                                capture_output=True, text=True).stdout
        say("Fetching Xen")
        file.parent.mkdir(parents=True, exist_ok=True)
        run("apt-get", "download", listed.split()[0], cwd=file.parent, log=file.parent / "log")
        run("dpkg", "-x", next(file.parent.glob("*.deb")), file.parent)
        file.write_bytes(gzip.decompress(next(file.parent.glob("boot/xen-*-amd64.gz")).read_bytes()))
    return file


def warning(said):
    """The first line of a kernel's log that says that something is wrong with it, or None."""
    lines = (found[0].strip() for found in re.finditer(WARNING, said))
    return next((line for line in lines if not line.endswith(MITIGATIONS)), None)


def guest(out, log, cpus, tests, times, more="", monitor="none", under=None, cpu="max"):
    """The command that boots it.  The BIOS tells the kernel of one processor a socket; a guest on a loaded machine
    sees its timer late (no_timer_check).  It would measure its TSC by that timer, so that ten minutes of its clock could be over in
    twenty seconds.  So it counts ticks instead (tsc=unstable)."""
    kernel = out / "arch/x86/boot/bzImage"
    append = f"panic=-1 reboot=t no_timer_check tsc=unstable preempt=full mvtimes={times} {more}"
    if under == "xen":
        module = f"{kernel} console=hvc0 mvtest={tests} {append}".replace(",", ",,")
        boots = ["-m", "1024", "-kernel", xen(out.parent), "-initrd", f"{module},{initrd(out)}", "-append",
                 f"console=com1 com1=115200,8n1 dom0_mem=512M dom0_max_vcpus={cpus}"]
    else:
        boots = ["-m", "512", "-kernel", kernel, "-initrd", initrd(out), "-append",
                 f"console=ttyS0 mvtest={tests} {append}"]
    # QEMU's iretq to user space reads the stack as the kernel would, which SMAP refuses to Xen's first domain.
    cpu += ",-smap" * (under == "xen")
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", cpu, "-smp", f"{cpus},sockets={cpus}", "-display", "none",
               "-serial", f"file:{log}", "-monitor", monitor, "-no-reboot", *boots]
    return [str(c) for c in command]


def results(log):
    lines = log.read_text(errors="replace").replace("\r", "") if log.exists() else ""
    return dict(re.findall(r"^RESULT ([^:]*): (.*)$", lines, re.M))


def boot(out, number, cpus, tests, times, under=None, cpu="max"):
    """The guest's results, as {name: what}."""
    log = out / f"boot.{number}.log"
    where = f"{out.name}, under {under}" if under else out.name
    say(f"{where}: {cpus} processor{'s' * (cpus > 1)}: {tests or 'boot'}, {times} times")
    try:
        subprocess.run(guest(out, log, cpus, tests, times, under=under, cpu=cpu), timeout=600 + 20 * times, check=True)
    except subprocess.TimeoutExpired:
        print(f"  no end after {600 + 20 * times} s: {log}")
    wrong = warning(log.read_text(errors="replace"))
    return results(log) | {"no warning": f"FAILED: {wrong}" if wrong else "ok"}


def addresses(out):
    """{symbol: address} of the kernel, not relocated."""
    return {name: int(at, 16) for at, _, name in map(str.split, (out / "System.map").read_text().splitlines())}


def dump(out, cpus, image, tests=""):
    """The memory of the running guest, committed as it is for so many processors, in a file that begins at _text."""
    symbols = addresses(out)
    log = image.with_suffix(".log")
    start, end = symbols["_text"], symbols["_end"]
    log.unlink(missing_ok=True)
    with subprocess.Popen(guest(out, log, cpus, f"{tests},wait_for_monitor", 1, "nokaslr", "stdio"), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as qemu:
        for _ in range(600):
            if "waiting" in results(log):
                break
            time.sleep(1)
        qemu.communicate(f'pmemsave {start - 0xffffffff80000000:#x} {end - start:#x} "{image}"\nquit\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=versions(), help="if it is not given: the first that is installed",
                        default=next(filter(lambda v: archive(v).exists(), versions()), versions()[0]))
    parser.add_argument("--at", default="/var/tmp/mvld-kernel", type=Path)
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    parser.add_argument("--long", action="store_true", help="a thousand times, ten minutes")
    parser.add_argument("--cpu", default="max", metavar="MODEL",
                        help="QEMU's processor; EPYC and Skylake-Client need return thunks (safe RET, ITS)")
    parser.add_argument("--patches", action="store_true")
    parser.add_argument("config", nargs="*")
    o = parser.parse_args()
    if o.patches:
        sys.exit(check_patches())
    tree = prepare(o.version, o.at)
    wrong, table = 0, []
    for config in o.config or ["multiverse"]:
        if config not in BOOTS:
            sys.exit(f"build.py: there is no configuration {config}, but {', '.join(BOOTS)}")
        out = o.at / f"{o.version}-{config}"
        objtool = build(tree, out, config, o.jobs)
        wrong += objtool != "ok"
        table.append((f"{o.version} {config}", "", "objtool", objtool))
        for number, (cpus, tests, few, many, *under) in enumerate(BOOTS[config]):
            got = boot(out, number, cpus, tests, many if o.long else few, *under, cpu=o.cpu)
            got.setdefault("end", "FAILED: the guest did not come to its end")
            for name, what in got.items():
                wrong += what.startswith("FAILED")
                table.append((f"{o.version} {config}", str(cpus), name, what))
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(f"Logs: {o.at}/{o.version}-*/*.log; {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
