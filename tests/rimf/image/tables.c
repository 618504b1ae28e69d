/* SPDX-License-Identifier: MIT
 *
 * Domains and sections can be asked and changed, and MVLD_DEBUG=image prints them.
 * A failure means that passes see wrong parts of an object.
 */
#include "process.h"

#include "../elf/made_elf.h"

static char printed[4096];
static size_t n_printed;

static long catch_write(const struct rimf_sys *sys, long nr, long a, long b, long c, long d,
                        long e, long f)
{
    (void)sys;
    if (nr != SYS_write)
        return rimf_syscall(nr, a, b, c, d, e, f);
    CHECK(n_printed + (size_t)c < sizeof printed);
    memcpy(printed + n_printed, (const void *)b, (size_t)c);
    n_printed += (size_t)c;
    return c;
}

static void is_section(const struct mvld_object *object, size_t index, int kind, uintptr_t from,
                       uintptr_t to, uint32_t prot)
{
    const struct rimf_section *section = rimf_section_at(object, index);

    CHECK(section && (int)section->kind == kind && section->prot == prot, "(%zu)", index);
    CHECK(section->linked == from && section->size == to - from, "(%zu)", index);
    CHECK(section->address == from + object->bias && section->pages == RIMF_PAGES_AS_MAPPED);
}

static void sections(struct mvld_image *image, const struct mvld_object *object)
{
    CHECK(rimf_section_count(object) == 4);
    is_section(object, 0, RIMF_SECTION_RODATA, 0, MADE_CODE, PROT_READ);
    is_section(object, 1, RIMF_SECTION_CODE, MADE_CODE, MADE_DATA, PROT_READ | PROT_EXEC);
    is_section(object, 2, RIMF_SECTION_RELRO, MADE_DATA, MADE_NOTES, PROT_READ);
    is_section(object, 3, RIMF_SECTION_DATA, MADE_NOTES, MADE_PAGE - 1, PROT_READ | PROT_WRITE);
    CHECK(rimf_section_at(object, 4) == NULL);
    CHECK(rimf_section_find(image, object->bias + 0x801) == rimf_section_at(object, 2));
    CHECK(rimf_section_find(image, object->bias - 1) == NULL);
    CHECK(rimf_section_set_pages(object, 1, RIMF_PAGES_THP) == 0);
    CHECK(rimf_section_at(object, 1)->pages == RIMF_PAGES_THP);
    CHECK(rimf_section_set_pages(object, 4, RIMF_PAGES_THP) == -EINVAL);
    CHECK(rimf_section_set_pages(object, 1, (enum rimf_pages)9) == -EINVAL);
}

static void domains(struct mvld_image *image, const struct mvld_object *object)
{
    struct rimf_change change;

    CHECK(rimf_domain_count(image) == 1 && rimf_domain_at(image, 1) == NULL);
    CHECK_STR(rimf_domain_at(image, 0)->name, "process");
    CHECK(rimf_domain_at(image, 0)->n_objects == 1 && rimf_domain_of(object) == 0);
    CHECK(rimf_domain_move(image, object, 1) == -EINVAL);
    CHECK(rimf_domain_add(image, "crypto") == 1);
    CHECK(rimf_domain_move(image, object, 1) == 0 && rimf_domain_of(object) == 1);
    CHECK(rimf_domain_at(image, 0)->n_objects == 0 && rimf_domain_at(image, 1)->n_objects == 1);
    CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
    rimf_image_print(image);
    CHECK(rimf_image_update(image, NULL, 0, &change) == 0 && change.n_removed == 1);
    CHECK(rimf_domain_at(image, 1)->n_objects == 0 && rimf_image_check(image) == 0);
    CHECK(rimf_domain_move(image, object, 0) == -ENOENT);
}

static void is_printed(const char *text)
{
    CHECK(strstr(printed, text) != NULL, "(%s, in\n%s)", text, printed);
}

int main(void)
{
    static const struct rimf_sys sys = {catch_write};
    static const struct rimf_log log = {.sys = &sys, .fd = 2, .categories = MVLD_LOG_IMAGE};
    char *page = made_pages(1), line[200];
    struct rimf_source source = made_source(page, "/lib/made.so");
    struct mvld_image *image;
    struct rimf_change change;

    made_object(page)->phdr[MADE_RELRO].p_filesz = 0; /* of no meaning */
    CHECK(rimf_image_create(&rimf_sys_kernel, &log, &image) == 0);
    CHECK(rimf_image_update(image, &source, 1, &change) == 0);
    sections(image, change.added[0]);
    domains(image, change.added[0]);
    is_printed("\tdomain 0 process, 0 objects\n");
    is_printed("\tdomain 1 crypto, 1 objects\n");
    snprintf(line, sizeof line, "\t  object /lib/made.so, bias %p\n", (void *)page);
    is_printed(line);
    snprintf(line, sizeof line, "\t    %016lx-%016lx r-x code, transparent huge pages\n",
             (unsigned long)page + MADE_CODE, (unsigned long)page + MADE_DATA);
    is_printed(line);
    is_printed(" r-- relro\n");
    rimf_image_destroy(image);
    return 0;
}
