/* SPDX-License-Identifier: MIT
 *
 * rimf/store/lay_texts.c: maps texts of a manifest over those of the files before anything is relocated
 * (manifest.h, BEFORE RELOCATION).
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "rimf/elf/headers.h"

#include <errno.h> /* numbers only */

int overlay_is_text(const Elf64_Phdr *ph, size_t n, const struct manifest_text *text)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_flags == (PF_R | PF_X) &&
            ph[i].p_filesz == ph[i].p_memsz && rimf_page_down(ph[i].p_vaddr) == text->linked &&
            rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) == text->linked + text->size &&
            rimf_page_down(ph[i].p_offset) == text->offset)
            return 1;
    return 0;
}

static int fits(const struct manifest_file *file, const struct manifest_text *text)
{
    size_t n;
    uintptr_t start = file->laid.biases[text->object] + file->view.objects[text->object].first;
    const Elf64_Phdr *ph = elf_headers((const void *)start, RIMF_PAGE, &n);

    return overlay_is_text(ph, n, text);
}

int manifest_lay_over(const struct manifest_file *file, const struct rimf_sys *sys, uintptr_t bias,
                      const struct manifest_text *text, uint32_t n, int fd, uint32_t *laid)
{
    for (; n--; text++) {
        uint32_t index = (uint32_t)(text - file->view.texts);
        long at;

        if (index >= file->laid.first_text && index < file->laid.end_text)
            continue;
        at = overlay_map_text(sys, bias, text, fd);
        if (sys_failed(at))
            return (int)at;
        overlay_want_large(sys, file->filtered, (uintptr_t)at, text->size);
        ++*laid;
    }
    return 0;
}

/* The next, and all of the same object behind it. */
static void lay_object(struct manifest_file *file, const struct rimf_sys *sys)
{
    const struct manifest *f = &file->view;
    const struct manifest_text *text = &f->texts[file->laid.end_text];
    const struct manifest_object *object = &f->objects[text->object];
    uint32_t n = 0, left = f->header->n_texts - file->laid.end_text, laid = 0;
    const char *why;
    long fd = manifest_open_part(file, sys, f->names + object->overlay_name, &object->overlay, &why);

    if (sys_failed(fd))
        return;
    while (n < left && text[n].object == text->object && fits(file, &text[n]))
        n++;
    manifest_lay_over(file, sys, file->laid.biases[text->object], text, n, (int)fd, &laid);
    file->laid.end_text += laid;
    sys_close(sys, (int)fd);
}

/* The first failing one is tried again at the hook, which reports the reason. */
void manifest_lay_texts(struct manifest_file *file, const struct rimf_sys *sys)
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

int manifest_take_text_back(struct manifest_file *file, const struct rimf_sys *sys, int fd)
{
    const struct manifest_text *text = &file->view.texts[file->laid.end_text - 1];
    struct stat st;
    long error = SYS3(sys, SYS_fstat, fd, &st, 0);

    if (error)
        return (int)error;
    if (!file_id_is(&file->view.objects[text->object].file, &st))
        return -ESTALE;
    error = overlay_map_text(sys, file->laid.biases[text->object], text, fd);
    if (sys_failed(error))
        return (int)error;
    file->laid.end_text--;
    return 0;
}
