/* SPDX-License-Identifier: MIT
 *
 * api.c: libmultiverse, the functions of multiverse.h.
 *
 * The library has no state but a link to the one engine of the process and a reply for each thread (link.c),
 * and whom to tell of what was missed.
 */
#include "passes/multiverse/library/library.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MISSES 16 /* reported at once */

int mv_failed(int err, const char *text)
{
    struct mv_reply *reply = mv_reply_make();

    if (reply)
        snprintf(reply->error, sizeof reply->error, "%s", text);
    errno = err;
    return -1;
}

/* Memory may run out where no sentence was recorded.  `before` is the first letter of the sentence
 * before this call, which is restored if the call succeeds. */
static int answered(struct mv_reply *reply, int result, char before)
{
    if (!reply->error[0]) {
        if (result >= 0)
            reply->error[0] = before;
        else
            return mv_failed(-result, result == -ENOMEM ? "out of memory" : "the system refused");
    }
    if (result >= 0)
        return result;
    errno = -result;
    return -1;
}

/* Whether to try again: for a second, or not at all if nothing would change. */
static int may_try(int tries, struct timespec *start)
{
    struct timespec now;

    if (!tries)
        return 1;
    if (mv_list_lost())
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (tries == 1)
        *start = now;
    sched_yield();
    return (now.tv_sec - start->tv_sec) * 1000000000 + now.tv_nsec - start->tv_nsec < 1000000000;
}

/* Calls the engine, with multiverse.h's conventions. */
static int call(struct mv_call *c)
{
    struct mv_reply *reply = mv_reply_make();
    struct mv_engine *engine;
    struct timespec start = {0, 0};
    int result = -EAGAIN;
    char before;

    if (!reply)
        return -1;
    before = reply->error[0];
    reply->error[0] = 0;
    engine = mv_engine_get();
    if (!engine)
        return answered(reply, -errno, before);
    if (reply->pins) /* a handler that interrupted a call of this thread */
        return mv_failed(EDEADLK, "called while this thread changes code: from a signal handler");
    for (int tries = 0; result == -EAGAIN && may_try(tries, &start); tries++) {
        result = mv_pins_take(engine, reply);
        if (!result)
            result = mv_ops_of(engine)->call(engine, c, reply);
        mv_pins_drop(reply);
    }
    if (result == -EAGAIN)
        return mv_failed(EAGAIN, mv_list_lost()
                                  ? "another thread was closing a library at the fork: nobody knows which are there"
                                  : "other threads open libraries faster than they can be looked at");
    return answered(reply, result, before);
}

/* The function that misses are reported to, see multiverse.h. */
static struct {
    struct rimf_lock lock;
    void (*report)(const struct multiverse_info_fn *, void *cookie);
    void *cookie;
} on_miss;

void multiverse_on_miss(void (*report)(const struct multiverse_info_fn *, void *cookie),
                        void *cookie)
{
    if (rimf_lock_acquire(&rimf_sys_kernel, &on_miss.lock) < 0)
        return;
    on_miss.cookie = cookie;
    __atomic_store_n(&on_miss.report, report, __ATOMIC_RELAXED);
    rimf_lock_release(&rimf_sys_kernel, &on_miss.lock);
}

/* Reports what operations up to this one missed, once.  The reported function may call us; its own
 * misses wait, or this could continue for ever. */
static void report_misses(uint64_t until)
{
    const struct multiverse_info_fn *missed[MISSES];
    void (*report)(const struct multiverse_info_fn *, void *cookie);
    void *cookie;
    int n;

    if (!__atomic_load_n(&on_miss.report, __ATOMIC_RELAXED) ||
        rimf_lock_acquire(&rimf_sys_kernel, &on_miss.lock) < 0)
        return;
    report = on_miss.report;
    cookie = on_miss.cookie;
    rimf_lock_release(&rimf_sys_kernel, &on_miss.lock);
    if (!report || !mv_reply_begin())
        return;
    do {
        n = call(&(struct mv_call){.operation = MV_MISSED, .until = until, .missed = missed, .room = MISSES});
        for (int i = 0; i < n; i++)
            report(missed[i], cookie);
    } while (n == MISSES);
    mv_reply_end();
}

static int apply(enum mv_action action, enum mv_scope scope, void *what)
{
    struct mv_reply *reply = mv_reply_mine();
    int result, saved;

    if (reply) {
        mv_report_clear(reply);
        reply->missed = 0;
        memset(&reply->status, 0, sizeof reply->status);
    }
    if (scope != MV_ALL && !what)
        return mv_failed(EINVAL, scope == MV_REFS ? "NULL is no switch" : "NULL is no function");
    result = call(&(struct mv_call){.operation = MV_APPLY, .action = action, .scope = scope, .what = what});
    saved = errno;
    reply = mv_reply_mine();
    if (reply && reply->missed)
        report_misses(reply->operation);
    errno = saved;
    return result;
}

int multiverse_init(void)
{
    return call(&(struct mv_call){.operation = MV_REFRESH});
}

int multiverse_commit(void)
{
    return apply(MV_COMMIT, MV_ALL, NULL);
}

int multiverse_revert(void)
{
    return apply(MV_REVERT, MV_ALL, NULL);
}

int multiverse_commit_refs(void *location)
{
    return apply(MV_COMMIT, MV_REFS, location);
}

int multiverse_revert_refs(void *location)
{
    return apply(MV_REVERT, MV_REFS, location);
}

int multiverse_commit_fn(void *function)
{
    return apply(MV_COMMIT, MV_FUNCTION, function);
}

int multiverse_revert_fn(void *function)
{
    return apply(MV_REVERT, MV_FUNCTION, function);
}

int multiverse_commit_func(void *function)
{
    return multiverse_commit_fn(function);
}

int multiverse_revert_func(void *function)
{
    return multiverse_revert_fn(function);
}

int multiverse_is_committed(void *function)
{
    return call(&(struct mv_call){.operation = MV_IS_COMMITTED, .what = function});
}

int multiverse_bind(void *location, int state)
{
    return call(&(struct mv_call){.operation = MV_BIND, .what = location, .state = state});
}

const struct multiverse_info_var *multiverse_info_var(void *location)
{
    struct mv_call c = {.operation = MV_INFO_VAR, .what = location};

    call(&c);
    return c.var;
}

const struct multiverse_info_fn *multiverse_info_fn(void *function)
{
    struct mv_call c = {.operation = MV_INFO_FN, .what = function};

    call(&c);
    return c.fn;
}

int multiverse_commit_info_fn(const struct multiverse_info_fn *info)
{
    return multiverse_commit_fn(info ? info->function : NULL);
}

int multiverse_revert_info_fn(const struct multiverse_info_fn *info)
{
    return multiverse_revert_fn(info ? info->function : NULL);
}

int multiverse_commit_info_refs(const struct multiverse_info_var *info)
{
    return multiverse_commit_refs(info ? info->location : NULL);
}

int multiverse_revert_info_refs(const struct multiverse_info_var *info)
{
    return multiverse_revert_refs(info ? info->location : NULL);
}

int mv_each(void (*visit)(void *cookie, const struct mv_item *), void *cookie)
{
    return call(&(struct mv_call){.operation = MV_VISIT, .visit = visit, .cookie = cookie});
}

int mv_each_old(struct mv_ranges *ranges, uint64_t *operation)
{
    struct mv_call c = {.operation = MV_VISIT_OLD, .visit_old = mv_ranges_add_old, .cookie = ranges};
    int result;

    ranges->engine = mv_engine_get();
    result = call(&c);
    *operation = c.until;
    return result;
}

int mv_old_is_left(uint64_t operation)
{
    return call(&(struct mv_call){.operation = MV_OLD_IS_LEFT, .until = operation});
}

const struct multiverse_status *multiverse_status(void)
{
    static const struct multiverse_status none;
    struct mv_reply *reply = mv_reply_mine();

    return reply ? &reply->status : &none;
}

const char *multiverse_error(void)
{
    struct mv_reply *reply = mv_reply_mine();

    return reply ? reply->error : mv_reply_missing() ? "out of memory" : "";
}

const char *multiverse_report(void)
{
    struct mv_reply *reply = mv_reply_mine();

    return reply ? reply->report : "";
}

/* A direct system call: write(2) would be a cancellation point, with the engine's lock held. */
static void print_item(void *cookie, const struct mv_item *item)
{
    char line[512];
    size_t length;

    (void)cookie;
    mv_describe(item, line, sizeof line - 1);
    length = strlen(line);
    line[length++] = '\n';
    sys_write(&rimf_sys_kernel, STDERR_FILENO, line, length);
}

void multiverse_dump_info(void)
{
    mv_each(print_item, NULL);
}
