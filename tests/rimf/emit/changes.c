/* SPDX-License-Identifier: MIT
 *
 * Lists of changes of the test's own code.  A failure means that a list is written in part though one of its changes is
 * refused, that nobody is told which, or that changes which are listed in any order, or of any length, do not arrive.
 */
#include "../image/process.h"

#include "rimf/emit/changes.h"

#define CODE 4096u

/* Twice, and what lies between them. */
extern uint8_t low[CODE], high[CODE];
__asm__(".pushsection .text\n"
        ".balign 4096\n"
        "low: .fill 4096, 1, 0x90\n"
        ".fill 8192, 1, 0xcc\n"
        "high: .fill 4096, 1, 0x90\n"
        ".popsection");

static struct mvld_image *image;
static uint8_t nops[16], traps[16];
static uintptr_t refused[8];
static size_t n_refused;

static void note(void *unused, uintptr_t at)
{
    (void)unused;
    CHECK(n_refused < 8);
    refused[n_refused++] = at;
}

/* Whether the places are traps, and nothing beside them. */
static int are(const uint8_t *at, size_t length, uint8_t what)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != what)
            return 0;
    return at[-1] == 0x90 && at[length] == 0x90;
}

/* Behind each other, of each length, the highest first, and of two stretches. */
static void add_many(struct changes *list, const uint8_t *old, const uint8_t *now)
{
    for (unsigned length = 16; length; length--) {
        changes_add(list, (uintptr_t)high + 32 * length, old, now, length);
        changes_add(list, (uintptr_t)low + 32 * length, old, now, length);
    }
}

static void check_many(uint8_t what)
{
    for (unsigned length = 1; length <= 16; length++)
        CHECK(are(high + 32 * length, length, what) && are(low + 32 * length, length, what), "(%u)", length);
}

static void any_order(void)
{
    struct changes list = {.image = image};

    add_many(&list, nops, traps);
    CHECK(changes_all(&list) == 0 && list.made == 32 && !list.refused);
    changes_refused(&list, note, NULL);
    changes_end(&list);
    CHECK(!list.n && !n_refused);
    check_many(0xcc);
    add_many(&list, traps, nops);
    CHECK(changes_all(&list) == 0);
    changes_end(&list);
    check_many(0x90);
}

/* Ten thousand words, as the objects of a start have them: one ascending stretch behind the other. */
static void stretches(void)
{
    struct changes list = {.image = image};

    for (int i = 0; i < 2; i++) {
        for (unsigned at = 8; at < CODE - 8; at += 5)
            changes_add(&list, (uintptr_t)high + at, i ? traps : nops, i ? nops : traps, 5);
        for (unsigned at = 8; at < CODE - 8; at += 5)
            changes_add(&list, (uintptr_t)low + at, i ? traps : nops, i ? nops : traps, 5);
        CHECK(changes_each(&list) == 0 && list.made == list.n && !list.refused);
        changes_end(&list);
        CHECK(low[8] == (i ? 0x90 : 0xcc) && high[8] == low[8] && low[7] == 0x90);
    }
}

/* The last one does not hold what is said. */
static void all_or_none(void)
{
    struct changes list = {.image = image};

    add_many(&list, nops, traps);
    changes_add(&list, (uintptr_t)low + 1024, traps, nops, 5);
    CHECK(changes_all(&list) == -EBUSY);
    changes_refused(&list, note, NULL);
    CHECK(n_refused == 1 && refused[0] == (uintptr_t)low + 1024);
    changes_end(&list);
    check_many(0x90);

    add_many(&list, nops, traps);
    changes_add(&list, (uintptr_t)low + 1024, traps, nops, 5);
    CHECK(changes_each(&list) == 0 && list.made == 32 && list.refused == 1);
    changes_end(&list);
    check_many(0xcc);
    add_many(&list, traps, nops);
    CHECK(changes_each(&list) == 0);
    changes_end(&list);
}

/* Of two that overlap not both are made. */
static void overlap(void)
{
    struct changes list = {.image = image};

    changes_add(&list, (uintptr_t)low + 64, nops, traps, 8);
    changes_add(&list, (uintptr_t)high + 64, nops, traps, 8);
    changes_add(&list, (uintptr_t)low + 68, nops, traps, 8);
    CHECK(changes_all(&list));
    changes_end(&list);
    CHECK(are(low + 64, 16, 0x90) && are(high + 64, 16, 0x90));
}

/* Data is refused, and nothing at all is nothing. */
static void others(void)
{
    struct changes list = {.image = image};

    CHECK(changes_all(&list) == 0 && !list.made);
    changes_end(&list);
    changes_add(&list, (uintptr_t)nops, nops, traps, 8);
    CHECK(changes_all(&list) < 0);
    changes_end(&list);
    CHECK(nops[0] == 0x90);
}

int main(void)
{
    memset(nops, 0x90, sizeof nops);
    memset(traps, 0xcc, sizeof traps);
    image = process_image();
    any_order();
    stretches();
    all_or_none();
    overlap();
    others();
    rimf_image_destroy(image);
    return 0;
}
