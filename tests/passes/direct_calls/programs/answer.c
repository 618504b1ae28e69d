/* SPDX-License-Identifier: MIT
 *
 * A program, and its library (LIBRARY), which answers NUMBER.  TWIN: another program of the same kind.
 */
#include <stdio.h>

#ifdef LIBRARY
int answer(void)
{
    return NUMBER;
}
#else
const char text[] = "some text";
int answer(void);

int main(void)
{
    printf("%d %d\n", answer(), answer());
    return 0;
}
#endif
#ifdef TWIN
int more(int x)
{
    return x + 3;
}
#endif
