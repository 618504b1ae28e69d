/* SPDX-License-Identifier: MIT
 *
 * The block of argc, argv, envp and auxv (loader/process/block.c) with and without an
 * LD_PRELOAD that comes and goes.  A failure means that a program sees another
 * environment or auxiliary vector than the kernel made.
 */
#include "../kernel.h"

#define ENTRIES 5
#define WORDS 64

struct stack {
    uintptr_t room[BLOCK_MOVES + WORDS];
};

static char *const arguments[] = {"program", "first", "second", NULL};

static uintptr_t *build(struct stack *stack, char *const *environment)
{
    uintptr_t *sp = stack->room + BLOCK_MOVES, *w = sp;
    static const uintptr_t auxv[] = {AT_PHDR,   0x1000, AT_ENTRY,  0x2000, AT_BASE, 0x3000,
                                     AT_SECURE, 0,      AT_RANDOM, 0x4000, AT_NULL, 0};

    memset(stack, 0xee, sizeof *stack);
    *w++ = 3;
    for (size_t i = 0; i < RIMF_COUNT(arguments); i++)
        *w++ = (uintptr_t)arguments[i];
    for (; *environment; environment++)
        *w++ = (uintptr_t)*environment;
    *w++ = 0;
    memcpy(w, auxv, sizeof auxv);
    return sp;
}

/* What a program that walks from `sp` finds, as the host loader and libc do. */
static void see(uintptr_t *sp, char *const *environment, const char *when)
{
    struct block block;
    size_t n = 0;

    block_read(&block, sp);
    CHECK(block.argc == 3 && !block.argv[3], "%s", when);
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp(block.argv[i], arguments[i]) == 0, "%s", when);
    for (; environment[n]; n++)
        CHECK(block.envp[n] && strcmp(block.envp[n], environment[n]) == 0, "%s: variable %zu",
              when, n);
    CHECK(block.envc == n, "%s: %zu variables instead of %zu", when, block.envc, n);
    CHECK(block.phdr && block.phdr->a_un.a_val == 0x1000, "%s", when);
    CHECK(block.entry && block.entry->a_un.a_val == 0x2000, "%s", when);
    CHECK(block.random && block.random->a_un.a_val == 0x4000, "%s", when);
}

static void inject_and_restore(char *const *before, char *const *during, char *users)
{
    struct injection injection = {0};
    struct stack stack;
    struct block block;
    uintptr_t *sp = build(&stack, before);
    Elf64_auxv_t *auxv;

    block_read(&block, sp);
    auxv = block.auxv;
    injection.users = users;
    block_inject(&block, &injection, "LD_PRELOAD=ours");
    see(block.sp, during, "during");
    CHECK((uintptr_t)block.sp % 16 == (uintptr_t)sp % 16);
    CHECK(auxv->a_type == AT_PHDR); /* whoever remembers it finds it */
    CHECK(block_restore(&block, &injection) == 1);
    see(block.sp, before, "after");
    CHECK(auxv->a_type == AT_PHDR);
    CHECK(!injection.ours);
    CHECK(stack.room[BLOCK_MOVES + WORDS - 1] == 0xeeeeeeeeeeeeeeee);
}

/* The host loader's direct mode moves argv, envp and auxv down over its options. */
static void restore_after_shift(void)
{
    char *const environment[] = {"A=1", "B=2", NULL}, *const shifted[] = {"A=1", "B=2", NULL};
    struct injection injection = {0};
    struct stack stack;
    struct block block, now;
    uintptr_t *sp = build(&stack, environment);

    block_read(&block, sp);
    block_inject(&block, &injection, "LD_PRELOAD=ours");
    memmove(block.sp + 1, block.sp + 3, (WORDS - 6) * sizeof *block.sp);
    *block.sp = 1;
    CHECK(block_restore(&block, &injection) == 1);
    block_read(&now, block.sp);
    CHECK(now.argc == 1 && strcmp(now.argv[0], "second") == 0 && now.envc == 2);
    CHECK(strcmp(now.envp[0], shifted[0]) == 0 && strcmp(now.envp[1], shifted[1]) == 0);
    CHECK(now.phdr && now.phdr->a_un.a_val == 0x1000);
}

/* Somebody (an LD_AUDIT module) changed the environment meanwhile. */
static void restore_after_changes(void)
{
    char *const environment[] = {"A=1", NULL};
    struct injection injection = {0};
    struct stack stack;
    struct block block;

    block_read(&block, build(&stack, environment));
    block_inject(&block, &injection, "LD_PRELOAD=ours");
    block.envp[1] = block.envp[2]; /* unsetenv of our entry */
    block.envp[2] = NULL;
    CHECK(block_restore(&block, &injection) == 0);
}

static void scrub(void)
{
    char *const environment[] = {"MVLD=off", "A=1", "MVLD_DEBUG=all", "MVLDX=kept",
                                 "MVLD_HOST_LOADER=/x", NULL};
    char *const left[] = {"A=1", "MVLDX=kept", NULL};
    struct stack stack;
    struct block block;
    uintptr_t *sp = build(&stack, environment);

    block_read(&block, sp);
    block_scrub(&block, "MVLD");
    CHECK(block.sp == sp && block.envc == 2);
    see(sp, left, "scrubbed");
}

int main(void)
{
    char *empty[] = {NULL}, *one[] = {"A=1", NULL}, *own[] = {"A=1", "LD_PRELOAD=his", "B=2", NULL};
    char *during_empty[] = {"LD_PRELOAD=ours", "", NULL};
    char *during_one[] = {"A=1", "LD_PRELOAD=ours", "", NULL};
    char *during_own[] = {"A=1", "LD_PRELOAD=ours", "B=2", NULL};

    inject_and_restore(empty, during_empty, NULL);
    inject_and_restore(one, during_one, NULL);
    inject_and_restore(own, during_own, own[1]);
    restore_after_shift();
    restore_after_changes();
    scrub();
    return 0;
}
