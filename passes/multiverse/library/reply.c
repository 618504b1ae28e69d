/* SPDX-License-Identifier: MIT
 *
 * reply.c: the result of a thread's calls.
 *
 * The library is also in programs that never call it.  Its thread-local storage is on the stack of
 * each of their threads, and a thread of PTHREAD_STACK_MIN cannot spare 4 KiB.  So there is only a
 * thread-local pointer, and the thread's first call makes the reply.
 */
#include <pthread.h>
#include <stdlib.h>

#include "passes/multiverse/library/library.h"

static __thread struct mv_reply *mine;
static __thread struct mv_reply *kept; /* meanwhile: mv_reply_begin */
static __thread char missing; /* out of memory for it */
static unsigned numbered_key; /* a key that frees the reply at the thread's end, plus 1; 0: none yet */

static void end_of_thread(void *reply)
{
    mine = NULL; /* another destructor may call us, and gets a new reply */
    free(reply);
}

/* No thread waits for the one that makes the key, as with pthread_once: that one may not exist in a
 * forked child, or may be the one that a signal handler interrupted. */
static void make_key(void)
{
    unsigned none = 0;
    pthread_key_t made;

    if (__atomic_load_n(&numbered_key, __ATOMIC_ACQUIRE) || pthread_key_create(&made, end_of_thread))
        return;
    if (!__atomic_compare_exchange_n(&numbered_key, &none, made + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        pthread_key_delete(made);
}

/* An object that contains the static library may be closed: no thread may call its code later. */
__attribute__((destructor)) static void drop_key(void)
{
    unsigned last = __atomic_exchange_n(&numbered_key, 0, __ATOMIC_ACQUIRE);

    if (last)
        pthread_key_delete(last - 1);
}

struct mv_reply *mv_reply_mine(void)
{
    return mine;
}

int mv_reply_missing(void)
{
    return missing;
}

int mv_reply_begin(void)
{
    struct mv_reply *other = kept ? NULL : calloc(1, sizeof *other);

    if (!other)
        return 0;
    kept = mine;
    mine = other;
    return 1;
}

void mv_reply_end(void)
{
    free(mine);
    mine = kept;
    kept = NULL;
}

struct mv_reply *mv_reply_make(void)
{
    unsigned last;

    if (mine)
        return mine;
    make_key();
    last = __atomic_load_n(&numbered_key, __ATOMIC_ACQUIRE);
    mine = calloc(1, sizeof *mine);
    if (mine && last)
        pthread_setspecific(last - 1, mine);
    missing = !mine;
    if (!mine)
        errno = ENOMEM;
    return mine;
}
