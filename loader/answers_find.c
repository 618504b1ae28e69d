/* SPDX-License-Identifier: MIT
 *
 * loader/answers_find.c: where the C library looks from an address to an object.
 *
 *   _dl_find_dso_for_object   the host loader's; the library calls it, so every glibc
 *                             exports it (GLIBC_PRIVATE)
 *   _dl_addr                  the C library's; exported by glibc before 2.34, where
 *                             libdl calls it; a local function since then
 *   do_sym                    the C library's; local.  It compares the caller of
 *                             dlsym(RTLD_NEXT) with the bounds of the executable
 *
 * _dl_addr, where it is local, is what dladdr and dladdr1 both end in:
 *
 *     dladdr:   …                               dladdr1:  …
 *               xor %ecx,%ecx                             …
 *               xor %edx,%edx                             …
 *               jmp _dl_addr                              jmp _dl_addr
 *
 * It is taken for that when nothing before these jumps changes the first argument, when
 * they lead nowhere else, when unwind tables say that a function begins there, and when it
 * calls _dl_find_dso_for_object.
 *
 * do_sym is the only other function near _dl_addr that does, and its instructions are of one
 * shape (answers_code.c).
 *
 * And that the host loader itself asks _dl_find_dso_for_object who called dlopen, instead
 * of having a copy of that code inlined, is proved by a call near it.  What is not so is
 * not known: then nobody is hooked, and nothing may run in copies.
 */
#include "answers.h"

#include "image.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define RX (PROT_READ | PROT_EXEC)
#define NEAR 16384u /* functions of one source file lie together */

static const struct mvld_object *object_with(const struct mvld_image *image, const char *name,
                                             const char *version)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_symbol symbol;

    for (size_t i = 0, n = api->object_count(image); i < n; i++) {
        const struct mvld_object *object = api->object_at(image, i);

        if (object && api->symbol_find(object, name, version, &symbol) == 0)
            return object;
    }
    return NULL;
}

int answers_exported(const struct mvld_object *object, const char *name, const char *version,
                     struct answer *out)
{
    struct mvld_symbol symbol;

    if (rimf_api()->symbol_find(object, name, version, &symbol) || symbol.type != STT_FUNC ||
        !symbol.size || !rimf_api()->object_holds(object, symbol.address, symbol.size, RX))
        return -ENOENT;
    *out = (struct answer){symbol.address, symbol.size};
    return 0;
}

/* ---- unwind tables ---------------------------------------------------------------- */

static int readable(const struct mvld_object *object, uintptr_t at, size_t size)
{
    return rimf_api()->object_holds(object, at, size, PROT_READ);
}

/* The header that linkers write: version 1; pcrel|sdata4, udata4, datarel|sdata4. */
static uintptr_t frame_table(const struct mvld_object *object, uint32_t *n)
{
    static const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};
    const Elf64_Phdr *ph = object->phdr;

    for (size_t i = 0; ph && i < object->phnum; i++) {
        uintptr_t header = object->bias + ph[i].p_vaddr;

        if (ph[i].p_type != PT_GNU_EH_FRAME || !readable(object, header, 12) ||
            memcmp((const void *)header, form, sizeof form) != 0)
            continue;
        *n = (uint32_t)answers_distance((const uint8_t *)header + 8);
        return readable(object, header + 12, 8ul * *n) ? header : 0;
    }
    return 0;
}

/* The function that holds `address`: 0, or -ENOENT: none is described there.
 *     table   … { start - header, FDE - header } …       ascending by start
 *     FDE     length, distance to CIE, start - here, size, … */
static int described(const struct mvld_object *object, uintptr_t address, struct answer *out)
{
    uint32_t n = 0, low = 0, high;
    uintptr_t header = frame_table(object, &n), fde;
    const uint8_t *table = (const uint8_t *)header + 12;

    for (high = header ? n : 0; low < high;) { /* the last that begins at or before it */
        uint32_t middle = low + (high - low) / 2;

        if (header + (uintptr_t)(intptr_t)answers_distance(table + 8ul * middle) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return -ENOENT;
    out->at = header + (uintptr_t)(intptr_t)answers_distance(table + 8ul * (low - 1));
    fde = header + (uintptr_t)(intptr_t)answers_distance(table + 8ul * (low - 1) + 4);
    if (!readable(object, fde, 16) ||
        fde + 8 + (uintptr_t)(intptr_t)answers_distance((const uint8_t *)fde + 8) != out->at)
        return -ENOENT;
    out->size = (uint32_t)answers_distance((const uint8_t *)fde + 12);
    return address - out->at < out->size &&
                   rimf_api()->object_holds(object, out->at, out->size, RX)
               ? 0
               : -ENOENT;
}

/* ---- do_sym ---------------------------------------------------------------------------- */

/* What lies near the address in its segment. */
static struct mvld_segment near_segment(const struct mvld_object *object, uintptr_t address)
{
    struct mvld_segment near = {0, 0, 0};

    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        if (address < s->start || address >= s->end || (s->prot & RX) != RX)
            continue;
        near.start = address - s->start > NEAR ? address - NEAR : s->start;
        near.end = s->end - address > NEAR ? address + NEAR : s->end;
    }
    return near;
}

/* The only function near `from`, besides it, that calls that way. */
static int find_do_sym(const struct mvld_object *libc, const struct answer *from,
                       struct answer_way way, struct answer *out)
{
    struct mvld_segment near = near_segment(libc, from->at);
    struct answer found = {0, 0}, holder;
    unsigned length = way.slot ? 6 : 5;

    for (uintptr_t at = near.start; at + length <= near.end; at++) {
        const uint8_t *p = (const uint8_t *)at;

        if ((way.slot ? p[0] != 0xff || p[1] != 0x15 : p[0] != 0xe8) ||
            at + length + (uintptr_t)(intptr_t)answers_distance(p + length - 4) != way.through)
            continue;
        if (described(libc, at, &holder))
            return -ENOENT;
        if (holder.at != from->at && found.at && holder.at != found.at)
            return -ENOENT;
        if (holder.at != from->at)
            found = holder;
    }
    *out = found;
    return found.at && answers_is_do_sym(&found, way) ? 0 : -ENOENT;
}

/* ---- the C library --------------------------------------------------------------------- */

/* The function at `at` begins there. */
static int local(const struct mvld_object *object, uintptr_t at, struct answer *out)
{
    return at && described(object, at, out) == 0 && out->at == at ? 0 : -ENOENT;
}

static int find_addr(const struct mvld_object *libc, struct answer *out)
{
    struct answer dladdr, dladdr1;

    if (answers_exported(libc, "_dl_addr", "GLIBC_PRIVATE", out) == 0)
        return 0;
    if (answers_exported(libc, "dladdr", NULL, &dladdr) ||
        answers_exported(libc, "dladdr1", NULL, &dladdr1) ||
        answers_tail(&dladdr) != answers_tail(&dladdr1))
        return -ENOENT;
    return local(libc, answers_tail(&dladdr), out);
}

static int find_in_libc(struct mvld_image *image, struct answer *functions, const char **why)
{
    const struct mvld_object *libc = object_with(image, "gnu_get_libc_version", "GLIBC_2.2.5");
    struct answer *addr = &functions[ANSWER_ADDR];
    struct answer_way way;

    *why = "the program has no C library that is known";
    if (!libc)
        return -ENOTSUP;
    *why = "the C library has no _dl_addr of the known form";
    if (find_addr(libc, addr))
        return -ENOTSUP;
    way = answers_way(image, libc, addr, functions[ANSWER_OBJECT].at);
    if (!way.through)
        return -ENOTSUP;
    *why = "the C library's dlsym is not of the known form";
    return find_do_sym(libc, addr, way, &functions[ANSWER_SYM]) ? -ENOTSUP : 0;
}

/* ---- the host loader ---------------------------------------------------------------- */

/* Is there a call of the function near it?  Any e8 with that distance will do. */
static int is_called_near(const struct host *host, uintptr_t function)
{
    uintptr_t at = function - host->text > NEAR ? function - NEAR : host->text;
    uintptr_t end = host->text_end - function > NEAR ? function + NEAR : host->text_end;

    for (; at + 5 <= end; at++) {
        const uint8_t *p = (const uint8_t *)at;

        if (*p == 0xe8 && at + 5 + (uintptr_t)(intptr_t)answers_distance(p + 1) == function)
            return 1;
    }
    return 0;
}

static int find_dso(const struct loader *l, struct answer *out, const char **why)
{
    const struct mvld_object *host =
        object_with(l->image, "_dl_find_dso_for_object", "GLIBC_PRIVATE");

    *why = "the host loader has no _dl_find_dso_for_object of the known form";
    if (!host || !(host->flags & MVLD_OBJECT_LOADER) ||
        answers_exported(host, "_dl_find_dso_for_object", "GLIBC_PRIVATE", out))
        return -ENOTSUP;
    if (out->at < l->host.text || out->at >= l->host.text_end ||
        !is_called_near(&l->host, out->at))
        return -ENOTSUP;
    return 0;
}

int answers_find(const struct loader *l, struct answer *functions, const char **why)
{
    int err = find_dso(l, &functions[ANSWER_OBJECT], why);

    return err ? err : find_in_libc(l->image, functions, why);
}
