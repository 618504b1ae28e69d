/* SPDX-License-Identifier: MIT
 *
 * dlclose: counts, order of destructors, RTLD_NODELETE and -z nodelete, RTLD_NOLOAD,
 * libraries that use each other, addresses gone afterwards, and the counters of
 * dl_iterate_phdr.
 *
 * covers: elf/unload* elf/nodelete* elf/tst-nodelete* elf/circleload1 elf/reldep* elf/dblunload
 *         elf/tst-dlmodcount dlfcn/bug-dl-leaf dlfcn/tst-rec-dlopen
 * build: libring2.so -DNAME=ring2
 * build: libring1.so -DNAME=ring1 libring2.so
 * build: libkept.so -DNAME=kept -Wl,-z,nodelete
 * build: libflag.so -DNAME=flag
 * build: libplain.so -DNAME=plain libring1.so
 * build: libuser.so -DNAME=user -DUSES=plain_state
 * build: program -rdynamic
 * run:
 * run: LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)
#define JOIN(a, b) a##b
#define STATE(x) JOIN(x, _state)

#ifdef NAME
int STATE(NAME) = 1;
#ifdef USES
extern int USES;
int use(void);
int use(void)
{
    return ++USES;
}
#endif

__attribute__((destructor)) static void destructor(void)
{
    printf("  destructor of %s, state %d\n", NAMED(NAME), STATE(NAME));
}
#else
static unsigned long long added, removed;

static int counters(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    added = info->dlpi_adds;
    removed = info->dlpi_subs;
    return 1;
}

static void count(const char *what)
{
    unsigned long long a = added, r = removed;

    dl_iterate_phdr(counters, NULL);
    printf("%s: +%llu -%llu\n", what, added - a, removed - r);
}

static void present(const char *name)
{
    void *h = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

    printf("%s is %s\n", name, h ? "loaded" : "gone");
    if (h)
        dlclose(h);
}

int main(void)
{
    void *a, *b, *kept, *flag;

    setvbuf(stdout, NULL, _IONBF, 0);
    dl_iterate_phdr(counters, NULL);
    count("start");
    a = dlopen("libplain.so", RTLD_NOW);
    count("open");
    b = dlopen("libplain.so", RTLD_NOW);
    count("open again");
    ++*(int *)dlsym(b, "plain_state");
    printf("%d %d\n", a == b, dlclose(a));
    count("close");
    present("libring2.so");
    printf("%d\n", dlclose(b));
    count("close");
    present("libplain.so");
    present("libring1.so");

    kept = dlopen("libkept.so", RTLD_NOW);
    flag = dlopen("libflag.so", RTLD_NOW | RTLD_NODELETE);
    ++*(int *)dlsym(kept, "kept_state");
    ++*(int *)dlsym(flag, "flag_state");
    dlclose(kept);
    dlclose(flag);
    present("libkept.so");
    present("libflag.so");
    kept = dlopen("libkept.so", RTLD_NOW);
    printf("%d\n", *(int *)dlsym(kept, "kept_state"));

    /* A binding keeps what it found: user was bound to plain, so plain outlives its handle. */
    a = dlopen("libplain.so", RTLD_NOW | RTLD_GLOBAL);
    b = dlopen("libuser.so", RTLD_NOW);
    printf("use: %d\n", b ? ((int (*)(void))dlsym(b, "use"))() : -1);
    dlclose(a);
    present("libplain.so");
    dlclose(b);
    present("libplain.so");
    count("both closed");
    printf("end\n");
    return 0;
}
#endif
