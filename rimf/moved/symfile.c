/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/symfile.c: makes symfile.h's file.
 */
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/image/private.h"

#include <elf.h>
#include <errno.h> /* numbers only */

static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0.data";
enum { TEXT_NAME = 1, FRAMES_NAME = 7, SYMTAB_NAME = 17, STRTAB_NAME = 25, SHSTRTAB_NAME = 33,
       DATA_NAME = 43 };
enum { NONE, TEXT, FRAMES, SYMTAB, STRTAB, SHSTRTAB, DATA, SECTIONS };

struct head {
    Elf64_Ehdr elf;
    Elf64_Phdr load;
    Elf64_Shdr sections[SECTIONS];
};
_Static_assert(sizeof(struct head) + SYMFILE_SECTIONS <= SYMFILE_HEAD &&
                   sizeof section_names <= SYMFILE_SECTIONS, "they have room");
_Static_assert(TEXT == ANALYSIS_SYMBOLS_IN, "a file format");

/* ---- measuring --------------------------------------------------------------------- *
 *
 * No symbol is said twice.  Names may be said more often than they stand in their table,
 * where symbols share them or their ends; of a table in which that is the rule the last
 * are not said.  What is not used is never touched, so it takes no memory.
 */
#define SHARED 2

/* Symbols of the region's library, where debuggers look for further code. */
static const struct {
    const char *dynamic, *name; /* concat.S has the reason for the different names */
} interface[] = {
    {MOVED_JIT, "__jit_debug_descriptor"},
    {MOVED_JIT_CHANGED, "__jit_debug_register_code"},
};

int symfile_open(struct mvld_image *image, struct symfile *f)
{
    f->files = rimf_heap_alloc(&image->heap, (f->end - f->first + 1) * sizeof *f->files);
    if (!f->files)
        return rimf_fail(image, ENOMEM, "there is no memory for the names of moved code");
    f->symbols_room = f->names_room = 1; /* the empty ones */
    for (size_t i = 0; f->base && i < RIMF_COUNT(interface); i++) {
        f->symbols_room++;
        f->names_room += rimf_strlen(interface[i].name) + 1;
    }
    for (size_t i = 0; i < f->n_functions; i++, f->symbols_room++)
        f->names_room += rimf_strlen(f->functions[i].name) + 1;
    for (size_t i = f->first; i < f->end; i++) {
        const struct rimf_object *object = image->moved->list[i].object;
        struct file_symbols *file = &f->files[i - f->first];

        if (!moved_is_first(image->moved, i))
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
    Elf64_Addr data; /* the interface's data: section DATA */
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

/* gdb 16 (Debian 13) accepts a descriptor only in a section of data. */
static void write_interface(const struct mvld_image *image, struct writing *w)
{
    const struct mvld_object *owner = rimf_object_find(image, image->moved->region.code);
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

void symfile_head(void *to, const struct symfile_parts *p)
{
    struct head *head = to;
    Elf64_Shdr *s = head->sections;

    head->elf = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = p->type,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof head->elf,
        .e_phoff = p->code_offset ? offsetof(struct head, load) : 0,
        .e_phentsize = sizeof head->load,
        .e_phnum = p->code_offset ? 1 : 0,
        .e_shoff = offsetof(struct head, sections),
        .e_shentsize = sizeof *s,
        .e_shnum = SECTIONS,
        .e_shstrndx = SHSTRTAB,
    };
    head->load = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = RIMF_PAGE,
                              .p_offset = p->code_offset, .p_vaddr = p->code, .p_paddr = p->code,
                              .p_filesz = p->code_size, .p_memsz = p->code_size};
    s[TEXT] = (Elf64_Shdr){.sh_name = TEXT_NAME, .sh_type = SHT_NOBITS, .sh_addralign = 64,
                           .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = p->code,
                           .sh_offset = p->code_offset, .sh_size = p->code_size};
    if (p->code_offset)
        s[TEXT].sh_type = SHT_PROGBITS;
    s[FRAMES] = (Elf64_Shdr){.sh_name = FRAMES_NAME, .sh_addralign = 8,
                             .sh_type = p->frames_size ? SHT_PROGBITS : SHT_NULL,
                             .sh_flags = p->frames_size ? SHF_ALLOC : 0,
                             .sh_addr = p->frames_size ? p->frames : 0,
                             .sh_offset = p->frames_offset, .sh_size = p->frames_size};
    s[SYMTAB] = (Elf64_Shdr){.sh_name = SYMTAB_NAME, .sh_type = SHT_SYMTAB, .sh_addralign = 8,
                             .sh_offset = p->symbols_offset, .sh_size = p->symbols_size,
                             .sh_link = STRTAB, .sh_info = 1, .sh_entsize = sizeof(Elf64_Sym)};
    s[STRTAB] = (Elf64_Shdr){.sh_name = STRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                             .sh_offset = p->names_offset, .sh_size = p->names_size};
    s[SHSTRTAB] = (Elf64_Shdr){.sh_name = SHSTRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                               .sh_offset = p->sections_offset, .sh_size = sizeof section_names};
    s[DATA] = (Elf64_Shdr){.sh_name = DATA_NAME, .sh_addralign = 8,
                           .sh_type = p->data_size ? SHT_NOBITS : SHT_NULL,
                           .sh_flags = p->data_size ? SHF_ALLOC | SHF_WRITE : 0,
                           .sh_addr = p->data, .sh_size = p->data_size};
    memcpy((char *)to + p->sections_offset, section_names, sizeof section_names);
}

int symfile_write(struct mvld_image *image, const struct symfile *file, void *to)
{
    const struct moved_fragment *list = image->moved->list, *last = file->end ? &list[file->end - 1] : NULL;
    const struct rimf_described *functions = file->functions, *end = functions + file->n_functions;
    uintptr_t code = rimf_page_down(functions ? functions->start : list[file->first].at);
    uintptr_t code_end = functions ? end[-1].start + end[-1].size : last->at + last->code;
    struct writing w = {.file = file, .symbol = (Elf64_Sym *)((struct head *)to + 1),
                        .section = TEXT};
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
        if (moved_is_first(image->moved, i))
            error = moved_names_of(image, list[i].object, &file->files[i - file->first], 0,
                                  write_symbol, &w);
    moved_names_added(image, functions, file->n_functions, write_symbol, &w);
    symfile_head(to, &(struct symfile_parts){
        .type = file->base ? ET_DYN : ET_EXEC,
        .code = code - file->base,
        .code_size = code_end - code,
        .code_offset = file->code_offset,
        .frames = file->frames - file->base,
        .frames_size = file->frames_size,
        .frames_offset = file->frames_offset,
        .symbols_offset = sizeof(struct head),
        .symbols_size = (uintptr_t)w.symbol - (uintptr_t)symbols,
        .names_offset = names_at(file),
        .names_size = (uintptr_t)(w.name - w.names),
        .sections_offset = (uintptr_t)(w.name - (char *)to),
        .data = w.data,
        .data_size = w.data_size,
    });
    return error;
}
