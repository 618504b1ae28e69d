# SPDX-License-Identifier: MIT
"""The grep case study: same output as stock grep, and what a commit brings."""
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "tests")]
import build  # noqa: E402
import sources  # noqa: E402
import support  # noqa: E402
from report import interleaved, progress, say, table  # noqa: E402

# Locales: generated ones go into a folder of our own.
GENERATED = {"de_DE.UTF-8": ("de_DE", "UTF-8"), "ja_JP.EUC-JP": ("ja_JP", "EUC-JP")}
# What is searched for with equal output: options and pattern.
SEARCHES = [
    ["a.a"], ["-c", "a.a"], ["-n", "^[0-9]*b$"], ["-o", "b[^c]d"], ["-v", "[a-f]"],
    ["-i", "ABC.E"], ["-w", "word"], ["-x", "-n", "plain text line [0-9]*7"], ["-F", "-n", "dead"],
    ["-F", "-w", "-c", "ab"], ["-E", "(dead|beef)+"], ["-b", r"\(.\)\1\1\1"], ["-n", "ä.ö"],
    ["-i", "-n", "ÄÖÜ"], ["-o", "[[:alpha:]]*ß"], ["-a", "-n", "€"], ["-P", "x"], ["-E", "a{3,"],
    ["-n", r"\<word\>"], ["-e", "face", "-e", "cafe", "-n"], ["-m", "5", "-A1", "-B2", "ff"],
]
# What is timed: (locale, options and pattern, what it stresses).
TIMED = [
    ("C", ["-c", "a.a"], "'a.a', 1 line in 5"),
    ("C.UTF-8", ["-c", "[0-9]"], "'[0-9]', every line"),
    ("ja_JP.EUC-JP", ["-c", "a.a"], "'a.a', multi-byte"),
]
RUNS = [("stock", False), ("edited", False), ("multiversed", False), ("multiversed", True)]


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.greps = build.build(folder)
        self.config = folder / "grep.conf"
        self.config.write_text(f"[app]\nmatch = {self.greps['multiversed']}\npasses = multiverse\n"
                               "[multiverse]\ncommit = manual\n")
        self.locales = ["C", "C.UTF-8"] + self._generate_locales()

    def _generate_locales(self):
        made = []
        for name, (source, charmap) in GENERATED.items():
            path = self.folder / "locale" / name
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                command = ["localedef", "-i", source, "-f", charmap, str(path)]
                try:
                    subprocess.run(command, check=True, capture_output=True, timeout=60)
                except (OSError, subprocess.CalledProcessError):
                    say(f"    locale {name} cannot be generated here: left out")
                    continue
            made.append(name)
        return made

    def command(self, name, committed, arguments):
        """(argv, environment): under mvld always, with the multiverse pass or without."""
        environment = support.clean_environment(
            LOCPATH=self.folder / "locale", MVLD_PASS_PATH=support.LIBRARY.parent)
        if committed:
            environment["MVLD_CONFIG"] = str(self.config)
        return [str(support.LOADER), str(self.greps[name]), *arguments], environment

    def output(self, name, committed, locale, arguments):
        argv, environment = self.command(name, committed, arguments)
        environment["LC_ALL"] = locale
        done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        # Messages start with the name of the program, which differs.
        return done.returncode, done.stdout, done.stderr.replace(os.fsencode(argv[1]), b"grep")

    def modes(self, locale, arguments):
        """What the multiversed grep says of its modes when it committed."""
        argv, environment = self.command("multiversed", True, arguments)
        environment.update(LC_ALL=locale, GREP_SHOW_MODES="1")
        done = subprocess.run([*argv, os.devnull], env=environment, capture_output=True, text=True,
                              timeout=60)
        return done.stderr.strip()

    def compare(self, text):
        """(runs compared, descriptions of those that differ)."""
        different, compared, with_output = [], 0, 0
        for locale in self.locales:
            for arguments in SEARCHES:
                arguments = [*arguments, str(text)]
                expected = self.output("stock", False, locale, arguments)
                support.check(expected[0] in (0, 1, 2), f"stock grep fails: {expected}")
                with_output += bool(expected[1])
                for name, committed in RUNS[1:]:
                    compared += 1
                    if self.output(name, committed, locale, arguments) != expected:
                        different.append(f"{name} committed={committed} {locale} {arguments}")
        support.check(with_output > len(SEARCHES), "hardly any search finds anything")
        return compared, different

    def user_seconds(self, name, committed, locale, arguments):
        argv, environment = self.command(name, committed, arguments)
        environment["LC_ALL"] = locale
        # A pipe: grep stops at the first match when it writes to /dev/null.
        with subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE) as process:
            process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        support.check(process.returncode in (0, 1), f"{argv}: status {process.returncode}")
        return usage.ru_utime + usage.ru_stime


    def instructions(self, name, committed, locale, arguments):
        """How many the run executes, counted by callgrind: exact, where times are not.  It
        runs under the host loader, with libmultiverse preloaded when it shall commit."""
        environment = support.clean_environment(LOCPATH=self.folder / "locale", LC_ALL=locale)
        if committed:
            environment["LD_PRELOAD"] = str(support.LIBRARY)
        return sources.instructions([self.greps[name], *arguments], environment, 120)


def measure_times(case, timed, large, rounds):
    lines = []
    for locale, arguments, what in timed:
        runs = {run: (*run, locale, [*arguments, str(large)]) for run in RUNS}
        runs["again"] = runs[RUNS[0]]
        medians = interleaved(runs, rounds, lambda run: case.user_seconds(*run))
        stock = medians["stock", False]
        lines.append([f"{what} ({locale})", f"{stock * 1e3:.0f} ms",
                      *(f"{medians[run] / stock:.3f}" for run in [*RUNS[1:], "again"])])
    return lines


def count_instructions(case, timed, large):
    """Instructions of 4 MB less those of 2 MB: of the search alone, without start-up."""
    slices = []
    for megabytes in (2, 4):
        slices.append(case.folder / f"hex-{megabytes}M-callgrind.txt")
        with open(large, "rb") as whole:
            slices[-1].write_bytes(whole.read(megabytes << 20))
    lines = []
    for locale, arguments, what in timed:
        counts = []
        for run in RUNS:
            low, high = (case.instructions(*run, locale, [*arguments, str(s)]) for s in slices)
            counts.append(high - low)
        lines.append([f"{what} ({locale})", f"{counts[0] / (2 << 20):.2f} a byte",
                      *(f"{count / counts[0]:.3f}" for count in counts[1:])])
    return lines


def make_inputs(folder, megabytes):
    """A large file of random hexadecimal lines, and a small one with everything odd in it."""
    large, small = folder / f"hex-{megabytes}M.txt", folder / "mixed.txt"
    generator = random.Random(19)
    if not large.exists():
        progress(f"generating {megabytes} MB of random hexadecimal lines")
        partial = folder / "hex.partial"
        with open(partial, "w") as out:
            for _ in range(megabytes):
                text = generator.randbytes(1 << 19).hex()
                out.write("\n".join(text[i:i + 63] for i in range(0, len(text), 63)) + "\n")
        partial.rename(large)
    words = ["word", "sword", "plain text line 17", "dead beef", "ÄÖÜ äxö", "Straße", "€ 5", "ab"]
    lines = [b"\xff\xfe broken \xc3", b"\x8e\xb1\xa4\xa2 euc", b"a" * 3000, b""]
    for i in range(4000):
        lines.append((generator.choice(words) + " " + generator.randbytes(16).hex()).encode())
        lines.append(generator.choice(words).encode())
    small.write_bytes(b"\n".join(lines) + b"\n")
    return large, small


def run(folder, megabytes=100, rounds=7):
    """Prints what happens; the rows for the summary: (what, result, ok)."""
    case = Case(folder)
    large, small = make_inputs(folder, megabytes)
    rows = []

    first = case.modes("C", ["a.a"])
    say(f"    grep, LC_ALL=C:             {first}")
    say(f"    grep, LC_ALL={case.locales[-1]}:  {case.modes(case.locales[-1], ['a.a'])}")
    binds = "committed=-" not in first and "committed=0" not in first

    progress(f"comparing output: {len(SEARCHES)} searches in {', '.join(case.locales)}")
    compared, different = case.compare(small)
    for text in different:
        say("    DIFFERENT: " + text)
    rows.append(("grep: output equal to stock grep",
                 f"{compared - len(different)} of {compared} runs", not different))
    rows.append(("grep: commits at its start-up", first.split()[-1], binds))

    timed = [t for t in TIMED if t[0] in case.locales]
    headings = ["search", "stock", "edited, no plugin", "multiversed, uncommitted", "committed"]
    progress(f"measuring CPU time on {megabytes} MB: {len(timed)} searches, {rounds} rounds")
    times = measure_times(case, timed, large, rounds)
    table(times, [*headings, "stock, again"])
    say("    Medians of user + system time, relative to stock grep built with the same flags.")
    say("    Below 1 is faster; differences below some 0.02 are noise on a shared machine.")
    for line in times:
        rows.append((f"grep, time: {line[0]}",
                     f"committed {line[4]} of stock grep's, uncommitted {line[3]}; stock again {line[5]}", None))
    if not shutil.which("valgrind"):
        say("    (With valgrind installed, instructions are counted too.)")
        return rows
    progress("counting instructions with callgrind")
    counts = count_instructions(case, timed, large)
    table(counts, headings)
    say("    Instructions of the search alone, relative to stock grep's.")
    for line in counts:
        rows.append((f"grep, instructions: {line[0]}",
                     f"committed {line[4]} of stock grep's, uncommitted {line[3]}", None))
    return rows
