/* SPDX-License-Identifier: MIT
 *
 * link.c: the link of this copy of libmultiverse to the one engine of the process (see interface.h).
 *
 * Under mvld the link is set before any constructor.  Under a plain ld.so, or in a static program,
 * whoever comes first (the constructor below, or a call from an earlier one) makes the engine out of
 * the same code, and it looks at the objects by itself, at every call.
 */
#include <pthread.h>

#include "passes/multiverse/library/library.h"

#include "rimf/image/image.h"
#include "rimf/base/log.h"

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

    mv_list_find_lock();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    mv_engine_get();
    errno = saved;
}
