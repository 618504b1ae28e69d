/* SPDX-License-Identifier: MIT
 *
 * service.h: a log line processor in four ELF objects, as a case study.
 *
 *     service (executable)   the switches, main(), the input
 *     libstore.so            the variation points: locks, trace, checksum
 *     libingest.so           the hot path: parses a line, calls libstore
 *     libexport.so           comes by dlopen when a report is asked for
 *
 * The three switches are what such services really have: do several threads
 * share the table, is somebody tracing, which checksum does the peer want.  All
 * are decided at start or once a day, and asked several times a line.
 *
 * None of the objects is linked with libmultiverse: the run time is looked up
 * with dlsym, and where there is none the service runs as ordinary C.
 */
#ifndef SERVICE_H
#define SERVICE_H

#include <multiverse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum checksum_mode { CHECKSUM_NONE, CHECKSUM_SUM, CHECKSUM_CRC };

/* Switches, defined by the executable. */
extern __attribute__((multiverse)) bool config_smp;
extern __attribute__((multiverse)) bool config_tracing;
extern __attribute__((multiverse)) enum checksum_mode config_checksum;

/* libstore: variation points. */
__attribute__((multiverse)) void store_lock(void);
__attribute__((multiverse)) void store_unlock(void);
__attribute__((multiverse)) void trace(const char *what, uint64_t value);
__attribute__((multiverse)) uint32_t checksum(const char *text, size_t length);

/* libstore: plain functions. */
struct statistics {
    uint64_t locks, traces, adds;
    uint32_t checksums; /* xor of all */
};
void store_add(const char *key, size_t length, uint64_t value);
uint64_t store_total(void);
struct statistics store_statistics(void); /* since the last call */
void store_note_checksum(uint32_t);

/* libingest: one line "LEVEL key value\n". */
void ingest_line(const char *line, size_t length);

/* libexport, through dlsym: the number of bytes that a report would have. */
typedef size_t export_report_fn(void);

/* The run time, or NULLs.  Every object that wants it looks for itself. */
struct multiverse_runtime {
    __typeof__(&multiverse_commit) commit;
    __typeof__(&multiverse_commit_refs) commit_refs;
    __typeof__(&multiverse_revert) revert;
    __typeof__(&multiverse_is_committed) is_committed;
    __typeof__(&multiverse_info_fn) info_fn;
};
struct multiverse_runtime service_runtime(void);

#endif
