/* SPDX-License-Identifier: MIT
 *
 * What the host loader knows of the CPU: its struct cpu_features, byte by byte, where it lets
 * itself be asked for that, and the sizes that sysconf tells.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define FEATURES 480 /* bytes: glibc 2.36's; of others, their first ones or a little more */

int main(void)
{
    const unsigned char *(*features)(unsigned) =
        (const unsigned char *(*)(unsigned))dlsym(RTLD_DEFAULT, "_dl_x86_get_cpu_features");

    for (int i = 0; features && i < FEATURES; i++)
        printf("%d: %02x\n", i, features(0)[i]);
    for (int i = _SC_LEVEL1_ICACHE_SIZE; i <= _SC_LEVEL4_CACHE_LINESIZE; i++)
        printf("sysconf %d: %ld\n", i, sysconf(i));
    return 0;
}
