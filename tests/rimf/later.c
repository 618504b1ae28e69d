/* SPDX-License-Identifier: MIT
 *
 * The format of learnt objects (rimf/later.c).  A failure means that a damaged list is
 * taken, or a whole one is not.
 */
#include "../check.h"
#include "each_byte.h"
#include "later.h"

#include <string.h>

static struct made {
    struct later_header header;
    struct later_object objects[3];
    struct frozen_text texts[3];
    struct frozen_word words[3];
    struct sidecar_home homes[3];
    char names[80];
} made;

static void seal(void)
{
    made.header.checksum = frozen_checksum(&made, sizeof made);
}

static void make(void)
{
    made = (struct made){
        .header = {.magic = LATER_MAGIC, .version = LATER_VERSION,
                   .header_size = sizeof made.header, .size = sizeof made, .image = 7,
                   .n_start = 4, .n_objects = 3, .n_texts = 3, .n_words = 3, .n_homes = 3,
                   .names_size = sizeof made.names,
                   .table = {.file = {1, 11, 0x2000, 4, 5}, .code = 0x4000, .frames = 0x10000,
                             .code_end = 0x9000, .frames_end = 0x13000, .n_start = 100, .n = 600,
                             .name = 27}},
        .objects = {{.file = {1, 2, 0x3000, 4, 5}, .copy = {1, 6, 0x3000, 7, 8},
                     .distance = -0x5000, .length = 0x4000, .name = 1, .copy_name = 8,
                     .n_texts = 1, .n_words = 2,
                     .code = {.file = {1, 12, 0x5000, 4, 5}, .at = 0x5010, .frames = 0x11000,
                              .offset = 0x2000, .home = 0x1010, .code = 0x800, .size = 0x801,
                              .frames_size = 0x1100, .flags = FROZEN_MOVED, .n_homes = 1,
                              .name = 41}},
                    {.file = {1, 9, 0x2000, 4, 5}, .distance = -0x9000, .length = 0x2000,
                     .name = 1}, /* nothing in it was changed */
                    {.file = {1, 3, 0x9000, 4, 5}, .copy = {1, 10, 0x9000, 7, 8},
                     .distance = 0x100000, .linked = 0x1000, .length = 0x9000, .name = 14,
                     .copy_name = 21, .n_texts = 2, .n_words = 1,
                     .code = {.file = {1, 13, 0x5000, 4, 5}, .at = 0x7000, .frames = 0x10000,
                              .offset = 0x1000, .home = 0x1000, .code = 0x1000, .size = 0x1f00,
                              .frames_size = 0x100, .n_homes = 2, .name = 52}}},
        .texts = {{.object = 0, .linked = 0x1000, .size = 0x1000, .offset = 0x1000, .hash = 1},
                  {.object = 2, .linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 2},
                  {.object = 2, .linked = 0x3000, .size = 0x6000, .offset = 0x3000, .hash = 3}},
        .words = {{4, 0x2008, 2, 0x1010}, {6, 0x2010, 0, 0x1001}, {3, 0x9000, 6, 0x1010}},
        .homes = {{0x10, 0x7f0}, {0, 0x10}, {0x20, 0xfe0}},
        .names = "\0/m/one\0" "4-one\0" "/m/two\0" "6-two\0" "later-table-2\0" "4-one.code\0"
                 "6-two.code",
    };
    seal();
}

static const char *open_made(size_t size)
{
    struct later l;
    const char *why = NULL;
    int error = later_open(&l, &made, size, &why);

    CHECK(!error == !why);
    CHECK(error || (l.header == &made.header && l.names == made.names));
    CHECK(!error || (!l.header && !l.objects));
    return why;
}

static void each_rule(void)
{
    static const char texts[] = "the texts are not those of the objects";
    static const char order[] = "the texts are not in order";
    static const char ranges[] = "a text is no range of pages";
    static const char names[] = "an object's name lies outside the names";
    static const char improper[] = "a copy has no proper name";
    static const char no_page[] = "an object lies at no page";
    static const char version[] = "it is of another version of the format";
    static const char cut[] = "it is cut short, or longer than it says";
    static const char many[] = "it has no objects, or too many";
    static const char odd[] = "a copy of code is not understood";
    static const char nameless[] = "a copy of code has no proper name";
    static const char no_code[] = "a copy of code is of no code";
    static const char region[] = "a copy of code lies outside the region";
    static const char file[] = "a copy of code lies outside its file";
    static const char homes[] = "addresses that stay lie outside the copy";
    static const char table[] = "the unwind table is not understood";
    static const char unnamed[] = "the unwind table has no proper name";
    static const char places[] = "the unwind table is of other places";
    struct { void *at; size_t size; uint64_t value; const char *sentence; } const spoilt[] = {
#define SPOIL(field, value, sentence) {&made.field, sizeof made.field, (uint64_t)(value), sentence}
        SPOIL(header.magic[0], 'm', "it is no list of later objects"),
        SPOIL(header.version, 1, version),
        SPOIL(header.header_size, 56, version),
        SPOIL(header.n_words, 4, cut),
        SPOIL(header.n_start, 0, many),
        SPOIL(header.n_start, ~0, many),
        SPOIL(names[79], 'x', "its names have no end"),
        SPOIL(objects[0].name, 80, names),
        SPOIL(objects[0].copy_name, ~0, names),
        SPOIL(objects[0].copy_name, 1, improper), /* /m/one */
        SPOIL(objects[0].copy_name, 0, improper),
        SPOIL(objects[1].copy_name, 8, improper), /* of no copy */
        SPOIL(objects[1].n_texts, 1, improper),
        SPOIL(objects[1].distance, 1, no_page),
        SPOIL(objects[1].linked, 8, no_page),
        SPOIL(objects[1].length, 0, no_page),
        SPOIL(objects[1].length, 1ul << 33, no_page),
        SPOIL(objects[2].n_texts, 3, texts),
        SPOIL(objects[2].n_texts, 1, "texts or words are of no object"),
        SPOIL(objects[2].n_words, ~0, "texts or words are of no object"),
        SPOIL(texts[1].object, 1, order),
        SPOIL(texts[2].linked, 0x2000, order),
        SPOIL(texts[0].size, 0x10, ranges),
        SPOIL(texts[2].offset, 0xa000, "a text lies outside its copy"),
        SPOIL(words[0].object, 7, "a word is of no object"),
        SPOIL(words[2].to_object, 7, "a word is of no object"),
        SPOIL(words[1].linked, 0x2014, "a word lies at no word"),
        SPOIL(header.n_homes, 4, cut),
        SPOIL(header.table.zero, 1, table),
        SPOIL(header.table.name, 80, table),
        SPOIL(header.table.name, 0, unnamed),
        SPOIL(header.table.code, 0x4010, places),
        SPOIL(header.table.code, 0xa000, places),
        SPOIL(header.table.code_end, 1ul << 33, places),
        SPOIL(header.table.frames, 0x14000, places),
        SPOIL(header.table.n_start, 601, places),
        SPOIL(header.table.n, 1023, places), /* one more than fits */
        SPOIL(header.table.code_end, 0x8000, region),
        SPOIL(header.table.frames_end, 0x12000, region),
        SPOIL(header.table.code, 0x6000, region),
        SPOIL(header.table.frames, 0x11000, region),
        SPOIL(objects[0].code.zero, 1, odd),
        SPOIL(objects[0].code.flags, 2, odd),
        SPOIL(objects[0].code.name, 80, odd),
        SPOIL(objects[0].code.name, 0, nameless),
        SPOIL(objects[0].code.name, 1, nameless), /* /m/one */
        SPOIL(objects[1].code.name, 41, nameless), /* of no copy */
        SPOIL(objects[1].code.n_homes, 1, nameless),
        SPOIL(objects[0].code.code, 0, no_code),
        SPOIL(objects[0].code.size, 0x800, no_code),
        SPOIL(objects[0].code.at, ~0ul, no_code),
        SPOIL(objects[0].code.at, 0x3ff0, region),
        SPOIL(objects[0].code.frames, 0x11010, region),
        SPOIL(objects[0].code.frames, 0x12000, region),
        SPOIL(objects[0].code.offset, 0x2010, file),
        SPOIL(objects[0].code.offset, 0x3000, file),
        SPOIL(objects[0].code.offset, ~0xffful, file),
        SPOIL(objects[0].code.n_homes, 4, "addresses that stay are of no copy"),
        SPOIL(objects[2].code.n_homes, 1, "texts or words are of no object"),
        SPOIL(homes[0].size, 0x7f1, homes),
        SPOIL(homes[2].start, 0xf, homes),
#undef SPOIL
    };

    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        const char *why;

        memcpy(spoilt[i].at, &spoilt[i].value, spoilt[i].size);
        seal();
        why = open_made(sizeof made);
        CHECK(why && !strcmp(why, spoilt[i].sentence), "%zu: '%s' instead of '%s'", i,
              why ? why : "(taken)", spoilt[i].sentence);
        make();
    }
    made.objects[1].file = (struct sidecar_identity){0};
    seal();
    CHECK(open_made(sizeof made));
}

int main(void)
{
    make();
    CHECK(!open_made(sizeof made), "%s", open_made(sizeof made));
    each_byte_counts(&made, sizeof made, open_made);
    each_rule();
    return 0;
}
