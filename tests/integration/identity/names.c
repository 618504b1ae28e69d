/* SPDX-License-Identifier: MIT
 *
 * dladdr, dladdr1, backtrace and backtrace_symbols, asked about functions and about return
 * addresses, in the program, a library, a library that was opened, and libc.
 *
 * A failure means that crash reports, profilers and loggers name other functions, or none.
 *
 * build: libnames.so -DNAME=linked
 * build: libopened.so -DNAME=opened
 * build: program libnames.so -rdynamic
 * run:
 * run: LD_BIND_NOW=1
 */
#include "identity.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)
#define JOIN(a, b) a##b
#define FUNCTION(x) JOIN(x, _calls)

typedef int call_it(int (*)(const void *, const void *));

#ifdef NAME
static __attribute__((noinline, noclone)) int local(int (*f)(const void *, const void *))
{
    int two[2] = {2, 1};

    RUNS;
    qsort(two, 2, sizeof(int), f);
    return two[0] + two[1];
}

int FUNCTION(NAME)(int (*)(const void *, const void *));
int FUNCTION(NAME)(int (*f)(const void *, const void *))
{
    RUNS;
    return local(f) + 1;
}
#else
call_it linked_calls;

static void show(const char *what, const void *at)
{
    Dl_info info = {0}, again = {0};
    struct link_map *map = NULL;
    ElfW(Sym) *symbol = NULL;
    const char *name;
    int n = dladdr(at, &info);

    printf("%s: %d %s %s", what, n, info.dli_fname ? strrchr(info.dli_fname, '/') : "-",
           info.dli_sname ? info.dli_sname : "-");
    if (info.dli_saddr) /* how far that is from dli_fbase, nobody may ask: of moved code, far */
        printf("+%#lx", (long)((char *)at - (char *)info.dli_saddr));
    n = dladdr1(at, &again, (void **)&map, RTLD_DL_LINKMAP);
    name = map ? strrchr(map->l_name, '/') : "-";
    printf(", %d %s", n, name ? name : "program");
    n = dladdr1(at, &again, (void **)&symbol, RTLD_DL_SYMENT);
    printf(", %d %#lx %d\n", n, symbol ? (long)symbol->st_value : 0L,
           info.dli_saddr == again.dli_saddr);
}

static void show_return(const char *what, const void *at)
{
    Dl_info info = {0};
    int n = dladdr(at, &info);

    printf("%s: %d %s %s, a symbol's own address: %d\n", what, n,
           info.dli_fname ? strrchr(info.dli_fname, '/') : "-",
           info.dli_sname ? info.dli_sname : "-",
           info.dli_sname && info.dli_saddr == dlsym(RTLD_DEFAULT, info.dli_sname));
}

static int level;

int compare(const void *a, const void *b);
int compare(const void *a, const void *b)
{
    void *frames[40];
    int n = backtrace(frames, 40);
    char **lines = backtrace_symbols(frames, n);

    RUNS;
    if (level++ < 3) {
        show_return("return address", __builtin_return_address(0));
        for (int i = 0; i < n; i++) {
            Dl_info info;

            if (strstr(lines[i], "(main+") || strstr(lines[i], "__libc_start"))
                break;
            printf("  %s %d\n", strrchr(lines[i], '/'), dladdr(frames[i], &info));
        }
    }
    free(lines);
    return *(const int *)a - *(const int *)b;
}

static void handler(int signal)
{
    show_return("handler", __builtin_extract_return_addr(__builtin_return_address(0)));
    (void)signal;
}

int main(void)
{
    void *h = dlopen("libopened.so", RTLD_NOW);
    call_it *opened = (call_it *)dlsym(h, "opened_calls");
    volatile int inside = 7; /* code whose places are taken, as a constant, stays */

    RUNS;
    show("main", (void *)main);
    show("in main", (char *)main + inside);
    show("compare", (void *)compare);
    show("linked_calls", (void *)linked_calls);
    show("opened_calls", (void *)opened);
    show("opened_calls + 3", (char *)opened + 3);
    show("qsort", (void *)qsort);
    show("printf", dlsym(RTLD_DEFAULT, "printf"));
    show("nothing", (void *)16);
    printf("%d %d\n", linked_calls(compare), opened(compare));
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    backtrace_symbols_fd((void *[]){(void *)linked_calls, (void *)opened}, 2, fileno(stdout));
    return 0;
}
#endif
