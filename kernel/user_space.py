# SPDX-License-Identifier: MIT
"""The engine as a kernel has it, compiled for a program in user space."""
import re

from build import ROOM, SOURCE

# As a kernel is compiled, but for its calls through pointers and its returns.
FLAGS = ["-std=gnu11", "-O2", "-mcmodel=kernel", "-fno-pic", "-mno-red-zone", "-mno-mmx", "-mno-sse",
         "-fno-strict-aliasing", "-fno-stack-protector", "-fcf-protection=branch", "-mharden-sls=all"]


def engine():
    """GCC's arguments: the flags, and the engine's files that Kbuild names, without those of kernel/linux."""
    objects = re.findall(r"(\S+/\S+)\.o\b", (ROOM / "linux/Kbuild").read_text())
    files = [SOURCE / f"{name}.c" for name in objects if not name.startswith("kernel/linux")]
    assert len(files) > 15, files
    return [*FLAGS, f"-I{ROOM}/replace", f"-I{SOURCE}", f"-I{SOURCE}/include", *files]
