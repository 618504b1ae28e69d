/* SPDX-License-Identifier: MIT
 *
 * loader/start/exchange.h: how `mvld run` replaces a program's interpreter by us.
 *
 * The program's unchanged file was executed, and none of it has run.  Its tracer writes a struct exchange
 * below the stack pointer and code over the interpreter's entry, and detaches.  The rest is the process's
 * own work, in this order:
 *
 *   tools/run/stub.S    at the interpreter's entry: opens our file and maps its text, wherever there is room
 *   entry.S, exchange.c in that text: maps our segments in the interpreter's place
 *   entry.S             there: unmaps that text, and starts as though the kernel had entered us
 *
 * So the program's file, arguments, auxv, AT_BASE and the kernel's facts about the process are those of a
 * start with our file as PT_INTERP.
 */
#ifndef LOADER_EXCHANGE_H
#define LOADER_EXCHANGE_H

/* Offsets in struct exchange, for assembly. */
#define EXCHANGE_STACK 0
#define EXCHANGE_ENTRY 8
#define EXCHANGE_TEXT 16
#define EXCHANGE_ENTER 24
#define EXCHANGE_PATH 320
#define EXCHANGE_CODE 256 /* bytes, at most */

/* Type of our file's note with the address of EXCHANGE_ENTER: its descriptor is the distance from itself,
 * 32 bits. */
#define EXCHANGE_NOTE 2

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct exchange {
    uint64_t stack;     /* the stack pointer from the kernel */
    uint64_t entry;     /* the interpreter's */
    uint64_t text;      /* length of our file's first segment, which is executable */
    uint64_t enter;     /* offset of loader_exchange_entry in it */
    uint64_t base, end; /* the interpreter; whole pages */
    uint64_t code, code_size; /* written over the interpreter's text, within one page */
    uint8_t original[EXCHANGE_CODE]; /* the original bytes */
    char path[];        /* of our file */
};
_Static_assert(offsetof(struct exchange, enter) == EXCHANGE_ENTER && offsetof(struct exchange, path) == EXCHANGE_PATH,
               "stub.S and entry.S find these");

/* Called by entry.S only, in the text that the stub mapped.  Returns our entry; or 0: our file cannot be
 * mapped there, and the interpreter is restored. */
uintptr_t loader_exchange(const struct exchange *, int fd);
#endif

#endif
