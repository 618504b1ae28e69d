/* SPDX-License-Identifier: MIT
 *
 * attach.h: calls a function of a running process, on one of its own threads.
 *
 * How
 *
 *   A thread that waits in poll(2) or the like holds none of the locks that malloc, the host loader or mvld
 *   take.  attach_begin() stops one such thread with ptrace(2); nobody else is stopped.  attach_call() has it
 *   call a function on a stack of ours; attach_end() gives it back its registers, and the system call goes on.
 *   No thread of ours is left in the process, and no memory.
 *
 *   Each switch between tool and thread may wait for the processor, and what the thread serves waits, too.
 *   So the thread is let go between any two requests, and nothing is read or looked up while it is stopped
 *   that can be before or after.
 *
 *   What the thread runs ends by itself in the system call rt_sigreturn(2), which brings back all that the
 *   thread had, as behind a signal's handler.  So the tool may be killed at any point.
 *
 *     struct attach *a = attach_open(pid);
 *     if (a->why[0] || attach_begin(a, 2000) || attach_call(a, function, arguments, 2, &result))
 *         complain("switch", "%s", a->why);
 *     attach_close(a);
 */
#ifndef ATTACH_H
#define ATTACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define CODE64 0x33 /* the code segment of 64-bit programs */

/* An object of the process, as its host loader lists them. */
struct attach_object {
    char *name;  /* its name there; for the executable from /proc */
    uint64_t start, bias, dynamic; /* start: of its ELF header; but the bias, if it is a library that was linked to
                                    * another address than 0 */
};

struct attach {
    pid_t pid, thread, stray; /* thread: the stopped one, or 0; stray: see rest.c */
    int memory, maps, folder; /* /proc/PID/mem, /proc/PID/maps and /proc/PID, or -1; once the process executes
                               * another program, the first two are empty */
    int lock; /* /proc/PID/mem as well, or -1: one tool at a time */
    char why[600]; /* the sentence of the last error */
    uint64_t began; /* start time of the process: field 22 of its stat */
    struct attach_object *objects;
    size_t n_objects;
    uint64_t syscall_ret, restorer; /* two addresses in libc's code: see call.c */
    struct attach_stopped *stopped;
    struct attach_waiter *waiter; /* see priority.c */
    int raised, priority; /* the priority is; the descriptor of its lock, or -1 */
    uint64_t awaited; /* nanoseconds, for the lock */
    uint64_t pause; /* nanoseconds of the longest stop of a thread */
    unsigned long child; /* that the thread made when it was to be stopped, or 0 */
    struct attach_thread *others; /* further stopped threads */
    size_t n_others;
    struct elf_file *elf; /* of the object of the last query for a function: with this `dynamic`, or
                           * NULL */
    uint64_t elf_of;
};

/* ---- process.c */
/* Opens a process: if it cannot be reached, `why` has the reason. */
struct attach *attach_open(pid_t);
void attach_close(struct attach *); /* ends a started request */
int attach_fail(struct attach *, const char *format, ...) __attribute__((format(printf, 2, 3))); /* -1 */
/* The same, for a thread that ptrace(2) refused with this error. */
int attach_refused(struct attach *, pid_t thread, int error);
int attach_has_ended(const struct attach *); /* or its first thread */
int attach_is_gone(const struct attach *); /* all threads */
int attach_has_executed(const struct attach *); /* the process has executed another program: this one's memory is gone */
/* Reads a file of /proc/PID, NUL-terminated, to be freed; NULL: it cannot be read.  `size` may be
 * NULL. */
char *attach_file(const struct attach *, const char *name, size_t *size);
/* Copies memory of the process.  0, or -1. */
int attach_read(const struct attach *, uint64_t address, void *to, size_t size);
char *attach_string(const struct attach *, uint64_t address); /* to be freed; "": unreadable */
int attach_write(const struct attach *, uint64_t address, const void *from, size_t size);
/* Whether the process itself may write there; whether it may execute what is there. */
int attach_is_writable(const struct attach *, uint64_t address, size_t size);
int attach_is_code(const struct attach *, uint64_t address);
/* The mapping that contains the address: 0, or -1.  *text is NULL at first, and freed by the caller at last: all
 * mappings, if the kernel cannot be asked for one (before Linux 6.11). */
int attach_mapping(const struct attach *, uint64_t address, char **text, uint64_t *start, uint64_t *end);
uint64_t attach_auxiliary(const struct attach *, uint64_t type); /* from its auxv; 0: missing */
/* From its status; 0: it has ended, or there is no such line.  A thread may have a filter of its own. */
unsigned long attach_status_number(const struct attach *, pid_t thread, const char *name);
/* Whether it is still the opened process, and may be reached. */
int attach_check(struct attach *);

/* ---- objects.c */
/* Lists the objects.  0, or -1. */
int attach_objects(struct attach *);
/* Whether the object has such a note where it is mapped: its file may be another one by now. */
int attach_has_note(const struct attach *, const struct attach_object *, const char *name, uint32_t type);
/* The object's file name as this process opens it: in the root folder of the other one. */
void attach_path(const struct attach *, const struct attach_object *, char *to, size_t size);
/* The number of objects of this name, and the first.  It is a base name, or a path if it has a slash; if no object has it,
 * up to a version: "libc.so" is libc.so.6, too. */
size_t attach_all_named(const struct attach *, const char *name, const struct attach_object **first);
/* The first, or NULL. */
const struct attach_object *attach_named(const struct attach *, const char *name);

/* ---- files.c */
/* As attach_objects(), and finds the two places in libc. */
int attach_list(struct attach *);
/* Opens the object's file if it is the mapped one: after an upgrade another one has its name.  0,
 * or -1 and the file's `error`; elf_file_close() in any case. */
struct elf_file;
int attach_elf(const struct attach *, const struct attach_object *, struct elf_file *);
/* The address of a function of an object, or 0; `why` is set if its file cannot be read. */
uint64_t attach_function(struct attach *, const struct attach_object *, const char *name);

/* ---- calls.c */
struct attach_waiting { /* in a system call; zeros: in none */
    pid_t thread;
    uint64_t number, sp, pc;
};
/* Whether this is a waiting call, while the thread is in it (`waits`), or as it returns. */
int attach_is_rest(const struct attach *, uint64_t number, const uint64_t *arguments, int waits);
/* Is it in one?  Where the kernel does not say which call goes on, it is that in which we stopped the thread last. */
int attach_waits(const struct attach *, pid_t thread, struct attach_waiting *);
/* If the kernel has prepared restart_syscall(2), the registers become those of the interrupted call.  The kernel then prepares
 * it again. */
void attach_undo_restart(const struct attach *, struct user_regs_struct *);

/* ---- rest.c */
struct attach_stopped { /* the thread's state, to be restored; and our memory in its process */
    struct user_regs_struct registers;
    struct attach_waiting before; /* as seen before it was stopped */
    uint64_t number;     /* of its system call, as the program made it */
    uint64_t mask;       /* of blocked signals */
    uint8_t *xstate;     /* NT_X86_XSTATE */
    size_t xstate_size;
    uint64_t since;      /* clock_ns() when it was last seen running */
    struct attach_waiting last; /* the thread that was stopped last, where it was; or zeros */
    uint64_t area, room, room_used; /* 0: no memory yet */
};
enum attach_place {
    ATTACH_IN_CALL, /* in any system call: may make system calls of ours */
    ATTACH_AT_REST  /* waiting: may call functions, too */
};
/* Stops one thread there, within so many milliseconds.  0, or -1. */
int attach_rest(struct attach *, enum attach_place, unsigned milliseconds);
/* Resumes the stopped thread with this request of ptrace(2), until its next stop.  Returns the
 * status of waitpid(2), or -1: it has ended, or the time is up.  Signals that come meanwhile are
 * delivered. */
int attach_resume(struct attach *, int request, unsigned milliseconds);
int attach_interrupt(struct attach *); /* and waits: 0, or -1 */
/* Lets the stopped thread go where it stands, and then the child that it made.  Returns -1. */
int attach_leave(struct attach *, int signal);
void attach_pause(unsigned tries); /* between looks: the process needs the processor, too */
/* The status of a thread that stops before clock_ns() says so, or -1; and the signal that it stopped with.
 * *ran, which may be NULL: when it was last seen running, if it was. */
int attach_wait(pid_t thread, uint64_t until, uint64_t *ran);
int attach_signal(int status);
int attach_release(pid_t thread, int signal); /* lets it go.  0; or -1: it has ended, or does not stop */
/* The same for one that was to stop and has not yet, in the middle of execve(2) for instance.  For so long at most, if it
 * only waits for a processor: were the tool to end first, its epoll_wait(2) would say EINTR. */
int attach_release_late(const struct attach *, pid_t thread, unsigned milliseconds);
#define ATTACH_LATE_MS 10000
/* A system call that was interrupted is to be made again, unless a handler runs: 1 when the registers were changed. */
int attach_mend_call(struct user_regs_struct *);
char *attach_thread_file(const struct attach *, pid_t thread, const char *what); /* "": it has ended; to be freed */

/* ---- choose.c */
struct attach_candidate {
    pid_t thread;
    unsigned long time; /* of a processor, that it has used */
};
/* The threads that run or wait, in the order in which they are to be tried; to be freed. */
struct attach_candidate *attach_candidates(struct attach *, size_t *n);
/* As in its stat; X: it has ended; I: a worker of io_uring's, which runs none of the process's code, and whose request
 * fails when it is stopped. */
char attach_thread_state(const struct attach *, pid_t thread);
char attach_state_and_time(const struct attach *, pid_t thread, unsigned long *ticks); /* of processor time, 100 a second */
int attach_has_children(const struct attach *, pid_t thread);
/* Whether the stopped thread is on its own stack, and that has room for our frame. */
int attach_is_on_its_stack(const struct attach *, const struct user_regs_struct *);

/* ---- priority.c: a real-time priority for the tool and this thread, if the tool may have one */
void attach_open_priority(struct attach *); /* its lock, if the tool may have the priority */
void attach_await_priority(struct attach *); /* while another tool has it, but a second at most in all stops together */
void attach_raise_priority(struct attach *, pid_t thread);
void attach_restore_priority(struct attach *); /* and lets others have it; also if it was awaited only */
void attach_end_priority(struct attach *); /* restores it, and ends the thread of the tool that is for it */

/* ---- library.c: between attach_begin() and attach_end() */
/* dlopen(3), dlclose(3), dlsym(3).  0, or -1: also when there is no such file or symbol. */
int attach_open_library(struct attach *, const char *path, int mode, uint64_t *handle);
int attach_close_library(struct attach *, uint64_t handle);
int attach_symbol(struct attach *, uint64_t handle, const char *name, uint64_t *address);

/* ---- threads.c */
struct attach_thread {
    pid_t thread; /* 0: it has ended */
    int is_stopped, signal;
    struct user_regs_struct registers;
};
/* Traces a thread, which goes on.  0, or -1 and errno. */
int attach_seize(struct attach *, pid_t thread, unsigned long options);
/* Stops all other threads that run code of the process, within so many milliseconds; those that it stopped before stay as
 * they are.  0; or -1, and none is stopped. */
int attach_stop_others(struct attach *, unsigned milliseconds);
void attach_let_go(struct attach *);
/* The first thread in such a range, or 0. */
struct attach_range {
    uint64_t start, size;
    int returns; /* also threads that return there; and a thread in it may leave after a few
                  * instructions */
};
/* Lets threads that stand in such a range run for a moment, each alone, until they do not. */
void attach_step_out(struct attach *, const struct attach_range *, size_t n);
/* Does it run a signal's handler, which may have interrupted malloc or the host loader? */
int attach_is_in_handler(const struct attach *, const struct user_regs_struct *);
pid_t attach_stands_in(const struct attach *, const struct attach_range *, size_t n);

/* ---- call.c */
#define ATTACH_ROOM (4u << 20) /* bytes for arguments and answers; untouched memory costs nothing */
size_t attach_frame_size(const struct attach *); /* of what is written below the stack pointer, and its red zone */
/* Stops a thread that waits; also once more, after attach_give_back().  0, or -1. */
int attach_begin(struct attach *, unsigned milliseconds);
/* Lets the thread go on, and keeps our memory.  0, or -1. */
int attach_give_back(struct attach *);
/* Copies `what` into the process, and returns its address; 0: no space, or an error. */
uint64_t attach_put(struct attach *, const void *what, size_t size);
/* Calls it with up to six arguments.  0, or -1. */
int attach_call(struct attach *, uint64_t function, const uint64_t *arguments, size_t n, uint64_t *result);
/* Makes the thread execute this system call; the kernel's result.  0, or -1. */
int attach_system_call(struct attach *, long number, const uint64_t arguments[6], uint64_t *result);
uint64_t attach_room(const struct attach *, size_t *size); /* the remaining space */
/* Restores and resumes the thread, and removes our memory, for which a thread is stopped again if none is.  0, or -1. */
int attach_end(struct attach *);

#endif
