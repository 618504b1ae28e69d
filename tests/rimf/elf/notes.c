/* SPDX-License-Identifier: MIT
 *
 * Notes are found with alignment 4 and 8, and truncated ones are reported and never
 * read.  A failure means that descriptors are missed, or that a damaged object
 * crashes the program.
 */
#include "../image/process.h"

#include "made_elf.h"
#include "rimf/elf/headers.h"

static char *page;
static struct mvld_image *image;

/* Appends a note; the new end. */
static char *note(char *at, const char *name, uint32_t type, const void *desc, uint32_t size,
                  size_t alignment)
{
    Elf64_Nhdr header = {(uint32_t)strlen(name) + 1, size, type};
    size_t offset = (sizeof header + header.n_namesz + alignment - 1) & ~(alignment - 1);

    memcpy(at, &header, sizeof header);
    memcpy(at + sizeof header, name, header.n_namesz);
    memcpy(at + offset, desc, size);
    return at + ((offset + size + alignment - 1) & ~(alignment - 1));
}

struct seen {
    size_t n;
    char bytes[64];
    size_t last_size;
};

static int see(void *cookie, const void *desc, size_t size)
{
    struct seen *seen = cookie;

    CHECK((char *)desc >= page && (char *)desc + size <= page + MADE_PAGE - 1);
    memcpy(seen->bytes, desc, size < 64 ? size : 64);
    seen->last_size = size;
    seen->n++;
    return 0;
}

static int stop_at_first(void *cookie, const void *desc, size_t size)
{
    (void)desc, (void)size;
    ++*(int *)cookie;
    return 42;
}

/* The object anew, with `size` bytes of notes. */
static const struct mvld_object *object_with(size_t size, size_t alignment)
{
    struct rimf_source source = made_source(page, "made");
    struct rimf_change change;

    ((struct made *)page)->phdr[MADE_NOTE].p_filesz = size;
    ((struct made *)page)->phdr[MADE_NOTE].p_memsz = size;
    ((struct made *)page)->phdr[MADE_NOTE].p_align = alignment;
    CHECK(rimf_image_update(image, NULL, 0, &change) == 0);
    CHECK(rimf_image_update(image, &source, 1, &change) == 0 && change.n_added == 1);
    CHECK(!(change.added[0]->flags & MVLD_OBJECT_OPAQUE), "(%s)", change.added[0]->why);
    return change.added[0];
}

static int each(const struct mvld_object *object, const char *name, uint32_t type,
                struct seen *seen)
{
    memset(seen, 0, sizeof *seen);
    return rimf_api()->note_each(object, name, type, see, seen);
}

/* Who has no view of the object, but its file's first bytes or its program headers, finds the same. */
static void found_without_view(void)
{
    const struct made *made = (const struct made *)page;
    size_t size;
    const uint8_t *id = elf_head_note(page, MADE_PAGE, "GNU", NT_GNU_BUILD_ID, &size);

    CHECK(id && size == 20 && memcmp(id, "0123456789", 10) == 0);
    id = elf_mapped_build_id(&rimf_sys_kernel, made->phdr, MADE_PHNUM, (uintptr_t)page, &size);
    CHECK(id && size == 20 && memcmp(id, "0123456789", 10) == 0);
}

static void found(size_t alignment)
{
    char *start = page + MADE_NOTES, *end = start;
    const struct mvld_object *object;
    struct seen seen;
    int stopped = 0;

    memset(start, 0, 0x400);
    end = note(end, "GNU", NT_GNU_BUILD_ID, "0123456789abcdefghij", 20, alignment);
    end = note(end, "Multiverse", 1, "first", 5, alignment);
    end = note(end, "Multiverse", 2, "other type", 10, alignment);
    end = note(end, "Multivers", 1, "other name", 10, alignment);
    end = note(end, "Multiverse", 1, "second!", 7, alignment);
    end = note(end, "Multiverse", 3, "", 0, alignment);
    object = object_with((size_t)(end - start), alignment);
    CHECK(each(object, "Multiverse", 1, &seen) == 0 && seen.n == 2 && seen.last_size == 7);
    CHECK(memcmp(seen.bytes, "second!", 7) == 0);
    CHECK(each(object, "Multiverse", 3, &seen) == 0 && seen.n == 1 && seen.last_size == 0);
    CHECK(each(object, "Multiverse", 9, &seen) == 0 && seen.n == 0);
    CHECK(object->build_id_size == 20 && memcmp(object->build_id, "0123456789", 10) == 0);
    found_without_view();
    CHECK(rimf_api()->note_each(object, "Multiverse", 1, stop_at_first, &stopped) == 42);
    CHECK(stopped == 1);
    CHECK(rimf_api()->note_each(object, "Multiverse", 1, NULL, NULL) == 1);
    CHECK(rimf_api()->note_each(object, "Multiverse", 9, NULL, NULL) == 0);
}

/* As mold writes them: notes of both alignments in one PT_NOTE of 8. */
static void mixed(void)
{
    char *start = page + MADE_NOTES, *end = start;
    struct seen seen;

    memset(start, 0, 0x400);
    end = note(end, "GNU", NT_GNU_PROPERTY_TYPE_0, "0123456789abcdef", 16, 8);
    end = note(end, "GNU", NT_GNU_BUILD_ID, "0123456789abcdefghij", 20, 4);
    end = note(end, "GNU", NT_GNU_ABI_TAG, "0123456789abcdef", 16, 4);
    CHECK(each(object_with((size_t)(end - start), 8), "GNU", NT_GNU_ABI_TAG, &seen) == 0 && seen.n == 1);
    found_without_view();
}

/* Cut anywhere: what is whole is still found, the rest is reported. */
static void truncated(void)
{
    char *start = page + MADE_NOTES;
    size_t whole = (size_t)(note(start, "GNU", NT_GNU_BUILD_ID, "0123456789", 10, 4) - start);
    size_t both = (size_t)(note(start + whole, "Multiverse", 1, "text", 4, 4) - start);
    struct seen seen;

    for (size_t size = whole; size <= both; size++) {
        int result = each(object_with(size, 4), "Multiverse", 1, &seen);

        CHECK(seen.n == (size == both), "(%zu of %zu)", size, both);
        CHECK(result == (size == both || size == whole ? 0 : -ENOEXEC), "(%zu of %zu)", size,
              both);
    }
    /* A descriptor without its padding ends the notes. */
    note(start + whole, "Multiverse", 1, "odd", 3, 4);
    CHECK(each(object_with(both - 1, 4), "Multiverse", 1, &seen) == 0 && seen.n == 1);
}

static void absurd(void)
{
    static const uint32_t sizes[] = {0x401, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
    struct made *made = (struct made *)page;
    struct seen seen;

    for (size_t i = 0; i < RIMF_COUNT(sizes); i++) {
        Elf64_Nhdr *header = (Elf64_Nhdr *)(page + MADE_NOTES);

        *header = (Elf64_Nhdr){11, sizes[i], 1};
        CHECK(each(object_with(0x400, 4), "Multiverse", 1, &seen) == -ENOEXEC && seen.n == 0);
        *header = (Elf64_Nhdr){sizes[i], 4, 1};
        CHECK(each(object_with(0x400, 8), "Multiverse", 1, &seen) == -ENOEXEC && seen.n == 0);
    }
    /* The PT_NOTE itself leaves its segment, or the object. */
    CHECK(each(object_with(0x600, 4), "Multiverse", 1, &seen) == -ENOEXEC);
    CHECK(each(object_with(SIZE_MAX, 4), "Multiverse", 1, &seen) == -ENOEXEC);
    made->phdr[MADE_NOTE].p_vaddr = 0x100000;
    CHECK(each(object_with(16, 4), "Multiverse", 1, &seen) == -ENOEXEC);
    made->phdr[MADE_NOTE].p_vaddr = MADE_NOTES;
}

/* The build-ids of this process's objects are those that the kernel's and the
 * linker's tools see: of the right length, and not all the same. */
static void of_process(void)
{
    struct mvld_image *process = process_image();
    const struct mvld_object *libc = process_object(process, "libc.so.6");
    const struct mvld_object *loader = process_object(process, "ld-linux-x86-64.so.2");

    CHECK(libc->build_id_size == 20 && loader->build_id_size == 20);
    CHECK(memcmp(libc->build_id, loader->build_id, 20) != 0);
    rimf_image_destroy(process);
}

int main(void)
{
    page = made_pages(1);
    made_object(page);
    CHECK(rimf_image_create(&rimf_sys_kernel, &process_log, &image) == 0);
    found(4);
    found(8);
    mixed();
    truncated();
    absurd();
    rimf_image_destroy(image);
    of_process();
    return 0;
}
