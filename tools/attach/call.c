/* SPDX-License-Identifier: MIT
 *
 * attach/call.c: makes the stopped thread execute system calls and functions.
 *
 * The tool may be killed at any moment, and the thread then continues.  So whatever it executes
 * ends in rt_sigreturn(2) with a frame that has the thread's whole state, as if a signal's handler
 * returned:
 *
 *     stack of the thread:  [restorer] [ucontext] [xstate]      below its red zone, where a signal's frame
 *                              ▲ rsp                            would lie
 *     rip: `syscall; ret` of libc, for mmap(2) and munmap(2); `ret` goes to libc's restorer
 *
 *     memory of ours:       code page, frame, arguments and answers, stack
 *
 * The code calls the function, reports its end, and waits a second for the tool, which stops it
 * there.  It turns for some 50 us, since one that sleeps must wait for a processor before it can be
 * stopped; then it waits by ppoll(2), which preserves the kernel's state of an interrupted nanosleep(2)
 * or poll(2).  Without a tool it returns through the frame.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RED_ZONE 128
#define PAGE 4096u
#define STACK (256u << 10)
#define END_MS 3000
#define LONG_TRIES 1000 /* some 0.1 s */
#define CALL_MS 10000 /* enough for a commit of many functions; otherwise some thread holds a lock */

/* The kernel's struct rt_sigframe without its siginfo, which it does not read (arch/x86/include/asm/sigframe.h). */
struct frame {
    uint64_t restorer;
    uint64_t uc_flags, uc_link;
    uint64_t stack_sp;
    uint32_t stack_flags, padding;
    uint64_t stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, cr2, fpstate, reserved[8];
    uint64_t mask;
};
#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
#define SS_NOT_VALID 5u /* the kernel leaves the alternate stack as it is */

/* What must follow xstate for the kernel to accept it (struct _fpx_sw_bytes), at its byte 464. */
struct xstate_words {
    uint32_t magic1, extended_size;
    uint64_t features;
    uint32_t size, padding[7];
};
#define XSTATE_WORDS 464
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u

struct words { /* the code's report, the result first; and its time-out */
    uint64_t result, done, seconds, nanoseconds;
};

/* Their offsets in our memory; then the space for arguments, then the stack. */
enum { CODE = 0, WORDS = PAGE, FRAME = PAGE + 64, ROOM = 8 * PAGE, SIZE = ROOM + ATTACH_ROOM + STACK };

static const uint8_t code[] = {
    0xff, 0xd3,                                           /* 00  call *%rbx          */
    0x49, 0x89, 0x04, 0x24,                               /* 02  mov %rax,(%r12)     */
    0x41, 0xc7, 0x44, 0x24, 0x08, 0x01, 0x00, 0x00, 0x00, /* 06  movl $1,8(%r12)     */
    0xb9, 0x00, 0x08, 0x00, 0x00,                         /* 0f  mov $2048,%ecx      */
    0xf3, 0x90,                                           /* 14  pause               */
    0xff, 0xc9,                                           /* 16  dec %ecx            */
    0x75, 0xfa,                                           /* 18  jne 14              */
    0x31, 0xff,                                           /* 1a  xor %edi,%edi       */
    0x31, 0xf6,                                           /* 1c  xor %esi,%esi       */
    0x49, 0x8d, 0x54, 0x24, 0x10,                         /* 1e  lea 16(%r12),%rdx   */
    0x4d, 0x31, 0xd2,                                     /* 23  xor %r10,%r10       */
    0x4d, 0x31, 0xc0,                                     /* 26  xor %r8,%r8         */
    0xb8, 0x0f, 0x01, 0x00, 0x00,                         /* 29  mov $271,%eax       ppoll(2) */
    0x0f, 0x05,                                           /* 2e  syscall             */
    0x4c, 0x89, 0xec,                                     /* 30  mov %r13,%rsp       */
    0xb8, 0x0f, 0x00, 0x00, 0x00,                         /* 33  mov $15,%eax        rt_sigreturn(2) */
    0x0f, 0x05,                                           /* 38  syscall             */
};

/* ---- frames */

static int is_restart(uint64_t rax)
{
    return (int64_t)rax <= -512 && (int64_t)rax >= -516; /* ERESTARTSYS to ERESTART_RESTARTBLOCK */
}

/* Writes a frame that restores the thread's whole state, with its xstate behind it. */
static int write_frame(struct attach *a, uint64_t at)
{
    const struct attach_stopped *s = a->stopped;
    const struct user_regs_struct *r = &s->registers;
    uint64_t xstate = (at + sizeof(struct frame) + 63) & ~UINT64_C(63), again = is_restart(r->rax);
    struct frame f = {.restorer = a->restorer, .uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
        .stack_flags = SS_NOT_VALID, .r8 = r->r8, .r9 = r->r9, .r10 = r->r10, .r11 = r->r11, .r12 = r->r12,
        .r13 = r->r13, .r14 = r->r14, .r15 = r->r15, .rdi = r->rdi, .rsi = r->rsi, .rbp = r->rbp,
        .rbx = r->rbx, .rdx = r->rdx, .rax = again ? s->number : r->rax, .rcx = r->rcx, .rsp = r->rsp,
        .rip = again ? r->rip - 2 : r->rip, .eflags = r->eflags, .cs = (uint16_t)r->cs, .ss = (uint16_t)r->ss,
        .fpstate = xstate, .mask = s->mask};
    struct xstate_words words = {.magic1 = MAGIC1, .extended_size = (uint32_t)s->xstate_size + 4,
                                 .size = (uint32_t)s->xstate_size};
    uint32_t magic2 = MAGIC2;

    memcpy(&words.features, s->xstate + XSTATE_WORDS, sizeof words.features); /* the regset has them there */
    if (attach_write(a, at, &f, sizeof f) || attach_write(a, xstate, s->xstate, s->xstate_size) ||
        attach_write(a, xstate + XSTATE_WORDS, &words, sizeof words) ||
        attach_write(a, xstate + s->xstate_size, &magic2, sizeof magic2))
        return attach_fail(a, "process %d: the stack of thread %d has no room", a->pid, a->thread);
    return 0;
}

size_t attach_frame_size(const struct attach *a)
{
    return RED_ZONE + a->stopped->xstate_size + sizeof(struct frame) + 128 + 64;
}

static uint64_t frame_on_stack(const struct attach *a)
{
    return (a->stopped->registers.rsp - attach_frame_size(a) + 64) & ~UINT64_C(63);
}

/* ---- the borrowed thread */

/* Sets registers first: if the tool ends here, the frame restores the mask. */
static int lead(struct attach *a, struct user_regs_struct *r)
{
    uint64_t all = ~UINT64_C(0);

    r->orig_rax = ~0ul;
    r->eflags &= ~UINT64_C(0x500); /* no direction flag, no trap flag */
    if (ptrace(PTRACE_SETREGS, a->thread, NULL, r) ||
        ptrace(PTRACE_SETSIGMASK, a->thread, (void *)sizeof all, &all))
        return attach_fail(a, "process %d: ptrace(2): %s", a->pid, strerror(errno));
    return 0;
}

/* Forgets the thread, and our memory, which it may be using. */
static void forget(struct attach *a)
{
    attach_restore_priority(a);
    a->thread = 0;
    a->stopped->area = 0;
}

static int lost(struct attach *a)
{
    pid_t thread = a->thread;

    attach_release(thread, 0);
    forget(a);
    return attach_fail(a, "process %d: thread %d has ended, or does not stop", a->pid, thread);
}

int attach_system_call(struct attach *a, long number, const uint64_t arguments[6], uint64_t *result)
{
    struct user_regs_struct r = a->stopped->registers;

    r.rip = a->syscall_ret;
    r.rsp = frame_on_stack(a);
    r.rax = (uint64_t)number;
    r.rdi = arguments[0];
    r.rsi = arguments[1];
    r.rdx = arguments[2];
    r.r10 = arguments[3];
    r.r8 = arguments[4];
    r.r9 = arguments[5];
    if (lead(a, &r))
        return -1;
    /* Its second stop is one behind which the kernel makes interrupted calls again. */
    if (attach_resume(a, PTRACE_SYSCALL, CALL_MS) == -1 || ptrace(PTRACE_INTERRUPT, a->thread, NULL, NULL) ||
        attach_resume(a, PTRACE_CONT, CALL_MS) == -1 || ptrace(PTRACE_GETREGS, a->thread, NULL, &r))
        return lost(a);
    *result = r.rax;
    return 0;
}

static int stop(struct attach *a, enum attach_place place, unsigned milliseconds)
{
    return attach_rest(a, place, milliseconds) || attach_check(a) || write_frame(a, frame_on_stack(a)) ? -1 : 0;
}

/* A stop for this call alone, so that none is longer. */
static int one_system_call(struct attach *a, unsigned milliseconds, long number, const uint64_t arguments[6],
                           uint64_t *result)
{
    return stop(a, ATTACH_IN_CALL, milliseconds) || attach_system_call(a, number, arguments, result) ||
                   attach_give_back(a)
               ? -1
               : 0;
}

static int make_memory(struct attach *a, unsigned milliseconds)
{
    uint64_t area, result;

    if (one_system_call(a, milliseconds, SYS_mmap, (uint64_t[6]){0, SIZE, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~UINT64_C(0), 0}, &area))
        return -1;
    if ((int64_t)area < 0 && (int64_t)area > -4096)
        return attach_fail(a, "process %d has no memory for a call: %s", a->pid, strerror((int)-(int64_t)area));
    a->stopped->area = area;
    a->stopped->room = area + ROOM;
    /* Not mprotect(2): what could be written may not become code everywhere (PR_SET_MDWE). */
    if (one_system_call(a, milliseconds, SYS_mmap, (uint64_t[6]){area + CODE, PAGE, PROT_READ | PROT_EXEC,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~UINT64_C(0), 0}, &result))
        return -1;
    if (result != area + CODE)
        return attach_fail(a, "process %d may not have new code: %s", a->pid, strerror((int)-(int64_t)result));
    return attach_write(a, area + CODE, code, sizeof code) ? attach_fail(a, "process %d: its memory cannot be written", a->pid) : 0;
}

int attach_begin(struct attach *a, unsigned milliseconds)
{
    if (a->why[0] || ((!a->stopped || !a->stopped->area) && make_memory(a, milliseconds)))
        return -1;
    return stop(a, ATTACH_AT_REST, milliseconds) || write_frame(a, a->stopped->area + FRAME) ? -1 : 0;
}

uint64_t attach_put(struct attach *a, const void *what, size_t size)
{
    uint64_t at = a->stopped->room + a->stopped->room_used;

    if (size > ATTACH_ROOM - a->stopped->room_used || attach_write(a, at, what, size)) {
        attach_fail(a, "process %d: no room for the request", a->pid);
        return 0;
    }
    a->stopped->room_used += (size + 15) & ~UINT64_C(15);
    return at;
}

uint64_t attach_room(const struct attach *a, size_t *size)
{
    *size = ATTACH_ROOM - a->stopped->room_used;
    return a->stopped->room + a->stopped->room_used;
}

/* Waits until the code says that the function has returned. */
static int wait_done(struct attach *a, struct words *words)
{
    uint64_t until = clock_ns() + CALL_MS * UINT64_C(1000000);
    int status;

    for (unsigned tries = 0; clock_ns() < until; tries++) {
        if (attach_read(a, a->stopped->area + WORDS, words, sizeof *words))
            return lost(a);
        if (words->done) /* again: the result may have been read too early */
            return attach_read(a, a->stopped->area + WORDS, words, sizeof *words) ? lost(a) : 0;
        if ((status = attach_wait(a->thread, 0, NULL)) != -1) /* the whole process is stopped */
            ptrace(PTRACE_CONT, a->thread, NULL, attach_signal(status));
        attach_pause(tries);
        if (tries == LONG_TRIES) /* others need the processor, too */
            attach_restore_priority(a);
    }
    return attach_fail(a, "process %d: the call has not returned after %u s, since another thread holds a lock; "
                       "it is left to end by itself", a->pid, CALL_MS / 1000);
}

int attach_call(struct attach *a, uint64_t function, const uint64_t *arguments, size_t n, uint64_t *result)
{
    struct user_regs_struct r = a->stopped->registers;
    uint64_t area = a->stopped->area, values[6] = {0};
    struct words words = {.seconds = 1};

    if (!function)
        return attach_fail(a, "process %d: there is no function to be called", a->pid);
    memcpy(values, arguments, n * sizeof *values);
    r.rip = area + CODE;
    r.rbx = function;
    r.r12 = area + WORDS;
    r.r13 = area + FRAME + 8; /* behind the restorer, where a handler's `ret` leaves it */
    r.rsp = area + SIZE - 64; /* a function such as syscall(3) reads what would be its seventh argument */
    r.rbp = r.rax = 0;
    r.rdi = values[0];
    r.rsi = values[1];
    r.rdx = values[2];
    r.rcx = values[3];
    r.r8 = values[4];
    r.r9 = values[5];
    if (attach_write(a, area + WORDS, &words, sizeof words) || lead(a, &r))
        return -1;
    if (ptrace(PTRACE_CONT, a->thread, NULL, NULL))
        return lost(a);
    if (wait_done(a, &words)) {
        forget(a);
        return -1;
    }
    if (attach_interrupt(a) || ptrace(PTRACE_GETREGS, a->thread, NULL, &r))
        return lost(a);
    if (r.rip - area >= PAGE) { /* it has returned through the frame, and is done with our memory */
        attach_leave(a, 0);
        return attach_fail(a, "process %d: this machine is too busy for a request", a->pid);
    }
    *result = words.result;
    return 0;
}

int attach_give_back(struct attach *a)
{
    struct attach_stopped *s = a->stopped;
    struct iovec xstate;
    uint64_t pause;
    int err;

    if (!s || !a->thread)
        return 0;
    if (attach_has_executed(a)) /* the thread that did so may have this number now, and gets no registers of the old program */
        return lost(a);
    xstate = (struct iovec){s->xstate, s->xstate_size};
    err = ptrace(PTRACE_SETSIGMASK, a->thread, (void *)sizeof s->mask, &s->mask) ||
          ptrace(PTRACE_SETREGSET, a->thread, (void *)NT_X86_XSTATE, &xstate) ||
          ptrace(PTRACE_SETREGS, a->thread, NULL, &s->registers);
    if (err)
        return lost(a);
    attach_release(a->thread, 0);
    pause = clock_ns() - s->since; /* before the tool may have to wait for a processor */
    attach_restore_priority(a);
    a->pause = pause > a->pause ? pause : a->pause;
    a->thread = 0;
    return 0;
}

int attach_end(struct attach *a)
{
    struct attach_stopped *s = a->stopped;
    char why[sizeof a->why]; /* of what failed before */
    uint64_t result;
    int err;

    if (!s)
        return 0;
    memcpy(why, a->why, sizeof why);
    err = attach_give_back(a);
    if (!err && s->area)
        err = one_system_call(a, END_MS, SYS_munmap, (uint64_t[6]){s->area, SIZE}, &result);
    attach_give_back(a); /* a call that failed */
    free(s->xstate);
    free(s);
    a->stopped = NULL;
    if (!err || why[0])
        memcpy(a->why, why, sizeof why);
    return err;
}
