# SPDX-License-Identifier: MIT
"""packaged.py BUILD SOURCE [FOLDER FILE]...: each file that `meson install` installs, and each FILE that it puts whole
into FOLDER (tools/install.py), is in a package, or debian/not-installed; and each function of libmultiverse is in
debian/libmultiverse1.symbols.

A failure means that the Debian packages cannot be built any more (dh_missing, dpkg-gensymbols), or would lack a file.
"""
import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path

import support

build, source, *whole = map(Path, sys.argv[1:])
if not (source / "debian").is_dir():
    support.skip("there is no debian/")
listed = [line.split()[0] for file in [*source.glob("debian/*.install"), source / "debian/not-installed"]
          for line in file.read_text().splitlines() if line and not line.startswith("#")]
installed = json.loads(subprocess.run(["meson", "introspect", "--installed", build], capture_output=True, check=True).stdout)
options = json.loads(subprocess.run(["meson", "introspect", "--buildoptions", build], capture_output=True, check=True).stdout)
prefix = next(option["value"] for option in options if option["name"] == "prefix")
support.check(whole, "nothing is installed whole")
for path in [*map(Path, installed.values()), *(folder / file.name for folder, file in zip(whole[::2], whole[1::2]))]:
    path = Path("usr") / path.relative_to(prefix) if path.is_relative_to(prefix) else path.relative_to("/")
    support.check(any(fnmatch.fnmatch(at, pattern) for at in [path, *path.parents] for pattern in listed),
                  f"/{path} is in no package: debian/*.install, or debian/not-installed")
exported = set(re.findall(r"^ *(multiverse_\w+);", (source / "passes/multiverse/library/libmultiverse.map").read_text(), re.M))
known = set(re.findall(r"^ (multiverse_\w+)@", (source / "debian/libmultiverse1.symbols").read_text(), re.M))
support.check(exported and exported == known, f"debian/libmultiverse1.symbols differs: {exported ^ known}")
