/* SPDX-License-Identifier: MIT
 *
 * What a variation point cannot be at the same time is an error, too, where that is said behind the
 * attribute, or in a later declaration.
 */
#define MV __attribute__((multiverse))
MV int sw;
MV __attribute__((naked)) void naked_behind(void) { __asm__("ret"); } /* error: 'multiverse' and 'naked' */
MV void naked_later(void);
__attribute__((naked)) void naked_later(void) { __asm__("ret"); }     /* error: 'multiverse' and 'naked' */
static void any(void) {}
static void (*resolve(void))(void) { return any; }
MV void chosen(void);
void chosen(void) __attribute__((ifunc("resolve")));                  /* error: 'multiverse' and 'ifunc' */
int main(void)
{
    naked_behind();
    naked_later();
    chosen();
    return sw;
}
