/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/list.c: what must be corrected in a copy of .eh_frame so that it describes moved
 * code.
 *
 *     CIE   length, 0, version, "zPLR", alignments,  size, P how + personality,
 *           L how, R how, program
 *     FDE   length, distance to the CIE, start of the range, its size,
 *           size, exception table, program
 *
 * Distances inside the list do not change.  Those that point out of it do: only one encoding is accepted
 * here, four bytes counted from their own address.  A record of another kind is odd, and its code stays.
 *
 * Unlike frames.c, which finds FDEs as unwinders do, this file reads every record from the first to the end
 * mark (the one behind the last FDE): the bytes can be copied only if all of them are understood.
 */
#include "rimf/analyze/frames/reader.h"
#include "rimf/analyze/frames/frames.h"

#include <string.h>

struct cie_reader {
    struct record *record;
    struct reader *r;
    uint8_t has_range, signal; /* R, S were seen */
};

/* The personality, directly or through a word that holds its address. */
static void take_personality(struct object *o, struct cie_reader *c)
{
    uint8_t how = (uint8_t)take(c->r, 1);
    uint64_t at = c->r->address, target;

    if ((how & ~ENCODING_INDIRECT) != ENCODING_PCREL_SDATA4) {
        c->r->bad = 1;
        return;
    }
    target = take_encoded(c->r, ENCODING_PCREL_SDATA4, 0);
    if (!target || c->r->bad)
        return;
    if (!object_segment(o, target)) {
        c->r->bad = 1;
        return;
    }
    c->record->other_at = (uint32_t)at;
    if (!(how & ENCODING_INDIRECT))
        VECTOR_ADD(&o->pointers, struct pointer, (uint32_t)target, (uint32_t)at);
}

static void take_letter(struct object *o, struct cie_reader *c, char letter)
{
    switch (letter) {
    case 'R':
        c->has_range = take(c->r, 1) == ENCODING_PCREL_SDATA4;
        break;
    case 'L':
        c->record->has_table = 1;
        c->r->bad |= take(c->r, 1) != ENCODING_PCREL_SDATA4;
        break;
    case 'P':
        take_personality(o, c);
        break;
    case 'S': /* a range that begins before its code */
        c->signal = 1;
        break;
    default:
        c->r->bad = 1;
    }
}

/* Reads version 1, augmentation "z…" and its letters, and a program that can move. */
static void read_cie(struct object *o, struct reader *r, struct record *record)
{
    struct cie_reader c = {record, r, 0, 0};
    const char *letters;
    uint64_t size;
    const uint8_t *end;

    record->odd = 1;
    if (take(r, 1) != 1 || r->bad)
        return;
    letters = (const char *)r->at;
    while (take(r, 1))
        ;
    if (r->bad || *letters++ != 'z')
        return;
    take_uleb(r); /* alignment of code, of data, the return address */
    take_sleb(r);
    take(r, 1);
    size = take_uleb(r);
    if (r->bad || size > (uint64_t)(r->end - r->at))
        return;
    end = r->at + size;
    for (; *letters; letters++)
        take_letter(o, &c, *letters);
    record->distances = c.has_range && !r->bad;
    record->odd = !record->distances || c.signal || r->at != end || !cfa_can_move(r);
}

static struct record *record_at(const struct frame_list *list, uint64_t address)
{
    struct record *records = list->records.at;
    size_t first = RIMF_BISECT(i, list->records.n, records[i].address < address);

    return first < list->records.n && records[first].address == address ? &records[first] : NULL;
}

const struct record *frame_list_at(const struct frame_list *list, uint32_t address)
{
    return record_at(list, address);
}

static void read_fde(struct reader *r, const struct record *cie, struct record *record)
{
    uint64_t size, at, start, table;

    record->odd = 1;
    if (!cie || !cie->is_cie || !cie->distances)
        return;
    start = take_encoded(r, ENCODING_PCREL_SDATA4, 0);
    take(r, 4);
    size = take_uleb(r);
    if (r->bad || size > (uint64_t)(r->end - r->at) || start > UINT32_MAX ||
        size != (cie->has_table ? 4 : 0))
        return;
    at = r->address;
    table = size ? take_encoded(r, ENCODING_PCREL_SDATA4, 0) : 0;
    if (table > UINT32_MAX)
        return;
    record->start = (uint32_t)start;
    record->other_at = table ? (uint32_t)at : 0;
    record->distances = start != 0;
    record->odd = !start || cie->odd || !cfa_can_move(r);
}

/* The number of bytes up to the next record; 0: the end mark; -1: damage. */
static int64_t take_record(struct object *o, uint64_t address, struct frame_list *list)
{
    struct record record = {.address = (uint32_t)address};
    struct reader r = reader_at(o, address, 4);
    uint64_t length = take(&r, 4), id;

    if (r.bad || !length)
        return r.bad ? -1 : 0;
    r = reader_of_record(o, address, &id);
    if (r.bad)
        return -1;
    record.is_cie = id == 0;
    if (record.is_cie)
        read_cie(o, &r, &record);
    else
        read_fde(&r, record_at(list, address + 4 - id), &record);
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
        size = take_record(o, address, list);
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
