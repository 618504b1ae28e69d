/* SPDX-License-Identifier: MIT
 *
 * patch/replace.c: see patch.h.
 *
 * Before the jumps are written, the process runs unchanged code, whenever this tool ends.  They are written
 * while all threads are stopped, none of them inside the bytes that are replaced.
 */
#include "tools/patch/patch.h"
#include "tools/common/tools.h"

#include "rimf/x86/displace.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define REST_MS 3000
#define ENDBR64 4u /* bytes in front of a place */

struct work { /* one function */
    const struct replacement *what;
    uint64_t at; /* behind its endbr64 of `skip` bytes */
    unsigned skip;
    uint8_t in_file[PATCH_JUMP];
    uint64_t handle, target, page;
    struct patch_record record;
};

static int refuse(struct attach *a, const struct replacement *what, const char *why)
{
    return attach_fail(a, "process %d: %s:%s: %s", a->pid, what->library, what->function, why);
}

/* ---- the function, as its file has it -------------------------------------------------------------------- */

static int compare_id(void *cookie, uint64_t desc, uint32_t size)
{
    const struct elf_file *file = ((const void **)cookie)[0];
    const char *wanted = ((const void **)cookie)[1];
    uint8_t byte;
    char digits[3];
    int same = strlen(wanted) == 2 * (size_t)size;

    for (uint32_t i = 0; same && i < size; i++) {
        same = !elf_read(file, desc + i, &byte, 1);
        snprintf(digits, sizeof digits, "%02x", byte);
        same = same && !strncmp(digits, wanted + 2 * (size_t)i, 2);
    }
    return same;
}

/* Whether the symbol has this name: NAME, NAME@VERSION or NAME@@VERSION. */
static int has_name(const struct elf_file *file, const struct elf_symbol *s, const char *name)
{
    size_t length = strcspn(name, "@"), ats = strspn(name + length, "@");
    const char *version = ats ? elf_symbol_version(file, s) : NULL;

    return !strncmp(s->name, name, length) && !s->name[length] &&
           (!ats || (version && !strcmp(version, name + length + ats)));
}

/* The symbol, if all functions of this name have one address.  Without a version it is the default one, if any is. */
static const struct elf_symbol *find_symbol(struct attach *a, const struct elf_file *file, const struct replacement *what)
{
    const struct elf_symbol *found = NULL;
    int several = 0;

    for (size_t i = 0; i < file->n_functions; i++) {
        const struct elf_symbol *s = &file->functions[i];
        int is_better = !found || elf_symbol_is_hidden(s) < elf_symbol_is_hidden(found);

        if (!has_name(file, s, what->function) || (found && elf_symbol_is_hidden(s) > elf_symbol_is_hidden(found)))
            continue;
        several = !is_better && (several || (found->address != s->address && !found->is_ifunc));
        if (is_better || s->size > found->size)
            found = s;
    }
    if (!found || several)
        refuse(a, what, found ? "several functions have this name" : "there is no such function");
    return several ? NULL : found;
}

static int look_up(struct attach *a, struct work *w, const char *build_id)
{
    const struct attach_object *object;
    size_t n = attach_all_named(a, w->what->library, &object);
    const struct elf_symbol *symbol;
    struct elf_file file;
    const char *why;
    int err = -1;

    if (!n)
        return attach_fail(a, "process %d: there is no %s in it", a->pid, w->what->library);
    if (n > 1)
        return attach_fail(a, "process %d: several are named %s: say which, as %s", a->pid, w->what->library, object->name);
    if (attach_elf(a, object, &file))
        attach_fail(a, "process %d: %s: %s", a->pid, object->name, file.error);
    else if (build_id && elf_notes(&file, "GNU", NT_GNU_BUILD_ID, compare_id, (const void *[]){&file, build_id}) != 1)
        refuse(a, w->what, "the library has another build-id");
    else if ((symbol = find_symbol(a, &file, w->what))) {
        why = entry_check(&file, symbol, &w->skip);
        w->at = object->bias + symbol->address + (why ? 0 : w->skip);
        err = why ? refuse(a, w->what, why) : elf_read(&file, w->at - object->bias, w->in_file, PATCH_JUMP);
    }
    elf_file_close(&file);
    return err;
}

/* The process opens the file by its name, in its own root folder and mounts. */
static int check_file(struct attach *a, const struct replacement *what)
{
    struct stat ours, its;
    char path[4200];

    snprintf(path, sizeof path, "/proc/%d/root%s", a->pid, what->file);
    if (!stat(what->file, &ours) && !stat(path, &its) && ours.st_dev == its.st_dev && ours.st_ino == its.st_ino)
        return 0;
    return attach_fail(a, "process %d sees another file as %s, or none: its root folder or its mounts are others", a->pid,
                       what->file);
}

static int check_twice(struct attach *a, const struct work *w, size_t n, const struct patched *list, size_t n_list)
{
    for (size_t i = 0; i < n_list; i++)
        if (list[i].in_force && list[i].record.entry == w[n].at)
            return attach_fail(a, "process %d: %s:%s is replaced already, by %s of %s: --undo %s:%s first", a->pid,
                               w[n].what->library, w[n].what->function, list[i].what.with, list[i].what.file,
                               list[i].what.library, list[i].what.function);
    for (size_t i = 0; i < n; i++)
        if (w[i].at == w[n].at)
            return refuse(a, w[n].what, "it is named twice");
    return 0;
}

static int look_up_all(struct attach *a, struct work *w, size_t n, const char *build_id)
{
    struct patched *list;
    size_t n_list;
    int err = records_read(a, &list, &n_list);

    for (size_t i = 0; !err && i < n; i++)
        err = look_up(a, &w[i], build_id) || check_file(a, w[i].what) || check_twice(a, w, i, list, n_list) ? -1 : 0;
    free(list);
    return err;
}

/* ---- what is prepared in the process ----------------------------------------------------------------------- */

static int add_place(struct attach *a, struct work *w, unsigned i, uint64_t at, int as_in_file)
{
    struct patch_place *place = &w->record.places[i];

    /* The kernel writes page by page, and this tool may be killed between two. */
    if (at / PATCH_PAGE != (at + PATCH_JUMP - 1) / PATCH_PAGE)
        return refuse(a, w->what, "its first bytes lie on two pages, and are not written at once");
    if (attach_read(a, at, place->was, PATCH_JUMP))
        return refuse(a, w->what, "its code cannot be read");
    if (as_in_file && memcmp(place->was, w->in_file, PATCH_JUMP) != 0)
        return refuse(a, w->what, "its first bytes are not those of its file: somebody else has changed them");
    place->at = at;
    return 0;
}

/* dlsym(3) finds data as well, and searches what the file depends on: there it may find the function itself. */
static int check_target(struct attach *a, const struct work *w)
{
    char why[200];

    for (int i = 0; i < 2; i++)
        if (w->record.places[i].at && w->record.places[i].at - w->target <= w->skip)
            return refuse(a, w->what, "it would be replaced by itself, and never end");
    if (attach_is_code(a, w->target))
        return 0;
    snprintf(why, sizeof why, "%.100s, by which it is to be replaced, is no function", w->what->with);
    return refuse(a, w->what, why);
}

/* The replacement of what is at `address`, among those of the process and ours; or NULL. */
static const struct patch_record *record_at(const struct patched *list, size_t n_list, const struct work *w, size_t n,
                                            uint64_t address)
{
    for (size_t i = 0; i < n_list + n; i++) {
        const struct patch_record *r = i < n_list ? &list[i].record : &w[i - n_list].record;

        for (int k = 0; k < 2 && (i >= n_list || list[i].in_force); k++)
            if (r->places[k].at && r->places[k].at - address <= ENDBR64)
                return r;
    }
    return NULL;
}

/* f by g, and g by f: who calls one would go round for ever. */
static int check_circles(struct attach *a, const struct work *w, size_t n)
{
    struct patched *list;
    size_t n_list;
    int err = records_read(a, &list, &n_list) ? attach_fail(a, "process %d has ended", a->pid) : 0;

    for (size_t i = 0; !err && i < n; i++) {
        const struct patch_record *r = &w[i].record;

        for (size_t steps = 0; r && steps <= n_list + n; steps++)
            r = record_at(list, n_list, w, n, record_target(r));
        err = r ? refuse(a, w[i].what, "what it would be replaced by is replaced by it, and neither would end") : 0;
    }
    free(list);
    return err;
}

/* Finds the addresses where the function runs: where it was mapped, where concat moved it to, or both. */
static int find_places(struct attach *a, struct work *w, const struct moved *m)
{
    uint64_t copy;
    int runs = moved_places(a, m, w->at, &copy);

    if (runs < 0 || (runs && add_place(a, w, 0, w->at, 1)) || (copy && add_place(a, w, 1, copy, 0)))
        return -1;
    return runs || copy ? 0 : refuse(a, w->what, "mvld has moved it, and does not say to where");
}

static int make_page(struct attach *a, struct work *w)
{
    uint64_t result = (uint64_t)-ENOMEM;

    for (int tries = 0; tries < 5 && result != w->page; tries++) { /* another thread may be quicker */
        w->page = record_room(a, w->record.places);
        if (!w->page)
            return refuse(a, w->what, "there is no free page near it");
        if (attach_system_call(a, SYS_mmap, (uint64_t[6]){w->page, PATCH_PAGE, PROT_READ | PROT_EXEC,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~UINT64_C(0), 0}, &result))
            return -1;
        if ((int64_t)result > 0 && result != w->page) /* a kernel before 4.17 takes it as a hint */
            attach_system_call(a, SYS_munmap, (uint64_t[6]){result, PATCH_PAGE}, &result);
    }
    if (result != w->page) {
        w->page = 0;
        return refuse(a, w->what, "the process may have no new code");
    }
    for (int i = 0; i < 2; i++) {
        struct patch_place *place = &w->record.places[i];

        if (place->at && displace_jump(place->now, place->at, w->page))
            return refuse(a, w->what, "there is no free page near it");
    }
    return attach_write(a, w->page, &w->record, sizeof w->record) ? refuse(a, w->what, "the page cannot be written") : 0;
}

static int prepare(struct attach *a, struct work *w, const struct moved *m)
{
    if (attach_open_library(a, w->what->file, RTLD_NOW | RTLD_LOCAL, &w->handle) ||
        attach_symbol(a, w->handle, w->what->with, &w->target))
        return -1;
    record_make(&w->record, w->what, w->target);
    w->record.entry = w->at;
    return find_places(a, w, m) || check_target(a, w) || make_page(a, w) ? -1 : 0;
}

/* Restores the old bytes.  If that fails, `why` keeps its sentence. */
static void take_back(struct attach *a, const struct work *w, size_t n)
{
    char why[sizeof a->why];
    uint64_t result;

    memcpy(why, a->why, sizeof why);
    for (size_t i = 0; a->thread && i < n; i++) {
        if (w[i].page)
            attach_system_call(a, SYS_munmap, (uint64_t[6]){w[i].page, PATCH_PAGE}, &result);
        if (w[i].handle)
            attach_close_library(a, w[i].handle);
    }
    memcpy(a->why, why, sizeof why);
}

/* ---- */

int replace_functions(struct attach *a, const struct replacement *what, size_t n, const char *build_id)
{
    struct work *w = must_alloc(n, sizeof *w);
    struct patch_place *places = must_alloc(2 * n, sizeof *places);
    size_t n_places = 0;
    struct moved m;
    int err;

    for (size_t i = 0; i < n; i++)
        w[i].what = &what[i];
    err = moved_find_loader(a, &m) || look_up_all(a, w, n, build_id) || attach_begin(a, REST_MS) ? -1 : 0;
    for (size_t i = 0; !err && i < n; i++)
        err = prepare(a, &w[i], &m);
    err = err || check_circles(a, w, n) ? -1 : 0;
    for (size_t i = 0; !err && i < n; i++)
        for (int k = 0; k < 2; k++)
            if (w[i].record.places[k].at)
                places[n_places++] = w[i].record.places[k];
    if (!err)
        err = write_all(a, places, n_places, NULL, 0);
    if (err && a->stopped)
        take_back(a, w, n);
    free(places);
    free(w);
    return err;
}

/* The newest record of this function that is in force; else one that is not. */
static const struct patched *find_record(const struct patched *list, size_t n, const struct replacement *what)
{
    const struct patched *found = NULL;

    for (size_t i = 0; i < n; i++)
        if (record_is_of(&list[i], what->library, what->function) && (!found || list[i].in_force))
            found = &list[i];
    return found;
}

/* A place without the jump, because its library has gone, is not changed. */
static size_t add_back(const struct attach *a, const struct patched *p, struct patch_place *places)
{
    size_t n = 0;

    for (int k = 0; k < 2; k++) {
        const struct patch_place *place = &p->record.places[k];
        uint8_t bytes[PATCH_JUMP];

        if (!place->at || attach_read(a, place->at, bytes, PATCH_JUMP) || memcmp(bytes, place->now, PATCH_JUMP) != 0)
            continue;
        places[n].at = place->at;
        memcpy(places[n].was, place->now, sizeof place->now);
        memcpy(places[n++].now, place->was, sizeof place->was);
    }
    return n;
}

int undo_functions(struct attach *a, const struct replacement *what, size_t n)
{
    struct patched *list = NULL;
    struct patch_place *places = must_alloc(2 * n, sizeof *places);
    uint64_t *pages = must_alloc(n, sizeof *pages), result;
    size_t n_list = 0, n_places = 0;
    int err = records_read(a, &list, &n_list);

    for (size_t i = 0; !err && i < n; i++) {
        const struct patched *p = find_record(list, n_list, &what[i]);

        err = p ? 0 : refuse(a, &what[i], "it is not in the list of what is replaced");
        pages[i] = p ? p->page : 0;
        for (size_t k = 0; !err && k < i; k++)
            err = pages[k] == pages[i] ? refuse(a, &what[i], "it is named twice") : 0;
        n_places += !err ? add_back(a, p, places + n_places) : 0;
    }
    if (!err)
        err = attach_begin(a, REST_MS) || write_all(a, places, n_places, pages, n) ? -1 : 0;
    for (size_t i = 0; !err && i < n; i++)
        err = attach_system_call(a, SYS_munmap, (uint64_t[6]){pages[i], PATCH_PAGE}, &result);
    free(list);
    free(places);
    free(pages);
    return err;
}
