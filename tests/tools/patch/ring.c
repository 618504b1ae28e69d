/* SPDX-License-Identifier: MIT
 *
 * ring FIFO: a worker of io_uring's opens the FIFO for reading, which waits for a writer.  Says "ready", or "none" where
 * there is no io_uring; on each line of input what value(1) is; at the end it writes, and says "whole" if the worker has
 * got its descriptor.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int value(int);

static char *queue_of(int ring, size_t size, off_t offset)
{
    char *queue = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);

    if (queue == MAP_FAILED)
        exit(2);
    return queue;
}

static void ask_for(int ring, const struct io_uring_params *p, const char *fifo)
{
    char *queue = queue_of(ring, p->sq_off.array + p->sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    struct io_uring_sqe *request = (void *)queue_of(ring, p->sq_entries * sizeof *request, IORING_OFF_SQES);

    *request = (struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .flags = IOSQE_ASYNC, .fd = AT_FDCWD,
                                     .addr = (unsigned long)fifo, .open_flags = O_RDONLY};
    __atomic_store_n((unsigned *)(queue + p->sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
        exit(2);
}

/* Waits for what the worker has got. */
static int got(int ring, const struct io_uring_params *p)
{
    size_t size = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    const struct io_uring_cqe *answer = (const void *)(queue_of(ring, size, IORING_OFF_CQ_RING) + p->cq_off.cqes);

    if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0))
        exit(2);
    return answer->res;
}

int main(int argc, char **argv)
{
    struct io_uring_params p = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 1, &p), result;
    char line[100];

    if (argc == 2 && ring >= 0)
        ask_for(ring, &p, argv[1]);
    puts(argc == 2 && ring >= 0 ? "ready" : "none");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%d\n", value(1));
        fflush(stdout);
    }
    for (int tries = 0; open(argv[1], O_WRONLY | O_NONBLOCK) < 0 && tries < 1000; tries++) /* the worker may not be there yet */
        usleep(1000);
    result = got(ring, &p);
    if (result >= 0)
        puts("whole");
    else
        printf("%d\n", result);
}
