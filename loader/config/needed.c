/* SPDX-License-Identifier: MIT
 *
 * loader/config/needed.c: reads DT_NEEDED of a file.  It recognises musl's programs: after
 * set-interp their interpreter is ld-mvld.so.1, but they still need musl's libc.
 */
#include "loader/config/needed.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

int musl_is_needed(const char *name)
{
    return rimf_streq(name, "libc.so") || rimf_streq(name, "libc.musl-x86_64.so.1");
}

#define DYNAMIC 64 /* limit on entries of a dynamic section */

/* A damaged file is not reported here: the host loader does that. */
void needed_each(const struct rimf_sys *sys, int fd, const Elf64_Phdr *ph, size_t phnum,
                 void (*visit)(void *cookie, const char *name), void *cookie)
{
    Elf64_Dyn dynamic[DYNAMIC];
    uint64_t strings = 0, offset = 0;
    size_t n = 0;
    char needed[32];

    for (size_t i = 0; i < phnum; i++)
        if (ph[i].p_type == PT_DYNAMIC)
            n = (size_t)sys_pread(sys, fd, dynamic, sizeof dynamic, ph[i].p_offset);
    n = n <= sizeof dynamic ? n / sizeof *dynamic : 0;
    for (size_t i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            strings = dynamic[i].d_un.d_ptr;
    for (size_t i = 0; i < phnum; i++)
        if (ph[i].p_type == PT_LOAD && strings - ph[i].p_vaddr < ph[i].p_filesz)
            offset = strings - ph[i].p_vaddr + ph[i].p_offset;
    for (size_t i = 0; offset && i < n && dynamic[i].d_tag != DT_NULL; i++) {
        memset(needed, 0, sizeof needed);
        if (dynamic[i].d_tag == DT_NEEDED &&
            sys_pread(sys, fd, needed, sizeof needed - 1, offset + dynamic[i].d_un.d_val) > 0)
            visit(cookie, needed);
    }
}
