# SPDX-License-Identifier: MIT
"""`mvld analyze` leaves an analysis for what it is asked for, once, where it is looked for;
says what it cannot analyse; and explains what stays.

A failure means that passes find no analysis, a stale one, or that of another file.
"""
import json
import os
import re
import stat
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from probe import probe  # noqa: E402
from support import check, compile_file, contains, equal, finish, run, scratch

mvld = os.path.abspath(sys.argv[1])

SOURCE = """
int outer(int);
int plain(int n) { return outer(n) + 1; }
__asm__(".globl odd\\n.type odd,@function\\nodd:\\n.cfi_startproc\\n nop\\n .byte 0x06\\n"
        " ret\\n.cfi_endproc\\n.size odd, .-odd\\n");
"""


def analyze(*arguments, **more):
    return run(mvld, "analyze", *arguments, **more)


def analyses(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path)[1])[1]


with scratch() as folder:
    folder = Path(folder)
    (folder / "a.c").write_text(SOURCE)
    library = compile_file(folder / "a.so", "-shared", "-fPIC", "-O2", "-Wl,--build-id",
                           folder / "a.c")
    name = build_id(library)
    name = f"{name[:2]}/{name[2:]}.mvld"
    out = folder / "out"

    code, said, err = analyze("--output", out, library)
    equal((code, err), (0, ""), "a library")
    check(re.fullmatch(rf"{library}: \d+ functions, 1 stay; \d+ of \d+ bytes proven; \d+ calls\n",
                       said), said)
    equal(analyses(out), [name], "the place of the analysis")
    equal(stat.S_IMODE((out / name).stat().st_mode), 0o644, "its mode")
    before = (out / name).stat()

    code, said, err = analyze("--output", out, library)
    equal((code, said), (0, f"{library}: up to date\n"), "once more")
    equal((out / name).stat().st_ino, before.st_ino, "it is not written again")
    analyze("--output", out, "--again", library)
    check((out / name).stat().st_ino != before.st_ino, "--again writes it again, aside")
    analysis, fd = (out / name).read_bytes(), probe(library, "plain")
    if fd is not None:
        analyze("--output", out, "--again", library)
        check((out / name).read_bytes() == analysis, "the analysis is of the breakpoint of a probe")
        os.close(fd)

    # Another file with the same build-id, and a damaged analysis, are analysed anew.
    os.utime(library, (1, 1))
    code, said, err = analyze("--output", out, library)
    contains(said, "bytes proven", "a file that has changed")
    data = bytearray((out / name).read_bytes())
    data[-1] ^= 1
    (out / name).write_bytes(data)
    contains(analyze("--output", out, library)[1], "bytes proven", "a damaged analysis")
    equal(analyze("--output", out, library)[1], f"{library}: up to date\n", "and then it is right")

    # The folder that a user has chosen, root too, when there is no --output.
    analyze(library, env={"XDG_CACHE_HOME": str(folder / "cache")})
    equal(analyses(folder / "cache"), [f"mvld/analysis/{name}"], "XDG_CACHE_HOME")

    # A program and what it is linked with; scripts mean their interpreter.
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    program = compile_file(folder / "p", "-Wl,--build-id", "-Wl,--no-as-needed",
                           folder / "main.c", library, f"-Wl,-rpath,{folder}",
                           "-Wl,--unresolved-symbols=ignore-all")
    other = folder / "other"
    code, said, err = analyze("--output", other, "--program", program)
    equal(code, 0, err)
    for part in (program, library, "libc.so.6", "ld-linux-x86-64.so.2"):
        contains(said, f"{part}: ", "a program's parts")
    (folder / "script").write_text("#!/bin/sh\n")
    (folder / "script").chmod(0o755)
    code, said, err = analyze("--output", other, "--program", folder / "script")
    contains("\n" + said, "\n/bin/sh: ", "a script's interpreter")

    # $ORIGIN is where the program lies, not where a link to it does.
    compile_file(folder / "q", "-Wl,--build-id", "-Wl,--no-as-needed", folder / "main.c", library,
                 "-Wl,-rpath,$ORIGIN", "-Wl,--unresolved-symbols=ignore-all")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link").symlink_to(folder / "q")
    equal(analyze("--output", other, "--program", folder / "elsewhere" / "link")[0], 0, "a link")

    # LD_LIBRARY_PATH may be relative.
    compile_file(folder / "r", "-Wl,--build-id", "-Wl,--no-as-needed", folder / "main.c", f"-L{folder}", "-l:a.so",
                 "-Wl,--unresolved-symbols=ignore-all")
    code, said, err = analyze("--output", other, "--program", "./r", cwd=folder,
                              env={"LD_LIBRARY_PATH": "elsewhere/.."})
    contains(said, "elsewhere/../a.so: ", "a library of a relative LD_LIBRARY_PATH")
    equal((code, err), (0, ""), "a relative LD_LIBRARY_PATH")
    # With these tunables the host loader lists the program, too, without a name.
    code, said, err = analyze("--output", other, "--program", program, env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2"})
    equal((code, err), (0, ""), "GLIBC_TUNABLES")

    # What cannot be analysed: a sentence each, and the others are done.
    plain = compile_file(folder / "b.so", "-shared", "-fPIC", "-Wl,--build-id=none",
                         folder / "a.c")
    (folder / "text").write_text("text\n")
    os.mkfifo(folder / "fifo")
    third = folder / "third"
    code, said, err = analyze("--output", third, plain, folder / "text", folder / "fifo",
                              folder / "absent", library)
    equal(code, 1, "refused files")
    contains(said, f"{library}: ", "the others are done")
    equal(sorted(err.splitlines()), sorted([
        f"mvld analyze: {plain}: it has no build-id",
        f"mvld analyze: {folder}/text: it is no ELF file",
        f"mvld analyze: {folder}/fifo: it is no ELF file",
        f"mvld analyze: {folder}/absent: No such file or directory"]), "what is refused")
    (folder / "blocked").write_text("")
    code, said, err = analyze("--output", folder / "blocked", library)
    equal((code, said), (1, ""), "a folder that cannot be made")
    contains(err, "cannot be written: ", "a folder that cannot be made")

    code, said, err = analyze("--json", "--output", third, "--again", plain, library)
    found = {result["file"]: result for result in json.loads(said)}
    equal((code, found[str(plain)]["outcome"], found[str(plain)]["why"]), (1, "refused", "it has no build-id"), "--json")
    equal((found[str(library)]["outcome"], found[str(library)]["why"]), ("written", None), "--json")
    check(sum(found[str(library)]["functions"].values()) >= 2, f"--json: {found}")
    equal(analyze("--json", "--explain", library)[0], 2, "of explanations there is no JSON")

    # Explanations.
    code, said, err = analyze("--explain", library)
    equal((code, err), (0, ""), "--explain")
    contains(said, "<odd>, 3 bytes: bytes that are no instruction, at ", "--explain")
    check("nop" not in said, "--explain shows no code")
    contains(analyze("--disassemble", library)[1], "nop", "--disassemble does")
    fixed = compile_file(folder / "fixed", "-no-pie", "-Wl,--build-id", folder / "main.c")
    contains(analyze("--explain", fixed)[1], "linked at a fixed address", "--explain")

for wrong in (["--jobs", "0", "x"], ["--jobs", "x", "x"], ["--jobs", "257", "x"], [], ["--nothing"]):
    equal(analyze(*wrong)[0], 2, f"wrong usage: {wrong}")
equal(analyze("--program", "/nonexistent")[0], 1, "a program that is not there")
finish()
