/* SPDX-License-Identifier: MIT
 *
 * The library behind the one that asks, and the one that it opens (caller.c).
 */
const char *caller_name(void);
void caller_behind(void);

const char *caller_name(void)
{
    return NAME;
}

/* So that the linker thinks that the library is needed. */
void caller_behind(void)
{
}
