/* SPDX-License-Identifier: MIT
 *
 * multiverse.h: commit and revert variation points at run time.
 *
 * Overview
 *
 *   A global variable attributed `multiverse` is a configuration switch; a
 *   function attributed so is a variation point, for which the compiler plugin
 *   generated variants.  While nothing is committed the program behaves as if
 *   the attributes were not there.  A commit reads the switches and patches the
 *   call sites of all objects of the process to the variants that fit; from
 *   then on, changing a switch has no effect on committed functions until the
 *   next commit or revert (F. Rommel et al., "Multiverse: Compiler-Assisted
 *   Management of Dynamic Variability in Low-Level System Software",
 *   EuroSys 2019, section 4).
 *
 * Example
 *
 *     #include <multiverse.h>
 *
 *     __attribute__((multiverse)) bool verbose;
 *     __attribute__((multiverse)) void step(void) { if (verbose) report(); work(); }
 *
 *     int main(void) {
 *         verbose = false;
 *         multiverse_commit();          // step() no longer looks at verbose
 *         run();
 *         verbose = true;
 *         multiverse_commit_refs(&verbose);
 *         run();
 *         multiverse_revert();          // step() looks at verbose again
 *     }
 *
 *   Callers of a function that is multiverse("inline") hold its variants, and a commit writes
 *   the jumps that choose one: then there is no call.  Uncommitted they call it, two jumps
 *   away; so do those that the plugin could not give variants (gcc-plugin/README.md), always.
 *
 *   Link with -lmultiverse, or find the functions with dlsym(RTLD_DEFAULT, …):
 *   under mvld with the multiverse pass they are there in any program.
 *
 * Counts and errors
 *
 *   Commit and revert return the number of functions whose binding changed, a
 *   constant as one, or -1 with errno set and a sentence in multiverse_error():
 *     EINVAL  the pointer is NULL or names no switch or variation point
 *     EDEADLK called from a signal handler that interrupted a commit of the
 *             same thread
 *     EPERM   this process may not change its code (see `mvld doctor`)
 *     ENOMEM  out of memory; commits also for good when that was so as an object
 *             came, whose functions would be missed
 *     EAGAIN  other threads open and close libraries without pause
 *   A call site that could not be changed safely is left as it was; the
 *   function's entry then leads to the variant, so behaviour is the same.
 *
 * Thread-safety
 *
 *   Every function may be called by any thread at any time; calls are
 *   serialised.  Other threads may run the code meanwhile: a call made after
 *   a commit returned runs the new variant; a thread that was inside an old
 *   variant finishes it there (multiverse_synchronize() waits for that).  Not async-signal-safe.  After fork the child
 *   starts with the state of its parent; do not call between vfork and exec.
 */
#ifndef MULTIVERSE_H
#define MULTIVERSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the descriptors of all objects.  Optional, and idempotent: every other
 * function does it when needed.  0, or -1. */
int multiverse_init(void);

/* Binds every variation point to the current values of its switches.  A
 * function without a fitting variant is bound to its generic.  Count, or -1. */
int multiverse_commit(void);

/* Unbinds every variation point.  Count, or -1. */
int multiverse_revert(void);

/* The same for the variation points that have a variant for this switch. */
int multiverse_commit_refs(void *switch_location);
int multiverse_revert_refs(void *switch_location);

/* The same for one function, named by its address, or for one function pointer or constant,
 * named by the address of the variable.  1 changed, 0 not, or -1. */
int multiverse_commit_fn(void *function);
int multiverse_revert_fn(void *function);
int multiverse_commit_func(void *function); /* the paper's spelling */
int multiverse_revert_func(void *function);

/* What became of a function, or function pointer, in the last commit or revert that reached it. */
enum multiverse_outcome {
    MULTIVERSE_UNCHANGED, /* its binding was as it should be, or nothing has reached it */
    MULTIVERSE_CHANGED,   /* it is another now */
    MULTIVERSE_GENERIC,   /* a commit left it to its generic: ENOENT, no variant fits the values;
                             EINVAL, the function pointer is NULL; ENOTSUP, some code reads the
                             constant where its value cannot stand (the compiler plugin warned),
                             and sees the variable there; all other code has the value */
    MULTIVERSE_REFUSED    /* it could not be bound: ERANGE, what it should lead to is out of reach;
                             ESTALE, its bytes are neither the linker's nor ours; EFAULT, it is not
                             in executable memory of an object; EEXIST, it overlaps another; EDEADLK,
                             not while other threads run; EPERM and others, the system refuses */
};

/* How many functions the calling thread's last commit or revert reached, by what became of
 * them; all 0 when it failed before it looked.  Valid until the thread's next one.  (What they
 * return counts bindings that changed, of those left to their generic also.) */
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

/* 1 when the function is bound to a variant, 0 when not, -1 when it is none. */
int multiverse_is_committed(void *function);

/* Tracked switches start unbound: variants that fix them are not chosen.
 * state 1 binds, 0 unbinds, -1 asks; takes effect with the next commit.
 * The state, or -1 when the switch is not attributed ("tracked"). */
int multiverse_bind(void *switch_location, int state);

/* Look-ups: a description that stays valid until the object that defines it is
 * closed, or NULL with errno EINVAL.  The structs end with what later versions
 * add: use no sizeof on them. */
struct multiverse_info_var {
    const char *name;
    void *location;
    unsigned width; /* bytes */
    int is_signed, is_tracked, is_bound;
    size_t n_functions; /* variation points that have variants for it */
};
struct multiverse_info_fn {
    const char *name;
    void *function;     /* the generic, or the pointer variable */
    int is_pointer;
    size_t n_variants;
    size_t n_callsites; /* those that are decided without a call, multiverse("inline"), as well */
    void *active;       /* the variant in force, or NULL */
    const char *active_name; /* or NULL */
    enum multiverse_outcome outcome;
    int error;       /* why it is generic or was refused; else why some of its call sites stayed
                        as they were, and go through its entry; or 0 */
    const char *why; /* the same as a phrase, or NULL */
    int is_constant; /* then: the variable as `function`, its reads as call sites, and the variable
                        once more as `active` while its value stands in the code */
};
const struct multiverse_info_var *multiverse_info_var(void *switch_location);
const struct multiverse_info_fn *multiverse_info_fn(void *function);
int multiverse_commit_info_fn(const struct multiverse_info_fn *);
int multiverse_revert_info_fn(const struct multiverse_info_fn *);
int multiverse_commit_info_refs(const struct multiverse_info_var *);
int multiverse_revert_info_refs(const struct multiverse_info_var *);

/* From now on `report` is called for each function that a commit or revert has left generic or
 * refused, by the thread that called it, before that returns: also for those of objects that came
 * since, and of commits before, unless they were bound meanwhile.  It may call anything here; of
 * what its own commits leave, the next one reports.  NULL: nothing is reported. */
void multiverse_on_miss(void (*report)(const struct multiverse_info_fn *, void *cookie),
                        void *cookie);

/* Writes what is known to standard error, one line a switch and a function. */
void multiverse_dump_info(void);

/* What the last failing call of this thread had to say, "" when none failed. */
const char *multiverse_error(void);

/* What the calling thread's last commit or revert left out: call sites and
 * functions that could not be bound, with reasons, one a line; "" when all
 * were.  Valid until the thread's next call. */
const char *multiverse_report(void);

#ifdef __cplusplus
}
#endif
#endif
