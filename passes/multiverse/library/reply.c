/* SPDX-License-Identifier: MIT
 *
 * reply.c: what the calls of a thread have to say.
 *
 * The library is in programs that never call it, and whatever it keeps in thread
 * local storage lies on the stack of each of their threads, where a thread of
 * PTHREAD_STACK_MIN has no 4 KiB to give.  So a thread local pointer is all, and the
 * reply is made by the thread's first call.
 */
#include <pthread.h>
#include <stdlib.h>

#include "passes/multiverse/library/library.h"

static __thread struct mv_reply *mine;
static __thread struct mv_reply *kept; /* meanwhile: mv_reply_begin */
static __thread char missing; /* there was no memory for it */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* ends the reply with its thread */
static int have_key;

static void end_of_thread(void *reply)
{
    mine = NULL; /* another destructor may call us, and gets a new one */
    free(reply);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, end_of_thread) == 0;
}

/* An object that contains the static library may be closed: no thread must come back
 * to its code. */
__attribute__((destructor)) static void drop_key(void)
{
    if (have_key)
        pthread_key_delete(key);
    have_key = 0;
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
    if (mine)
        return mine;
    pthread_once(&once, make_key);
    mine = calloc(1, sizeof *mine);
    if (mine && have_key)
        pthread_setspecific(key, mine);
    missing = !mine;
    if (!mine)
        errno = ENOMEM;
    return mine;
}
