/* SPDX-License-Identifier: MIT
 *
 * A library whose function tells where it runs.
 */
#include <stddef.h>

__attribute__((noinline, noclone)) static void *return_address(void)
{
    return __builtin_return_address(0);
}

/* Not in tail position: what is returned is an address in this function. */
void *place(void)
{
    void *at = return_address();

    __asm__ volatile("" : "+r"(at));
    return at;
}

static void *inner(void)
{
    void *at = return_address();

    __asm__ volatile("" : "+r"(at));
    return at;
}

/* An executable that is linked for a fixed address has a copy of this word (R_X86_64_COPY). */
void *(*chosen)(void) = inner;

int through(int (*callback)(void *), void *cookie)
{
    return callback(cookie) + 1;
}
