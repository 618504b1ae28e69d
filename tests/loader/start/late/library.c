/* SPDX-License-Identifier: MIT
 *
 * A library that says, when it is initialised, what the witness had marked by
 * then.  NAME is its name; INIT gives it a DT_INIT too; OPENS a library that its
 * constructor opens; HOLDS holds up the pass; MISSING a symbol that nobody defines.
 */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((visibility("protected"))) int mark, ran; /* not the executable's */
int *pointer_to_mark = &mark;

#ifdef HOLDS
int holds;
#endif

#ifdef MISSING
extern int nobody_defines_this(void);
int (*missing)(void) = nobody_defines_this;
#endif

#ifdef INIT
void init(void);
void init(void)
{
    printf("%s DT_INIT: %d\n", NAME, mark);
    ran = 1;
}
#endif

__attribute__((constructor)) static void constructor(int argc, char **argv, char **envp)
{
    ran = 1;
    printf("%s constructor: %d, %s\n", NAME, mark, argc > 0 && argv[0] && envp ? "ok" : "lost");
#ifdef OPENS
    printf("%s opens: %s\n", NAME, dlopen(OPENS, RTLD_NOW) ? "yes" : dlerror());
#endif
}

__attribute__((destructor)) static void destructor(void)
{
    printf("%s destructor\n", NAME);
}
