/* SPDX-License-Identifier: MIT
 *
 * cold.c: functions whose calls do not pay.
 *
 * A direct call saves about a nanosecond each time.  The private page that it costs takes each
 * process two thousand, and 4 KB.  So calls that a program runs once, or while it ends or throws an
 * exception (which takes thousands of nanoseconds), stay, and a page with no other calls stays
 * shared: of clang's 25,800 pages with calls 3850, of redis-server's 2120 205.  A quarter of
 * clang's calls are cold, most of them those of the stack protector.
 *
 * All other functions count as hot.
 */
#include "cold.h"

#include <mvld/freestanding.h>

/* Sorted.  No pointers, because these would need relocation. */
static const char names[][33] = {
    "_Exit",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "_Unwind_Resume",
    "_ZSt10unexpectedv",
    "_ZSt9terminatev",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__cxa_allocate_exception",
    "__cxa_atexit",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_begin_catch",
    "__cxa_call_terminate",
    "__cxa_call_unexpected",
    "__cxa_end_catch",
    "__cxa_finalize",
    "__cxa_free_exception",
    "__cxa_get_exception_ptr",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__gmon_start__",
    "__libc_start_main",
    "__libdl_freeres", /* for memory checkers; the only calls in their page of a libc before 2.34 */
    "__libpthread_freeres",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_exit",
    "_longjmp",
    "abort",
    "atexit",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "siglongjmp",
    "verr",
    "verrx",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* std::__throw_...: _ZSt, the name's length, the name. */
static int throws(const char *name)
{
    name = mvld_after(name, "_ZSt");
    while (name && *name >= '0' && *name <= '9')
        name++;
    return name && mvld_after(name, "__throw_");
}

int cold_name(const char *name)
{
    size_t low = 0, high = COUNT(names);

    if (throws(name))
        return 1;
    while (low < high) {
        size_t at = (low + high) / 2;
        int before = mvld_strcmp(name, names[at]);

        if (!before)
            return 1;
        if (before < 0)
            high = at;
        else
            low = at + 1;
    }
    return 0;
}

int cold_is(const struct mvld_context *ctx, const struct mvld_object *object, const struct mvld_binding *bound)
{
    const char *name = ctx->api->slot_name(ctx->image, object, bound->slot);

    return name && cold_name(name);
}
