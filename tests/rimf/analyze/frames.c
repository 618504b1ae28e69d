/* SPDX-License-Identifier: MIT
 *
 * frames FILE...: the ranges of .eh_frame as elfutils reads them.  A failure means that
 * functions are taken to begin or end where they do not, or that there are more.
 */
#include "../../check.h"

#include "rimf/analyze/frames/frames.h"

#include <elfutils/libdw.h>

/* How many FDEs the section has, by walking over its records. */
static size_t count_fdes(Elf *elf)
{
    Elf_Scn *section = NULL;
    size_t names, n = 0;

    CHECK(elf_getshdrstrndx(elf, &names) == 0);
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        Dwarf_CFI_Entry entry;
        Dwarf_Off at = 0, next;
        Elf_Data *data;

        CHECK(gelf_getshdr(section, &header));
        if (strcmp(elf_strptr(elf, names, header.sh_name), ".eh_frame") != 0)
            continue;
        data = elf_getdata(section, NULL);
        while (dwarf_next_cfi((const unsigned char *)elf_getident(elf, NULL), data, true, at,
                              &next, &entry) == 0) {
            n += !dwarf_cfi_cie_p(&entry);
            at = next;
        }
    }
    return n;
}

/* The range of addresses around `at` that unwind alike. */
static void look(Dwarf_CFI *cfi, uint32_t at, Dwarf_Addr *start, Dwarf_Addr *end, bool *signal)
{
    Dwarf_Frame *frame;

    CHECK(dwarf_cfi_addrframe(cfi, at, &frame) == 0, "(0x%x: %s)", at, dwarf_errmsg(-1));
    dwarf_frame_info(frame, start, end, signal);
    free(frame);
}

static void compare(const struct frame *f, Dwarf_CFI *cfi)
{
    Dwarf_Addr start, end, other;
    bool signal;

    look(cfi, f->start, &start, &other, &signal);
    look(cfi, f->end - 1, &other, &end, &signal);
    CHECK(start == f->start && end == f->end && signal == f->signal,
          "(0x%x to 0x%x; there, 0x%lx to 0x%lx)", f->start, f->end, (long)start, (long)end);
}

static void compare_file(const char *path)
{
    struct object o;
    struct vector frames = {0};
    uint64_t list;
    Dwarf_CFI *cfi;
    Elf *elf;

    CHECK(object_open(&o, path) == 0 && frames_read(&o, &frames, &list) == 0, "%s: %s", path,
          o.error);
    elf = elf_memory((char *)o.file, o.size);
    cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
    CHECK(cfi, "%s: %s", path, dwarf_errmsg(-1));
    CHECK(frames.n == count_fdes(elf), "(%zu, there %zu)", frames.n, count_fdes(elf));
    /* Each look-up there decodes a frame: of many, every so often one. */
    for (size_t i = 0; i < frames.n; i += 1 + frames.n / 20000)
        compare(&((struct frame *)frames.at)[i], cfi);
    printf("%s: %zu\n", path, frames.n);
    dwarf_cfi_end(cfi);
    elf_end(elf);
    vector_free(&frames);
    object_close(&o);
}

int main(int argc, char **argv)
{
    elf_version(EV_CURRENT);
    for (int i = 1; i < argc; i++)
        compare_file(argv[i]);
    return 0;
}
