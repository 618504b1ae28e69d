# SPDX-License-Identifier: MIT
"""All cases, in the order in which they run."""
from stock import (compilers, databases, debuggers, languages, network, processes, rights, shells,
                   tools)

CASES = [*shells.CASES, *languages.CASES, *compilers.CASES, *databases.CASES, *network.CASES,
         *tools.CASES, *processes.CASES, *rights.CASES, *debuggers.CASES]
