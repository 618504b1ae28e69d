/* SPDX-License-Identifier: MIT
 *
 * Symbols are found through DT_GNU_HASH, through DT_HASH alone, and in the vDSO, as
 * dlsym and dlvsym find them.  A failure means that the functions of objects of one
 * linker setting are not found.  The arguments are the objects.
 */
#include "../image/process.h"

#include <dlfcn.h>

static struct mvld_image *image;

static void compare(const struct mvld_object *object, void *handle, const char *name,
                    const char *version)
{
    struct mvld_symbol symbol = {0};
    int result = rimf_api()->symbol_find(object, name, version, &symbol);
    void *want = version ? dlvsym(handle, name, version) : dlsym(handle, name);

    if (symbol.type == STT_GNU_IFUNC) { /* dlsym asked its resolver */
        CHECK(want == dlsym(handle, "plain"));
        return;
    }
    CHECK((void *)symbol.address == want, "(%s@%s of %s is %lx, want %p)", name,
          version ? version : "", object->name, (unsigned long)symbol.address, want);
    CHECK(result == (want ? 0 : -ENOENT));
}

static void of_object(const char *path)
{
    static const char *const names[] = {"plain",         "data_of", "entry",   "versioned",
                                        "old_versioned", "outside", "indirect"};
    static const char *const versions[] = {NULL, "V1", "V2", "V3"};
    static struct process process;
    struct rimf_change change;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

    CHECK(handle != NULL, "(%s)", dlerror());
    process_read(&process);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(change.n_added == 1);
    for (size_t i = 0; i < RIMF_COUNT(names); i++)
        for (size_t k = 0; k < RIMF_COUNT(versions); k++)
            compare(change.added[0], handle, names[i], versions[k]);
    CHECK(change.added[0]->build_id_size == 20);
}

static void of_vdso(void)
{
    struct mvld_symbol symbol;
    const struct mvld_object *vdso;

    if (!getauxval(AT_SYSINFO_EHDR))
        return;
    vdso = rimf_api()->object_find(image, getauxval(AT_SYSINFO_EHDR));
    CHECK(vdso && vdso->flags & MVLD_OBJECT_VDSO && vdso->why);
    CHECK(rimf_api()->symbol_find(vdso, "__vdso_clock_gettime", "LINUX_2.6", &symbol) == 0);
    CHECK(rimf_api()->object_holds(vdso, symbol.address, 1, PROT_READ | PROT_EXEC));
    CHECK(rimf_api()->symbol_find(vdso, "__vdso_clock_gettime", "LINUX_9", &symbol) == -ENOENT);
    /* The global scope does not hold it. */
    CHECK(rimf_api()->symbol_resolve(image, "__vdso_clock_gettime", NULL, &symbol) == -ENOENT);
}

int main(int argc, char **argv)
{
    image = process_image();
    CHECK(argc == 4);
    for (int i = 1; i < argc; i++)
        of_object(argv[i]);
    of_vdso();
    rimf_image_destroy(image);
    return 0;
}
