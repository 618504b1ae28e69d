/* SPDX-License-Identifier: MIT
 *
 * room.c LIBCONCAT [LOADER]: what the host loader, the kernel and unwinders make of libconcat.so.1,
 * which is preloaded into this program; by mvld, with the pass and nothing that it may move, when
 * LOADER is that.  A failure means: it costs memory or a promise of memory, cannot be found by
 * address, faults when asked about a stray address, or answers a look-up that is not its own.
 */
#include "../../check.h"
#include "room.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct answer {
    uintptr_t address, frames;
    int found;
};

static const uintptr_t page = 4096;

static int visit(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct answer *a = cookie;
    uintptr_t frames = 0;
    int holds = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_LOAD)
            holds |= a->address - start < ph->p_memsz;
        else if (ph->p_type == PT_GNU_EH_FRAME)
            frames = start;
    }
    a->found += holds;
    if (holds)
        a->frames = frames;
    return 0;
}

static uintptr_t find(const char *name, size_t size)
{
    ElfW(Sym) *symbol = NULL;
    Dl_info info;
    void *at = dlsym(RTLD_DEFAULT, name);

    CHECK(at, "%s", name);
    CHECK(dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT), "%s", name);
    CHECK_STR(info.dli_sname, name);
    CHECK(symbol->st_size == size, "%s has %ju bytes", name, (uintmax_t)symbol->st_size);
    return (uintptr_t)at;
}

/* Its mapping has these rights, no page, and is not promised ("ac"). */
static void is_free(uintptr_t at, size_t size, const char *rights)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[4096], is[5];
    uintptr_t start, end;
    size_t seen = 0;
    int inside = 0;

    CHECK(smaps, "no /proc");
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, is) == 3) {
            inside = start < at + size && end > at;
            if (inside) {
                CHECK_STR(is, rights);
                seen += (end < at + size ? end : at + size) - (start > at ? start : at);
            }
        } else if (inside && strncmp(line, "Rss:", 4) == 0) {
            CHECK(strtoul(line + 4, NULL, 10) == 0, "%s", line);
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            CHECK(!strstr(line, " ac"), "%s", line);
        }
    }
    fclose(smaps);
    CHECK(seen == size, "%zx of %zx bytes are mapped", seen, size);
}

/* What the C library since glibc 2.35 and the compiler's run-time library answer. */
static void ask_unwinders(uintptr_t address, uintptr_t frames)
{
    struct { /* struct dl_find_object */
        unsigned long long flags;
        void *start, *end;
        struct link_map *map;
        void *eh_frame;
        unsigned long long reserved[7];
    } object;
    int (*find_object)(void *, void *) =
        (int (*)(void *, void *))(uintptr_t)dlsym(RTLD_DEFAULT, "_dl_find_object");
    struct {
        void *text, *data, *function;
    } bases;
    const void *(*find_fde)(const void *, void *);
    void *libgcc = dlopen("libgcc_s.so.1", RTLD_NOW);

    if (find_object) {
        CHECK(!find_object((void *)address, &object), "_dl_find_object knows nothing");
        CHECK((uintptr_t)object.eh_frame == frames, "eh_frame at %p", object.eh_frame);
        CHECK(strstr(object.map->l_name, "libconcat.so.1"), "%s", object.map->l_name);
    }
    if (libgcc) {
        find_fde = (const void *(*)(const void *, void *))(uintptr_t)dlsym(libgcc,
                                                                          "_Unwind_Find_FDE");
        CHECK(find_fde && !find_fde((void *)address, &bases), "it found an FDE");
    }
}

/* Starts this program again, with the library in it. */
static int start_again(char **argv)
{
    char passes[PATH_MAX];

    setenv("ROOM_STARTED", "1", 1);
    if (argv[2]) {
        CHECK(realpath(argv[1], passes), "%s", argv[1]);
        *strrchr(passes, '/') = '\0'; /* the pass lies beside its library */
        setenv("MVLD_PASS_PATH", passes, 1);
        setenv("MVLD_TUNABLES", "app.passes=concat:concat.copy=always", 1);
        setenv("XDG_CACHE_HOME", "/nowhere", 1);
        execl(argv[2], argv[2], argv[0], argv[1], argv[2], (char *)NULL);
    } else {
        setenv("LD_PRELOAD", argv[1], 1);
        execv("/proc/self/exe", argv);
    }
    return 2;
}

int main(int argc, char **argv)
{
    struct answer a;
    uintptr_t code, frames;

    if (argc < 2)
        return 2;
    if (!getenv("ROOM_STARTED"))
        return start_again(argv);
    code = find("mvld_moved_code", CONCAT_CODE_SIZE);
    frames = find("mvld_moved_frames", CONCAT_FRAMES_SIZE);
    is_free(code, CONCAT_CODE_SIZE, "---p");
    if (argc == 2) {
        is_free(frames, CONCAT_FRAMES_SIZE, "---p");
        CHECK(!mprotect((void *)frames, page, PROT_READ), "as mvld does");
    }
    is_free(frames, page, "r--p");
    is_free(frames + page, CONCAT_FRAMES_SIZE - page, "---p");

    a = (struct answer){.address = code + 0x123456};
    dl_iterate_phdr(visit, &a);
    CHECK(a.found == 1 && a.frames == frames, "%d objects, frames %lx", a.found,
          (unsigned long)a.frames);
    ask_unwinders(a.address, frames);

    CHECK(!dlsym(RTLD_DEFAULT, "__jit_debug_descriptor"), "a name of others is answered");
    CHECK(!dlsym(RTLD_DEFAULT, "__jit_debug_register_code"), "a name of others is answered");
    int version;
    memcpy(&version, dlsym(RTLD_DEFAULT, "mvld_moved_jit"), sizeof version);
    CHECK(version == 1, "version %d of the JIT interface", version);
    ((void (*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "mvld_moved_jit_changed"))();
    return 0;
}
