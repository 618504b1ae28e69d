/* SPDX-License-Identifier: MIT
 *
 * Preloaded: the program loads a filter when it begins.  FILTER_OPENS=FILE: a thread alone does so, and opens the file.
 */
#include "../../start/programs/expected.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void *load_filter(void *file)
{
    if (expected_only())
        exit(77);
    return file && !dlopen(file, RTLD_NOW) ? file : NULL;
}

__attribute__((constructor)) static void begin(void)
{
    char *file = getenv("FILTER_OPENS");
    pthread_t thread;
    void *failed = NULL;

    if (file && !pthread_create(&thread, NULL, load_filter, file))
        pthread_join(thread, &failed);
    else
        load_filter(NULL);
    if (failed)
        exit(1);
}
