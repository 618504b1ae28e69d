# SPDX-License-Identifier: MIT
"""The table of a run of stock_programs.py, for people: one row a case."""
import datetime
import os
import platform
import subprocess

HEAD = """\
<!-- Written by `./dev programs --table FILE`; do not edit. -->
# Stock programs under mvld

Each case runs twice in private namespaces: under the plain `ld.so`, and with mvld in the place of
`/lib64/ld-linux-x86-64.so.2` for every process in it. *equal* means: the same output (stdout and stderr)
and the same exit status, and the kernel was seen to start the programs in question with mvld, and
those to open each pass of the pipeline, or a snapshot. *scatters*: it differs, and so do two plain
runs. *started* counts these starts, children included.

With `--large` each configuration runs a case twice, four times where programs learn, and from the second
time on they must open an image. Of glib's and CPython's tests, those that take long under the plain
loader, too, are left out: `stock/suites.py` names them, and says why.

"""


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                          capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else "?"


def machine():
    with open("/etc/os-release") as file:
        names = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    debian = names.get("PRETTY_NAME", "?").strip('"')
    try:
        with open("/etc/debian_version") as file:
            debian += f" ({file.read().strip()})"
    except OSError:
        pass
    return (f"{datetime.date.today():%-d %B %Y}, {debian}, glibc {version('libc6')}, "
            f"Linux {platform.release().split('-')[0]}, {os.cpu_count()} CPUs")


def cell(result):
    if result is None or result.state == "absent":
        return "not run"
    if result.state == "equal":
        return "equal"
    return f"**{result.state}** ({result.plain_status} / {result.status})"


def markdown(cases, results):
    """results: configuration -> case name -> Result."""
    configurations = list(results)
    lines = [HEAD + machine() + ".\n", summary(cases, results) + "\n"]
    lines.append("| case | package | version | what runs | lines | started | "
                 + " | ".join(configurations) + " |")
    lines.append("| --- | --- | --- | --- | --- | --- |" + " --- |" * len(configurations))
    for case in cases:
        row = [results[name].get(case.name) for name in configurations]
        ran = next((r for r in row if r and r.state != "absent"), None)
        lines.append(f"| {case.name} | {case.packages[0]} | {version(case.packages[0])} | "
                     f"{case.what} | {ran.lines if ran else ''} | "
                     f"{len(ran.started) if ran else ''} | " + " | ".join(map(cell, row)) + " |")
    notes = [f"- {case.name}, {name}: {result.detail.splitlines()[0]}"
             for name in configurations for case in cases
             if (result := results[name].get(case.name)) and result.state != "equal"]
    if notes:
        lines += ["", "What is not *equal*, and why:", "", *notes]
    return "\n".join(lines) + "\n"


def summary(cases, results):
    parts = []
    for name, of in results.items():
        states = [result.state for result in of.values()]
        counted = [f"{states.count(s)} {s}" for s in ("equal", "different", "scatters", "broken")
                   if s == "equal" or states.count(s)]
        if states.count("absent"):
            counted.append(f"{states.count('absent')} not run")
        parts.append(f"{name}: {', '.join(counted)} of {len(cases)}")
    return "; ".join(parts) + "."
