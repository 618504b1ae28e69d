/* SPDX-License-Identifier: MIT
 *
 * Instructions at call sites: what is decoded, what is written, and which bodies
 * may stand in a site.  A failure here means wrong code in somebody's process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../check.h"
#include "passes/multiverse/site/site.h"

#define AT 0x10000u

static void decodes(void)
{
    static const struct {
        uint8_t code[6];
        enum mv_site_kind kind;
        unsigned length;
        uintptr_t target;
    } cases[] = {
        {{0xe8, 0x00, 0x10, 0x00, 0x00}, MV_CALL, 5, AT + 5 + 0x1000},
        {{0xe8, 0xfb, 0xff, 0xff, 0xff}, MV_CALL, 5, AT},
        {{0xe9, 0x00, 0xff, 0xff, 0xff}, MV_JUMP, 5, AT + 5 - 0x100},
        {{0xe9, 0x01, 0x00, 0x00, 0x00, 0x90}, MV_JUMP, 5, AT + 6},
        {{0xeb, 0x7f, 0xcc, 0xcc, 0xcc}, MV_JUMP_SHORT, 5, AT + 2 + 127},
        {{0xeb, 0x80, 0xcc, 0xcc, 0xcc}, MV_JUMP_SHORT, 5, AT + 2 - 128},
        {{0x67, 0xe8, 0x02, 0x00, 0x00, 0x00}, MV_CALL_RELAXED, 6, AT + 8},
        {{0x40, 0xe8, 0x02, 0x00, 0x00, 0x00}, MV_CALL_RELAXED, 6, AT + 8},
        {{0xff, 0x15, 0x04, 0x00, 0x00, 0x00}, MV_CALL_SLOT, 6, AT + 10},
        {{0xff, 0x25, 0xf0, 0xff, 0xff, 0xff}, MV_JUMP_SLOT, 6, AT + 6 - 16},
    };
    static const uint8_t none[][6] = {
        {0xeb, 0x10, 0xcc, 0xcc, 0x90}, /* a short jump without its padding */
        {0x90, 0x90, 0x90, 0x90, 0x90}, {0xff, 0x35}, {0xff, 0xd0}, {0x67, 0xe9}, {0x40, 0xe9},
        {0x41, 0xe8}, {0xcc}, {0xc3},
    };
    struct mv_decoded out;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(mv_site_decode(cases[i].code, 6, AT, &out), "case %zu", i);
        CHECK(out.kind == cases[i].kind && out.length == cases[i].length, "case %zu", i);
        CHECK(out.target == cases[i].target, "case %zu: %lx", i, (unsigned long)out.target);
        CHECK(!mv_site_decode(cases[i].code, 4, AT, &out), "case %zu", i);
        CHECK(mv_site_decode(cases[i].code, 5, AT, &out) == (cases[i].length == 5), "case %zu", i);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!mv_site_decode(none[i], 6, AT, &out), "none %zu", i);
}

/* Loads of constants, and what a value makes of them. */
static void reads(void)
{
    static const struct {
        const char *load, *made;
        unsigned length, width;
        uintptr_t target;
        uint64_t value;
    } cases[] = {
        {"\x8b\x05\x04\0\0\0", "\x3e\xb8\x44\x33\x22\x11", 6, 4, AT + 10, 0x11223344},
        {"\x44\x8b\x3d\x04\0\0\0", "\x3e\x41\xbf\xff\xff\xff\xff", 7, 4, AT + 11, UINT64_MAX},
        {"\x3e\x3e\x3e\x48\x8b\x05\x04\0\0\0", "\x48\xb8\x88\x77\x66\x55\x44\x33\x22\x11", 10, 8,
         AT + 14, 0x1122334455667788},
        {"\x3e\x3e\x3e\x4c\x8b\x1d\x04\0\0\0", "\x49\xbb\x01\0\0\0\0\0\0\0", 10, 8, AT + 14, 1},
        {"\x0f\xb6\x0d\x04\0\0\0", "\x3e\x3e\xb9\xfe\0\0\0", 7, 1, AT + 11, (uint64_t)-2},
        {"\x0f\xbe\x0d\x04\0\0\0", "\x3e\x3e\xb9\xfe\xff\xff\xff", 7, 1, AT + 11, (uint64_t)-2},
        {"\x0f\xb7\x15\x04\0\0\0", "\x3e\x3e\xba\x01\x80\0\0", 7, 2, AT + 11, 0x8001},
        {"\x44\x0f\xbf\x05\x04\0\0\0", "\x3e\x3e\x41\xb8\x01\x80\xff\xff", 8, 2, AT + 12,
         (uint64_t)(int16_t)0x8001},
        /* (%rax), (%r12), 0(%r13), 0(%rbp) */
        {"\x3e\x3e\x3e\x3e\x8b\x18", "\x3e\xbb\x07\0\0\0", 6, 4, 0, 7},
        {"\x3e\x3e\x3e\x3e\x41\x8b\x04\x24", "\x3e\x3e\x3e\xb8\x07\0\0\0", 8, 4, 0, 7},
        {"\x3e\x3e\x3e\x3e\x3e\x3e\x3e\x49\x8b\x45\0", "\x3e\x48\xb8\x07\0\0\0\0\0\0\0", 11, 8, 0, 7},
        {"\x3e\x3e\x3e\x0f\xb6\x45\0", "\x3e\x3e\xb8\x07\0\0\0", 7, 1, 0, 7},
        /* 8(%rax), 300(%rax), 300(%r12) */
        {"\x3e\x3e\x8b\x40\x08", "\xb8\x07\0\0\0", 5, 4, 0, 7},
        {"\x8b\x80\x2c\x01\0\0", "\x3e\xb8\x07\0\0\0", 6, 4, 0, 7},
        {"\x41\x0f\xb6\x84\x24\x2c\x01\0\0", "\x3e\x3e\x3e\x3e\xb8\x07\0\0\0", 9, 1, 0, 7},
        {"\x3e\x3e\x3e\x4d\x8b\x84\x24\x2c\x01\0\0", "\x3e\x49\xb8\x07\0\0\0\0\0\0\0", 11, 8, 0, 7},
    };
    static const struct {
        const char *code;
        unsigned length;
    } none[] = {
        {"\x8b\x00\x90\x90\x90", 5},                /* shorter than the immediate */
        {"\x48\x8b\x05\x04\0\0\0", 7},              /* the same */
        {"\x3e\x3e\x3e\x3e\x8b\x04\x08", 7},         /* (%rax,%rcx) */
        {"\x3e\x3e\x8b\x04\x25\x08\0\0\0", 9},        /* 8, absolute */
        {"\x3e\x3e\x3e\x3e\x8b\xc0", 6},             /* a register */
        {"\x3e\x3e\x3e\x3e\x42\x8b\x04\x20", 8},     /* (%rax,%r12) */
        {"\x48\x0f\xb6\x05\x04\0\0\0\x90\x90", 10},  /* to 64 bits */
        {"\x3e\x3e\x3e\x8a\x05\x04\0\0\0", 9},       /* movb */
        {"\x3e\x3e\x3e\x89\x05\x04\0\0\0", 9},       /* a store */
        {"\x3e\x3e\x3e\x3e\x3e\x3e\x3e\x3e\x3e\x3e\x3e", 11},
    };
    struct mv_decoded out;
    uint8_t made[MV_SITE_MAX];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t *load = (const uint8_t *)cases[i].load;

        CHECK(mv_site_decode(load, cases[i].length, AT, &out), "case %zu", i);
        CHECK(out.kind == MV_READ && out.length == cases[i].length && out.width == cases[i].width,
              "case %zu", i);
        CHECK(out.target == cases[i].target, "case %zu: %lx", i, (unsigned long)out.target);
        CHECK(!mv_site_decode(load, cases[i].length - 1, AT, &out), "case %zu", i);
        mv_read_encode(load, cases[i].length, cases[i].value, made);
        CHECK(!memcmp(made, cases[i].made, cases[i].length), "case %zu", i);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!mv_read_decode((const uint8_t *)none[i].code, none[i].length, AT, &out), "none %zu", i);
}

static void encodes(void)
{
    struct mv_inline call = {0}, empty = {.usable = 1}, load = {.usable = 1, .length = 2, .bytes = 0x078b};
    uint64_t word;
    uint8_t *out = (uint8_t *)&word;

    CHECK(mv_site_encode(MV_CALL, 5, AT, AT + 0x105, &call, &word));
    CHECK(!memcmp(out, "\xe8\x00\x01\x00\x00", 5)); /* call +0x100 */
    CHECK(mv_site_encode(MV_CALL_SLOT, 6, AT, AT + 0x106, &call, &word));
    CHECK(!memcmp(out, "\x67\xe8\x00\x01\x00\x00", 6)); /* addr32 call +0x100 */
    CHECK(mv_site_encode(MV_JUMP_SLOT, 6, AT, AT + 0x105, &load, &word));
    CHECK(!memcmp(out, "\xe9\x00\x01\x00\x00\x90", 6)); /* jmp +0x100; nop */
    CHECK(mv_site_encode(MV_JUMP_SHORT, 5, AT, AT + 0x105, &call, &word));
    CHECK(!memcmp(out, "\xe9\x00\x01\x00\x00", 5)); /* jmp +0x100 */
    CHECK(mv_site_encode(MV_JUMP, 5, AT, AT, &empty, &word));
    CHECK(!memcmp(out, "\xc3\xcc\xcc\xcc\xcc", 5)); /* ret; int3 … */
    CHECK(mv_site_encode(MV_CALL, 5, AT, AT, &empty, &word));
    CHECK(!memcmp(out, "\x0f\x1f\x44\x00\x00", 5)); /* nopl */
    CHECK(mv_site_encode(MV_CALL_RELAXED, 6, AT, AT, &empty, &word));
    CHECK(!memcmp(out, "\x66\x0f\x1f\x44\x00\x00", 6)); /* nopw */
    CHECK(mv_site_encode(MV_CALL, 5, AT, AT, &load, &word));
    CHECK(!memcmp(out, "\x3e\x3e\x3e\x8b\x07", 5)); /* ds ds ds mov (%rdi),%eax */

    CHECK(mv_site_encode(MV_CALL, 5, AT, AT, &(struct mv_inline){.usable = 1, .length = 1, .bytes = 0xfa}, &word));
    CHECK(!memcmp(out, "\x3e\x3e\x3e\x3e\xfa", 5)); /* ds ds ds ds cli */

    CHECK(mv_site_encode(MV_CALL, 5, AT, AT + 5 + 0x7fffffff, &call, &word));
    CHECK(!mv_site_encode(MV_CALL, 5, AT, AT + 5 + 0x80000000u, &call, &word));
    CHECK(mv_site_encode(MV_CALL, 5, AT, AT + 5 + 0x80000000u, &empty, &word));
    CHECK(!mv_site_encode(MV_CALL_SLOT, 6, 0x100000000, 6, &call, &word));
    CHECK(!mv_pad_encode(5, 0x7f0000000000, 0x550000000000, &word));
}

/* Bodies that may be copied, with the length of their one instruction. */
static void accepts(void)
{
    static const struct {
        const char *code;
        size_t size;
        unsigned length;
    } cases[] = {
#define BODY(bytes, length) {bytes, sizeof bytes - 1, length}
        BODY("\xc3", 0),                                     /* ret */
        BODY("\xf3\xc3", 0),                                 /* rep ret */
        BODY("\xf3\x0f\x1e\xfa\xc3", 0),                     /* endbr64; ret */
        BODY("\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00\xc3", 0), /* endbr64; nopl; ret */
        BODY("\xf3\x0f\x1e\xfa\x0f\x1f\x40\x00\x0f\x1f\x44\x00\x00\x31\xc0\xc3", 2), /* aligned */
        BODY("\x66\x90\x90\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\xc3", 0), /* NOPs; ret */
        BODY("\x0f\x1f\x44\x00\x00\x31\xc0\xc3", 2),         /* nopl; xor %eax,%eax; ret */
        BODY("\xb8\x01\x00\x00\x00\xc3", 5),                 /* mov $1,%eax; ret */
        BODY("\x89\xf8\xc3", 2),                             /* mov %edi,%eax */
        BODY("\x48\x89\xf8\xc3", 3),                         /* mov %rdi,%rax */
        BODY("\x8b\x07\xc3", 2),                             /* mov (%rdi),%eax */
        BODY("\x48\x8b\x47\x08\xc3", 4),                     /* mov 8(%rdi),%rax */
        BODY("\x0f\xb6\x07\xc3", 3),                         /* movzbl (%rdi),%eax */
        BODY("\x0f\xb7\x47\x02\xc3", 4),                     /* movzwl 2(%rdi),%eax */
        BODY("\x8d\x47\x01\xc3", 3),                         /* lea 1(%rdi),%eax */
        BODY("\x8d\x04\x37\xc3", 3),                         /* lea (%rdi,%rsi,1),%eax */
        BODY("\x83\x07\x01\xc3", 3),                         /* addl $1,(%rdi) */
        BODY("\xff\x07\xc3", 2),                             /* incl (%rdi) */
        BODY("\xc7\x07\x00\x00\x00\x00\xc3", 6),             /* movl $0,(%rdi) */
        BODY("\x66\xc7\x07\x01\x00\xc3", 5),                 /* movw $1,(%rdi) */
        BODY("\x41\x8b\x04\x24\xc3", 4),                     /* mov (%r12),%eax */
        BODY("\xfa\xc3", 1),                                 /* cli */
        BODY("\xf3\x0f\x1e\xfa\xfb\xf3\xc3", 1),             /* endbr64; sti; rep ret */
        BODY("\xf4\xc3", 1),                                 /* hlt */
        BODY("\xfc\xc3", 1),                                 /* cld */
        BODY("\xf3\x90\xc3", 2),                             /* pause */
        BODY("\x0f\x31\xc3", 2),                             /* rdtsc */
        BODY("\x0f\xa2\xc3", 2),                             /* cpuid */
        BODY("\x0f\x09\xc3", 2),                             /* wbinvd */
        BODY("\x0f\x20\xd8\xc3", 3),                         /* mov %cr3,%rax */
        BODY("\x0f\x22\xdf\xc3", 3),                         /* mov %rdi,%cr3 */
        BODY("\x0f\x22\xe7\xc3", 3),                         /* mov %rdi,%cr4: reg 4 is no %rsp */
    };
    struct mv_inline out;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mv_inline_read((const uint8_t *)cases[i].code, cases[i].size, 0, &out);
        CHECK(out.usable && out.length == cases[i].length, "body %zu", i);
        mv_inline_read((const uint8_t *)cases[i].code, cases[i].size - 1, 0, &out);
        CHECK(!out.usable, "body %zu without its end", i);
    }
}

/* Bodies that must be called. */
static void refuses(void)
{
    static const struct {
        const char *code;
        size_t size;
    } cases[] = {
#define CALL(bytes) {bytes "\xc3", sizeof bytes}
        CALL("\x8b\x05\x10\x00\x00\x00"),         /* mov 16(%rip),%eax */
        CALL("\x8b\x44\x24\x08"),                 /* mov 8(%rsp),%eax */
        CALL("\x48\x89\xe0"),                     /* mov %rsp,%rax */
        CALL("\x48\x89\xc4"),                     /* mov %rax,%rsp */
        CALL("\x48\x83\xec\x08"),                 /* sub $8,%rsp */
        CALL("\xbc\x00\x00\x00\x00"),             /* mov $0,%esp */
        CALL("\x50"),                             /* push %rax */
        CALL("\xe8\x00\x00\x00\x00"),             /* call */
        CALL("\xeb\x00"),                         /* jmp */
        CALL("\xff\xe0"),                         /* jmp *%rax */
        CALL("\xff\x17"),                         /* call *(%rdi) */
        CALL("\x0f\x05"),                         /* syscall */
        CALL("\x9c"),                             /* pushf */
        CALL("\xf3\xa4"),                         /* rep movsb */
        CALL("\x31\xc0\x90"),                     /* two instructions */
        CALL("\x31\xc0\x40"),                     /* REX before ret */
        CALL("\x64\x8b\x07"),                     /* mov %fs:(%rdi),%eax */
        CALL("\xf0\xff\x07"),                     /* lock incl (%rdi) */
        CALL("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00"), /* movabs: too long */
        CALL("\x67\x8b\x07"),                     /* mov (%edi),%eax */
        CALL("\xc6\xf8\x00"),                     /* xabort */
        CALL("\x8d\xc0"),                         /* lea without memory */
        CALL("\xcc"),                             /* a debugger's breakpoint */
        CALL("\x0f\x0b"),                         /* ud2 */
        CALL("\x0f\x10\x07"),                     /* movups (%rdi),%xmm0: not in the list */
        CALL("\x0f\x20\xdc"),                     /* mov %cr3,%rsp */
        CALL("\x0f\x20\x1f"),                     /* mov %cr3 to memory: not encoded so */
        CALL("\xf7\x3f"),                         /* idivl (%rdi): left out, it traps */
    };
    struct mv_inline out;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mv_inline_read((const uint8_t *)cases[i].code, cases[i].size, 0, &out);
        CHECK(!out.usable, "body %zu", i);
    }
    mv_inline_read((const uint8_t *)"\xc3", 0, 0, &out); /* size unknown */
    CHECK(!out.usable);
    mv_inline_read((const uint8_t *)"\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00\xc3", 10, 0, &out); /* endbr64; nopl; ret */
    CHECK(out.usable && !out.length && out.nops);
    mv_inline_read((const uint8_t *)"\x66\x90\xc3", 3, 0, &out); /* xchg %ax,%ax; ret */
    CHECK(out.usable && out.nops);
    mv_inline_read((const uint8_t *)"\x66\x0f\x1f\x00\xc3", 5, 0, &out); /* nopw (%rax), which was endbr64 */
    CHECK(out.usable && !out.nops);
}

/* A jump to the thunk is a return, and a return that a site holds would not be one by the thunk. */
static void thunks(void)
{
    static const uint8_t body[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xfa, 0xe9, 0x10, 0, 0, 0}; /* endbr64; cli; jmp */
    uintptr_t thunk = (uintptr_t)body + sizeof body + 0x10;
    struct mv_inline out;
    uint64_t word;

    mv_inline_read(body, sizeof body, thunk, &out);
    CHECK(out.usable && out.length == 1 && out.bytes == 0xfa);
    mv_inline_read(body, sizeof body - 1, thunk, &out);
    CHECK(!out.usable, "a jump without its end");
    mv_inline_read(body, sizeof body, thunk + 1, &out);
    CHECK(!out.usable, "a jump elsewhere");
    mv_inline_read(body, sizeof body, 0, &out);
    CHECK(!out.usable, "there is no thunk");
    mv_inline_read(body + 5, 5, thunk, &out);
    CHECK(out.usable && !out.length && mv_body_encode(0, 5, &out, &word) && !mv_body_encode(1, 5, &out, &word));
    mv_inline_read((const uint8_t *)"\xc3", 1, thunk, &out); /* a place where the thunk is not needed */
    CHECK(out.usable && !mv_body_encode(1, 5, &out, &word));
}

int main(void)
{
    decodes();
    reads();
    encodes();
    accepts();
    refuses();
    thunks();
    return 0;
}
