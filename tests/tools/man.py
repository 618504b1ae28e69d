# SPDX-License-Identifier: MIT
"""The man pages are well-formed, and say something about every subcommand,
option, debug word, function and pass option that there is.

A failure means that a page was not changed with what it describes.
"""
import json
import os
import re
import shutil
import sys
from pathlib import Path

from support import check, contains, equal, finish, run, skip

mvld, loader, include = map(os.path.abspath, sys.argv[1:4])
pages = {Path(p).name: Path(p) for p in sys.argv[4:]}
if not shutil.which("groff"):
    skip("no groff: apt-get install groff-base")

text = {}
for name, page in pages.items():
    code, out, err = run("groff", "-ww", "-mandoc", "-Tascii", "-P-c", "-rLL=200n", page)
    equal((code, err), (0, ""), f"{name} is well-formed")
    text[name] = re.sub(".\b", "", out)  # overstrikes
    for reference, section in re.findall(r"^\.Xr (\S+) (\d)", page.read_text(), re.M):
        if reference.startswith(("mvld", "multiverse", "ld-mvld")):
            check(f"{reference}.{section}" in pages, f"{name}: {reference}({section}) exists")

subcommands = re.findall(r"^  (\S+) ", run(mvld, "--help")[1], re.M)
check(len(subcommands) >= 6, "mvld --help lists the subcommands")
for subcommand in subcommands:
    contains(text["mvld.1"], f"mvld {subcommand}", "mvld.1")
    code, out, err = run(mvld, subcommand, "--help")
    equal((code, err), (0, ""), f"mvld {subcommand} --help")
    for option in set(re.findall(r"--[a-z0-9-]+", out)):
        contains(text["mvld.1"], option, f"mvld.1 on {subcommand}")
    codes = re.findall(r"\d+", out.partition("Exit code: ")[2])
    check("2" in codes, f"mvld {subcommand} --help says its exit codes")
    statuses = pages["mvld.1"].read_text().partition(".Sh EXIT STATUS\n")[2].partition("\n.Sh ")[0]
    entry = re.search(rf"^\.It Cm {subcommand}\n((?!\.It|\.El).*\n)*", statuses + "\n", re.M)
    equal({*codes} - {"0", "2"} - {*re.findall(r"\d+", entry[0] if entry else "")}, set(),
          f"exit codes of {subcommand} that mvld.1 does not have")
    section = re.split(rf"^\.Ss mvld {subcommand}$", pages["mvld.1"].read_text(), flags=re.M)
    for option in re.findall(r"^\.It Fl Fl (\S+)", re.split(r"^\.S[sh] ", section[-1], flags=re.M)[0], re.M):
        contains(out, f"--{option}", f"mvld {subcommand}, of which mvld.1 says that it is there")

# What --json says, as far as the sources name it.
named = " ".join(re.findall(r"^\.Va (.*)$", pages["mvld.1"].read_text() + pages["mvld-restore.8"].read_text(), re.M)).split()
fields = {name for file in (Path(__file__).parents[2] / "tools").rglob("*.c")
          for name in re.findall(r'json_\w+\([\w.&>-]+, "([\w-]+)"', file.read_text())}
check({"lacks", "trouble", "ratio_ppm"} <= fields, f"the tools' JSON has the fields {fields}")
equal(sorted(fields - set(named)), [], "fields of JSON that mvld.1 does not name")

words = re.findall(r"^  (\w+) ", run(loader, "/bin/true", env={"MVLD_DEBUG": "help"})[1], re.M)
check("passes" in words, "MVLD_DEBUG=help lists words")
for word in words:
    check(re.search(rf"^ +{word}\b", text["ld-mvld.so.8"], re.M), f"ld-mvld.so.8 on {word}")

header = (Path(include) / "multiverse.h").read_text()
functions = set(re.findall(r"\b(multiverse_\w+)\(", header))
check("multiverse_commit" in functions, "multiverse.h declares functions")
for function in functions:
    contains(text["multiverse.3"], function, "multiverse.3")
errors = re.findall(r"^ \*     (E[A-Z]+) ", header, re.M)
check("EINVAL" in errors, "multiverse.h lists errors")
for error in errors:
    contains(text["multiverse.3"], error, "multiverse.3")

passes = {p["name"]: p for p in json.loads(run(mvld, "passes", "--json")[1])}
for option in passes["multiverse"]["options"]:
    contains(text["multiverse.7"], option["name"], "multiverse.7")
for name in ("concat", "direct-calls"):
    for option in passes[name]["options"]:
        contains(text[f"mvld-{name}.7"], option["name"], f"mvld-{name}.7")
finish()
