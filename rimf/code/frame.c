/* SPDX-License-Identifier: MIT
 *
 * rimf/code/frame.c: reads the .eh_frame record of a mapped function.
 *
 *     FDE   length, distance to its CIE, distance to the code, size of the code, augmentation, instructions
 *     CIE   length, 0, version, "zPLR" or less, alignments 1 and -8, return address 16, augmentation, instructions
 *
 * The analyser has checked that distances have four bytes and that the instructions name no address; bounds
 * are checked again, since nothing else keeps a record inside the object.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"

#include <elf.h>
#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct record {
    const uint8_t *at, *end;
    int bad;
};

static uint64_t take_bytes(struct record *r, size_t size)
{
    uint64_t value = 0;

    r->bad |= (size_t)(r->end - r->at) < size;
    if (r->bad)
        return 0;
    memcpy(&value, r->at, size);
    r->at += size;
    return value;
}

static uint64_t take_number(struct record *r)
{
    uint64_t value = 0, byte = 0x80;

    for (unsigned shift = 0; byte & 0x80 && !r->bad; shift += 7) {
        byte = take_bytes(r, 1);
        r->bad |= shift > 28;
        value |= (byte & 0x7f) << (shift & 31);
    }
    return value;
}

/* The record behind the length. */
static struct record record_at(const struct rimf_object *object, uintptr_t at)
{
    struct record r = {NULL, NULL, 1};
    uint32_t length;

    if (!elf_holds(&object->view, at, sizeof length, PROT_READ))
        return r;
    memcpy(&length, (const void *)at, sizeof length);
    at += sizeof length;
    if (length < 0xfffffff0 && elf_holds(&object->view, at, length, PROT_READ))
        r = (struct record){(const uint8_t *)at, (const uint8_t *)at + length, 0};
    return r;
}

/* Length of an encoded pointer, or 0: another form. */
static size_t encoded_size(uint64_t encoding)
{
    switch (encoding & 0x0f) {
    case 0x0:
    case 0x4:
    case 0xc: return 8;
    case 0x3:
    case 0xb: return 4;
    }
    return 0;
}

/* *pads: length of the LSDA pointer in an FDE; 0: none. */
static int read_cie(struct record *r, struct code_frame *frame, size_t *pads)
{
    const char *augmentation = (const char *)r->at + 5;
    uint64_t own;
    const uint8_t *behind;

    if (r->bad || take_bytes(r, 4) || take_bytes(r, 1) != 1 || take_bytes(r, 1) != 'z')
        return -ENOENT;
    while (take_bytes(r, 1))
        ;
    if (take_number(r) != 1 || take_number(r) != 0x78 || take_bytes(r, 1) != 16)
        return -ENOENT;
    own = take_number(r);
    behind = r->at + own;
    *pads = 0;
    for (const char *c = augmentation + 1; !r->bad && *c; c++) {
        uint64_t encoding = *c == 'R' || *c == 'L' || *c == 'P' ? take_bytes(r, 1) : 0;

        if (*c == 'L')
            *pads = encoded_size(encoding);
        else if (*c == 'P' && encoded_size(encoding))
            take_bytes(r, encoded_size(encoding));
        else if (*c != 'R') /* S (signals), above all */
            return -ENOENT;
    }
    frame->initial = r->at;
    frame->initial_end = r->end;
    return r->bad || r->at != behind ? -ENOENT : 0;
}

int code_frame_of(const struct rimf_object *object, const struct analysis *s, const struct analysis_unit *unit,
                  struct code_frame *frame)
{
    size_t i = analysis_frame_from(s, unit->start), pads;
    uintptr_t at = i < s->n_frames && s->frames[i].start == unit->start ? object->view.bias + s->frames[i].fde : 0;
    struct record fde = record_at(object, at), cie;
    uint64_t own;

    if (!at || fde.bad)
        return -ENOENT;
    cie = record_at(object, at + sizeof(uint32_t) - take_bytes(&fde, 4));
    if (fde.bad || read_cie(&cie, frame, &pads))
        return -ENOENT;
    take_bytes(&fde, 4);
    own = take_bytes(&fde, 4) == unit->size ? take_number(&fde) : UINT64_MAX;
    if (fde.bad || own > (size_t)(fde.end - fde.at))
        return -ENOENT;
    frame->program = fde.at + own;
    frame->program_end = fde.end;
    frame->has_pads = pads && pads <= own && take_bytes(&fde, pads) != 0;
    return 0;
}

/* ---- its instructions --------------------------------------------------------------------------------- */

const struct code_unwind code_unwind_entry = {.base = CODE_UNWIND_RSP, .offset = 8, .saved[16] = 1};

#define REMEMBERED_MAX 4u

struct unwinding {
    struct code_unwind now, initial, remembered[REMEMBERED_MAX];
    size_t n_remembered;
    uint32_t at; /* offset in the function */
};

static int save(struct unwinding *u, uint64_t reg, uint64_t words)
{
    if (reg >= RIMF_COUNT(u->now.saved) || words > UINT8_MAX)
        return -ENOTSUP;
    u->now.saved[reg] = (uint8_t)words;
    return 0;
}

static int set_cfa(struct unwinding *u, uint64_t base, uint64_t offset)
{
    u->now.base = (uint8_t)base;
    u->now.offset = (uint32_t)offset;
    return base > 15 || offset > INT32_MAX ? -ENOTSUP : 0;
}

static int remember(struct unwinding *u)
{
    if (u->n_remembered == REMEMBERED_MAX)
        return -ENOTSUP;
    u->remembered[u->n_remembered++] = u->now;
    return 0;
}

static int recall(struct unwinding *u)
{
    if (!u->n_remembered)
        return -ENOTSUP;
    u->now = u->remembered[--u->n_remembered];
    return 0;
}

/* One instruction; DWARF 5, 6.4.2. */
static int step(struct unwinding *u, struct record *r)
{
    uint64_t op = take_bytes(r, 1), low = op & 0x3f, first;

    switch (op & 0xc0) {
    case 0x40: u->at += (uint32_t)low; return 0;                     /* advance_loc */
    case 0x80: return save(u, low, take_number(r));                  /* offset */
    case 0xc0: return low > 16 ? -ENOTSUP : save(u, low, u->initial.saved[low]); /* restore */
    }
    switch (op) {
    case 0x00: return 0;                                             /* nop */
    case 0x02: u->at += (uint32_t)take_bytes(r, 1); return 0;        /* advance_loc1, 2, 4 */
    case 0x03: u->at += (uint32_t)take_bytes(r, 2); return 0;
    case 0x04: u->at += (uint32_t)take_bytes(r, 4); return 0;
    case 0x08: return save(u, take_number(r), 0);                    /* same_value */
    case 0x0a: return remember(u);
    case 0x0b: return recall(u);
    case 0x0c: first = take_number(r); return set_cfa(u, first, take_number(r)); /* def_cfa */
    case 0x0d: return set_cfa(u, take_number(r), u->now.offset);     /* def_cfa_register */
    case 0x0e: return set_cfa(u, u->now.base, take_number(r));       /* def_cfa_offset */
    case 0x2e: take_number(r); return 0;                             /* GNU_args_size */
    }
    return -ENOTSUP;
}

/* A state is valid up to the next advance. */
int code_unwind_at(const struct code_frame *frame, uint32_t offset, struct code_unwind *out)
{
    struct record initial = {frame->initial, frame->initial_end, 0}, r = {frame->program, frame->program_end, 0};
    struct unwinding u = {.n_remembered = 0};
    int error = 0;

    while (!error && initial.at < initial.end)
        error = step(&u, &initial);
    u.initial = u.now;
    *out = u.now;
    while (!error && r.at < r.end && u.at <= offset) {
        *out = u.now;
        error = step(&u, &r);
    }
    if (u.at <= offset)
        *out = u.now;
    return error ? error : initial.bad || r.bad || u.initial.saved[16] != 1 ? -ENOTSUP : 0;
}
