#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles constants.c with the plugin, and runs it."""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import support  # noqa: E402

with support.scratch_folder() as folder:
    program = Path(folder) / "constants"
    support.compile_c(program, "-O2", "-fPIE", "-pie", HERE / "constants.c",
                      support.LIBRARY.parent / "library" / "libmultiverse.a")
    sys.exit(subprocess.run([program], timeout=300).returncode)
