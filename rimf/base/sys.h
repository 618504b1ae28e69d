/* SPDX-License-Identifier: MIT
 *
 * rimf/base/sys.h: all system calls.
 *
 * Loader, rimf and passes make every system call through a `struct rimf_sys` that they are given,
 * so that a test can replace the kernel: count calls, or let the n-th one fail.  Wrappers return
 * what the kernel returns: a value, or negative errno in [-4095, -1].  errno is not used.
 */
#ifndef RIMF_SYS_H
#define RIMF_SYS_H

#include <errno.h> /* numbers only */
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h> /* numbers only */

struct rimf_sys {
    long (*call)(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f);
};

/* The kernel itself. */
extern const struct rimf_sys rimf_sys_kernel;

static inline long rimf_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* The kernel's struct sigaction. */
struct sys_action {
    uintptr_t handler; /* or 0: the default; 1: ignored */
    uint64_t flags;
    uintptr_t restorer;
    uint64_t mask;
};

static inline int sys_failed(long result)
{
    return (unsigned long)result >= (unsigned long)-4095;
}

/* MADV_, Linux 5.14: not in headers of older kernels. */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

#define SYS6(sys, nr, a, b, c, d, e, f) \
    ((sys)->call((sys), (nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))
#define SYS3(sys, nr, a, b, c) SYS6(sys, nr, a, b, c, 0, 0, 0)

static inline long sys_openat(const struct rimf_sys *s, const char *path, int flags, int mode)
{
    return SYS6(s, SYS_openat, -100 /* AT_FDCWD */, path, flags, mode, 0, 0);
}
static inline long sys_close(const struct rimf_sys *s, int fd)
{
    return SYS3(s, SYS_close, fd, 0, 0);
}
static inline long sys_read(const struct rimf_sys *s, int fd, void *to, size_t n)
{
    return SYS3(s, SYS_read, fd, to, n);
}
/* Reads until the end, or until `size` bytes are there; returns their number, or negative errno. */
static inline long sys_read_all(const struct rimf_sys *s, int fd, void *to, size_t size)
{
    size_t n = 0;

    while (n < size) {
        long got = sys_read(s, fd, (char *)to + n, size - n);

        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
        else if (got != -EINTR)
            return got;
    }
    return (long)n;
}
static inline long sys_write(const struct rimf_sys *s, int fd, const void *from, size_t n)
{
    return SYS3(s, SYS_write, fd, from, n);
}
static inline long sys_pread(const struct rimf_sys *s, int fd, void *to, size_t n, uint64_t at)
{
    return SYS6(s, SYS_pread64, fd, to, n, at, 0, 0);
}
static inline long sys_pwrite(const struct rimf_sys *s, int fd, const void *from, size_t n,
                              uint64_t at)
{
    return SYS6(s, SYS_pwrite64, fd, from, n, at, 0, 0);
}
static inline long sys_mmap(const struct rimf_sys *s, uintptr_t at, size_t n, int prot, int flags,
                            int fd, uint64_t offset)
{
    return SYS6(s, SYS_mmap, at, n, prot, flags, fd, offset);
}
/* The same at this very address, or -EEXIST: something lies there. */
static inline long sys_mmap_at(const struct rimf_sys *s, uintptr_t at, size_t n, int prot, int flags, int fd,
                               uint64_t offset)
{
    long got = sys_mmap(s, at, n, prot, flags | 0x100000 /* MAP_FIXED_NOREPLACE */, fd, offset);

    if (sys_failed(got) || got == (long)at)
        return got;
    SYS3(s, SYS_munmap, got, n, 0); /* a kernel before 4.17 takes it as a hint */
    return -17 /* EEXIST */;
}
static inline long sys_munmap(const struct rimf_sys *s, uintptr_t at, size_t n)
{
    return SYS3(s, SYS_munmap, at, n, 0);
}
static inline long sys_mprotect(const struct rimf_sys *s, uintptr_t at, size_t n, int prot)
{
    return SYS3(s, SYS_mprotect, at, n, prot);
}

/* Whether a regular file may become this long.  A write beyond RLIMIT_FSIZE ends the process
 * (SIGXFSZ), so code that writes a file by itself checks first; no answer means no. */
static inline int sys_file_may_reach(const struct rimf_sys *s, uint64_t size)
{
    uint64_t limit[2]; /* struct rlimit */

    return SYS6(s, SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, 0, limit, 0, 0) == 0 &&
           size <= limit[0];
}

/* If even that is refused (a filter whose supervisor died returns ENOSYS), the process ends by a
 * signal, as after _exit(2), instead of looping for ever. */
__attribute__((noreturn)) static inline void sys_exit(const struct rimf_sys *s, int status)
{
    SYS3(s, SYS_exit_group, status, 0, 0);
    for (;;)
        __builtin_trap();
}

#endif
