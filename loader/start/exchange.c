/* SPDX-License-Identifier: MIT
 *
 * loader/start/exchange.c: maps our segments in the place of a program's interpreter (exchange.h).
 *
 * This runs where the stub has mapped our first segment.  We are not relocated, and the stack is our only
 * memory: nothing here or below may use any other.
 */
#include "loader/start/exchange.h"
#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <sys/mman.h> /* numbers only */

extern const Elf64_Ehdr own_header __asm__("__ehdr_start") RIMF_HIDDEN;

static long call_kernel(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    (void)sys;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static const Elf64_Phdr *own_phdrs(void)
{
    return (const Elf64_Phdr *)((uintptr_t)&own_header + own_header.e_phoff);
}

/* Whether the addresses that we need behind the interpreter's end are free; free ones stay reserved. */
static int extend(const struct rimf_sys *sys, uintptr_t from, uintptr_t to)
{
    if (to <= from)
        return 1;
    return !sys_failed(sys_mmap_at(sys, from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

/* Restores the interpreter's text. */
static void restore(const struct rimf_sys *sys, const struct exchange *x)
{
    uintptr_t page = rimf_page_down(x->code);

    if (sys_failed(sys_mprotect(sys, page, RIMF_PAGE, PROT_READ | PROT_WRITE)))
        sys_exit(sys, 127);
    memcpy((void *)x->code, x->original, x->code_size);
    sys_mprotect(sys, page, RIMF_PAGE, PROT_READ | PROT_EXEC);
}

static void say(const struct rimf_sys *sys, const char *text, size_t size)
{
    sys_write(sys, 2, text, size - 1);
}

uintptr_t loader_exchange(const struct exchange *x, int fd)
{
    static const char no_room[] = "mvld run: something lies behind the program's interpreter: started without mvld\n",
                      no_memory[] = "mvld run: the loader cannot be mapped\n";
    struct rimf_sys sys = {.call = call_kernel};
    uintptr_t end = x->base + elf_load_end(own_phdrs(), own_header.e_phnum);
    int err = 0;

    if (!extend(&sys, x->end, end)) {
        restore(&sys, x);
        sys_close(&sys, fd);
        say(&sys, no_room, sizeof no_room);
        return 0;
    }
    sys_munmap(&sys, x->base, (end > x->end ? end : x->end) - x->base);
    for (size_t i = 0; i < own_header.e_phnum && !err; i++)
        if (own_phdrs()[i].p_type == PT_LOAD)
            err = elf_map_segment(&sys, fd, x->base, &own_phdrs()[i], 0);
    if (err) { /* the program has not run, and cannot */
        say(&sys, no_memory, sizeof no_memory);
        sys_exit(&sys, 127);
    }
    sys_close(&sys, fd);
    return x->base + own_header.e_entry;
}
