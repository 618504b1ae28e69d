#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pays.py BEHAVIOUR: code moves where something is asked for that only moved code has, else a start
is that of the pipeline without the pass (`copy = where-it-pays`, the default).

Each function below is one test; its text says what a failure means.
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent.parent / "loader" / "store")]
import snapshot_moved  # noqa: E402
import support  # noqa: E402
from snapshot_moved import MVLD  # noqa: E402
from support import check  # noqa: E402

WHY = ("no code moves: small pages without a profile run no faster than direct calls alone "
       "(copy = always moves it)")
LOOKS = re.compile(r'^(newfstatat|openat)\([^)]*/concat\.so"')


class Program(snapshot_moved.Program):
    passes_of = "direct-calls, concat"

    def configure(self, *options, keys=""):
        """`keys` of [app], `options` of concat."""
        self.config.write_text("\n".join([f"[app]\nmatch = {self.path}\npasses = {self.passes_of}{keys}",
                                          "[concat]", *options, ""]))

    def make_snapshot(self):
        """The folder of the snapshot, whatever is in it."""
        folder = Path(self.run(MVLD_SNAPSHOT=1).stdout.strip())
        check((folder / "manifest").is_file(), "no snapshot")
        return folder

    def applied(self, *words, **more):
        done = self.run(*words, **more)
        check(support.from_snapshot(done), f"not applied:\n{done.stdout}{done.stderr}")
        return done

    def maps(self, **more):
        """The mappings of files: which part of which (in what order they lie is drawn when a snapshot is made); and
        how much is anonymous, by rights."""
        environment = support.clean_environment(**self.environment(MVLD_DEBUG="", **more))
        process = subprocess.Popen([self.path, "wait"], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.readline()
        files, anonymous = [], {}
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            place, rights, offset, _, _, *path = line.split(None, 5)
            start, end = (int(word, 16) for word in place.split("-"))
            if path and path[0].startswith("/"):
                files.append((Path(path[0]).name, rights, offset, end - start))
            elif not path:
                anonymous[rights] = anonymous.get(rights, 0) + end - start
        process.communicate(b"\n", timeout=30)
        check(process.returncode == 0, f"status {process.returncode}")
        return sorted(files), anonymous

    def calls(self):
        """The system calls of a start in which the passes run."""
        log = self.folder / "calls"
        done = support.run(["strace", "-o", log, self.path, "brief"], **self.environment(MVLD_DEBUG=""))
        check(done.returncode == 0, done.stderr)
        return log.read_text().splitlines()

    def counted(self):
        """How many a start has, or None: perf cannot count."""
        said = self.folder / "counted"
        mounted = "tracefs" in Path("/proc/self/mounts").read_text()
        done = support.run(support.perf("stat", "-x;", "-o", said, "-e", "raw_syscalls:sys_enter", "--",
                                        self.path, "brief"), **self.environment(MVLD_DEBUG=""))
        check(("tracefs" in Path("/proc/self/mounts").read_text()) == mounted, "perf has left tracefs mounted")
        found = re.search(r"^(\d+);", said.read_text(), re.M) if done.returncode == 0 else None
        return int(found[1]) if found else None


def without_looking(calls):
    """Names of the calls without those that find out that concat has nothing to do: its file is looked
    for, mapped, and unmapped."""
    names, i = [], 0
    while i < len(calls):
        looked = LOOKS.match(calls[i])
        if looked and looked[1] == "openat" and " = -1 " not in calls[i]:
            while not calls[i].startswith("munmap("):
                i += 1
        elif not looked:
            names.append(calls[i].split("(")[0])
        i += 1
    return names


def same(program):
    """A start has another mapping, another call, or another snapshot than with direct-calls alone; or code waits for
    moved code that never comes."""
    program.analyze("--program", program.path)  # the C library, too
    seen = {}
    for passes in "direct-calls", "direct-calls, concat":
        program.passes_of = passes
        program.configure()
        done = program.run()
        check(support.changed(done, "program")[0] and not support.has_moved(done), done.stderr)
        first = program.maps()
        folder = program.make_snapshot()
        program.applied(MVLD_DEBUG="files")
        applied = program.maps(), program.counted() if shutil.which("perf") else None
        limited = support.run(["prlimit", "--as=8000000000", program.path],
                              **program.environment(MVLD_DEBUG="files", TELL_MAPPED=1))
        check(support.from_snapshot(limited), limited.stderr)
        files = sorted(path.name for path in folder.iterdir())
        shutil.rmtree(folder)
        seen[passes] = first, files, applied, program.calls() if shutil.which("strace") else []
    alone, both = seen.values()
    for part in 0, 1:
        check(alone[part] == both[part], f"{alone[part]}\n{both[part]}")
    check(alone[2][0] == both[2][0], f"{alone[2]}\n{both[2]}")
    check(not any("concat" in name for name, *_ in both[0][0] + both[2][0][0]), both)
    if None not in (alone[2][1], both[2][1]):  # one call more: which file concat's is
        check(both[2][1] == alone[2][1] + 1, f"{alone[2][1]} calls, {both[2][1]}")
    check(without_looking(alone[3]) == without_looking(both[3]), "\n".join(alone[3] + both[3]))
    check(0 <= len(both[3]) - len(alone[3]) <= 11, f"{len(alone[3])} calls, {len(both[3])}")
    print(f"calls: {len(alone[3])}, {len(both[3])}; applied: {alone[2][1]}, {both[2][1]}")


def asked(program):
    """What only moved code has is asked for, and nothing moves, in the process or from a snapshot; or one
    image serves two configurations."""
    profile = program.folder / "profile"
    profile.write_text("libplace.so place\n")
    plain, folders = program.expected(), set()
    for options in ([], ["copy = always"], ["order = random"], ["order = random-functions"],
                    ["order = profile", f"profile = {profile}"], ["pages = thp"],
                    ["copy = always", "pages = small"], ["pages = small"], [f"profile = {profile}"],
                    ["copy = where-it-pays", "order = as-loaded"]):
        moves = options and options[0] not in ("pages = small", "copy = where-it-pays", f"profile = {profile}")
        program.configure(*options)
        done = program.run()
        check(support.has_moved(done) == bool(moves) == (WHY not in done.stderr), f"{options}\n{done.stderr}")
        check(done.stdout == plain, done.stdout)
        folder = program.make_snapshot()
        check((folder / "concat.so").exists() == bool(moves), f"{options}: {sorted(folder.iterdir())}")
        check(folder not in folders, f"{options}: the snapshot of another configuration")
        folders.add(folder)
        done = program.applied()
        check(any(path.startswith(f"{folder}/") for path, _ in support.mapped_files(done)) and done.stdout == plain,
              done.stderr)
        check(support.has_moved(done) == bool(moves), done.stderr)
    check(len(list(folder.parent.iterdir())) == len(folders), "a snapshot went")


def order(program):
    """`concat, direct-calls` is refused, or is something else than `direct-calls, concat`."""
    program.analyze("--program", program.path)
    seen = set()
    for passes in "direct-calls, concat", "concat, direct-calls":
        for options in [], ["copy = always", "order = as-loaded"]:
            program.passes_of = passes
            program.configure(*options)
            program.run()
            first = program.maps()
            folder = program.make_snapshot()
            program.applied()
            program.applied(MVLD_DEBUG="files")  # passes are not mapped
            image = sorted((file.name, file.stat().st_size) for file in folder.iterdir())
            # How the kernel cuts the memory in which moved code lies depends on where that is.
            seen.add((bool(options), str(image), "" if options else f"{first} {program.maps()}"))
            shutil.rmtree(folder)
    check(len(seen) == 2, "\n".join(map(str, seen)))


def unreadable(program):
    """With a profile that cannot be read code moves, or nobody hears why not, or calls stay as they are."""
    plain = program.expected("no", program.later)
    for path, why in (program.folder / "absent", "cannot be read (error 2)"), ("", "needs a file"):
        program.configure("order = profile", f"profile = {path}")
        done = program.run("no", program.later)
        check(why in done.stderr and not support.has_moved(done) and done.stdout == plain, done.stderr)
        check(support.changed(done, "program")[0], done.stderr)


def much(program):
    """A profile whose functions take 8 MB gets no huge pages, or a smaller one does, or who asks for small ones; or
    code that is not in it gets some that cost anything."""
    source, library = program.folder / "much.c", program.folder / "libmuch.so"
    source.write_text("#define FILL __asm__ volatile("
                      "\".rept 26000\\n.byte 0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\\n.endr\")\n"
                      + "".join(f"int much{i}(int x) {{ FILL; return x + {i}; }}\n" for i in range(60)))
    support.compile_c(library, "-shared", "-fPIC", "-Wl,--build-id", source, plugin=False)
    support.compile_c(program.path, snapshot_moved.SOURCES / "place_main.c", support.MAPPED, "-Wl,--build-id",
                      f"-L{program.folder}",
                      "-Wl,--no-as-needed", "-lplace", "-lmuch", f"-Wl,-rpath,{program.folder}",
                      f"-Wl,-I,{support.LOADER}", plugin=False)
    program.analyze(program.path, library)
    profile, plain = program.folder / "profile", program.expected()
    for functions, pages, huge in (36, "quick", True), (24, "quick", False), (36, "small", False):
        profile.write_text("".join(f"libmuch.so much{i}\n" for i in range(functions)))
        program.configure("order = profile", f"profile = {profile}", f"pages = {pages}")
        done = program.run()
        check(done.stdout == plain and f"{functions} hot functions come first" in done.stderr, done.stderr)
        said = re.search(r"concat: the hot functions take (\d+) KB: these in huge pages", done.stderr)
        check(bool(said) == huge and (not said or int(said[1]) > 8192), done.stderr)
        made = re.search(r"huge pages: \d+ of (\d+) put together by the kernel", done.stderr)
        check(bool(made) == huge and (not made or int(made[1]) == 5), done.stderr)  # 2 MB each
        folder = program.make_snapshot()
        done = program.run()
        check(support.has_moved(done) and done.stdout == plain, done.stderr)
        made = re.search(r"huge pages: (\d+) of (\d+) of the snapshot's file, (\d+) of the kernel",
                         done.stderr)
        check(bool(made) == huge, done.stderr)
        if made:
            of_file, wanted, own = map(int, made.groups())
            # 4.5 times 2 MB; in front of them, in a region that begins anywhere, up to 2 MB in which nothing is, and of
            # what the kernel puts anywhere, too, only whole ones.
            check(own <= 6 and 4 <= wanted <= of_file + 6, made[0])
        shutil.rmtree(folder)


def later(program):
    """What comes by dlopen moves, or waits for that, or maps a pass that has nothing to do."""
    plain = program.expected("no", program.later)
    done = program.run("no", program.later)
    check(not support.has_moved(done) and done.stdout == plain, done.stderr)
    program.make_snapshot()
    done = program.applied("no", program.later, MVLD_DEBUG="")  # with MVLD_DEBUG=passes, passes are mapped at once
    check(not support.has_moved(done) and done.stdout == plain, done.stderr)
    mapped = {path for path, _ in support.mapped_files(done)}
    check(str(program.passes / "direct-calls.so") in mapped and str(program.passes / "concat.so") not in mapped, mapped)
    program.configure("order = random")
    program.make_snapshot()
    done = program.applied("no", program.later)
    check(support.has_moved(done) and done.stdout == plain, done.stderr)


def alone(program):
    """Where no other pass is asked for, a start is another one than with nothing configured."""
    program.passes_of = ""
    program.configure()
    nothing = program.maps()
    program.passes_of = "concat"
    for keys in "", "\non-miss = build":
        program.configure(keys=keys)
        check(program.maps() == nothing, f"{program.maps()}\n{nothing}")
    check(not (program.cache / "mvld" / "snapshots").exists(), "a snapshot of nothing")
    done = support.run([program.path], **program.environment(MVLD_SNAPSHOT=1, MVLD_DEBUG=""))
    check(done.returncode == 1 and done.stderr == f"mvld: no snapshot: concat: {WHY}\n", done.stderr)
    check(f"concat: {WHY}" in program.run(MVLD_DEBUG="passes").stderr, "nobody is told why")


def told(program):
    """`mvld pipeline` does not say why nothing moves, or what it prints means another configuration."""
    environment = program.environment(MVLD_DEBUG="")
    text = support.run([MVLD, "pipeline", program.path], **environment)
    check(text.returncode == 0 and f"; nothing to do: {WHY}\n" in text.stdout and
          "copy = where-it-pays ; default" in text.stdout and "; library" not in text.stdout, text.stdout)
    program.config.write_text(text.stdout)
    check(f"concat: {WHY}" in program.run().stderr, "it cannot be read back")
    passes = json.loads(support.run([MVLD, "pipeline", "--json", program.path], **environment).stdout)["passes"]
    check([(it["nothing_to_do"], it["library"]) for it in passes] == [(None, None), (WHY, None)], passes)
    statistics = program.run(MVLD_DEBUG="statistics").stderr
    check("time in concat: nothing to do" in statistics, statistics)
    program.configure("copy = always")
    text = support.run([MVLD, "pipeline", program.path], **environment).stdout
    check("nothing to do" not in text and re.search("; library .*/libconcat.so.1", text), text)
    program.configure("copy = sometimes")
    text = support.run([MVLD, "pipeline", program.path], **environment)
    check(text.returncode == 1 and f"{program.config}:5: concat.copy = sometimes: it is one of where-it-pays, always"
          in text.stderr, text.stderr)


def main():
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


if __name__ == "__main__":
    main()
