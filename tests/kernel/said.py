#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which lines of a guest's log kernel/build.py takes for a failure: those about the kernel, not those about what its
processor lacks.

    said.py SOURCE
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1]) / "kernel"))
import build  # noqa: E402

RETBLEED, SRSO = (f"[    0.041327] {sentence}" for sentence in build.MITIGATIONS)
OTHERS = ["[    1.734502] WARNING: CPU: 0 PID: 1 at kernel/jump_label.c:73 __jump_label_patch+0x1a/0x30",
          "[   12.000001] WARNING: possible circular locking dependency detected",
          "[    0.500000] WARNING: WARNING: bad lookup idx: idx=1 num=2 ip=start_kernel+0x1/0x2",
          "[    0.041327] RETBleed: WARNING: kernel not compiled with MITIGATION_UNRET_ENTRY.",
          "[    0.041327] ITS: WARNING: ITS mitigation depends on retpoline and rethunk support",
          RETBLEED + "[    1.734502] WARNING: CPU: 0 PID: 1 at mm/slub.c:1",  # two processors say something at once
          "[    3.100000] BUG: spinlock already unlocked on CPU#0, cat/77"]


def main():
    # As text that came through a serial line, behind what says nothing.
    fine = "\r\n".join(["[    0.000000] Linux version 6.1.192", "[    0.041321] RETBleed: Vulnerable", RETBLEED, SRSO, ""])
    assert build.warning(fine) is None, build.warning(fine)
    for line in OTHERS:
        assert build.warning(fine + line + "\r\n") == line, (line, build.warning(fine + line))
        assert build.warning(line + "\r\n" + fine) == line, line


if __name__ == "__main__":
    main()
