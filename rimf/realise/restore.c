/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/restore.c: makes direct calls go through their slots again, for tools that write to slots to
 * count or change calls.
 *
 *     e8 target            call target           e8 entry            call entry of the PLT
 *     e9, 0f 8x target     jmp, jcc target       e9, 0f 8x entry     jmp, jcc entry
 *     67 e8 target         addr32 call target    ff 15 slot          call *slot(%rip)
 *     e9 target 90         jmp target; (nop)     ff 25 slot          jmp *slot(%rip)
 *
 * Each listed call is read in place and in moved code.  It is changed back if its target is the one of a call
 * through its slot, whoever made it direct: a pass in this process, or one whose work is in a snapshot.  A
 * call with another target is another pass's and stays.
 *
 * The entry is found by its code: whatever jumps through the slot is one, anywhere in the object.
 *
 * A call with code of passes before it is in that code's trampoline (code/splice.c), of which a new one is made.
 */
#include "rimf/emit/calls.h"
#include "rimf/emit/changes.h"
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/code/code.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* State for one object. */
struct restoring {
    struct emit_calls c;
    struct changes list;
    int entries_known;
    size_t left; /* calls that stay direct */
    size_t spliced; /* calls for new trampolines */
};

static int may_begin_entry(uint8_t byte)
{
    return byte == 0xff || byte == 0xf2 || byte == 0xf3 || byte == 0x41 || byte == 0x3e;
}

/* Linkers align entries to 8 bytes at least. */
static void find_entries(struct emit_calls *c)
{
    const struct mvld_object *object = &c->object->public;

    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        if (~s->prot & (PROT_READ | PROT_EXEC))
            continue;
        for (uintptr_t at = (s->start + 7) & ~(uintptr_t)7; at + 6 <= s->end; at += 8) {
            uintptr_t slot = may_begin_entry(*(const uint8_t *)at) ? rimf_plt_slot(object, at) : 0;
            uintptr_t place = (slot - object->bias - c->first) / 8;

            if (slot >= object->bias + c->first && place < c->n_ways && !c->ways[place].entry)
                c->ways[place].entry = (uint32_t)(at - object->bias);
        }
    }
}

/* Restores the original form of the call, in place: 0 if there is no such instruction. */
static int call_as_it_was(struct restoring *r, enum mvld_reference_kind kind, const struct way *way,
                          uintptr_t slot, struct site *site)
{
    struct emit_calls *c = &r->c;
    int is_jump = kind == MVLD_REFERENCE_JUMP_SLOT;
    intptr_t away = (intptr_t)(slot - (site->address + SITE_MAX));

    if (kind != MVLD_REFERENCE_CALL_SLOT && !is_jump) {
        if (!r->entries_known)
            find_entries(c);
        r->entries_known = 1;
        return way->entry && site_make(site, c->object->view.bias + way->entry);
    }
    site->length = SITE_MAX;
    memcpy(&site->old, (const void *)site->address, SITE_MAX);
    site->made = (is_jump ? 0x25ffu : 0x15ffu) | (uint64_t)(uint32_t)away << 16;
    return (int32_t)away == away;
}

/* Makes the trampoline one of this form of the call. */
static void restore_splice(struct restoring *r, enum mvld_reference_kind kind, const struct site *site,
                           struct code_splice *splice)
{
    memcpy(splice->old, &site->made, site->length);
    splice->now[5] = site->length > splice->length ? 0x90 : splice->now[5]; /* behind a jump of five bytes */
    splice->length = site->length;
    splice->way = kind == MVLD_REFERENCE_CALL_SLOT ? SPLICE_CALL_SLOT : splice->way;
    splice->is_other = 1;
    r->spliced++;
}

static void restore_at(struct restoring *r, const struct analysis_call *call, uintptr_t address)
{
    enum mvld_reference_kind kind = (enum mvld_reference_kind)analysis_call_kind(call);
    struct emit_calls *c = &r->c;
    const struct way *way = way_of(c, call);
    struct code_splice *splice = code_splice_at(c->image, address);
    uintptr_t bytes = splice ? (uintptr_t)splice->old : address;
    struct site site = {0};

    if (!site_read_any(&site, kind, bytes, SITE_MAX) || site.to_slot ||
        rimf_unmoved(c->image, site.target + address - bytes) != way->target)
        return;
    site.address = address;
    if (!call_as_it_was(r, kind, way, c->object->view.bias + analysis_slot(call), &site))
        r->left++;
    else if (splice)
        restore_splice(r, kind, &site, splice);
    else
        changes_add(&r->list, site.address, &site.old, &site.made, site.length);
}

static void restore_calls(struct restoring *r)
{
    struct emit_calls *c = &r->c;

    for (size_t i = 0; i < c->n_calls; i++) {
        const struct analysis_call *call = &c->calls[i];
        uintptr_t address = c->object->view.bias + call->address;
        struct way *way = way_of(c, call);
        uintptr_t moved;

        if (!way->calls++)
            way->target = rimf_slot_end(c->image, c->object, c->object->view.bias + analysis_slot(call));
        if (!way->target)
            continue;
        if (code_room(c->object, address) >= SITE_MAX)
            restore_at(r, call, address);
        moved = rimf_moved_to(c->image, address);
        if (moved)
            restore_at(r, call, moved);
    }
}

static void restore_of(struct mvld_image *image, struct rimf_object *object, struct rimf_restored *all)
{
    const char *why = "memory is short";
    const struct analysis *s = rimf_analysis_calls(image, object, &why);
    struct restoring r = {.c = {.image = image, .object = object}, .list = {.image = image}};
    int error;

    if (s) {
        r.c.calls = s->calls;
        r.c.n_calls = s->n_calls;
        r.c.n_ways = emit_calls_places(&r.c);
        if (r.c.n_ways > EMIT_WAYS_MOST)
            return; /* none of its calls was changed */
        r.c.ways = rimf_heap_alloc(&image->heap, r.c.n_ways * sizeof *r.c.ways);
    }
    if (r.c.ways) {
        restore_calls(&r);
        all->left += r.left + (changes_each(&r.list) ? r.list.n : r.list.refused);
        all->calls += r.list.made;
        if (r.spliced && rimf_splices_emit(image, &error))
            all->left += r.spliced;
        else
            all->calls += r.spliced;
    } else {
        all->unknown = &object->public;
        all->why = why ? why : "memory is short";
    }
    changes_end(&r.list);
    rimf_heap_release(&image->heap, r.c.ways);
}

/* If a snapshot's relocation tables are in use, makes the dynamic section point to the file's again: a tool
 * finds the slot of a symbol by these.  The host loader binds lazy slots with either. */
static int name_tables(struct mvld_image *image, struct rimf_object *object)
{
    const struct elf_view *view = &object->view;

    for (size_t i = 0; i < view->n_dynamic; i++) {
        Elf64_Dyn *d = (Elf64_Dyn *)&view->dynamic[i];
        uintptr_t at = d->d_tag == DT_RELA     ? (uintptr_t)view->relocations
                       : d->d_tag == DT_JMPREL ? (uintptr_t)view->plt_relocations
                                               : 0;

        if (!at || d->d_un.d_ptr == at || d->d_un.d_ptr + view->bias == at)
            continue;
        if (moved_relro_open_one(image, object))
            return -EACCES;
        __atomic_store_n(&d->d_un.d_ptr, at, __ATOMIC_RELEASE);
    }
    return 0;
}

struct rimf_restored rimf_calls_restore(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    struct rimf_restored all = {.calls = 0};

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        if (object->code.calls_direct)
            restore_of(image, object, &all);
        if (name_tables(image, object)) {
            all.unknown = &object->public;
            all.why = "its tables of relocations could not be changed";
        }
    }
    moved_relro_close(image, table);
    rimf_table_leave(image);
    return all;
}
