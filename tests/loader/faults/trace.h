/* SPDX-License-Identifier: MIT
 *
 * trace.h: one run of a program in which one system call of ours fails, or something else happens
 * before it.
 *
 * "Ours" are the calls that are made from the text of certain files; those of the
 * others in the process stay as they are, and nothing in it is changed for the test.
 *
 * A seccomp filter asks us about each system call (seccomp_unotify(2)): it goes on, or
 * it has no effect and returns the error.  In /proc/PID/status (loader/process/limits.c) it stands
 * only for programs that it is `shown`.  ptrace could do the same, but in a process that
 * is traced no code moves.  Addresses are not randomised,
 * so that the runs are alike.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>

struct seccomp_notif;

enum { CALLS = 4096, TEXT = 1 << 16 };

struct call {
    long number;
    unsigned long arguments[6];
    int file; /* of which file */
    unsigned long offset;
};

struct program {
    char **command; /* NAME=VALUE ... FILE ARGUMENT ... */
    char **files;   /* whose text is ours */
    size_t n_files;
    int shown; /* it may know of the filter */
    /* Of the run in which nothing fails: */
    struct call calls[CALLS];
    size_t n_calls;
};

struct run {
    void (*before)(long k, const struct seccomp_notif *); /* each call of ours, which waits; or NULL */
    long fails;  /* the index of the call; -1: none, and the calls are recorded */
    int lasting; /* all later calls of its number, too */
    int error;
    /* What came of it: */
    int status, endless; /* of wait(2); 1: it was ended after some seconds */
    size_t n_calls;
    long failed; /* the number of the call that failed first */
    char out[TEXT], err[TEXT];
};

/* Exits with 77 where seccomp does not ask. */
void trace(struct program *, struct run *);

#endif
