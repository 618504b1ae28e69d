// SPDX-License-Identifier: MIT
//
// liblate.so comes and goes.  Its calls of a function of its own are bound as soon as it is known; those
// of one that was there before, and whose values nobody knows, lead to that until something is committed.
#include "../../descriptors.h"
#include "late.h"
#include <cstring>
#include <dlfcn.h>
#include <multiverse.h>

bool on;
static void *library;
static const late *calls;

static void open_library()
{
    CHECK((library = dlopen("./liblate.so", RTLD_NOW)) != nullptr);
    CHECK((calls = (const late *)dlsym(library, "late")) != nullptr);
}
static void close_library() { CHECK(!dlclose(library) && !dlopen("./liblate.so", RTLD_NOW | RTLD_NOLOAD)); }

/* Its inline call of this function: how far from `late`.  The reader wants objects as they were linked. */
static long find(const char *name)
{
    for (unsigned i = 0; inline_name(i); i++) {
        const unsigned char *at = inline_call(nullptr, i);
        Dl_info object, own;
        if (!strcmp(inline_name(i), name) && dladdr((void *)at, &object) && dladdr((void *)calls, &own) &&
            object.dli_fbase == own.dli_fbase)
            return at - (const unsigned char *)calls;
    }
    return 0;
}
static int changed(const unsigned char *at, const unsigned char *before) { return memcmp(at, before, 5) != 0; }

int main()
{
    CHECK(shared(3) == 3);
    open_library();
    descriptors_read();
    long to_shared = find("shared"), to_own = find("own");
    CHECK(to_shared && to_own);
    close_library();
    for (int round = 0; round < 3; round++) {
        unsigned char far_before[5], near_before[5];
        on = true;
        CHECK(multiverse_commit() == 1);
        if (round == 1)
            CHECK(multiverse_revert_fn((void *)(int (*)(int))shared) == 1);
        open_library();
        const unsigned char *far = (const unsigned char *)calls + to_shared, *near = (const unsigned char *)calls + to_own;
        memcpy(far_before, far, 5);
        memcpy(near_before, near, 5);
        CHECK(far_before[0] == 0xe9 && near_before[0] == 0x0f);
        CHECK(multiverse_init() == 0);
        on = false;
        CHECK(!changed(far, far_before) && calls->call_shared(3) == (round == 1 ? 4 : 31));
        CHECK(changed(near, near_before) && calls->call_own(3) == 301);
        CHECK(multiverse_commit() >= 2 && changed(far, far_before) && changed(near, near_before));
        on = true;
        CHECK(calls->call_shared(3) == 4 && calls->call_own(3) == -2 && shared(3) == 3);
        CHECK(multiverse_revert() >= 2 && !changed(far, far_before) && !changed(near, near_before));
        CHECK(calls->call_shared(3) == 31 && calls->call_own(3) == 301);
        close_library();
    }
    return 0;
}
