/* SPDX-License-Identifier: MIT
 *
 * attach/priority.c: a real-time priority for the tool and the thread that it stops, if the tool may have one.
 *
 * The thread inherits its priority (priority inheritance, futex(2)).  A second thread of the tool, the waiter, waits for a
 * lock of the tool (FUTEX_LOCK_PI).  The lock's word says that the stopped thread owns it, so the kernel gives that thread
 * the waiter's priority.  The thread's own settings stay as they are.  When the tool ends, even if it is killed, the
 * waiter's wait ends, and with it the inheritance.
 *
 * The waiter's priority is below the tool's, from its begin, and an ordinary one before it is to end.  Otherwise a thread
 * that never waits would keep the tool, or the waiter, from its processor: a real-time thread gives way to higher
 * priorities only.  A killed tool's waiter needs a processor without such a thread for the same reason.  So nobody gets a
 * priority where the tool may use one processor only, and no second tool while the first one has it: a lock says so,
 * which lasts until a killed tool's waiter has ended.  A tool holds it for one stop.  Others wait for it, since without the
 * priority the thread that they stop would wait for a processor; but not for long, since anybody can hold the lock.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BEGIN_MS 2 /* for the waiter to begin its wait */
#define TURNS_MS 1000 /* for which other tools are waited for, in all stops of a request */
#define TOOLS 2
#define WAITERS 1 /* and so the stopped thread's */
#define LOCK "/proc/sys/kernel/sched_rt_runtime_us" /* whoever else locks it only keeps tools from the priority */

struct attach_waiter { /* in shared memory: the owner of a private lock must have the tool's memory */
    uint32_t word; /* the lock's: the owner's thread number, and FUTEX_WAITERS once the waiter waits */
    pid_t owner, number; /* number: the waiter's */
    sem_t end; /* the waiter ends behind this, also if the owner has ended: until then `number` is its own */
};

static int set_priority(pid_t thread, int priority)
{
    return sched_setscheduler(thread, priority ? SCHED_FIFO : SCHED_OTHER, &(struct sched_param){.sched_priority = priority});
}

static int may_use_processors(void)
{
    cpu_set_t mine;

    return sched_getaffinity(0, sizeof mine, &mine) ? 0 : CPU_COUNT(&mine);
}

void attach_open_priority(struct attach *a)
{
    if (may_use_processors() < 2 || sched_getscheduler(0) != SCHED_OTHER || set_priority(0, TOOLS))
        return; /* and keeps nobody from it */
    set_priority(0, 0);
    a->priority = open(LOCK, O_RDONLY | O_CLOEXEC);
}

void attach_await_priority(struct attach *a)
{
    uint64_t began = clock_ns();

    if (a->priority < 0 || a->awaited >= TURNS_MS * UINT64_C(1000000))
        return;
    lock_within(a->priority, LOCK_EX, TURNS_MS - (unsigned)(a->awaited / 1000000));
    a->awaited += clock_ns() - began;
}

static void *wait_for_lock(void *waiter)
{
    struct attach_waiter *w = waiter;
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &end, NULL); /* whoever started the tool may have blocked it */
    set_priority(0, WAITERS);
    __atomic_store_n(&w->number, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    syscall(SYS_futex, &w->word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    while (sem_wait(&w->end))
        ;
    munmap(w, sizeof *w);
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
}

/* The kernel restarts the wait behind the signal, and then the lock is free. */
static void end_waiter(struct attach *a)
{
    struct attach_waiter *w = a->waiter;
    pid_t number;

    if (!w)
        return;
    a->waiter = NULL;
    __atomic_store_n(&w->word, 0, __ATOMIC_SEQ_CST);
    number = __atomic_load_n(&w->number, __ATOMIC_SEQ_CST); /* who begins behind this look finds the lock free */
    if (number) {
        set_priority(number, 0);
        syscall(SYS_tgkill, getpid(), number, SIGUSR1);
    }
    sem_post(&w->end); /* the waiter removes it */
}

static int has_begun(const struct attach_waiter *w)
{
    return __atomic_load_n(&w->number, __ATOMIC_ACQUIRE) && __atomic_load_n(&w->word, __ATOMIC_ACQUIRE) & FUTEX_WAITERS;
}

static void begin_waiter(struct attach *a, pid_t thread)
{
    struct attach_waiter *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t until = clock_ns() + BEGIN_MS * UINT64_C(1000000);
    pthread_t waiter;

    if (w == MAP_FAILED)
        return;
    w->owner = thread;
    w->word = (uint32_t)thread;
    sem_init(&w->end, 0, 0);
    signal(SIGUSR1, on_signal);
    if (pthread_create(&waiter, NULL, wait_for_lock, w)) {
        munmap(w, sizeof *w);
        return;
    }
    pthread_detach(waiter);
    a->waiter = w;
    while (!has_begun(w) && clock_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* it may have to run where the tool does */
    if (!has_begun(w)) /* a kernel without such locks, or the thread has ended */
        end_waiter(a);
}

void attach_raise_priority(struct attach *a, pid_t thread)
{
    if (a->priority < 0 || flock(a->priority, LOCK_EX | LOCK_NB) || set_priority(0, TOOLS))
        return;
    a->raised = 1;
    if (a->waiter && a->waiter->owner != thread)
        end_waiter(a);
    if (!a->waiter)
        begin_waiter(a, thread);
    if (a->waiter)
        set_priority(a->waiter->number, WAITERS);
}

void attach_restore_priority(struct attach *a)
{
    if (a->raised && a->waiter)
        set_priority(a->waiter->number, 0);
    if (a->priority >= 0) /* while this tool is sure of a processor */
        flock(a->priority, LOCK_UN);
    if (a->raised)
        set_priority(0, 0);
    a->raised = 0;
}

void attach_end_priority(struct attach *a)
{
    attach_restore_priority(a);
    end_waiter(a);
    if (a->priority >= 0)
        close(a->priority);
    a->priority = -1;
}
