/* SPDX-License-Identifier: MIT
 *
 * For every symbol that libc, libm, libstdc++ and the host loader export, the image
 * gives the address that dlsym and dlvsym give, from the object alone and from the
 * global scope.  A failure means that a pass would patch the wrong function, or
 * none.
 *
 * Skipped are IFUNCs (dlsym calls the resolver), thread-locals, and versions that
 * are nobody's definition.
 */
#include "../image/process.h"

#include <dlfcn.h>

static struct mvld_image *image;
static size_t compared;

static uintptr_t expected(void *handle, const char *name, const char *version)
{
    return (uintptr_t)(version ? dlvsym(handle, name, version) : dlsym(handle, name));
}

/* What the image says, or 0. */
static uintptr_t answered(const struct mvld_object *object, const char *name, const char *version,
                          int *ifunc)
{
    struct mvld_symbol symbol;
    int result = object ? rimf_api()->symbol_find(object, name, version, &symbol)
                        : rimf_api()->symbol_resolve(image, name, version, &symbol);

    *ifunc = 0;
    if (result)
        return 0;
    CHECK_STR(symbol.name, name);
    CHECK(!version || !symbol.version || strcmp(version, symbol.version) == 0);
    *ifunc = symbol.type == STT_GNU_IFUNC || symbol.type == STT_TLS;
    return symbol.address;
}

static void compare(const struct mvld_object *object, void *handle, const char *name,
                    const char *version)
{
    int ifunc;
    uintptr_t is = answered(object, name, version, &ifunc), want;

    if (ifunc)
        return;
    want = expected(handle, name, version);
    CHECK(is == want, "(%s@%s of %s is %lx, want %lx)", name, version ? version : "",
          object ? object->name : "the scope", (unsigned long)is, (unsigned long)want);
    compared++;
}

static void all_symbols(const char *file)
{
    const struct mvld_object *object = process_object(image, file);
    const struct elf_view *view = &rimf_object_of(object)->view;
    void *handle = dlopen(object->name, RTLD_NOLOAD | RTLD_LAZY);
    /* .dynstr follows .dynsym in every object of these linkers. */
    size_t n = ((uintptr_t)view->strings - (uintptr_t)view->symbols) / sizeof(Elf64_Sym);
    size_t before = compared;

    CHECK(handle != NULL, "(%s)", dlerror());
    /* glibc 2.36 finds nothing through a handle of its own loader: compare the
     * scope alone. */
    if (object->flags & MVLD_OBJECT_LOADER)
        object = NULL;
    for (size_t i = 1; i < n; i++) {
        Elf64_Sym symbol;
        const char *name, *version;
        uint16_t entry;

        CHECK(elf_symbol_at(view, i, &symbol) == 0);
        name = elf_string(view, symbol.st_name);
        CHECK(name != NULL);
        if (symbol.st_shndx == SHN_UNDEF || !*name ||
            ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC ||
            ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
            continue;
        CHECK(elf_versym(view, i, &entry) == 0);
        version = elf_version_defined(view, entry & ELF_VERSION_INDEX);
        if (object)
            compare(object, handle, name, NULL);
        compare(NULL, RTLD_DEFAULT, name, NULL);
        if (object && version)
            compare(object, handle, name, version);
        if (version)
            compare(NULL, RTLD_DEFAULT, name, version);
        if (object)
            compare(object, handle, name, "NO_SUCH_VERSION");
    }
    CHECK(compared - before > 20, "(only %zu symbols of %s)", compared - before, file);
    dlclose(handle);
}

static void absent(void)
{
    struct mvld_symbol symbol;

    CHECK(rimf_api()->symbol_resolve(image, "no_such_symbol", NULL, &symbol) == -ENOENT);
    CHECK(rimf_api()->symbol_resolve(image, "", NULL, &symbol) == -ENOENT);
    CHECK(rimf_api()->symbol_resolve(image, "puts", "GLIBC_9.9", &symbol) == -ENOENT);
    CHECK(rimf_api()->symbol_resolve(image, "errno", NULL, &symbol) != 0 ||
          symbol.type == STT_TLS);
}

int main(void)
{
    /* One with two versions in libc, the default one not the first. */
    struct mvld_symbol old, new;

    image = process_image();
    all_symbols("libc.so.6");
    all_symbols("libm.so.6");
    all_symbols("libstdc++.so.6");
    all_symbols("ld-linux-x86-64.so.2");
    absent();
    CHECK(rimf_api()->symbol_resolve(image, "memcpy", "GLIBC_2.2.5", &old) == 0);
    CHECK(rimf_api()->symbol_resolve(image, "memcpy", NULL, &new) == 0);
    CHECK_STR(new.version, "GLIBC_2.14");
    CHECK_STR(old.version, "GLIBC_2.2.5");
    rimf_image_destroy(image);
    printf("%zu answers compared\n", compared);
    return 0;
}
