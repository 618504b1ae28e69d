/* SPDX-License-Identifier: MIT
 *
 * stress N HOW [far]: N commits and N reverts while others call.
 *
 *   threads   a thread for each object calls
 *   signals   no threads: a timer's handler calls
 *
 * A third word, "far", says that libraries may be out of reach of the executable, as
 * under a plain ld.so: its calls then go by the entries, and its pointer is not bound.
 *
 * Whether a call was right.  `stage` is odd while a commit or revert is under way
 * and while the switch is written.  When it was even and the same before and
 * after a call, the call must have run with exactly the mode in force:
 *
 *   stage % 4 == 0   reverted: the switch's own value
 *   stage % 4 == 2   committed: the value at the commit; the switch holds another
 *
 * Any other call must have run with one mode or another: 0, 1 or 2.
 */
#include "stress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;
__attribute__((multiverse)) int (*hook)(void) = hook_0;
CALLERS(program)

static const struct caller {
    const char *name;
    stress_caller *call;
    int offset;  /* of what it gives */
    int is_bump; /* gives 1 for mode 1, else 0 */
    int is_hook;
} fixed[3][8] = {
#define ALL(object)                                                                               \
    {{#object " value", object##_value, 0, 0, 0},                                                 \
     {#object " tail", object##_tail, 10, 0, 0},                                                  \
     {#object " mixed", object##_mixed, 0, 0, 0},                                                 \
     {#object " bump", object##_bump, 0, 1, 0},                                                   \
     {#object " hook", object##_hook, 0, 0, 1},                                                   \
     {#object " wide", object##_wide, 0, 0, 0},                                                   \
     {#object " narrow", object##_narrow, 0, 0, 0},                                               \
     {#object " inline", object##_inline, 10, 0, 0}}
    ALL(program), ALL(oneof), ALL(other)};

static unsigned stage;
static int in_force; /* the mode that settled calls run with */
static int stop;
static int with_threads, far, begun;
static unsigned long calls, settled, wrong;

static void fail(const char *name, int got, int expected)
{
    if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 10)
        fprintf(stderr, "%s ran with mode %d, stage %u, expected %d\n", name, got, stage, expected);
}

static void try(const struct caller *caller, unsigned long count[2])
{
    unsigned before = __atomic_load_n(&stage, __ATOMIC_SEQ_CST);
    int expected = __atomic_load_n(&in_force, __ATOMIC_SEQ_CST);
    int got = caller->call() - caller->offset;
    unsigned after = __atomic_load_n(&stage, __ATOMIC_SEQ_CST);

    count[0]++;
    if (got < 0 || got >= MODES)
        fail(caller->name, got, -1);
    if (before != after || before % 2 || (far && caller->is_hook))
        return;
    count[1]++;
    if (caller->is_bump)
        expected = expected == 1;
    if (got != expected)
        fail(caller->name, got, expected);
}

static void call_from(size_t object, unsigned long count[2])
{
    for (size_t i = 0; i < 8; i++)
        try(&fixed[object][i], count);
    if (object == 2)
        for (const struct stress_straddling *s = stress_straddling(); s->call; s++)
            try(&(struct caller){"straddling", s->call, 10, 0, 0}, count);
}

static void add(unsigned long count[2])
{
    __atomic_add_fetch(&calls, count[0], __ATOMIC_RELAXED);
    __atomic_add_fetch(&settled, count[1], __ATOMIC_RELAXED);
    count[0] = count[1] = 0;
}

static void *caller_thread(void *object)
{
    unsigned long count[2] = {0, 0};

    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 20; i++)
            call_from((size_t)object, count);
        add(count);
        usleep(20); /* there are more threads than processors: let the commits go on */
    }
    return NULL;
}

static void on_alarm(int signal)
{
    unsigned long count[2] = {0, 0};

    (void)signal;
    for (size_t i = 0; i < 3; i++)
        call_from(i, count);
    add(count);
}

static void begin(void)
{
    __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
}

static void end(int now)
{
    __atomic_store_n(&in_force, now, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
}

static void set(int to)
{
    static int (*const hooks[])(void) = {hook_0, hook_1, hook_2};

    __atomic_store_n(&hook, hooks[to], __ATOMIC_SEQ_CST);
    __atomic_store_n(&mode, to, __ATOMIC_SEQ_CST);
    __atomic_store_n(&wide, 0x0101010101010101 * (unsigned)(to + 1), __ATOMIC_SEQ_CST);
    __atomic_store_n(&narrow, 0x01010101 * (unsigned)(to + 1), __ATOMIC_SEQ_CST);
}

/* Every recorded site is direct now, those by hand hold the body itself. */
static void look_at_sites(int now)
{
    static void *const functions[] = {(void *)value, (void *)mixed, (void *)bump};

    for (size_t i = 0; i < 3; i++) {
        const struct multiverse_info_fn *info = multiverse_info_fn(functions[i]);

        if (!info || !info->active || info->n_callsites < 3 + 3 * (i == 0)) {
            printf("function %zu: %zu call sites, %s\n", i, info ? info->n_callsites : 0,
                   info && info->active ? "bound" : "not bound");
            exit(4);
        }
    }
    for (const struct stress_straddling *s = stress_straddling(); s->call; s++)
        if (memcmp(s->site, (unsigned char[]){0xb8, (unsigned char)(10 + now), 0, 0, 0}, 5)) {
            printf("site %td was not changed\n", s - stress_straddling());
            exit(5);
        }
    if (!far && *multiverse_report()) {
        printf("left out: %s\n", multiverse_report());
        exit(6);
    }
}

static void changed(int n, const char *what)
{
    if (n != 9 - far) {
        printf("%s: %d functions, %d expected: %s%s\n", what, n, 9 - far, multiverse_error(),
               multiverse_report());
        exit(7);
    }
}

/* Now and then somebody must have called before it goes on. */
static void let_call(long i)
{
    unsigned long seen = __atomic_load_n(&settled, __ATOMIC_RELAXED);

    if (i % 32 || (!with_threads && raise(SIGALRM)))
        return;
    while (__atomic_load_n(&settled, __ATOMIC_RELAXED) == seen)
        sched_yield();
}

static void commit_and_revert(long i)
{
    int now = (int)(i % MODES), then = (int)((i + 1 + i / MODES % 2) % MODES);

    begin();
    set(now);
    changed(multiverse_commit(), "commit");
    if (i % 1000 == 0)
        look_at_sites(now);
    set(then); /* nobody may notice */
    end(now);
    let_call(i);
    begin();
    changed(multiverse_revert(), "revert");
    end(then);
    let_call(i + 16);
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 100;
    const char *how = argc > 2 ? argv[2] : "threads";
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[3];

    with_threads = strcmp(how, "signals") != 0;
    far = argc > 3;
    if (multiverse_revert() < 0) {
        printf("revert: %s\n", multiverse_error());
        return 3;
    }
    set(0);
    for (size_t i = 0; with_threads && i < 3; i++)
        pthread_create(&threads[i], NULL, caller_thread, (void *)i);
    while (with_threads && __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < 3)
        usleep(100);
    if (!with_threads) {
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    for (long i = 0; i < n; i++)
        commit_and_revert(i);
    stop = 1;
    for (size_t i = 0; with_threads && i < 3; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld commits, %ld reverts, %lu calls, %lu settled, %lu wrong\n", n, n, calls, settled,
           wrong);
    return wrong || !settled;
}
