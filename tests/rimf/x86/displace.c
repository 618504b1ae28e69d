/* SPDX-License-Identifier: MIT
 *
 * displace [LIBRARY...]: the first instructions of functions, for another place.
 *
 * A failure means that a function that is hooked does something else than before, or
 * that one is hooked that must not be.
 *
 * First samples, each with its answer.  Then every function of the libraries: what came
 * out, decoded again, has the same instructions, and its operands lead to the same
 * places.  Then functions that run: before, hooked, and hooked far from their data.
 */
#include "../../check.h"

#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- samples ------------------------------------------------------------------- */

#define START 0x10000
#define TO 0x20000

static const struct sample {
    const char *what, *code;
    size_t size;
    int length; /* 0: refused */
    const char *moved;
} samples[] = {
#define S(what, code, length, moved) {what, code, sizeof code - 1, length, moved}
    S("pushes", "\x41\x55\x41\x54\x55\x53\xc3", 5, "\x41\x55\x41\x54\x55"),
    S("one longer than a jump", "\x48\x83\x3d\x00\x01\x00\x00\x00\xc3", 8,
      "\x48\x83\x3d\x00\x01\xff\xff\x00"),
    S("behind endbr64", "\xf3\x0f\x1e\xfa\x48\x8d\x05\x00\x00\x00\x00\xc3", 7,
      "\x48\x8d\x05\x04\x00\xff\xff"),
    S("an operand behind another instruction", "\x53\x48\x8b\x05\x00\x00\x01\x00\xc3", 8,
      "\x53\x48\x8b\x05\x00\x00\x00\x00"),
    S("lea of itself", "\x48\x8d\x05\xf9\xff\xff\xff\xc3", 7, "\x48\x8d\x05\xf9\xff\xfe\xff"),
    S("a branch to the jump", "\x41\x55\x41\x54\x55\x75\xf9\xc3", 5, "\x41\x55\x41\x54\x55"),
    S("a branch behind what moves", "\x41\x55\x41\x54\x55\x90\x75\xfd\xc3", 5,
      "\x41\x55\x41\x54\x55"),
    S("a branch into what moves", "\x41\x55\x41\x54\x55\x75\xfb\xc3", 0, ""),
    S("a long branch into what moves", "\x41\x55\x41\x54\x55\x0f\x84\xf7\xff\xff\xff\xc3", 0, ""),
    S("a branch behind the jump into the last instruction's middle",
      "\x48\x83\x3d\x00\x01\x00\x00\x00\xeb\xfc\xc3", 0, ""),
    S("itself as data", "\x48\x8b\x05\xf9\xff\xff\xff\xc3", 0, ""),
    S("a byte of it as data", "\x53\x53\x53\x53\x53\x8a\x05\xf7\xff\xff\xff\xc3", 0, ""),
    S("the address of its middle", "\x53\x53\x53\x53\x53\x48\x8d\x05\xf6\xff\xff\xff\xc3", 0, ""),
    S("a call", "\x53\xe8\x00\x00\x00\x00\xc3", 0, ""),
    S("a jump", "\xe9\x00\x00\x00\x00\xc3", 0, ""),
    S("a branch", "\x48\x85\xff\x74\x01\xc3\xc3", 0, ""),
    S("a breakpoint", "\xcc\x41\x54\x55\x53\xc3", 0, ""),
    S("a breakpoint behind endbr64", "\xf3\x0f\x1e\xfa\xcc\x55\x41\x54\x55\xc3", 0, ""),
    S("return", "\x31\xc0\xc3\x90\x90\x90", 0, ""),
    S("a system call", "\xb0\x27\x0f\x05\x90\xc3", 0, ""),
    S("an indirect call", "\x53\xff\xd0\x5b\xc3\x90", 0, ""),
    S("an indirect jump", "\xff\x25\x00\x00\x00\x00", 0, ""),
    S("xbegin", "\xc7\xf8\x00\x00\x00\x00\xc3", 0, ""),
    S("an operand of 32 bits", "\x67\x48\x8b\x05\x00\x00\x00\x00\xc3", 0, ""),
    S("far data", "\x48\x8b\x05\x00\x00\x00\x80\xc3", 0, ""),
    S("too short", "\x53\x53\x53\x53", 0, ""),
    S("an end in the middle", "\x53\x53\x53\x48\x8b", 0, ""),
    S("no instruction", "\x06\x53\x53\x53\x53\xc3", 0, ""),
    S("no instruction later", "\x53\x53\x53\x53\x53\x06\xc3", 0, ""),
    S("ports", "\x53\x53\x53\x53\xec\xc3", 0, ""),
    S("nothing", "", 0, ""),
};

static void check_samples(void)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const struct sample *s = &samples[i];
        /* Exactly as long, so that a sanitizer sees who reads on. */
        uint8_t *code = memcpy(malloc(s->size + !s->size), s->code, s->size);
        struct displaced d;
        const char *why = displace(code, s->size, START, TO, 0, &d);

        CHECK(!!why == !s->length, "(%s: %s)", s->what, why ? why : "");
        CHECK(why || (d.length == s->length && memcmp(d.bytes, s->moved, (size_t)s->length) == 0), "(%s)", s->what);
        free(code);
    }
}

/* What a jump may take the place of, though it runs nowhere any more; skip: bytes in front of the jump, or -1. */
static const struct over {
    const char *what, *code;
    size_t size;
    int skip;
} overs[] = {
#define O(what, code, skip) {what, code, sizeof code - 1, skip}
    O("a branch", "\x48\x85\xff\x74\x01\xc3\xc3", 0),
    O("an early end", "\x31\xc0\xc3\x90\x90\x90", 0),
    O("behind endbr64", "\xf3\x0f\x1e\xfa\x48\x85\xff\x74\x01\xc3\xc3", 4),
    O("a jump", "\xe9\x00\x00\x00\x00\xc3", 0),
    O("a call that returns behind", "\x53\xe8\x00\x00\x00\x00\xc3", 0),
    O("a branch to the jump", "\x41\x55\x41\x54\x55\x75\xf9\xc3", 0),
    O("a branch behind the jump, in the last instruction", "\x48\x83\x3d\x00\x01\x00\x00\x00\xeb\xfc\xc3", 0),
    O("too short", "\x31\xc0\xc3", -1),
    O("too short behind endbr64", "\xf3\x0f\x1e\xfa\x31\xc0\xc3", -1),
    O("a call that returns inside", "\x53\xff\xd0\x5b\xc3\x90", -1),
    O("a system call, which may be made again", "\xb0\x27\x90\x0f\x05\xc3", -1),
    O("a system call at the end", "\xb0\x27\x90\x90\x0f\x05\xc3", -1),
    O("a branch into what moves", "\x41\x55\x41\x54\x55\x75\xfb\xc3", -1),
    O("itself as data", "\x48\x8b\x05\xf9\xff\xff\xff\xc3", -1),
    O("no instruction later", "\x53\x53\x53\x53\x53\x06\xc3", -1),
};

static void check_over(void)
{
    for (size_t i = 0; i < sizeof overs / sizeof *overs; i++) {
        const struct over *o = &overs[i];
        uint8_t *code = memcpy(malloc(o->size), o->code, o->size);
        struct displaced d;
        const char *why = displace_over(code, o->size, START, &d);

        CHECK(!!why == (o->skip < 0), "(%s: %s)", o->what, why ? why : "");
        CHECK(why || d.skip == o->skip, "(%s)", o->what);
        free(code);
    }
}

static void check_jump(void)
{
    uint8_t jump[DISPLACE_JUMP];
    uintptr_t from = 1ul << 40;

    CHECK(displace_jump(jump, from, from + 5) == 0 && memcmp(jump, "\xe9\0\0\0\0", 5) == 0);
    CHECK(displace_jump(jump, from, from + 5 + 0x7fffffff) == 0);
    CHECK(memcmp(jump, "\xe9\xff\xff\xff\x7f", 5) == 0);
    CHECK(displace_jump(jump, from, from + 5 - 0x80000000ul) == 0);
    CHECK(memcmp(jump, "\xe9\0\0\0\x80", 5) == 0);
    CHECK(displace_jump(jump, from, from + 5 + 0x80000000ul) != 0);
    CHECK(displace_jump(jump, from, from + 5 - 0x80000001ul) != 0);
}

/* ---- every function of a library -------------------------------------------------- */

static int32_t operand(const uint8_t *code, const struct instruction *i)
{
    int32_t value;

    memcpy(&value, code + i->displacement_at, sizeof value);
    return value;
}

/* What was displaced from `start` to `to` does there what it did. */
static void check_same(const uint8_t *code, uintptr_t start, uintptr_t to,
                       const struct displaced *d)
{
    for (size_t at = 0; at < d->length;) {
        struct instruction was, is;

        CHECK(decode(code + d->skip + at, 15, &was));
        CHECK(decode(d->bytes + at, d->length - at, &is) == was.length);
        CHECK(was.rip == is.rip);
        for (size_t k = 0; k < is.length; k++)
            CHECK((is.rip && k >= is.displacement_at && k < is.displacement_at + 4u) ||
                  code[d->skip + at + k] == d->bytes[at + k]);
        if (is.rip)
            CHECK(start + d->skip + at + (uintptr_t)operand(code + d->skip + at, &was) ==
                  to + at + (uintptr_t)operand(d->bytes + at, &is));
        at += is.length;
    }
    CHECK(d->length >= DISPLACE_JUMP && d->length <= DISPLACE_MAX);
}

/* 1 when it can be displaced, to wherever. */
static int check_function(const uint8_t *file, const Elf64_Shdr *in, const Elf64_Sym *symbol)
{
    const uint8_t *code = file + in->sh_offset + (symbol->st_value - in->sh_addr);
    int displaced = 0;

    for (uintptr_t to = 0x1000; to < 0x80000000; to *= 0x10) {
        struct displaced d;

        if (displace(code, symbol->st_size, symbol->st_value, to, 0, &d))
            continue;
        check_same(code, symbol->st_value, to, &d);
        displaced = 1;
    }
    return displaced;
}

static void check_library(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    const uint8_t *file;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *section;
    size_t displaced = 0, all = 0;

    CHECK(fd >= 0 && fstat(fd, &st) == 0, "(%s)", path);
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file != MAP_FAILED);
    head = (const void *)file;
    section = (const void *)(file + head->e_shoff);
    for (size_t i = 0; i < head->e_shnum; i++) {
        const Elf64_Sym *symbol = (const void *)(file + section[i].sh_offset);

        if (section[i].sh_type != SHT_DYNSYM)
            continue;
        for (size_t n = section[i].sh_size / sizeof *symbol; n--; symbol++) {
            if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
                symbol->st_shndx >= head->e_shnum || !symbol->st_size)
                continue;
            all++;
            displaced += (size_t)check_function(file, &section[symbol->st_shndx], symbol);
        }
    }
    printf("%s: %zu of %zu functions\n", path, displaced, all);
    CHECK(all > 10 && displaced > all / 2);
    munmap((void *)file, (size_t)st.st_size);
    close(fd);
}

/* ---- functions that run -------------------------------------------------------------- */

extern const uint8_t fn_data[], fn_data_end[], fn_pushes[], fn_pushes_end[], fn_flags[],
    fn_flags_end[];
static long asked;

__attribute__((used)) long fn_word = 40;

/* fn_data: an operand in the second instruction; fn_pushes: an endbr64 first; fn_flags:
 * flags that are set there are used behind the jump back. */
__asm__(".text\n"
        "fn_data: push %rbx\n mov fn_word(%rip), %rax\n add %rdi, %rax\n pop %rbx\n ret\n"
        "fn_data_end:\n"
        "fn_pushes: .byte 0xf3, 0x0f, 0x1e, 0xfa\n push %r13\n push %r12\n push %rbp\n"
        "  lea 2(%rdi), %rax\n pop %rbp\n pop %r12\n pop %r13\n ret\n"
        "fn_pushes_end:\n"
        "fn_flags: cmpq $40, fn_word(%rip)\n jne 1f\n lea 2(%rdi), %rax\n ret\n"
        "1: xor %eax, %eax\n ret\n"
        "fn_flags_end:\n");

/* A copy of the function in a page of its own, hooked by a stub that counts. */
static void check_runs(const uint8_t *code, const uint8_t *end, uintptr_t near_it)
{
    size_t size = (size_t)(end - code), n = 0;
    uint8_t *page = mmap((void *)near_it, 8192, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /*  48 ff 05 <rel32>   incq asked(%rip) */
    uint8_t *stub = page + 4096;
    intptr_t distance = (intptr_t)&asked - (intptr_t)(stub + 7);
    int32_t narrow = (int32_t)distance;
    struct displaced d;
    const char *why = displace(code, size, (uintptr_t)code, (uintptr_t)stub + 7, 0, &d);
    long before = asked;

    CHECK(page != MAP_FAILED && narrow == distance);
    CHECK(!why, "%s", why);
    memcpy(stub, "\x48\xff\x05", 3);
    memcpy(stub + 3, &narrow, 4);
    memcpy(stub + 7, d.bytes, d.length);
    n = 7u + d.length;
    CHECK(displace_jump(stub + n, (uintptr_t)stub + n,
                        (uintptr_t)code + d.skip + d.length) == 0);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
    CHECK(((long (*)(long))(uintptr_t)stub)(2) == ((long (*)(long))(uintptr_t)code)(2));
    CHECK(asked == before + 1);
    munmap(page, 8192);
}

int main(int argc, char **argv)
{
    uintptr_t here = (uintptr_t)fn_data & ~4095ul;

    check_samples();
    check_over();
    check_jump();
    for (int i = 1; i < argc; i++)
        check_library(argv[i]);
    for (uintptr_t away = 1ul << 24; away < 1ul << 31; away *= 4) {
        check_runs(fn_data, fn_data_end, here + away);
        check_runs(fn_pushes, fn_pushes_end, here + away);
        check_runs(fn_flags, fn_flags_end, here + away);
    }
    return 0;
}
