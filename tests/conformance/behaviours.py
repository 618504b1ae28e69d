#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One behaviour of a dynamic loader, under the host loader and under mvld.

behaviours/NAME.c is a program and its libraries in one file.  Its opening comment says
what is built of it and how it is run:

  file: PATH TEXT          a file that is written
  build: PATH FLAG…        an object, compiled from the file with -DPART_<name of PATH>;
                           a shared library when the name ends in .so
  passes: NAME…            the pipelines it is run with (default: none, and each
                           pass that was built)
  needs: 2.35              the glibc below which it cannot be compared; why is said there
  run: [program=PATH] [NAME=VALUE…] [direct OPTION…]

A file of Rust is one program, and needs no "build".

$D is the folder of all that, and $ORIGIN stays as it is.  The interpreter of each program
is a link that leads to the host loader or to mvld: so both run the same file, and every
path that is printed is the same.  Each run is done through that link as PT_INTERP;
with "direct", and once for each file in any case, as `loader OPTION… program`.

A failure means that a program can tell mvld from the host loader by this behaviour:
standard output, standard error (addresses apart) and exit status must be equal.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402


def directives(source):
    """{word: [rest of the line]} of the opening comment."""
    found = {"file": [], "build": [], "passes": [], "needs": [], "run": []}
    for line in source.read_text().splitlines():
        match = re.match(r"(?: \*|//) (\w+):(.*)", line)
        if match and match[1] in found:
            found[match[1]].append(match[2].strip())
        if line == " */":
            break
    support.check((found["build"] or source.suffix == ".rs") and found["run"], f"{source}: nothing to build or to run")
    return found


def build_rust(folder, source):
    if not shutil.which("rustc"):
        support.skip("rustc is missing")
    # Debian 12's compiler (1.63) has parts of the library that are stable since, with a feature.
    done = subprocess.run(["rustc", "-O", "-Astable-features", "-o", folder / "program", source,
                           f"-Clink-arg=-Wl,--dynamic-linker={folder}/ld.so"], cwd=folder,
                          env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, capture_output=True, text=True, timeout=100)
    support.check(done.returncode == 0, done.stderr)


def build(folder, source, lines):
    if source.suffix == ".rs":
        return build_rust(folder, source)
    compiler = "g++" if source.suffix == ".cc" else support.CC
    for line in lines:
        name, *flags = line.replace("$D", str(folder)).split()
        part = re.sub(r"\W", "_", Path(name).name.removeprefix("lib").removesuffix(".so"))
        output = folder / name
        output.parent.mkdir(exist_ok=True)
        program = not name.endswith(".so")
        if program:
            flags = ["-DPART_program", f"-Wl,--dynamic-linker={folder}/ld.so",
                     f"-Wl,-rpath-link,{folder}", *flags]
        else:
            flags = ["-shared", "-fPIC", f"-DPART_{part}", *flags]
        command = [compiler, "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE",
                   "-o", str(output), str(source), *flags, "-ldl"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        support.check(done.returncode == 0, f"{' '.join(command)}\n{done.stderr}")


def parse_run(folder, line):
    """(program, environment, direct?, options of the loader)."""
    words = shlex.split(line.replace("$D", str(folder)))
    program, environment = "program", {}
    while words and "=" in words[0] and words[0] != "direct":
        name, _, value = words.pop(0).partition("=")
        if name == "program":
            program = value
        else:
            environment[name] = value.replace(";", " ")
    direct = bool(words) and words.pop(0) == "direct"
    return program, environment, direct, words


def normal(text, folder):
    """Addresses differ from run to run under one loader, too.  The loader in the list of
    objects is the host loader in either case; under mvld it is listed by its own path,
    under which debuggers find it, not by that of PT_INTERP."""
    text = re.sub(r"\b(0x)?[0-9a-f]{12,16}\b", "ADDRESS", text)
    text = re.sub(rf"{folder}/ld\.so\b|{support.HOST_LOADER}", "LOADER", text)
    return re.sub(r"(audit .*)(ld\.so|ld-linux-x86-64\.so\.2)", r"\1LOADER", text)


def passes_built():
    return sorted(p for p in (support.BUILD / "passes").glob("*/*.so")
                  if not p.name.startswith("lib"))


class Bench:
    def __init__(self, folder):
        self.folder, self.link = folder, folder / "ld.so"

    def configure(self, passes, keys="", options=""):
        """The environment that gives a program this pipeline; `keys` of [app], `options` of concat."""
        config = self.folder / "mvld.conf"
        config.write_text(f"[app]\nmatch = *\npasses = {', '.join(passes)}\n{keys}" +
                          (support.COPY + options) * ("concat" in passes))
        return {"MVLD_CONFIG": str(config),
                "MVLD_PASS_PATH": ":".join(str(p.parent) for p in passes_built())}

    def run(self, loader, line, passes):
        program, environment, direct, options = parse_run(self.folder, line)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(loader)
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C",
                       "LD_LIBRARY_PATH": str(self.folder), **environment}
        if passes:
            environment = {**self.configure(passes), **environment}
        path = str(self.folder / program)
        command = [str(self.link), *options, path] if direct else [path]
        try:
            done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=30)
        except subprocess.TimeoutExpired:
            support.check(loader != support.HOST_LOADER, f"the host loader itself hangs: {line}")
            return "no end within 30 s"
        support.check(loader != support.HOST_LOADER or done.returncode >= 0,
                      f"under the host loader itself: signal {-done.returncode}: {line}")
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return normal(f"{out}--- standard error\n{err}--- status {done.returncode}\n", self.folder)

    def check_in_place(self, line, passes):
        """What is compared must have run under mvld, with that pipeline."""
        said = self.run(support.LOADER, f"MVLD_DEBUG=files,passes {line}", passes)
        support.check("hooked: " in said and "untransformed" not in said and "; nothing to do" not in said,
                      f"does not run under mvld with {passes}:\n{said}")


def compare(source, bench_of=Bench, pipelines=None):
    """Builds and runs one file.  `pipelines` are tried in the place of those that it names."""
    found = directives(source)
    for version in found["needs"]:
        if support.GLIBC < tuple(map(int, version.split("."))):
            support.skip(f"{source.stem} needs glibc {version}")
    if pipelines is None:
        wanted = " ".join(found["passes"]).split() or ["none", *(p.stem for p in passes_built())]
        pipelines = [[] if name == "none" else [name] for name in wanted]
    runs = found["run"]
    if not any("direct" in line for line in runs):
        runs.append(f"{runs[0]} direct")
    different = 0
    with support.scratch_folder() as folder:
        for line in found["file"]:
            name, _, text = line.partition(" ")
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        build(folder, source, found["build"])
        bench = bench_of(folder)
        for passes in pipelines:
            bench.check_in_place(runs[0], passes)
        for line in runs:
            expected = bench.run(support.HOST_LOADER, line, [])
            print(f"run: {line}\n{expected}")
            for passes in pipelines:
                got = bench.run(support.LOADER, line, passes)
                if got != expected:
                    different += 1
                    print(f"=== under mvld with {', '.join(passes) or 'no pass'}:\n{got}")
    support.check(not different, f"{different} runs differ from those under the host loader")


def main():
    support.need(support.LOADER)
    compare(Path(sys.argv[1]).resolve())


if __name__ == "__main__":
    main()
