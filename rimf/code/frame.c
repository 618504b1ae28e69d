/* SPDX-License-Identifier: MIT
 *
 * rimf/code/frame.c: reads the .eh_frame record of a mapped function.
 *
 * The analyser has checked that distances have four bytes and that the instructions name no address; bounds
 * are checked again, since nothing else keeps a record inside the object.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"

#include <elf.h>
#include <errno.h> /* numbers only */

/* The rest of the segment from there on. */
static struct reader reader_at(const struct rimf_object *object, uintptr_t at)
{
    size_t room = at ? elf_room(&object->view, at) : 0;

    return (struct reader){(const uint8_t *)at, (const uint8_t *)at + room, at, !room};
}

/* Whether it is as compilers write it for functions. */
static int is_usual(const struct cie *cie)
{
    return cie->version == 1 && cie->sized && cie->whole && !cie->signal && !cie->keyed && cie->code_alignment == 1 &&
           cie->data_alignment == (uint64_t)-8 && cie->return_address == 16;
}

int code_frame_of(const struct rimf_object *object, const struct analysis *s, const struct analysis_unit *unit,
                  struct code_frame *frame)
{
    size_t i = ANALYSIS_FROM(s, frames, unit->start);
    uintptr_t at = i < s->n_frames && s->frames[i].start == unit->start ? object->view.bias + s->frames[i].fde : 0;
    uint64_t back, none, own;
    struct reader fde = frame_record(reader_at(object, at), &back), content;
    struct cie cie;

    if (fde.bad)
        return -ENOENT;
    content = frame_record(reader_at(object, at + sizeof(uint32_t) - back), &none);
    if (none || cie_read(content, &cie) || !is_usual(&cie))
        return -ENOENT;
    frame_uint(&fde, 4);
    own = frame_uint(&fde, 4) == unit->size ? frame_uleb128(&fde) : UINT64_MAX;
    if (fde.bad || own > (size_t)(fde.end - fde.at))
        return -ENOENT;
    frame->initial = cie.program;
    frame->program = fde;
    frame->program.at += own;
    frame->has_pads = own && cie.table_how != ENCODING_OMIT && frame_encoded(&fde, cie.table_how & 0x0f, 0) != 0;
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
static int step(struct unwinding *u, struct reader *r)
{
    uint64_t op = frame_uint(r, 1), low = op & 0x3f, first;

    switch (op & 0xc0) {
    case 0x40: u->at += (uint32_t)low; return 0;                     /* advance_loc */
    case 0x80: return save(u, low, frame_uleb128(r));                /* offset */
    case 0xc0: return low > 16 ? -ENOTSUP : save(u, low, u->initial.saved[low]); /* restore */
    }
    switch (op) {
    case 0x00: return 0;                                             /* nop */
    case 0x02: u->at += (uint32_t)frame_uint(r, 1); return 0;        /* advance_loc1, 2, 4 */
    case 0x03: u->at += (uint32_t)frame_uint(r, 2); return 0;
    case 0x04: u->at += (uint32_t)frame_uint(r, 4); return 0;
    case 0x08: return save(u, frame_uleb128(r), 0);                  /* same_value */
    case 0x0a: return remember(u);
    case 0x0b: return recall(u);
    case 0x0c: first = frame_uleb128(r); return set_cfa(u, first, frame_uleb128(r)); /* def_cfa */
    case 0x0d: return set_cfa(u, frame_uleb128(r), u->now.offset);   /* def_cfa_register */
    case 0x0e: return set_cfa(u, u->now.base, frame_uleb128(r));     /* def_cfa_offset */
    case 0x2e: frame_uleb128(r); return 0;                           /* GNU_args_size */
    }
    return -ENOTSUP;
}

/* A state is valid up to the next advance. */
int code_unwind_at(const struct code_frame *frame, uint32_t offset, struct code_unwind *out)
{
    struct reader initial = frame->initial, r = frame->program;
    struct unwinding u = {.n_remembered = 0};
    int error = 0;

    while (!error && !initial.bad && initial.at < initial.end)
        error = step(&u, &initial);
    u.initial = u.now;
    *out = u.now;
    while (!error && !r.bad && r.at < r.end && u.at <= offset) {
        *out = u.now;
        error = step(&u, &r);
    }
    if (u.at <= offset)
        *out = u.now;
    return error ? error : initial.bad || r.bad || u.initial.saved[16] != 1 ? -ENOTSUP : 0;
}
