/* SPDX-License-Identifier: MIT
 *
 * load OBJECT TIMES: opens and closes an object; for pipeline_events.py.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int i = argc > 2 ? atoi(argv[2]) : 0; i > 0; i--) {
        void *object = dlopen(argv[1], RTLD_NOW);
        if (!object || dlclose(object)) {
            puts(dlerror());
            return 1;
        }
    }
    puts("done");
    return 0;
}
