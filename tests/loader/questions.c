/* SPDX-License-Identifier: MIT
 *
 * Answers to the host loader's cpuid (entry.S, hosttext.c), in a made-up text.  A failure means
 * that it sees another CPU, or that a register, a flag or the red zone of its code is lost.
 */
#include "stage0_kernel.h"

#include <cpuid.h>

#define PAGES (4 * RIMF_PAGE)
#define STACK 64 /* words; the code is called in the middle of it */

struct registers {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags;
};

static struct registers box __attribute__((used));
static uint64_t stack[STACK] __attribute__((used)), outside __attribute__((used));
static uintptr_t target __attribute__((used));

#define EACH_REGISTER(move) \
    move("0", "rax") move("8", "rbx") move("16", "rcx") move("24", "rdx") move("32", "rsi") \
    move("40", "rdi") move("48", "rbp") move("56", "r8") move("64", "r9") move("72", "r10") \
    move("80", "r11") move("88", "r12") move("96", "r13") move("104", "r14") move("112", "r15")
#define LOAD(at, name) "mov box+" at "(%rip), %" name "\n"
#define STORE(at, name) "mov %" name ", box+" at "(%rip)\n"

/* Calls `target` with what is in `box`, and puts there what is then in the registers. */
void call_target(void);
__asm__(".text\n.type call_target, @function\ncall_target:\n"
        ".irp r, %rbx, %rbp, %r12, %r13, %r14, %r15\npush \\r\n.endr\n"
        "mov %rsp, outside(%rip)\nlea stack+8*32(%rip), %rsp\n"
        "pushq box+120(%rip)\npopfq\n" EACH_REGISTER(LOAD)
        "call *target(%rip)\n" EACH_REGISTER(STORE)
        "pushfq\npopq box+120(%rip)\nmov outside(%rip), %rsp\n"
        ".irp r, %r15, %r14, %r13, %r12, %rbp, %rbx\npop \\r\n.endr\n"
        "cld\nret\n.size call_target, .-call_target\n");

/* Nothing on the stack but the return address may change. */
static void ask(struct registers *registers, uintptr_t code)
{
    for (size_t i = 0; i < STACK; i++)
        stack[i] = ~i;
    box = *registers;
    target = code;
    call_target();
    *registers = box;
    for (size_t i = 0; i < STACK; i++)
        CHECK(stack[i] == ~i || i == STACK / 2 - 1, "word %zu of the stack", i);
}

static struct registers garbage(uint64_t seed)
{
    struct registers r;

    for (size_t i = 0; i < sizeof r / 8; i++)
        ((uint64_t *)&r)[i] = (seed = seed * 6364136223846793005u + 1442695040888963407u);
    r.flags = 0x202 | (seed >> 20 & 0x8d5); /* OF, SF, ZF, AF, PF, CF */
    return r;
}

/* What cpuid does, and nothing else. */
static void answers(uintptr_t code, const struct registers *first, uint32_t leaf, uint32_t subleaf,
                    const char *what)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        struct registers before = garbage(seed), after, expected = before;
        uint32_t a, b, c, d;

        if (first)
            before.rax = first->rax, before.rcx = first->rcx;
        after = before;
        __cpuid_count(leaf, subleaf, a, b, c, d);
        ask(&after, code);
        expected.rax = a, expected.rbx = b, expected.rcx = c, expected.rdx = d;
        CHECK(memcmp(&after, &expected, sizeof after) == 0, "%s, leaf %x.%x", what, leaf, subleaf);
    }
}

static const struct question asked[] = {
    {0x10, 0x80000000, -1}, {0x40, 0x80000005, -1}, {0x80, 0x80000006, -1},
    {0xc0, 0x8000001d, 3},  {0x100, 0x8000001d, 2}, {0x140, 0x80000000, -1},
    {0x180, 0x80000006, -1}, /* one more than there are answers for */
};

/* The text of a host loader: its questions, each followed by ret. */
static struct host make_text(uintptr_t wanted)
{
    struct host host = {.path = "made up", .fd = -1};
    uint8_t *text = mmap((void *)wanted, PAGES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(text == (void *)wanted, "%p is taken", (void *)wanted);
    memset(text, 0xcc, PAGES);
    for (size_t i = 0; i < RIMF_COUNT(asked); i++) {
        uint8_t *at = text + asked[i].at;

        *at++ = 0xb8;
        memcpy(at, &asked[i].leaf, 4);
        at += 4;
        if (asked[i].subleaf >= 0) {
            *at++ = 0xb9;
            memcpy(at, &asked[i].subleaf, 4);
            at += 4;
        }
        memcpy(at, "\x0f\xa2\xc3", 3);
    }
    CHECK(mprotect(text, PAGES, PROT_READ | PROT_EXEC) == 0);
    host.bias = host.start = host.text = (uintptr_t)text;
    host.end = host.text_end = host.start + PAGES;
    return host;
}

static size_t put(struct host host, const struct question *q, size_t n)
{
    struct text_patch patch[3 * CPUID_SITES];
    struct kernel kernel = kernel_make(0);
    const char *how;
    size_t made;

    memset(&loader_state, 0, sizeof loader_state);
    loader_state.host = host;
    made = text_questions(&loader_state, q, n, patch);
    CHECK(text_write(&kernel.sys, &loader_state.host, patch, 3 * made, &how) == 0);
    return made;
}

static uint32_t subleaf_of(const struct question *q)
{
    return q->subleaf < 0 ? 0 : (uint32_t)q->subleaf;
}

/* As cpuid answers, the first time and later, at the place and where a branch goes to the cpuid. */
static void same_answers(struct host host)
{
    for (size_t i = 0; i < RIMF_COUNT(asked); i++)
        answers(host.bias + asked[i].at, NULL, asked[i].leaf, subleaf_of(&asked[i]), "plain");
    CHECK(put(host, asked, RIMF_COUNT(asked)) == CPUID_SITES);
    for (size_t i = 0; i < RIMF_COUNT(asked); i++) {
        const struct question *q = &asked[i];
        const struct registers first = {.rax = q->leaf, .rcx = subleaf_of(q)};

        answers(host.bias + q->at, NULL, q->leaf, subleaf_of(q), "answered");
        answers(host.bias + q->at + (q->subleaf < 0 ? 5 : 10), &first, q->leaf, subleaf_of(q),
                "branched to");
    }
}

/* The CPU is asked once: then what is remembered counts. */
static void asked_once(struct host host)
{
    struct registers r = garbage(7);

    CHECK(put(host, asked, RIMF_COUNT(asked)) == CPUID_SITES);
    for (size_t i = 0; i < CPUID_SITES; i++) {
        struct cpuid *cpuid = &loader_state.cpuid[i];

        CHECK(!cpuid->known);
        ask(&r, host.bias + asked[i].at);
        CHECK(cpuid->known && r.rax == cpuid->eax && r.rdx == cpuid->edx);
        *cpuid = (struct cpuid){cpuid->back, 0, 0, 1, 0xffffffff, 0xfffffffe, 0xfffffffd, 5, 0};
        r = garbage(i);
        ask(&r, host.bias + asked[i].at);
        CHECK(r.rax == 0xffffffff && r.rbx == 0xfffffffe && r.rcx == 0xfffffffd && r.rdx == 5);
    }
}

/* Code that is not the question stays; so does a text too far for a jump, but for its tail. */
static void left_alone(struct host host)
{
    static const struct question others[] = {
        {0x11, 0x80000000, -1}, {0x10, 0x80000005, -1}, {0xc0, 0x8000001d, 2},
        {0xc0, 0x8000001d, -1}, {0x10, 0x80000000, 3}, {PAGES - 6, 0x80000000, -1},
        {0xfffffff0, 0x80000000, -1},
    };
    static uint8_t before[PAGES];

    memcpy(before, (void *)host.text, PAGES);
    CHECK(put(host, others, RIMF_COUNT(others)) == 0);
    CHECK(memcmp(before, (void *)host.text, PAGES) == 0);
}

int main(void)
{
    const uintptr_t near = rimf_page_down((uintptr_t)loader_cpuid_sites) - (256ul << 20);
    struct host host = make_text(near);

    left_alone(host);
    same_answers(host);
    asked_once(make_text(near - PAGES));
    host = make_text(near - (64ul << 30));
    CHECK(put(host, asked, RIMF_COUNT(asked)) == 0);
    host.tail = host.text_end - FAR_JUMP * (TEXT_PATCHES + 2);
    CHECK(put(host, asked, RIMF_COUNT(asked)) == 2);
    host = make_text(near - (65ul << 30));
    host.tail = host.text_end - FAR_JUMP * (TEXT_PATCHES + CPUID_SITES);
    same_answers(host);
    return 0;
}
