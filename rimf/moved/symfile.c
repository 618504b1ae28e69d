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

static const char section_names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0.data\0.eh_frame_hdr";
enum { TEXT_NAME = 1, FRAMES_NAME = 7, SYMTAB_NAME = 17, STRTAB_NAME = 25, SHSTRTAB_NAME = 33,
       DATA_NAME = 43, TABLE_NAME = 49 };
enum { NONE, TEXT, TABLE, FRAMES, SYMTAB, STRTAB, SHSTRTAB, DATA, SECTIONS };

struct head {
    Elf64_Ehdr elf;
    Elf64_Phdr loads[3]; /* of a file: what of it is mapped, ascending */
    Elf64_Shdr sections[SECTIONS];
};

/* ---- measuring ---------------------------------------------------------------------
 *
 * Each symbol of an analysis has a name of its own, and is said once or not at all.  What is not used is never
 * touched, so it takes no memory.
 */

/* Symbols of the region's library, where debuggers look for further code. */
static const struct {
    const char *dynamic, *name; /* concat.S has the reason for the different names */
} interface[] = {
    {MOVED_JIT, "__jit_debug_descriptor"},
    {MOVED_JIT_CHANGED, "__jit_debug_register_code"},
};

void symfile_measure(struct mvld_image *image, struct symfile *f)
{
    f->symbols_room = f->names_room = 1; /* the empty ones */
    for (size_t i = 0; f->base && i < RIMF_COUNT(interface); i++) {
        f->symbols_room++;
        f->names_room += rimf_strlen(interface[i].name) + 1;
    }
    for (size_t i = 0; i < f->n_functions; i++, f->symbols_room++)
        f->names_room += rimf_strlen(f->functions[i].name) + 1;
    for (size_t i = f->first; i < f->end; i++) {
        struct analysis_symbols in;
        const struct analysis *s;

        if (!moved_is_first(image->moved, i))
            continue;
        s = rimf_analysis_whole(image, (struct rimf_object *)image->moved->list[i].object, NULL);
        if (!s || !analysis_symbols(s, &in))
            continue;
        f->symbols_room += in.n;
        f->names_room += in.names_size;
    }
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

static Elf64_Phdr load_of(uintptr_t linked, uint64_t offset, size_t size, Elf64_Word flags)
{
    return (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = flags, .p_align = RIMF_PAGE, .p_offset = offset,
                        .p_vaddr = linked, .p_paddr = linked, .p_filesz = size, .p_memsz = size};
}

/* elfutils takes all mappings of a file for one module, which begins with its first segment.  That is the searched
 * table, without which elfutils would read .eh_frame in order, and end behind the first object's frames. */
static void write_loads(struct head *head, const struct moved_code *moved, const struct symfile *f, uintptr_t code,
                        size_t code_size)
{
    size_t table = moved_frames_searched(moved->n_frames);

    head->loads[0] = load_of(moved->region.frames - f->base, f->frames_offset - table, table, PF_R);
    head->loads[1] = load_of(f->frames - f->base, f->frames_offset, f->frames_size, PF_R);
    head->loads[2] = load_of(code - f->base, f->code_offset, code_size, PF_R | PF_X);
    head->sections[TABLE] = (Elf64_Shdr){.sh_name = TABLE_NAME, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
                                         .sh_addr = head->loads[0].p_vaddr, .sh_offset = head->loads[0].p_offset,
                                         .sh_size = MOVED_FRAMES_HEAD + moved->n_frames * MOVED_FRAMES_ENTRY,
                                         .sh_addralign = 4};
}

static void write_head(struct head *head, const struct symfile *f, const struct writing *w, uintptr_t code,
                       uintptr_t code_end)
{
    Elf64_Shdr *s = head->sections;
    uintptr_t base = f->base, to = (uintptr_t)head;

    head->elf = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = base ? ET_DYN : ET_EXEC,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_ehsize = sizeof head->elf,
        .e_phoff = f->code_offset ? offsetof(struct head, loads) : 0,
        .e_phentsize = sizeof *head->loads,
        .e_phnum = f->code_offset ? RIMF_COUNT(head->loads) : 0,
        .e_shoff = offsetof(struct head, sections),
        .e_shentsize = sizeof *s,
        .e_shnum = SECTIONS,
        .e_shstrndx = SHSTRTAB,
    };
    s[TEXT] = (Elf64_Shdr){.sh_name = TEXT_NAME, .sh_type = f->code_offset ? SHT_PROGBITS : SHT_NOBITS,
                           .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = code - base, .sh_addralign = 64,
                           .sh_offset = f->code_offset, .sh_size = code_end - code};
    if (f->frames_size)
        s[FRAMES] = (Elf64_Shdr){.sh_name = FRAMES_NAME, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
                                 .sh_addr = f->frames - base, .sh_addralign = 8,
                                 .sh_offset = f->frames_offset, .sh_size = f->frames_size};
    s[SYMTAB] = (Elf64_Shdr){.sh_name = SYMTAB_NAME, .sh_type = SHT_SYMTAB, .sh_addralign = 8,
                             .sh_offset = sizeof *head, .sh_size = (uintptr_t)w->symbol - to - sizeof *head,
                             .sh_link = STRTAB, .sh_info = 1, .sh_entsize = sizeof(Elf64_Sym)};
    s[STRTAB] = (Elf64_Shdr){.sh_name = STRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                             .sh_offset = names_at(f), .sh_size = (uintptr_t)(w->name - w->names)};
    s[SHSTRTAB] = (Elf64_Shdr){.sh_name = SHSTRTAB_NAME, .sh_type = SHT_STRTAB, .sh_addralign = 1,
                               .sh_offset = (uintptr_t)w->name - to, .sh_size = sizeof section_names};
    if (w->data_size)
        s[DATA] = (Elf64_Shdr){.sh_name = DATA_NAME, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_WRITE,
                               .sh_addr = w->data, .sh_addralign = 8, .sh_size = w->data_size};
    memcpy(w->name, section_names, sizeof section_names);
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
            error = moved_names_of(image, list[i].object, 0, write_symbol, &w);
    moved_names_added(image, functions, file->n_functions, write_symbol, &w);
    write_head(to, file, &w, code, code_end);
    if (file->code_offset)
        write_loads(to, image->moved, file, code, code_end - code);
    return error;
}
