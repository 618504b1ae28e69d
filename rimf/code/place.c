/* SPDX-License-Identifier: MIT
 *
 * rimf/code/place.c: whether and how an instruction can be displaced for a jump (code/splice.c).
 *
 *     a call                        stays, and leads elsewhere
 *     five bytes or more            runs elsewhere, alone: whoever led to it leads to the jump
 *     shorter                       with those behind it, at the entry of a function where it is proven that nothing
 *                                   leads to these (ANALYSIS_HEAD); else not
 *
 * Displaced instructions are unwound in the trampoline.  So the function's unwind table must describe each of
 * them, and exceptions must not be dispatched by the address where they were thrown.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/x86/displace.h"
#include "rimf/x86/registers.h"

#include <errno.h> /* numbers only */

int code_refuse(const struct mvld_context *ctx, const struct rimf_object *object, uintptr_t address, int error,
                  const char *why)
{
    return rimf_fail(ctx->image, error, "%s: %s: no code is spliced in at %lx: %s", ctx->pass,
                     object ? object->public.name : "nowhere",
                     (unsigned long)(address - (object ? object->view.bias : 0)), why);
}

/* ---- what can make way ------------------------------------------------------------------------------- */

/* Reads the unwind state before each displaced instruction, and after the last. */
static const char *read_unwind(struct code_splice *splice, const struct code_place *p)
{
    struct code_frame frame;
    struct instruction i;
    uint32_t offset = p->offset;
    size_t k = 0;

    if (p->unit->reason)
        return analysis_reason_words((enum analysis_reason)p->unit->reason);
    if (code_frame_of(splice->object, p->s, p->unit, &frame))
        return "its unwind table is not understood";
    if (frame.has_pads)
        return "its function handles exceptions by the place of its instructions";
    for (; k < RIMF_COUNT(splice->unwind); k++, offset += i.length) {
        if (code_unwind_at(&frame, offset, &splice->unwind[k]) ||
            (splice->unwind[k].base != CODE_UNWIND_RSP && splice->unwind[k].base != 6 /* %rbp */))
            return "its unwind table takes more than offsets";
        if (offset == p->offset + splice->length)
            return NULL;
        if (!decode(p->code + (offset - p->offset), p->unit->size - offset, &i) || i.prefixes & PREFIX_LOCK)
            break; /* other code may jump behind a lock prefix */
    }
    return "it may not run elsewhere";
}

/* Several instructions at the entry. */
static const char *read_head(struct code_splice *splice, const struct code_place *p)
{
    struct displaced head;
    const char *why;

    if (!(p->unit->flags & ANALYSIS_HEAD) ||
        p->offset != endbr64_size((const uint8_t *)p->start, p->unit->size))
        return "it is shorter than a jump";
    why = displace((const uint8_t *)p->start, p->unit->size, p->start, p->start + p->offset, 0, &head);
    if (why)
        return why;
    if (head.length > SPLICE_LONGEST)
        return "the instructions under a jump are too long";
    splice->length = head.length;
    return NULL;
}

/* One instruction of five bytes or more. */
static const char *read_single(const struct code_place *p)
{
    enum flow flow = instruction_flow(&p->i);
    uint8_t bytes[16];

    if (p->i.odd || flow == FLOW_CALL_INDIRECT || flow == FLOW_END)
        return "such an instruction cannot run elsewhere";
    if (p->i.length > SPLICE_LONGEST)
        return "it is too long";
    if (displace_one(p->code, p->start + p->offset, p->start + p->offset, &p->i, bytes))
        return "its operand is not understood";
    return NULL;
}

const char *code_place_read(struct code_splice *splice, const struct code_place *p)
{
    const struct instruction *i = &p->i;
    const char *why;

    splice->length = i->length;
    if (instruction_is(i, 0, 0xe8) && i->immediate_size == 4 && i->length <= SPLICE_LONGEST) {
        splice->way = SPLICE_CALL;
        return NULL;
    }
    if (instruction_is(i, 0, 0xff) && i->rip && i->length == 6 && modrm_reg(i) == 2) {
        splice->way = SPLICE_CALL_SLOT;
        return NULL;
    }
    splice->way = SPLICE_MOVED;
    why = i->length < DISPLACE_JUMP ? read_head(splice, p) : read_single(p);
    return why ? why : read_unwind(splice, p);
}

const char *code_place_read_again(struct mvld_image *image, struct code_splice *splice)
{
    enum code_splice_way way = splice->way;
    uint8_t length = splice->length;
    struct code_place p;
    const char *why;

    p.unit = code_unit_at(image, splice->object, splice->place, &p.s, &why);
    if (!p.unit)
        return why;
    p.start = splice->object->view.bias + p.unit->start;
    p.offset = (uint32_t)(splice->place - p.start);
    p.code = (const uint8_t *)splice->place;
    if (!decode(p.code, p.unit->size - p.offset, &p.i))
        return "it was changed meanwhile";
    why = code_place_read(splice, &p); /* a call through a slot may be direct by now, and a jump shorter */
    if (why || (way == SPLICE_MOVED) != (splice->way == SPLICE_MOVED))
        return why ? why : "it was changed meanwhile";
    memcpy(splice->old, p.code, length > splice->length ? length : splice->length);
    return NULL;
}

/* ---- finding it ------------------------------------------------------------------------------------------ */

/* Only whole instructions were replaced since the code was compared with its analysis. */
static const char *unsure(struct mvld_image *image, const struct rimf_object *object, const struct code_place *p)
{
    return !object->code.known ? "it is not certain that its code is that of its file"
           : rimf_is_kept_original(image, p->start) ? "mvld stands in front of its function"
                                                    : NULL;
}

static int refuse_moved(const struct mvld_context *ctx, const struct rimf_object *object, uintptr_t address)
{
    const struct mvld_context *mover = ctx->image->moved->list[object->moved - 1].mover;
    char why[128];

    rimf_format(why, sizeof why, "the pass '%s' moves its code", mover ? mover->pass : "");
    return code_refuse(ctx, object, address, ENODATA, mover ? why : "its code was moved before");
}

/* Finds the instruction, behind an endbr64. */
int code_place_find(const struct mvld_context *ctx, struct rimf_object *object, uintptr_t address,
                    struct code_place *p)
{
    struct code_instructions all;
    const struct mvld_instruction *at;
    const char *why;
    int error;

    if (object->moved)
        return refuse_moved(ctx, object, address);
    p->unit = code_unit_at(ctx->image, object, address, &p->s, &why);
    if (!p->unit)
        return code_refuse(ctx, object, address, ENODATA, why);
    p->start = object->view.bias + p->unit->start;
    error = code_instructions_at(ctx->image, object, p->s, p->unit, &all, &why);
    if (error)
        return code_refuse(ctx, object, address, -error, why);
    at = code_instruction_at(&all, address);
    if (at && at + 1 < all.list + all.n && endbr64_size((const uint8_t *)address, at->length))
        at++;
    p->offset = at ? (uint32_t)(at->address - p->start) : 0;
    p->live = at ? at->live : 0;
    code_instructions_release(&ctx->image->heap, &all);
    if (!at)
        return code_refuse(ctx, object, address, EINVAL, "no instruction begins there");
    p->code = (const uint8_t *)p->start + p->offset;
    decode(p->code, p->unit->size - p->offset, &p->i);
    why = unsure(ctx->image, object, p);
    return why ? code_refuse(ctx, object, address, ENODATA, why) : 0;
}
