/* SPDX-License-Identifier: MIT
 *
 * slots_probe.c: a pass for slots.py: prints every slot of the program with what the
 * image says of it, and ends the process before any of the program's code runs.
 */
#include <mvld/pass.h>

#include <sys/syscall.h> /* numbers only */

static void leave(long status)
{
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(status) : "rcx", "r11", "memory");
}

static const char *print_target(const struct mvld_context *ctx, uintptr_t target,
                                uintptr_t *offset)
{
    const struct mvld_object *object = ctx->api->object_find(ctx->image, target);

    *offset = object ? target - object->bias : target;
    return object ? object->name : "-";
}

static void print_slot(const struct mvld_context *ctx, const struct mvld_object *object,
                       const struct mvld_slot *slot)
{
    uintptr_t offset;
    const char *holder = print_target(ctx, slot->target, &offset);

    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "slot|%s|%lx|%s|%s|%s|%s|%lx|%s", object->name,
                  slot->address - object->bias, slot->name ? slot->name : "",
                  slot->flags & MVLD_SLOT_LAZY ? "lazy" : "bound",
                  slot->flags & MVLD_SLOT_RELRO ? "relro" : "writable", holder, offset,
                  slot->why ? slot->why : "");
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_api *api = ctx->api;

    for (size_t i = 0; i < n; i++) {
        const struct mvld_object *object = objects[i];
        struct mvld_slot slot;

        for (size_t k = 0; api->slot_at(ctx->image, object, k, &slot) == 0; k++)
            print_slot(ctx, object, &slot);
    }
    leave(0);
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "slots", .help = "prints slots", .run = run,
};
