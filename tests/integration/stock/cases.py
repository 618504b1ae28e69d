# SPDX-License-Identifier: MIT
"""All cases, in the order in which they run."""
from stock import (browsers, compilers, databases, debuggers, desktop, languages, network, processes,
                   rights, run_times, shells, suites, tools)

CASES = [*shells.CASES, *languages.CASES, *compilers.CASES, *databases.CASES, *network.CASES,
         *tools.CASES, *processes.CASES, *rights.CASES, *debuggers.CASES]
# They need several GB of packages, and hours.
LARGE = [*run_times.CASES, *desktop.CASES, *browsers.CASES, *suites.CASES]
