/* SPDX-License-Identifier: MIT
 *
 * An unbound PLT entry of a dlopened library is followed while one later object
 * defines its symbol, and left alone when two do: only the host loader knows which
 * is meant.  A failure means that a call may be bound to a stranger's function of
 * the same name.
 */
#include "process.h"

#include <dlfcn.h>

/* argv: the library that calls, the two that define. */
int main(int argc, char **argv)
{
    static struct process process;
    struct mvld_image *image = process_image();
    struct rimf_change change;
    void *user, *definer;
    uintptr_t entry;

    CHECK(argc == 4);
    user = dlopen(argv[1], RTLD_LAZY);
    CHECK(user != NULL, "(%s)", dlerror());
    entry = ((uintptr_t(*)(void))dlsym(user, "entry_of_shared_name"))();
    process_read(&process);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(change.n_added == 1 && rimf_api()->plt_target(image, entry) == entry);

    definer = dlopen(argv[2], RTLD_LAZY);
    CHECK(definer != NULL, "(%s)", dlerror());
    process_read(&process);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(rimf_api()->plt_target(image, entry) == (uintptr_t)dlsym(definer, "shared_name"));

    CHECK(dlopen(argv[3], RTLD_LAZY) != NULL, "(%s)", dlerror());
    process_read(&process);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(change.n_added == 1 && rimf_api()->plt_target(image, entry) == entry);

    /* One of them goes. */
    dlclose(definer);
    process_read(&process);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(change.n_removed == 1 && change.n_added == 0);
    CHECK(rimf_api()->plt_target(image, entry) != entry);
    rimf_image_destroy(image);
    return 0;
}
