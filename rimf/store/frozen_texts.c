/* SPDX-License-Identifier: MIT
 *
 * rimf/store/frozen_texts.c: texts of a frozen image, laid over those of the files before anything is
 * relocated (frozen.h, BEFORE RELOCATION).
 */
#include "rimf/store/frozen.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */

int frozen_is_text(const Elf64_Phdr *ph, size_t n, const struct frozen_text *text)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_flags == (PF_R | PF_X) &&
            ph[i].p_filesz == ph[i].p_memsz && rimf_page_down(ph[i].p_vaddr) == text->linked &&
            rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) == text->linked + text->size &&
            rimf_page_down(ph[i].p_offset) == text->offset)
            return 1;
    return 0;
}

static int fits(const struct frozen_file *file, const struct frozen_text *text)
{
    size_t n;
    uintptr_t start = file->laid.biases[text->object] + file->view.objects[text->object].first;
    const Elf64_Phdr *ph = frozen_headers(start, &n);

    return frozen_is_text(ph, n, text);
}

/* The next, and all of the same object behind it. */
static void lay_object(struct frozen_file *file, const struct rimf_sys *sys)
{
    const struct frozen *f = &file->view;
    const struct frozen_text *text = &f->texts[file->laid.end_text], *end = f->texts + f->header->n_texts;
    const uint32_t index = text->object;
    const struct frozen_object *object = &f->objects[index];
    const char *why;
    long fd = frozen_open_part(file, sys, f->names + object->copy_name, &object->copy, &why);

    if (sys_failed(fd))
        return;
    for (; text < end && text->object == index && fits(file, text); text++) {
        long at = frozen_map_text(sys, file->laid.biases[index], text, (int)fd);

        if (sys_failed(at))
            break;
        frozen_in_large_pieces(file, sys, (uintptr_t)at, text->size);
        file->laid.end_text++;
    }
    sys_close(sys, (int)fd);
}

/* The first that fails is tried once more at the hook, where it is said why. */
void frozen_lay_texts(struct frozen_file *file, const struct rimf_sys *sys)
{
    uint32_t before = 0;

    while (before < file->view.header->n_texts && file->view.texts[before].object == 0)
        before++;
    file->laid.first_text = file->laid.end_text = before;
    do {
        before = file->laid.end_text;
        if (before < file->view.header->n_texts)
            lay_object(file, sys);
    } while (file->laid.end_text > before);
}

int frozen_take_text_back(struct frozen_file *file, const struct rimf_sys *sys, int fd)
{
    const struct frozen_text *text = &file->view.texts[file->laid.end_text - 1];
    struct stat st;
    long error = SYS3(sys, SYS_fstat, fd, &st, 0);

    if (error)
        return (int)error;
    if (!file_id_is(&file->view.objects[text->object].file, &st))
        return -ESTALE;
    error = frozen_map_text(sys, file->laid.biases[text->object], text, fd);
    if (sys_failed(error))
        return (int)error;
    file->laid.end_text--;
    return 0;
}
