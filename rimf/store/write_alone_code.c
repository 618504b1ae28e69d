/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_alone_code.c: the code of an object, read from its file, with its calls direct, for an overlay
 * that stands alone (manifest.h).
 *
 * Displacements are the same wherever the code lies, so it is treated as if it were an object that is
 * mapped where it happens to lie; what it calls lies as far from there as in a process that has no manifest.
 * Only what a PLT entry does is looked up in this process.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* To map such a file costs a process some 15 us.  It spares 2 for each page of code that it would have to
 * itself, and 0.03 for each call.  A large file must spare more to be worth its place on the disk. */
#define CALLS_A_PAGE 64u
#define CALLS_AT_LEAST 512u
#define CALLS_A_MIB 64u

/* ---- the code ---------------------------------------------------------------------- */

static int is_code(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD && ph->p_flags & PF_X && ph->p_memsz;
}

static int measure(struct alone *a)
{
    const Elf64_Phdr *ph = a->object->public.phdr;
    uint64_t start = UINT32_MAX, end = 0;

    for (size_t i = 0; i < a->object->public.phnum; i++) {
        if (!is_code(&ph[i]))
            continue;
        if (ph[i].p_flags != (PF_R | PF_X) || ph[i].p_filesz != ph[i].p_memsz)
            return alone_refuse(a, -ENOTSUP, "its code can be written, or is not all in the file");
        if (ph[i].p_vaddr + ph[i].p_memsz > end)
            end = ph[i].p_vaddr + ph[i].p_memsz;
        if (ph[i].p_vaddr < start)
            start = ph[i].p_vaddr;
    }
    if (start >= end || end > UINT32_MAX - RIMF_PAGE)
        return alone_refuse(a, -ENOTSUP, "it has no code, or too much");
    a->w.code_start = rimf_page_down(start);
    a->size = rimf_page_up(end) - a->w.code_start;
    return 0;
}

/* As the file says: all of each page, as it is mapped. */
static int read_segment(struct alone *a, int fd, const Elf64_Phdr *ph)
{
    uint64_t linked = rimf_page_down(ph->p_vaddr), at = rimf_page_down(ph->p_offset);
    uint64_t left = rimf_page_up(ph->p_vaddr + ph->p_memsz) - linked;
    uint8_t *to = a->w.code + (linked - a->w.code_start);

    while (left) {
        long got = sys_pread(a->w.image->sys, fd, to, left, at);

        if (got == -EINTR)
            continue;
        if (got < 0)
            return alone_refuse(a, (int)got, "its file cannot be read");
        if (!got)
            break; /* the last page has zeros behind the file's end */
        to += got;
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    return left < RIMF_PAGE ? 0 : alone_refuse(a, -ENOEXEC, "its file is too short");
}

int alone_code_read(struct alone *a)
{
    const struct rimf_sys *sys = a->w.image->sys;
    const Elf64_Phdr *ph = a->object->public.phdr;
    int error = measure(a);
    long fd, got;

    if (error)
        return error;
    got = sys_mmap(sys, 0, a->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_failed(got))
        return alone_refuse(a, (int)got, "out of memory");
    a->w.code = (uint8_t *)got;
    a->bias = (uintptr_t)got - a->w.code_start;
    fd = sys_openat(sys, a->object->public.name, O_RDONLY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        return alone_refuse(a, (int)fd, "its file cannot be opened");
    if (!write_is_file(sys, (int)fd, &a->object->identity))
        error = alone_refuse(a, -ESTALE, "the file there is not the one that was mapped");
    for (size_t i = 0; i < a->object->public.phnum && !error; i++)
        if (is_code(&ph[i]))
            error = read_segment(a, (int)fd, &ph[i]);
    sys_close(sys, (int)fd);
    return error;
}

/* ---- the calls ----------------------------------------------------------------------- */

/* 1: it is direct now. */
static int make(struct alone *a, const struct analysis_call *call)
{
    uintptr_t bias = a->object->view.bias, at = a->bias + call->address, target = way_of(a->c, call)->target;
    struct site site;

    if (!target || (analysis_slot(call) && !alone_may_hold(a, target)))
        return 0;
    if (analysis_slot(call))
        target = a->bias + (uintptr_t)rimf_alone_distance(a->w.image, a->object, target);
    if (emit_call(a->c, call, at, (intptr_t)(a->bias - bias), code_room(a->object, bias + call->address), target, &site))
        return 0;
    memcpy((void *)at, &site.made, site.length);
    return 1;
}

/* Such a call stays only because a manifest is made: the executable lies elsewhere each time. */
static int is_unplaced(const struct alone *a, uintptr_t slot)
{
    const struct mvld_object *to = rimf_object_find(a->w.image, *(const uintptr_t *)slot);

    return to && (to->flags & (MVLD_OBJECT_UNPLACED | MVLD_OBJECT_VDSO)) == MVLD_OBJECT_UNPLACED;
}

/* 1: whoever maps the code has nothing to do about such calls, which stay as they are. */
static int is_left(const struct alone *a, const struct analysis_call *call)
{
    const struct way *way = way_of(a->c, call);
    uintptr_t slot = a->object->view.bias + analysis_slot(call);

    return a->reach == ALONE_ALL && analysis_slot(call) && !way->target && !way->all_far &&
           elf_holds(&a->object->view, slot, sizeof slot, PROT_READ) && !is_unplaced(a, slot);
}

/* Of a page: what is in it. */
struct contents {
    int own, other, stays; /* direct calls, and such that whoever maps the code makes direct */
};

/* Pages that whoever maps the code does not change: all, or those that have calls to other objects. */
static uint32_t is_spared(const struct alone *a, const struct contents *page)
{
    return !page->stays && (page->other || (page->own && a->reach == ALONE_OWN));
}

static int is_worth_it(const struct alone *a, uint32_t made, uint32_t pages)
{
    uint64_t spared = (a->reach == ALONE_OWN ? made : 0) + (uint64_t)pages * CALLS_A_PAGE;

    return spared >= CALLS_AT_LEAST + (a->object->identity.size >> 20) * CALLS_A_MIB;
}

int alone_code_make(struct alone *a)
{
    uint32_t number = 0, pages = 0, made = 0;
    struct contents page = {0, 0, 0};

    a->c->aside = (intptr_t)(a->bias - a->object->view.bias);
    for (size_t i = 0; i < a->c->n_calls; i++) {
        const struct analysis_call *call = &a->c->calls[i];
        struct way *way = way_of(a->c, call);
        int done = make(a, call);

        if (call->address / RIMF_PAGE != number) {
            pages += is_spared(a, &page);
            page = (struct contents){0, 0, 0};
            number = call->address / RIMF_PAGE;
        }
        if (done && analysis_slot(call) && !alone_is_inner(a, way->target))
            page.other = 1;
        page.own |= done;
        page.stays |= !done && way->target;
        made += (uint32_t)done;
        if (done || is_left(a, call))
            a->counts[way - a->c->ways]++;
        else
            a->w.calls[a->w.header->n_calls++] = *call;
    }
    a->c->aside = 0;
    pages += is_spared(a, &page);
    return is_worth_it(a, made, pages) ? 0 : alone_refuse(a, -ENODATA, "it is not worth a file");
}

void alone_code_forget(struct alone *a)
{
    if (a->w.code)
        sys_munmap(a->w.image->sys, (uintptr_t)a->w.code, a->size);
}
