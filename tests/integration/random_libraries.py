#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""random_libraries.py [--seed N] [--programs N] [--keep FOLDER]: random programs of several libraries, which call
each other in the ways that compilers and linkers know (random/parts.h, random/main.h): through PLT and GOT, pointers
in tables, tail calls, jump tables, IFUNCs, exceptions, longjmp; with thread-local and shared variables; in handlers,
coroutines, children, threads, and libraries opened at run time.  Each library has its own compiler, linker and
options.  Functions ask switches, which the program changes and commits.

Each program is built twice, without the multiverse plugin and with it, and run plainly; then the latter under each
pipeline: in the process, from a snapshot, and with what it opens learnt.  A failure means that output or status are
not those of the plain program.  It names the seed, which makes the same program again."""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import support  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PASS_PATH = ":".join(str(support.BUILD / "passes" / name) for name in ("direct-calls", "concat", "multiverse"))
PIPELINES = ["", "direct-calls", "concat", "direct-calls, concat, multiverse", "multiverse, concat, direct-calls"]
SWITCHES = ["int|multiverse", "bool|multiverse", "unsigned char|multiverse", "long|multiverse",
            'int|multiverse("values", 1, 3, 5)', 'long|multiverse("constant")']

# $f: any function; $l: a library's number; $n: a number; $e: an expression; $s: a switch; $i: this library; $t: the
# size of its table; $u: a number that occurs once.
EXPRESSIONS = ["x + $n", "x * ($n | 1) + 7", "x ^ (x >> 9)", "(x << 3) - x", 'x + strlen("abc" + (x & 3))',
               "x + (u64)toupper((int)(x & 127))"]
STATEMENTS = [
    "x = $e;",
    "x = $f(d - 1, $e);",
    "x = $f(d - 1, $e);",
    "return $f(d - 1, x + $n);",
    "{ function *volatile p = $f; x = p(d - 1, x) + (p == $f); }",
    "x += table[x % $t](d - 1, x);",
    "if (table[0] == $f) x ^= $n; else x = $e;",
    "switch (x % 11) { case 0: x = $f(d - 1, x); break; case 1: x++; break; case 2: x = $e; break; "
    "case 3: x = $f(d - 2, x + 3); break; case 4: x ^= 9; break; case 6: x -= $n; break; default: x += 5; }",
    "for (int q = 0; q < (int)(x & 3) + 1; q++) x += $f(d - 2, x + q);",
    "local_$l += x & 7; x += local_$l;",
    "if (!quiet) global_$l += x & 3; x ^= 3;",
    "x = variadic_$l(3, x, (u64)$n, (double)(x & 255));",
    "{ jmp_buf back; volatile u64 y = x; if (!setjmp(back)) jump_$l(back, d); x = y + 5; }",
    "{ u64 v[9]; for (int q = 0; q < 9; q++) v[q] = x * (q + 3) % 101; qsort(v, 9, sizeof *v, order_$l); x += v[4]; }",
    "{ void *frames[64]; x += backtrace(frames, 64) > 0; }",
    "x += chosen_$l((int)x & 255);",
    "{ large l = {x, 1, 2, (double)(x & 63)}; l = by_value_$l(l, 1.5, d); x += l.a ^ (u64)l.d; }",
    "if (absent) x += absent(); else x += 11;",
    "x += hidden_$i((int)x & 255) + protected_$l((int)x & 255);",
    '{ const unsigned char *p; '
    '__asm__("lea 2f(%%rip), %0\\n jmp 3f\\n2: .byte 0xe8,1,2,3,4,0xc3\\n3:" : "=r"(p)); x += p[2]; }',
    "x += call_back(d, x, $f);",
    '{ Dl_info info; x += dlsym(RTLD_DEFAULT, "entry") != NULL || dladdr((void *)$f, &info); }',
    "if ($s) x = $f(d - 1, x + $n); else x += 3;",
    "if ($s == $n % 5) x ^= $n;",
    "switch ((int)$s) { case 0: x++; break; case 1: x = $f(d - 1, x); break; case 3: x ^= 77; break; "
    "default: x += 2; }",
    "for (int q = 0; q < 3; q++) if ($s > 2) x = x * 5 + $f(d - 2, x);",
    "x += (u64)$s * 3;",
]
ONLY_C = ["{ static const void *const labels[] = {&&a_$u, &&b_$u, &&c_$u}; goto *labels[x % 3]; "
          "a_$u: x += 5; b_$u: x = $f(d - 1, x); c_$u: x ^= 9; }"]
ONLY_CXX = ["try { guard g{&x}; x = $f(d - 1, x); throws_$l((int)(x & 3)); x += 2; } "
            "catch (const std::runtime_error &e) { x += strlen(e.what()); } catch (int e) { x += (u64)e; }"]
ACTIONS = [  # $r: a random number of calls, $p: a library to open, $v: a value
    'budget = $r; x = $f(6, x); printf("$f %llx\\n", (unsigned long long)x);',
    'budget = $r; x = $f(4, x); printf("$f %llx\\n", (unsigned long long)x);',
    "$s = $v; commit();",
    "$s = $v; commit();",
    "revert(); $s = $v; commit();",
    "in_coroutine();",
    "in_child(x);",
    'raise(SIGUSR1); printf("handled %llx\\n", (unsigned long long)handled);',
    'x = in_library("./$p", RTLD_NOW, true, x);',
    'x = in_library("./$p", RTLD_LAZY | RTLD_GLOBAL, false, x);',
    "WHILE_THREADS_CALL($s = i % 4; commit())",
]

COMPILER_OPTIONS = ["-fno-plt", "-fcf-protection=full", "-fcf-protection=none", "-ffunction-sections",
                    "-fno-jump-tables", "-fstack-protector-all", "-fomit-frame-pointer",
                    "-fno-semantic-interposition", "-mtune=atom", "-mno-red-zone", "-fstack-clash-protection"]
GCC_OPTIONS = ["-mtls-dialect=gnu2", "-fipa-pta", "-fpatchable-function-entry=8,2", "-funroll-all-loops",
               "-falign-functions=1", "-Wa,-mbranches-within-32B-boundaries"]
LINKER_OPTIONS = ["-z,now", "-z,lazy", "-Bsymbolic-functions", "-Bsymbolic", "--gc-sections", "--hash-style=sysv",
                  "--hash-style=both", "-z,norelro", "--emit-relocs", "-s", "-z,max-page-size=0x200000", "-z,nodelete",
                  "-z,noseparate-code", "--icf=safe", "--version-script=versions"]
LINKERS = [name for name in ("gold", "lld", "mold") if shutil.which(f"ld.{name}")]


class Library:
    """kind: "linked", "opened", or "program"."""
    def __init__(self, r, number, kind):
        self.number, self.kind = number, kind
        self.cxx = r.random() < .35
        self.clang = bool(shutil.which("clang")) and r.random() < .3
        self.functions = [f"f_{number}_{i}" for i in range(r.randint(3, 9))]
        self.file = "program" if kind == "program" else f"lib{number}.so"
        self.source = f"{number}.{'cc' if self.cxx else 'c'}"
        self.compiler = {(0, 0): "gcc", (1, 0): "g++", (0, 1): "clang", (1, 1): "clang++"}[self.cxx, self.clang]


class Program:
    def __init__(self, seed):
        self.r = r = random.Random(seed)
        self.linked = [Library(r, i, "linked") for i in range(r.randint(2, 6))]
        self.opened = [Library(r, 50 + i, "opened") for i in range(r.randint(1, 3))]
        self.main = Library(r, 99, "program")
        self.switches = [(f"switch_{i}", *r.choice(SWITCHES).split("|")) for i in range(r.randint(1, 5))]
        self.varied = {f: r.choice(["", "", '("inline")']) for l in self.libraries() for f in l.functions
                       if r.random() < .5}
        self.unique = 0

    def libraries(self):
        return [*self.linked, *self.opened, self.main]

    def fill(self, template, own, table=1):
        """The template with something random for each name in it."""
        r = self.r
        self.unique += 1

        def one(match):
            key = match[1]
            return {"f": lambda: r.choice([f for l in self.linked for f in l.functions] +
                                          (own.functions if own.kind == "opened" else [])),
                    "l": lambda: str(r.choice(self.linked).number), "n": lambda: str(r.randint(1, 1 << 20)),
                    "e": lambda: self.fill(r.choice(EXPRESSIONS), own), "s": lambda: r.choice(self.switches)[0],
                    "i": lambda: str(own.number), "t": lambda: str(table), "u": lambda: str(self.unique),
                    "r": lambda: str(r.randint(50, 3000)), "p": lambda: r.choice(self.opened).file,
                    "v": lambda: str(r.randint(0, 5))}[key]()

        return re.sub(r"\$(\w)", one, template)

    def function(self, own, name, table):
        r = self.r
        labels = ONLY_C if not own.cxx and not own.clang and name not in self.varied else []
        choice = STATEMENTS + (ONLY_CXX if own.cxx else labels) * 2
        body = [self.fill(r.choice(choice), own, table) for _ in range(r.randint(1, 9))]
        return "\n    ".join([f"LINKED u64 {name}(int d, u64 x);\nu64 {name}(int d, u64 x)\n{{",
                              f"if (d <= 0 || --budget < 0) return x + {r.randint(1, 99)};", *body, "return x;\n}"])

    def text(self, own):
        r = self.r
        known = self.linked + ([] if own.kind == "linked" else [own])
        # First types and declarations, then, with NUMBER, definitions.
        lines = ['#include "parts.h"', *(f"DECLARE({l.number})" for l in known)]
        for name, kind, attribute in self.switches:
            lines.append(f"LINKED __attribute__(({attribute})) {kind} {name};")
            if own is self.linked[0]:
                lines.append(f"__attribute__(({attribute})) {kind} {name} = {r.randint(0, 1)};")
        for library in known:
            lines += [f"LINKED __attribute__((multiverse{self.varied[f]})) u64 {f}(int, u64);" if f in self.varied
                      else f"LINKED u64 {f}(int, u64);" for f in library.functions]
        reach = [f for l in self.linked for f in l.functions] + (own.functions if own.kind == "opened" else [])
        table = [r.choice(reach) for _ in range(r.randint(2, 7))]
        lines += [f"#define NUMBER {own.number}", f"#define OTHER {r.choice(self.linked).number}",
                  f'#define CHOOSE "choose_{own.number}"', '#include "parts.h"']
        lines += [f"static function *{r.choice(['', 'const '])}table[] = {{{', '.join(table)}}};"]
        lines += [self.function(own, f, len(table)) for f in own.functions]
        for when, chance in ("constructor", .5), ("destructor", .3):
            if r.random() < chance:
                call = f"(unsigned long long){r.choice(own.functions)}(2, 9)"
                lines.append(f"__attribute__(({when})) static void at_{when}(void)\n{{\n"
                             f'    printf("{when} {own.number} %llx\\n", {call});\n}}')
        if own.kind == "opened":
            lines.append("LINKED u64 entry(int, u64);\nu64 entry(int depth, u64 x)\n{\n    static u64 times;\n"
                         f"    return {own.functions[0]}(depth, x + times++);\n}}")
        if own.kind == "program":
            actions = [self.fill(r.choice(ACTIONS), own) for _ in range(r.randint(8, 18))]
            lines += [f"#define ANY {r.choice(reach)}", '#include "main.h"',
                      "int main(void)\n{\n    u64 x = 1;\n    begin();",
                      *(f"    {action}" for action in actions), "    return (int)x & 31;\n}"]
        return "\n".join(lines) + "\n"

    def command(self, own, plain):
        """The compiler's command line; the plainest, if the other failed."""
        r = self.r
        shared = own.kind != "program"
        options = ["-O2"] if plain else [r.choice(["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"])]
        link = []
        if not plain:
            options += [o for o in COMPILER_OPTIONS + ([] if own.clang else GCC_OPTIONS) if r.random() < .1]
            link += [f"-Wl,{o}" for o in LINKER_OPTIONS if r.random() < .1]
            linker = r.choice(LINKERS) if LINKERS and r.random() < .4 else ""
            link += [f"-fuse-ld={linker}"] if linker else []
            if linker == ("lld" if own.clang else "") and r.random() < .1:
                options.append("-flto")  # others make an empty library of it
            if not linker and r.random() < .2:  # others lack the version without which glibc refuses it
                link.append("-Wl,-z,pack-relative-relocs")
        pie = r.random() < .7
        options += ["-fPIC", "-shared"] if shared else ["-fPIE", "-pie"] if pie else ["-fno-pie", "-no-pie"]
        libraries = [l.file for l in (self.linked if not shared else self.linked[:own.number][:1])]
        return [own.compiler, "-w", f"-I{HERE / 'random'}", *options, "-o", own.file, own.source, "-Wl,--no-as-needed",
                *libraries, *link, "-Wl,--build-id,-rpath,$ORIGIN", *([] if shared else ["-rdynamic", "-pthread"]),
                "-lstdc++", "-lm", *support.LIBC]

    def make(self, folder):
        """Both builds; an error message, or None."""
        varied = folder / "varied"
        varied.mkdir()
        for library in self.libraries():
            text = self.text(library)
            for where in folder, varied:
                (where / library.source).write_text(text)
                (where / "versions").write_text("VERSION { *; };\n")
            for attempt in range(4):
                command = self.command(library, attempt == 3)
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                if not done.returncode:
                    break
            plugin = [] if library.clang or not support.PLUGIN.exists() else [f"-fplugin={support.PLUGIN}"]
            again = subprocess.run([command[0], *plugin, *command[1:]], cwd=varied, capture_output=True, text=True)
            if done.returncode or again.returncode:
                return f"{' '.join(command)}\n{done.stderr[-2000:]}{again.stderr[-2000:]}"
        return None


def run(command, folder, **environment):
    """(status, standard output, standard error without glibc's advice about IFUNCs.)"""
    done = subprocess.run([str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          env=support.clean_environment(**environment), timeout=120)
    said = b"".join(line for line in done.stderr.splitlines(True) if b": Relink `" not in line)
    return done.returncode, done.stdout, said


def compare(folder, r):
    """What differs from the plain program: [(how, expected, found)]."""
    varied, differences = folder / "varied", []
    now = r.choice([{}, {"LD_BIND_NOW": 1}])
    environment = {"XDG_CACHE_HOME": folder / "cache", "MVLD_PASS_PATH": PASS_PATH, **now}
    expected = run(["./program"], folder, **now)
    support.analyze(folder / "cache", varied / "program", *varied.glob("lib*.so"),
                    "/lib/x86_64-linux-gnu/libc.so.6")

    def one(how, found):
        if found != expected:
            differences.append((how, expected, found))

    one("plainly, with the plugin", run(["./program"], varied, **now))
    for passes in PIPELINES:
        config = folder / "config"
        text = f"[app]\nmatch = *\npasses = {passes}\n" + (support.COPY if "concat" in passes else "")
        if "multiverse" in passes and r.random() < .5:
            text += "[multiverse]\ncommit = before-constructors\n"
        config.write_text(text)
        ours = dict(environment, MVLD_CONFIG=config)
        start = [MVLD, "run", "--loader", support.LOADER, "--", "./program"]
        one(f"{passes}: in the process", run(start, varied, **ours))
        if passes:
            run([MVLD, "build", "--loader", support.LOADER, "--", "./program"], varied, **ours)
            one(f"{passes}: from a snapshot", run(start, varied, **ours))
            run([MVLD, "build", "--run", "--loader", support.LOADER, "--", "./program"], varied, **ours)
            one(f"{passes}: learnt", run(start, varied, **ours))
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    support.need(support.LOADER, MVLD)
    failed = ran = 0
    for seed in range(given.seed, given.seed + given.programs):
        with support.scratch_folder() as folder:
            program = Program(seed)
            problem = program.make(folder)
            differences = [] if problem else compare(folder, program.r)
            ran += not problem
            if problem or differences:
                failed += 1
                print(f"seed {seed}: {problem or ''}", file=sys.stderr)
                for how, expected, found in differences:
                    print(f"  {how}: {found[0]} instead of {expected[0]}\n{expected[1][-300:]}\n{found[1][-300:]}"
                          f"\n{expected[2][-300:]}{found[2][-300:]}", file=sys.stderr)
                if given.keep:
                    shutil.copytree(folder, given.keep / f"seed-{seed}", symlinks=True)
    print(f"{ran} programs of {given.programs}, {failed} wrong")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
