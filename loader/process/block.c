/* SPDX-License-Identifier: MIT
 *
 * loader/process/block.c: argc, argv, envp and auxv as the kernel wrote them, and an LD_PRELOAD
 * entry that is inserted and removed again.
 *
 * Programs walk from envp over its NULL to auxv, and both libc and the host loader have stored the
 * addresses of both by the time that our entry is removed.  So auxv never moves, and both before
 * and after the removal it must be a valid one:
 *
 *   before      argc argv NULL  A B NULL                  auxv
 *   injected    argc argv NULL  A B LD_PRELOAD= ""  NULL  auxv   (sp 16 lower)
 *   restored    argc argv NULL  A B NULL  AT_IGNORE 0     auxv
 *
 * Two words preserve the stack's alignment, and after the removal they are one AT_IGNORE entry of
 * auxv.  If the user has an LD_PRELOAD, ours (which begins with the user's) replaces it and nothing
 * moves.  The strings that /proc/self/environ shows are not changed.
 */
#include "loader/process/process.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

void block_read(struct block *block, uintptr_t *sp)
{
    char **end;

    memset(block, 0, sizeof *block);
    block->sp = sp;
    block->user = UINT32_MAX;
    block->argc = *sp;
    block->argv = (char **)(sp + 1);
    block->envp = block->argv + block->argc + 1;
    for (end = block->envp; *end; end++)
        ;
    block->envc = (size_t)(end - block->envp);
    block->auxv = (Elf64_auxv_t *)(end + 1);
    for (Elf64_auxv_t *a = block->auxv; a->a_type != AT_NULL; a++) {
        switch (a->a_type) {
        case AT_PHDR: block->phdr = a; break;
        case AT_PHNUM: block->phnum = a; break;
        case AT_ENTRY: block->entry = a; break;
        case AT_BASE: block->base = a; break;
        case AT_EXECFN: block->execfn = a; break;
        case AT_SYSINFO_EHDR: block->vdso = a; break;
        case AT_RANDOM: block->random = a; break;
        case AT_EUID: block->user = (uint32_t)a->a_un.a_val; break;
        case AT_SECURE: block->secure = a->a_un.a_val != 0; break;
        default: break;
        }
    }
}

struct executable block_executable(const struct block *block)
{
    struct executable e = {0};

    if (!block->phdr || !block->phnum)
        return e;
    e.ph = (const Elf64_Phdr *)block->phdr->a_un.a_val;
    e.n = block->phnum->a_un.a_val;
    e.own = elf_phdr_last(e.ph, e.n, PT_PHDR);
    e.bias = e.own ? (uintptr_t)e.ph - e.own->p_vaddr : 0;
    return e;
}

static char nothing[1];

void block_inject(struct block *block, struct injection *injection, char *preload)
{
    uintptr_t *from = block->sp, *to = from - BLOCK_MOVES;
    size_t words = 1 + block->argc + 1 + block->envc;

    injection->ours = preload;
    if (injection->users) {
        for (size_t i = 0; i < block->envc; i++)
            if (block->envp[i] == injection->users)
                block->envp[i] = preload;
        return;
    }
    memmove(to, from, words * sizeof *to);
    to[words] = (uintptr_t)preload;
    to[words + 1] = (uintptr_t)nothing;
    block->sp = to;
    block->argv -= BLOCK_MOVES;
    block->envp -= BLOCK_MOVES;
    block->envc += BLOCK_MOVES;
}

/* In direct mode the host loader has moved argv, envp and auxv down over its own options and
 * corrected argc (glibc 2.35 and later), or will move argc up later (earlier ones).  In both cases
 * argc at the old address is followed by envp. */
int block_restore(const struct block *block, struct injection *injection)
{
    char **envp = (char **)(block->sp + 1 + *block->sp + 1);
    int found = 0;

    for (char **e = envp; *e; e++) {
        if (*e != injection->ours)
            continue;
        found = 1;
        if (injection->users) {
            *e = injection->users;
        } else if (e[1] == nothing && !e[2]) {
            e[0] = NULL;
            ((Elf64_auxv_t *)(e + 1))->a_type = AT_IGNORE;
            ((Elf64_auxv_t *)(e + 1))->a_un.a_val = 0;
        } else { /* the environment has grown: close the gap as unsetenv does */
            char **to = e;

            for (char **from = e + 1; *from; from++)
                if (*from != nothing)
                    *to++ = *from;
            while (*to)
                *to++ = NULL;
        }
        break;
    }
    injection->ours = NULL;
    return found;
}

/* A program with raised rights must not pass our variables to a child that no longer looks raised:
 * glibc does the same with its own.  Nobody has read the block yet, so auxv simply moves along. */
void block_scrub(struct block *block, const char *name)
{
    char **to = block->envp;
    Elf64_auxv_t *end = block->auxv;

    for (char **from = to; *from; from++) {
        const char *rest = rimf_after(*from, name);

        if (!rest || (*rest != '=' && *rest != '_'))
            *to++ = *from;
    }
    *to++ = NULL;
    while (end->a_type != AT_NULL)
        end++;
    memmove(to, block->auxv, (size_t)((char *)(end + 1) - (char *)block->auxv));
    block_read(block, block->sp);
}
