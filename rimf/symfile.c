/* SPDX-License-Identifier: MIT
 *
 * rimf/symfile.c: symfile.h's file, and how debuggers hear of it.
 */
#include "symfile.h"

#include "base.h"
#include "copies.h"
#include "image_private.h"

#include <elf.h>
#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0.data";
enum { TEXT_NAME = 1, FRAMES_NAME = 7, SYMTAB_NAME = 17, STRTAB_NAME = 25, SHSTRTAB_NAME = 33,
       DATA_NAME = 43 };
enum { NONE, TEXT, FRAMES, SYMTAB, STRTAB, SHSTRTAB, DATA, SECTIONS };

struct head {
    Elf64_Ehdr elf;
    Elf64_Phdr load;
    Elf64_Shdr sections[SECTIONS];
};

/* ---- measuring --------------------------------------------------------------------- *
 *
 * No symbol is said twice.  Names may be said more often than they stand in their table,
 * where symbols share them or their ends; of a table in which that is the rule the last
 * are not said.  What is not used is never touched, so it takes no memory.
 */
#define SHARED 2

/* Of the library that the region is in: where debuggers look for what else there is. */
static const struct {
    const char *dynamic, *name; /* libconcat.so.1 says why these are not the same */
} interface[] = {
    {"concat_jit", "__jit_debug_descriptor"},
    {"concat_jit_changed", "__jit_debug_register_code"},
};

int symfile_open(struct mvld_image *image, struct symfile *f)
{
    if (!image->copies || f->first >= f->end || f->end > image->copies->n)
        return rimf_fail(image, EINVAL, "there are no such copies of code");
    f->files = rimf_heap_alloc(&image->heap, (f->end - f->first) * sizeof *f->files);
    if (!f->files)
        return rimf_fail(image, ENOMEM, "there is no memory for the names of copies");
    f->symbols_room = f->names_room = 1; /* the empty ones */
    for (size_t i = 0; f->base && i < RIMF_COUNT(interface); i++) {
        f->symbols_room++;
        f->names_room += rimf_strlen(interface[i].name) + 1;
    }
    for (size_t i = f->first; i < f->end; i++) {
        const struct rimf_object *object = image->copies->list[i].object;
        struct file_symbols *file = &f->files[i - f->first];

        if (!copies_is_first(image->copies, i))
            continue;
        file_symbols_read(image, object, file);
        f->symbols_room += elf_symbol_count(&object->view) + file->n;
        f->names_room += SHARED * (object->view.strings_size + file->names_size);
    }
    return 0;
}

void symfile_close(struct mvld_image *image, struct symfile *f)
{
    for (size_t i = f->first; f->files && i < f->end; i++)
        file_symbols_release(image, &f->files[i - f->first]);
    rimf_heap_release(&image->heap, f->files);
    f->files = NULL;
}

/* The names begin on a page of their own. */
static size_t names_at(const struct symfile *f)
{
    return rimf_page_up(sizeof(struct head) + f->symbols_room * sizeof(Elf64_Sym));
}

size_t symfile_size(const struct symfile *f)
{
    return names_at(f) + f->names_room + sizeof section_names;
}

/* ---- writing ------------------------------------------------------------------------- */

struct writing {
    const struct symfile *file;
    Elf64_Sym *symbol, *symbols_end;
    char *names, *name, *names_end;
    Elf64_Section section;
    Elf64_Addr data; /* the data that the interface names: section DATA */
    Elf64_Xword data_size;
};

static void write_symbol(void *cookie, const struct mvld_symbol *symbol)
{
    struct writing *w = cookie;
    size_t size = rimf_strlen(symbol->name) + 1;

    if (w->symbol == w->symbols_end || size > (size_t)(w->names_end - w->name))
        return;
    memcpy(w->name, symbol->name, size);
    *w->symbol++ = (Elf64_Sym){
        .st_name = (Elf64_Word)(w->name - w->names),
        .st_info = ELF64_ST_INFO(symbol->binding, symbol->type),
        .st_shndx = w->section,
        .st_value = symbol->address - w->file->base,
        .st_size = symbol->size,
    };
    w->name += size;
}

/* gdb 16 (Debian 13) takes for the descriptor only what lies in a section of data. */
static void write_interface(const struct mvld_image *image, struct writing *w)
{
    const struct mvld_object *owner = rimf_object_find(image, image->copies->region.code);
    struct mvld_symbol symbol;

    for (size_t i = 0; i < RIMF_COUNT(interface); i++) {
        if (rimf_symbol_resolve(image, interface[i].dynamic, NULL, &symbol) || symbol.object != owner)
            continue;
        symbol.name = interface[i].name;
        w->section = symbol.type == STT_OBJECT ? DATA : TEXT;
        if (w->section == DATA) {
            w->data = symbol.address - w->file->base;
            w->data_size = symbol.size;
        }
        write_symbol(w, &symbol);
    }
    w->section = TEXT;
}

static void write_head(struct head *head, const struct writing *w, uintptr_t code, size_t size)
{
    const struct symfile *file = w->file;
    Elf64_Shdr *s = head->sections;

    head->elf = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = file->base ? ET_DYN : ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof head->elf,
        .e_phoff = file->code_offset ? offsetof(struct head, load) : 0,
        .e_phentsize = sizeof head->load,
        .e_phnum = file->code_offset ? 1 : 0,
        .e_shoff = offsetof(struct head, sections),
        .e_shentsize = sizeof *s,
        .e_shnum = SECTIONS,
        .e_shstrndx = SHSTRTAB,
    };
    head->load = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = RIMF_PAGE,
                              .p_offset = file->code_offset, .p_vaddr = code, .p_paddr = code,
                              .p_filesz = size, .p_memsz = size};
    s[TEXT] = (Elf64_Shdr){.sh_name = TEXT_NAME, .sh_type = SHT_NOBITS, .sh_addralign = 64,
                           .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = code,
                           .sh_offset = file->code_offset, .sh_size = size};
    if (file->code_offset)
        s[TEXT].sh_type = SHT_PROGBITS;
    s[FRAMES] = (Elf64_Shdr){.sh_name = FRAMES_NAME, .sh_addralign = 8,
                             .sh_type = file->frames_size ? SHT_PROGBITS : SHT_NULL,
                             .sh_flags = file->frames_size ? SHF_ALLOC : 0,
                             .sh_addr = file->frames_size ? file->frames - file->base : 0,
                             .sh_offset = file->frames_offset, .sh_size = file->frames_size};
    s[SYMTAB] = (Elf64_Shdr){.sh_name = SYMTAB_NAME, .sh_type = SHT_SYMTAB, .sh_addralign = 8,
                             .sh_offset = sizeof *head, .sh_link = STRTAB,
                             .sh_info = 1, .sh_entsize = sizeof(Elf64_Sym)};
    s[STRTAB] = (Elf64_Shdr){.sh_name = STRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                             .sh_offset = names_at(file)};
    s[SHSTRTAB] = (Elf64_Shdr){.sh_name = SHSTRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                               .sh_size = sizeof section_names};
    s[DATA] = (Elf64_Shdr){.sh_name = DATA_NAME, .sh_addralign = 8,
                           .sh_type = w->data_size ? SHT_NOBITS : SHT_NULL,
                           .sh_flags = w->data_size ? SHF_ALLOC | SHF_WRITE : 0,
                           .sh_addr = w->data, .sh_size = w->data_size};
}

int symfile_write(struct mvld_image *image, const struct symfile *file, void *to)
{
    const struct rimf_copy *list = image->copies->list, *last = &list[file->end - 1];
    uintptr_t code = rimf_page_down(list[file->first].at);
    struct head *head = to;
    struct writing w = {.file = file, .symbol = (Elf64_Sym *)(head + 1), .section = TEXT};
    Elf64_Sym *symbols = w.symbol;
    int error = 0;

    w.symbols_end = symbols + file->symbols_room;
    w.names = (char *)to + names_at(file);
    w.names_end = w.names + file->names_room;
    w.symbol++;
    w.name = w.names + 1;
    if (file->base)
        write_interface(image, &w);
    for (size_t i = file->first; i < file->end && !error; i++)
        if (copies_is_first(image->copies, i))
            error = copy_names_of(image, list[i].object, &file->files[i - file->first], 0,
                                  write_symbol, &w);
    memcpy(w.name, section_names, sizeof section_names);
    write_head(head, &w, code - file->base, last->at + last->code - code);
    head->sections[SYMTAB].sh_size = (uintptr_t)w.symbol - (uintptr_t)symbols;
    head->sections[STRTAB].sh_size = (uintptr_t)(w.name - w.names);
    head->sections[SHSTRTAB].sh_offset = (uintptr_t)(w.name - (char *)to);
    return error;
}

/* ---- GDB's JIT interface ------------------------------------------------------------- *
 *
 * A debugger that attaches walks the list; one that is there already has a breakpoint in
 * a function that we call after each change.
 */

struct jit_entry {
    struct jit_entry *next, *before;
    const void *file;
    uint64_t size;
};

struct jit_descriptor {
    uint32_t version, action; /* 1; 1: an entry was added */
    struct jit_entry *at_hand, *first;
};

static void announce(struct jit_descriptor *descriptor, struct jit_entry *entry,
                     void (*changed)(void))
{
    entry->next = descriptor->first;
    if (entry->next)
        entry->next->before = entry;
    descriptor->first = descriptor->at_hand = entry;
    descriptor->action = 1;
    changed();
}

/* Below `copies->names`.  A half stays for the table that unwinders search: code may be without
 * names, but not without that.  0, or negative errno. */
static int place(struct mvld_image *image, struct symfile *file, uintptr_t *at)
{
    struct rimf_copies *copies = image->copies;
    size_t table = copy_frames_searched(copies->n_frames);
    size_t half = rimf_page_up(copy_frames_table(&copies->region) / 2);
    uintptr_t lowest = copies->region.frames + (table > half ? table : half);
    uintptr_t end = copies->names;
    long error;

    if (end < lowest || symfile_size(file) > end - lowest)
        return rimf_fail(image, ENOSPC, "the region has no room for the names of copies");
    *at = rimf_page_down(end - symfile_size(file));
    file->frames_offset = file->frames - *at;
    error = sys_mmap(image->sys, *at, end - *at, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (sys_failed(error))
        return rimf_fail(image, (int)-error, "there is no memory for the names of copies");
    error = symfile_write(image, file, (void *)*at);
    sys_mprotect(image->sys, *at, end - *at, PROT_READ);
    return (int)error;
}

int rimf_copies_debug(struct mvld_image *image, void *descriptor, void (*changed)(void))
{
    struct rimf_copies *copies = image->copies;
    struct jit_entry *entry;
    struct symfile file;
    uintptr_t at = 0;
    int error;

    if (!copies || copies->n == copies->n_named)
        return 0;
    file = (struct symfile){.first = copies->n_named, .end = copies->n,
                            .frames = copies->frames_named,
                            .frames_size = copies->frames_end - copies->frames_named};
    entry = rimf_heap_alloc(&image->heap, sizeof *entry);
    error = entry ? symfile_open(image, &file)
                  : rimf_fail(image, ENOMEM, "there is no memory for the names of copies");
    if (!error)
        error = place(image, &file, &at);
    symfile_close(image, &file);
    if (error) {
        rimf_heap_release(&image->heap, entry);
        return error;
    }
    copies->n_named = copies->n;
    copies->names = at;
    copies->frames_named = copies->frames_end;
    *entry = (struct jit_entry){.file = (const void *)at, .size = copies->frames_end - at};
    announce(descriptor, entry, changed);
    return 0;
}
