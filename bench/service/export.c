/* SPDX-License-Identifier: MIT
 *
 * libexport.so: comes by dlopen, with call sites of its own.  They are bound to
 * the state in force before its constructor runs.
 */
#include "service.h"

#include <stdio.h>

__attribute__((constructor)) static void arrived(void)
{
    trace("export arrived", 1);
}

size_t export_report(void);
size_t export_report(void)
{
    char line[64];
    store_lock();
    int length = snprintf(line, sizeof line, "total %llu\n", (unsigned long long)store_total());
    store_unlock();
    trace("export", (uint64_t)length);
    return (size_t)length;
}
