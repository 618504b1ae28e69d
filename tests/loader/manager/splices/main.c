/* SPDX-License-Identifier: MIT
 *
 * main.c: calls the library, and prints what it says.  With `wait` it then waits for a line.  With `step` it
 * executes the calls instruction by instruction, and at each of them looks who called: behind the frame of the
 * library, or of what stands in for its code, comes `calls`.  With `later` and a path it loads that library, calls it
 * and closes it, some times, while another thread runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

long looped(long n);
int framed(int n), chosen(int n);
double scaled(double a, long b, long c, long d, long e, double f);
void calls(void);
void step(void (*f)(void));

static struct {
    unsigned long places[16], n;
} seen;
static unsigned long stepped, wrong, elsewhere;
static long turns = 1000;

__attribute__((noinline)) void calls(void)
{
    int sum = 0;

    for (int n = 0; n < 6; n++)
        sum += framed(n + 1) + chosen(n);
    printf("%lx %d %.9g\n", looped(turns), sum, scaled(1.25, 3, 5, 7, 11, 0.5));
}

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *cookie)
{
    (void)cookie;
    seen.places[seen.n++] = _Unwind_GetIP(context);
    return seen.n < 16 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int is_in(unsigned long address, const char *name)
{
    Dl_info info;

    return dladdr((void *)address, &info) && info.dli_fname && strstr(info.dli_fname, name);
}

static int is_calls(unsigned long address)
{
    Dl_info info;

    return dladdr((void *)address, &info) && info.dli_sname && !strcmp(info.dli_sname, "calls");
}

/* The first frames are of this handler and of the signal; then comes where the program was. */
static void trapped(int signal, siginfo_t *info, void *context)
{
    unsigned long at = (unsigned long)info->si_addr;
    unsigned i = 0;

    (void)signal;
    (void)context;
    seen.n = 0;
    if (!is_in(at, "libspliced.so") && !is_in(at, "libconcat.so.1"))
        return;
    stepped++;
    elsewhere += is_in(at, "libconcat.so.1") != 0;
    _Unwind_Backtrace(note, NULL);
    while (i < seen.n && seen.places[i] != at)
        i++;
    while (++i < seen.n && is_in(seen.places[i], "libspliced.so")) /* a trampoline that was called */
        ;
    if (i >= seen.n || !is_calls(seen.places[i]))
        if (wrong++ < 5)
            printf("wrong at %lx, %lu frames\n", at, seen.n);
}

__asm__("step:\n"
        "    .cfi_startproc\n"
        "    pushfq\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    orl $0x100, (%rsp)\n"
        "    popfq\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    sub $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call *%rdi\n"
        "    pushfq\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    andl $~0x100, (%rsp)\n"
        "    popfq\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    add $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n");

static void *spin(void *go_on)
{
    while (__atomic_load_n((int *)go_on, __ATOMIC_RELAXED))
        looped(3);
    return NULL;
}

static int later(const char *path)
{
    int go_on = 1;
    pthread_t thread;

    if (pthread_create(&thread, NULL, spin, &go_on))
        return 1;
    for (int i = 0; i < 4; i++) {
        void *library = dlopen(path, RTLD_NOW);
        long (*f)(long) = library ? (long (*)(long))dlsym(library, "looped") : NULL;
        int (*g)(int) = library ? (int (*)(int))dlsym(library, "chosen") : NULL;

        printf("%lx %d\n", f ? f(turns + i) : 0, g ? g(i) : 0);
        if (library)
            dlclose(library);
    }
    __atomic_store_n(&go_on, 0, __ATOMIC_RELAXED);
    return pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    char line[8];

    calls();
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "wait"))
        return !fgets(line, sizeof line, stdin);
    if (argc > 2)
        return later(argv[2]);
    if (argc > 1) {
        turns = 20;
        sigaction(SIGTRAP, &action, NULL);
        step(calls);
        printf("%lu steps, %lu wrong\nelsewhere %lu\n", stepped, wrong, elsewhere);
    }
    return 0;
}
