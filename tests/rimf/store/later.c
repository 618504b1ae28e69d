/* SPDX-License-Identifier: MIT
 *
 * The format of learnt objects (rimf/store/later.c).  A failure means that a damaged list is
 * taken, or a whole one is not.
 */
#include "../../check.h"
#include "../base/each_byte.h"
#include "made_later.h"

static struct made_later made;

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
        made_later_seal(&made, sizeof made);
        why = open_made(sizeof made);
        CHECK(why && !strcmp(why, spoilt[i].sentence), "%zu: '%s' instead of '%s'", i,
              why ? why : "(taken)", spoilt[i].sentence);
        made_later_make(&made);
    }
    made.objects[1].file = (struct file_id){0};
    made_later_seal(&made, sizeof made);
    CHECK(open_made(sizeof made));
    /* Who removes the list takes the name of what is not there for "". */
    made_later_make(&made);
    made.objects[1].copy_name = 7; /* "" */
    made_later_seal(&made, sizeof made);
    CHECK(!open_made(sizeof made));
    made.names[0] = '/';
    made_later_seal(&made, sizeof made);
    CHECK(open_made(sizeof made) && !strcmp(open_made(sizeof made), nameless));
}

int main(void)
{
    made_later_make(&made);
    CHECK(!open_made(sizeof made), "%s", open_made(sizeof made));
    each_byte_counts(&made, sizeof made, open_made);
    each_rule();
    return 0;
}
