/* SPDX-License-Identifier: MIT
 *
 * link.c: the link of this copy of libmultiverse to the one engine of the process (see interface.h).
 *
 * Under mvld the link is set before any constructor.  Under a plain ld.so, or in a static program,
 * whoever comes first (the constructor below, or a call from an earlier one) makes the engine out of
 * the same code, and it looks at the objects by itself, at every call.
 */
#include "passes/multiverse/library/library.h"

#include "rimf/base/log.h"
#include "rimf/image/image.h"

#include <pthread.h>
#include <stdlib.h>

__attribute__((used)) static struct mv_link engine_link = {.size = sizeof(struct mv_link),
                                                           .abi = MV_LINK_ABI};
static struct rimf_lock creation;
static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};

/* The note by which an engine finds the link: a distance, so nothing need be relocated.
 * Linkers keep every note; "R" (binutils 2.36) makes sure.  The last word has a static program that has the link have
 * the function that `mvld switch` calls, too. */
__asm__(".pushsection .note.multiverse.library,\"" NOTE_FLAGS "\",@note\n"
        ".balign 4\n"
        ".long 2f - 1f, 4f - 3f, 2\n"
        "1: .asciz \"Multiverse\"\n"
        "2: .balign 4\n"
        "3: .long " MV_TEXT(MV_LINK_ABI) "\n"
        ".long engine_link - .\n"
        ".long mv_library_request - .\n"
        "4: .balign 4\n"
        ".popsection\n");

static int make_engine(struct mv_engine **out)
{
    struct mvld_image *image;
    struct mv_engine *engine;
    int err = rimf_image_create(&rimf_sys_kernel, &no_log, &image);

    if (err)
        return err;
    err = mv_create(image, rimf_api_core(), &rimf_sys_kernel, &engine);
    if (err) {
        rimf_image_destroy(image);
        return err;
    }
    engine->refresh = mv_library_refresh;
    *out = engine;
    return 0;
}

static struct mv_engine *linked(void)
{
    return __atomic_load_n(&engine_link.engine, __ATOMIC_ACQUIRE);
}

struct mv_engine *mv_engine_get(void)
{
    struct mv_engine *engine = linked();
    int err;

    if (engine)
        return engine;
    err = rimf_lock_acquire(&rimf_sys_kernel, &creation);
    if (err < 0) {
        mv_failed(EDEADLK, "called while this thread initialises: from a signal handler");
        return NULL;
    }
    engine = linked();
    err = engine ? 0 : make_engine(&engine);
    if (!err && !linked()) {
        /* Finds the other copies of the library, and gives them the engine or takes theirs. */
        err = mv_ops_of(engine)->call(engine, &(struct mv_call){.operation = MV_REFRESH}, mv_reply_make());
        if (err == -EALREADY) {
            struct mv_engine *late = engine;

            engine = late->other;
            rimf_image_destroy(late->image);
            err = 0;
        }
        __atomic_store_n(&engine_link.engine, engine, __ATOMIC_RELEASE);
    }
    rimf_lock_release(&rimf_sys_kernel, &creation);
    if (err) {
        if (!engine)
            mv_failed(-err, "out of memory");
        errno = -err;
        return NULL;
    }
    return engine;
}

/* ---- fork: the child must not start in the middle of an operation */

static void before_fork(void)
{
    struct mv_engine *engine = linked();

    mv_pins_before_fork();
    if (engine)
        mv_ops_of(engine)->fork_begin(engine);
}

static void after_fork_in_parent(void)
{
    struct mv_engine *engine = linked();

    if (engine)
        mv_ops_of(engine)->fork_end(engine, 0);
    mv_pins_after_fork(0);
}

static void after_fork_in_child(void)
{
    struct mv_engine *engine = linked();

    if (engine)
        mv_ops_of(engine)->fork_end(engine, 1);
    mv_pins_after_fork(1);
}

/* What fails here is said again, with errno, by the first call. */
__attribute__((constructor)) static void start(void)
{
    int saved = errno;

    mv_list_prepare();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    mv_engine_get();
    errno = saved;
}

/* ---- replies */

/* The result of a thread's calls.  The library is also in programs that never call it.  Its thread-local storage
 * is on the stack of each of their threads, and a thread of PTHREAD_STACK_MIN cannot spare 4 KiB.  So there is only a
 * thread-local pointer, and the thread's first call makes the reply.
 */

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
