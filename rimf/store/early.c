/* SPDX-License-Identifier: MIT
 *
 * rimf/store/early.c: maps parts of a manifest before anything is relocated (store/manifest.h, RELOCATIONS), and
 * restores original addresses in words.
 *
 * Everything that can fail comes first: the files are opened and moved code mapped before any table.  A later
 * failure leaves some words with addresses of moved code, and others with original ones; rimf_manifest_apply
 * expects both.
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"
#include "rimf/base/sys.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- objects, as they are mapped --------------------------------------------------- */

static const Elf64_Phdr *headers_of(const struct manifest_file *file, uint32_t object, size_t *n)
{
    return elf_headers((const void *)(file->early.biases[object] + file->view.objects[object].first), RIMF_PAGE, n);
}

/* The segment that contains [linked, linked + size), or NULL. */
static const Elf64_Phdr *segment_at(const struct manifest_file *file, uint32_t object, uint64_t linked,
                                    uint64_t size)
{
    size_t n;
    const Elf64_Phdr *ph = headers_of(file, object, &n);

    for (const Elf64_Phdr *end = ph + n; ph < end; ph++)
        if (ph->p_type == PT_LOAD && linked >= rimf_page_down(ph->p_vaddr) &&
            linked < rimf_page_up(ph->p_vaddr + ph->p_memsz) &&
            size <= rimf_page_up(ph->p_vaddr + ph->p_memsz) - linked)
            return ph;
    return NULL;
}

/* ---- the region of moved code ------------------------------------------------------ */

void manifest_region_unmap(const struct manifest_file *file, const struct rimf_sys *sys, uintptr_t bias, int n)
{
    const struct manifest_region *region = file->view.region;
    size_t headers;
    const Elf64_Phdr *ph =
        elf_headers((const void *)(bias + file->view.objects[region->object].first), RIMF_PAGE, &headers);

    for (int i = 0; i < n; i++) {
        const struct manifest_piece *piece = &region->pieces[i];
        int rights = PROT_NONE;

        for (size_t k = 0; k < headers; k++)
            if (ph[k].p_type == PT_LOAD && piece->linked - ph[k].p_vaddr < ph[k].p_memsz)
                rights = elf_prot(&ph[k]);
        sys_mmap(sys, bias + piece->linked, piece->size, rights,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    }
}

static int map_pieces(const struct manifest_file *file, const struct rimf_sys *sys, uintptr_t bias,
                      int fd, const char **why)
{
    for (int i = 0; i < MANIFEST_PIECES; i++) {
        const struct manifest_piece *piece = &file->view.region->pieces[i];
        long at = sys_mmap(sys, bias + piece->linked, piece->size,
                           i == MANIFEST_CODE ? PROT_READ | PROT_EXEC : PROT_READ,
                           MAP_PRIVATE | MAP_FIXED, fd, piece->offset);

        if (sys_failed(at)) {
            manifest_region_unmap(file, sys, bias, i);
            *why = "moved code cannot be mapped";
            return (int)at;
        }
        if (i == MANIFEST_CODE)
            overlay_want_large(sys, file->filtered, (uintptr_t)at, piece->size);
    }
    return 0;
}

static long open_tables(const struct manifest_file *file, const struct rimf_sys *sys, const char **why)
{
    return manifest_open_part(file, sys, manifest_tables_name(&file->view), &file->view.header->tables, why);
}

int manifest_region_map(const struct manifest_file *file, const struct rimf_sys *sys, uintptr_t bias,
                      const char **why)
{
    long fd = open_tables(file, sys, why);
    int error;

    if (sys_failed(fd))
        return (int)fd;
    error = map_pieces(file, sys, bias, (int)fd, why);
    sys_close(sys, (int)fd);
    return error;
}

/* Whether the object of the region reserves these addresses. */
static int region_fits(const struct manifest_file *file)
{
    const struct manifest_region *r = file->view.region;

    return segment_at(file, r->object, r->code, r->code_size) &&
           segment_at(file, r->object, r->frames, r->frames_size);
}

/* ---- words that lead to moved code ----------------------------------------------------- */

static uintptr_t original_of(const struct manifest_file *file, const struct manifest_pointer *pointer)
{
    const struct manifest_fragment *fragment = &file->view.fragments[pointer->fragment];

    return file->early.biases[fragment->object] + fragment->original + pointer->offset;
}

static uintptr_t moved_of(const struct manifest_file *file, const struct manifest_pointer *pointer)
{
    return file->early.biases[file->view.region->object] + file->view.fragments[pointer->fragment].at +
           pointer->offset;
}

/* The memory that relocation may write in one object: a segment, as linked. */
struct writable {
    uint32_t object;
    uint64_t start, end;
};

/* Returns 1 if the word is there, or where `in` is changed to. */
static int may_write(const struct manifest_file *file, uint32_t object, uint32_t linked, struct writable *in)
{
    const Elf64_Phdr *ph;

    if (object == in->object && linked >= in->start && linked + sizeof(uint64_t) <= in->end)
        return 1;
    ph = segment_at(file, object, linked, sizeof(uint64_t));
    if (!ph || elf_prot(ph) != (PROT_READ | PROT_WRITE))
        return 0;
    *in = (struct writable){object, rimf_page_down(ph->p_vaddr), rimf_page_up(ph->p_vaddr + ph->p_memsz)};
    return 1;
}

/* Whether words of DT_RELR contain their addends. */
static int addends_fit(const struct manifest_file *file)
{
    struct writable in = {.end = 0};

    for (uint32_t i = 0; i < file->view.header->n_addends; i++) {
        const struct manifest_pointer *p = &file->view.pointers[i];
        uintptr_t bias = file->early.biases[p->object], addend;

        if (!may_write(file, p->object, p->linked, &in))
            return 0;
        memcpy(&addend, (const void *)(bias + p->linked), sizeof addend);
        if (bias + addend != original_of(file, p))
            return 0;
    }
    return 1;
}

/* Returns 1 if the files' own tables already wrote the words of some object. */
static int is_relocated(const struct manifest_file *file)
{
    const struct manifest_header *h = file->view.header;
    uint32_t end = h->n_addends + h->n_tabled;
    struct writable in = {.end = 0};

    for (uint32_t i = h->n_addends; i < end; i = manifest_next_object(&file->view, i, end)) {
        const struct manifest_pointer *p = &file->view.pointers[i];
        uintptr_t word;

        if (!may_write(file, p->object, p->linked, &in))
            return 1;
        memcpy(&word, (const void *)(file->early.biases[p->object] + p->linked), sizeof word);
        if (word == original_of(file, p))
            return 1;
    }
    return 0;
}

static void write_addends(const struct manifest_file *file)
{
    for (uint32_t i = 0; i < file->view.header->n_addends; i++) {
        const struct manifest_pointer *p = &file->view.pointers[i];
        uintptr_t bias = file->early.biases[p->object], addend = moved_of(file, p) - bias;

        memcpy((void *)(bias + p->linked), &addend, sizeof addend);
    }
}

/* ---- and to the originals again ---------------------------------------------------- */

/* Protects RELRO of the object, as the host loader does. */
static int protect(const struct manifest_file *file, const struct rimf_sys *sys, uint32_t object,
                   int rights)
{
    uintptr_t bias = file->early.biases[object], start, end;
    size_t n;
    const Elf64_Phdr *ph = headers_of(file, object, &n);

    ph = elf_phdr_last(ph, n, PT_GNU_RELRO);
    start = ph ? rimf_page_down(bias + ph->p_vaddr) : 0;
    end = ph ? rimf_page_down(bias + ph->p_vaddr + ph->p_memsz) : 0;
    return end > start && sys_failed(sys_mprotect(sys, start, end - start, rights)) ? -EPERM : 0;
}

static void restore_word(const struct manifest_file *file, uint32_t object, uint32_t linked, struct writable *in)
{
    uintptr_t word = file->early.biases[object] + linked, value;
    const struct manifest_fragment *fragment;

    if (!may_write(file, object, linked, in))
        return;
    memcpy(&value, (const void *)word, sizeof value);
    value -= file->early.biases[file->view.region->object];
    fragment = manifest_fragment_at(&file->view, value);
    if (!fragment)
        return;
    value += file->early.biases[fragment->object] + fragment->original - fragment->at;
    memcpy((void *)word, &value, sizeof value);
}

/* Restores all words of one object: those in the list, and those that a resolver may have chosen. */
static void restore_words(const struct manifest_file *file, uint32_t object)
{
    const struct manifest *f = &file->view;
    struct writable in = {.end = 0};

    for (uint32_t i = 0; i < f->header->n_pointers; i++)
        if (f->pointers[i].object == object)
            restore_word(file, object, f->pointers[i].linked, &in);
    for (uint32_t i = 0; i < f->header->n_words; i++)
        if (f->words[i].object == object)
            restore_word(file, object, f->words[i].linked, &in);
}

/* Also in unplaced objects: R_X86_64_COPY has copied such words. */
int manifest_take_back(struct manifest_file *file, const struct rimf_sys *sys)
{
    const struct manifest *f = &file->view;
    int error = 0;

    for (uint32_t i = 0; file->early.moved && i < f->header->n_objects && !error; i++) {
        if (!f->objects[i].file.inode || i == f->region->object)
            continue;
        error = protect(file, sys, i, PROT_READ | PROT_WRITE);
        if (error)
            break;
        restore_words(file, i);
        error = protect(file, sys, i, PROT_READ);
    }
    file->early.moved = error ? file->early.moved : 0;
    return error;
}

/* ---- tables ------------------------------------------------------------------------ */

/* The dynamic section, if the host loader has written to it, and we may; or NULL. */
static Elf64_Dyn *dynamic_of(const struct manifest_file *file, uint32_t object, size_t *n)
{
    const Elf64_Phdr *ph = headers_of(file, object, n), *in;

    ph = elf_phdr_last(ph, *n, PT_DYNAMIC);
    in = ph ? segment_at(file, object, ph->p_vaddr, ph->p_memsz) : NULL;
    if (!in || elf_prot(in) != (PROT_READ | PROT_WRITE))
        return NULL;
    *n = ph->p_memsz / sizeof(Elf64_Dyn);
    return (Elf64_Dyn *)(file->early.biases[object] + ph->p_vaddr);
}

static int is_table(const Elf64_Dyn *d)
{
    return d->d_tag == DT_RELA || d->d_tag == DT_JMPREL;
}

/* Returns 1: the host loader, which has turned linked addresses into real ones, will find the object's tables
 * in our pages; 0: unchanged. */
static int move_tables(const struct manifest_file *file, const struct manifest_relocations *r)
{
    uintptr_t original = file->early.biases[r->object] + r->linked;
    size_t n;
    Elf64_Dyn *dynamic = dynamic_of(file, r->object, &n);

    if (!dynamic)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (is_table(&dynamic[i]) && dynamic[i].d_un.d_ptr - original >= r->size)
            return 0;
    for (size_t i = 0; i < n; i++)
        if (is_table(&dynamic[i]))
            dynamic[i].d_un.d_ptr += manifest_tables_at(file, r) - original;
    return 1;
}

/* Shifts addends that count from another object, in writable tables. */
static void shift(const struct manifest_file *file)
{
    const struct manifest *f = &file->view;
    const struct manifest_relocations *r = f->relocations;

    for (uint32_t i = 0; i < f->header->n_shifts; i++) {
        const struct manifest_shift *s = &f->shifts[i];
        uintptr_t at = file->early.tables + s->at, addend;

        while (at - manifest_tables_at(file, r) >= r->size)
            r++;
        memcpy(&addend, (const void *)at, sizeof addend);
        addend += file->early.biases[s->to_object] - file->early.biases[r->object];
        memcpy((void *)at, &addend, sizeof addend);
    }
}

/* Returns 1 if all tables are mapped and used. */
static int map_pages(struct manifest_file *file, const struct rimf_sys *sys, int fd)
{
    const struct manifest *f = &file->view;
    const struct manifest_relocations *first = f->relocations, *last = first + f->header->n_relocations - 1;
    size_t size = last->offset + last->size - first->offset;
    int shifts = f->header->n_shifts != 0;
    long at = sys_mmap(sys, 0, size, shifts ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE, fd, first->offset);

    if (sys_failed(at))
        return 0;
    if (f->region) /* the file of moved code, whose bytes are read first */
        overlay_want_large(sys, file->filtered, (uintptr_t)at, size);
    file->early.tables = (uintptr_t)at;
    shift(file);
    if (!shifts || !sys_failed(sys_mprotect(sys, (uintptr_t)at, size, PROT_READ)))
        return 1;
    file->early.tables = 0;
    sys_munmap(sys, (uintptr_t)at, size);
    return 0;
}

/* They remain mapped: lazily bound slots have their entries in them. */
static void map_tables(struct manifest_file *file, const struct rimf_sys *sys, int fd)
{
    const struct manifest *f = &file->view;
    uint32_t n = f->header->n_relocations;

    if (!n || !map_pages(file, sys, fd))
        return;
    file->early.whole = 1;
    for (uint32_t i = 0; i < n; i++) {
        int moved = move_tables(file, &f->relocations[i]);

        file->early.entries += moved ? f->relocations[i].n : 0;
        file->early.whole &= moved;
    }
}

int manifest_map_early(struct manifest_file *file, const struct rimf_sys *sys, const uintptr_t *biases,
               const char **why)
{
    const struct manifest *f = &file->view;
    int error = 0;
    long fd;

    *why = "words do not hold what they should, or there is no room for moved code";
    file->early = (struct manifest_early){.biases = biases};
    if (f->region && (!region_fits(file) || is_relocated(file) || !addends_fit(file)))
        return -ESTALE;
    fd = open_tables(file, sys, why);
    if (sys_failed(fd))
        return (int)fd;
    if (f->region)
        error = map_pieces(file, sys, file->early.biases[f->region->object], (int)fd, why);
    if (!error) {
        map_tables(file, sys, (int)fd); /* if it fails, symbols are looked up */
        write_addends(file);
        file->early.moved = f->region != NULL;
    }
    sys_close(sys, (int)fd);
    return error;
}
