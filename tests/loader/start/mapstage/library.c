/* SPDX-License-Identifier: MIT
 *
 * Says when it is there: NAME.
 */
#include <stdio.h>
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
__attribute__((constructor)) static void early(void) { puts(TEXT(NAME) " runs"); }
int NAME(void) { return 7; }
