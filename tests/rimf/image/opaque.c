/* SPDX-License-Identifier: MIT
 *
 * An object whose headers cannot be read, or make no sense, is in the image as
 * opaque, with the reason, and nothing of it is read.  A failure means that an odd
 * object (a prelinked one, one whose header page was unmapped or protected) crashes
 * the program, or that a sound one is not understood.
 */
#include "process.h"

#include "../elf/made_elf.h"

static char *pages;

static const struct mvld_object *added(struct mvld_image *image, const struct rimf_source *source)
{
    struct rimf_change change;

    CHECK(rimf_image_update(image, NULL, 0, &change) == 0);
    CHECK(rimf_image_update(image, source, 1, &change) == 0 && change.n_added == 1);
    CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
    return change.added[0];
}

static void is_opaque(struct mvld_image *image, const struct rimf_source *source, const char *why)
{
    const struct mvld_object *object = added(image, source);
    struct mvld_symbol symbol;

    CHECK(object->flags & MVLD_OBJECT_OPAQUE, "(%s)", why);
    CHECK(strstr(object->why, why) != NULL, "(%s, want %s)", object->why, why);
    CHECK(object->n_segments == 0 && !object->dynamic && !object->build_id);
    CHECK(rimf_api()->object_find(image, source->bias) == NULL);
    CHECK(rimf_api()->symbol_find(object, "x", NULL, &symbol) == -ENOENT);
    CHECK(rimf_api()->note_each(object, "GNU", 3, NULL, NULL) == 0);
    CHECK(!rimf_api()->object_holds(object, source->bias, 1, 0));
    CHECK(rimf_api()->plt_target(image, source->bias) == source->bias);
}

static void is_sound(struct mvld_image *image, const struct rimf_source *source)
{
    const struct mvld_object *object = added(image, source);

    CHECK(!(object->flags & MVLD_OBJECT_OPAQUE), "(%s)", object->why);
    CHECK(object->n_segments == 3 && object->phnum == MADE_PHNUM);
    CHECK(object->start == (uintptr_t)pages);
}

static void unreadable(struct mvld_image *image)
{
    char *page = made_pages(1);
    struct rimf_source source;

    /* Its dynamic section can be read, the page of its header not. */
    made_object(page);
    source = made_source(page, "unreadable");
    source.dynamic = pages;
    memset(pages, 0, MADE_PAGE);
    mprotect(page, MADE_PAGE, PROT_NONE);
    is_opaque(image, &source, "header was not found");
    munmap(page, MADE_PAGE);
    is_opaque(image, &source, "header was not found");
    source.dynamic = NULL;
    is_opaque(image, &source, "header was not found");
    source.phdr = pages + 1;
    is_opaque(image, &source, "misplaced");
    source.phdr = pages;
    source.phnum = 0xffff;
    is_opaque(image, &source, "too many");
}

/* Every wrong field of the headers. */
static void nonsense(struct mvld_image *image)
{
    struct rimf_source source = made_source(pages, "nonsense");
    struct made *made = (struct made *)pages;

#define WRONG(field, value, why)                                                       \
    do {                                                                               \
        made_object(pages);                                                            \
        is_sound(image, &source);                                                      \
        made->field = value;                                                           \
        is_opaque(image, &source, why);                                                \
    } while (0)
    WRONG(header.e_ident[0], 'x', "not found");
    WRONG(header.e_ident[EI_CLASS], ELFCLASS32, "not found");
    WRONG(header.e_machine, EM_386, "not found");
    WRONG(header.e_phentsize, 32, "not found");
    WRONG(header.e_phnum, 0, "not found");
    WRONG(header.e_phnum, 0xffff, "not found");
    WRONG(header.e_phnum, 0x7f, "not found");
    WRONG(header.e_phoff, (Elf64_Off)-8, "not found");
    WRONG(header.e_phoff, 0x100000000, "not found");
    WRONG(phdr[MADE_LOAD_R].p_vaddr, 0x1000, "not found");
    WRONG(phdr[MADE_LOAD_X].p_vaddr, MADE_CODE - 1, "overlap");
    WRONG(phdr[MADE_LOAD_X].p_memsz, UINT64_MAX, "overlap");
    WRONG(phdr[MADE_LOAD_X].p_vaddr, -(uintptr_t)pages, "overlap");
    WRONG(phdr[MADE_DYNAMIC].p_vaddr, MADE_DATA + 8, "not found");
    WRONG(phdr[MADE_DYNAMIC].p_type, PT_NULL, "not found");
    WRONG(phdr[MADE_LOAD_W].p_type, PT_NULL, "dynamic section");
#undef WRONG
    made_object(pages);
    source.phdr = made->phdr;
    source.phnum = 1;
    is_opaque(image, &source, "dynamic section");
    source.phnum = 0;
    is_opaque(image, &source, "no PT_LOAD");
}

/* Linked at an address of its own: the header is not at the bias. */
static void prelinked(struct mvld_image *image)
{
    struct made *made = made_object(pages);
    struct rimf_source source = made_source(pages, "prelinked");

    for (int i = 0; i < MADE_PHNUM; i++)
        made->phdr[i].p_vaddr += (uintptr_t)pages;
    source.bias = 0;
    is_sound(image, &source);
    source.dynamic = pages + MADE_DATA + 8;
    is_opaque(image, &source, "not found");
}

static void reasons(struct mvld_image *image)
{
    struct rimf_source source = made_source(pages, "odd");
    struct made *made = made_object(pages);

    CHECK(added(image, &source)->why == NULL);
    made->phdr[MADE_LOAD_X].p_flags |= PF_W;
    CHECK(strstr(added(image, &source)->why, "writable and executable"));
    made_object(pages);
    ((Elf64_Dyn *)(pages + MADE_DATA))[0] = (Elf64_Dyn){DT_TEXTREL, {0}};
    CHECK(strstr(added(image, &source)->why, "text relocations"));
    ((Elf64_Dyn *)(pages + MADE_DATA))[0] = (Elf64_Dyn){DT_FLAGS, {DF_TEXTREL}};
    CHECK(strstr(added(image, &source)->why, "text relocations"));
    made_object(pages);
    source.flags = MVLD_OBJECT_VDSO;
    CHECK(strstr(added(image, &source)->why, "kernel"));
    source.flags = MVLD_OBJECT_LOADER;
    CHECK(strstr(added(image, &source)->why, "host loader"));
    source.flags = 0;
    source.name = "";
    CHECK(*added(image, &source)->name);
}

int main(void)
{
    struct mvld_image *image;

    pages = made_pages(2);
    munmap(pages + MADE_PAGE, MADE_PAGE); /* nothing behind it */
    CHECK(rimf_image_create(&rimf_sys_kernel, &process_log, &image) == 0);
    unreadable(image);
    nonsense(image);
    prelinked(image);
    reasons(image);
    rimf_image_destroy(image);
    return 0;
}
