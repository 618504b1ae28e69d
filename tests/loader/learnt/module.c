/* SPDX-License-Identifier: MIT
 *
 * Three kinds of shared objects, each with calls into others:
 *     HELPER   helper(), for the program to start with
 *     WHERE=n  where(), n times what helper() says: a module's library
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
#else
int ask(void)
{
    return 100 * where() + helper();
}
#endif
