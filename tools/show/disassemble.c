/* SPDX-License-Identifier: MIT
 *
 * disassemble.c: see disassemble.h.
 *
 * capstone 4 does not know AVX-512: bytes that it rejects are printed as .byte, one by one, and
 * decoding continues behind them.
 */
#include "tools/show/disassemble.h"
#include "tools/common/library.h"

#include <capstone/capstone.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X) X(cs_open) X(cs_option) X(cs_malloc) X(cs_disasm_iter) X(cs_free) X(cs_close)
static LIBRARY(FUNCTIONS) capstone;

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number
#define CAPSTONE "libcapstone.so." TEXT(CS_API_MAJOR)

#define MOST_BYTES 65536u /* of one function: what a person could read */

static uint64_t size_of(const struct elf_file *f, uint64_t address, uint64_t size, int *guessed)
{
    const struct elf_symbol *s = elf_function_at(f, address);
    *guessed = 0;
    if (!size && s && s->size > address - s->address)
        size = s->size - (address - s->address);
    if (!size) {
        *guessed = 1;
        size = 256;
    }
    return size < MOST_BYTES ? size : MOST_BYTES;
}

static int ends_function(const cs_insn *insn)
{
    return insn->id == X86_INS_RET || insn->id == X86_INS_JMP || insn->id == X86_INS_UD2;
}

/* Calls `line` for each instruction. */
static void each_instruction(const struct elf_file *f, uint64_t address, uint64_t size,
                             int stop_at_end, void (*line)(void *, uint64_t, const char *),
                             void *cookie)
{
    uint8_t *bytes = must_alloc(size, 1);
    const uint8_t *at = bytes;
    uint64_t pc = address;
    char text[256];
    csh handle;

    while (size && elf_read(f, address, bytes, size))
        size--;
    size_t left = size;
    if (LIBRARY_OPEN(capstone, CAPSTONE, FUNCTIONS) ||
        capstone.cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK) {
        complain("show", "capstone cannot be used: no code is shown");
        free(bytes);
        return;
    }
    capstone.cs_option(handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
    cs_insn *insn = capstone.cs_malloc(handle);
    while (left) {
        if (capstone.cs_disasm_iter(handle, &at, &left, &pc, insn)) {
            snprintf(text, sizeof text, "%s%s%s", insn->mnemonic, *insn->op_str ? " " : "",
                     insn->op_str);
            line(cookie, insn->address, text);
            if (stop_at_end && ends_function(insn))
                break;
        } else {
            snprintf(text, sizeof text, ".byte 0x%02x", *at++);
            line(cookie, pc++, text);
            left--;
        }
    }
    capstone.cs_free(insn, 1);
    capstone.cs_close(&handle);
    free(bytes);
}

static void print_line(void *cookie, uint64_t address, const char *text)
{
    (void)cookie;
    printf("        %8" PRIx64 ":  %s\n", address, text);
}

void disassemble_range(const struct elf_file *f, uint64_t address, uint64_t size)
{
    each_instruction(f, address, size, 0, print_line, NULL);
}

void disassemble_function(const struct elf_file *f, uint64_t address, uint64_t size)
{
    int guessed;
    size = size_of(f, address, size, &guessed);
    each_instruction(f, address, size, guessed, print_line, NULL);
}

static void json_line(void *cookie, uint64_t address, const char *text)
{
    char line[300];
    snprintf(line, sizeof line, "%" PRIx64 ": %s", address, text);
    json_string(cookie, NULL, line);
}

void json_code(struct json *j, const struct elf_file *f, uint64_t address, uint64_t size)
{
    int guessed;
    size = size_of(f, address, size, &guessed);
    json_begin(j, "code", '[');
    each_instruction(f, address, size, guessed, json_line, j);
    json_end(j, ']');
}
