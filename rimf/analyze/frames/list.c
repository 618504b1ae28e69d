/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/list.c: what must be corrected in a copy of .eh_frame so that it describes moved
 * code.
 *
 * Distances inside the list do not change.  Those that point out of it do: only one encoding is accepted
 * here, four bytes counted from their own address.  A record of another kind is odd, and its code stays.
 *
 * Unlike frames.c, which finds FDEs as unwinders do, this file reads every record from the first to the end
 * mark (the one behind the last FDE): the bytes can be copied only if all of them are understood.
 */
#include "rimf/analyze/frames/frames.h"

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
static void read_cie(struct object *o, struct reader r, struct record *record)
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

static void read_fde(struct reader *r, const struct record *cie, struct record *record)
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
        read_cie(o, r, &record);
    else
        read_fde(&r, frame_list_at(list, address + 4 - id), &record);
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
