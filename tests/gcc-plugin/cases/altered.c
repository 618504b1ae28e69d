/* SPDX-License-Identifier: MIT
 *
 * Somebody has changed the read of a constant, as a debugger does with a breakpoint: a commit leaves it alone, and says
 * so.  A failure means that the constant counts as committed while a read of it stays a load.
 * only: -O2 -fPIE -pie
 */
#include <mvld/descriptor.h>
#include <multiverse.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

extern const struct multiverse_callsite __start_multiverse_callsites[], __stop_multiverse_callsites[];

__attribute__((multiverse("constant"))) long size = 5;
__attribute__((noinline)) static long read_size(void)
{
    return size;
}

static void set(unsigned char *at, unsigned char to)
{
    uintptr_t page = (uintptr_t)at & -(uintptr_t)sysconf(_SC_PAGESIZE);

    mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    *at = to;
    mprotect((void *)page, 8192, PROT_READ | PROT_EXEC);
}

int main(void)
{
    const struct multiverse_callsite *site = __start_multiverse_callsites;
    unsigned char *at = (unsigned char *)&site->site + site->site, before = *at;
    const struct multiverse_status *status;

    if (__stop_multiverse_callsites - site != 1 || read_size() != 5)
        return puts("not one read"), 1;
    set(at, 0xcc);
    if (multiverse_commit() < 0)
        return puts(multiverse_error()), 1;
    status = multiverse_status();
    set(at, before);
    size = 6;
    if (read_size() != 6)
        return puts("the read was changed"), 1;
    if (status->n_generic != 1)
        return puts("it counts as committed"), 1;
    return 0;
}
