# SPDX-License-Identifier: MIT
"""generate.py FOLDER OUTPUT: a function in C for each of struct mvld_api in FOLDER/mvld/pass.h, that calls it with the
k-th combination of arguments: each pointer valid, NULL, or to zeros, each number 0 or another.

pass.c includes the output, and has the values: NAME_of(world, choice) for the types below.
"""
import re
import sys
from pathlib import Path

# What the type is called in pass.c, and how many choices there are.
TYPES = {
    "struct mvld_image *": ("image", 2),
    "const struct mvld_image *": ("image", 2),
    "const struct mvld_context *": ("context", 3),
    "const struct mvld_object *": ("object", 3),
    "const struct mvld_section *": ("section", 3),
    "const struct mvld_symbol *": ("symbol", 3),
    "const struct mvld_setting *": ("setting", 3),
    "const struct mvld_file *": ("file", 3),
    "struct mvld_batch *": ("batch", 2),
    "const struct mvld_batch *": ("batch", 2),
    "const char *": ("text", 3),
    "size_t": ("number", 2),
    "uint32_t": ("number", 2),
    "int": ("number", 2),
    "uintptr_t": ("address", 2),
    "mvld_calls_rule *": ("rule", 2),
}


def split(arguments):
    """At the commas that are in no parentheses."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts]


def type_of(argument):
    """Name and choices, and how the value is passed."""
    if "(*" in argument:
        return "visitor", 2, "(void *)"
    argument = re.sub(r"^((?:const )?enum) \w+( \w+)?$", "int", argument)
    for known, (name, choices) in TYPES.items():
        if re.fullmatch(re.escape(known) + r" ?\w*", argument):
            return name, choices, ""
    if "*" in argument:  # something that is filled, or an array
        return "memory", 2, "(void *)"
    sys.exit(f"generate.py: what is '{argument}'?")


def main(folder, output):
    text = (Path(folder) / "mvld" / "pass.h").read_text()
    text = text[text.index("struct mvld_api {"):]
    text = re.sub(r"/\*.*?\*/|__attribute__\(\(.*?\)\)(?=;)", "", text[:text.index("\n};\n")], flags=re.S)
    made, names = [], []
    for declaration in text.split("{", 1)[1].split(";"):
        found = re.fullmatch(r"\s*(.*?)\(\*(\w+)\)\((.*)\)\s*", declaration, re.S)
        if not found:
            if declaration.strip():
                sys.exit(f"generate.py: what is '{declaration}'?")
            continue
        name, values, lines = found[2], [], []
        for i, argument in enumerate(split(found[3])):
            if argument == "...":
                continue
            kind, choices, cast = type_of(argument)
            kind = "allocated" if name == "release" and kind == "memory" else kind
            if choices > 1:
                lines.append(f"    unsigned c{i} = k % {choices};\n    k /= {choices};\n")
            values.append(f"{cast}{kind}_of(w, c{i})")
        made.append(f"static int call_{name}(const struct world *w, unsigned k)\n{{\n" + "".join(lines) +
                    "    if (k)\n        return 0;\n"
                    f"    w->ctx->api->{name}({', '.join(values)});\n    return 1;\n}}\n")
        names.append(name)
    if len(names) < 40:
        sys.exit(f"generate.py: only {names}")
    Path(output).write_text("\n".join(made) + "\nstatic const struct call calls[] = {\n" +
                            "".join(f'    {{"{name}", call_{name}}},\n' for name in names) + "};\n")


main(*sys.argv[1:])
