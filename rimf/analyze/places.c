/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/places.c: code with addresses inside it that data contains (rule 4).
 *
 * A run time with stack maps looks up the return address of each frame that it walks:
 *
 *     caml_f:  …
 *              call caml_call_gc
 *     .L100:   mov (%rsp),%rax               .data
 *              …                             .quad .L100       a relocated word
 *                                            .value 16, 1, 8   frame size, what lives where
 *
 * In moved code `call` pushes another address, which no table has.  If the table were changed, it would
 * lack the original address, which is used, too.  So a unit stays if data points inside it, except to
 * possible labels of the unit's own `goto *`, which are words to be changed like any other.  A unit without
 * an indirect jump has no such labels; nor, to be safe, is an address behind a call taken for one.
 *
 * If such an address is certainly a return address, a run time knows the object's code, and may know more
 * than these addresses: its beginning and end, its functions as distances from there, a checksum (OCaml
 * writes closures to files in this way).  The whole object stays, and nothing in it is changed.  An address
 * behind a system call is different: a signal handler compares the interrupted address with it
 * (pthread_cancel, since glibc 2.41), and only that unit stays.
 *
 * Tables may contain distances from their own address instead, which have no relocation; and at fixed
 * addresses no word is relocated.  Single distances look like any number; a table does not.  In Debian's
 * objects without such a table, of 64 words in a row that would point into units, at most 26 point behind
 * calls; if 48 do, it is a table.  LLVM's stack maps, distances from the starts of functions, have their
 * own section.
 *
 * Functions in a section whose name is a C identifier also stay: __start_NAME and __stop_NAME are its
 * bounds, and code compares addresses with them: tcmalloc return addresses, libc++ addresses of functions.
 * Code also walks data between such bounds.  A word there that is the distance from itself to an instruction
 * names a place to be looked up or patched (jump labels, static keys).  In moved code nobody would look for
 * that place, so the unit stays.  The tables of multiverse are known to its pass.
 * An object without names of sections (sstrip) stays.
 * The bounds of all code are __executable_start and etext, the address behind it: the end of its segment, or
 * of the last section of code where constants follow in the segment (-z noseparate-code).  An object in which
 * code or data has that address stays.
 */
#include "rimf/analyze/analyser.h"

#include <string.h>

#define LONGEST 15u /* instruction */
#define MOST 48     /* of 64 */

/* `system`: system calls count, too. */
static int is_behind_call(const struct analyser *a, const struct unit *u, uint32_t address, int system)
{
    struct instruction i;
    enum flow flow;

    for (uint32_t at = address - 1; at >= u->start && address - at <= LONGEST; at--) {
        if (!is_start(a, at))
            continue;
        if (!decode(unit_code(a, u, at), u->end - at, &i) || at + i.length != address)
            return 0;
        flow = instruction_flow(&i);
        return flow == FLOW_CALL ||
               (flow == FLOW_CALL_INDIRECT && (system || instruction_is(&i, 0, 0xff)));
    }
    return 0;
}

static void check_words(struct analyser *a)
{
    const struct pointer *pointers = a->object.pointers.at;

    for (size_t i = 0; i < a->object.pointers.n; i++) {
        uint32_t target = pointers[i].target, from = pointers[i].from;
        struct unit *u = from != target ? unit_at(a, target) : NULL; /* otherwise a symbol */
        int behind;

        if (!u || target == u->start)
            continue;
        behind = is_behind_call(a, u, target, 1);
        if (behind || !u->jumps)
            unit_stays(u, ANALYSIS_KEPT, from);
        if (!u->jumps && is_behind_call(a, u, target, 0))
            a->object.flags |= ANALYSIS_LOOKED_UP;
    }
}

/* ---- words that are not relocated ------------------------------------------------------------ */

static uint64_t by_distance(const uint8_t *word, uint32_t at)
{
    return at + (uint64_t)distance_at(word);
}

static uint64_t by_address(const uint8_t *word, uint32_t at)
{
    uint64_t target;

    (void)at;
    memcpy(&target, word, sizeof target);
    return target;
}

static int has_table(const struct analyser *a, uint32_t size,
                     uint64_t (*target_of)(const uint8_t *word, uint32_t at))
{
    for (size_t i = 0; i < a->object.n_segments; i++) {
        const struct segment *s = &a->object.segments[i];
        uint64_t behind = 0; /* one bit for each of the last words that point into a unit */
        uint64_t last = 0;   /* jump tables repeat the address of their default */

        if (s->flags & PF_X)
            continue;
        for (uint64_t at = ((uint64_t)s->start + size - 1) / size * size; at + size <= s->file_end;
             at += size) {
            uint64_t target = target_of(s->bytes + (at - s->start), (uint32_t)at);
            const struct unit *u = unit_at(a, target);

            if (!u || target == last)
                continue;
            last = target;
            behind = behind << 1 | (uint64_t)is_behind_call(a, u, (uint32_t)target, 0);
            if (__builtin_popcountll(behind) >= MOST)
                return 1;
        }
    }
    return 0;
}

/* ---- sections --------------------------------------------------------------------------------- */

static int is_identifier(const char *name, size_t room)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t n = room ? strnlen(name, room) : 0;

    return n && n < room && strspn(name, letters) == n && !(*name >= '0' && *name <= '9');
}

/* `budget` as in check_frames: sections may overlap a thousand times over. */
static void keep_section(struct analyser *a, uint64_t start, uint64_t end, uint64_t *budget)
{
    struct unit *units = units_of(a);

    for (size_t i = first_unit_behind(a, start); i < a->units.n && units[i].start < end && *budget;
         i++, --*budget)
        unit_stays(&units[i], ANALYSIS_BOUNDED, start);
}

static void keep_place(struct analyser *a, uint64_t target, uint64_t from)
{
    if (is_start(a, target) && unit_at(a, target))
        unit_stays(unit_at(a, target), ANALYSIS_KEPT, from);
}

/* Distances of four bytes and of eight: both are in use. */
static void keep_places(struct analyser *a, uint64_t start, uint64_t end, uint64_t *budget)
{
    const struct segment *s = object_segment(&a->object, start);
    int64_t distance;

    if (!s || s->flags & PF_X)
        return;
    end = end < s->file_end ? end : s->file_end;
    for (uint64_t at = (start + 3) / 4 * 4; at + 4 <= end && *budget; at += 4, --*budget) {
        const uint8_t *word = s->bytes + (at - s->start);

        keep_place(a, by_distance(word, (uint32_t)at), at);
        if (at + sizeof distance > end)
            continue;
        memcpy(&distance, word, sizeof distance);
        keep_place(a, at + (uint64_t)distance, at);
    }
}

static void check_sections(struct analyser *a)
{
    const struct object *o = &a->object;
    size_t n, size;
    const Elf64_Shdr *sections = object_sections(o, &n);
    const char *names = object_section_names(o, &size);
    uint64_t budget = 4 * (uint64_t)o->size;
    static const char stack_maps[] = ".llvm_stackmaps";

    if (!names) /* nor are sections of restartable sequences found */
        a->object.flags |= ANALYSIS_PROFILED;
    for (size_t i = 0; i < n; i++) {
        const Elf64_Shdr *s = &sections[i];
        size_t room = s->sh_name < size ? size - s->sh_name : 0;

        if (s->sh_flags & SHF_ALLOC && is_identifier(names + s->sh_name, room)) {
            if (s->sh_flags & SHF_EXECINSTR)
                keep_section(a, s->sh_addr, s->sh_addr + s->sh_size, &budget);
            else if (strncmp(names + s->sh_name, "multiverse_", 11))
                keep_places(a, s->sh_addr, s->sh_addr + s->sh_size, &budget);
        }
        if (room >= sizeof stack_maps && !memcmp(names + s->sh_name, stack_maps, sizeof stack_maps))
            a->object.flags |= ANALYSIS_LOOKED_UP;
    }
}

/* ---- the end of all code ----------------------------------------------------------------------- */

/* Of the last section of code that begins there; 0: none does. */
static uint32_t end_of_sections(const struct analyser *a, const struct code *c)
{
    size_t n;
    const Elf64_Shdr *s = object_sections(&a->object, &n);
    uint64_t end = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].sh_flags & SHF_EXECINSTR && s[i].sh_addr >= c->start && s[i].sh_addr < c->end &&
            s[i].sh_size <= c->end - s[i].sh_addr && s[i].sh_addr + s[i].sh_size > end)
            end = s[i].sh_addr + s[i].sh_size;
    return (uint32_t)end;
}

static int has_address_of(const struct analyser *a, uint32_t end)
{
    const struct taken *taken = a->taken.at;
    const struct pointer *words = a->object.words.at;

    for (size_t i = 0; i < a->taken.n; i++)
        if (taken[i].target == end)
            return 1;
    for (size_t i = 0; i < a->object.words.n; i++)
        if (words[i].target == end)
            return 1;
    return 0;
}

static int has_end(const struct analyser *a)
{
    for (size_t i = 0; i < a->n_code; i++) {
        uint32_t end = end_of_sections(a, &a->code[i]);

        if (has_address_of(a, a->code[i].end) || (end && has_address_of(a, end)))
            return 1;
    }
    return 0;
}

void check_places(struct analyser *a)
{
    check_words(a);
    if (has_end(a))
        a->object.flags |= ANALYSIS_PROFILED;
    if (has_table(a, 4, by_distance) ||
        (a->object.flags & ANALYSIS_FIXED && has_table(a, 8, by_address)))
        a->object.flags |= ANALYSIS_LOOKED_UP;
    check_sections(a);
}
