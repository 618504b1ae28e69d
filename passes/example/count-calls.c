/* SPDX-License-Identifier: MIT
 *
 * count-calls.c: counts the calls through each slot of the GOT, in front of each call.
 *
 * A call through a slot leads to 16 bytes of new code, and these to where the slot leads:
 *     f0 48 ff 05 rel32     lock incq counter(%rip)
 *     e9 rel32              jmp target
 * The jump leaves the stack as the call made it: unwinders see caller and target alone.
 */
#include <mvld/pass.h>

struct stub { uint8_t lock_incq[4]; int32_t counter; uint8_t jmp; int32_t target; uint8_t pad[3]; } __attribute__((packed));
struct table { struct table *next; const struct mvld_object *object; uintptr_t first; size_t n; struct stub *stubs; uint64_t *counters; };

/* By where the slot lies: slots lie side by side. */
static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    struct table *t = *ctx->state;
    while (t && t->object != object)
        t = t->next;
    if (!t || (bound->slot - t->first) / 8 >= t->n || !t->stubs[(bound->slot - t->first) / 8].jmp)
        return "no counter was made for the slot";
    *target = (uintptr_t)&t->stubs[(bound->slot - t->first) / 8];
    return NULL;
}

static int count(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const struct mvld_api *api = ctx->api;
    struct mvld_slot slot;
    struct table *t = api->alloc(ctx->image, sizeof *t);
    uintptr_t end = 0;
    if (!t)
        return -12; /* ENOMEM */
    for (size_t i = 0; !api->slot_at(ctx->image, object, i, &slot); i++) {
        t->first = end && t->first < slot.address ? t->first : slot.address;
        end = slot.address >= end ? slot.address + 8 : end;
    }
    t->n = (end - t->first) / 8;
    t->stubs = t->n ? api->section_add(ctx, MVLD_SECTION_CODE, t->n * sizeof *t->stubs) : NULL;
    t->counters = t->stubs ? api->section_add(ctx, MVLD_SECTION_DATA, t->n * sizeof *t->counters) : NULL;
    if (!t->counters)
        return t->n ? -12 : 0;
    for (size_t i = 0; !api->slot_at(ctx->image, object, i, &slot); i++) {
        struct stub *stub = &t->stubs[(slot.address - t->first) / 8];
        intptr_t away = (intptr_t)(slot.target - (uintptr_t)&stub->pad);
        if (!slot.why && (int32_t)away == away)
            *stub = (struct stub){{0xf0, 0x48, 0xff, 0x05}, (int32_t)((uintptr_t)&t->counters[(slot.address - t->first) / 8] -
                                  (uintptr_t)&stub->jmp), 0xe9, (int32_t)away, {0}};
    }
    t->object = object, t->next = *ctx->state, *ctx->state = t;
    api->log(ctx->image, MVLD_LOG_PASSES, "count-calls: %s: slots from %lx on, %zu counters at %p", object->name, t->first, t->n, (void *)t->counters);
    return api->calls_retarget(ctx, object, rule, 0);
}
static int added(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        error = objects[i]->why || objects[i]->flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER) ? 0 : count(ctx, objects[i]);
    return error;
}
static int run(const struct mvld_context *ctx)
{
    int error = 0;
    for (size_t i = 0; i < ctx->api->object_count(ctx->image) && !error; i++)
        error = added(ctx, (const struct mvld_object *[]){ctx->api->object_at(ctx->image, i)}, 1);
    return error;
}
__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "count-calls", .help = "counts calls between objects", .run = run, .added = added, .flags = MVLD_PASS_ANALYSIS};
