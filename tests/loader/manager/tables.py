#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tables.py BEHAVIOUR: references that a pass retargets (tables/edit.c), and edits that are wrong.

tables/ holds the program and its libraries, too.  Each function below is one test; its
text says what a failure means.
"""
import re
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check, LOADER  # noqa: E402

SOURCES = HERE / "tables"
PLAIN = {"call": 1, "lea": 1, "word": 1, "relro": 1, "slot": 2, "choose": 201}
MANY = 1_000_000


class World:
    def __init__(self, folder, *options):
        self.folder, self.program = folder, folder / "main"
        support.take(folder, "loader/manager/tables", "main", "libcalled.so", "liblate.so", "edit.so")
        self.analyze()

    def build(self, name, *options):
        done = subprocess.run(["cc", "-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-O2",
                               "-Wno-parentheses", "-mgeneral-regs-only", "-fPIC", "-Wl,-Bsymbolic", "-I",
                               support.SOURCE / "include", *options, "-o", self.folder / f"{name}.so",
                               SOURCES / "edit.c"], capture_output=True, text=True)
        check(done.returncode == 0, done.stdout + done.stderr)

    def compile(self, *options, before_end=""):
        source = self.folder / "main.c"
        source.write_text((SOURCES / "main.c").read_text().replace("return choose", before_end + "return choose"))
        support.compile_c(self.program, source, f"-L{self.folder}", "-lcalled", "-rdynamic",
                          "-fno-plt", "-Wl,--build-id", "-Wl,-rpath,$ORIGIN", f"-Wl,--dynamic-linker={LOADER}",
                          *options, plugin=False)
        self.analyze()

    def analyze(self):
        support.analyze(self.folder, self.program, self.folder / "libcalled.so", self.folder / "liblate.so")

    def run(self, *arguments, passes="edit", placement="near", more="", **options):
        """What it prints, by word, and the log."""
        config = (f"[app]\nmatch = main\npasses = {passes}\nplacement = {placement}\n{more}[edit]\n" +
                  "".join(f"{key} = {value}\n" for key, value in options.items()))
        log = self.folder / "log"
        places = [self.folder, support.BUILD / "passes" / "direct-calls", support.BUILD / "passes" / "concat"]
        done = support.run([self.program, *arguments], config=config, XDG_CACHE_HOME=self.folder,
                           MVLD_PASS_PATH=":".join(map(str, places)), MVLD_DEBUG="passes,files",
                           MVLD_DEBUG_OUTPUT=log, timeout=60)
        text = support.take_log(self.folder)
        check(done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}{text}")
        return {key: int(value) for key, value in re.findall(r"(\w+) (-?\d+)", done.stdout)}, text


def is_plain_but(said, **changed):
    values, log = said
    check(values == {**PLAIN, **changed}, f"it says {values}, and not, otherwise than plainly, {changed}\n{log}")


def retargets(world):
    """Each kind of reference is retargeted to a function of the program, of a library, or to new code; the others keep their
    targets."""
    for to, value in (("second", 200), ("other", 300), ("new", 100)):
        is_plain_but(world.run(kinds="call", **{"from": "first"}, to=to), call=value)
        is_plain_but(world.run(kinds="lea", **{"from": "first"}, to=to), lea=value)
        is_plain_but(world.run(kinds="word", **{"from": "first"}, to=to), word=value, relro=value)
        is_plain_but(world.run(kinds="slot", **{"from": "called"}, to=to), slot=value)
    if "pack-relative-relocs" in subprocess.run(["ld", "--help"], capture_output=True, text=True).stdout:
        world.compile("-Wl,-z,pack-relative-relocs")
        is_plain_but(world.run(kinds="word", **{"from": "first"}, to="other"), word=300, relro=300)


CALL, JUMP, LEA, SLOT, WORD = range(6, 11)


def listed(world):
    """A reference is missing, or is none: as objdump and readelf tell them."""
    world.compile("-Wl,-z,now")
    _, log = world.run(list="yes")
    found = {(int(kind), int(site, 16)): (holder, int(target, 16)) for kind, site, holder, target in re.findall(
        rf"reference (\d+) {re.escape(str(world.program))} (\w+) (\S+) (\w+)", log)}
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", world.program], capture_output=True,
                          text=True).stdout
    said = {int(at, 16): (word, int(target, 16)) for at, word, target in re.findall(
        r"^ +(\w+):\t(?:bnd |notrack )?(\w+) +(?:-?0x[0-9a-f]+\(%rip\),%\w+ +# )?([0-9a-f]+) <", code, re.M)}
    names = {name: int(at, 16) for at, name in re.findall(r"^(\w+) <(\w+)>:$", code, re.M)}
    sites = {kind: {site for k, site in found if k == kind} for kind in range(1, 13)}
    main = str(world.program)

    def instruction(site):  # which begins there, or a prefix before
        return said.get(site) or said.get(site - 1) or ("none", 0)

    for kind, word in ((CALL, "call"), (JUMP, "j"), (LEA, "lea")):
        for site in sites[kind]:
            check(instruction(site)[0].startswith(word) and found[kind, site] == (main, instruction(site)[1]),
                  f"no {word} at {site:x}: {instruction(site)}, {found[kind, site]}")
    check(any(found[CALL, site][1] == names["first"] for site in sites[CALL]), f"no call of first: {found}")
    check(any(found[LEA, site][1] == names["first"] for site in sites[LEA]), f"no lea of first: {found}")
    words = [target for (kind, _), (_, target) in found.items() if kind == WORD]
    check(words.count(names["first"]) == 2 and words.count(names["second"]) == 1, f"words: {found}\n{log}")
    relocations = subprocess.run(["readelf", "-rW", world.program], capture_output=True, text=True).stdout
    slots = {int(at, 16) for at in re.findall(r"^(\w+) .*R_X86_64_(?:JUMP_SLO|GLOB_DAT)", relocations, re.M)}
    check(sites[SLOT] == slots, f"slots: {sites[SLOT]} instead of {slots}")


def protected(world):
    """RELRO that was opened for an edit stays writable, or a page is writable and executable."""
    world.compile("-Wl,-z,relro,-z,now", before_end='char line[300]; FILE *maps = '
        'fopen("/proc/thread-self/maps", "r"); while (fgets(line, 300, maps)) { unsigned long a, b; char p[5]; '
        'sscanf(line, "%lx-%lx %4s", &a, &b, p); if (a <= (unsigned long)relro && (unsigned long)relro < b) '
        'printf("writable %d ", p[1] == 119); if (p[1] == 119 && p[2] == 120) printf("wx 1 "); } ')
    is_plain_but(world.run(kinds="word", **{"from": "first"}, to="new"), word=100, relro=100, writable=0)
    is_plain_but(world.run(kinds="lea", **{"from": "first"}, to="new"), lea=100, writable=0)


def later(world):
    """Words of an object that comes by dlopen are retargeted before its constructors run; those of objects whose code has
    run are not."""
    late = world.folder / "liblate.so"
    is_plain_but(world.run(late, kinds="word", **{"from": "first"}, to="other"), late=4002, word=300, relro=300)
    is_plain_but(world.run(late, kinds="word", **{"from": "called"}, to="other"), late=4300)
    is_plain_but(world.run(late, kinds="word", **{"from": "called"}, to="second"), late=4200)


def walked(world):
    """While functions are visited, what passes before want is made: code that moves takes the names with it that the
    visit still needs.  Or a pass that looks at instructions is not told the targets that passes before want."""
    world.build("look", '-DNAME="look"')
    for passes, function, calls in (("edit, look", "call", 1), ("look, edit", "call", 0), ("direct-calls, look", "choose", 3),
                                    ("look, direct-calls", "choose", 0)):
        _, log = world.run(passes=passes, kinds="call", **{"from": "first"}, to="second",
                           more=f"[look]\nwalk = yes\nto = {'second' if function == 'call' else 'called'}\n")
        check(re.search(rf"function {function} \d+ calls {calls}\n", log), f"{passes}\n{log}")
    for passes in "edit", "direct-calls, concat, edit", "edit, direct-calls, concat":
        said = world.run(passes=passes, more="[concat]\ncopy = always\n", walk="yes", early="yes")
        is_plain_but(said)
        for name in "first", "second", "main", "called", "other", "own":
            check(re.search(rf"function {name} \d", said[1]), f"{passes}: {name} is missing\n{said[1]}")


BRANCHES = 8  # rimf/analysis/analysis.h


def torn(world):
    """An analysis of which a part is damaged is taken away from who walks along another part."""
    calls = rf"calls {re.escape(str(world.program))} (\d+)"
    before = re.search(calls, world.run(walk="yes")[1])[1]
    check(int(before) > 1, f"{before} calls through slots")
    for path in (world.folder / "mvld" / "analysis").glob("*/*"):
        analysis = bytearray(path.read_bytes())
        end, n_tables = struct.unpack_from("<I", analysis, 12)[0], struct.unpack_from("<I", analysis, 44)[0]
        for at in range(end - 32 * n_tables, end, 32):
            kind, _, offset, count, _ = struct.unpack_from("<IIQQQ", analysis, at)
            if kind == BRANCHES and count:
                analysis[offset] ^= 1
        path.write_bytes(analysis)
    values, log = world.run(walk="yes")
    check(values == PLAIN and "wrong checksum" in log, f"{values}\n{log}")
    check(re.search(calls, log)[1] == before, f"{re.search(calls, log)[1]} calls instead of {before}")


def others(world):
    """In whatever order passes stand, calls become direct, and code moves, as the references are wanted."""
    copy = "[concat]\ncopy = always\n"
    for passes in ("edit, direct-calls", "edit, concat", "edit, direct-calls, concat", "concat, edit",
                   "direct-calls, concat, edit"):
        for to, value in (("second", 200), ("other", 300)):
            is_plain_but(world.run(passes=passes, more=copy, kinds="lea", **{"from": "first"}, to=to), lea=value)
            is_plain_but(world.run(passes=passes, more=copy, kinds="call", **{"from": "first"}, to=to), call=value)
            is_plain_but(world.run(passes=passes, more=copy, kinds="word", **{"from": "first"}, to=to),
                         word=value, relro=value)
            is_plain_but(world.run(passes=passes, more=copy, kinds="slot", **{"from": "called"}, to=to), slot=value)


def snapshot(world):
    """A snapshot holds retargeted references of code, and no retargeted words."""
    world.compile(support.MAPPED)
    world.build("edit", "-DFREEZES")
    for kinds, applied in (("lea", True), ("word", False)):
        config = (f"[app]\nmatch = main\npasses = edit\n[edit]\nkinds = {kinds}\nfrom = first\nto = second\n")
        (world.folder / "conf").write_text(config)
        done = subprocess.run([support.BUILD / "tools" / "mvld", "build", world.program],
                              env=support.clean_environment(XDG_CACHE_HOME=world.folder, MVLD_PASS_PATH=world.folder,
                                                            MVLD_CONFIG=world.folder / "conf"),
                              capture_output=True, text=True)
        check((done.returncode == 0) == applied, f"mvld build: {done}")
        done = support.run([world.program], config=config, XDG_CACHE_HOME=world.folder, MVLD_PASS_PATH=world.folder,
                           TELL_MAPPED=1)
        check((support.from_snapshot(done) == ["main"]) == applied, done.stderr)
        check(("lea 200 word 1 relro 1" if applied else "lea 1 word 200 relro 200") in done.stdout, done.stdout)


def wrong(world):
    """A wrong edit changes nothing, nor do the others of its pass; a sentence names object and place."""
    place = rf"{world.program}: the \S+( \S+)* at [0-9a-f]+: "
    for kind, words in (("twice", "led it elsewhere already"), ("unproven", "no such reference is proven"),
                        ("disguised", "no such reference is proven"),
                        ("unrelocated", "no relocation makes it an address"),
                        ("data", "the target is not in an object's code"), ("stale", "leads elsewhere by now"),
                        ("jump", "a jump may lead on")):
        done = world.run(kinds="lea", **{"from": "first"}, to="second", wrong=kind)
        is_plain_but(done)
        check(re.search(place + ".*" + words, done[1]), f"{kind}: {done[1]}")
    done = world.run(kinds="lea", **{"from": "first"}, to="other", placement="as-is")
    is_plain_but(done)
    check(re.search(place + "the target is farther than 2 GiB", done[1]), done[1])
    done = world.run(kinds="all", **{"from": "nobody"}, to="other")
    is_plain_but(done)
    check("there is no nobody" in done[1], done[1])


def behind(world):
    """All of a pass's edits are made, or none, also when that shows at the end."""
    done = world.run(kinds="all", **{"from": "first"}, to="second", wrong="behind", most=2)
    is_plain_but(done, call=200)  # by a patch, for which the edit is refused, and that of the lea
    check("no reference of the pass is changed" in done[1], done[1])


def sealed(world):
    """New code of a pass is executable once it has returned, and also if it failed: its patches stay."""
    world.compile(before_end='char line[300], p[5]; int fresh = 0; '
        'FILE *maps = fopen("/proc/thread-self/maps", "r"); while (fgets(line, 300, maps)) { unsigned long inode; '
        'sscanf(line, "%*x-%*x %4s %*x %*x:%*x %lu", p, &inode); fresh += p[2] == 120 && !inode; } '
        'printf("fresh %d ", fresh); ')
    before = world.run(passes="direct-calls")[0]["fresh"]
    edit = {"kinds": "lea", "from": "first", "to": "new"}
    is_plain_but(world.run(passes="edit, direct-calls", **edit), lea=100, fresh=before + 1)
    is_plain_but(world.run(passes="edit, direct-calls", wrong="disguised", **edit), fresh=before + 1)


def stage(world):
    """Edits of the stage run are refused before it."""
    world.build("edit", "-DMAPS")
    done = world.run(kinds="word", **{"from": "first"}, to="second", wrong="stage")
    check("edit: all were refused" in done[1] and "an edit of the stage run, in the stage relocate" in done[1] and
          "an edit of the stage run, in the stage map" in done[1], done[1])


def many(world):
    """A million edits take seconds; more are refused, and nothing is changed then.  Likewise sections and
    domains."""
    world.compile(f"-DMANY={MANY}")
    is_plain_but(world.run(kinds="word", **{"from": "first"}, to="second"), word=200, relro=200, many=200 * MANY)
    world.compile(f"-DMANY={MANY + 100000}")
    done = world.run(kinds="word", **{"from": "first"}, to="second")
    is_plain_but(done, many=MANY + 100000)
    check("leads too many references elsewhere" in done[1], done[1])
    world.compile()
    for kind, words in (("sections", "sections were added"), ("domains", "there are 256 already")):
        done = world.run(kinds="word", wrong=kind)
        is_plain_but(done)
        check(words in done[1], done[1])


if __name__ == "__main__":
    with support.scratch_folder() as scratch:
        globals()[sys.argv[1]](World(scratch))
