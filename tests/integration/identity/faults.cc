// SPDX-License-Identifier: MIT
//
// Exceptions thrown by handlers of SIGSEGV and SIGFPE (-fnon-call-exceptions): the instruction
// that faults is where the search for a handler starts.
//
// A failure means that language runtimes that turn signals into exceptions end instead.
//
// build: libfaults.so -DLIBRARY -fnon-call-exceptions -fasynchronous-unwind-tables
// build: program libfaults.so -fnon-call-exceptions -fasynchronous-unwind-tables
// run:
#include "identity.h"

#include <csignal>
#include <cstdio>
#include <ucontext.h>

struct fault {
    int signal;
};
struct noisy {
    const char *name;
    ~noisy() { std::printf("  ~%s\n", name); }
};

extern "C" int reads(volatile int *p, volatile int *divisor);

#ifdef LIBRARY
extern "C" int reads(volatile int *p, volatile int *divisor)
{
    noisy here{"reads"};

    try {
        noisy inner{"inner"};
        return *p / *divisor;
    } catch (const fault &f) {
        if (f.signal == SIGFPE) {
            std::puts("  divided by zero");
            return -1;
        }
        throw;
    }
}
#else
static void handler(int signal, siginfo_t *, void *context)
{
    sigset_t set;

    RUNS;
    RUNS_AT(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw fault{signal};
}

static __attribute__((noinline)) int own(volatile int *p)
{
    noisy here{"own"};

    return *p;
}

int main()
{
    struct sigaction action = {};
    volatile int one = 1, zero = 0;
    volatile int *volatile bad = nullptr;

    std::setvbuf(stdout, nullptr, _IONBF, 0);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGFPE, &action, nullptr);
    for (int i = 0; i < 3; i++) {
        try {
            std::printf("%d\n", reads(i == 1 ? bad : &one, i == 2 ? &zero : &one));
            std::printf("%d\n", own(i == 0 ? bad : &one));
        } catch (const fault &f) {
            std::printf("fault %d\n", f.signal);
        }
    }
    return 0;
}
#endif
