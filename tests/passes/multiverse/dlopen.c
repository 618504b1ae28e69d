/* SPDX-License-Identifier: MIT
 *
 * Objects that come by dlopen take the state in force, those that go are
 * forgotten, and what comes back at the same place counts as new.
 * Arguments: a library with call sites alone, one with its own variation point.
 */
#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include "check.h"

/* check_calls() of the executable's is not used: there are no sites in it. */
const struct caller callers[] = {{0}};

static void gives(void *library, const char *when, int want)
{
    const struct caller *c = dlsym(library, "callers");

    CHECK(c);
    for (; c->name; c++)
        CHECK(c->call() == want, "(%s: %s gives %d, want %d)", when, c->name, c->call(), want);
}

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    CHECK(library, "(%s)", dlerror());
    return library;
}

static void sites_come(const char *path)
{
    void *library;

    mode = 0;
    CHECK(multiverse_commit() == 1);
    mode = 1; /* not committed */
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    gives(library, "the state in force", 1000);
    CHECK(multiverse_info_fn(decide)->n_callsites == 9);
    CHECK(dlclose(library) == 0);
    CHECK(multiverse_info_fn(decide)->n_callsites == 0);

    /* Between these two calls nobody looked. */
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    CHECK(dlclose(library) == 0);
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    CHECK(multiverse_info_fn(decide)->n_callsites == 9);
    gives(library, "opened again", 1000);
    CHECK(multiverse_commit() == 1);
    CHECK(!strstr(multiverse_report(), "bytes"));
    gives(library, "committed", 1001);
    CHECK(multiverse_revert() == 1);
    gives(library, "reverted", 101);
    CHECK(dlclose(library) == 0);
}

static void functions_come(const char *path)
{
    void *library;

    mode = 0;
    CHECK(multiverse_commit() == 1);
    mode = 1;
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    gives(library, "a function in force, by the committed value", 1000);
    CHECK(multiverse_info_var(&mode)->n_functions == 2);
    CHECK(multiverse_commit() == 2);
    gives(library, "committed", 1001);
    CHECK(dlclose(library) == 0);
    CHECK(multiverse_info_var(&mode)->n_functions == 1);

    CHECK(multiverse_revert() == 1);
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    gives(library, "after a revert", 101);
    CHECK(dlclose(library) == 0);

    CHECK(multiverse_commit_refs(&mode) == 1);
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    gives(library, "after a commit of the switch", 1001);
    CHECK(multiverse_revert_refs(&mode) == 2);
    CHECK(dlclose(library) == 0);

    CHECK(multiverse_commit() == 1);
    CHECK(multiverse_revert_refs(&mode) == 1);
    library = open_library(path);
    CHECK(multiverse_init() == 0);
    gives(library, "the last word counts", 101);
    CHECK(multiverse_commit_fn(decide) == 1);
    gives(library, "one function says nothing of others", 101);
    CHECK(dlclose(library) == 0);
    CHECK(multiverse_revert() == 1);
}

static void count(const struct multiverse_info_fn *info, void *cookie)
{
    CHECK(info->outcome == MULTIVERSE_GENERIC && info->error == ENOENT && !info->active);
    ++*(int *)cookie;
}

/* What came without a fitting variant is told with the next commit, whomever that reaches. */
static void misses_come(const char *path)
{
    void *library;
    int reported = 0;

    mode = 42;
    CHECK(multiverse_commit() == 0);
    multiverse_on_miss(count, &reported);
    library = open_library(path);
    CHECK(multiverse_init() == 0 && reported == 0);
    CHECK(multiverse_commit_fn(decide) == 0 && reported == 2, "(%d were reported)", reported);
    CHECK(multiverse_status()->n_generic == 1);
    CHECK(multiverse_commit_fn(decide) == 0 && reported == 3, "(%d were reported)", reported);
    multiverse_on_miss(NULL, NULL);
    CHECK(dlclose(library) == 0);
    CHECK(multiverse_revert() == 0);
}

/* A copy of the library, whose PT_GNU_RELRO has become an empty PT_LOAD behind the others. */
static void with_empty_segment(const char *path, char *copy)
{
    static char file[1 << 20];
    FILE *from = fopen(path, "r");
    size_t size = fread(file, 1, sizeof file, from);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    Elf64_Phdr *phdr = (Elf64_Phdr *)(file + header->e_phoff);
    uint64_t end = 0;
    int found = 0, fd = mkstemp(copy);

    CHECK(size && size < sizeof file && fd >= 0);
    for (int i = 0; i < header->e_phnum; i++) {
        if (phdr[i].p_type == PT_LOAD)
            end = (phdr[i].p_vaddr + phdr[i].p_memsz + 4095) & -4096UL;
        if (phdr[i].p_type == PT_GNU_RELRO) {
            phdr[i] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = end,
                                   .p_paddr = end, .p_align = 4096};
            found = 1;
        }
    }
    CHECK(found && write(fd, file, size) == (ssize_t)size);
    close(fd);
    fclose(from);
}

/* What stays when another library goes keeps its state, whatever its segments look like. */
static void others_go(const char *path, const char *other)
{
    char copy[] = "/tmp/multiverse_dlopen.XXXXXX";
    void *library;

    with_empty_segment(path, copy);
    library = open_library(copy);
    unlink(copy);
    mode = 1;
    CHECK(multiverse_commit() == 2);
    gives(library, "committed", 1001);
    CHECK(dlclose(open_library(other)) == 0);
    CHECK(multiverse_init() == 0);
    gives(library, "another one went", 1001);
    CHECK(multiverse_revert() == 2);
    gives(library, "reverted", 101);
    CHECK(dlclose(library) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    sites_come(argv[1]);
    functions_come(argv[2]);
    misses_come(argv[2]);
    others_go(argv[2], argv[1]);
    return 0;
}
