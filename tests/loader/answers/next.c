/* SPDX-License-Identifier: MIT
 *
 * The library behind the one that asks, and the one that it opens (caller.c).
 */
const char *answers_name(void);
void answers_behind(void);

const char *answers_name(void)
{
    return NAME;
}

/* So that the linker thinks that the library is needed. */
void answers_behind(void)
{
}
