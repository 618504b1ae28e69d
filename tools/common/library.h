/* SPDX-License-Identifier: MIT
 *
 * library.h: libraries for few subcommands.  They are loaded on demand, so that `mvld run` starts
 * without them.
 *
 *     #define FUNCTIONS(X) X(dwarf_begin_elf) X(dwarf_end)
 *     static LIBRARY(FUNCTIONS) libdw;
 *     if (!LIBRARY_OPEN(libdw, "libdw.so.1", FUNCTIONS))
 *         libdw.dwarf_end(libdw.dwarf_begin_elf(...));
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <stddef.h>

#define LIBRARY_MEMBER(function) __typeof__(function) *function;
#define LIBRARY_NAME(function) #function,
/* A struct of pointers to functions, of the types that the library's header declares. */
#define LIBRARY(functions) struct { functions(LIBRARY_MEMBER) }
/* 0; or -1 with the reason on standard error.  The library is not unloaded. */
#define LIBRARY_OPEN(library, file, functions)                                                              \
    library_open(file, (const char *const[]){functions(LIBRARY_NAME)}, sizeof(library) / sizeof(void *), &(library))

int library_open(const char *file, const char *const *names, size_t n, void *pointers);

#endif
