/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/entries.c: changes originals of moved code (moved/moved.h): operands that take a function's address, and
 * jumps to moved code at the start of those that can be reached by a pointer.
 *
 *     original  lea f(%rip), %rdi      leads to where f moved, as the same instruction that moved does
 *
 * Originals may still run: by a table that the analysis did not recognise, or because they were called before
 * their function got a jump.  They must take the same address for the same function.
 *
 *     [f3 0f 1e fa]  e9 rel32        [endbr64]  jmp moved
 *
 * A JUMP COSTS A PAGE: the original's page is written, and then private.  If the function's canonical address
 * is the new one, the original is hardly ever called (moved/moved.h), and such a call runs correct code.  So
 * if the calls of all objects go past the PLT (image/edits.c), such a function has no jump.  Otherwise the
 * first call through a lazily bound slot, and then all later ones, go to the original: then every function
 * that may be entered has its jump.  It also has one in a snapshot, whose pages all processes share.
 *
 * Functions that keep their original addresses are often known to others only by name, and called: those
 * calls are bound to moved code.  At a start it is recorded which are held by a word, or taken by an operand;
 * the others need no jump, and a dlsym of one of them returns an address that runs the original.
 *
 * The five bytes may cut an instruction in two: the analysis tells that they are entered only at the first
 * (ANALYSIS_HEAD).  A function without this proof runs in place when it is called by a pointer, and runs as
 * moved code when moved code calls it.
 *
 * Nor may a thread stand between two instructions that the jump overwrites.  At a start nothing runs; objects
 * of dlopen have not run yet, while other threads run elsewhere (`unentered` of rimf_feeder).  If that is not
 * certain, the patch engine refuses.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/emit/changes.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"

#include <errno.h> /* numbers only */

/* For a unit, in rimf_object.held. */
#define HELD 1u  /* a word or an operand has its address */
#define NAMED 2u /* a dynamic symbol has it */

static void note(struct mvld_image *image, struct rimf_object *object, uintptr_t original, uint8_t what)
{
    const struct analysis *s = rimf_analysis_whole(image, object, NULL);
    const struct analysis_unit *unit = s ? analysis_unit_at(s, (uint32_t)(original - object->view.bias))
                                        : NULL;

    if (unit && unit->start == original - object->view.bias)
        object->held[unit - s->units] |= what;
}

void move_entries_held(struct mvld_image *image, struct rimf_object *object, uintptr_t original)
{
    note(image, object, original, HELD);
}

static void note_named(struct mvld_image *image, struct rimf_object *object)
{
    size_t n = elf_symbol_count(&object->view);
    Elf64_Sym symbol;

    for (size_t i = 1; i < n && !elf_symbol_at(&object->view, i, &symbol); i++)
        if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
            note(image, object, object->view.bias + symbol.st_value, NAMED);
}

/* Most of its code keeps its original address: few functions of such an object have a jump anyway. */
static int is_mostly_fixed(const struct moved_fragment *fragment)
{
    size_t original = 0;

    for (size_t i = 0; i < fragment->n_fixed; i++)
        original += fragment->fixed[i].size;
    return !fragment->is_canonical || original > fragment->code / 2;
}

/* Then each object's calls are bound to moved code: its code has moved, or its calls will be changed in place
 * (image/edits.c). */
static int calls_lead_to_moved(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    uintptr_t region = image->moved->region.code;
    size_t i = 0;

    for (; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        if (!object->moved && !(object->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER)) &&
            region - object->public.start >= object->public.end - object->public.start &&
            !rimf_analysis_whole(image, object, NULL))
            break;
    }
    rimf_table_leave(image);
    return i == table->n_objects;
}

/* For the objects of a start, except the program's own: later objects are opened by code that will call
 * dlsym, and main may be known only to the code that calls it. */
void move_entries_begin(struct mvld_image *image)
{
    const struct moved_code *moved = image->moved;

    if (!rimf_image_leads_calls(image) || image->entered || !calls_lead_to_moved(image))
        return;
    for (size_t i = moved->n; i < moved->n_planned; i++) {
        struct rimf_object *object = (struct rimf_object *)moved->list[i].object;
        const struct analysis *s = rimf_analysis_whole(image, object, NULL);

        if (!s || object->held || object->public.flags & MVLD_OBJECT_MAIN ||
            !is_mostly_fixed(&moved->list[i]))
            continue;
        object->held = rimf_heap_alloc(&image->heap, s->n_units);
    }
}

/* ---- operands ------------------------------------------------------------------------ */

static int add_operand(struct changes *list, const struct moving *c, const struct analysis_reference *reference)
{
    uintptr_t at = c->bias + reference->address;
    uintptr_t next = at + sizeof(int32_t) + reference->rest;
    uintptr_t target = next + (uintptr_t)distance_at((const uint8_t *)at);
    uintptr_t to = moving_canonical(c, target);
    int32_t distance = (int32_t)(to - next);

    if (to == target)
        return 0;
    if (distance != (intptr_t)(to - next))
        return -ERANGE;
    changes_add(list, at, (const void *)at, &distance, sizeof distance);
    return 0;
}

int move_operands(struct moving *c, struct changes *list)
{
    const struct analysis *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_references && !error; i++)
        if (s->references[i].kind == ANALYSIS_TO_CODE)
            error = add_operand(list, c, &s->references[i]);
    return error;
}

/* ---- jumps ---------------------------------------------------------------------------- */

/* The address for the jump, or 0. */
static uintptr_t head(const struct moving *c, const struct analysis_unit *unit)
{
    uintptr_t start = c->bias + unit->start;
    size_t skip = endbr64_size((const uint8_t *)start, unit->size);

    return unit->size - skip >= DISPLACE_JUMP ? start + skip : 0;
}

/* If calls go past the PLT, only functions whose address is held. */
static int is_worth(const struct moving *c, size_t i)
{
    uintptr_t unit = c->bias + c->analysis->units[i].start;

    return !rimf_image_leads_calls(c->image) ||
           (moving_canonical(c, unit) == unit && (!c->object->held || c->object->held[i] != NAMED));
}

static void add_units(struct moving *c, struct changes *list, struct rimf_moved_report *report)
{
    const struct analysis *s = c->analysis;

    for (size_t i = 0; i < s->n_units; i++) {
        const struct analysis_unit *unit = &s->units[i];
        uint8_t jump[DISPLACE_JUMP];
        uintptr_t at;

        if (unit->reason != ANALYSIS_PROVEN || !moving_at(c, c->bias + unit->start))
            continue;
        report->units++;
        if (!(unit->flags & ANALYSIS_REACHED))
            continue;
        at = unit->flags & ANALYSIS_HEAD && is_worth(c, i) ? head(c, unit) : 0;
        if (at && rimf_is_kept_original(c->image, c->bias + unit->start))
            continue;
        if (at && !displace_jump(jump, at, at + (uintptr_t)c->distance))
            changes_add(list, at, (const void *)at, jump, sizeof jump);
        else
            report->in_place++;
    }
}

int move_entries(struct moving *c, struct changes *list, struct rimf_moved_report *report)
{
    int error;

    if (c->object->held)
        note_named(c->image, c->object);
    error = rimf_depends(c->image, &c->object->public, 0);
    if (!error)
        add_units(c, list, report);
    rimf_heap_release(&c->image->heap, c->object->held);
    c->object->held = NULL;
    return error;
}
