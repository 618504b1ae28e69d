/* SPDX-License-Identifier: MIT
 *
 * served: what requests cost a server in CPU time, over many starts of it.
 *
 *     served STARTS SECONDS SOCKET REQUESTS WARM PARTS BATCHES COMMAND... -- COMMAND... [-- ...]
 *
 * Starts all servers once a round, one at a time, in an order drawn anew, until each was started STARTS
 * times, or SECONDS are over.  A server listens at the Unix socket SOCKET; it is sent what the file
 * REQUESTS holds WARM times, then in each of PARTS parts BATCHES times (six of them on their way at a time,
 * so that it seldom waits), and killed.  Of each start a line: the command's number, page faults of all
 * parts, and of each part in which the processor was undisturbed (commands.h) the microseconds of CPU time,
 * user and system, of all threads.  Every answer must have as many bytes as the first.
 *
 * Why so many starts: what varies is the start.  Where the kernel puts a process, and which pages of
 * memory it gets, is worth several per cent of such a server for as long as it runs, more than what is
 * looked for; requests to the same process say the same again.  Why parts of some milliseconds: disturbances
 * come and go within tenths of a second.  Server and client share the last CPU: on two, how idle each was
 * when the other woke it was worth a fifth of what a request costs.
 */
#include "commands.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define AHEAD 6          /* batches on their way */
#define SECONDS_OF 10    /* until a server listens, or answers, before that is an error */

struct load {
    const char *socket;
    char *text;          /* one batch of requests */
    size_t bytes, answer; /* of it, and of what comes back; 0 before the first */
    int warm, parts, batches;
};

static pid_t server;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("served: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    if (server > 0)
        kill(server, SIGKILL);
    exit(1);
}

static void stay_on_the_last(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
    sched_setaffinity(0, sizeof set, &set); /* if not, then not */
}

static int connected(const struct load *load)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    double started = now();

    if (strlen(load->socket) >= sizeof address.sun_path)
        fail("%s: too long a name for a socket", load->socket);
    strcpy(address.sun_path, load->socket);
    for (;;) {
        int s = socket(AF_UNIX, SOCK_STREAM, 0), status;
        if (s >= 0 && !connect(s, (struct sockaddr *)&address, sizeof address))
            return fcntl(s, F_SETFL, O_NONBLOCK), s;
        close(s);
        if (waitpid(server, &status, WNOHANG) == server)
            fail("a server ended before it listened (status %#x)", (unsigned)status);
        if (now() - started > SECONDS_OF * 1e6)
            fail("a server does not listen at %s", load->socket);
        usleep(300);
    }
}

/* Bytes that are there, waiting for the first of them no longer than so many ms; 0: none came. */
static size_t read_some(int s, int ms)
{
    static char buffer[1 << 20];
    struct pollfd wait = {.fd = s, .events = POLLIN};

    if (poll(&wait, 1, ms) <= 0)
        return 0;
    ssize_t n = read(s, buffer, sizeof buffer);
    if (n <= 0)
        fail("a server closed its socket");
    return (size_t)n;
}

/* Sends the batch once and reads until nothing more comes: how long the answer is. */
static size_t answer_bytes(int s, const struct load *load)
{
    size_t all = 0, n;

    if (write(s, load->text, load->bytes) != (ssize_t)load->bytes)
        fail("a batch does not fit into the socket's buffer");
    while ((n = read_some(s, all ? 200 : SECONDS_OF * 1000)))
        all += n;
    return all;
}

/* Has the batch answered so many times. */
static void exchange(int s, const struct load *load, int batches)
{
    size_t sent = 0, got = 0, all = load->bytes * (size_t)batches, answers = load->answer * (size_t)batches;

    while (got < answers) {
        size_t allowed = (got / load->answer + AHEAD) * load->bytes;
        if (allowed > all)
            allowed = all;
        if (sent < allowed) {
            size_t from = sent % load->bytes, most = load->bytes - from;
            ssize_t n = write(s, load->text + from, most < allowed - sent ? most : allowed - sent);
            sent += n > 0 ? (size_t)n : 0;
            if (n > 0 && sent < allowed)
                continue;
        }
        size_t n = read_some(s, SECONDS_OF * 1000);
        if (!n)
            fail("a server's answers are shorter than the first was");
        got += n;
    }
    if (got > answers || read_some(s, 0))
        fail("a server's answers are longer than the first was");
}

/* Microseconds of CPU time so far, once it has come to rest. */
static double cpu_time(clockid_t clock)
{
    double last = -1;

    for (;;) {
        struct timespec t;
        if (clock_gettime(clock, &t))
            fail("a server has no CPU time");
        double time = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
        if (time == last)
            return time;
        last = time;
        usleep(100);
    }
}

static long faults(void)
{
    char path[64], text[512];
    long found = -1;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)server);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file)) {
        const char *behind = strrchr(text, ')');
        if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %ld", &found) != 1)
            found = -1;
    }
    if (file)
        fclose(file);
    return found;
}

/* All parts, of a server that is warm; prints those that were undisturbed. */
static void measure_parts(int s, const struct load *load, double *best)
{
    clockid_t clock;

    if (clock_getcpuclockid(server, &clock))
        fail("a server has no clock");
    long faulted = faults();
    double before = probe(), times[load->parts], worst[load->parts];
    for (int i = 0; i < load->parts; i++) {
        double started = cpu_time(clock);
        exchange(s, load, load->batches);
        times[i] = cpu_time(clock) - started;
        double after = probe();
        worst[i] = before > after ? before : after;
        *best = after < *best ? after : *best;
        before = after;
    }
    printf(" %ld", faults() - faulted);
    for (int i = 0; i < load->parts; i++)
        if (worst[i] < *best * DISTURBED)
            printf(" %.1f", times[i]);
}

static void serve(const struct command *command, struct load *load,
                  const posix_spawn_file_actions_t *silent, double *best)
{
    unlink(load->socket);
    int error = posix_spawn(&server, command->argv[0], silent, NULL, command->argv, command->envp);
    if (error)
        server = 0, fail("%s: %s", command->argv[0], strerror(error));
    int s = connected(load);
    if (!load->answer)
        load->answer = answer_bytes(s, load);
    exchange(s, load, load->warm);
    measure_parts(s, load, best);
    close(s);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
}

static void measure(const struct command *commands, size_t *order, size_t n, struct load *load, int starts,
                    double seconds, const posix_spawn_file_actions_t *silent)
{
    double best = 1e9, started = now();
    uint64_t state = (uint64_t)started | 1;

    for (int i = 0; i < 50; i++) {
        double taken = probe();
        best = taken < best ? taken : best;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (int round = 0; round < starts && now() - started < seconds * 1e6; round++) {
        shuffle(order, n, &state);
        for (size_t i = 0; i < n; i++) {
            printf("%zu", order[i]);
            serve(&commands[order[i]], load, silent, &best);
            puts("");
        }
    }
}

static void read_requests(struct load *load, const char *path)
{
    FILE *file = fopen(path, "r");
    size_t most = 1 << 20;

    load->text = malloc(most);
    if (file && load->text)
        load->bytes = fread(load->text, 1, most, file);
    if (!load->bytes)
        fail("%s: no requests", path);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc < 9)
        return fprintf(stderr, "usage: served STARTS SECONDS SOCKET REQUESTS WARM PARTS BATCHES COMMAND... [-- "
                               "COMMAND...]\n"), 2;
    struct load load = {.socket = argv[3], .warm = atoi(argv[5]), .parts = atoi(argv[6]), .batches = atoi(argv[7])};
    if (load.parts < 1 || load.batches < 1)
        fail("nothing to measure");
    read_requests(&load, argv[4]);
    signal(SIGPIPE, SIG_IGN);
    posix_spawn_file_actions_t silent;
    if (posix_spawn_file_actions_init(&silent) ||
        posix_spawn_file_actions_addopen(&silent, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
        posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ||
        posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0))
        return 1;
    size_t n = 0;
    struct command *commands = parse_all(argv + 8, &n);
    size_t *order = commands ? calloc(n, sizeof *order) : NULL;
    if (!order)
        fail("no command, or no memory");
    stay_on_the_last();
    measure(commands, order, n, &load, atoi(argv[1]), atof(argv[2]), &silent);
    return 0;
}
