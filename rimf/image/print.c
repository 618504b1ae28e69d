/* SPDX-License-Identifier: MIT
 *
 * rimf/image/print.c: what the image looks like (MVLD_DEBUG=image).
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <sys/mman.h> /* numbers only */

static const char *const kinds[] = {
    [MVLD_SECTION_CODE] = "code",
    [MVLD_SECTION_DATA] = "data",
    [MVLD_SECTION_RODATA] = "rodata",
    [MVLD_SECTION_RELRO] = "relro",
};

static void print_build_id(const struct rimf_log *log, const struct mvld_object *object)
{
    char text[2 * RIMF_BUILD_ID_MAX + 1];

    if (!object->build_id)
        return;
    for (size_t i = 0; i < object->build_id_size; i++)
        rimf_format(text + 2 * i, 3, "%02x", object->build_id[i]);
    rimf_log(log, MVLD_LOG_IMAGE, "    build-id %s", text);
}

static void print_object(const struct rimf_log *log, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;
    uint32_t flags = public->flags;

    rimf_log(log, MVLD_LOG_IMAGE, "  object %s, bias 0x%lx%s%s%s%s%s", public->name,
             (unsigned long)public->bias, flags & MVLD_OBJECT_MAIN ? ", executable" : "",
             flags & MVLD_OBJECT_VDSO ? ", vdso" : "",
             flags & MVLD_OBJECT_LOADER ? ", host loader" : "",
             flags & MVLD_OBJECT_OPAQUE ? ", opaque" : "",
             flags & MVLD_OBJECT_UNPLACED ? ", unplaced" : "");
    if (public->why)
        rimf_log(log, MVLD_LOG_IMAGE, "    not transformed: %s", public->why);
    print_build_id(log, public);
    for (size_t i = 0; i < object->n_sections; i++) {
        const struct mvld_section *section = &object->sections[i];

        rimf_log(log, MVLD_LOG_IMAGE, "    %016lx-%016lx %c%c%c %s",
                 (unsigned long)section->address,
                 (unsigned long)(section->address + section->size),
                 section->prot & PROT_READ ? 'r' : '-', section->prot & PROT_WRITE ? 'w' : '-',
                 section->prot & PROT_EXEC ? 'x' : '-', kinds[section->kind]);
    }
}

void rimf_image_print(const struct mvld_image *image)
{
    const struct rimf_table *table;

    if (!rimf_log_enabled(image->log, MVLD_LOG_IMAGE))
        return;
    table = rimf_table_enter(image);
    for (size_t d = 0; d <= image->n_domains; d++) {
        rimf_log(image->log, MVLD_LOG_IMAGE, "domain %zu %s", d, d ? image->domains[d - 1] : "process");
        for (size_t i = 0; i < table->n_objects; i++)
            if (table->objects[i]->domain.now == d)
                print_object(image->log, table->objects[i]);
    }
    rimf_table_leave(image);
}
