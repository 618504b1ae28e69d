/* SPDX-License-Identifier: MIT
 *
 * multiverse.h: commits and reverts variation points at run time.
 *
 * Overview
 *
 *   A global variable with the attribute `multiverse` is a configuration switch.  A
 *   function with it is a variation point, and the compiler plugin generated
 *   variants of it.  Until the first commit the program behaves as if the
 *   attributes were not there.  A commit reads the switches and binds the call
 *   sites of all objects of the process to the variants that fit.  After it, a
 *   change of a switch has no effect on committed functions until the next commit
 *   or revert (F. Rommel et al., "Multiverse: Compiler-Assisted Management of
 *   Dynamic Variability in Low-Level System Software", EuroSys 2019, section 4).
 *
 * Example
 *
 *     #include <multiverse.h>
 *     #include <stdbool.h>
 *
 *     void report(void), work(void), run(void);   // run calls step
 *
 *     __attribute__((multiverse)) bool verbose;
 *     __attribute__((multiverse)) void step(void) { if (verbose) report(); work(); }
 *
 *     int main(void) {
 *         verbose = false;
 *         multiverse_commit();          // step() no longer reads verbose
 *         run();
 *         verbose = true;
 *         multiverse_commit_refs(&verbose);
 *         run();
 *         multiverse_revert();          // step() reads verbose again
 *     }
 *
 *   The callers of a multiverse("inline") function contain its variants, and a
 *   commit writes the jumps that select one: there is no call.  Until a commit
 *   they call the function, at the cost of two more jumps.  Callers for which the
 *   plugin could not do this always call (gcc-plugin/README.md).
 *
 *   Link with -lmultiverse, or find the functions with dlsym(RTLD_DEFAULT, …):
 *   under mvld with the multiverse pass every program has them.
 *
 * Return values and errors
 *
 *   Commit and revert return the number of functions whose binding changed (a
 *   constant counts as one), or -1 with errno set and a sentence in
 *   multiverse_error():
 *     EINVAL  the pointer is NULL, or is no switch or variation point
 *     EDEADLK called from a signal handler that interrupted a commit of the
 *             same thread
 *     EPERM   this process may not change its code (see `mvld doctor`)
 *     ENOMEM  out of memory.  If memory ran out while an object was added, every
 *             later commit fails, because it would miss that object's functions
 *     EAGAIN  other threads open and close libraries without pause
 *   A call site that cannot be changed safely keeps its bytes.  It calls the
 *   function's entry, which jumps to the variant.
 *
 * Thread-safety
 *
 *   Any thread may call any function at any time; calls are serialised.  Other
 *   threads may run the code meanwhile.  A call made after a commit returned runs
 *   the new variant; a thread inside an old variant finishes there
 *   (multiverse_synchronize() waits for that).  Not async-signal-safe.  After fork the
 *   child has the state of its parent.  Do not call between vfork and exec.
 */
#ifndef MULTIVERSE_H
#define MULTIVERSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the descriptors of all objects.  Optional and idempotent: every other
 * function does it when needed.  Returns 0, or -1. */
int multiverse_init(void);

/* Binds every variation point to the current values of its switches; a function
 * without a fitting variant is bound to its generic.  Returns a count, or -1. */
int multiverse_commit(void);

/* Unbinds every variation point.  Returns a count, or -1. */
int multiverse_revert(void);

/* The same for the variation points that have a variant for this switch. */
int multiverse_commit_refs(void *switch_location);
int multiverse_revert_refs(void *switch_location);

/* The same for one function, given its address, or for one function pointer or
 * constant, given the address of the variable.  Returns 1 if its binding changed, 0
 * if not, or -1. */
int multiverse_commit_fn(void *function);
int multiverse_revert_fn(void *function);
int multiverse_commit_func(void *function); /* the paper's spelling */
int multiverse_revert_func(void *function);

/* The result, for a function or function pointer, of the last commit or revert that
 * reached it. */
enum multiverse_outcome {
    MULTIVERSE_UNCHANGED, /* the binding did not change, or nothing has reached it */
    MULTIVERSE_CHANGED,   /* the binding changed */
    MULTIVERSE_GENERIC,   /* a commit bound it to its generic.  ENOENT: no variant
                           * fits the values.  EINVAL: the function pointer is NULL.
                           * ENOTSUP: some code must read the constant from the
                           * variable (the compiler plugin warned); all other code
                           * has the value */
    MULTIVERSE_REFUSED    /* it could not be bound.  ERANGE: the target is out of
                           * reach.  ESTALE: its bytes are neither the linker's nor
                           * ours.  EFAULT: it is not in executable memory of an
                           * object.  EEXIST: it overlaps another.  EDEADLK: not
                           * while other threads run.  EPERM and others: the system
                           * refuses */
};

/* The number of functions that the calling thread's last commit or revert reached,
 * by outcome; all 0 if it failed before it started.  Valid until the thread's next
 * commit or revert.  (Their return value counts changed bindings, including those
 * that changed to the generic.) */
struct multiverse_status {
    size_t n_unchanged, n_changed, n_generic, n_refused;
};
const struct multiverse_status *multiverse_status(void);

/* Waits until no thread can still be inside code that commits and reverts up to now have replaced: variants and
 * generics that were in force, and what they called.  Then what that code used may be freed, or
 * changed.  As synchronize_rcu() of the kernel, with the variants as the readers:
 *
 *     policy = NEW;
 *     multiverse_commit_refs(&policy);
 *     if (multiverse_synchronize(1000) == 0)
 *         free(old_tables);             // nobody is in the old variants
 *
 * Waits for so many milliseconds at most; 0 looks once.  0, or -1:
 *     EAGAIN  a thread is, or may be, still there; ask again
 *     EDEADLK the calling thread is
 *     EBUSY   a call site could not be changed, and may still lead there (multiverse_error)
 *     ENOTSUP an object has no unwind tables, as a static program has none
 *     EPERM   /proc is not there;  ENOMEM
 *
 * Threads need do nothing for it.  One that waits in the kernel is looked at; one that never does is stopped for some
 * microseconds, by ptrace(2) from a short-lived child.  Where that is not allowed (a debugger, a filter of
 * system calls, kernel.yama.ptrace_scope) such a thread counts as being there.  So does one whose stack
 * holds what looks like a return address into the old code, and one inside a function with a
 * multiverse("inline") call that was changed.
 *
 * Not seen: stacks that no thread is on (coroutines); a value of a switch that a thread has read; the function to
 * which a function pointer led.  What such threads do later with what they hold is the program's matter.
 *
 * Takes some 50 µs a thread.  Not while the calling thread holds a lock that others need to leave the
 * code.  Called from several threads at once, each waits. */
int multiverse_synchronize(unsigned milliseconds);

/* Returns 1 if the function is bound to a variant, 0 if not, -1 if it is no
 * variation point. */
int multiverse_is_committed(void *function);

/* Tracked switches start unbound: variants that fix them are not selected.  state 1
 * binds the switch, 0 unbinds it, -1 changes nothing.  Takes effect with the next
 * commit.  Returns the state, or -1 if the switch is not attributed ("tracked"). */
int multiverse_bind(void *switch_location, int state);

/* Look-ups.  Return a description that is valid until the object that defines it is
 * closed, or NULL with errno EINVAL.  Later versions append members to the structs:
 * do not use sizeof on them. */
struct multiverse_info_var {
    const char *name;
    void *location;
    unsigned width; /* bytes */
    int is_signed, is_tracked, is_bound;
    size_t n_functions; /* variation points with variants for it */
};
struct multiverse_info_fn {
    const char *name;
    void *function;     /* the generic, or the pointer variable */
    int is_pointer;
    size_t n_variants;
    size_t n_callsites; /* including inline calls (multiverse("inline")) */
    void *active;       /* the variant in force, or NULL */
    const char *active_name; /* or NULL */
    enum multiverse_outcome outcome;
    int error;       /* why it is generic or refused; else why some call sites were
                      * not changed and use its entry; or 0 */
    const char *why; /* `error` as a phrase, or NULL */
    int is_constant; /* then `function` is the variable, call sites are its reads,
                      * and `active` is the variable while its value is in the code */
};
const struct multiverse_info_var *multiverse_info_var(void *switch_location);
const struct multiverse_info_fn *multiverse_info_fn(void *function);
int multiverse_commit_info_fn(const struct multiverse_info_fn *);
int multiverse_revert_info_fn(const struct multiverse_info_fn *);
int multiverse_commit_info_refs(const struct multiverse_info_var *);
int multiverse_revert_info_refs(const struct multiverse_info_var *);

/* Registers `report`.  It is called for each function that a commit or revert has
 * left generic or refused, by the committing thread, before the commit returns.
 * That includes functions of objects added since, and of earlier commits, unless
 * they were bound meanwhile.  `report` may call any function here; what its own
 * commits leave is reported by the next commit.  NULL: nothing is reported. */
void multiverse_on_miss(void (*report)(const struct multiverse_info_fn *, void *cookie),
                        void *cookie);

/* Writes the state to standard error, one line for each switch and function. */
void multiverse_dump_info(void);

/* The error sentence of this thread's last failing call, or "". */
const char *multiverse_error(void);

/* What the calling thread's last commit or revert left out: call sites and
 * functions that could not be bound, with reasons, one a line; "" when all
 * were.  Valid until the thread's next one. */
const char *multiverse_report(void);

#ifdef __cplusplus
}
#endif
#endif
