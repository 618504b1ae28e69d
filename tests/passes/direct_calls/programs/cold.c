/* SPDX-License-Identifier: MIT
 *
 * Names of functions whose calls do not pay are known, also the first and the last of the list, and
 * no others: neither what begins like them nor what they begin with.
 */
#include "passes/direct-calls/cold.h"

#include "../../../check.h"

int main(void)
{
    static const char *const cold[] = {
        "_Exit", "_Unwind_Resume", "__assert_fail", "__cxa_allocate_exception", "__cxa_atexit",
        "__cxa_throw", "__cxa_throw_bad_array_new_length", "__libc_start_main", "__libdl_freeres",
        "__libpthread_freeres", "__longjmp_chk", "__stack_chk_fail", "_exit", "_longjmp",
        "abort", "atexit", "err", "errx", "exit", "longjmp", "siglongjmp", "verr", "verrx",
        "_ZSt9terminatev", "_ZSt20__throw_length_errorPKc", "_ZSt17__throw_bad_allocv"};
    static const char *const often[] = {
        "", "_", "__", "__stack_chk_fai", "__stack_chk_fail_", "exi", "exits", "malloc", "free",
        "verrxx", "zzz", "A", "_ZSt", "_ZSt4", "_ZSt4cout", "_ZSt20__thro", "_ZN20__throw_x",
        "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base", "__errno_location", "err_new"};

    for (size_t i = 0; i < sizeof cold / sizeof *cold; i++)
        CHECK(cold_name(cold[i]), "%s", cold[i]);
    for (size_t i = 0; i < sizeof often / sizeof *often; i++)
        CHECK(!cold_name(often[i]), "%s", often[i]);
    return 0;
}
