/* SPDX-License-Identifier: MIT
 *
 * The format of manifests (rimf/store/manifest.c).  A failure means that a damaged one
 * is taken, or a whole one is not.
 */
#include "../../check.h"
#include "../base/each_byte.h"
#include "made_manifest.h"

#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct made_manifest made;

static const char *open_made(size_t size)
{
    struct manifest f;
    const char *why = NULL;
    int error = manifest_open(&f, &made, size, &why);

    CHECK(!error == !why);
    CHECK(error || (f.header == &made.header && f.names == made.names));
    CHECK(!error || (!f.header && !f.objects));
    return why;
}

static void refused(const char *sentence)
{
    const char *why;

    made_manifest_seal(&made, sizeof made);
    why = open_made(sizeof made);
    CHECK(why && !strcmp(why, sentence), "'%s' instead of '%s'", why ? why : "(taken)", sentence);
    made_manifest_make(&made);
}

static void each_rule(void)
{
    static const char unordered[] = "functions whose originals are kept are not in order";
    static const char no_file[] = "there is no file of relocations or moved code, or one of neither";
    static const char no_owner[] =
        "relocations are of no object that has a file, or not in order";
    static const char no_shift[] = "an entry of relocations lies outside them, or they are not in order";
    static const char no_shift_to[] = "an entry of relocations leads to no object that has a file";
    static const char no_pages[] = "relocations are no range of pages";
    static const char no_place[] = "the region is of no object that has a place";
    static const char ranges[] = "the region is no two ranges of pages";
    static const char no_piece[] = "a piece of the region is no range of pages of its file";
    static const char outside[] = "a piece of the region lies outside it";
    static const char misplaced[] = "an object that is unplaced has a place, or another has none";
    static const char unknown[] = "addresses of moved code are of an unknown kind";
    static const char unsorted[] = "code whose addresses stay the originals is not in order";
    static const char unplaced[] = "moved code is not sorted by the originals";
    static const char crossed[] = "the pointers are not in order";
    static const char nowhere[] = "a pointer leads to no moved code";
    static const char fewer[] = "there are fewer pointers than of one kind";
    static const char relocated[] = "a pointer is relocated where it is unplaced";
    struct { void *at; size_t size; uint64_t value; const char *sentence; } const spoilt[] = {
#define SPOIL(field, value, sentence) {&made.field, sizeof made.field, (uint64_t)(value), sentence}
        SPOIL(header.version, MANIFEST_VERSION + 1, "it is of another version of the format"),
        SPOIL(header.header_size, 64, "it is of another version of the format"),
        SPOIL(header.n_shifts, 4, "it is cut short, or longer than it says"),
        SPOIL(header.n_words, 5, "it is cut short, or longer than it says"),
        SPOIL(header.names_size, 39, "it is cut short, or longer than it says"),
        SPOIL(names[39], 'x', "its names have no end"),
        SPOIL(header.n_passes, MANIFEST_PASSES_MAX + 1, "it was made by too many passes"),
        SPOIL(header.launch_key, 40, "the launch key lies outside the names"),
        SPOIL(header.n_reads, MANIFEST_READS_MAX + 1, "its passes read too many files"),
        SPOIL(header.reads[0].name, 40, "the name of a file that a pass read lies outside the names"),
        SPOIL(header.reads[0].zero, 1, "the name of a file that a pass read lies outside the names"),
        SPOIL(header.passes[1].name, 40, "a pass's name lies outside the names"),
        SPOIL(header.passes[1].library, ~0, "a pass's name lies outside the names"),
        SPOIL(objects[1].name, 40, "an object's name lies outside the names"),
        SPOIL(objects[2].overlay_name, ~0, "an object's name lies outside the names"),
        SPOIL(objects[0].overlay_name, 1, "an overlay has no proper name"),  /* /bin/one */
        SPOIL(objects[0].overlay_name, 0, "an overlay has no proper name"),  /* "" */
        SPOIL(objects[1].overlay_name, 10, "an overlay has no proper name"), /* of no overlay */
        SPOIL(names[10], '.', "an overlay has no proper name"),
        SPOIL(objects[1].overlay.inode, 1, "an overlay has no proper name"),
        SPOIL(objects[2].overlay.size, ~0, "an overlay is too large"),
        SPOIL(objects[2].distance, 1, "an object lies at no page"),
        SPOIL(objects[0].flags, 4, "an object has a property that is not known"),
        SPOIL(objects[2].first, 0x800, "an object lies at no page"),
        SPOIL(objects[0].flags, 1, misplaced),
        SPOIL(objects[1].flags, 0, misplaced),
        SPOIL(objects[1].distance, 0x1000, misplaced),
        SPOIL(texts[0].object, 3, "a text is of no object"),
        SPOIL(texts[0].object, 1, "a text is of an object without an overlay"),
        SPOIL(texts[0].object, 2, "the texts are not in order"),
        SPOIL(texts[2].linked, 0x2000, "the texts are not in order"),
        SPOIL(texts[1].size, 0, "a text is no range of pages"),
        SPOIL(texts[1].size, 0x100, "a text is no range of pages"),
        SPOIL(texts[1].size, 1ul << 33, "a text is no range of pages"),
        SPOIL(texts[1].linked, 0x1001, "a text is no range of pages"),
        SPOIL(texts[1].offset, 8, "a text is no range of pages"),
        SPOIL(texts[2].offset, 0xa000, "a text lies outside its overlay"),
        SPOIL(texts[2].size, 0x7000, "a text lies outside its overlay"),
        SPOIL(words[0].object, 3, "a word is of no object"),
        SPOIL(words[0].to_object, 3, "a word is of no object"),
        SPOIL(words[1].linked, 0x2014, "a word lies at no word"),
        SPOIL(objects[0].n_words, 5, "there are fewer words than the objects have"),
        SPOIL(objects[0].length, 0, "an object lies at no page"),
        SPOIL(objects[1].length, 0x1000, "an object lies at no page"),
        SPOIL(header.n_base, 1, "what it continues is not understood"),
        SPOIL(header.base, 1, "what it continues is not understood"),
        SPOIL(header.tables.size, ~0, no_file),
        SPOIL(relocations[0].object, 1, no_owner), /* the vDSO */
        SPOIL(relocations[0].object, 2, no_pages), /* which begins higher */
        SPOIL(relocations[1].object, 0, no_owner),
        SPOIL(relocations[1].object, 3, no_owner),
        SPOIL(relocations[0].size, 0, no_pages),
        SPOIL(relocations[0].size, 0x10, no_pages),
        SPOIL(relocations[1].linked, 0, no_pages), /* below its object */
        SPOIL(relocations[1].linked, 1ul << 32, no_pages),
        SPOIL(relocations[0].offset, 0x10, no_pages),
        SPOIL(relocations[1].offset, 0x6000, "relocations overlap in their file"),
        SPOIL(relocations[0].offset, 0xa000, "relocations lie outside their file"),
        SPOIL(relocations[1].offset, ~0xffful, "relocations lie outside their file"),
        SPOIL(shifts[2].at, 0x40, no_shift),
        SPOIL(shifts[1].at, 0x24, no_shift),
        SPOIL(shifts[2].at, 0x4000, no_shift),
        SPOIL(shifts[2].to_object, 1, no_shift_to), /* the vDSO */
        SPOIL(shifts[2].to_object, 3, no_shift_to),
        SPOIL(header.n_fragments, 1, "it is cut short, or longer than it says"),
        SPOIL(header.n_regions, 0, "it is cut short, or longer than it says"),
        SPOIL(region.hot, 0x10001, "hot moved code lies outside the region"),
        SPOIL(region.object, 3, no_place),
        SPOIL(region.object, 1, no_place), /* the vDSO */
        SPOIL(region.code, 0x100800, ranges),
        SPOIL(region.code, 0x41000, ranges), /* in the frames */
        SPOIL(region.code_size, 0, ranges),
        SPOIL(region.code_size, 1ul << 32, ranges),
        SPOIL(region.frames, 1ul << 40, ranges),
        SPOIL(region.pieces[0].size, 0x2800, no_piece),
        SPOIL(region.pieces[0].size, 0xa000, no_piece), /* behind the end of the file */
        SPOIL(region.pieces[1].offset, 0x3010, no_piece),
        SPOIL(region.pieces[1].offset, ~0xffful, no_piece),
        SPOIL(region.pieces[2].size, 0, no_piece),
        SPOIL(region.pieces[0].linked, 0x101000, outside),
        SPOIL(region.pieces[1].linked, 0x41000, outside),
        SPOIL(region.pieces[2].linked, 0x40000, outside), /* on the table */
        SPOIL(region.pieces[2].linked, 0x47000, outside),
        SPOIL(fragments[0].object, 3, "moved code is of no object that has a place"),
        SPOIL(fragments[0].object, 1, "moved code is of no object that has a place"),
        SPOIL(fragments[2].code, 0, "moved code is of an impossible size"),
        SPOIL(fragments[2].code, 0x1001, "moved code is of an impossible size"),
        SPOIL(fragments[2].original, UINT32_MAX - 0xfff + 1, "moved code is of an impossible size"),
        SPOIL(fragments[0].at, 0xff000, "moved code is not in order"),
        SPOIL(fragments[1].at, 0x100080, "moved code is not in order"),
        SPOIL(fragments[2].size, 0x1008, "moved code is not in order"),
        SPOIL(fragments[2].at, ~0, "moved code is not in order"),
        SPOIL(fragments[0].sorted, 3, unplaced),
        SPOIL(fragments[0].sorted, 0, unplaced),
        SPOIL(fragments[1].sorted, 1, unplaced),
        SPOIL(fragments[2].zero, 1, unplaced),
        SPOIL(fragments[0].flags, 3, unknown),
        SPOIL(fragments[0].flags, 0, unknown), /* and has code whose addresses stay */
        SPOIL(fragments[1].flags, 2, unknown),
        SPOIL(fragments[2].n_fixed, 2, unknown),
        SPOIL(fragments[2].n_fixed, 0, "code whose addresses stay the originals is of no moved code"),
        SPOIL(fixed[0].size, 0, unsorted),
        SPOIL(fixed[1].start, 0xf, unsorted),
        SPOIL(fixed[1].start, 0x100, unsorted),
        SPOIL(fixed[1].size, 0xd1, unsorted),
        SPOIL(fixed[2].size, ~0, unsorted),
        SPOIL(pointers[0].object, 3, crossed),
        SPOIL(pointers[2].object, 3, crossed),
        SPOIL(pointers[1].linked, 0x3009, crossed), /* they overlap */
        SPOIL(pointers[2].object, 0, crossed),
        SPOIL(pointers[0].fragment, 3, nowhere),
        SPOIL(pointers[0].fragment, 1, nowhere), /* whose addresses stay */
        SPOIL(pointers[1].offset, 0x1000, nowhere),
        SPOIL(pointers[2].offset, 0x100, nowhere),
        SPOIL(header.n_addends, 4, fewer),
        SPOIL(header.n_tabled, ~0u, fewer),
        SPOIL(header.n_addends, 3, relocated),
        SPOIL(header.n_tabled, 3, relocated),
        SPOIL(kept[1].object, 3, unordered),
        SPOIL(kept[1].number, MANIFEST_KEPT_MAX, unordered),
        SPOIL(kept[1].number, 1, unordered),
        SPOIL(kept[0].size, 0, unordered),
#undef SPOIL
    };

    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        memcpy(spoilt[i].at, &spoilt[i].value, spoilt[i].size);
        refused(spoilt[i].sentence);
    }
    made.header.tables = (struct file_id){0};
    refused(no_file);
    made.objects[2].file = (struct file_id){0};
    refused("an overlay is of no file");
}

/* What came by dlopen: rules that are for it, or that it shows. */
static struct made_later later;

static void one_kind(void *bytes, size_t size, void *at, size_t width, uint64_t value, const char *sentence)
{
    struct manifest f;
    const char *why = NULL;

    memcpy(at, &value, width);
    made_manifest_seal(bytes, size);
    manifest_open(&f, bytes, size, &why);
    CHECK(sentence ? why && !strcmp(why, sentence) : !why, "'%s' instead of '%s'", why ? why : "(taken)",
          sentence ? sentence : "(taken)");
    made_later_make(&later);
}

static void other_kinds(void)
{
    static const char base[] = "what it continues is not understood";

    made_later_make(&later);
#define SPOIL(made, field, value, sentence) \
    one_kind(&made, sizeof made, &made.field, sizeof made.field, (uint64_t)(value), sentence)
    SPOIL(later, names[1], '/', NULL);
    SPOIL(later, header.n_base, 0, base);
    SPOIL(later, header.n_base, MANIFEST_OBJECTS_MAX + 1, base);
    SPOIL(later, header.base, 0, base);
    SPOIL(later, texts[0].object, 3, "a text is of no object"); /* of the start */
    SPOIL(later, texts[0].object, 7, "a text is of no object");
    SPOIL(later, texts[1].object, 5, "a text is of an object without an overlay");
    SPOIL(later, texts[2].linked, 0x2000, "the texts are not in order");
    SPOIL(later, words[0].object, 7, "a word is of no object");
    SPOIL(later, words[2].to_object, 7, "a word is of no object");
    SPOIL(later, objects[2].n_words, 2, "there are fewer words than the objects have");
    SPOIL(later, objects[1].length, 0, "an object lies at no page");
    SPOIL(later, objects[1].overlay_name, 7, NULL); /* "", too */
#undef SPOIL
    /* One that continues has nothing of a start: as many entries as there are bytes of names. */
    later.header.n_kept = 2;
    later.header.names_size = 0;
    made_manifest_seal(&later, sizeof later);
    CHECK(manifest_open(&(struct manifest){0}, &later, sizeof later, &(const char *){0}));
}

static int there(const char *folder, const char *name)
{
    char path[96];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whole or in part; what is not ours stays, and the folder with it. */
static void removes_what_is_ours(void)
{
    static const char *const ours[] = {MANIFEST_FILE, "0-program", "17-libx.so.code", MOVED_FILE,
                                       RELOCATIONS_FILE, "later", "later.new", "later-table-3"};
    static const char *const others[] = {"mine", "-", "17", ".hidden"};
    char folder[] = "/tmp/mvld-manifest-XXXXXX", path[96];
    const char *why;
    int fd;

    CHECK(mkdtemp(folder));
    for (size_t i = 0; i < 300 + 8 + 4; i++) {
        if (i < 300)
            snprintf(path, sizeof path, "%s/%zu-a-long-name-so-that-all-are-not-read-at-once", folder, i);
        else
            snprintf(path, sizeof path, "%s/%s", folder, i < 308 ? ours[i - 300] : others[i - 308]);
        CHECK((fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)) >= 0 && !close(fd), "%s", path);
    }
    CHECK(manifest_remove(&rimf_sys_kernel, AT_FDCWD, folder, geteuid(), &why) == -ENOTEMPTY);
    for (size_t i = 0; i < 4; i++) {
        CHECK(there(folder, others[i]), "%s", others[i]);
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        CHECK(!unlink(path));
    }
    CHECK(manifest_remove(&rimf_sys_kernel, AT_FDCWD, folder, geteuid(), &why) == 0); /* nothing else was left */
    CHECK(manifest_remove(&rimf_sys_kernel, AT_FDCWD, folder, geteuid(), &why) == -ENOENT);
}

/* What came back from the disk stays in single pages; or a call that kills is made under a filter; or all of
 * much code is read where a part is wanted. */
static long asked[6];

static long note_call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    long call[6] = {nr, a, b, c, 0, 0};

    (void)sys, (void)d, (void)e, (void)f;
    memcpy(asked, call, sizeof asked);
    return -EINVAL; /* a kernel without huge pages */
}

static void large_pieces(void)
{
    const struct rimf_sys sys = {.call = note_call};
    
    overlay_want_large(&sys, 0, 0x10000, 4096);
    overlay_want_large(&sys, 0, 0x10000, 64ul << 20);
    CHECK(!asked[0]);
    overlay_want_large(&sys, 1, 0x10000, 1ul << 20);
    CHECK(!asked[0]);
    overlay_want_large(&sys, 0, 0x10000, 1ul << 20);
    CHECK(asked[0] == SYS_madvise && asked[1] == 0x10000 && asked[2] == 1l << 20 &&
          asked[3] == 14 /* MADV_HUGEPAGE */);
}

int main(void)
{
    removes_what_is_ours();
    made_manifest_make(&made);
    CHECK(!open_made(sizeof made));
    each_byte_counts(&made, sizeof made, open_made);
    each_rule();
    other_kinds();
    large_pieces();
    return 0;
}
