/* SPDX-License-Identifier: MIT
 *
 * Passes are mapped, relocated and checked, and whatever is no sound pass is
 * refused with its name and the reason, leaving nothing mapped.  A failure means
 * that a damaged or foreign file can crash a program at its start, or that the
 * author of a pass is not told what is wrong.
 *
 * Arguments: the good pass (count.so), the folder of the bad ones.
 */
#include "world.h"

#include "loader/manager/pass_map.h"

#include <elf.h>
#include <sys/mman.h>

static struct world world, *w = &world;
static char why_text[512];
static uint8_t good[1 << 17], bytes[1 << 17];
static size_t length;

static void read_good(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, good, sizeof(good));

    if (n <= 0) {
        perror(path);
        exit(1);
    }
    close(fd);
    length = (size_t)n;
    memcpy(bytes, good, length);
}

static int map_fd(int fd, const char *name, struct pass_object *out)
{
    struct why why = {why_text, sizeof(why_text)};
    int error;

    why_text[0] = 0;
    error = pass_map(&w->sys, fd, "FILE", name, out, &why);
    if (error)
        CHECK(w->maps == 0, "%ld bytes stay mapped after '%s'", w->maps, why_text);
    return error;
}

/* Maps `bytes` as a file. */
static int map_bytes(size_t size, struct pass_object *out)
{
    int fd = memfd_create("pass", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        exit(1);
    int error = map_fd(fd, "count", out);
    close(fd);
    return error;
}

static void refuses_bytes(const char *sentence)
{
    struct pass_object object;
    int error = map_bytes(length, &object);

    CHECK(error < 0 && strstr(why_text, sentence), "got %d '%s', want '%s'", error, why_text,
          sentence);
    if (!error)
        pass_unmap(&w->sys, &object);
    memcpy(bytes, good, length);
}

#define EHDR ((Elf64_Ehdr *)bytes)
#define PHDR ((Elf64_Phdr *)(bytes + EHDR->e_phoff))

static Elf64_Phdr *header(uint32_t type, uint32_t flags)
{
    for (size_t i = 0; i < EHDR->e_phnum; i++)
        if (PHDR[i].p_type == type && (!flags || PHDR[i].p_flags == flags))
            return &PHDR[i];
    exit(1);
}

static Elf64_Dyn *dynamic(int64_t tag)
{
    Elf64_Dyn *d = (Elf64_Dyn *)(bytes + header(PT_DYNAMIC, 0)->p_offset);

    while (d->d_tag != tag)
        d++;
    return d;
}

static void maps_the_good_one(void)
{
    struct pass_object object;
    int error = map_bytes(length, &object);

    CHECK(!error, "%s", why_text);
    if (error)
        return;
    CHECK(!strcmp(object.pass->name, "count"), "%s", object.pass->name);
    CHECK(pass_holds(&object, (uintptr_t)object.pass->run, 1, PROT_EXEC), "run");
    CHECK(!strcmp(object.pass->options[2].words[1], "segments"), "relocated to the wrong place");
    CHECK(!pass_holds(&object, object.end, 1, PROT_READ), "end");
    CHECK(!pass_holds(&object, object.segments[0].start, SIZE_MAX, PROT_READ), "overflow");
    /* RELRO is read-only: the kernel refuses to write there. */
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(read(zero, (void *)(uintptr_t)object.pass, 1) < 0 && errno == EFAULT, "RELRO");
    close(zero);
    pass_unmap(&w->sys, &object);
    CHECK(w->maps == 0, "%ld", w->maps);
}

static void refuses_damaged_files(void)
{
    EHDR->e_ident[0] = 'x';
    refuses_bytes("FILE: this is no 64-bit x86-64 ELF file");
    EHDR->e_ident[EI_CLASS] = ELFCLASS32;
    refuses_bytes("no 64-bit x86-64 ELF file");
    EHDR->e_machine = EM_AARCH64;
    refuses_bytes("no 64-bit x86-64 ELF file");
    EHDR->e_type = ET_EXEC;
    refuses_bytes("no shared object");
    EHDR->e_phnum = 0;
    refuses_bytes("nothing to load");
    EHDR->e_phnum = 25;
    refuses_bytes("at most 24 program headers");
    EHDR->e_phentsize = 8;
    refuses_bytes("no 64-bit x86-64 ELF file");
    EHDR->e_phoff = UINT64_MAX - 7;
    refuses_bytes("truncated in them");
    header(PT_LOAD, PF_R | PF_X)->p_flags |= PF_W;
    refuses_bytes("writable and executable");
    header(PT_LOAD, PF_R | PF_W)->p_filesz += 1 << 20;
    refuses_bytes("impossible size");
    header(PT_LOAD, PF_R | PF_W)->p_memsz = 1UL << 40;
    refuses_bytes("impossible size");
    header(PT_LOAD, PF_R | PF_W)->p_offset += 1 << 20;
    refuses_bytes("truncated: segment");
    header(PT_LOAD, PF_R | PF_W)->p_vaddr += 8;
    refuses_bytes("address and offset do not agree");
    header(PT_LOAD, PF_R | PF_W)->p_vaddr -= 0x1000;
    refuses_bytes("shares a page");
    header(PT_LOAD, PF_R | PF_W)->p_align = 3;
    refuses_bytes("impossible alignment");
    header(PT_LOAD, PF_R | PF_X)->p_memsz += 8;
    refuses_bytes("neither in the file nor writable");
    header(PT_GNU_STACK, 0)->p_flags |= PF_X;
    refuses_bytes("executable stack");
    header(PT_GNU_STACK, 0)->p_type = PT_INTERP;
    refuses_bytes("PT_INTERP");
    header(PT_DYNAMIC, 0)->p_type = PT_NULL;
    refuses_bytes("no dynamic section");
    header(PT_DYNAMIC, 0)->p_vaddr = 0x3000000;
    refuses_bytes("dynamic section lies outside");
    header(PT_GNU_RELRO, 0)->p_memsz = 1 << 20;
    refuses_bytes("RELRO range");
    dynamic(DT_RELA)->d_un.d_val = 0x2000000;
    refuses_bytes("relocations (DT_RELA) do not lie");
    dynamic(DT_RELASZ)->d_un.d_val = UINT64_MAX - 7;
    refuses_bytes("relocations (DT_RELA) do not lie");
    dynamic(DT_RELAENT)->d_un.d_val = 16;
    refuses_bytes("wrong size");
    dynamic(DT_SYMTAB)->d_un.d_val = 0x2000000;
    refuses_bytes("symbol table does not lie");
    dynamic(DT_STRSZ)->d_un.d_val = 1;
    refuses_bytes("outside the string table");
    dynamic(DT_GNU_HASH)->d_un.d_val = 0x2000000;
    refuses_bytes("no hash table");
    dynamic(DT_GNU_HASH)->d_tag = DT_DEBUG;
    refuses_bytes("no hash table");
    dynamic(DT_FLAGS)->d_un.d_val |= DF_TEXTREL;
    refuses_bytes("relocations in its code");
    dynamic(DT_SYMBOLIC)->d_tag = DT_TEXTREL;
    refuses_bytes("relocations in its code");
    dynamic(DT_SYMBOLIC)->d_tag = DT_PLTRELSZ;
    dynamic(DT_PLTRELSZ)->d_un.d_val = 24;
    refuses_bytes("through a PLT");
    uint32_t *hash = (uint32_t *)(bytes + dynamic(DT_GNU_HASH)->d_un.d_val);
    hash[0] = 1 << 28; /* buckets */
    refuses_bytes("hash table of symbols is damaged");
    hash[4 + 2 * hash[2]] = 1 << 30; /* the first bucket: a symbol far away */
    refuses_bytes("hash table of symbols is damaged");
    Elf64_Sym *symbol = (Elf64_Sym *)(bytes + dynamic(DT_SYMTAB)->d_un.d_val) + 1;
    symbol->st_value += 4;
    refuses_bytes("is no variable inside it");
    symbol->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    refuses_bytes("is no variable inside it");
    symbol->st_value = 0x3ffffff8;
    refuses_bytes("is no variable inside it");
    Elf64_Rela *r = (Elf64_Rela *)(bytes + dynamic(DT_RELA)->d_un.d_val);
    r->r_offset = 0x1000; /* code */
    refuses_bytes("is not in writable memory");
    r->r_offset += 1;
    refuses_bytes("is not in writable memory");
    r->r_addend = 1 << 24;
    refuses_bytes("points outside the pass");
    r->r_addend = -8;
    refuses_bytes("points outside the pass");
    r->r_info = ELF64_R_INFO(1, R_X86_64_64);
    refuses_bytes("relocation of type 1");
    for (size_t size = 0; size < length; size += size < 4096 ? 61 : 509) {
        struct pass_object object;
        if (!map_bytes(size, &object)) /* the section headers at the end are not needed */
            pass_unmap(&w->sys, &object);
        else
            CHECK(strstr(why_text, "truncated"), "%zu: %s", size, why_text);
    }
}

static void refuses_bad_passes(const char *folder)
{
    static const struct {
        const char *fault, *sentence;
    } table[] = {
        {"needed", "DT_NEEDED"},
        {"undefined", "needs the symbol 'somebody_else'"},
        {"plt", "of its own through a PLT"},
        {"undefined_call", "needs the symbol 'printf'"},
        {"relocation", "only RELATIVE is allowed"},
        {"tls", "PT_TLS"},
        {"constructor", "constructors"},
        {"missing", "does not define 'mvld_pass'"},
        {"abi", "of the pass interface, this mvld has"},
        {"size", "has 16 bytes"},
        {"name", "its name lies outside the pass, or is not of"},
        {"other_name", "calls itself 'other', but was looked for as 'bad'"},
        {"name_pointer", "its name lies outside"},
        {"function", "does not lie in its code"},
        {"function_pointer", "does not lie in its code"},
        {"idle", "does not lie in its code"},
        {"list", "a list of pass names"},
        {"behind", "a list of pass names"},
        {"option_type", "unknown type 9"},
        {"option_range", "minimum above its maximum"},
        {"option_words", "words of the option 'o'"},
        {"option_text", "a text of the option 'o'"},
        {"option_name", "the name of an option"},
        {"option_list", "its list of options does not end"},
        {"app", "no pass may be called 'app'"},
        {"library", "its help or its library"},
        {"init", "a constructor or destructor (DT_INIT"},
        {"none_sysv", NULL},
        {"none_relr", NULL},
        {"option_twice", "option 'o' twice"},
        {"writable_text", "writable and executable"},
        {"none", NULL},
    };

    for (size_t i = 0; i < RIMF_COUNT(table); i++) {
        struct pass_object object;
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/bad_%s.so", folder, table[i].fault);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0, "%s", path);
        int error = map_fd(fd, "bad", &object);
        close(fd);
        if (table[i].sentence)
            CHECK(error && strstr(why_text, table[i].sentence), "%s: '%s', want '%s'",
                  table[i].fault, why_text, table[i].sentence);
        else
            CHECK(!error, "%s", why_text);
        if (!error)
            pass_unmap(&w->sys, &object);
    }
}

/* Each system call that can fail does, in turn. */
static void survives_failing_calls(void)
{
    struct pass_object object;
    unsigned refused = 0;

    for (w->fail_at = 1; w->fail_at < 40; w->fail_at++) {
        w->calls = 0;
        w->fail_error = ENOMEM;
        int error = map_bytes(length, &object);
        unsigned calls = w->calls;
        if (!error)
            pass_unmap(&w->sys, &object);
        refused += error != 0;
        if (calls < w->fail_at)
            break;
    }
    w->fail_at = 0;
    CHECK(refused >= 5, "%u", refused);
}

/* The same with the packed form of relocations. */
static void refuses_damaged_relr(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/bad_none_relr.so", folder);
    read_good(path);
    Elf64_Dyn *d = (Elf64_Dyn *)(bytes + header(PT_DYNAMIC, 0)->p_offset);
    while (d->d_tag != DT_RELR && d->d_tag != DT_NULL)
        d++;
    if (d->d_tag == DT_NULL) {
        puts("this linker makes no RELR relocations: not tested");
        return;
    }
    uint64_t *relr = (uint64_t *)(bytes + d->d_un.d_val);
    d->d_un.d_val = 0x2000000;
    refuses_bytes("relocations (DT_RELR) do not lie");
    dynamic(DT_RELRENT)->d_un.d_val = 16;
    refuses_bytes("wrong size");
    relr[0] += 4;
    relr[0] &= ~1UL;
    refuses_bytes("is not in writable memory");
    relr[0] = 0;
    refuses_bytes("is not in writable memory");
    relr[0] = UINT64_MAX;
    refuses_bytes("is not in writable memory");
    /* A word that is no address of the pass. */
    for (size_t i = 0; i < 8; i++)
        bytes[header(PT_LOAD, PF_R | PF_W)->p_offset + relr[0] -
              header(PT_LOAD, PF_R | PF_W)->p_vaddr + i] = 0x77;
    refuses_bytes("points outside the pass");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    world_begin(w);
    read_good(argv[1]);
    maps_the_good_one();
    refuses_damaged_files();
    refuses_bad_passes(argv[2]);
    survives_failing_calls();
    refuses_damaged_relr(argv[2]);
    world_end(w);
    return failures != 0;
}
