/* SPDX-License-Identifier: MIT
 *
 * plt_target() follows PLT entries of every linker's making to the library's
 * function, bound or not, and takes nothing else for one.  Built with each linker,
 * at a fixed address (where the address of a library's function is that of a PLT
 * entry) and position-independent, lazy and not, with and without CET.  A failure
 * means that a switch's call site is bound to the wrong function, or not found.
 */
#include "process.h"

#include <dlfcn.h>

int lib_plain(int), lib_other(int), lib_ifunc(int);

static struct mvld_image *image;
static int (*volatile pointer)(int) = lib_plain;

/* Begins as a PLT entry does. */
__attribute__((noinline)) int through_pointer(int x)
{
    return pointer(x);
}

/* The entry that a call goes to. */
#define ENTRY_OF(function)                                                             \
    ({                                                                                 \
        uintptr_t entry;                                                               \
        __asm__("lea " #function "@PLT(%%rip), %0" : "=r"(entry));                     \
        entry;                                                                         \
    })

static uintptr_t target(uintptr_t address)
{
    return rimf_api()->plt_target(image, address);
}

static void is(const char *what, uintptr_t got, uintptr_t want)
{
    Dl_info info = {0};

    dladdr((void *)got, &info);
    CHECK(got == want, "(%s: %lx, %s in %s; want %lx)", what, (unsigned long)got, info.dli_sname,
          info.dli_fname, (unsigned long)want);
}

static void stays(uintptr_t address)
{
    is("no entry", target(address), address);
}

int main(void)
{
    uintptr_t plain, other, ifunc, canonical = (uintptr_t)lib_plain;
    uintptr_t plain_entry = ENTRY_OF(lib_plain), other_entry = ENTRY_OF(lib_other),
              ifunc_entry = ENTRY_OF(lib_ifunc);
    struct mvld_symbol symbol;
    void *library;

    image = process_image();
    library = dlopen(process_object(image, "libplt_library.so")->name, RTLD_NOLOAD | RTLD_LAZY);
    CHECK(library != NULL, "(%s)", dlerror());
    plain = (uintptr_t)dlsym(library, "lib_plain");
    other = (uintptr_t)dlsym(library, "lib_other");
    ifunc = (uintptr_t)dlsym(library, "lib_ifunc");
#ifdef FIXED_ADDRESS
    CHECK(canonical != plain);
#endif
    CHECK(plain_entry != plain && other_entry != other && ifunc_entry != ifunc);

    is("address of", target(canonical), plain);
    CHECK(rimf_api()->symbol_resolve(image, "lib_plain", NULL, &symbol) == 0);
    is("definition of", symbol.address, plain);
    is("never called", target(plain_entry), plain);
    is("not called yet", target(other_entry), other);
    CHECK(lib_other(1) == 3);
    is("called", target(other_entry), other);
    CHECK(target(ifunc_entry) == ifunc_entry || target(ifunc_entry) == ifunc);
    CHECK(lib_ifunc(1) == 4);
    is("ifunc, called", target(ifunc_entry), ifunc);

    stays(plain);
    stays((uintptr_t)through_pointer);
    CHECK(through_pointer(1) == 2);
    stays((uintptr_t)main);
    stays((uintptr_t)&image);
    stays((uintptr_t)image);
    stays(0);
    stays(UINTPTR_MAX);
    /* Whatever lies around the entries: no fault, and a function or the address. */
    for (uintptr_t at = plain_entry - 256; at < plain_entry + 256; at++) {
        uintptr_t to = target(at);

        CHECK(to == at || to == plain || to == other || to == ifunc ||
              rimf_api()->object_find(image, to) != rimf_api()->object_find(image, at));
    }
    rimf_image_destroy(image);
    return 0;
}
