/* SPDX-License-Identifier: MIT
 *
 * attach/hurry.c: nobody is served before the tool and the thread that it stops, if the tool may ask for that.
 *
 * The tool takes a real-time priority.  The thread inherits one: a helper, a thread of the tool, waits for a lock of
 * the tool (FUTEX_LOCK_PI) whose word says that the stopped thread owns it.  For the kernel that is so, and as long as
 * the helper has a real-time priority, the owner runs with it.  The thread's own settings stay as they are, and when the
 * tool ends, even if it is killed, the helper's wait ends, and with it the loan.
 *
 * The helper's priority is below the tool's, so that a thread that never waits cannot keep the tool from taking
 * the loan back.
 */
#include "tools/attach/attach.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BEGIN_MS 2 /* for the helper to begin its wait */
#define OWN 2
#define LENT 1

struct attach_loan { /* in shared memory: the owner of a private lock must have the tool's memory */
    uint32_t word; /* the lock's: the owner's thread number, and FUTEX_WAITERS once the helper waits */
    pid_t thread, number; /* number: the helper's */
    pthread_t helper;
    sem_t end; /* until then the helper is there, and its number nobody else's: also when the owner has ended */
};

static int set_priority(pid_t thread, int priority)
{
    return sched_setscheduler(thread, priority ? SCHED_FIFO : SCHED_OTHER, &(struct sched_param){.sched_priority = priority});
}

static void *wait_for_lock(void *loan)
{
    struct attach_loan *l = loan;
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &end, NULL); /* whoever started the tool may have blocked it */
    __atomic_store_n(&l->number, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    syscall(SYS_futex, &l->word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    while (sem_wait(&l->end))
        ;
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
}

/* The signal interrupts the wait, which the kernel begins anew; and then the lock is free. */
static void end_loan(struct attach *a)
{
    struct attach_loan *l = a->loan;

    if (!l)
        return;
    __atomic_store_n(&l->word, 0, __ATOMIC_SEQ_CST);
    if (l->number)
        set_priority(l->number, LENT); /* nor shall the tool wait for it */
    sem_post(&l->end);
    pthread_kill(l->helper, SIGUSR1);
    pthread_join(l->helper, NULL);
    munmap(l, sizeof *l);
    a->loan = NULL;
}

static int has_begun(const struct attach_loan *l)
{
    return __atomic_load_n(&l->number, __ATOMIC_ACQUIRE) && __atomic_load_n(&l->word, __ATOMIC_ACQUIRE) & FUTEX_WAITERS;
}

/* The helper begins with the tool's own priority, and so at once. */
static void begin_loan(struct attach *a, pid_t thread)
{
    struct attach_loan *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t until = attach_clock() + BEGIN_MS * UINT64_C(1000000);

    if (l == MAP_FAILED)
        return;
    l->thread = thread;
    l->word = (uint32_t)thread;
    sem_init(&l->end, 0, 0);
    signal(SIGUSR1, on_signal);
    if (pthread_create(&l->helper, NULL, wait_for_lock, l)) {
        munmap(l, sizeof *l);
        return;
    }
    a->loan = l;
    while (!has_begun(l) && attach_clock() < until)
        sched_yield();
    if (!has_begun(l)) /* a kernel without such locks, or the thread has ended */
        end_loan(a);
}

void attach_hurry(struct attach *a, pid_t thread)
{
    if (sched_getscheduler(0) != SCHED_OTHER || set_priority(0, OWN))
        return;
    a->hurries = 1;
    if (a->loan && a->loan->thread != thread)
        end_loan(a);
    if (!a->loan)
        begin_loan(a, thread);
    if (a->loan)
        set_priority(a->loan->number, LENT);
}

void attach_calm(struct attach *a)
{
    if (!a->hurries)
        return;
    if (a->loan)
        set_priority(a->loan->number, 0);
    set_priority(0, 0);
    a->hurries = 0;
}

void attach_calm_for_good(struct attach *a)
{
    attach_calm(a);
    end_loan(a);
}
