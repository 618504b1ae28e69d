/* SPDX-License-Identifier: MIT
 *
 * loader/process/limits.c: what limits this process, or watches it: RLIMIT_AS; auditors and profilers that count
 * calls in PLT and GOT, so that calls must go through these.
 */
#include "loader/loader.h"

#include "loader/process/process.h"

#include <sys/resource.h> /* numbers only */

/* 0: no program can start with such a limit. */
static uint64_t space(struct loader *l)
{
    struct rlimit limit;

    if (!l->space)
        l->space = SYS6(l->sys, SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0) ? SPACE_SHORT : limit.rlim_cur;
    return l->space;
}

/* If address space is limited, a library of hundreds of MB cannot be mapped, and the host loader
 * reports this on standard error; or the program gets too little. */
int space_is_limited(struct loader *l)
{
    return space(l) != RLIM_INFINITY;
}

int space_is_short(struct loader *l)
{
    return space(l) < SPACE_SHORT;
}

/* The sentence for a variable of the host loader that lets an auditor see calls in the PLT, or
 * changes how slots are bound; or NULL. */
const char *auditor_of(const char *setting)
{
    static const struct {
        const char *name, *why;
    } settings[] = {
        {"LD_AUDIT=", "an auditing library is loaded (LD_AUDIT)"},
        {"LD_PROFILE=", "calls are profiled (LD_PROFILE)"},
        {"LD_BIND_NOT=", "slots are not to be bound (LD_BIND_NOT)"},
        {"LD_DYNAMIC_WEAK=", "weak definitions are overridden (LD_DYNAMIC_WEAK)"},
    };

    for (size_t i = 0; i < RIMF_COUNT(settings); i++) {
        const char *value = rimf_after(setting, settings[i].name);

        if (value && *value)
            return settings[i].why;
    }
    return NULL;
}

/* The request RUNNING_ON_VALGRIND (0x1001) of valgrind.h.  On a CPU these instructions have no
 * effect: %rdi is rotated by 128 bits. */
static int under_valgrind(void)
{
    volatile uint64_t request[6] = {0x1001};
    uint64_t answer;

    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "=d"(answer)
                     : "a"(request), "0"(0ul)
                     : "cc", "memory");
    return answer != 0;
}

/* Called before any decision that an auditor would miss. */
void auditor_look(struct loader *l)
{
    if (!l->knobs->watcher && under_valgrind())
        l->knobs->watcher = "valgrind forgets the names of code that is changed";
}
