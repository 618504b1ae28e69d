/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames.c: see frames.h.
 *
 * .eh_frame is a list of records: a length, the distance back to the record's CIE (0:
 * it is a CIE itself), the content.  An FDE gives the range of a function; its CIE
 * says how addresses are encoded.  PT_GNU_EH_FRAME leads there: to the start of the
 * list, and to a sorted table of all FDEs, which is what unwinders use.  The list may
 * have a zero length, its end, before its last record (from a crtend.o that was linked
 * early), so the table is read when it is there in the one form that linkers write,
 * else the list.
 *
 * Records that cannot be read describe nothing: their code belongs to no unit and
 * stays home.
 */
#include "frames.h"

#include <string.h>

#define OMIT 0xff
#define DATAREL_SDATA4 0x3b
#define AUGMENTATION_MAX 8 /* letters: "zPLRSB" */

/* Bytes at an address; what is read past the end is 0 and sets `bad`. */
struct reader {
    const uint8_t *at, *end;
    uint64_t address;
    int bad;
};

struct cie {
    uint64_t address; /* of which record, 0: none yet */
    uint8_t fde_encoding, lsda_encoding, signal, sized;
};

static struct reader read_from(const struct object *o, uint64_t address, uint64_t most)
{
    struct reader r = {.address = address};
    size_t room = object_room(o, address);

    r.at = object_at(o, address, 0);
    r.end = r.at + (room < most ? room : most);
    r.bad = !room;
    return r;
}

static uint64_t take(struct reader *r, size_t size)
{
    uint64_t value = 0;

    if (r->bad || (size_t)(r->end - r->at) < size) {
        r->bad = 1;
        return 0;
    }
    memcpy(&value, r->at, size);
    r->at += size;
    r->address += size;
    return value;
}

static uint64_t take_uleb(struct reader *r)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = (uint8_t)take(r, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (shift > 70) /* more than 64 bits: or a file could make each of these long */
            r->bad = 1;
    } while (byte & 0x80 && !r->bad);
    return value;
}

static uint64_t take_sleb(struct reader *r)
{
    const uint8_t *start = r->at;
    uint64_t value = take_uleb(r);
    size_t bits = 7 * (size_t)(r->at - start);

    if (!r->bad && bits < 64 && r->at[-1] & 0x40)
        value |= ~0ull << bits;
    return value;
}

/* A value of encoding `how` (DW_EH_PE_*); 0 stays 0, whatever it is relative to. */
static uint64_t take_encoded(struct reader *r, uint8_t how, uint64_t data)
{
    uint64_t base = r->address, value;

    switch (how & 0x0f) {
    case 0x0:
    case 0x4:
    case 0xc: value = take(r, 8); break;
    case 0x1: value = take_uleb(r); break;
    case 0x2: value = take(r, 2); break;
    case 0x3: value = take(r, 4); break;
    case 0x9: value = take_sleb(r); break;
    case 0xa: value = (uint64_t)(int64_t)(int16_t)take(r, 2); break;
    case 0xb: value = (uint64_t)(int64_t)(int32_t)take(r, 4); break;
    default: r->bad = 1; return 0;
    }
    if (!value)
        return 0;
    switch (how & 0xf0) {
    case 0x00: return value;
    case 0x10: return value + base;
    case 0x30: return value + data;
    }
    r->bad = 1; /* through a pointer, or relative to what is not known here */
    return 0;
}

/* ---- records ------------------------------------------------------------------------ */

/* The content of the record at `address`; `id` is its second word. */
static struct reader read_record(const struct object *o, uint64_t address, uint64_t *id)
{
    struct reader r = read_from(o, address, 4);
    uint64_t length = take(&r, 4);

    *id = 0;
    if (r.bad || length < 4 || length >= 0xfffffff0) {
        r.bad = 1;
        return r;
    }
    r = read_from(o, address + 4, length);
    if ((uint64_t)(r.end - r.at) != length)
        r.bad = 1;
    *id = take(&r, 4);
    return r;
}

static void take_augmentation(struct reader *r, const char *letters, struct cie *cie)
{
    uint8_t how;

    for (; *letters; letters++) {
        switch (*letters) {
        case 'z': take_uleb(r); cie->sized = 1; break;
        case 'R': cie->fde_encoding = (uint8_t)take(r, 1); break;
        case 'L': cie->lsda_encoding = (uint8_t)take(r, 1); break;
        case 'P': /* the personality's place does not matter here, nor through what */
            how = (uint8_t)take(r, 1);
            take_encoded(r, how & 0x7f, 0);
            break;
        case 'S': cie->signal = 1; break;
        case 'B': break; /* pointer authentication, elsewhere */
        default: r->bad = 1;
        }
    }
}

static int read_cie(const struct object *o, uint64_t address, struct cie *cie)
{
    char letters[AUGMENTATION_MAX + 1];
    size_t n = 0;
    uint64_t id;
    struct reader r;

    if (cie->address == address)
        return 0;
    r = read_record(o, address, &id);
    memset(cie, 0, sizeof *cie);
    cie->lsda_encoding = OMIT;
    if (r.bad || id != 0)
        return -1;
    take(&r, 1); /* version */
    do {
        letters[n] = (char)take(&r, 1);
    } while (letters[n] && ++n <= AUGMENTATION_MAX);
    if (n > AUGMENTATION_MAX)
        return -1;
    take_uleb(&r); /* alignment of code, of data, the return address */
    take_sleb(&r);
    take_uleb(&r);
    take_augmentation(&r, letters, cie);
    if (r.bad)
        return -1;
    cie->address = address;
    return 0;
}

static void take_fde(const struct object *o, uint64_t address, struct cie *cie,
                     struct vector *frames)
{
    uint64_t id, start, size, lsda = 0;
    struct reader r = read_record(o, address, &id);
    const struct segment *s;
    int unread = 0;

    if (r.bad || id == 0 || id > address + 4 || read_cie(o, address + 4 - id, cie))
        return;
    start = take_encoded(&r, cie->fde_encoding, 0);
    size = take_encoded(&r, cie->fde_encoding & 0x0f, 0);
    s = object_segment(o, start);
    if (r.bad || !size || !s || !(s->flags & PF_X) || start >= s->file_end ||
        size > s->file_end - start)
        return;
    if (cie->sized && cie->lsda_encoding != OMIT) {
        take_uleb(&r);
        lsda = take_encoded(&r, cie->lsda_encoding, 0);
        unread = r.bad || lsda > UINT32_MAX;
    }
    VECTOR_ADD(frames, struct frame, (uint32_t)start, (uint32_t)(start + size),
               unread ? 0 : (uint32_t)lsda, cie->signal, (uint8_t)unread);
}

static void read_list(const struct object *o, uint64_t address, struct vector *frames)
{
    struct cie cie = {0};

    for (;;) {
        struct reader r = read_from(o, address, 4);
        uint64_t length = take(&r, 4), id;

        if (r.bad || !length)
            return;
        r = read_record(o, address, &id);
        if (r.bad)
            return;
        if (id)
            take_fde(o, address, &cie, frames);
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

/* The header: version, three encodings, where the list is, how many FDEs there are;
 * then pairs (start of the function, its FDE), relative to the header. */
int frames_read(struct object *o, struct vector *frames)
{
    const Elf64_Phdr *p = object_phdr(o, PT_GNU_EH_FRAME, 0);
    struct reader r;
    uint8_t version, list_how, count_how, table_how;
    uint64_t list, count;
    struct cie cie = {0};

    if (!p)
        return 0;
    r = read_from(o, p->p_vaddr, p->p_filesz);
    version = (uint8_t)take(&r, 1);
    list_how = (uint8_t)take(&r, 1);
    count_how = (uint8_t)take(&r, 1);
    table_how = (uint8_t)take(&r, 1);
    list = take_encoded(&r, list_how, p->p_vaddr);
    if (r.bad || version != 1)
        return object_fail(o, "its .eh_frame_hdr cannot be read");
    if (table_how == DATAREL_SDATA4 && count_how != OMIT) {
        count = take_encoded(&r, count_how, p->p_vaddr);
        for (; count && !r.bad; count--) {
            take(&r, 4);
            take_fde(o, p->p_vaddr + (uint64_t)(int64_t)(int32_t)take(&r, 4), &cie, frames);
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
    struct reader r = read_from(o, f->lsda, *budget);
    /* A signal frame's range begins a byte early, but it has no landing pads. */
    uint64_t base = f->start, length, pad;
    uint8_t how = (uint8_t)take(&r, 1), site_how;

    if (how != OMIT)
        base = take_encoded(&r, how, 0);
    if ((uint8_t)take(&r, 1) != OMIT)
        take_uleb(&r); /* where its table of types is */
    site_how = (uint8_t)take(&r, 1);
    length = take_uleb(&r);
    if (r.bad || length > (uint64_t)(r.end - r.at))
        return -1;
    r.end = r.at + length;
    *budget -= length;
    while (r.at < r.end && !r.bad) {
        take_encoded(&r, site_how & 0x0f, 0);
        take_encoded(&r, site_how & 0x0f, 0);
        pad = take_encoded(&r, site_how & 0x0f, 0);
        take_uleb(&r);
        if (pad && !r.bad)
            visit(cookie, base + pad);
    }
    return r.bad ? -1 : 0;
}
