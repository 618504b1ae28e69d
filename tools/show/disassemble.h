/* SPDX-License-Identifier: MIT
 *
 * disassemble.h: disassembles code, with capstone.
 */
#ifndef DISASSEMBLE_H
#define DISASSEMBLE_H

#include "tools/common/elf_file.h"
#include "tools/common/tools.h"

/* Prints `size` bytes of code, one indented line for each instruction. */
void disassemble_range(const struct elf_file *, uint64_t address, uint64_t size);
/* The same for a function; if `size` is 0, its symbol's size, else up to its first return or jump. */
void disassemble_function(const struct elf_file *, uint64_t address, uint64_t size);
/* The function's instructions as an array "code" of strings. */
void json_code(struct json *, const struct elf_file *, uint64_t address, uint64_t size);

#endif
