/* SPDX-License-Identifier: MIT
 *
 * Answers to the host loader's cpuid (host/entry.S, cpuid.c): its own instructions, in a text in which each
 * question is followed by ret.  A failure means that it sees another CPU, or that a register or the
 * red zone of its code is lost.
 */
#include "../kernel.h"

#include <sched.h>

#define RET "\xc3"
#define STACK 1024 /* words; the code is called in the middle of it */
#define KEPT (STACK / 2 - 1 - 16) /* from the red zone on */

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
        "mov %rsp, outside(%rip)\nlea stack+8*512(%rip), %rsp\n"
        "pushq box+120(%rip)\npopfq\n" EACH_REGISTER(LOAD)
        "call *target(%rip)\n" EACH_REGISTER(STORE)
        "pushfq\npopq box+120(%rip)\nmov outside(%rip), %rsp\n"
        ".irp r, %r15, %r14, %r13, %r12, %rbp, %rbx\npop \\r\n.endr\n"
        "cld\nret\n.size call_target, .-call_target\n");

static const struct question *questions;
static size_t n_questions;

/* A text of the host loader's size; with it goes what of the real one is of interest. */
static struct host make_text(const struct host *real, uintptr_t wanted)
{
    const size_t size = real->end - real->bias;
    struct host host = {.path = "made up", .fd = -1};

    host.bias = host.start = host.text = (uintptr_t)mmap((void *)wanted, size, PROT_READ | PROT_WRITE,
                                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(host.text == wanted, "%p is taken", (void *)wanted);
    host.end = host.text_end = host.start + size;
    memset((void *)host.text, 0xcc, size);
    for (size_t i = 0; i < n_questions; i++) {
        uint8_t *to = (uint8_t *)host.text + questions[i].at;
        size_t length = questions[i].size + 2u;

        CHECK(to[0] == 0xcc && to[length] == 0xcc, "question %zu lies in another one", i);
        memcpy(to, (void *)(real->bias + questions[i].at), length);
        memcpy(to + length, RET, 1);
    }
    CHECK(mprotect((void *)host.text, size, PROT_READ | PROT_EXEC) == 0);
    return host;
}

static uint8_t *cpuid_of(const struct host *host, size_t i)
{
    return (uint8_t *)host->text + questions[i].at + questions[i].size;
}

/* Every cpuid there becomes two bytes of `code`. */
static void replace(const struct host *host, const char *code)
{
    const size_t size = host->end - host->start;

    CHECK(mprotect((void *)host->text, size, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < n_questions; i++)
        memcpy(cpuid_of(host, i), code, 2);
    CHECK(mprotect((void *)host->text, size, PROT_READ | PROT_EXEC) == 0);
}

static struct rooms rooms;

/* How many are put. */
static size_t put(struct host host, int fits)
{
    static struct text_patch patch[2 * CPUID_SITES];
    static const struct cpu_record none; /* without answers */
    struct kernel kernel = kernel_make(0);
    const char *how;
    size_t made, patches;

    rooms = (struct rooms){0};
    loader_state = (struct loader){0};
    rooms_set(&loader_state, &rooms);
    *loader_state.host = host;
    loader_state.cpuid->record = fits ? &none : NULL;
    patches = text_questions(&loader_state, questions, n_questions, patch, &made);
    CHECK(text_write(&kernel.sys, loader_state.host, patch, patches, &how) == 0);
    return made;
}

/* What is left of a call: the registers, without flags, and the stack. */
struct left {
    struct registers registers;
    uint64_t stack[STACK];
};

/* All registers begin with the same: so each question is for leaf and subleaf `value`, but for what
 * it says itself. */
static struct left *ask(const struct host *host, size_t i, uint64_t value)
{
    static struct left left[4];
    static size_t next;
    struct left *now = &left[next++ % 4];

    for (size_t k = 0; k < STACK; k++)
        stack[k] = ~k;
    for (size_t k = 0; k < sizeof box / 8; k++)
        ((uint64_t *)&box)[k] = value | (k + 1) << 40;
    box.rbp = (uintptr_t)(stack + STACK / 2 + 128); /* a frame, into which Ubuntu's loader writes */
    box.flags = 0x202;
    target = host->bias + questions[i].at;
    call_target();
    now->registers = box;
    now->registers.flags = 0;
    memcpy(now->stack, stack, sizeof stack);
    now->stack[STACK / 2 - 1] = 0; /* the return address */
    return now;
}

static int is_same(const struct left *a, const struct left *b)
{
    return memcmp(&a->registers, &b->registers, sizeof a->registers) == 0 &&
           memcmp(a->stack + KEPT, b->stack + KEPT, sizeof a->stack - KEPT * 8) == 0;
}

static const uint32_t values[] = {0, 1, 2, 4, 7, 0xd,
                                  0x14, 0x80000000, 0x80000005, 0x80000006, 0x80000008, 0x8000001d};

/* With nothing known but what is learnt on the way: as the CPU answers. */
static void same_answers(const struct host *plain, const struct host *host)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < n_questions; i++)
            for (size_t v = 0; v < RIMF_COUNT(values); v++)
                CHECK(is_same(ask(plain, i, values[v]), ask(host, i, values[v])), "question %zu, %x", i,
                      values[v]);
    /* Room for all of them there is none, where there are many (glibc 2.31 has 14 questions). */
    CHECK(loader_state.cpuid->n_first == RIMF_COUNT(loader_state.cpuid->first) ||
          (n_questions < 20 && loader_state.cpuid->n_first > 0), "%zu", (size_t)loader_state.cpuid->n_first);
}

/* What is known is answered so, and everything else of the registers is as before the cpuid. */
static void known_answers(const struct host *asking, const struct host *host)
{
    static struct cpu_record record = {.n = 1, .answers = {{0, 0, 0xffffffff, 0xfffffffe, 0xfffffffd, 5}}};
    struct cpu_answer *known = record.answers;

    loader_state.cpuid->record = &record;
    for (size_t i = 0; i < n_questions; i++) {
        for (size_t v = 0; v < RIMF_COUNT(values); v++) {
            struct left *expected = ask(asking, i, values[v]);

            known->leaf = (uint32_t)expected->registers.rax;
            known->subleaf = (uint32_t)expected->registers.rcx;
            expected->registers.rax = 0xffffffff, expected->registers.rbx = 0xfffffffe;
            expected->registers.rcx = 0xfffffffd, expected->registers.rdx = 5;
            CHECK(is_same(expected, ask(host, i, values[v])), "question %zu, %x", i, values[v]);
        }
    }
}

/* The CPU is asked once, where that pays alone. */
static void asked_once(struct host host)
{
    const size_t again = put(host, 0);
    size_t jumps = 0;

    for (size_t i = 0; i < n_questions; i++) {
        const uint8_t *code = (const uint8_t *)host.bias + questions[i].at;
        struct cpu_answer *first = loader_state.cpuid->first;
        struct left *left;

        CHECK((*code == 0xe9) == questions[i].again, "question %zu", i);
        jumps += *code == 0xe9;
        if (*code != 0xe9)
            continue;
        memset(loader_state.cpuid, 0, sizeof *loader_state.cpuid);
        left = ask(&host, i, 4); /* leaf 4, where the question does not say another one */
        CHECK(loader_state.cpuid->n_first == 1 && (uint32_t)left->registers.rdx == first->edx);
        *first = (struct cpu_answer){first->leaf, first->subleaf, 1, 2, 3, 0xfffffff4};
        left = ask(&host, i, 4);
        CHECK(loader_state.cpuid->n_first == 1 && left->registers.rax == 1 &&
              left->registers.rbx == 2 && left->registers.rcx == 3 && left->registers.rdx == 0xfffffff4);
    }
    CHECK(jumps == again);
}

/* Code that is not the question stays. */
static void left_alone(const struct host *host)
{
    const size_t size = host->end - host->start;
    uint8_t *before = malloc(size);

    replace(host, "\x0f\xa3");
    memcpy(before, (void *)host->text, size);
    CHECK(put(*host, 1) == 0 && memcmp(before, (void *)host->text, size) == 0);
    replace(host, "\x0f\xa2");
    CHECK(mprotect((void *)host->text, size, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < n_questions; i++)
        cpuid_of(host, i)[-1] ^= 1;
    CHECK(put(*host, 1) == 0);
    free(before);
}

int main(int argc, char **argv)
{
    const uintptr_t near = rimf_page_down((uintptr_t)loader_cpuid_stubs) - (256ul << 20);
    const uintptr_t step = 1ul << 20, far = near - (64ul << 30);
    struct kernel kernel = kernel_make(0);
    struct arena arena = {0};
    struct host real = {.path = argc > 1 ? argv[1] : ""}, plain, asking, host;
    cpu_set_t here;

    real.fd = open(real.path, O_RDONLY | O_CLOEXEC);
    CHECK(real.fd >= 0 && host_map(&kernel.sys, &real, &arena) == 0, "%s", real.path);
    n_questions = host_questions(&real, &questions);
    if (!n_questions) {
        printf("this host loader is not the one of the build, or there is no objdump\n");
        return SKIP;
    }
    CPU_ZERO(&here); /* some answers are of one CPU */
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    plain = make_text(&real, near);
    asking = make_text(&real, near - step);
    replace(&asking, RET "\x90");
    left_alone(&(struct host[]){make_text(&real, near - 2 * step)}[0]);
    host = make_text(&real, near - 3 * step);
    CHECK(put(host, 1) == n_questions);
    same_answers(&plain, &host);
    known_answers(&asking, &host);
    asked_once(make_text(&real, near - 4 * step));
    host = make_text(&real, far);
    CHECK(put(host, 1) == 0);
    host.tail = host.text_end - FAR_JUMP * (TEXT_PATCHES + 2);
    CHECK(put(host, 1) == 2);
    host = make_text(&real, far - step);
    host.tail = host.text_end - FAR_JUMP * (TEXT_PATCHES + CPUID_SITES);
    CHECK(put(host, 1) == n_questions);
    same_answers(&plain, &host);
    known_answers(&asking, &host);
    return 0;
}
