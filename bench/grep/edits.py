# SPDX-License-Identifier: MIT
"""The change that turns Debian's GNU grep 3.8 into a multiversed one.

After the grep case of the EuroSys 2019 paper (section 6.2.3): whether the matcher
must think in multi-byte characters is decided once, by the locale and the pattern,
and asked in the innermost loops.  grep 3.8 copes with that by hand: it has its
matching loop compiled twice (dfaexec_sb, dfaexec_mb) behind a function pointer, and
tests localeinfo's flags elsewhere.  Here the loop stands once, tests a switch, and
the compiler plugin makes the copies.

The edits are our own lines and the places where they go, so that no text of grep is
kept here.  Every place must be found exactly as often as said: other sources are refused.
"""
import re
from pathlib import Path

# (file, how often, pattern, replacement)
EDITS = [
    # The loop is inlined where it is used: into dfaexec and its variants, and into the
    # single-byte copy that the superset automaton needs in every locale.
    ("lib/dfa.c", 1, r"static inline char \*\n(?=dfaexec_main )",
     "static inline __attribute__((always_inline)) char *\n"),
    ("lib/dfa.c", 1, r"static char \*\ndfaexec_mb [^}]*\}\n", ""),
    ("lib/dfa.c", 1, r"static (char \*\ndfaexec_sb )", r"\1"),
    ("lib/dfa.c", 1, r"(dfa->dfaexec =) linfo->\w+ \? dfaexec_mb : (dfaexec_sb;)", r"\1 \2"),
    ("lib/dfa.c", 1, r"return d->dfaexec (\(d, begin, end, allow_nl, count), backref\);",
     r"""if (mode_dfa == DFA_UNSUPPORTED)
    return dfaexec_noop \1, backref);
  return dfaexec_main \1, mode_dfa == DFA_MULTIBYTE);"""),
    # What the pattern needs is known when it is compiled.
    ("lib/dfa.c", 1, r"(?<=dfaanalyze \(d->superset, searchflag\);\n    \}\n)",
     """  mode_set_dfa (!dfasupported (d) ? DFA_UNSUPPORTED
                : d->localeinfo.multibyte ? DFA_MULTIBYTE : DFA_SINGLE_BYTE);
"""),
    ("src/dfasearch.c", 1, r"dfaexec (?=\(superset,)", "dfaexec_sb "),
    # Flags of the locale become switches.
    ("src/dfasearch.c", 2, r"localeinfo\.multibyte", "mode_multibyte"),
    ("src/dfasearch.c", 2, r"localeinfo\.using_utf8", "mode_utf8"),
    ("src/kwsearch.c", 2, r"localeinfo\.multibyte", "mode_multibyte"),
    ("src/kwsearch.c", 1, r"localeinfo\.using_utf8", "mode_utf8"),
    ("src/searchutils.c", 1, r"localeinfo\.multibyte", "mode_multibyte"),
    ("src/searchutils.c", 2, r"localeinfo\.using_utf8", "mode_utf8"),
    # Which matcher runs is a function pointer that is set once.
    ("src/grep.c", 1, r"static (execute_fp_t execute;)", r"MODE \1"),
    # At start-up: set the switches after setlocale, commit when the pattern is compiled.
    ("src/grep.c", 1, r"(?<=  init_localeinfo \(&localeinfo\);\n)",
     "  mode_multibyte = localeinfo.multibyte;\n  mode_utf8 = localeinfo.using_utf8;\n"),
    ("src/grep.c", 1, r"(?=  char eolbytes\[3\])", "  mode_commit ();\n"),
]


def apply(tree):
    """Edits the tree in place, all or nothing."""
    texts = {}
    for name, count, pattern, replacement in EDITS:
        text = texts.get(name) or (Path(tree) / name).read_text()
        texts[name], found = re.subn(pattern, replacement, text)
        if found != count:
            raise RuntimeError(f"{name}: {pattern!r} found {found} times, expected {count}")
    for name, text in texts.items():
        (Path(tree) / name).write_text(text)
