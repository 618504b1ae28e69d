#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""headers.py TYPE: programs whose program headers of this type lead nowhere, to too much, or are there
twice, the wrong one first or last.

The kernel and the host loader look at few of these, and take the last of two; what a program does with
wrong ones under the plain loader it must do under mvld: with nothing configured, with MVLD=off, with
direct-calls, with concat, and from a snapshot.  A failure means that mvld believes
an executable what nobody has checked.
"""
import shutil
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
import support  # noqa: E402
from support import check  # noqa: E402

TYPES = {"dynamic": 2, "interp": 3, "notes-8": 4, "notes-4": 4, "phdr": 6, "tls": 7, "eh_frame": 0x6474e550,
         "stack": 0x6474e551, "relro": 0x6474e552, "property": 0x6474e553}
LOAD = 1
FIELDS = "<IIQQQQQQ"  # type, flags, offset, vaddr, paddr, filesz, memsz, align
TOP = 1 << 64
PASSES = {"direct-calls": "", "concat": support.COPY}


class Image:
    """An ELF file whose program headers can be changed."""

    def __init__(self, path):
        self.data = bytearray(path.read_bytes())
        self.at, = struct.unpack_from("<Q", self.data, 32)
        size, n = struct.unpack_from("<HH", self.data, 54)
        check(size == struct.calcsize(FIELDS), "program headers of another size")
        self.headers = [list(struct.unpack_from(FIELDS, self.data, self.at + i * size))
                        for i in range(n)]

    def of(self, kind):
        return [header for header in self.headers if header[0] == kind]

    def write(self, path):
        for i, header in enumerate(self.headers):
            struct.pack_into(FIELDS, self.data, self.at + i * struct.calcsize(FIELDS), *header)
        path.write_bytes(self.data)
        path.chmod(0o755)


def places(image, header):
    """name -> (address, size) that a header can name."""
    loads = image.of(LOAD)
    text = next(load for load in loads if load[1] & 1)
    data = loads[-1]
    end = max(load[3] + load[6] for load in loads)
    return {
        "nowhere": (end + (64 << 20), header[6]),
        "first page": (16 - loads[0][3] % 4096, header[6]),
        "behind the file": (data[3] + data[5] - 8, 4096),
        "behind all": (end - 4, 4096),
        "non-canonical": (1 << 63, header[6]),
        "round": (TOP - 64, 4096),
        "huge": (header[3], 1 << 40),
        "all of it": (header[3], TOP - 1),
        "text": (text[3], 4096),
        "text and more": (text[3] + 8, end - text[3]),
        "nothing": (header[3], 0),
        "uneven": (header[3] + 1, header[6]),
    }


def more_loads(path):
    """Another PT_LOAD, behind all that are there or before them."""
    model = Image(path).of(LOAD)[0]
    for name, (address, size) in places(Image(path), model).items():
        for flags in 0, 4, 6:
            for how in "first", "last":
                image = Image(path)
                loads = image.of(LOAD)
                at = next(i for i, h in enumerate(image.headers) if h[0] == TYPES["stack"])
                del image.headers[at]
                wrong = [LOAD, flags, address % 4096, address % TOP, address % TOP, size, size, 4096]
                image.headers.insert(image.headers.index(loads[0 if how == "first" else -1])
                                     + (how == "last"), wrong)
                yield f"{name}, flags {flags}, {how}", image


def variants(path, kind):
    """(name, changed image): the header itself, another one before it, and one behind it, where it
    takes the place of headers that can be spared."""
    spare = [TYPES["property"], TYPES["eh_frame"], TYPES["stack"]]
    model = Image(path).of(TYPES[kind])[-1 if kind == "notes-4" else 0]
    kind = TYPES[kind]
    for name, (address, size) in places(Image(path), model).items():
        for how in "itself", "first", "last":
            image = Image(path)
            header = next(h for h in image.headers if h == model)
            wrong = [kind, model[1], model[2], address % TOP, address % TOP, size, size, model[7]]
            if kind == TYPES["interp"]:
                wrong[5] = model[5]  # the kernel reads it from the file
            if how == "itself":
                header[:] = wrong
            else:
                at = next(i for i, h in enumerate(image.headers) if h[0] in spare and h[0] != kind)
                del image.headers[at]
                image.headers.insert(image.headers.index(header) + (how == "last"), wrong)
            yield f"{name}, {how}", image


class Ways:
    """Ways to start a program: (name, interpreter, environment)."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        # The same length, so that nothing else in the file differs.
        self.plain, self.mvld = folder / "ld-host", folder / "ld-mvld"
        self.plain.symlink_to(support.HOST_LOADER)
        self.mvld.symlink_to(support.LOADER)
        self.list = [("nothing configured", {}), ("MVLD=off", {"MVLD": "off"})]
        self.analysed("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6")
        for passes, options in PASSES.items():
            names = "direct-calls, concat" if passes == "concat" else passes
            for miss in "plain", "build":
                config = folder / f"{passes}-{miss}.conf"
                config.write_text(f"[app]\nmatch = *\npasses = {names}\non-miss = {miss}\n{options}"
                                  .replace("on-miss = plain\n", ""))
                pair = (f"{passes}, {miss}", {
                    "MVLD_CONFIG": config, "XDG_CACHE_HOME": self.cache / f"{passes}-{miss}",
                    "MVLD_PASS_PATH": ":".join(str(support.BUILD / "passes" / name)
                                               for name in ("direct-calls", "concat"))})
                (self.cache / f"{passes}-{miss}" / "mvld").mkdir(parents=True)
                (self.cache / f"{passes}-{miss}" / "mvld" / "analysis").symlink_to(
                    self.folder / "analysis")
                self.list += [pair] * (1 + (miss == "build"))

        config = folder / "build-id.conf"
        config.write_text("[app]\nmatch = build-id:deadbeef\npasses = direct-calls\n")
        self.list.append(("by its build-id", {**pair[1], "MVLD_CONFIG": config}))

    def analysed(self, *files):
        """What cannot be understood is refused, and left as it is."""
        subprocess.run([support.BUILD / "tools" / "mvld", "analyze", "--output",
                        self.folder / "analysis", *files], capture_output=True, timeout=60)

    def compare(self, name, image):
        """What is wrong, as text."""
        path = self.folder / "program"
        wrong = ""
        results = {}
        at = image.data.find(bytes(self.plain) + b"\0")
        for loader in self.mvld, self.plain:
            image.data[at:at + len(bytes(loader))] = bytes(loader)
            path.unlink(missing_ok=True)
            image.write(path)
            if loader == self.mvld:
                self.analysed(path)
            ways = self.list if loader == self.mvld else [("plain", {})]
            for i, (way, environment) in enumerate(ways):
                results[f"{way} {i}"] = run(path, environment)
        plain = results.pop("plain 0")
        for way, got in results.items():
            # What the plain loader makes a program crash by, mvld need not.
            if got != plain and plain[0] >= 0:
                wrong += f"{name}: {way}: {got}, plain {plain}\n"
        self.forget()
        return wrong, plain[0]


    def check_passes(self, original):
        """On the program as it was linked all passes do something, or nothing is tested."""
        image = Image(original)
        check(self.compare("as linked", image)[0] == "", "the program as linked")
        image.data = image.data.replace(bytes(self.plain) + b"\0", bytes(self.mvld) + b"\0")
        image.write(self.folder / "program")
        self.analysed(self.folder / "program")
        said = [run(self.folder / "program", {**environment, "MVLD_DEBUG": "passes"})[2].decode()
                for _, environment in self.list]
        check("sites made direct" in said[-1], f"no build-id:\n{said[-1]}")
        said = "".join(said)
        for word in "sites made direct", "concat: ", "direct-calls: its work is in the snapshot", \
                "concat: its work is in the snapshot":
            check(word in said, f"no '{word}':\n{said}")
        self.forget()

    def forget(self):
        for images in self.cache.glob("*-build/mvld/snapshots"):
            shutil.rmtree(images)


def run(path, environment):
    try:
        done = subprocess.run(["./program"], cwd=path.parent, capture_output=True, timeout=30,
                              env=support.clean_environment(**environment))
    except OSError as error:  # the kernel refuses it
        return error.errno, "", ""
    return done.returncode, done.stdout, done.stderr


def main():
    kind = sys.argv[1]
    with support.scratch_folder() as folder:
        ways = Ways(folder)
        original = folder / "original"
        support.take(folder, "loader/start/headers", original.name)
        ways.check_passes(original)
        wrong, ended = "", []
        for name, image in more_loads(original) if kind == "load" else variants(original, kind):
            one, status = ways.compare(name, image)
            wrong += one
            ended.append(status)
    print(f"{len(ended)} variants, {ended.count(7)} of which run")
    check(ended.count(7) >= 4, "hardly any variant runs plainly")
    check(not wrong, wrong)


if __name__ == "__main__":
    main()
