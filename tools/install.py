#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""install.py LIST [FOLDER FILE]...: puts each FILE into FOLDER, below $DESTDIR, as one step.

`meson install` runs this for what programs depend on while they start: the loader, the passes and their
libraries.  A file is written aside, synced and renamed over the old one.  A program that starts meanwhile
has the old file or the new one, whole; one that runs keeps its own; a killed installation truncates
nothing.  A file with the same content stays the same file.

What was put where is added to LIST, for `./dev uninstall`.  `ninja uninstall` does not know these files, so
it takes no program's loader away.  An earlier version's file whose place is now in a folder below becomes a link
to the new one, because programs may name it; `./dev uninstall` removes it, too.
"""
import os
import sys
from pathlib import Path


def put_link(to, target):
    aside = to.with_name(f".{to.name}.new")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.rename(to)


def put(source, folder):
    content, to = source.read_bytes(), folder / source.name
    mode = 0o755 if os.access(source, os.X_OK) else 0o644
    aside = folder / f".{source.name}.new"
    aside.unlink(missing_ok=True)  # of a killed installation
    if to.is_file() and not to.is_symlink() and to.stat().st_mode & 0o7777 == mode and to.read_bytes() == content:
        return
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(to)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def main():
    listed, words = Path(sys.argv[1]), sys.argv[2:]
    known = listed.read_text().splitlines() if listed.exists() else []
    earlier, present = known[:], [Path(folder, Path(source).name) for folder, source in zip(words[::2], words[1::2])]
    for folder, source in zip(words[::2], words[1::2]):
        to = Path(os.environ.get("DESTDIR", "") + folder)
        if "MESON_INSTALL_QUIET" not in os.environ:
            print(f"Installing {source} to {to}")
        if "MESON_INSTALL_DRY_RUN" in os.environ:
            continue
        to.mkdir(parents=True, exist_ok=True)
        put_link(to / Path(source).name, os.readlink(source)) if Path(source).is_symlink() else put(Path(source), to)
        if "DESTDIR" not in os.environ and f"{folder}/{Path(source).name}" not in known:
            known.append(f"{folder}/{Path(source).name}")
            listed.write_text("\n".join(known) + "\n")
    if "DESTDIR" in os.environ or "MESON_INSTALL_DRY_RUN" in os.environ:
        return
    for old in map(Path, earlier):
        for new in present:
            if old not in present and old.name == new.name and old.parent in new.parents and old.is_file():
                put_link(old, new)


if __name__ == "__main__":
    main()
