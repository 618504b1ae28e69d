# SPDX-License-Identifier: MIT
"""random_source.py: the programs of random_programs.py: what they declare, what they ask, where that lies."""
import random

TYPES = {"bool": (0, 1), "char": (-128, 127), "int8_t": (-128, 127), "uint8_t": (0, 255),
         "int16_t": (-2**15, 2**15 - 1), "uint16_t": (0, 2**16 - 1),
         "int32_t": (-2**31, 2**31 - 1), "uint32_t": (0, 2**32 - 1),
         "int64_t": (-2**63, 2**63 - 1), "uint64_t": (0, 2**64 - 1),
         "enum signed_enum": (-2**31, 2**31 - 1), "enum unsigned_enum": (0, 2**32 - 1)}
ENUMERATORS = {"enum signed_enum": [-7, 0, 3, 4, 2**31 - 1],
               "enum unsigned_enum": [0, 1, 6, 2**31, 2**32 - 1]}


TARGETS = ["target0", "target1", "target2"]


def literal(value):
    if isinstance(value, str):
        return value
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
        self.has_any_value = self.type != "bool"
        self.binds = self.is_constant

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

    def candidates(self):
        return sorted(self.constants | set(self.values or ENUMERATORS.get(self.type, [])))


class Pointer:
    """A function pointer: a variation point, or a constant.  It has the ways of a switch."""

    def __init__(self, draw, index):
        self.id = self.name = f"s{index}"
        self.box, self.values, self.tracked = None, None, False
        self.is_constant = draw.random() < 0.5
        self.has_any_value, self.binds = False, True
        self.targets = TARGETS[:]

    put_in = Switch.put_in

    def declaration(self):
        words = '("constant")' if self.is_constant else ""
        return f"__attribute__((multiverse{words})) uint64_t (*{self.id})(uint64_t)"

    def domain(self):
        return []

    def candidates(self):
        return [f"&{target}" for target in self.targets]


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

    def __init__(self, draw, index, switches, pointers, callees):
        self.draw, self.name, self.callees = draw, f"f{index}", callees
        self.small = index < 4 and draw.random() < 0.7
        self.switches = draw.sample(switches, min(len(switches), 1 if self.small else draw.randint(1, 3)))
        self.leaf, self.depth, self.number = True, 0, 0
        self.used = set()  # switches whose value is used for more than comparisons
        self.used_by_clang = set()  # at -O0 clang puts what it reads atomically into a variable
        self.hands_out = False  # the address of an object with switches
        self.bind = draw.random() < 0.1
        self.pointers = draw.sample(pointers, draw.randint(0, len(pointers))) if not self.small and draw.random() < 0.4 else []
        self.inline = draw.random() < (0.2 if self.small else 0.5)
        self.looped = draw.random() < (0.8 if self.small else 0.2)
        # A first question that no compiler answers: each switch is read.
        lines = [f"if ({s.name} == {literal(s.constant(draw))}) T({self.mark()});" for s in self.switches]
        self.type = draw.choice(["bool", "void"]) if self.small else "uint64_t"
        if self.small:
            self.text = self.small_body(lines[0])
            return
        lines += [f"r = r * 9 + {p.name}(r % 50);" for p in self.pointers]
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
        if draw < 0.63 and not s.type.startswith("enum"):
            self.used_by_clang.add(s)
            return f"__atomic_load_n(&{name}, __ATOMIC_RELAXED)", s.low, s.high
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
        if draw < 0.82 and self.pointers:
            return [f"r ^= {self.draw.choice(self.pointers).name}(r % 100);"]
        if draw < 0.84:
            s = self.draw.choice(self.switches)
            if s.box and not any(m.is_constant for m in s.box.members):
                self.hands_out = True
                return [f"r += peek_{s.id}(REFER({s.box.name}));"]
        if draw < 0.88:
            return [f"r += helper_{self.draw.choice(self.switches).id}(r);"]
        return [self.draw.choice([f"r = r * 7 + {self.mark()};", f"T({self.mark()});", "r ^= r >> 3;"])]

    def block(self, n):
        self.depth += 1
        lines = [line for _ in range(n) for line in self.statement()]
        self.depth -= 1
        return lines

    def caller(self):
        call = f"return {self.called('x')}{self.draw.choice([' + 1', ''])};"
        if self.looped:
            call = f"uint64_t r = 1; for (int i = 0; i < 4; i++) r = r * 3 + {self.called('x + i')}; return r;"
        return f"uint64_t call_{self.name}(uint64_t x) {{ {call} }}\n"

    def attribute(self):
        words = ['"inline"'] if self.inline else []
        words += [f'"bind", "{self.switches[0].name}"'] if self.bind else []
        return f"__attribute__((multiverse({', '.join(words)})))" if words else "MV"


def table(name, values):
    return f"static const int64_t {name}[] = {{{', '.join(f'(int64_t){literal(v)}' for v in values)}}};\n"


def is_pure(function):
    """Whether it calls through no pointer, itself and by others."""
    return not function.pointers and all(is_pure(f) for f in function.callees)


def place_members(draw, variables):
    """Makes some of them members."""
    if draw.random() >= 0.7 or not variables:
        return []
    inside = draw.sample(variables, draw.randint(1, len(variables)))
    cut = draw.randint(0, len(inside))
    return [Box(draw, i, part) for i, part in enumerate([inside[:cut], inside[cut:]]) if part]


class Program:
    """Units 0 and 1 are the program, 2 its library, 3 a library that is opened at run time."""

    def __init__(self, seed, by_clang):
        draw = random.Random(seed)
        self.draw, self.by_clang = draw, by_clang
        self.switches = [Switch(draw, i) for i in range(draw.randint(2, 6))]
        pointers = [Pointer(draw, len(self.switches) + i) for i in range(draw.randint(0, 2))]
        self.variables = self.switches + pointers  # with the pointers
        self.boxes = place_members(draw, self.switches + [p for p in pointers if p.is_constant])
        self.functions = []
        for i in range(8):
            self.functions.append(Function(draw, i, self.switches, pointers, self.functions[:]))
        places = sorted(draw.randrange(3) for _ in self.functions) if draw.random() < 0.5 else [draw.randrange(3)] * 8
        self.places = [2 - p for p in places]  # a library calls none of the program
        for i in range(8, 10):
            self.functions.append(Function(draw, i, self.switches, pointers,
                                           [f for f, place in zip(self.functions, self.places) if place == 2]))
            self.places.append(3)
        for p in pointers:
            p.targets += [f.name for f in self.functions[:8] if f.type == "uint64_t" and is_pure(f) and draw.random() < 0.3]
        for f in self.functions:
            f.leaf = f.leaf and all(p.targets == TARGETS for p in f.pointers)
        self.home = self.find_homes()

    def find_homes(self):
        """The unit of each variable: a library uses none of the program's."""
        home = {v: self.draw.randrange(3) for v in self.variables}
        for f, place in zip(self.functions, self.places):
            if place >= 2:
                home.update({v: 2 for v in f.switches + f.pointers})
        for box in self.boxes:
            home.update({m: max(home[m] for m in box.members) for m in box.members})
        return home

    def header(self):
        alone = [v for v in self.variables if not v.box]
        text = '#include "random_base.h"\n' + "".join(box.type() for box in self.boxes) + '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        text += "".join(f"extern {v.declaration()};\n" for v in alone + self.boxes)
        text += "".join(f"uint64_t {target}(uint64_t);\n" for target in TARGETS)
        text += "".join(f"{f.attribute()} {'COPIES ' if f.inline else ''}{f.type} {f.name}(uint64_t);\n"
                        f"uint64_t call_{f.name}(uint64_t);\n" for f in self.functions)
        text += "#ifdef __cplusplus\n}\n#endif\n"
        for s in self.switches:
            constant = literal(s.constant(self.draw))
            text += (f"static inline __attribute__((always_inline, unused)) uint64_t helper_{s.id}(uint64_t x)\n"
                     f"{{\n    return {s.name} > {constant} ? x + 1 : x * 3;\n}}\n")
            if s.box:
                text += (f"static __attribute__(({self.draw.choice(['noinline, ', ''])}unused)) uint64_t peek_{s.id}(REFERENCE(struct {s.box.name}) b)\n"
                         f"{{\n    return REFERRED(b){s.name[len(s.box.name):]} > {constant} ? 5 : 2;\n}}\n")
        bodies = "".join(f"inline {f.type} {f.name}(uint64_t x)\n{f.text}" for f in self.functions if f.inline)
        return f"#pragma once\n{text}#ifdef __cplusplus\n{bodies}#endif\n"

    def unit(self, number):
        text = '#include "random_programs.h"\n' + ("uint64_t trace;\n" if number == 2 else "")
        for i, target in enumerate(TARGETS):
            if number == (2 if i else 0):
                text += f"uint64_t {target}(uint64_t x) {{ T({i} + x); return x * {i + 3} + {i}; }}\n"
        text += "".join(f"{v.declaration()};\n" for v in self.variables if not v.box and self.home[v] == number)
        text += "".join(f"{box.declaration()};\n" for box in self.boxes if self.home[box.members[0]] == number)
        for f, place in zip(self.functions, self.places):
            if place == number:
                body = f"{f.attribute()} {f.type} {f.name}(uint64_t x)\n{f.text}"
                text += f"#ifndef __cplusplus\n{body}#endif\n" if f.inline else body
                text += f.caller()
        return text

    def row_of_variable(self, v):
        loading = {place for f, place in zip(self.functions, self.places) if v in f.switches + f.pointers} & self.by_clang
        by_gcc = not self.by_clang
        flags = (v.has_any_value, v.tracked, v.is_constant and by_gcc, v.binds and by_gcc and not v.tracked,
                 v.is_constant and bool(loading - {3}), v.is_constant and 3 in loading)
        numbers = [*(int(flag) for flag in flags), len(v.candidates()), len(v.domain())]
        return f"{{&{v.name}, sizeof {v.name}, {', '.join(map(str, numbers))}, candidates_{v.id}, domain_{v.id}}}"

    def row_of_function(self, f, place):
        by_clang = place in self.by_clang or (f.inline and self.by_clang)  # or a copy, as C++
        used = f.used | (f.used_by_clang if by_clang else set())
        known = all(s.values or s.is_constant or s.type == "bool" or s.type in ENUMERATORS for s in used)
        binds = (known and not all(s.is_constant for s in f.switches) and not f.bind and not f.hands_out and
                 not any(s.tracked or (s.box and by_clang) for s in f.switches))
        address = "0, 0" if place == 3 else f"call_{f.name}, (uint64_t (*)(uint64_t)){f.name}"
        read = [str(self.variables.index(v)) for v in f.switches + f.pointers]
        return f'{{"{f.name}", {address}, {int(f.leaf)}, {int(binds)}, {int(place == 3)}, {len(read)}, {{{", ".join(read)}}}}}'

    def tables(self):
        text = '#include "random_programs.h"\n'
        for v in self.variables:
            text += table(f"candidates_{v.id}", v.candidates()) + table(f"domain_{v.id}", v.domain() or [0])
        rows = [self.row_of_variable(v) for v in self.variables]
        text += "const struct a_switch switches[] = {\n" + ",\n".join(rows) + "};\n"
        rows = [self.row_of_function(f, place) for f, place in zip(self.functions, self.places)]
        text += "struct a_function functions[] = {\n" + ",\n".join(rows) + "};\n"
        return text + f"const unsigned n_switches = {len(self.variables)}, n_functions = {len(self.functions)};\n"


def generate(seed, folder, by_clang):
    """Writes the units of a program, their header and tables; by_clang: the units that clang compiles."""
    program = Program(seed, by_clang)
    (folder / "tables.c").write_text(program.tables())
    (folder / "random_programs.h").write_text(program.header())
    for number in range(4):
        (folder / f"unit{number}.c").write_text(program.unit(number))
