/* SPDX-License-Identifier: MIT
 *
 * count-calls.c: counts the calls through each slot of the GOT, before each call.
 *
 * A call through a slot is bound to 16 bytes of new code, which jump to the slot's target:
 *     f0 48 ff 05 rel32     lock incq counter(%rip)
 *     e9 rel32              jmp target
 * The jump leaves the stack as the call made it: unwinders see caller and target alone.
 */
#include <mvld/pass.h>

struct stub { uint8_t incq[4]; int32_t counter; uint8_t jmp; int32_t target; uint8_t pad[3]; } __attribute__((packed));
struct table { /* of one object; last: where the rule found its slot, and will find the next */
    struct table *next; const struct mvld_object *object; size_t n, last;
    struct stub *stubs; struct counter { uintptr_t slot; uint64_t calls; } *counters;
};

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    struct table *t = *ctx->state;
    while (t && t->object != object)
        t = t->next;
    for (size_t i = 0; t && i < t->n && !*target; i++, t->last = (t->last + 1) % t->n)
        if (t->counters[t->last].slot == bound->slot && t->stubs[t->last].jmp)
            *target = (uintptr_t)&t->stubs[t->last];
    return *target ? NULL : "no counter was made for the slot";
}
static int count(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const struct mvld_api *api = ctx->api;
    struct table *t = api->alloc(ctx->image, sizeof *t);
    struct mvld_slot slot;
    if (!t)
        return -12 /* ENOMEM */;
    t->object = object, t->next = *ctx->state, *ctx->state = t;
    while (!api->slot_at(ctx->image, object, t->n, &slot))
        t->n++;
    t->stubs = t->n ? api->section_add(ctx, MVLD_SECTION_CODE, t->n * sizeof *t->stubs) : NULL;
    t->counters = t->stubs ? api->section_add(ctx, MVLD_SECTION_DATA, t->n * sizeof *t->counters) : NULL;
    for (size_t i = 0; t->counters && !api->slot_at(ctx->image, object, i, &slot); i++) {
        intptr_t counter = (intptr_t)&t->counters[i].calls - (intptr_t)&t->stubs[i].jmp;
        intptr_t away = (intptr_t)slot.target - (intptr_t)t->stubs[i].pad;
        t->counters[i].slot = slot.address;
        if (!slot.why && (int32_t)away == away)
            t->stubs[i] = (struct stub){{0xf0, 0x48, 0xff, 0x05}, (int32_t)counter, 0xe9, (int32_t)away, {0}};
    }
    api->log(ctx->image, MVLD_LOG_PASSES, "count-calls: %s: %zu slots at %p", object->name, t->n, (void *)t->counters);
    return t->counters ? api->calls_retarget(ctx, object, rule) : t->n ? -12 : 0;
}
static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        error = objects[i]->why ? 0 : count(ctx, objects[i]); /* neither the vDSO nor the host loader */
    return error;
}
__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {.abi = MVLD_PASS_ABI,
    .name = "count-calls", .help = "counts calls between objects", .run = run, .flags = MVLD_PASS_ANALYSIS};
