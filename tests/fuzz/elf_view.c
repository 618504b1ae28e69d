/* SPDX-License-Identifier: MIT
 *
 * An ELF file of any bytes, mapped as its program headers ask, must not make the
 * image fault, loop, or hand out an address outside the object.
 *
 * The input is laid out as a loader would: each PT_LOAD's bytes at its address, all
 * else inaccessible (under the address sanitizer to the byte, else to the page).
 * Then everything that the image answers is asked of it.  Inputs whose PT_LOADs a
 * loader would refuse still go through the reading of the headers.
 */
#include "rimf/base/base.h"
#include "rimf/elf/frame_table.h"
#include "rimf/image/private.h"

#include "../rimf/image/invariants.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __asan_poison_memory_region(void const volatile *at, size_t size) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *at, size_t size) __attribute__((weak));

#define SPAN (64 * RIMF_PAGE) /* all that an object may occupy */

static uint8_t *arena;
static const struct rimf_log quiet = {.sys = &rimf_sys_kernel, .fd = -1};

static void require(int condition)
{
    if (!condition)
        abort();
}

/* ---- the layout ------------------------------------------------------------- */

static void clear(void)
{
    if (__asan_unpoison_memory_region)
        __asan_unpoison_memory_region(arena, SPAN);
    if (arena)
        munmap(arena, SPAN);
    arena = mmap(arena, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(arena != MAP_FAILED);
}

/* 0 when a loader would refuse. */
static int lay_out(const uint8_t *data, size_t size)
{
    Elf64_Ehdr header;

    clear();
    if (size < sizeof header)
        return 0;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < 2u * header.e_phnum; i++) { /* first open all, then copy */
        uint64_t at = header.e_phoff + i % header.e_phnum * sizeof(Elf64_Phdr);
        Elf64_Phdr phdr;

        if (at > size || size - at < sizeof phdr)
            return 0;
        memcpy(&phdr, data + at, sizeof phdr);
        if (phdr.p_type != PT_LOAD)
            continue;
        if (phdr.p_vaddr > SPAN || phdr.p_memsz > SPAN - phdr.p_vaddr ||
            phdr.p_filesz > phdr.p_memsz || phdr.p_offset > size ||
            phdr.p_filesz > size - phdr.p_offset)
            return 0;
        if (i < header.e_phnum)
            mprotect(arena + rimf_page_down(phdr.p_vaddr),
                     rimf_page_up(phdr.p_vaddr + phdr.p_memsz) - rimf_page_down(phdr.p_vaddr),
                     PROT_READ | PROT_WRITE);
        else
            memcpy(arena + phdr.p_vaddr, data + phdr.p_offset, phdr.p_filesz);
    }
    return 1;
}

/* Nothing outside the segments may be read, but the headers, for which only the page
 * is known to be readable: objects whose headers lie outside are left open. */
static void close_to_the_byte(const struct elf_view *found, const struct rimf_source *source)
{
    struct mvld_segment segments[16];
    struct elf_view view = *found;
    uintptr_t last = (uintptr_t)arena;
    const char *why;

    if (!__asan_poison_memory_region || elf_view_open(&view, source, segments, 16, &why) ||
        !elf_holds(&view, (uintptr_t)arena, sizeof(Elf64_Ehdr), 0) ||
        !elf_holds(&view, (uintptr_t)view.phdr, view.phnum * sizeof(Elf64_Phdr), 0))
        return;
    for (size_t i = 0; i < view.n_segments; i++) {
        __asan_poison_memory_region((void *)last, segments[i].start - last);
        last = segments[i].end;
    }
    __asan_poison_memory_region((void *)last, (uintptr_t)arena + SPAN - last);
}

/* ---- the questions -------------------------------------------------------------- */

static void inside(const struct mvld_object *object, const void *at, size_t size)
{
    require(rimf_api()->object_holds(object, (uintptr_t)at, size, PROT_READ));
}

static int see_note(void *cookie, const void *desc, size_t size)
{
    if (size)
        inside(cookie, desc, size);
    return 0;
}

static void ask_symbol(struct mvld_image *image, const struct mvld_object *object,
                       const char *name, const char *version)
{
    struct mvld_symbol symbol;

    if (rimf_api()->symbol_find(object, name, version, &symbol) == 0) {
        inside(object, symbol.name, strlen(symbol.name) + 1);
        require(strcmp(symbol.name, name) == 0);
        if (symbol.version)
            inside(object, symbol.version, strlen(symbol.version) + 1);
    }
    rimf_api()->symbol_resolve(image, name, version, &symbol);
}

static void ask_symbols(struct mvld_image *image, const struct rimf_object *object)
{
    static const char *const known[] = {"plain", "versioned", "data_of", "entry", "indirect"};
    const struct elf_view *view = &object->view;
    struct mvld_symbol symbol;

    for (size_t i = 0; i < RIMF_COUNT(known); i++) {
        ask_symbol(image, &object->public, known[i], NULL);
        ask_symbol(image, &object->public, known[i], "V1");
        ask_symbol(image, &object->public, known[i], "V2");
    }
    for (size_t i = 0; i < view->symbols_limit && i < 64; i++) {
        Elf64_Sym entry;
        const char *name, *version = NULL;
        uint16_t number;

        require(elf_symbol_at(view, i, &entry) == 0);
        name = elf_string(view, entry.st_name);
        if (elf_versym(view, i, &number) == 0)
            version = elf_version_name(view, number & ELF_VERSION_INDEX);
        if (name)
            ask_symbol(image, &object->public, name, version);
        rimf_symbol_bind(image, object, i, &symbol);
    }
}

static void ask_code(struct mvld_image *image, const struct mvld_object *object)
{
    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *segment = &object->segments[i];
        size_t step = (segment->end - segment->start) / 512 + 1;

        for (uintptr_t at = segment->end; at > segment->start; at -= 1) {
            struct elf_frame frame;

            rimf_api()->plt_target(image, at - 1);
            if (!elf_frame_find(object, rimf_api()->object_holds, at - 1, &frame)) {
                require(at - 1 - frame.start < frame.size);
                inside(object, (const void *)frame.start, frame.size);
                inside(object, (const void *)frame.fde, sizeof(uint32_t));
            }
            if (segment->end - at > 32) { /* closely at the end, widely before */
                if (at - segment->start <= step)
                    break;
                at -= step;
            }
        }
    }
}

static void ask(const struct rimf_source *source)
{
    struct mvld_image *image;
    struct rimf_change change;
    const struct mvld_object *object;

    require(rimf_image_create(&rimf_sys_kernel, &quiet, &image) == 0);
    require(rimf_image_update(image, source, 1, &change) == 0 && change.n_added == 1);
    object = change.added[0];
    if (rimf_image_check(image))
        abort();
    rimf_image_print(image);
    if (object->dynamic)
        inside(object, object->dynamic, sizeof(Elf64_Dyn));
    rimf_api()->note_each(object, "GNU", NT_GNU_BUILD_ID, see_note, (void *)object);
    rimf_api()->note_each(object, "Multiverse", 1, see_note, (void *)object);
    ask_symbols(image, rimf_object_of(object));
    ask_code(image, object);
    require(rimf_image_update(image, NULL, 0, &change) == 0 && change.n_removed == 1);
    rimf_image_destroy(image);
}

/* The headers in memory are those by which the object was laid out: not so when a
 * PT_LOAD brings other bytes to address 0. */
static int as_laid_out(const struct elf_view *view, const uint8_t *data)
{
    Elf64_Ehdr header;

    memcpy(&header, data, sizeof header);
    return view->phnum == header.e_phnum &&
           memcmp(view->phdr, data + header.e_phoff, view->phnum * sizeof(Elf64_Phdr)) == 0;
}

/* A host loader has read the dynamic section to its end. */
static int terminated(const struct elf_view *view, uintptr_t at)
{
    for (; at - (uintptr_t)arena <= SPAN - sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        int inside = 0;

        for (size_t i = 0; elf_phdr(view, PT_LOAD, i); i++) {
            const Elf64_Phdr *load = elf_phdr(view, PT_LOAD, i);
            uintptr_t offset = at - (uintptr_t)arena - load->p_vaddr;

            inside |= offset < load->p_memsz && load->p_memsz - offset >= sizeof entry;
        }
        if (!inside)
            return 0;
        memcpy(&entry, (void *)at, sizeof entry);
        if (entry.d_tag == DT_NULL)
            return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rimf_source source = {.name = "fuzzed"};
    const char *why;
    struct elf_view view;

    if (!lay_out(data, size)) {
        clear();
        return 0;
    }
    source.bias = (uintptr_t)arena;
    source.link_map = arena;
    if (elf_view_probe(&view, &rimf_sys_kernel, &source, &why) > 0 && as_laid_out(&view, data)) {
        const Elf64_Phdr *dynamic = elf_phdr(&view, PT_DYNAMIC, 0);

        if (dynamic && terminated(&view, (uintptr_t)arena + dynamic->p_vaddr))
            source.dynamic = (const void *)((uintptr_t)arena + dynamic->p_vaddr);
        close_to_the_byte(&view, &source);
        ask(&source);
        /* Again as the executable, whose program headers are known. */
        source.phdr = view.phdr;
        source.phnum = view.phnum;
        ask(&source);
    }
    clear();
    return 0;
}
