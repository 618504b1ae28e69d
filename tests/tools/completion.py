# SPDX-License-Identifier: MIT
"""completion.py SHELL FILE MVLD: the shell completes every subcommand and option that --help names, the names
of passes, and files.

A failure means that Tab knows less of mvld than mvld does.
"""
import os
import re
import shutil
import sys
from pathlib import Path

from support import check, contains, equal, finish, run, scratch, skip

shell = sys.argv[1]
file, mvld = map(os.path.abspath, sys.argv[2:4])
if not shutil.which(shell):
    skip(f"there is no {shell}")

# What each shell offers for the words behind `complete`, a line each.
SCRIPTS = {
    "bash": '''source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mvld "$1"
               [[ ${#COMPREPLY[@]} -eq 0 ]] && compgen -f -- "${COMP_WORDS[COMP_CWORD]}" || printf "%s\\n" "${COMPREPLY[@]}"''',
    "zsh": '''file=$1; shift; words=("$@"); CURRENT=$#
              _describe() { print -l -- ${${(P)2}%%:*} }; _command_names() { print -l -- ${(k)commands} }
              _files() { print -l -- *(N) }
              complete() { source $file }; complete''',
    "fish": 'source $argv[1]; complete -C (string join " " -- (string escape -- $argv[2..-1]))',
}
before = ["--no-config"] if shell == "fish" else ["-f"] if shell == "zsh" else ["--norc", "--noprofile"]


def completed(*words, **more):
    """What is offered; in a shell of fish's the command must be found by its name."""
    path = f"{os.path.dirname(mvld)}:{os.environ['PATH']}"
    arguments = ["-c", SCRIPTS[shell], *([] if shell == "fish" else [shell]), file, "mvld", *words]
    code, out, err = run(shell, *before, *arguments, env={"PATH": path}, **more)
    equal(err, "", f"no complaint of {words}")
    return {line.split("\t")[0] for line in out.splitlines()}


subcommands = re.findall(r"^  (\S+) ", run(mvld, "--help")[1], re.M)
check(len(subcommands) >= 15, "--help lists subcommands")
missing = {*subcommands, "--help", "--version"} - (completed("") | completed("-"))
equal(missing, set(), "subcommands that are not offered")
for subcommand in subcommands:
    options = set(re.findall(r"^  (--?[a-z0-9-]+)", run(mvld, subcommand, "--help")[1], re.M))
    equal(options - completed(subcommand, "-"), set(), f"options of {subcommand} that are not offered")
check(str(os.getpid()) in completed("status", "-p", ""), "processes")
equal({"list", "verify", "prune"} - completed("cache", ""), set(), "what cache does")
check("count" in completed("run", "--pass", ""), "the names of passes")
equal({"wrapper", "unit", "set-interp"} - completed("enable", "--by", ""), set(), "the ways of enable")
check("cat" in completed("run", "ca"), "programs")
with scratch() as folder:
    (Path(folder) / "one.conf").write_text("")
    check("one.conf" in completed("run", "--config", "", cwd=folder), "files behind an option that takes one")
    check("one.conf" in completed("show", "o", cwd=folder), "files")
finish()
