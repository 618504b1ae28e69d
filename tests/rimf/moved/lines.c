/* SPDX-License-Identifier: MIT
 *
 * Where in a line hot code begins: a failure means that it is slower than the original, because
 * a loop lies across two lines, or that something else than a short loop decides.
 */
#include "rimf/moved/moved.h"

#include "../../check.h"

#include <string.h>

static uint8_t code[512];

/* Nothing but NOPs of one byte. */
static void clear(void)
{
    memset(code, 0x90, sizeof code);
}

/* dec %ecx; jne: a loop of so many bytes. */
static void loop(size_t at, size_t size)
{
    code[at] = 0xff;
    code[at + 1] = 0xc9;
    code[at + size - 2] = 0x75;
    code[at + size - 1] = (uint8_t)-size;
}

static void jump(size_t at, int32_t distance)
{
    code[at] = 0xe9;
    memcpy(code + at + 1, &distance, sizeof distance);
}

static void places(void)
{
    clear();
    CHECK(moved_line_of(code, sizeof code) == 0);
    CHECK(moved_line_of(code, 0) == 0);
    loop(0, 64);
    CHECK(moved_line_of(code, sizeof code) == 0);
    clear();
    loop(20, 44); /* ends with the line */
    CHECK(moved_line_of(code, sizeof code) == 0);
    clear();
    loop(21, 44); /* one byte farther; and 16, 32 farther it is across as well, 48 not */
    CHECK(moved_line_of(code, sizeof code) == 48);
    clear();
    loop(60, 10);
    CHECK(moved_line_of(code, sizeof code) == 16);
    jump(120, -10); /* across at 0 alone, where the first one is across, too */
    code[119] = 0x90;
    CHECK(moved_line_of(code, sizeof code) == 16);
}

/* As few as can be: at 0 three lie across, at 16 two, at 32 one, at 48 none but the new one. */
static void fewest(void)
{
    clear();
    loop(60, 8);
    CHECK(moved_line_of(code, sizeof code) == 16);
    loop(108, 8);  /* across at 16 */
    CHECK(moved_line_of(code, sizeof code) == 32);
    loop(156, 8);  /* across at 32 */
    CHECK(moved_line_of(code, sizeof code) == 48);
    loop(204, 8);  /* across at 48: the same everywhere, so it begins with a line */
    CHECK(moved_line_of(code, sizeof code) == 0);
    loop(252, 8);  /* across at 0 again */
    CHECK(moved_line_of(code, sizeof code) == 16);
}

static void no_loops(void)
{
    clear();
    loop(60, 65); /* longer than a line */
    CHECK(moved_line_of(code, sizeof code) == 0);
    clear();
    jump(60, 3); /* forward */
    jump(124, -200); /* before the code */
    CHECK(moved_line_of(code, sizeof code) == 0);
    jump(124, INT32_MIN);
    CHECK(moved_line_of(code, sizeof code) == 0);
    clear();
    memcpy(code + 60, "\xe8\xf6\xff\xff\xff", 5); /* a call backward */
    CHECK(moved_line_of(code, sizeof code) == 0);
    clear();
    jump(60, -10); /* the code ends inside it */
    CHECK(moved_line_of(code, 64) == 0 && moved_line_of(code, 65) == 16);
}

/* Bytes that are no instructions are passed over, and end. */
static void tables(void)
{
    clear();
    memset(code, 0x06, 59); /* none in 64-bit mode */
    loop(60, 8);
    CHECK(moved_line_of(code, sizeof code) == 16);
    for (unsigned i = 0; i < 256; i++) {
        memset(code, (int)i, sizeof code);
        CHECK(moved_line_of(code, sizeof code) % RIMF_MOVED_ALIGN == 0);
    }
}

int main(void)
{
    places();
    fewest();
    no_loops();
    tables();
    return 0;
}
