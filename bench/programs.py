# SPDX-License-Identifier: MIT
"""Stock programs, what they are given to do, and the ways in which they run: under the host
loader, and under mvld with passes over code, in each process or from a snapshot.

The programs are copies; nothing of the machine is changed.  A way that does not do what its
name says (a snapshot that is not applied, code that does not move) is left out, with the reason.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import pythons  # noqa: E402
import support  # noqa: E402
from report import progress, say  # noqa: E402

MVLD = support.BUILD / "tools" / "mvld"
PASS_FOLDERS = [support.BUILD / "passes" / name for name in ("direct-calls", "concat")]
HOST = "host loader"
# way -> (passes, whether from a snapshot, PASS.OPTION=VALUE if any)
WAYS = {"direct-calls": ("direct-calls", False), "direct-calls, snapshot": ("direct-calls", True),
        "concat": ("direct-calls, concat", False), "concat, snapshot": ("direct-calls, concat", True)}
# Ways with concat move code always, but for this one, where it does what it does unless told otherwise.
IDLE = "concat.copy = where-it-pays"
IDLE_WAYS = {"concat, idle, snapshot": ("direct-calls, concat", True, IDLE)}


def option_ways(option):
    """Ways with concat and an option, PASS.OPTION=VALUE."""
    return {f"concat, {option}" + ", snapshot" * snapshot: ("direct-calls, concat", snapshot, option)
            for snapshot in (False, True)}


# What the log says when each part was done; `files,passes` asks for it.
SAID = {"direct-calls": r"\d+ objects, \d+ of \d+ sites made direct",
        "concat": r"concat: [1-9]\d* objects, [1-9]\d* functions", IDLE: "no code moves",
        "snapshot": r"applied, the code of [1-9]"}

PYTHON = """
import re
class A:
    def __init__(self, x): self.x = x
    def get(self): return self.x
total = 0
for i in range({n}):
    a = A(i)
    total += a.get() + len(str(i)) + len([i, i]) + hash((i, 'k'))
d = dict.fromkeys(range({n} // 4), 1.5)
print(total, sum(d.values()), len(re.findall('[0-9]+7', ' '.join(map(str, range({n} // 4))))))
"""
SQL = ("create table t(a, b text); with recursive c(x) as (select 1 union all select x + 1 from c "
       "where x < {n}) insert into t select x, printf('%08d', x * 7) from c; "
       "create index i on t(b); select count(*), sum(length(b)), max(a) from t "
       "where b like '%7%'; select substr(b, 1, 6) k, count(*) from t group by k order by 2 limit 3;")
BASH = "s=0; for ((i = 0; i < {n}; i++)); do x=${{i/1/2}}; s=$((s + ${{#x}})); done; echo $s"
PERL = ("my %h; for my $i (1..{n}) {{ my $k = 'k' . ($i % 999); $h{{$k}} .= 'x'; $h{{$k}} =~ s/x$/y/; }} "
        "print length(join ',', map {{ $h{{$_}} }} sort keys %h), qq(\\n);")

# Of mvld's own history: git's work is the same whatever is committed next.
COMMIT = "eac46e49cad49ecec9b6a51487543e31f836bdbc"


def python(n):
    return ["-S", "-s", "-c", PYTHON.format(n=n)]


# program -> (arguments for n, an n that takes 15 to 30 ms)
PROGRAMS = {
    "python3": (python, 50_000),
    "python3-shared": (python, 40_000),
    "python3-built": (python, 40_000),
    "sqlite3": (lambda n: [":memory:", SQL.format(n=n)], 20_000),
    "bash": (lambda n: ["-c", BASH.format(n=n)], 4000),
    "perl": (lambda n: ["-e", PERL.format(n=n)], 40_000),
    "git": (lambda n: ["-C", str(HERE.parent), "--no-pager", "log", "--stat", "--format=%h",
                       f"-{n}", COMMIT], 20),
    "evp": (lambda n: [str(n)], 120_000),
}
# A start that ends at once.
STARTS = {"true": [], "gzip": ["--version"], "bash": ["-c", ":"], "python3": ["-S", "-s", "-c", ""],
          "python3-shared": ["-S", "-s", "-c", ""], "python3-built": ["-S", "-s", "-c", ""],
          "redis-server": ["--version"],
          "clang": ["-fsyntax-only", "-x", "c", "/dev/null"]}
# One that --version does not end, for programs that have no figure of their own.
PROBES = {"hot": ["0"], "hot-2mb": ["0"], "cc1": ["-quiet", "/dev/null", "-o", "/dev/null"],
          "nginx": ["-v"]}


def digests(output):
    """Makes `output` (evp.c) with the machine's OpenSSL.  False: there is none."""
    libraries = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libcrypto.so.3*"))
    if not libraries:
        return False
    subprocess.run([support.CC, "-O2", HERE / "evp.c", "-o", output, libraries[0]], check=True, timeout=60)
    return True


def write_alike(paths):
    """Writes the files anew, each at once: the pieces in which a file was written are those in
    which the page cache holds it, which is worth up to 80 µs of a start."""
    for path in map(Path, paths):
        new = path.with_name(path.name + ".new")
        new.write_bytes(path.read_bytes())
        shutil.copymode(path, new)
        new.replace(path)


def find(name, folder):
    """The program's file, or None."""
    if (folder / name).exists():
        return folder / name
    if name == "python3-shared":
        return folder / name if pythons.embedded(folder / name) else None
    if name == "evp":
        return folder / name if digests(folder / name) else None
    if name == "python3-built":
        return (pythons.built() or [None])[0]
    if name == "cc1":
        found = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True)
        return Path(found.stdout.strip()) if found.stdout.startswith("/") else None
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if found and name == "git" and subprocess.run([found, "-C", HERE.parent, "cat-file", "-e", COMMIT],
                                                  stderr=subprocess.DEVNULL).returncode:
        return None
    return Path(found) if found else None


class Programs:
    """Copies of the programs in `folder`, analysed, for `ways` (default: all)."""

    def __init__(self, folder, names, ways=WAYS):
        self.folder, self.wanted = folder, list(ways)
        for part in ("plain", "changed", "analysis", "made"):
            (folder / part).mkdir(exist_ok=True)
        for way, (passes, _, *options) in WAYS.items():
            lines = ["[app]", "match = *", f"passes = {passes}"]
            for option in options:  # PASS.OPTION=VALUE
                name, value = option.split(".", 1)
                lines += [f"[{name}]", value]
            lines += [support.COPY] * ("concat" in passes and IDLE not in options)
            self.file(way, "conf").write_text("\n".join(lines) + "\n")
            cache = self.file(way, "cache") / "mvld"
            cache.mkdir(parents=True, exist_ok=True)
            if not (cache / "analysis").exists():
                os.symlink(folder / "analysis", cache / "analysis")
        # (name, changed) -> file; name -> ways; name -> what its environment has besides
        self.paths, self.possible, self.besides = {}, {}, {}
        for name in names:
            original = find(name, folder / "made")
            if original is None:
                say(f"    {name} is left out: it is not there, or has nothing to work on")
            else:
                self.prepare(name, original)

    def file(self, way, kind):
        return self.folder / (re.sub("[^a-z]+", "-", way) + "." + kind)

    def prepare(self, name, original):
        progress(f"copying and analysing {original}")
        library = pythons.libpython(original) if name.startswith("python3") else None
        if library:
            say(f"    {name}: {pythons.through_plt(library)} functions called through the PLT in {library}")
        if name == "python3-built":
            self.besides[name] = {"PYTHONHOME": pythons.built()[1]}
        for changed in (False, True):
            self.paths[name, changed] = self.copy(name, original, changed)
        copy = self.paths[name, True]
        self.tool(MVLD, "set-interp", "--loader", support.LOADER, copy)
        write_alike(self.paths[name, changed] for changed in (False, True))
        self.tool(MVLD, "analyze", "--output", self.folder / "analysis", "--program", copy)
        self.possible[name] = [HOST]
        for way in self.wanted:
            why = self.impossible(name, way)
            if why:
                say(f"    {name}: not measured: {way}: {why}")
            else:
                self.possible[name].append(way)

    def copy(self, name, original, changed):
        to = self.folder / ("changed" if changed else "plain") / name
        if name == "java":  # looks for what belongs to it from where it lies
            home = original.resolve().parent.parent
            if not Path(f"{to}.home").exists():  # of other work of the same program
                subprocess.run(["cp", "-as", home, f"{to}.home"], check=True, timeout=60)
            to = Path(f"{to}.home/bin/java")
            to.unlink()
        return shutil.copy(original, to)

    def analyze(self, paths):
        """Files besides those that a program is linked with."""
        for path in paths:
            self.tool(MVLD, "analyze", "--output", self.folder / "analysis", path)

    def tool(self, *command):
        done = subprocess.run([str(w) for w in command], env=support.clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        support.check(done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}")

    def impossible(self, name, way):
        """Why the program cannot run in this way, or None."""
        passes, snapshot, *options = WAYS[way]
        for part in passes.split(", "):
            if not any((folder / f"{part}.so").exists() for folder in PASS_FOLDERS):
                return f"{part} is not built"
        log = self.quick(name, way, MVLD_DEBUG="files,passes,statistics").stderr
        for part in passes.split(", "):
            if not re.search(SAID[IDLE if part == "concat" and IDLE in options else part], log):
                return f"{part}: nothing is done; MVLD_DEBUG=passes tells why"
        if snapshot:
            done = self.quick(name, way, MVLD_SNAPSHOT="1")
            if done.returncode:
                return (done.stderr.strip().splitlines() or ["no snapshot"])[-1]
            log = self.quick(name, way, MVLD_DEBUG="files,passes,statistics").stderr
            if not re.search(SAID["snapshot"], log):
                return "what was written is not used; MVLD_DEBUG=files,passes tells why"
        return None

    def quick(self, name, way, **more):
        command = self.command(name, way, {**PROBES, **STARTS}.get(name, ["--version"]))
        return subprocess.run(command, env=self.environment(name, way, **more), text=True,
                              errors="replace", stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=300)

    def ways(self, name):
        return self.possible[name]

    def jobs(self, name, arguments, **more):
        """{way: (command, environment)}."""
        return {way: (self.command(name, way, arguments), self.environment(name, way, **more))
                for way in self.ways(name)}

    def works(self, name, arguments):
        """As jobs, but under the host loader it is the same file, with MVLD=off: a copy has pages of
        its own, and where in memory they lie is worth more than what is looked for (steady.py)."""
        command = self.command(name, None, arguments)
        return {way: (command, self.environment(name, way, MVLD="off") if way == HOST else env)
                for way, (_, env) in self.jobs(name, arguments).items()}

    def environment(self, name, way, **more):
        if way != HOST:
            more = {"MVLD_CONFIG": self.file(way, "conf"), "XDG_CACHE_HOME": self.file(way, "cache"),
                    "MVLD_PASS_PATH": ":".join(map(str, PASS_FOLDERS)), **more}
        return support.clean_environment(PYTHONHASHSEED="0", **self.besides.get(name, {}), **more)

    def command(self, name, way, arguments):
        return [str(self.paths[name, way != HOST]), *arguments]
