/* SPDX-License-Identifier: MIT
 *
 * loader/entry.h: entries from the host loader and from the C library (entry.S).
 */
#ifndef LOADER_ENTRY_H
#define LOADER_ENTRY_H

#include "rimf/base/base.h"

extern struct loader loader_state RIMF_HIDDEN;
void loader_entry(void) RIMF_HIDDEN;      /* ELF entry point */
void loader_hook_entry(void) RIMF_HIDDEN; /* stands in for _dl_debug_state */
void loader_no_init(void) RIMF_HIDDEN;    /* endbr64; ret */
void loader_init_common(void) RIMF_HIDDEN;
void caller_stub_entry(void) RIMF_HIDDEN;
void caller_stub_caller(void) RIMF_HIDDEN;
void caller_stub_place(void) RIMF_HIDDEN;
void caller_stub_result(void) RIMF_HIDDEN;
void caller_stub_symbol(void) RIMF_HIDDEN;
void caller_stub_named(void) RIMF_HIDDEN;
extern const uint8_t loader_mmap_sites[] RIMF_HIDDEN; /* MMAP_SITES entries */
extern const uint8_t loader_init_thunks[] RIMF_HIDDEN; /* INIT_CHUNK entries */
extern const uint8_t loader_cpuid_stubs[] RIMF_HIDDEN; /* one for each question */
#define CPUID_STUB_SIZE 80
#define CPUID_STUB_CODE 4 /* bytes before those of the host loader's */
#define MMAP_SITE_SIZE 64
#define MMAP_SITE_CODE 7  /* bytes of the host loader's for which it stands */
void loader_mmap_musl(void) RIMF_HIDDEN; /* for MMAP_MUSL_SIZE bytes of musl's */
#define MMAP_MUSL_SIZE 10
#define INIT_THUNK_SIZE 16

#endif
