/* SPDX-License-Identifier: MIT
 *
 * Shared objects, with calls into others:
 *     HELPER   helper(), for the program to start with
 *     WHERE=n  where(), n times what helper() says: a module's library
 *     PIN      a module that holds the address of where() in a word, and in the initial value of a
 *              thread-local variable, which nobody can change: ask(), are they the same
 *     else     a module: ask()
 */
int helper(void);
int where(void);
int ask(void);

#ifdef HELPER
int helper(void)
{
    return 1;
}
#elif defined WHERE
int where(void)
{
    return WHERE * helper();
}
int ask(void) /* hidden by the module's own, when that is asked */
{
    return where();
}
#elif defined PIN
static int (*volatile word)(void) = where;
static _Thread_local int (*volatile local)(void) = where;

int ask(void)
{
    return word == local ? where() : -2;
}
#else
int ask(void)
{
    return 100 * where() + helper();
}
#endif
