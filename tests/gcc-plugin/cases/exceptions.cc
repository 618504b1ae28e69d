// SPDX-License-Identifier: MIT
//
// Exceptions and the unwinder through committed call sites and entries: destructors
// run, handlers in variants and in their callers are found, and a backtrace names
// the variant.  A failure means that a variant has no or wrong unwind tables, or that
// a patched call site is outside the caller's table of handlers.
#include "../descriptors.h"
#include <multiverse.h>
#include <stdexcept>
#include <unwind.h>
#define MV __attribute__((multiverse))
#define NOINLINE __attribute__((noinline, noclone))

MV bool deep;
static int destroyed;
struct Watch { ~Watch() { destroyed++; } };
static int behind_deep() { return 1; }
static int behind_flat() { return 2; }
MV int (*pointer)();

NOINLINE int throws(int x) { if (x > 2) throw std::runtime_error("large"); return x; }
MV int passes_on(int x) { Watch watch; return deep ? throws(x) + 10 : throws(x - 1); }
MV int raises(int x) { Watch watch; if (deep) throw x; return -x; }
MV int catches(int x)
{
    try {
        return deep ? raises(x) : throws(x);
    } catch (int i) {
        return 100 + i;
    }
}
MV int rethrows(int x)
{
    try {
        return raises(x);
    } catch (...) {
        destroyed += deep ? 10 : 20;
        throw;
    }
}
NOINLINE int caller(int x)
{
    Watch watch;
    try {
        return passes_on(x) + rethrows(x);
    } catch (const std::exception &) {
        return 1000;
    } catch (int i) {
        return 2000 + i;
    }
}

static void *frames[64];
static int n_frames;
static _Unwind_Reason_Code frame(_Unwind_Context *context, void *)
{
    if (n_frames < 64)
        frames[n_frames++] = _Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(context) - 1));
    return _URC_NO_REASON;
}
NOINLINE int looks() { n_frames = 0; _Unwind_Backtrace(frame, nullptr); return n_frames; }
MV int walked(int x) { int n = looks(); return deep ? n + x : n - x; }
NOINLINE int walker(int x) { return walked(x) * 2; }
static bool among(const void *function)
{
    for (int i = 0; i < n_frames; i++)
        if (frames[i] == function)
            return true;
    return false;
}

static void all(bool now)
{
    destroyed = 0;
    CHECK(catches(2) == (now ? 102 : 2));
    CHECK(destroyed == (now ? 1 : 0));
    destroyed = 0;
    CHECK(caller(1) == (now ? 2001 : 0 - 1));
    CHECK(destroyed == (now ? 13 : 3)); /* passes_on, raises, caller, and 10 of rethrows */
    destroyed = 0;
    CHECK(caller(4) == 1000 && destroyed == 2);
    int (*volatile entry)(int) = raises; /* not by a call site, by the entry */
    int caught = 0;
    try { CHECK(entry(7) == -7 && !now); } catch (int i) { caught = i; }
    CHECK(caught == (now ? 7 : 0));
    CHECK(pointer() == (now ? 1 : 2));
}

int main()
{
    descriptors_read();
    for (int i = 0; i < 4; i++) {
        bool now = deep = i & 1;
        pointer = now ? behind_deep : behind_flat;
        CHECK(multiverse_commit() > 0);
        void *variant = variant_of((void *)walked);
        deep = !now;
        all(now);
        CHECK(walker(1) > 0 && variant != (void *)walked);
        CHECK(among(variant) && !among((void *)walked) && among((void *)walker));
    }
    CHECK(multiverse_revert() > 0);
    deep = true;
    pointer = behind_deep;
    all(true);
    return 0;
}
