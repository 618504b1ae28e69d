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
struct table { struct table *next; const struct mvld_object *object; uintptr_t first, end; struct stub *stubs; uint64_t *counters; };

/* By where the slot lies: slots lie side by side. */
static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    struct table *t = *ctx->state;
    while (t && t->object != object)
        t = t->next;
    if (!t || bound->slot - t->first >= t->end - t->first || !t->stubs[(bound->slot - t->first) / 8].jmp)
        return "no counter was made for the slot";
    *target = (uintptr_t)&t->stubs[(bound->slot - t->first) / 8];
    return NULL;
}
static int count(const struct mvld_context *ctx, const struct mvld_object *object, struct table *t)
{
    const struct mvld_api *api = ctx->api;
    struct mvld_slot slot;
    for (size_t i = 0; !api->slot_at(ctx->image, object, i, &slot); i++) {
        t->first = i && t->first < slot.address ? t->first : slot.address;
        t->end = slot.address >= t->end ? slot.address + 8 : t->end;
    }
    size_t n = (t->end - t->first) / 8;
    t->stubs = n ? api->section_add(ctx, MVLD_SECTION_CODE, n * sizeof *t->stubs) : NULL;
    t->counters = t->stubs ? api->section_add(ctx, MVLD_SECTION_DATA, n * sizeof *t->counters) : NULL;
    for (size_t i = 0; t->counters && !api->slot_at(ctx->image, object, i, &slot); i++) {
        struct stub *stub = &t->stubs[(slot.address - t->first) / 8];
        intptr_t counter = (intptr_t)&t->counters[stub - t->stubs] - (intptr_t)&stub->jmp, away = (intptr_t)slot.target - (intptr_t)stub->pad;
        if (!slot.why && (int32_t)away == away)
            *stub = (struct stub){{0xf0, 0x48, 0xff, 0x05}, (int32_t)counter, 0xe9, (int32_t)away, {0}};
    }
    t->object = object, t->next = *ctx->state, *ctx->state = t;
    api->log(ctx->image, MVLD_LOG_PASSES, "count-calls: %s: slots from %lx on, %zu counters at %p", object->name, t->first, n, (void *)t->counters);
    return t->counters ? api->calls_retarget(ctx, object, rule, 0) : n ? -12 /* ENOMEM */ : 0;
}
static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;
    for (size_t i = 0; i < n && !error; i++)
        if (!objects[i]->why) { /* neither the vDSO nor the host loader */
            struct table *t = ctx->api->alloc(ctx->image, sizeof *t);
            error = t ? count(ctx, objects[i], t) : -12;
        }
    return error;
}
__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {.abi = MVLD_PASS_ABI,
    .name = "count-calls", .help = "counts calls between objects", .run = run, .flags = MVLD_PASS_ANALYSIS};
