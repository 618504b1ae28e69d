/* SPDX-License-Identifier: MIT
 *
 * moving.c churn|spawns|rseq: four threads that never rest: they make threads that end, or children in every way, or count
 * for their processor in restartable sequences (rseq(2)).  Says "ready", and "whole" at the end of its input when every thread
 * and child came back as itself, and no count is missing.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

enum { WORKERS = 4, LEAVES = 60, COUNTS = 1000, PROCESSORS = 4096 };

extern char **environ;

static atomic_int going = 1, wrong;
static atomic_long done;

static void *leaf(void *cookie)
{
    usleep(1000);
    return cookie;
}

static void churn(int worker)
{
    pthread_t threads[LEAVES];
    void *back;

    (void)worker;
    for (long i = 0; i < LEAVES; i++)
        if (pthread_create(&threads[i], NULL, leaf, (void *)i))
            abort();
    for (long i = 0; i < LEAVES; i++)
        wrong += pthread_join(threads[i], &back) || back != (void *)i;
}

static void spawns(int worker)
{
    static atomic_int last;
    char text[16];
    char *command[] = {"sh", "-c", text, NULL};
    volatile int want = ++last % 90; /* volatile: vfork(2) returns twice */
    int status = -1;
    pid_t child = -1;

    snprintf(text, sizeof text, "exit %d", want);
    switch (worker) {
    case 0:
        if (posix_spawn(&child, "/bin/sh", NULL, NULL, command, environ))
            child = -1;
        break;
    case 1:
        child = vfork();
        if (!child) {
            execv("/bin/sh", command);
            _exit(99);
        }
        break;
    case 2:
        child = fork();
        if (!child)
            _exit(want);
        break;
    default:
        status = system(text);
    }
    wrong += (worker < 3 && waitpid(child, &status, 0) != child) || status != want << 8;
}

#ifdef RSEQ_SIG
static struct {
    long n;
    char others[56];
} counts[PROCESSORS];

/* Whether it was counted: not if the kernel interrupted between the read and the write. */
static int count(void)
{
    struct rseq *own = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    uint32_t processor = own->cpu_id_start;

    __asm__ goto volatile(".pushsection __rseq_cs, \"aw\"\n.balign 32\n3: .long 0, 0\n.quad 1f, 2f - 1f, 4f\n.popsection\n"
                          "lea 3b(%%rip), %%rax\nmov %%rax, %[critical]\n"
                          "1: cmp %[processor], %[now]\njne 5f\nmov (%[at]), %%rax\npause\ninc %%rax\nmov %%rax, (%[at])\n2: jmp 6f\n"
                          ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: jmp %l[lost]\n5: jmp %l[lost]\n6:"
                          :
                          : [critical] "m"(own->rseq_cs), [now] "m"(own->cpu_id), [processor] "r"(processor),
                            [at] "r"(&counts[processor % PROCESSORS].n)
                          : "rax", "memory", "cc"
                          : lost);
    return 1;
lost:
    return 0;
}

static void rseq(int worker)
{
    for (int i = 0; i < COUNTS; i++)
        while (!count())
            ;
    if (!worker)
        usleep(100); /* one that can be reached */
}
#endif

static void (*work)(int worker);

static void *go(void *worker)
{
    while (going) {
        work((int)(intptr_t)worker);
        done++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    char c;

    if (argc != 2)
        return 2;
    work = strcmp(argv[1], "churn") ? spawns : churn;
#ifdef RSEQ_SIG
    if (!strcmp(argv[1], "rseq") && __rseq_size)
        work = rseq;
#endif
    if (!strcmp(argv[1], "rseq") && work == spawns)
        return 77;
    for (intptr_t i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, go, (void *)i))
            abort();
    puts("ready");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    going = 0;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
#ifdef RSEQ_SIG
    long sum = 0;
    for (int i = 0; i < PROCESSORS; i++)
        sum += counts[i].n;
    wrong += work == rseq && sum != done * COUNTS;
#endif
    puts(done && !wrong ? "whole" : "wrong");
    return 0;
}
