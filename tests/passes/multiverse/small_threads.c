/* SPDX-License-Identifier: MIT
 *
 * What the library costs a thread that never calls it, and one that does.
 *
 * Thread local storage lies on the thread's stack, and the library is injected into
 * programs whose threads have as little as PTHREAD_STACK_MIN.  A failure means that
 * such threads overflow, or that each thread that calls leaves memory behind.
 */
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

#define THREADS 2000
#define REPLY 4096 /* about what a thread's report takes */

static size_t tls_size;

static int find_tls(struct dl_phdr_info *info, size_t size, void *name)
{
    if (!strstr(info->dlpi_name, name))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            tls_size = info->dlpi_phdr[i].p_memsz;
    return size != 0;
}

#if !__GLIBC_PREREQ(2, 33)
#define mallinfo2 mallinfo
#endif

static void *call(void *unused)
{
    CHECK(multiverse_error()[0] == 0);
    CHECK(multiverse_commit_fn(NULL) == -1);
    CHECK(multiverse_error()[0] != 0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    size_t before;

    CHECK(dl_iterate_phdr(find_tls, "libmultiverse.so") == 1);
    CHECK(tls_size <= 64, "(%zu bytes of each thread's stack)", tls_size);
    CHECK(multiverse_init() == 0);
    before = (size_t)mallinfo2().uordblks;
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread, NULL, call, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK((size_t)mallinfo2().uordblks < before + THREADS / 10 * REPLY);
    return 0;
}
