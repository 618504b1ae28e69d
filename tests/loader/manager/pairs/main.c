/* SPDX-License-Identifier: MIT
 *
 * What each pass reaches in this program, told by what the program does; then it waits.
 *
 *     direct-calls    calls do not look at their slot any more
 *     count-calls     (its counters are read from outside)
 *     concat          the code runs outside of the object
 *     edit            the call of `first` leads to `second`
 *     bind            `bound` is another function
 *     multiverse      `chosen` does not look at its switch
 *     debloat         `unused` begins with a trap, or a call to where one is
 *     isolate         the data of libvault.so cannot be read, but by its functions
 *     verify          libunlisted.so cannot be opened
 *     shuffle         as concat
 *     returns         `answered` returns 2
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define KEPT __attribute__((noipa))
int called(int n), other(int n), bound(void), chosen(void), answered(void);
volatile int *vault_address(void);
struct pair { long a, b; } vault_pair(long n);
extern _Bool chosen_switch;
extern char __executable_start, end;
extern ElfW(Dyn) _DYNAMIC[];
KEPT int first(int n) { return n + 1; }
KEPT int second(int n) { return n + 2; }
KEPT int edited(int n) { return first(n) + 1; }

KEPT uintptr_t here(void) { return (uintptr_t)__builtin_return_address(0); }

/* The slot of `called`, which stays writable. */
static uintptr_t *slot_of_called(void)
{
    uintptr_t bias = (uintptr_t)&__executable_start, table[40] = {0};

    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
        if (d->d_tag < 40)
            table[d->d_tag] = d->d_un.d_ptr;
    for (size_t i = 0; i < table[DT_PLTRELSZ] / sizeof(ElfW(Rela)); i++) {
        const ElfW(Rela) *r = (const ElfW(Rela) *)table[DT_JMPREL] + i;
        const ElfW(Sym) *s = (const ElfW(Sym) *)table[DT_SYMTAB] + ELF64_R_SYM(r->r_info);

        if (!strcmp((const char *)table[DT_STRTAB] + s->st_name, "called"))
            return (uintptr_t *)(bias + r->r_offset);
    }
    return NULL;
}

#define CALLS_10 sum += called(1); sum += called(2); sum += called(3); sum += called(4); sum += called(5); \
                 sum += called(6); sum += called(7); sum += called(8); sum += called(9); sum += called(10);
KEPT int calls(void)
{
    int sum = 0;

    CALLS_10 CALLS_10 CALLS_10
    return sum;
}

KEPT int jump(int n) { return called(n); }

KEPT int gone(void)
{
    const unsigned char *at = dlsym(RTLD_DEFAULT, "unused");

    at += at[0] == 0xf3 ? 4 : 0; /* endbr64 */
    return at[0] == 0xcc || at[0] == 0xe8;
}

KEPT int closed(void)
{
    int ends[2], wrong = pipe(ends) || vault_pair(1).a != 42;

    return write(ends[1], (const void *)vault_address(), 1) < 0 && !wrong;
}

int main(void)
{
    uintptr_t *slot = slot_of_called(), at = here();
    int before = calls() + jump(0), blind;

    *slot = (uintptr_t)other;
    blind = calls() + jump(0) == before;
    chosen_switch = 0;
    printf("blind %d moved %d edited %d bound %d chosen %d gone %d closed %d refused %d answered %d\n", blind,
           at < (uintptr_t)&__executable_start || at > (uintptr_t)&end, edited(0) - 1, bound(), chosen(), gone(), closed(),
           !dlopen("libunlisted.so", RTLD_NOW), answered());
    fflush(stdout);
    return getchar() == EOF;
}
