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

static const struct mvld_api *api;
static struct mvld_image *image;

static void is_section(const struct mvld_object *object, size_t index, int kind, uintptr_t from,
                       uintptr_t to, uint32_t prot)
{
    const struct mvld_section *section = api->section_at(image, object, index);

    CHECK(section && (int)section->kind == kind && section->prot == prot, "(%zu)", index);
    CHECK(section->linked == from && section->size == to - from, "(%zu)", index);
    CHECK(section->address == from + object->bias, "(%zu)", index);
}

static void sections(const struct mvld_object *object)
{
    is_section(object, 0, MVLD_SECTION_RODATA, 0, MADE_CODE, PROT_READ);
    is_section(object, 1, MVLD_SECTION_CODE, MADE_CODE, MADE_DATA, PROT_READ | PROT_EXEC);
    is_section(object, 2, MVLD_SECTION_RELRO, MADE_DATA, MADE_NOTES, PROT_READ);
    is_section(object, 3, MVLD_SECTION_DATA, MADE_NOTES, MADE_PAGE - 1, PROT_READ | PROT_WRITE);
    CHECK(api->section_at(image, object, 4) == NULL && api->section_at(image, NULL, 0) == NULL);
    CHECK(rimf_section_find(image, object->bias + 0x801) == api->section_at(image, object, 2));
    CHECK(rimf_section_find(image, object->bias - 1) == NULL);
    rimf_image_set_stage(image, RIMF_STAGE_RUN, NULL);
}

static void domains(const struct mvld_object *object)
{
    struct rimf_change change;

    CHECK(api->domain_of(object) == 0);
    CHECK(api->domain_move(image, object, 1) == -EINVAL);
    CHECK(strstr(api->last_error(image), object->name), "(%s)", api->last_error(image));
    CHECK(api->domain_add(image, "crypto") == 1);
    CHECK(api->domain_move(image, object, 1) == 0 && api->domain_of(object) == 1);
    CHECK(rimf_image_check(image) == 0, "(%s)", api->last_error(image));
    rimf_image_print(image);
    CHECK(rimf_image_update(image, NULL, 0, &change) == 0 && change.n_removed == 1);
    CHECK(rimf_image_check(image) == 0);
    CHECK(api->domain_move(image, object, 0) == -ENOENT);
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
    struct rimf_change change;

    api = rimf_api();
    made_object(page)->phdr[MADE_RELRO].p_filesz = 0; /* of no meaning */
    CHECK(rimf_image_create(&rimf_sys_kernel, &log, &image) == 0);
    CHECK(rimf_image_update(image, &source, 1, &change) == 0);
    sections(change.added[0]);
    domains(change.added[0]);
    is_printed("\tdomain 0 process\n");
    is_printed("\tdomain 1 crypto\n");
    snprintf(line, sizeof line, "\t  object /lib/made.so, bias %p\n", (void *)page);
    is_printed(line);
    snprintf(line, sizeof line, "\t    %016lx-%016lx r-x code\n",
             (unsigned long)page + MADE_CODE, (unsigned long)page + MADE_DATA);
    is_printed(line);
    is_printed(" r-- rodata\n");
    is_printed(" r-- relro\n");
    is_printed(" rw- data\n");
    rimf_image_destroy(image);
    return 0;
}
