/* SPDX-License-Identifier: MIT
 *
 * The invariant checker finds every kind of damage to the image, and none in a sound
 * one.  A failure means that other tests would not notice damage.
 */
#include "process.h"

#include "../elf/made_elf.h"

#include <errno.h>

static struct mvld_image *image;

static void finds(const char *what)
{
    CHECK(rimf_image_check(image) == -EUCLEAN, "(%s)", what);
    CHECK(strstr(rimf_api()->last_error(image), what) != NULL, "(%s, want %s)",
          rimf_api()->last_error(image), what);
}

/* Damages one field, expects the sentence, and repairs it. */
#define DAMAGE(lvalue, value, what)                                                    \
    do {                                                                               \
        __typeof__(lvalue) *field = &(lvalue), sound = *field;                         \
        *field = (__typeof__(lvalue))(value);                                          \
        finds(what);                                                                   \
        *field = sound;                                                                \
        CHECK(rimf_image_check(image) == 0, "(after %s)", what);                       \
    } while (0)

int main(void)
{
    static const struct rimf_log quiet = {.sys = &rimf_sys_kernel, .fd = -1};
    struct rimf_source sources[3];
    struct rimf_change change;
    struct rimf_object *first, *opaque;
    char *pages = made_pages(3);

    for (int i = 0; i < 3; i++) {
        made_object(pages + i * MADE_PAGE);
        sources[i] = made_source(pages + i * MADE_PAGE, i ? "other" : "first");
    }
    ((struct made *)(pages + 2 * MADE_PAGE))->header.e_ident[0] = 0;
    sources[0].flags = MVLD_OBJECT_MAIN;
    CHECK(rimf_image_create(&rimf_sys_kernel, &quiet, &image) == 0);
    CHECK(rimf_image_update(image, sources, 3, &change) == 0);
    CHECK(rimf_image_check(image) == 0);
    first = image->table->objects[0];
    opaque = image->table->objects[2];
    CHECK(opaque->public.flags & MVLD_OBJECT_OPAQUE);

    DAMAGE(first->public.name, NULL, "no name");
    DAMAGE(first->public.name, "", "no name");
    DAMAGE(first->public.flags, 0x100, "wrong flags");
    DAMAGE(first->gone, 1, "is gone");
    DAMAGE(first->public.bias, 0, "two load biases");
    DAMAGE(first->domain.now, 1, "in domain 1 of 1");
    DAMAGE(opaque->public.why, NULL, "without a reason");
    DAMAGE(opaque->n_sections, 1, "opaque and has segments");
    DAMAGE(opaque->public.dynamic, pages, "opaque and has segments");
    DAMAGE(first->public.n_segments, 0, "no segments, or not its own");
    DAMAGE(first->public.n_segments, 2, "no segments, or not its own");
    DAMAGE(first->public.segments, first->view.segments + 1, "no segments, or not its own");
    DAMAGE(first->view.segments[1].end, first->view.segments[1].start, "is empty, overlaps");
    DAMAGE(first->view.segments[1].start, first->view.segments[0].start, "is empty, overlaps");
    DAMAGE(first->view.segments[1].prot, 0x80, "odd protection");
    DAMAGE(first->public.end, 0, "does not span");
    DAMAGE(first->public.start, 0, "does not span");
    DAMAGE(first->view.segments[1].end, first->view.segments[1].end - 1, "headers of first have");
    DAMAGE(((struct made *)pages)->phdr[MADE_LOAD_X].p_vaddr, 0x404, "headers of first have");
    DAMAGE(((struct made *)pages)->phdr[MADE_RELRO].p_type, PT_LOAD, "headers of first have");
    DAMAGE(((struct made *)pages)->phdr[MADE_LOAD_W].p_type, PT_NULL, "headers of first have");
    DAMAGE(first->view.n_dynamic, 1 << 20, "dynamic section of first");
    DAMAGE(first->sections[0].kind, 0, "of no kind");
    DAMAGE(first->sections[0].kind, 9, "of no kind");
    DAMAGE(first->sections[1].size, 0, "outside its segments");
    DAMAGE(first->sections[1].size, 0x10000, "outside its segments");
    DAMAGE(first->sections[0].prot, PROT_WRITE, "outside its segments");
    DAMAGE(first->sections[1].address, first->sections[0].address, "outside its segments");
    DAMAGE(first->sections[0].linked, 0x10, "where its bias puts it");
    DAMAGE(image->table->objects[1]->public.flags, MVLD_OBJECT_MAIN, "are the executable");
    DAMAGE(image->table->n_places, 1, "lacks a segment");
    DAMAGE(image->table->places[1].start, pages, "overlap");
    DAMAGE(image->table->places[0].end, pages + MADE_PAGE * 2, "that no object has");
    DAMAGE(image->table->places[0].start, pages + 1, "that no object has");
    DAMAGE(image->table->places[1].object, first, "that no object has");

    rimf_image_destroy(image);
    return 0;
}
