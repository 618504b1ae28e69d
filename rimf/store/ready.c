/* SPDX-License-Identifier: MIT
 *
 * rimf/store/ready.c: checks and opens files of ready code; the format is told in ready.h.
 */
#include "rimf/store/ready.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

_Static_assert(sizeof(struct ready_header) == 192, "a file format");
_Static_assert(offsetof(struct ready_header, checksum) == offsetof(struct frozen_header, checksum),
               "frozen_checksum");

/* ---- checking --------------------------------------------------------------------- */

static const char *check_texts(const struct ready *r)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < r->header->n_texts; i++) {
        const char *why = frozen_check_text(&r->texts[i], &r->header->file);

        if (why)
            return why;
        if (r->texts[i].object || r->texts[i].linked < last)
            return "the texts are not in order";
        last = r->texts[i].linked + r->texts[i].size;
    }
    return last <= UINT32_MAX ? NULL : "the texts are not in order";
}

static int is_in_text(const struct ready *r, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < r->header->n_texts; i++)
        if (start >= r->texts[i].linked && end <= r->texts[i].linked + r->texts[i].size)
            return 1;
    return 0;
}

static const char *check_slots(const struct ready *r)
{
    for (uint32_t i = 0; i < r->header->n_slots; i++) {
        const struct ready_slot *slot = &r->slots[i];

        if (!slot->slot || slot->slot % sizeof(uint64_t) || !ready_calls(slot) ||
            (i && slot->slot <= slot[-1].slot))
            return "the slots are not in order";
        if (r->header->reach == READY_OWN &&
            (slot->calls & READY_LEFT || slot->leads < 0 ||
             !is_in_text(r, (uint64_t)slot->leads, (uint64_t)slot->leads + 1)))
            return "a slot leads to no code of the object";
    }
    return NULL;
}

static const char *check_rest(const struct ready *r)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < r->header->n_rest; i++) {
        const struct analysis_call *call = &r->rest[i];
        uint64_t end = (uint64_t)call->address + analysis_call_length(call);

        if (!analysis_call_kind(call) || analysis_call_kind(call) >= ANALYSIS_CALL_KINDS ||
            (analysis_call_kind(call) == ANALYSIS_CALL_SINGLE) != !analysis_slot(call))
            return "a call is of a kind that does not exist";
        if (call->address < last || !is_in_text(r, call->address, end))
            return "the calls overlap, or lie outside the code";
        last = end;
    }
    return NULL;
}

static const char *check(struct ready *r, const uint8_t *bytes, size_t size)
{
    const struct ready_header *h = r->header = (const struct ready_header *)bytes;
    uint64_t whole;
    const char *why;

    if (size < sizeof *h || memcmp(h->magic, READY_MAGIC, sizeof h->magic) != 0)
        return "it is no ready code";
    if (h->version != READY_VERSION || h->header_size != sizeof *h)
        return "it is of another version of the format";
    whole = sizeof *h + (uint64_t)h->n_texts * sizeof *r->texts +
            (uint64_t)h->n_slots * sizeof *r->slots + (uint64_t)h->n_rest * sizeof *r->rest +
            h->name_size;
    if (h->size != size || whole != size || size > READY_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (h->checksum != frozen_checksum(bytes, size))
        return "its checksum is wrong";
    r->texts = (const void *)(h + 1);
    r->rest = (const void *)(r->texts + h->n_texts);
    r->slots = (const void *)(r->rest + h->n_rest);
    r->name = (const char *)(r->slots + h->n_slots);
    if (h->reach >= READY_REACHES || !h->n_texts || !h->name_size || r->name[h->name_size - 1])
        return "it has no code, or no name";
    r->program = r->name + rimf_strlen(r->name) + 1;
    if (r->program == r->name + h->name_size)
        return "it has no code, or no name";
    why = check_texts(r);
    if (!why)
        why = check_slots(r);
    return why ? why : check_rest(r);
}

int ready_open(struct ready *r, const void *bytes, size_t size, const char **why)
{
    *why = check(r, bytes, size);
    if (*why)
        memset(r, 0, sizeof *r);
    return *why ? -EINVAL : 0;
}

/* ---- files ------------------------------------------------------------------------- */

size_t ready_path(char *to, size_t size, const char *folder, const struct file_id *file,
                  uint64_t key, const char *name)
{
    const uint64_t which[] = {file->device, file->inode, key};
    const char *slash = rimf_strrchr(name, '/');
    size_t n = rimf_format(to, size, "%s/%016lx-%.200s", folder, rimf_hash(which, sizeof which),
                           slash ? slash + 1 : name);

    return n < size ? n : 0;
}

static int map_tables(struct ready_file *file, const struct rimf_sys *sys, const struct stat *st,
                      uint64_t original, int large, const char **why)
{
    uint64_t at = rimf_page_up(original), size = (uint64_t)st->st_size;
    long got;

    if (at < original || size < at + sizeof(struct ready_header) || size - at > READY_SIZE_MAX) {
        *why = "it is too small or too large for what it should be";
        return -EINVAL;
    }
    got = sys_mmap(sys, 0, size - at, PROT_READ, MAP_PRIVATE, file->fd, at);
    if (sys_failed(got)) {
        *why = "it cannot be mapped";
        return (int)got;
    }
    file->map = (void *)got;
    file->size = size - at;
    /* What is touched first decides how the kernel reads a file that it had let go of, the code in front
     * of the tables, too (frozen_file.c). */
    if (large)
        SYS3(sys, SYS_madvise, got, size - at, MADV_HUGEPAGE);
    if (ready_open(&file->view, file->map, file->size, why))
        return -EINVAL;
    *why = file->view.header->file.size != original            ? "it is of another object"
           : !file_id_is_own(&file->view.header->self, st) ? "it was changed after it was written" : NULL;
    return *why ? -ESTALE : 0;
}

int ready_map(struct ready_file *file, const struct rimf_sys *sys, const char *path, uint32_t user,
              uint64_t original, int large, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, AT_FDCWD, path, S_IFREG, user, &st, why);
    int error;

    *file = (struct ready_file){.fd = -1};
    if (sys_failed(fd))
        return (int)fd;
    file->fd = (int)fd;
    error = map_tables(file, sys, &st, original, large, why);
    if (error)
        ready_unmap(file, sys);
    return error;
}

void ready_close(struct ready_file *file, const struct rimf_sys *sys)
{
    if (file->fd >= 0)
        sys_close(sys, file->fd);
    file->fd = -1;
}

void ready_unmap(struct ready_file *file, const struct rimf_sys *sys)
{
    ready_close(file, sys);
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    *file = (struct ready_file){.fd = -1};
}
