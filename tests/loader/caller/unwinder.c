/* SPDX-License-Identifier: MIT
 *
 * What libgcc_s says of moved code: there from the start, opened later, closed again.
 */
#include "world.h"

#include <dlfcn.h>
#include <execinfo.h>

static struct process again;

void open_unwinder(void)
{
    void *none[1];

    CHECK(backtrace(none, 1) == 1);
}

static void update(struct loader *l)
{
    struct rimf_change change;

    process_read(&again);
    CHECK(rimf_image_update(image, again.sources, again.n, &change) == 0);
    caller_changed(l, change.removed, change.n_removed);
}

void check_unwinder(int known)
{
    uintptr_t original = (uintptr_t)caller_call, in = (uintptr_t)moved, context[64] = {0}, is;
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD), *frames[4] = {0};
    uintptr_t (*get)(void *), (*get_info)(void *, int *), (*start_of)(void *);
    void (*set)(void *, uintptr_t);
    int before = 7;

    CHECK(library != NULL);
    get = (void *)dlsym(library, "_Unwind_GetIP");
    get_info = (void *)dlsym(library, "_Unwind_GetIPInfo");
    start_of = (void *)dlsym(library, "_Unwind_GetRegionStart");
    set = (void *)dlsym(library, "_Unwind_SetIP");
    CHECK(moved((void *)backtrace, frames, (void *)4, NULL, NULL) != NULL);
    is = (uintptr_t)frames[0];
    CHECK(is > (known ? original : in) && is < (known ? original : in) + CODE, "(%p)", frames[0]);
    for (size_t i = 0; i < 64; i++)
        context[i] = in + i; /* whichever words they are */
    is = get(context);
    CHECK(is - (known ? original : in) < 64, "(%lx)", (unsigned long)is);
    CHECK(get_info(context, &before) == is && (before == 0 || before == 1));
    CHECK(start_of(context) - (known ? original : in) < 64 && start_of(context) != is);
    set(context, original + 9);
    CHECK(get(context) == original + 9);
    CHECK(context[is - (known ? original : in)] == (known ? in : original) + 9);
    set(context, original + 5000); /* of that nothing moved */
    CHECK(context[is - (known ? original : in)] == original + 5000);
    set(context, original + 9); /* the frame is none of moved code any more */
    CHECK(context[is - (known ? original : in)] == original + 9);
}

/* Its functions give original addresses: there from the start, or opened later, or gone and back. */
void unwinder(void)
{
    struct loader *l;
    const char *why = "";

    open_unwinder();
    l = start();
    CHECK(moved != NULL);
    check_unwinder(0);
    prepare(l);
    CHECK(l->caller->unwinder != NULL);
    CHECK(caller_install(l, &why) == 0, "(%s)", why);
    check_unwinder(1);
    check_hooks();
}

void unwinder_later(void)
{
    struct loader *l = start();
    const char *why = "";

    prepare(l);
    CHECK(l->caller->unwinder == NULL && !dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD));
    CHECK(caller_install(l, &why) == 0, "(%s)", why);
    for (int i = 0; i < 3; i++) {
        void *library = dlopen("libgcc_s.so.1", RTLD_NOW);

        CHECK(library != NULL);
        update(l);
        CHECK(l->caller->unwinder != NULL);
        if (i == 2)
            break;
        CHECK(dlclose(library) == 0);
        update(l);
        CHECK(l->caller->unwinder == NULL && image->feeder.kept[CALLER_IP].at == 0);
    }
    check_unwinder(1);
}
