#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""random_programs.py PLUGIN INCLUDE LIBRARY [--clang PLUGIN] [--seed N] [--programs N] [--rounds N] [--more OPTIONS] [--keep FOLDER]:
generates programs of several objects with switches of all types, variables and members, compared in all ways,
compiles each with the plugin at -O0 to -O3 and -Os, with LTO and as C++, and once without, and
compares what they compute for random values of the switches, before, after and between commits.
Some functions are multiverse("inline"); of these C++ has a copy in each unit.  Others are so small that
the plugin makes inline calls of those in loops by itself.

A failure means wrong code in a variant, a guard that holds for the wrong values or never, or a
variant that believes a switch to have the value of a commit where it reads it anew; or a constant
of which GCC's code does not have the committed value.  It names the seed, which makes the same program again.  With --clang one or two of
the three units are compiled by clang, with its plugin."""
import argparse
import random
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto", "-O1 -x c++", "-O3 -x c++"]
TYPES = {"bool": (0, 1), "char": (-128, 127), "int8_t": (-128, 127), "uint8_t": (0, 255),
         "int16_t": (-2**15, 2**15 - 1), "uint16_t": (0, 2**16 - 1),
         "int32_t": (-2**31, 2**31 - 1), "uint32_t": (0, 2**32 - 1),
         "int64_t": (-2**63, 2**63 - 1), "uint64_t": (0, 2**64 - 1),
         "enum signed_enum": (-2**31, 2**31 - 1), "enum unsigned_enum": (0, 2**32 - 1)}
ENUMERATORS = {"enum signed_enum": [-7, 0, 3, 4, 2**31 - 1],
               "enum unsigned_enum": [0, 1, 6, 2**31, 2**32 - 1]}
HEADER = """
#include <stdbool.h>
#include <stdint.h>
#define MAX_SWITCHES 32
#ifdef __cplusplus
extern "C" {
#endif
enum signed_enum { S_A = -7, S_B = 0, S_C = 3, S_D, S_E = 0x7fffffff };
enum unsigned_enum { U_A, U_B, U_C = 6, U_D = 0x80000000u, U_E = 0xffffffffu };
struct a_switch {
    void *at;
    unsigned width;
    bool is_bool, is_tracked, is_certain; /* a constant that all code has from the last commit */
    unsigned n_candidates, n_domain; /* n_domain 0: every value */
    const int64_t *candidates, *domain;
};
struct a_function {
    const char *name;
    uint64_t (*call)(uint64_t), (*function)(uint64_t);
    bool is_leaf, binds;
    unsigned n_switches;
    unsigned char switches[8];
};
extern const struct a_switch switches[];
extern const struct a_function functions[];
extern const unsigned n_switches, n_functions;
extern uint64_t trace;
#ifdef __cplusplus
}
#define COPIES inline
#else
#define COPIES
#endif
#define MV __attribute__((multiverse))
#define T(n) (trace = trace * 33 + (n))
"""


def literal(value):
    if value > 2**63 - 1:
        return f"{value}u"
    return f"(-{-value - 1} - 1)" if value < 0 else str(value)


class Switch:
    def __init__(self, draw, index):
        self.id = self.name = f"s{index}"
        self.box = None  # the variable that it is a member of
        self.type = draw.choice(list(TYPES))
        self.low, self.high = TYPES[self.type]
        self.values = None
        self.is_constant = draw.random() < 0.2  # of the run time: read as an immediate, without variants
        if draw.random() < 0.35 and not self.is_constant:
            self.values = sorted({self.pick(draw) for _ in range(draw.randint(1, 4))})
        self.tracked = draw.random() < 0.1
        self.constants = {self.low, self.high, min(self.high, 1), 0}

    def pick(self, draw):
        if self.type in ENUMERATORS and draw.random() < 0.7:
            return draw.choice(ENUMERATORS[self.type])
        value = draw.choice([draw.randint(-3, 12), draw.randint(self.low, self.high), self.low,
                             self.high, self.high - 1, self.low + 1, draw.choice([100, 1000, 70000, 2**31])])
        return min(max(value, self.low), self.high)

    def constant(self, draw):
        value = self.pick(draw)
        self.constants |= {v for v in (value - 1, value, value + 1) if self.low <= v <= self.high}
        return value

    def put_in(self, box):
        self.box = box
        self.name = f"{box.name}.{box.inner}{self.id}"

    def declaration(self):
        if self.is_constant:
            tracked = ', "tracked"' if self.tracked else ""
            return f'__attribute__((multiverse("constant"{tracked}))) {self.type} {self.id}'
        words = ["\"values\", " + ", ".join(literal(v) for v in self.values)] if self.values else []
        text = "".join(f"__attribute__((multiverse({w}))) " for w in words) or "MV "
        return text + ('__attribute__((multiverse("tracked"))) ' if self.tracked else "") + f"{self.type} {self.id}"

    def domain(self):
        """The values that must bind; empty: all."""
        if self.is_constant:
            return []
        if self.values:
            return self.values
        return ENUMERATORS.get(self.type, [])


class Box:
    """A structure of which some switches are members, behind a gap and perhaps in another one."""

    def __init__(self, draw, index, members):
        self.name, self.members = f"box{index}", members
        self.gap = draw.choice([0, 1, 5, 120, 300])
        self.inner = draw.choice(["", "in."])
        for member in members:
            member.put_in(self)

    def declaration(self):
        return f"struct {self.name} {self.name}"

    def type(self):
        members = "".join(f"{m.declaration()}; char gap_{m.id};\n" for m in self.members)
        if self.inner:
            members = f"struct {{\n{members}}} in;\n"
        return f"struct {self.name} {{ int plain; char gap[{self.gap} + 1];\n{members}}};\n"


class Function:
    """A variation point: its text, the switches that it reads, and whether it calls others."""

    def __init__(self, draw, index, switches, callees):
        self.draw, self.name, self.callees = draw, f"f{index}", callees
        self.small = index < 4 and draw.random() < 0.7
        self.switches = draw.sample(switches, min(len(switches), 1 if self.small else draw.randint(1, 3)))
        self.leaf, self.depth, self.number = True, 0, 0
        self.used = set()  # switches whose value is used for more than comparisons
        self.bind = draw.random() < 0.1
        self.inline = draw.random() < (0.2 if self.small else 0.5)
        self.looped = draw.random() < (0.8 if self.small else 0.2)
        # A first question that no compiler answers: each switch is read.
        lines = [f"if ({s.name} == {literal(s.constant(draw))}) T({self.mark()});" for s in self.switches]
        self.type = draw.choice(["bool", "void"]) if self.small else "uint64_t"
        if self.small:
            self.text = self.small_body(lines[0])
            return
        lines += self.block(draw.randint(2, 4))
        body = "\n    ".join(lines)
        self.text = f"{{\n    uint64_t r = x;\n    {body}\n    return r;\n}}\n"

    def small_body(self, first):
        if self.type == "bool":
            return f"{{\n    {first}\n    return {self.compare()};\n}}\n"
        return f"{{\n    {first}\n    if ({self.compare()}) T(x);\n}}\n"

    def called(self, argument):
        return f"({self.name}({argument}), trace)" if self.type == "void" else f"{self.name}({argument})"

    def mark(self):
        self.number += 1
        return self.number

    def operand(self, s):
        """The switch in some dress: text, and the type in which it is compared."""
        name = s.name
        if s.type == "bool":
            return name, s.low, s.high
        draw = self.draw.random()
        if draw < 0.6:
            return name, s.low, s.high
        if draw < 0.75:
            cast = self.draw.choice([t for t in TYPES if t != "bool" and not t.startswith("enum")])
            if TYPES[cast][1] < s.high // 2:
                self.used.add(s)
            return f"({cast}){name}", *TYPES[cast]
        if draw < 0.9:
            width = "uint64_t" if s.high > 2**32 else "uint32_t"
            return f"(({width}){name} {self.draw.choice('+-')} {self.draw.randint(0, 9)}u)", *TYPES[width]
        self.used.add(s)
        return f"({name} & {self.draw.choice([1, 3, 6, 8, 0x70])})", 0, 127

    def compare(self):
        s = self.draw.choice(self.switches)
        if self.draw.random() < 0.06 and len(self.switches) > 1:
            other = self.draw.choice(self.switches)
            self.used |= {s, other}
            return f"{s.name} {self.draw.choice(['<', '==', '>='])} {other.name}"
        text, low, high = self.operand(s)
        constant = s.constant(self.draw)
        if not low <= constant <= high:
            constant = self.draw.randint(0, 9)
        operator = self.draw.choice(["<", "<=", ">", ">=", "==", "!="])
        if self.draw.random() < 0.2:
            return f"{literal(constant)} {operator} {text}"
        return f"{text} {operator} {literal(constant)}"

    def condition(self):
        draw = self.draw.random()
        if draw < 0.6:
            return self.compare()
        if draw < 0.7:
            return f"!({self.compare()})"
        if draw < 0.75:
            return self.draw.choice(self.switches).name
        return f"({self.compare()}) {self.draw.choice(['&&', '||'])} ({self.compare()})"

    def cases(self):
        s = self.draw.choice(self.switches)
        lines, used = [f"switch ({s.name}) {{"], []
        for _ in range(self.draw.randint(1, 7)):
            low = s.constant(self.draw)
            high = min(s.high, low + self.draw.choice([0, 0, 0, 1, 3, 40]))
            if any(low <= b and a <= high for a, b in used):
                continue
            used.append((low, high))
            label = literal(low) if low == high else f"{literal(low)} ... {literal(high)}"
            lines += [f"case {label}:", *self.block(1)]
            if self.draw.random() < 0.8:
                lines.append("break;")
        if self.draw.random() < 0.6:
            lines += ["default:", *self.block(1)]
        return lines + [f"T({self.mark()});", "}"]

    def statement(self):
        draw = self.draw.random()
        if draw < 0.4 and self.depth < 3:
            lines = [f"if ({self.condition()}) {{", *self.block(self.draw.randint(1, 2)), "}"]
            if self.draw.random() < 0.6:
                lines += ["else {", *self.block(1), "}"]
            return lines
        if draw < 0.55 and self.depth < 3:
            return self.cases()
        if draw < 0.62:
            s = self.draw.choice(self.switches)
            self.used.add(s)
            return [f"r += (uint64_t){s.name} * {self.mark()};"]
        if draw < 0.67 and self.depth < 2:
            return ["for (int i = 0; i < 3; i++) {", *self.block(1), f"T(i + {self.mark()});", "}"]
        if draw < 0.71:
            return [f"if (x > {self.draw.randint(50, 99)}) return r + {self.mark()};"]
        if draw < 0.8 and self.callees:
            self.leaf = False
            small = [f for f in self.callees if f.small]
            if small and self.draw.random() < 0.6:
                return ["for (int i = 0; i < 3; i++)",
                        f"r = r * 5 + {self.draw.choice(small).called('r % 100 + i')};"]
            return [f"r ^= {self.draw.choice(self.callees).called(f'r % 100 + {self.mark()}')};"]
        if draw < 0.85:
            return [f"r += helper_{self.draw.choice(self.switches).id}(r);"]
        return [self.draw.choice([f"r = r * 7 + {self.mark()};", f"T({self.mark()});", "r ^= r >> 3;"])]

    def block(self, n):
        self.depth += 1
        lines = [line for _ in range(n) for line in self.statement()]
        self.depth -= 1
        return lines

    def caller(self):
        call = f"return {self.called('x')} + 1;"
        if self.looped:
            call = f"uint64_t r = 1; for (int i = 0; i < 4; i++) r = r * 3 + {self.called('x + i')}; return r;"
        return f"uint64_t call_{self.name}(uint64_t x) {{ {call} }}\n"

    def attribute(self):
        words = ['"inline"'] if self.inline else []
        words += [f'"bind", "{self.switches[0].name}"'] if self.bind else []
        return f"__attribute__((multiverse({', '.join(words)})))" if words else "MV"


def table(name, values):
    return f"static const int64_t {name}[] = {{{', '.join(f'(int64_t){literal(v)}' for v in values)}}};\n"


def generate(seed, folder, clang):
    """Writes header, tables and three units (the last a library) of a program."""
    draw = random.Random(seed)
    switches = [Switch(draw, i) for i in range(draw.randint(2, 6))]
    boxes = []
    if draw.random() < 0.7:
        inside = draw.sample(switches, draw.randint(1, len(switches)))
        cut = draw.randint(0, len(inside))
        boxes = [Box(draw, i, part) for i, part in enumerate([inside[:cut], inside[cut:]]) if part]
    functions = []
    for i in range(8):
        functions.append(Function(draw, i, switches, functions[:]))
    home = [draw.randrange(3) for _ in switches]
    places = sorted(draw.randrange(3) for _ in functions) if draw.random() < 0.5 else [draw.randrange(3)] * 8
    places = [2 - p for p in places]  # a library calls none of the program
    for i, f in enumerate(functions):
        if places[i] == 2:
            for s in f.switches:
                home[switches.index(s)] = 2
    for box in boxes:
        places_of = [home[switches.index(s)] for s in box.members]
        for s in box.members:
            home[switches.index(s)] = max(places_of)
    variables = [(s, s) for s in switches if not s.box] + [(box, box.members[0]) for box in boxes]
    c_only = '#ifdef __cplusplus\nextern "C" {\n#endif\n', "#ifdef __cplusplus\n}\n#endif\n"
    declarations = HEADER + "".join(box.type() for box in boxes) + c_only[0]
    declarations += "".join(f"extern {v.declaration()};\n" for v, _ in variables)
    declarations += "".join(f"{f.attribute()} {'COPIES ' if f.inline else ''}{f.type} {f.name}(uint64_t);\n"
                            f"uint64_t call_{f.name}(uint64_t);\n" for f in functions) + c_only[1]
    for s in switches:
        declarations += (f"static inline __attribute__((always_inline, unused)) uint64_t helper_{s.id}(uint64_t x)\n"
                         f"{{\n    return {s.name} > {literal(s.constant(draw))} ? x + 1 : x * 3;\n}}\n")
    bodies = "".join(f"inline {f.type} {f.name}(uint64_t x)\n{f.text}" for f in functions if f.inline)
    (folder / "random_programs.h").write_text("#pragma once\n" + declarations +
                                              f"#ifdef __cplusplus\n{bodies}#endif\n")
    for unit in range(3):
        text = '#include "random_programs.h"\n' + ("uint64_t trace;\n" if unit == 2 else "")
        text += "".join(f"{v.declaration()};\n" for v, s in variables if home[switches.index(s)] == unit)
        for i, f in enumerate(functions):
            if places[i] == unit:
                body = f"{f.attribute()} {f.type} {f.name}(uint64_t x)\n{f.text}"
                text += f"#ifndef __cplusplus\n{body}#endif\n" if f.inline else body
                text += f.caller()
        (folder / f"unit{unit}.c").write_text(text)
    text = '#include "random_programs.h"\n'
    rows = []
    for s in switches:
        domain = s.domain()
        text += table(f"candidates_{s.id}", sorted(s.constants | set(s.values or ENUMERATORS.get(s.type, []))))
        text += table(f"domain_{s.id}", domain or [0])
        rows.append(f"{{&{s.name}, sizeof {s.name}, {int(s.type == 'bool')}, {int(s.tracked)}, {int(s.is_constant and not clang)}, "
                    f"sizeof candidates_{s.id} / 8, {len(domain or [])}, candidates_{s.id}, domain_{s.id}}}")
    text += "const struct a_switch switches[] = {\n" + ",\n".join(rows) + "};\n"
    rows = []
    for f in functions:
        known = all(s.values or s.is_constant or s.type == "bool" or s.type in ENUMERATORS for s in f.used)
        binds = known and not all(s.is_constant for s in f.switches) and not f.bind and not any(s.tracked or (clang and s.box) for s in f.switches)
        rows.append(f'{{"{f.name}", call_{f.name}, (uint64_t (*)(uint64_t)){f.name}, {int(f.leaf)}, {int(binds)}, {len(f.switches)}, '
                    f"{{{', '.join(str(switches.index(s)) for s in f.switches)}}}}}")
    text += "const struct a_function functions[] = {\n" + ",\n".join(rows) + "};\n"
    text += f"const unsigned n_switches = {len(switches)}, n_functions = {len(functions)};\n"
    (folder / "tables.c").write_text(text)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\nexit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def build(folder, name, level, compilers, flags, libraries):
    """Units and library at `level`, each with its compiler; tables and driver without the plugin."""
    common, level = ["-w", "-I.", *flags], level.split()
    permissive = ["-fpermissive", "-Wno-narrowing"] if "c++" in level else []
    linker = [*(compilers[2] if "-flto" in level else ["gcc"]), *common, *(["-flto"] if "-flto" in level else [])]
    for unit, place in enumerate(["-fPIE", "-fPIE", "-fPIC"]):
        run([*compilers[unit], *common, *permissive, *level, place, "-c", f"unit{unit}.c"], folder)
    run([*linker, "-fPIC", "-shared", "unit2.o", "-o", f"lib{name}.so"], folder)
    run([*linker, "-O1", "-fPIE", "-pie", str(HERE / "random_programs.c"), "tables.c", "unit0.o", "unit1.o",
         f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}", *libraries, "-o", name], folder)


def compare(expected, found):
    """The number of good lines; raises at the first that is not allowed."""
    lines = found.splitlines()
    if len(lines) != len(expected):
        raise RuntimeError(f"{len(lines)} results, {len(expected)} expected")
    for number, (allowed, line) in enumerate(zip(expected, lines)):
        words = line.split()
        if words[:2] != allowed[:2] or words[2] not in allowed[2:] or len(words) > 3:
            raise RuntimeError(f"result {number}: {line}: allowed is {' '.join(allowed)}")
    return len(lines)


def try_program(seed, rounds, more, folder, plugin, include, library, clang):
    generate(seed, folder, clang)
    build(folder, "plain", "-O1", [["gcc"]] * 3, ["-DMULTIVERSE=0"], [])
    compilers = [["gcc", f"-fplugin={plugin}"]] * 3
    if clang:
        by_clang = ["clang", f"-fplugin={clang}"]
        compilers = [by_clang if (1 + seed % 6) >> unit & 1 else compilers[unit] for unit in range(3)]
    expected = [line.split() for line in run(["./plain", str(seed), str(rounds)], folder).splitlines()]
    good = 0
    for level in [way for way in LEVELS if not clang or " " not in way]:
        try:
            build(folder, "program", level, compilers, ["-DMULTIVERSE=1", f"-I{include}", *more],
                  [f"-L{library}", "-lmultiverse", f"-Wl,-rpath,{library}"])
            good += compare(expected, run(["./program", str(seed), str(rounds)], folder))
        except RuntimeError as problem:
            raise RuntimeError(f"--seed {seed} --rounds {rounds} --more={' '.join(more)!r}, {level}: {problem}") from None
    return good


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("plugin", type=Path)
    options.add_argument("include", type=Path)
    options.add_argument("library", type=Path)
    options.add_argument("--clang", type=Path, help="the plugin for clang")
    options.add_argument("--seed", type=int, default=1, help="of the first program")
    options.add_argument("--programs", type=int, default=4)
    options.add_argument("--rounds", type=int, default=40, help="with new values, a program")
    options.add_argument("--more", type=str.split, default=[], help="options of the compilers, as --more='-fsanitize=undefined'")
    options.add_argument("--keep", type=Path, help="where the programs are left")
    wanted = options.parse_args()
    places = [p.resolve() for p in (wanted.plugin, wanted.include, wanted.library)]
    places.append(wanted.clang and wanted.clang.resolve())
    good = failures = 0
    for seed in range(wanted.seed, wanted.seed + wanted.programs):
        with tempfile.TemporaryDirectory() as folder:
            if wanted.keep:
                folder = wanted.keep.resolve() / str(seed)
                folder.mkdir(parents=True, exist_ok=True)
            try:
                good += try_program(seed, wanted.rounds, wanted.more, Path(folder), *places)
            except RuntimeError as problem:
                failures += 1
                print(problem, file=sys.stderr)
    print(f"{good} comparisons good, {failures} of {wanted.programs} programs wrong")
    return failures != 0


sys.exit(main())
