/* SPDX-License-Identifier: MIT
 *
 * Handlers of signals: nested, on a stack of their own, with registers and program counter looked
 * at and changed, of faults that are repaired, of a timer that interrupts anywhere.
 *
 * A failure means that a program comes back from a handler to another place, or with other
 * registers.
 *
 * build: libreturns.so -DLIBRARY
 * build: program libreturns.so
 * run:
 */
#include "identity.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#define RIP(context) (((ucontext_t *)(context))->uc_mcontext.gregs[REG_RIP])

unsigned long spin(unsigned long n);

#ifdef LIBRARY
unsigned long spin(unsigned long n)
{
    unsigned long sum = 1;

    RUNS;
    for (unsigned long i = 0; i < n; i++) {
        sum = sum * 6364136223846793005ul + i;
        if (sum % 1000 == 7)
            sum ^= (unsigned long)strlen("seven");
    }
    return sum;
}
#else
static volatile int depth, on_stack, ticks, in_moved_code, faults;
static char *page;

static void nested(int signal, siginfo_t *info, void *context)
{
    char here;
    ucontext_t *u = (ucontext_t *)context;

    RUNS;
    (void)info;
    on_stack += (char *)u->uc_stack.ss_sp <= &here &&
                &here < (char *)u->uc_stack.ss_sp + u->uc_stack.ss_size;
    if (++depth < 5)
        raise(signal == SIGUSR1 ? SIGUSR2 : SIGUSR1);
}

static void repair(int signal, siginfo_t *info, void *context)
{
    RUNS;
    RUNS_AT(RIP(context));
    (void)signal;
    faults += info->si_addr == page + 5;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void tick(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    ticks++;
    in_moved_code += identity_moved((void *)RIP(context));
}

static int landed;
static sigjmp_buf back;

static void land(void)
{
    RUNS;
    landed = 1;
    siglongjmp(back, 1);
}

/* Goes on elsewhere: at a function's address. */
static void divert(int signal, siginfo_t *info, void *context)
{
    ucontext_t *u = (ucontext_t *)context;

    (void)signal;
    (void)info;
    u->uc_mcontext.gregs[REG_RSP] = ((u->uc_mcontext.gregs[REG_RSP] - 256) & ~15l) - 8;
    RIP(context) = (greg_t)land;
}

static void on(int signal, void (*f)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = f, .sa_flags = SA_SIGINFO | flags};

    sigaction(signal, &action, NULL);
}

int main(void)
{
    static char stack[65536];
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    const char *wanted = getenv("IDENTITY");
    unsigned long quiet, interrupted;

    RUNS;
    sigaltstack(&alternate, NULL);
    on(SIGUSR1, nested, SA_ONSTACK | SA_NODEFER);
    on(SIGUSR2, nested, SA_ONSTACK | SA_NODEFER);
    raise(SIGUSR1);
    printf("depth %d, on the stack %d\n", depth, on_stack);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    on(SIGSEGV, repair, 0);
    page[5]++;
    printf("repaired %d %d\n", page[5], faults);
    on(SIGUSR1, divert, SA_NODEFER | SA_RESETHAND);
    if (!sigsetjmp(back, 1))
        raise(SIGUSR1);
    printf("landed %d\n", landed);
    quiet = spin(20000000);
    on(SIGALRM, tick, SA_RESTART);
    setitimer(ITIMER_REAL, &often, NULL);
    interrupted = spin(20000000);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%s, %s\n", quiet == interrupted ? "the same" : "another sum",
           ticks > 5 ? "interrupted" : "left alone");
    if (wanted && !strcmp(wanted, "moved") && in_moved_code < ticks / 2)
        printf("%d of %d ticks in moved code\n", in_moved_code, ticks);
    return 0;
}
#endif
