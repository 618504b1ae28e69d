/* SPDX-License-Identifier: MIT
 *
 * Addresses of functions that are held in odd places: in operands of assembly (lea, the GOT,
 * pushed and returned to), in the initial values of thread-local variables, in an executable's
 * PLT entry (which is the function's address for everybody, where the executable is at fixed
 * addresses), in the C library; and labels, whole and as distances. Each is compared with all
 * others, over objects, before and after a dlopen, and in threads from before and after it.
 *
 * A failure means that callbacks which are looked up by their address are not found, or that
 * what is called through such an address is something else.
 *
 * build: libheld.so -DNAME=linked
 * build: libopened.so -DNAME=opened
 * build: program libheld.so -rdynamic -pthread
 * build: optimised libheld.so -rdynamic -pthread -O3 -fno-plt
 * build: fixed libheld.so -rdynamic -pthread -fno-pic -no-pie -DFIXED
 * run:
 * run: LD_BIND_NOW=1
 * run: program=optimised
 * run: program=fixed IDENTITY=
 * run: program=fixed LD_BIND_NOW=1 IDENTITY=
 */
#include "identity.h"

#include <pthread.h>
#include <signal.h>

typedef int function(int);

/* What one object holds of the functions that all know. */
struct held {
    function *library, *program, *own; /* of libheld.so, of the program, its own */
    function *got_library, *lea_own, *pushed, *pushed_to;
    /* The like, which thread-local variables hold, so that they have their original address. */
    function *kept_library, *kept_program, *kept_own;
    function *thread_library, *thread_program, *thread_own;
    int jumped;
};

function library_function, kept_library_function, program_function, kept_program_function;
typedef struct held *hold(struct held *);

#define STRING(x) #x
#define NAMED(x) STRING(x)
#define JOIN(a, b) a##b
#define OF(x, what) JOIN(x, what)

#ifndef NAME
#define NAME program
#endif

/* ---- the same in each object ------------------------------------------------------------ */

static __attribute__((noinline, noclone, used)) int own(int n)
{
#ifndef FIXED
    RUNS;
#endif
    return n + NAMED(NAME)[0];
}

static __attribute__((noinline, noclone)) int kept_own(int n)
{
#ifndef FIXED
    RUNS;
#endif
    return own(n) + 1;
}

static __thread function *volatile thread_library = kept_library_function;
static __thread function *volatile thread_program = kept_program_function;
static __thread function *volatile thread_own = kept_own;

/* Computed goto, by addresses and by distances, with an address that another call has stored. */
static __attribute__((noinline, noclone)) int jump(const char *program)
{
    static const void *const whole[] = {&&add, &&twice, &&out, &&keep};
    static const int distances[] = {(char *)&&add - (char *)&&add, (char *)&&twice - (char *)&&add,
                                    (char *)&&out - (char *)&&add, (char *)&&keep - (char *)&&add};
    static const void *kept;
    int value = 1;

    if (kept)
        goto *kept;
    goto *whole[*program++ - 'a'];
add:
    value += 3;
    goto *((char *)&&add + distances[*program++ - 'a']);
twice:
    value *= 2;
    goto *whole[*program++ - 'a'];
keep:
    kept = kept ? NULL : &&keep;
    value += 100;
    goto *((char *)&&add + distances[*program++ - 'a']);
out:
    return value;
}

static __attribute__((noinline, noclone, used)) int pushed_to(int n)
{
    return own(n) + 2;
}

/* The address of a function, in code that takes that of a place inside itself, and returns to it. */
static __attribute__((noinline, noclone)) function *pushed(void)
{
    function *at;

    __asm__ volatile("lea pushed_to(%%rip), %0\n\t"
                     "lea 1f(%%rip), %%rcx\n\t"
                     "push %%rcx\n\t"
                     "push %0\n\t"
                     "pop %0\n\t"
                     "ret\n"
                     "1:"
                     : "=r"(at)
                     :
                     : "rcx", "memory");
    return at;
}

static struct held *fill(struct held *h)
{
    h->library = library_function;
    h->program = program_function;
    h->own = own;
    h->kept_library = kept_library_function;
    h->kept_program = kept_program_function;
    h->kept_own = kept_own;
    h->thread_library = thread_library;
    h->thread_program = thread_program;
    h->thread_own = thread_own;
    __asm__("lea own(%%rip), %0" : "=r"(h->lea_own));
    __asm__("mov library_function@GOTPCREL(%%rip), %0" : "=r"(h->got_library));
    h->pushed = pushed();
    h->pushed_to = pushed_to;
    h->jumped = jump("abadc") + jump("adbac");
    return h;
}

#if !defined(PART_program) && !defined(PART_optimised) && !defined(PART_fixed)
hold OF(NAME, _hold);
struct held *OF(NAME, _hold)(struct held *h)
{
    RUNS;
    return fill(h);
}
#endif

#ifdef PART_held
int library_function(int n)
{
    RUNS;
    return n * 2;
}

int kept_library_function(int n)
{
    RUNS;
    return n * 4;
}
#elif !defined(PART_opened)
/* ---- the program --------------------------------------------------------------------------- */

hold linked_hold;
static hold *opened_hold; /* once it is there */

int program_function(int n)
{
#ifndef FIXED
    RUNS;
#endif
    return n * 3;
}

int kept_program_function(int n)
{
    return program_function(n) * 3;
}

static void on_signal(int signal)
{
    (void)signal;
}

/* Equal where both say the same function; and what it does. */
static void compare(const char *what, const struct held *a, const struct held *b)
{
    printf("%s: %d %d %d %d %d, thread-local %d %d %d %d %d, %d %d %d, %d %d %d, %d\n", what,
           a->library == b->library, a->program == b->program, a->got_library == b->library,
           a->lea_own == a->own, a->pushed == a->pushed_to, a->kept_library == b->kept_library,
           a->kept_program == b->kept_program, a->thread_library == b->kept_library,
           a->thread_program == b->kept_program, a->thread_own == a->kept_own, a->library(1),
           a->program(1), a->own(0), a->thread_library(1), a->thread_program(1), a->thread_own(0),
           a->jumped);
}

static int is_found(const char *name, function *at)
{
    return dlsym(RTLD_DEFAULT, name) == (void *)at;
}

static void compare_all(const char *what)
{
    struct held mine, linked, opened;

    fill(&mine);
    printf("%s\n", what);
    compare("  program", &mine, &mine);
    compare("  linked", linked_hold(&linked), &mine);
    if (opened_hold)
        compare("  opened", opened_hold(&opened), &mine);
    printf("  by name %d %d %d %d\n", is_found("library_function", mine.library),
           is_found("program_function", mine.program),
           is_found("kept_library_function", mine.kept_library),
           is_found("kept_program_function", mine.kept_program));
}

static pthread_barrier_t barrier;

static void *early(void *unused)
{
    compare_all("a thread, before");
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    compare_all("a thread, after");
    return unused;
}

static void *late(void *unused)
{
    compare_all("a late thread");
    return unused;
}

/* The C library gives back what it was given. */
static void given_back(const struct held *before)
{
    struct sigaction action = {.sa_handler = on_signal}, was;
    int is_ours;

    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGUSR2, NULL, &was);
    is_ours = was.sa_handler == on_signal;
    printf("given back %d %d, as before %d %d %d %d\n", is_ours, signal(SIGUSR2, SIG_DFL) == on_signal,
           before->library == library_function, before->program == program_function,
           before->own == own, before->thread_own == kept_own);
}

int main(void)
{
    struct held *before = fill(malloc(sizeof *before));
    pthread_t thread;
    void *opened;

#ifndef FIXED
    RUNS;
    RUNS_AT(before->library); /* these addresses are those of moved code */
    RUNS_AT(before->program);
    RUNS_AT(before->own);
    RUNS_AT(before->got_library);
    RUNS_AT(before->lea_own);
#endif
    setvbuf(stdout, NULL, _IONBF, 0);
    compare_all("before");
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, early, NULL);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++) {
        opened = dlopen("libopened.so", RTLD_NOW);
        opened_hold = (hold *)(uintptr_t)dlsym(opened, "opened_hold");
        if (!opened_hold)
            return printf("%s\n", dlerror());
        compare_all("after");
        if (i)
            break;
        opened_hold = NULL;
        dlclose(opened);
        compare_all("closed");
    }
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, late, NULL);
    pthread_join(thread, NULL);
    given_back(before);
    free(before);
    return 0;
}
#endif
