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

/* ---- the whole list ----------------------------------------------------------------------------
 *
 * What must be corrected in a copy of .eh_frame so that it describes moved code.
 *
 * Distances inside the list do not change.  Those that point out of it do: only one encoding is accepted
 * here, four bytes counted from their own address.  A record of another kind is odd, and its code stays.
 *
 * The functions above find FDEs as unwinders do.  These read every record from the first to the end mark (the
 * one behind the last FDE): the bytes can be copied only if all of them are understood.
 */

/* Takes the personality, directly or through a word that holds its address.  0: it is named in another way. */
static int read_personality(struct object *o, const struct cie *cie, struct record *record)
{
    if (cie->personality_how == ENCODING_OMIT)
        return 1;
    if ((cie->personality_how & ~ENCODING_INDIRECT) != ENCODING_PCREL_SDATA4)
        return 0;
    if (!cie->personality)
        return 1;
    if (!object_segment(o, cie->personality))
        return 0;
    record->other_at = (uint32_t)cie->personality_at;
    if (!(cie->personality_how & ENCODING_INDIRECT))
        VECTOR_ADD(&o->pointers, struct pointer, (uint32_t)cie->personality, (uint32_t)cie->personality_at);
    return 1;
}

/* Takes version 1, augmentation "z…", and a program that can move. */
static void list_cie(struct object *o, struct reader r, struct record *record)
{
    struct cie cie;

    record->odd = 1;
    if (cie_read(r, &cie) || cie.version != 1 || !cie.sized)
        return;
    record->has_table = cie.table_how != ENCODING_OMIT;
    record->distances = read_personality(o, &cie, record) && !cie.keyed && cie.range_how == ENCODING_PCREL_SDATA4 &&
                        (!record->has_table || cie.table_how == ENCODING_PCREL_SDATA4);
    record->odd = !record->distances || cie.signal || !cie.whole || !cfa_can_move(&cie.program);
}

const struct record *frame_list_at(const struct frame_list *list, uint64_t address)
{
    const struct record *records = list->records.at;
    size_t first = RIMF_BISECT(i, list->records.n, records[i].address < address);

    return first < list->records.n && records[first].address == address ? &records[first] : NULL;
}

static void list_fde(struct reader *r, const struct record *cie, struct record *record)
{
    uint64_t size, at, start, table;

    record->odd = 1;
    if (!cie || !cie->is_cie || !cie->distances)
        return;
    start = frame_encoded(r, ENCODING_PCREL_SDATA4, 0);
    frame_uint(r, 4);
    size = frame_uleb128(r);
    if (r->bad || size > (uint64_t)(r->end - r->at) || start > UINT32_MAX ||
        size != (cie->has_table ? 4 : 0))
        return;
    at = r->address;
    table = size ? frame_encoded(r, ENCODING_PCREL_SDATA4, 0) : 0;
    if (table > UINT32_MAX)
        return;
    record->start = (uint32_t)start;
    record->other_at = table ? (uint32_t)at : 0;
    record->distances = start != 0;
    record->odd = !start || cie->odd || !cfa_can_move(r);
}

/* The number of bytes up to the next record; 0: the end mark; -1: damage. */
static int64_t add_record(struct object *o, uint64_t address, struct frame_list *list)
{
    struct record record = {.address = (uint32_t)address};
    struct reader r = reader_at(o, address);
    uint64_t length = frame_uint(&r, 4), id;

    if (r.bad || !length)
        return r.bad ? -1 : 0;
    r = frame_record(reader_at(o, address), &id);
    if (r.bad)
        return -1;
    record.is_cie = id == 0;
    if (record.is_cie)
        list_cie(o, r, &record);
    else
        list_fde(&r, frame_list_at(list, address + 4 - id), &record);
    vector_add(&list->records, &record, sizeof record);
    return (int64_t)length + 4;
}

int frame_list_read(struct object *o, uint64_t start, uint64_t last, struct frame_list *list)
{
    uint64_t address = start;
    int64_t size = 1;

    if (!start)
        return 0;
    while (size > 0 || (size == 0 && address <= last)) {
        size = add_record(o, address, list);
        address += size > 0 ? (uint64_t)size : 4;
    }
    if (list->records.failed || o->pointers.failed)
        return object_fail(o, "there is no memory for its unwinding tables");
    if (size < 0 || !object_at(o, start, address - start)) {
        list->records.n = 0; /* damaged: no records */
        return 0;
    }
    list->start = (uint32_t)start;
    list->size = (uint32_t)(address - start);
    return 0;
}
