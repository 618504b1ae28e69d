// SPDX-License-Identifier: MIT
//
// A library asks dl_iterate_phdr in which object its own functions lie, by lea and by words of data, and
// calls virtual functions: those have the addresses of moved code, as only tables hold
// them; the others the original ones.  Calls are right, through both kinds of pointers.
//
// A failure means that a library looks for its files beside another object's, or that virtual
// functions are entered in the original, where only a jump leads on.
//
// build: libvirtuals.so -DNAME=linked -fno-rtti
// build: libtyped.so -DNAME=typed
// build: program libvirtuals.so libtyped.so
// run:
#include "identity.h"

#include <initializer_list>

#define JOIN(a, b) a##b
#define FUNCTION(x) JOIN(x, _virtuals)

#ifdef NAME
namespace {

struct shape {
    virtual int sides(int n) { return n; }
    virtual int pure(int n) = 0;
    virtual int corners(int n) { return n * 2; }
    virtual int edges(int n) { return n * 3; }
};
struct other {
    virtual int weight(int n) { return n * 5; }
};
struct square : shape, other {
    int pure(int n) override { return n * 7; }
    int edges(int n) override { return n * 11; }
    int weight(int n) override { return n * 13; }
};

int holds(struct dl_phdr_info *info, size_t, void *cookie)
{
    uintptr_t at = *(uintptr_t *)cookie;

    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            at - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz) {
            printf("it lies in %s\n", strrchr(info->dlpi_name, '/'));
            return 1;
        }
    return 0;
}

void locate(void *function)
{
    uintptr_t at = (uintptr_t)function;

    if (!dl_iterate_phdr(holds, &at))
        printf("it lies nowhere\n");
}

int named(int n)
{
    return n * 17;
}

typedef int function(int);
function *word = named;
struct {
    const char *name;
    function *call;
} const entries[] = {{"one", named}, {"none", nullptr}};

void call(shape *s, other *o)
{
    for (void *function : {(*(void ***)s)[0], (*(void ***)s)[1], (*(void ***)s)[2],
                           (*(void ***)s)[3], (*(void ***)o)[0]})
        identity_look(function, "virtual", __LINE__);
    printf("%d %d %d %d %d\n", s->sides(2), s->pure(2), s->corners(2), s->edges(2), o->weight(2));
}

} // namespace

extern "C" void FUNCTION(NAME)()
{
    function *volatile from_code = named;
    auto *volatile table = entries;
    square one;
    shape *volatile s = &one;
    other *volatile o = &one;

    RUNS;
    locate((void *)FUNCTION(NAME));
    locate((void *)from_code);
    locate((void *)word);
    locate((void *)table[0].call);
    printf("%d %d\n", from_code == word, table[0].call(2));
    call(s, o);
}
#else
extern "C" void linked_virtuals();
extern "C" void typed_virtuals();

int main()
{
    RUNS;
    linked_virtuals();
    typed_virtuals();
}
#endif
