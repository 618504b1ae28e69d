/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/frames.c: see frames.h.
 *
 * PT_GNU_EH_FRAME points to the start of the list, and contains a sorted table of all FDEs, which unwinders
 * use.  The list may have an end mark (a zero length) before its last record, from a crtend.o that was
 * linked early.  So the table is read if it exists in the one form that linkers write, otherwise the list.
 *
 * Unreadable records are skipped: their code belongs to no unit and stays.
 */
#include "rimf/analyze/frames/frames.h"

/* ---- records ------------------------------------------------------------------------ */

static int read_cie(const struct object *o, uint64_t address, struct cie *cie)
{
    uint64_t id;
    struct reader r = frame_record(reader_at(o, address), &id);

    return id != 0 || cie_read(r, cie) ? -1 : 0;
}

static void read_fde(const struct object *o, uint64_t address, struct vector *frames)
{
    uint64_t id, start, size, lsda = 0;
    struct reader r = frame_record(reader_at(o, address), &id);
    const struct segment *s;
    struct cie cie;
    int unread = 0;

    if (r.bad || id == 0 || id > address + 4 || read_cie(o, address + 4 - id, &cie))
        return;
    start = frame_encoded(&r, cie.range_how, 0);
    size = frame_encoded(&r, cie.range_how & 0x0f, 0);
    s = object_segment(o, start);
    if (r.bad || !size || !s || !(s->flags & PF_X) || start >= s->file_end ||
        size > s->file_end - start)
        return;
    if (cie.sized && cie.table_how != ENCODING_OMIT) {
        frame_uleb128(&r);
        lsda = frame_encoded(&r, cie.table_how, 0);
        unread = r.bad || lsda > UINT32_MAX;
    }
    VECTOR_ADD(frames, struct frame, (uint32_t)start, (uint32_t)(start + size),
               unread ? 0 : (uint32_t)lsda, (uint32_t)address, cie.signal, (uint8_t)unread);
}

static void read_list(const struct object *o, uint64_t address, struct vector *frames)
{
    for (;;) {
        struct reader r = reader_at(o, address), content;
        uint64_t length = frame_uint(&r, 4), id;

        if (r.bad || !length)
            return;
        content = frame_record(reader_at(o, address), &id);
        if (content.bad)
            return;
        if (id)
            read_fde(o, address, frames);
        address += 4 + length;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct frame *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The header: version, three encodings, the list's address, the number of FDEs; then pairs (start of the
 * function, its FDE), relative to the header. */
int frames_read(struct object *o, struct vector *frames, uint64_t *list_start)
{
    const Elf64_Phdr *p = object_phdr(o, PT_GNU_EH_FRAME, 0);
    struct reader r;
    uint8_t version, list_how, count_how, table_how;
    uint64_t list, count;

    *list_start = 0;
    if (!p)
        return 0;
    r = reader_at(o, p->p_vaddr);
    if (p->p_filesz < (uint64_t)(r.end - r.at))
        r.end = r.at + p->p_filesz;
    version = (uint8_t)frame_uint(&r, 1);
    list_how = (uint8_t)frame_uint(&r, 1);
    count_how = (uint8_t)frame_uint(&r, 1);
    table_how = (uint8_t)frame_uint(&r, 1);
    list = frame_encoded(&r, list_how, p->p_vaddr);
    if (r.bad || version != 1)
        return object_fail(o, "its .eh_frame_hdr cannot be read");
    *list_start = list;
    if (table_how == ENCODING_DATAREL_SDATA4 && count_how != ENCODING_OMIT) {
        count = frame_encoded(&r, count_how, p->p_vaddr);
        for (; count && !r.bad; count--) {
            frame_uint(&r, 4);
            read_fde(o, p->p_vaddr + (uint64_t)(int64_t)(int32_t)frame_uint(&r, 4), frames);
        }
    } else {
        read_list(o, list, frames);
    }
    if (frames->failed)
        return object_fail(o, "there is no memory for its unwinding tables");
    if (frames->n)
        qsort(frames->at, frames->n, sizeof(struct frame), by_start);
    return 0;
}

/* ---- landing pads ---------------------------------------------------------------------- */

int frame_landing_pads(const struct object *o, const struct frame *f, uint64_t *budget,
                       void (*visit)(void *cookie, uint64_t pad), void *cookie)
{
    struct reader r = reader_at(o, f->lsda);
    /* A signal frame's range begins a byte early, but it has no landing pads. */
    uint64_t base = f->start, length, pad;
    uint8_t how, site_how;

    if (*budget < (uint64_t)(r.end - r.at))
        r.end = r.at + *budget;
    how = (uint8_t)frame_uint(&r, 1);
    if (how != ENCODING_OMIT)
        base = frame_encoded(&r, how, 0);
    if ((uint8_t)frame_uint(&r, 1) != ENCODING_OMIT)
        frame_uleb128(&r); /* where its table of types is */
    site_how = (uint8_t)frame_uint(&r, 1);
    length = frame_uleb128(&r);
    if (r.bad || length > (uint64_t)(r.end - r.at))
        return -1;
    r.end = r.at + length;
    *budget -= length;
    while (r.at < r.end && !r.bad) {
        frame_encoded(&r, site_how & 0x0f, 0);
        frame_encoded(&r, site_how & 0x0f, 0);
        pad = frame_encoded(&r, site_how & 0x0f, 0);
        frame_uleb128(&r);
        if (pad && !r.bad)
            visit(cookie, base + pad);
    }
    return r.bad ? -1 : 0;
}
