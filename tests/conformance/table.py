# SPDX-License-Identifier: MIT
"""The results of ./dev conformance as a person reads them."""
from dataclasses import dataclass

WAYS = {"direct": "Started directly: ld.so --library-path … test",
        "interpreter": "Started by name, the loader as interpreter (PT_INTERP)"}


@dataclass
class Row:
    way: str
    name: str      # none, a pass, or all
    plain: dict    # {test: word} under the built ld.so
    results: dict  # {test: word} under mvld
    skipped: dict  # {test: reason}

    def different(self):
        """What passes under ld.so and does not under mvld."""
        return [t for t, word in self.results.items() if good(self.plain[t]) and not good(word)]


def good(word):
    """PASS, PASS-AGAIN (run twice), XPASS (glibc expected a failure)."""
    return "PASS" in word


def print_table(rows, groups):
    plain, skipped = rows[0].plain, rows[0].skipped
    print(f"\n{WAYS[rows[0].way]}\n")
    print(f"{'':16}{'pass under':>12}{'':>9}  pass under mvld (and differ), with these passes:")
    print(f"{'group':8}{'tests':>8}{'ld.so':>12}{'skipped':>9}"
          + "".join(f"{row.name:>16}" for row in rows))
    for group in [*groups, "all"]:
        tests = [t for t in plain if group in ("all", t.split("/")[0])]
        if not tests:
            continue
        counted = [t for t in tests if good(plain[t])]
        line = f"{group:8}{len(tests):>8}{len(counted):>12}{sum(t in skipped for t in counted):>9}"
        for row in rows:
            passed = sum(good(row.results.get(t, "")) for t in counted)
            differ = len(set(row.different()) & set(tests))
            line += f"{f'{passed} ({differ})' if differ else passed:>16}"
        print(line)


def print_grouped(title, found):
    """found: {heading: {test: 1}}."""
    if found:
        print(f"\n{title}")
    for heading, tests in found.items():
        print(f"  {heading}")
        for test in sorted(tests):
            print(f"    {test}")


def show(rows, groups, folder):
    """Prints everything; the number of differing tests."""
    for way in dict.fromkeys(row.way for row in rows):
        print_table([row for row in rows if row.way == way], groups)
    plain, skipped, again, different = {}, {}, {}, {}
    for row in rows:
        for test, word in row.plain.items():
            if not good(word):
                plain.setdefault(f"{row.way}: {word}", {})[test] = 1
        for test, reason in row.skipped.items():
            if good(row.plain[test]):
                skipped.setdefault(reason, {})[test] = 1
        for test, word in row.results.items():
            if word == "PASS-AGAIN" and row.plain[test] == "PASS":
                again.setdefault(f"{row.way}, {row.name}", {})[test] = 1
        for test in row.different():
            output = folder / row.way / row.name / f"{test}.out"
            different.setdefault(f"{row.way}, {row.name}", {})[
                f"{test} {row.results[test]}  {output}"] = 1
    print_grouped("Not counted, because ld.so itself does not pass them here:", plain)
    print_grouped("Skipped under mvld (tests/conformance/skip.txt):", skipped)
    print_grouped("Passed under mvld only when run again, alone:", again)
    print_grouped("Pass under ld.so and not under mvld, with their output:", different)
    count = sum(map(len, different.values()))
    print(f"\n{count} tests differ" if count != 1 else "\n1 test differs")
    return count
