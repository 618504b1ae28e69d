# SPDX-License-Identifier: MIT
"""tables.py CASE: code that jumps through tables gives the same answers where it has moved.

    by-hand    functions of assembly that take a table's address in all manner of ways (tables.S is
               made here), from moved code in the process and from a snapshot
    compiled   C with many switches and labels as values, by each compiler that is here at each level
    rust       a panic with a backtrace that goes through frames of C

A failure means that moved code adds an entry of one table to the address of another, or reads
numbers that were changed.
"""
import random
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import support  # noqa: E402
from support import check  # noqa: E402

CONCAT = support.BUILD / "passes" / "concat"
TAKE, READ, ADD, JUMP = ("lea {t}(%rip),%rdx", "movslq (%rdx,%rdi,4),%rax", "add %rdx,%rax", "jmp *%rax")
AGAIN = "lea {t}(%rip),%rcx"
OTHER = "lea {o}(%rip),%rcx"
# Functions of a number below four; {t} is their table, {o} another one of the same cases, {n} in front
# of {t}, by 64 bytes.
BY_HAND = [
    [TAKE, READ, ADD, JUMP],
    [TAKE, READ, TAKE, ADD, JUMP],
    [TAKE, READ, AGAIN, "add %rcx,%rax", JUMP],
    [AGAIN, TAKE, "movslq (%rcx,%rdi,4),%rax", ADD, JUMP],
    [TAKE, "mov %rdx,%rcx", READ, "add %rcx,%rax", JUMP],
    [TAKE, "mov %rdx,%rcx", TAKE, READ, "add %rcx,%rax", JUMP],
    [TAKE, "mov %rdx,-8(%rsp)", READ, "mov -8(%rsp),%rcx", "add %rcx,%rax", JUMP],
    [TAKE, "mov %rdx,-8(%rsp)", "mov -8(%rsp),%rcx", "movslq (%rcx,%rdi,4),%rax", TAKE, ADD, JUMP],
    [TAKE, "mov %rdx,-8(%rsp)", READ, "add -8(%rsp),%rax", JUMP],
    [TAKE, READ, "mov %rax,-8(%rsp)", TAKE, "add -8(%rsp),%rdx", "jmp *%rdx"],
    [TAKE, "push %rdx", READ, "pop %rcx", "add %rcx,%rax", JUMP],
    [TAKE, "movq %rdx,%xmm0", READ, "movq %xmm0,%rcx", "add %rcx,%rax", JUMP],
    ["lea {n}(%rip),%rdx", "add $64,%rdx", READ, TAKE, ADD, JUMP],
    ["lea {n}(%rip),%rdx", "add $64,%rdx", READ, ADD, JUMP],
    ["lea {n}(%rip),%rcx", TAKE, READ, "lea 64(%rcx),%rdx", ADD, JUMP],
    ["lea {t}+4(%rip),%rdx", "movslq -4(%rdx,%rdi,4),%rax", TAKE, ADD, JUMP],
    [TAKE, "lea (%rdx,%rdi,4),%rcx", "movslq (%rcx),%rax", ADD, JUMP],
    [TAKE, "mov (%rdx,%rdi,4),%eax", "cltq", TAKE, ADD, JUMP],
    [TAKE, READ, "lea (%rdx,%rax),%rsi", "xor %eax,%eax", "jmp *%rsi"],
    [TAKE, READ, ADD, "mov %rax,%rsi", "mov $1,%eax", "jmp *%rsi"],
    [TAKE, READ, ADD, "mov %rax,-8(%rsp)", "jmp *-8(%rsp)"],
    [TAKE, READ, ADD, "push %rax", "ret"],
    [TAKE, READ, TAKE, "xchg %rdx,%rax", ADD, JUMP],
    [TAKE, "xor %ecx,%ecx", "xchg %rdx,%rcx", "movslq (%rcx,%rdi,4),%rax", "add %rcx,%rax", JUMP],
    [TAKE, OTHER, "test $1,%edi", "cmovne %rcx,%rdx", READ, ADD, JUMP],
    [TAKE, "test $1,%edi", "je 1f", "lea {o}(%rip),%rdx", "1: " + READ, ADD, JUMP],
    [TAKE, "test $1,%edi", "je 1f", TAKE, "1: " + READ, AGAIN, "add %rcx,%rax", JUMP],
    [TAKE, "mov $5,%ecx", "1: dec %ecx", "jne 1b", READ, ADD, JUMP],
    ["push %rbx", "lea {t}(%rip),%rbx", "push %rdi", "call helper", "pop %rdi",
     "movslq (%rbx,%rdi,4),%rax", "add %rbx,%rax", "pop %rbx", JUMP],
    [TAKE, "push %rdi", "call same", "pop %rdi", READ, TAKE, ADD, JUMP],
    [TAKE, "push %rdi", "call same", "pop %rdi", READ, AGAIN, "add %rcx,%rax", JUMP],
    [TAKE, "jmp {t}_rest", "END", "{t}_rest:", READ, AGAIN, "add %rcx,%rax", JUMP],
    [TAKE, "mov $0,%dl", READ, ADD, JUMP],            # tables are at a multiple of 256
    [TAKE, "or $0,%dl", READ, TAKE, ADD, JUMP],
    [TAKE, READ, "mov %edx,%ecx", TAKE, "add %edx,%eax", "sub %ecx,%eax", "cltq", ADD, JUMP],
    [TAKE, "mov (%rdx,%rdi,4),%eax", AGAIN, "ret"], # the number
    [TAKE, "mov {t}(%rip),%eax", READ, ADD, "mov (%rdx),%eax", "ret"],
    [TAKE, READ, AGAIN, "sub %rcx,%rdx", "add %rcx,%rdx", ADD, JUMP],
    ["lea {o}(%rip),%rdx", READ, ADD, "lea {o}(%rip),%rdx", TAKE, READ, "add %rdx,%rax", JUMP],
]


def by_hand(folder):
    """A library, and what each function says of each number."""
    text = [".text", "helper: .cfi_startproc", "xor %edx,%edx", "mov $-1,%rcx", "mov $-1,%rsi", "xor %eax,%eax",
            "ret", ".cfi_endproc", ".balign 16", "same: .cfi_startproc", "mov $7,%eax", "ret", ".cfi_endproc"]
    data = ['.section .rodata,"a"']
    for i, steps in enumerate(BY_HAND):
        words = {"t": f"t{i}", "o": f"o{i}", "n": f"n{i}"}
        text += [".balign 16", f".globl f{i}", f".type f{i},@function", f"f{i}: .cfi_startproc"]
        for step in steps:
            text.append(".cfi_endproc\n.balign 16" if step == "END" else step.format(**words))
            if step.endswith("_rest:"):
                text.append(".cfi_startproc")
        for k in range(4):
            text += [f"case_t{i}_{k}: mov ${10 * i + k},%eax", "ret"]
        text += [".cfi_endproc"]
        data += [".balign 256", ".skip 192", f"n{i}: .skip 64,0x7f", f"t{i}: " +
                 "".join(f".long case_t{i}_{k}-t{i}\n" for k in range(4)), ".long 0x7fffffff",
                 f"o{i}: " + "".join(f".long case_t{i}_{k}-o{i}\n" for k in range(4)), ".long 0x7fffffff"]
    source = folder / "tables.S"
    source.write_text("\n".join(text + data + ['.section .note.GNU-stack,"",@progbits', ""]))
    names = [f"f{i}" for i in range(len(BY_HAND))]
    main = folder / "main.c"
    main.write_text("#include <stdio.h>\n" + "".join(f"int {f}(unsigned long);\n" for f in names) +
                    "int main(void)\n{\n    for (unsigned long i = 0; i < 4; i++) {\n" +
                    "".join(f'        printf("{f} %lu: %d\\n", i, {f}(i)); fflush(stdout);\n'
                            for f in names) + "    }\n}\n")
    library, program = folder / "libtables.so", folder / "main"
    support.compile_c(library, "-shared", "-Wl,--build-id", source, plugin=False)
    support.compile_c(program, main, library, "-Wl,--build-id", f"-Wl,-rpath,{folder}", plugin=False)
    return program


def same_where_it_moves(folder, program, *moves, status=0, **environment):
    """In the process, and from a snapshot that it makes; `moves`: libraries that must."""
    plain = support.run([program], timeout=60, **environment)
    check(plain.returncode == status, f"plainly: {plain.returncode} {plain.stderr[-2000:]}")
    cache = folder / "cache"
    support.analyze(cache, "--program", program)
    environment = {**environment, "XDG_CACHE_HOME": cache, "MVLD_PASS_PATH": CONCAT,
                   "MVLD_TUNABLES": "app.passes=concat:" + support.COPY_TUNABLE, **support.TELL_MAPPED}
    for how, more in ("in the process", {}), ("makes one", {"MVLD_SNAPSHOT": "1"}), ("from a snapshot", {}):
        log = folder / "log"
        for old in folder.glob("log.*"):
            old.unlink()
        done = support.run([support.LOADER, program], timeout=60, MVLD_DEBUG="passes",
                           MVLD_DEBUG_OUTPUT=log, **environment, **more)
        said = "".join(path.read_text(errors="replace") for path in folder.glob("log.*"))
        if how == "makes one":
            continue
        last = (done.stdout.splitlines() or ["nothing"])[-1]
        check(done.returncode == status and done.stdout == plain.stdout,
              f"{program.name} {how}: {done.returncode}, last {last}\n{done.stderr[-1000:]}{said[-1500:]}")
        missing = {Path(path).name for path in (program, *moves)} - {name for name, *_ in support.moved_code(said)}
        check(not missing, f"these did not move: {missing}")
        check(("concat.so" in support.from_snapshot(done)) == (how == "from a snapshot"), said[-2000:])


# ---- what compilers make ---------------------------------------------------------------------------

def statements(rng, depth):
    """Some that change x from i, and may leave the loop they are in."""
    kind = rng.randrange(6) if depth else 0
    if kind == 0:
        return f"x = x * {rng.randrange(3, 99, 2)}u + i;"
    if kind == 1:
        return f"if (x & {1 << rng.randrange(6)}u) {{ {statements(rng, depth - 1)} }} else x ^= i;"
    if kind == 2:
        return f"for (unsigned k = 0; k < 5; k++) {{ i += k; {statements(rng, depth - 1)} }}"
    if kind == 3:
        return f"x += call(x, i); {statements(rng, depth - 1)}"
    cases = "".join(f"case {k}: {statements(rng, depth - 1)} {rng.choice(['break;', '', 'i++; break;'])}\n"
                    for k in range(rng.randrange(5, 14)))
    of = rng.choice(["x % 16", "i % 11", "(x ^ i) & 15", "array[i % 3]"])
    return f"switch ({of}) {{\n{cases}default: x -= i; }}"


def compiled_source(seed):
    rng = random.Random(seed)
    functions = "".join(
        f"NOINLINE static unsigned f{n}(unsigned x, unsigned i)\n{{\n"
        f"static const unsigned array[3] = {{{rng.randrange(9)}, {rng.randrange(9)}, {rng.randrange(9)}}};\n"
        f"(void)array;\n{statements(rng, 3)}\n{statements(rng, 3)}\nreturn x;\n}}\n" for n in range(40))
    return f"""#include <stdio.h>
#define NOINLINE __attribute__((noinline))
NOINLINE static unsigned call(unsigned x, unsigned i) {{ __asm__ volatile(""); return x / (i | 1); }}
{functions}
NOINLINE static unsigned labels(unsigned x, unsigned n)
{{
    static void *const to[] = {{&&a, &&b, &&c, &&end}};
    static const int by[] = {{&&a - &&a, &&b - &&a, &&c - &&a, &&end - &&a}};
    goto *to[x % 3];
a:  x = x * 3 + n; if (!n--) goto end; goto *(&&a + by[x % 3]);
b:  x ^= n; if (!n--) goto end; goto *to[x % 4];
c:  x += 7; if (!n--) goto end; goto *(&&a + by[x % 4]);
end: return x;
}}
int main(void)
{{
    static unsigned (*const all[])(unsigned, unsigned) = {{{", ".join(f"f{n}" for n in range(40))}}};
    for (unsigned n = 0; n < 40; n++) {{
        unsigned sum = 0;
        for (unsigned i = 0; i < 300; i++)
            sum = sum * 31 + all[n](i * 2654435761u >> 7, i) + labels(i, i);
        printf("%u %u\\n", n, sum);
        fflush(stdout);
    }}
}}
"""


def compiled(folder):
    source = folder / "switches.c"
    compilers = [cc for cc in ("gcc", "clang") if shutil.which(cc)]
    for seed, (cc, level) in enumerate((cc, level) for cc in compilers
                                       for level in ("-O0", "-O1", "-O2", "-O3", "-Os")):
        source.write_text(compiled_source(seed))
        program = folder / f"{cc}{level}"
        support.compile_c(program, level, "-w", "-g0", "-fPIE", "-pie", "-Wl,--build-id", source,
                          plugin=False, cc=cc)
        same_where_it_moves(folder, program)


# ---- Rust ---------------------------------------------------------------------------------------------

RUST = """
extern "C-unwind" { fn through(f: extern "C-unwind" fn(i32), n: i32); }
extern "C-unwind" fn fails(n: i32) { if n == 3 { panic!("three") } }
fn main() { unsafe { through(fails, 3) } }
"""
THROUGH = "void through(void (*f)(int), int n) { f(n); __asm__ volatile(\"\"); }\n"


def rust(folder):
    """A panic ends a program with 101."""
    compiler = "/usr/bin/rustc" if Path("/usr/bin/rustc").exists() else shutil.which("rustc")
    if not compiler:
        support.skip("no rustc here")
    version = support.run([compiler, "--version"]).stdout.split()[1:2]
    old = version and tuple(map(int, version[0].split("-")[0].split("."))) < (1, 71)
    (folder / "main.rs").write_text("#![feature(c_unwind)]" * bool(old) + RUST)
    (folder / "through.c").write_text(THROUGH)
    support.compile_c(folder / "libthrough.so", "-shared", "-fPIC", "-fexceptions", "-Wl,--build-id",
                      folder / "through.c", plugin=False)
    for how in "-Cprefer-dynamic=no", "-Cprefer-dynamic=yes":
        program = folder / ("rust" + how[-3:].strip("="))
        done = support.run([compiler, how, "-Copt-level=2", "-Clink-arg=-Wl,--build-id", f"-L{folder}",
                            "-lthrough", f"-Clink-arg=-Wl,-rpath,{folder}", "-o", program,
                            folder / "main.rs"], timeout=100, RUSTC_BOOTSTRAP="1")
        check(done.returncode == 0, done.stderr)
        same_where_it_moves(folder, program, status=101, RUST_BACKTRACE="full",
                            LD_LIBRARY_PATH=support.run([compiler, "--print=sysroot"]).stdout.strip() + "/lib")


if __name__ == "__main__":
    support.need(support.LOADER, CONCAT / "concat.so", CONCAT / "libconcat.so.1")
    with support.scratch_folder() as folder:
        if sys.argv[1] == "by-hand":
            same_where_it_moves(folder, by_hand(folder), "libtables.so")
        else:
            {"compiled": compiled, "rust": rust}[sys.argv[1]](folder)
