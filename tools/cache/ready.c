/* SPDX-License-Identifier: MIT
 *
 * cache/ready.c: see cache/ready.h.
 */
#include "tools/cache/ready.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "tools/common/tools.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* KEY-NAME */
int ready_is_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == 16 && name[16] == '-';
}

/* The size of the file that was changed: its tables begin behind that, on a page.  0: there are none. */
static uint64_t original_size(int fd, uint64_t size)
{
    struct ready_header header;

    for (uint64_t at = rimf_page_down(size); at; at -= RIMF_PAGE)
        if (pread(fd, &header, sizeof header, (off_t)at) == (ssize_t)sizeof header &&
            !memcmp(header.magic, READY_MAGIC, sizeof header.magic) &&
            rimf_page_up(header.file.size) == at)
            return header.file.size;
    return 0;
}

static int is_of_other_version(int fd, uint64_t original)
{
    struct ready_header header;

    return pread(fd, &header, sizeof header, (off_t)rimf_page_up(original)) ==
               (ssize_t)sizeof header && header.version != READY_VERSION;
}

static enum image_state look(const struct ready *r, char **why)
{
    *why = image_other_file(r->name, &r->header->file);
    if (!*why && r->header->reach == READY_ALL)
        *why = image_other_file(r->program, &r->header->program);
    if (*why)
        return IMAGE_OF_OTHER_FILES;
    *why = image_other_maker(r->header->made_by);
    return *why ? IMAGE_OF_OTHER_MVLD : IMAGE_GOOD;
}

static char *damaged(const struct ready *r, int fd)
{
    char *why = NULL;

    for (uint32_t i = 0; i < r->header->n_texts && !why; i++) {
        const struct frozen_text *text = &r->texts[i];

        why = image_compare_pages(fd, text->size, text->offset, text->hash, "its code");
    }
    return why;
}

enum image_state ready_judge(struct ready_file *file, const char *path, int compare, char **why)
{
    const char *wrong = "it has no tables";
    enum image_state state = IMAGE_DAMAGED;
    struct stat st;
    long fd = cache_open(&rimf_sys_kernel, AT_FDCWD, path, S_IFREG, geteuid(), &st, &wrong);
    uint64_t original = fd < 0 ? 0 : original_size((int)fd, (uint64_t)st.st_size);

    *file = (struct ready_file){.fd = -1};
    *why = NULL;
    if (!original || ready_map(file, &rimf_sys_kernel, path, geteuid(), original, 0, &wrong)) {
        *why = must_print("%s", wrong);
        if (original && is_of_other_version((int)fd, original))
            state = IMAGE_OF_OTHER_MVLD;
    } else {
        state = look(&file->view, why);
        if (state == IMAGE_GOOD && compare && (*why = damaged(&file->view, (int)fd)))
            state = IMAGE_DAMAGED;
    }
    if (fd >= 0)
        close((int)fd);
    return state;
}
