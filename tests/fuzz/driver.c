/* SPDX-License-Identifier: MIT
 *
 * tests/fuzz/driver.c: main() for fuzz targets.
 *
 *     fuzz_X [-seconds=N] [-seed=N] [-runs=N] [seed file or folder ...]
 *
 * Without -seed, or with -seed=0, the seed is another one each time.
 *
 * A target defines LLVMFuzzerTestOneInput(), as for libFuzzer, and any of its
 * faults is the test's failure: a signal, a sanitizer's report, abort(), or one
 * input that takes longer than ten seconds.  The driver first runs every seed as
 * it is, then mutated seeds, until the time is up.  The random numbers' seed is
 * printed; the input that failed is kept in the working folder as
 * fuzz-failure-<pid>, and `fuzz_X -runs=0 fuzz-failure-<pid>` runs it again.
 *
 * With libFuzzer instead, for coverage-guided runs by hand:
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined X.c <sources>
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

#define INPUT_MAX (1u << 20)
#define HANG_SECONDS 10

struct input {
    uint8_t *data;
    size_t size;
};

static struct input *seeds;
static size_t n_seeds;
static uint64_t state, first_state, runs;
static uint8_t *current;
static volatile size_t current_size;

/* ---- failures -------------------------------------------------------------- */

static void keep_input(void)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "fuzz-failure-%d", (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, current, current_size) == (ssize_t)current_size)
        dprintf(2, "fuzz: run %lu with -seed=%lu failed; its %zu bytes are in %s\n",
                (unsigned long)runs, (unsigned long)first_state, current_size, path);
    if (fd >= 0)
        close(fd);
}

static void on_signal(int number)
{
    dprintf(2, "fuzz: %s\n", number == SIGALRM ? "one input takes too long" : strsignal(number));
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_failures(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
    static char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};

    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!__sanitizer_set_death_callback || signals[i] == SIGALRM || signals[i] == SIGABRT)
            sigaction(signals[i], &action, NULL);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
}

/* ---- seeds ------------------------------------------------------------------- */

static void add_seed(const uint8_t *data, size_t size)
{
    seeds = realloc(seeds, (n_seeds + 1) * sizeof *seeds);
    seeds[n_seeds].data = malloc(size + 1);
    seeds[n_seeds].size = size;
    memcpy(seeds[n_seeds++].data, data, size);
}

static void add_path(const char *path)
{
    DIR *folder = opendir(path);
    FILE *file;

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char inner[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        add_path(inner);
    }
    if (folder) {
        closedir(folder);
        return;
    }
    file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "fuzz: cannot read %s\n", path);
        exit(2);
    }
    current_size = fread(current, 1, INPUT_MAX, file);
    fclose(file);
    add_seed(current, current_size);
}

/* ---- mutations ----------------------------------------------------------------- */

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

static size_t below(size_t n)
{
    return n ? (size_t)((random64() >> 11) % n) : 0;
}

static const uint64_t interesting[] = {
    0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 4096, 0x7fff, 0x8000,
    0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff,
    0x8000000000000000, 0xfffffffffffff000, 0xfffffffffffffff8, 0xffffffffffffffff};

/* One of eight small changes of the first `size` bytes; the new size. */
static size_t mutate(uint8_t *data, size_t size)
{
    const struct input *other = &seeds[below(n_seeds)];
    size_t at = below(size), width = (size_t)1 << below(4), n;
    uint64_t value;

    switch (below(8)) {
    case 0:
        if (size)
            data[at] ^= (uint8_t)(1u << below(8));
        return size;
    case 1:
        if (size)
            data[at] = (uint8_t)random64();
        return size;
    case 2: /* a number that is often a limit, aligned half of the time */
    case 3: /* a number near the one that is there */
        if (random64() & 1)
            at -= at % width;
        if (at + width > size)
            return size;
        memcpy(&value, data + at, width);
        if (below(2))
            value += below(33) - 16;
        else
            value = interesting[below(sizeof interesting / sizeof *interesting)];
        memcpy(data + at, &value, width);
        return size;
    case 4: /* cut out */
        n = below(below(4) ? 16 : size - at + 1);
        if (n > size - at)
            n = size - at;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 5: /* insert from anywhere */
    case 6: { /* overwrite from anywhere */
        size_t from = below(other->size);

        n = below(below(4) ? 32 : 1024);
        if (n > other->size - from)
            n = other->size - from;
        if (below(2)) {
            if (size + n > INPUT_MAX)
                return size;
            memmove(data + at + n, data + at, size - at);
            size += n;
        } else if (n > size - at) {
            n = size - at;
        }
        memcpy(data + at, other->data + from, n);
        return size;
    }
    default: /* truncate, rarely */
        return below(8) ? size : at;
    }
}

static void run_one(void)
{
    /* A copy of the exact size, so that a sanitizer sees what lies behind it. */
    uint8_t *copy = malloc(current_size ? current_size : 1);

    memcpy(copy, current, current_size);
    if (runs++ % 64 == 0)
        alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(copy, current_size);
    free(copy);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    double seconds = 5, start = now();
    uint64_t most = UINT64_MAX;

    current = malloc(INPUT_MAX);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-seconds=%lf", &seconds) == 1 ||
            sscanf(argv[i], "-runs=%lu", &most) == 1 || sscanf(argv[i], "-seed=%lu", &state) == 1)
            continue;
        add_path(argv[i]);
    }
    if (!n_seeds)
        add_seed((const uint8_t *)"", 0);
    if (!state)
        state = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    first_state = state;
    printf("fuzz: -seed=%lu, %zu seeds\n", (unsigned long)first_state, n_seeds);
    fflush(stdout);
    catch_failures();
    for (size_t i = 0; i < n_seeds; i++) {
        current_size = seeds[i].size;
        memcpy(current, seeds[i].data, current_size);
        run_one();
    }
    for (uint64_t i = 0; i < most && now() - start < seconds; i++) {
        const struct input *seed = &seeds[below(n_seeds)];

        current_size = seed->size;
        memcpy(current, seed->data, current_size);
        for (size_t n = 1 + below(8); n; n--)
            current_size = mutate(current, current_size);
        run_one();
    }
    alarm(0);
    printf("fuzz: %lu runs in %.1f s\n", (unsigned long)runs, now() - start);
    return 0;
}
