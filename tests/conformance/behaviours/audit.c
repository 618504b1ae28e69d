/* SPDX-License-Identifier: MIT
 *
 * LD_AUDIT and --audit: what the module is told, and that it may change a binding.
 *
 * The pass multiverse preloads a library, which an audit module sees (loader/README.md
 * says so), so the runs here are those without it.
 *
 * covers: elf/tst-audit* elf/tst-auditmany nptl/tst-audit-threads
 * build: libaudit.so -DAUDIT
 * build: libsaid.so -DSAID
 * build: libopened.so -DOPENED libsaid.so
 * build: program libsaid.so
 * passes: none count
 * run: LD_AUDIT=$D/libaudit.so
 * run: LD_AUDIT=$D/libaudit.so LD_BIND_NOW=1
 * run: LD_AUDIT=$D/absent.so
 * run: LD_AUDIT=$D/libsaid.so
 * run: direct --audit $D/libaudit.so
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int said(int x);

#if defined AUDIT
static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void say(const char *what, const char *name, long number)
{
    char line[300];

    write(1, line, (size_t)snprintf(line, sizeof line, "audit %s %s %ld\n", what, base(name),
                                     number));
}

unsigned la_version(unsigned version)
{
    say("version", "", version);
    return LAV_CURRENT;
}

void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    say("activity", "", flag);
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    say("search", name, flag);
    return (char *)name;
}

unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)
{
    *cookie = (uintptr_t)map;
    say("open", map->l_name, id);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

void la_preinit(uintptr_t *cookie)
{
    (void)cookie;
    say("preinit", "", 0);
}

unsigned la_objclose(uintptr_t *cookie)
{
    say("close", ((struct link_map *)*cookie)->l_name, 0);
    return 0;
}

static int changed(int x)
{
    return -x;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned n, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)n;
    (void)from;
    (void)to;
    if (strcmp(name, "said"))
        return symbol->st_value;
    say("bind", name, *flags & LA_SYMB_DLSYM);
    return *flags & LA_SYMB_DLSYM ? (uintptr_t)changed : symbol->st_value;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned n, uintptr_t *from, uintptr_t *to,
                                  La_x86_64_regs *regs, unsigned *flags, const char *name,
                                  long *frame)
{
    (void)n;
    (void)from;
    (void)to;
    (void)flags;
    if (strcmp(name, "said"))
        return symbol->st_value; /* dlsym looks at its return address: no frame between */
    *frame = 64;
    say("enter", name, (long)regs->lr_rdi);
    return symbol->st_value;
}

unsigned la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned n, uintptr_t *from, uintptr_t *to,
                               const La_x86_64_regs *in, La_x86_64_retval *out, const char *name)
{
    (void)symbol;
    (void)n;
    (void)from;
    (void)to;
    (void)in;
    if (!strcmp(name, "said"))
        say("exit", name, (long)out->lrv_rax);
    return 0;
}
#elif defined SAID
int said(int x)
{
    return x * 2;
}
#elif defined OPENED
int opened(int x);
int opened(int x)
{
    return said(x) + 1;
}
#else
int main(void)
{
    void *h;

    setvbuf(stdout, NULL, _IONBF, 0);
    printf("said %d\n", said(21));
    h = dlopen("libopened.so", RTLD_LAZY);
    printf("opened %d\n", ((int (*)(int))dlsym(h, "opened"))(4));
    printf("looked up %d\n", ((int (*)(int))dlsym(RTLD_DEFAULT, "said"))(4));
    return dlclose(h);
}
#endif
