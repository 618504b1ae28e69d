# SPDX-License-Identifier: MIT
"""`mvld run` starts a program under mvld with the passes, switches and options of
its command line, and is otherwise invisible.

A failure means that the program sees other arguments, another exit code or other
passes than it was asked for.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import check, compile_file, contains, equal, finish, run, scratch

mvld, include = map(os.path.abspath, (sys.argv[1], sys.argv[2]))

# Stands in for the real one: it says what reached it.
MULTIVERSE = """
#include <mvld/pass.h>
static const struct mvld_option options[] = {
    {.name = "set.", .type = MVLD_OPTION_PREFIX, .help = "a switch"}, {.name = NULL}};
static int run(const struct mvld_context *c, const struct mvld_object *const *o, size_t n)
{
    for (size_t i = 0; i < c->n_settings; i++)
        c->api->log(c->image, MVLD_LOG_PASSES, "said: %s is %s", c->settings[i].name,
                    c->settings[i].text);
    return o && n ? 0 : -22;
}
const struct mvld_pass mvld_pass = {.abi = MVLD_PASS_ABI,
    .name = "multiverse", .help = "stands in", .options = options, .run = run};
"""
PASS_OPTIONS = ["-shared", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
                "-mgeneral-regs-only", "-fPIC", "-Wl,-Bsymbolic"]


def started(*arguments, **more):
    return run(mvld, "run", *arguments, **more)


with scratch() as folder:
    folder = Path(folder)
    home = {"XDG_CONFIG_HOME": str(folder / "none")}

    # The program and its arguments.
    equal(started("--", "/bin/echo", "a b", "", "--x"), (0, "a b  --x\n", ""), "arguments")
    equal(started("echo", "found"), (0, "found\n", ""), "PATH is searched")
    equal(started("sh", "-c", "exit 42")[0], 42, "the exit code is the program's")
    equal(started("sh", "-c", "kill -TERM $$")[0], -15, "so is the signal")
    old = not b"--argv0" in Path("/lib64/ld-linux-x86-64.so.2").read_bytes()  # glibc before 2.33
    shell = shutil.which("sh") + "\n"
    equal(started("sh", "-c", "echo $0")[1], shell if old else "sh\n", "argv[0] as called")
    equal(started("--argv0", "other", "sh", "-c", "echo $0")[1], shell if old else "other\n",
          "--argv0")
    equal(started("cat", stdin=b"through")[1], "through", "standard input")
    equal(started("./echo", "here", cwd="/bin")[1], "here\n", "a relative path")
    (folder / "-dash").symlink_to("/bin/echo")
    equal(started("--", "-dash", "x", cwd=folder, env={"PATH": ""})[1], "x\n", "a name with a dash")

    # $ORIGIN is where the file lies, not where a link to it does; configurations match by its
    # path, by the link's, and by argv[0], as when the kernel starts the program.
    (folder / "own.c").write_text("int own(void) { return 7; }\n")
    (folder / "main.c").write_text("#include <stdio.h>\nint own(void);\n"
                                   "int main(int n, char **v) { puts(v[0]); return own(); }\n")
    compile_file(folder / "libown.so", "-shared", "-fPIC", folder / "own.c")
    compile_file(folder / "main", folder / "main.c", folder / "libown.so", "-Wl,-rpath,$ORIGIN")
    (folder / "elsewhere").mkdir()
    link = folder / "elsewhere" / "link"
    link.symlink_to(folder / "main")
    config = folder / "called.conf"
    for match in link, folder / "main", "link", "main", "other", "absent":
        config.write_text(f"[app]\nmatch = {match}\npasses = count\n")
        code, out, err = started("--config", config, "--debug", "passes", "--argv0", "other", link, env=home)
        if old:
            equal(out, f"{link}\n", "where argv[0] is the path, it is as called")
            break
        equal((code, out), (7, "other\n"), f"a program behind a link, match = {match}")
        equal("count: " in err, match != "absent", f"whether its pass ran, match = {match}")
        equal(started(link)[:2], (7, f"{link}\n"), "argv[0] is the link's path")
        equal(started("link", env={"PATH": str(link.parent)})[:2], (7, "link\n"), "or its name")

    # Passes, options, switches.
    code, out, err = started("--debug", "passes", "--pass", "count", "--option",
                             r"count.prefix=a:b\c", "true", env=home)
    equal((code, out), (0, ""), "a pass")
    contains(err, "\ta:b\\c ", "an option with characters that MVLD_TUNABLES gives a meaning")
    passes = folder / "passes"
    passes.mkdir()
    (folder / "pass.c").write_text(MULTIVERSE)
    compile_file(passes / "multiverse.so", *PASS_OPTIONS, f"-I{include}", folder / "pass.c")
    build = str(Path(mvld).resolve().parents[1] / "passes" / "example")
    own = {**home, "MVLD_PASS_PATH": f"{passes}:{build}"}
    code, out, err = started("--debug", "passes", "--set", "fast=1", "--set", "ns::level=-2", "true",
                             env=own)
    equal(code, 0, "--set")
    contains(err, "said: set.fast is 1\n", "--set adds multiverse")
    contains(err, "said: set.ns::level is -2\n", "a switch with colons")
    code, out, err = started("--debug", "passes", "--pass", "count", "--set", "a=1", "true", env=own)
    contains(err, "passes = count, multiverse", "--pass and --set")
    config = folder / "one.conf"
    config.write_text("[app]\nmatch = true\npasses = count\n[count]\nprefix = configured\n")
    code, out, err = started("--debug", "passes", "--config", config, "--set", "a=1", "true", env=own)
    contains(err, "passes = count, multiverse", "--set adds to the configured passes")
    contains(err, "configured ", "--config")
    code, out, err = started("--option", "count.prefix=x", "sh", "-c", "echo $MVLD_TUNABLES",
                             env={**own, "MVLD_TUNABLES": "count.what=both"})
    equal(out, "count.what=both:count.prefix=x\n", "what the environment said before stays")

    code, out, err = started("--pass", "count", "--debug", "passes", "echo", "x",
                             env={**home, "MVLD": "off"})
    equal((code, out, err), (0, "x\n", "mvld run: MVLD=off: no pass runs\n"), "MVLD=off")

    # What cannot be is refused before anything runs.
    for arguments, sentence in (
            (["--pass", "absent"], "there is no pass 'absent'"),
            (["--pass", "count", "--option", "count.nothing=1"], "nothing"),
            (["--pass", "count", "--option", "count.at-most=many"], "many"),
            (["--pass", "count", "--placement", "far"], "'far' is no placement")):
        code, out, err = started(*arguments, "echo", "ran", env=own)
        equal((code, out), (1, ""), f"{arguments} is refused")
        contains(err, sentence, "the sentence")
    config.write_text("[app]\nmatch = true\npasses count\n")
    code, out, err = started("--config", config, "echo", "ran", env=own)
    equal((code, out), (0, "ran\n"), "a wrong configuration alone stops no program")
    contains(err, f"{config}:3:", "but it is said")
    equal(err.count("\n"), 1, "once")
    for arguments in (["--set", "fast"], ["--set", "=1"], ["--option", "x=1"], ["--option", "a.b"],
                      [], ["--nonsense", "true"]):
        equal(started(*arguments, *(["true"] if arguments else []))[0], 2, f"{arguments}: usage")
    equal(started("no-such-program")[0], 127, "not found")
    equal(started("/etc/passwd")[0], 126, "not executable")
    (folder / "text").write_text("echo no\n")
    (folder / "text").chmod(0o755)
    equal(started(folder / "text")[0], 0, "a text is the shell's")

    # Scripts: the interpreter runs under mvld, and finds what the kernel gives it.
    script = folder / "script"
    script.write_text("#! /bin/sh -u\necho \"$0\" \"$@\" $-\n")
    script.chmod(0o755)
    code, out, err = started("--debug", "passes", "--pass", "count", script, "a b")
    equal((code, out), run(script, "a b")[:2], "a script")
    contains(err, "count: ", "its interpreter runs under mvld")
    outer = folder / "outer"
    outer.write_text(f"#!{script}\n")
    outer.chmod(0o755)
    equal(started(outer, "x"), run(outer, "x"), "a script of a script")

    # What cannot run under a loader of ours runs by itself.
    (folder / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); }\n')
    static = compile_file(folder / "static", "-static", folder / "hello.c")
    code, out, err = started(static)
    equal((code, out), (0, "hello\n"), "a static executable")
    contains(err, f"{static}: started without mvld: a static executable", "with a note")
    suid = compile_file(folder / "suid", folder / "hello.c")
    suid.chmod(0o4755)
    code, out, err = started("--pass", "count", suid)
    equal((code, out), (0, "hello\n"), "a set-id program")
    contains(err, "started without mvld: set-id bits", "with a note")
    unreadable = compile_file(folder / "unreadable", folder / "hello.c")
    unreadable.chmod(0o711)
    other = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    folder.chmod(0o755)
    if os.geteuid() != 0:
        unreadable.chmod(0o111)
    if not other or (shutil.which("setpriv") and run(*other, "test", "-x", mvld)[0] == 0):
        code, out, err = run(*other, mvld, "run", unreadable)
        equal((code, out), (0, "hello\n"), "a program that may only be executed")
        contains(err, "started without mvld: it may be executed, and not read", "with a note")

    # Nor does the program miss a loader of ours that is not there, or damaged.
    (folder / "damaged").write_bytes(b"\x7fELF")
    (folder / "damaged").chmod(0o755)
    for gone, why in (folder / "gone", "No such file or directory"), (folder / "damaged", "it is no ELF file"):
        code, out, err = started("--loader", gone, "--argv0", "name", "sh", "-c", "echo $0; exit 3")
        equal((code, out), (3, "name\n"), f"without {gone}")
        contains(err, f"started without mvld: {gone}: {why}\n", "with a note")
    code, out, err = run(mvld, "build", "--loader", folder / "gone", "sh")
    equal((code, out), (1, ""), "nor is there a snapshot")
    contains(err, "/gone: No such file or directory\n", "and why")

    # Programs of musl's.
    if shutil.which("musl-gcc"):
        musl = folder / "musl"
        (folder / "name.c").write_text(
            '#include <stdio.h>\nint main(int n, char **v) { puts(v[0]); return n; }\n')
        subprocess.run(["musl-gcc", "-o", str(musl), str(folder / "name.c")], check=True, timeout=60)
        for argv0 in str(musl), "other":
            code, out, err = started("--debug", "passes", "--pass", "count", "--argv0", argv0, musl, "x")
            equal((code, out), (2, f"{argv0}\n"), "a program of musl's")
            contains(err, "count: 3 objects", "it runs under mvld")
        shutil.copy(musl, folder / "set")
        equal(run(mvld, "set-interp", folder / "set")[0], 0, "set-interp knows musl's loader")
        code, out, err = started("--debug", "passes", "--pass", "count", folder / "set")
        equal(code, 1, "its interpreter is mvld")
        contains(err, "count: 3 objects", "it runs under mvld")

    # A program that has mvld as its loader is started itself: /proc/self/exe is its own.
    shutil.copy(os.path.realpath("/bin/readlink"), folder / "readlink")
    equal(run(mvld, "set-interp", folder / "readlink")[0], 0, "set-interp")
    code, out, err = started("--debug", "passes", "--pass", "count", folder / "readlink",
                             "/proc/self/exe")
    equal((code, out), (0, f"{folder}/readlink\n"), "/proc/self/exe")
    contains(err, "count: ", "its passes run")
    # Nor does it load what only other subcommands need.
    loaded = started("true", env={"LD_DEBUG": "files"})[2]
    contains(loaded, "libc.so.6", "LD_DEBUG")
    for library in "capstone", "libdw", "libelf":
        check(library not in loaded, f"{library} is loaded for a start")
    contains(started("--help")[1], "Usage: mvld run", "--help")
finish()
