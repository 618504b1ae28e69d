/* SPDX-License-Identifier: MIT
 *
 * unwinding FILE...: what changes in .eh_frame when code moves, as elfutils sees its
 * records: the start of every FDE's range, its exception table, every CIE's personality.
 * And each movable function has one FDE, the one that elfutils finds for it.
 *
 * A failure means that exceptions get lost in moved code, or land elsewhere.
 */
#include "../../check.h"

#include "rimf/analyze/analyser.h"

#include <elfutils/libdw.h>

struct seen {
    struct analyser a;
    Elf_Data *data;
    uint32_t start;       /* of the section */
    const uint8_t *bytes; /* of its data */
    struct vector places; /* uint32_t */
    size_t n_fdes, n_movable;
};

static uint32_t address_of(const struct seen *s, const void *at)
{
    return s->start + (uint32_t)((const uint8_t *)at - s->bytes);
}

/* Where in the CIE's augmentation the personality stands, NULL: nowhere.  *table: FDEs have
 * exception tables. */
static const uint8_t *personality(const Dwarf_CIE *cie, int *table)
{
    const uint8_t *at = cie->augmentation_data, *found = NULL;

    *table = 0;
    CHECK(cie->augmentation[0] == 'z', "%s", cie->augmentation);
    for (const char *c = cie->augmentation + 1; *c; c++) {
        if (*c == 'P') {
            CHECK((*at & 0x7f) == 0x1b, "(personality as 0x%x)", *at);
            found = at + 1;
            at += 5;
        } else if (*c == 'L') {
            *table = 1;
            CHECK(*at++ == 0x1b);
        } else if (*c == 'R') {
            CHECK(*at++ == 0x1b);
        } else {
            CHECK(*c == 'S', "%s", cie->augmentation);
        }
    }
    return found;
}

static void take_cie(struct seen *s, const Dwarf_CIE *cie)
{
    int table;
    const uint8_t *at = personality(cie, &table);

    if (at)
        VECTOR_ADD(&s->places, uint32_t, address_of(s, at));
}

static const struct analysis_frame_fix *fix_at(const struct seen *s, uint32_t address)
{
    const struct analysis_frame_fix *fixes = s->a.frame_fixes.at;
    size_t i = analysis_first_from(fixes, s->a.frame_fixes.n, sizeof *fixes, address);

    return i < s->a.frame_fixes.n && fixes[i].address == address ? &fixes[i] : NULL;
}

static int is_moved(const struct seen *s, uint32_t start, uint32_t fde)
{
    const struct analysis_frame *frames = s->a.moved_frames.at;
    size_t i = analysis_first_from(frames, s->a.moved_frames.n, sizeof *frames, start);

    return i < s->a.moved_frames.n && frames[i].start == start && frames[i].fde == fde;
}

static void take_fde(struct seen *s, Dwarf_Off offset, const Dwarf_FDE *fde)
{
    Dwarf_CFI_Entry entry;
    Dwarf_Off next;
    int table;
    uint32_t at = address_of(s, fde->start), start;
    const struct unit *u;

    CHECK(dwarf_next_cfi((const unsigned char *)s->a.object.file, s->data, true, fde->CIE_pointer,
                         &next, &entry) == 0);
    personality(&entry.cie, &table);
    s->n_fdes++;
    start = at + (uint32_t)distance_at(fde->start);
    CHECK(at == s->start + offset + 8);
    VECTOR_ADD(&s->places, uint32_t, at);
    /* Start, size, the augmentation's length, which is one byte; the exception table. */
    if (table && distance_at(fde->start + 9))
        VECTOR_ADD(&s->places, uint32_t, at + 9);
    u = unit_at(&s->a, start);
    if (!u || u->reason) {
        CHECK(fix_at(s, at) && fix_at(s, at)->kind == ANALYSIS_FRAME_OTHER, "(FDE 0x%x)", at - 8);
        return;
    }
    s->n_movable++;
    CHECK(start == u->start && is_moved(s, start, at - 8), "(FDE 0x%x of 0x%x)", at - 8, start);
    CHECK(fix_at(s, at) && fix_at(s, at)->kind == ANALYSIS_FRAME_CODE, "(FDE 0x%x)", at - 8);
}

static void take_records(struct seen *s)
{
    Dwarf_Off at = 0, next;
    Dwarf_CFI_Entry entry;

    while (dwarf_next_cfi((const unsigned char *)s->a.object.file, s->data, true, at, &next,
                          &entry) == 0) {
        if (dwarf_cfi_cie_p(&entry))
            take_cie(s, &entry.cie);
        else
            take_fde(s, at, &entry.fde);
        at = next;
    }
}

static void find_section(struct seen *s, Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names;

    CHECK(elf_getshdrstrndx(elf, &names) == 0);
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;

        CHECK(gelf_getshdr(section, &header));
        if (strcmp(elf_strptr(elf, names, header.sh_name), ".eh_frame") != 0)
            continue;
        s->data = elf_getdata(section, NULL);
        s->bytes = s->data->d_buf;
        s->start = (uint32_t)header.sh_addr;
        CHECK(s->a.list.start == s->start);
        CHECK(s->a.list.size <= header.sh_size && s->a.list.size + 8 > header.sh_size,
              "(%u bytes of %lu)", s->a.list.size, (unsigned long)header.sh_size);
        return;
    }
    CHECK(0, "it has no .eh_frame");
}

static void compare_file(const char *path)
{
    struct seen s = {0};
    const uint32_t *places;
    Elf *elf;

    CHECK(analyser_run(&s.a, path) == 0, "%s: %s", path, s.a.object.error);
    if (s.a.object.flags || !s.a.list.size) { /* some were linked without an end mark */
        CHECK(!s.a.moved_frames.n && !s.a.frame_fixes.n);
        printf("%s: it does not move\n", path);
        analyser_free(&s.a);
        return;
    }
    elf = elf_memory((char *)s.a.object.file, s.a.object.size);
    find_section(&s, elf);
    take_records(&s);
    sort_addresses(&s.places);
    places = s.places.at;
    CHECK(s.places.n == s.a.frame_fixes.n, "(%zu, here %zu)", s.places.n, s.a.frame_fixes.n);
    for (size_t i = 0; i < s.places.n; i++)
        CHECK(fix_at(&s, places[i]), "(0x%x)", places[i]);
    CHECK(s.n_movable == s.a.moved_frames.n, "(%zu, here %zu)", s.n_movable, s.a.moved_frames.n);
    printf("%s: %zu FDEs, %zu of movable functions, %zu fixes\n", path, s.n_fdes, s.n_movable,
           s.places.n);
    vector_free(&s.places);
    elf_end(elf);
    analyser_free(&s.a);
}

int main(int argc, char **argv)
{
    elf_version(EV_CURRENT);
    for (int i = 1; i < argc; i++)
        compare_file(argv[i]);
    return 0;
}
