/* SPDX-License-Identifier: MIT
 *
 * Restartable sequences: glibc's registration is there in each thread and child, and a library
 * with a sequence of its own, whose table names addresses, stays and works.
 *
 * A failure means that a thread that was moved to another CPU goes on in the middle of a sequence.
 *
 * needs: 2.35
 * build: librestarts.so -DLIBRARY
 * build: program librestarts.so -pthread
 * run:
 */
#include "identity.h"

#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/wait.h>

long add_here(long *counter, long *aborts);

static struct rseq *mine(void)
{
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

#ifdef LIBRARY
/* counter[0]++ as a restartable sequence; aborts are counted. */
long add_here(long *counter, long *aborts)
{
    struct rseq *rseq = mine();
    const char *wanted = getenv("IDENTITY");

    if (wanted && identity_moved(identity_here()))
        return -1;
    if (!__rseq_size)
        return ++*counter; /* the kernel has none */
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
                     "3:\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
                     "jmp 1f\n\t"
                     ".byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
                     "4:\tincq %[aborts]\n"
                     "1:\tleaq 3b(%%rip), %%rax\n\t"
                     "movq %%rax, %[cs]\n\t"
                     "incq %[counter]\n"
                     "2:"
                     : [counter] "+m"(*counter), [aborts] "+m"(*aborts), [cs] "=m"(rseq->rseq_cs)
                     :
                     : "rax", "memory", "cc");
    return *counter;
}
#else
static long counter, aborts;

static void registered(const char *who)
{
    struct rseq *rseq = mine();

    RUNS;
    printf("%s: %d\n", who, !__rseq_size || (rseq->cpu_id < 100000 && sched_getcpu() >= 0));
}

static void *thread(void *data)
{
    registered("thread");
    return data;
}

int main(void)
{
    pthread_t id;
    pid_t child;
    long got = 0;

    setvbuf(stdout, NULL, _IONBF, 0);
    registered("main");
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    child = fork();
    if (!child) {
        registered("child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 200000 && got >= 0; i++)
        got = add_here(&counter, &aborts);
    printf("%s\n", got == 200000 ? "counted" : got < 0 ? "a sequence runs in moved code" : "lost");
    return 0;
}
#endif
