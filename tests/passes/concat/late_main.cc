// SPDX-License-Identifier: MIT
//
// late_main CYCLES LIBRARY OTHER: opens and closes LIBRARY (late_library.cc) so many times,
// OTHER now and then for longer; exceptions go through both while other threads throw
// all the time, and a signal handler walks the stack of whoever it interrupts.  Says how
// often the library ran in moved code, and by how much the memory grew behind the first 200 times.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <thread>
#include <vector>

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            _Exit(1);                                                        \
        }                                                                    \
    } while (0)

namespace {

std::atomic<bool> ends;
std::atomic<unsigned long> thrown;

// Of libconcat.so.1: its segment that nobody may touch, as linked.
int find_room(dl_phdr_info *info, size_t, void *to)
{
    if (!strstr(info->dlpi_name, "libconcat.so.1"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && !info->dlpi_phdr[i].p_flags) {
            auto room = static_cast<uintptr_t *>(to);

            room[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            room[1] = info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

__attribute__((noinline)) int number(const char *text)
{
    return std::stoi(text); // throws in libstdc++
}

void throws_all_the_time()
{
    while (!ends) {
        try {
            number("no number");
            CHECK(!"nothing was thrown");
        } catch (const std::invalid_argument &e) {
            ++thrown;
        }
    }
}

// Before glibc 2.35 unwinding takes a lock, and a handler that interrupts the taking waits for good.
const bool walks = dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr;
std::atomic<unsigned long> walked;

void walk(int)
{
    void *frames[64];

    if (backtrace(frames, 64) > 2) // this, what the kernel called, and whoever ran
        ++walked;
}

// Each millisecond.
void walk_all_the_time()
{
    struct sigaction action = {};
    itimerval often = {{0, 1000}, {0, 1000}};
    void *frames[8];

    backtrace(frames, 8); // the first one loads the unwinder
    action.sa_handler = walk;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0);
}

struct library {
    typedef int function(int (*)(void *), void *);

    std::string path;
    void *handle = nullptr;
    function *throws, *catches;

    explicit library(const char *p) : path(p) {}
    void open()
    {
        handle = dlopen(path.c_str(), RTLD_NOW);
        CHECK(handle);
        throws = reinterpret_cast<function *>(dlsym(handle, "late_throw"));
        catches = reinterpret_cast<function *>(dlsym(handle, "late_catch"));
        CHECK(throws && catches);
    }
    void close()
    {
        CHECK(dlclose(handle) == 0);
        handle = nullptr;
        CHECK(!dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)); // it is gone
    }
};

struct seen {
    const char *path;
    uintptr_t room[2];
    bool moved;
};

// Whose code called us, and where.
int visit(void *cookie)
{
    auto s = static_cast<seen *>(cookie);
    void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
    Dl_info info;

    CHECK(dladdr(caller, &info) && strcmp(info.dli_fname, s->path) == 0);
    s->moved = reinterpret_cast<uintptr_t>(caller) - s->room[0] < s->room[1];
    return 1;
}

int visit_throwing(void *)
{
    throw std::logic_error("from main");
}

bool use(const library &l)
{
    seen s = {l.path.c_str(), {0, 0}, false};
    bool caught = false;

    dl_iterate_phdr(find_room, s.room);
    try {
        l.throws(visit, &s);
    } catch (const std::runtime_error &e) {
        caught = strcmp(e.what(), "from late: 4") == 0;
    }
    CHECK(caught);
    CHECK(l.catches(visit_throwing, nullptr) == 0);
    return s.moved;
}

} // namespace

long memory()
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    long kilobytes = 0;

    while (file && fgets(line, sizeof line, file))
        sscanf(line, "RssAnon: %ld", &kilobytes);
    fclose(file);
    return kilobytes;
}

int main(int, char **argv)
{
    long before = 0;
    int cycles = atoi(argv[1]), moved = 0;
    library one(argv[2]), other(argv[3]);
    std::vector<std::thread> threads;

    if (walks)
        walk_all_the_time();
    for (int i = 0; i < 3; i++)
        threads.emplace_back(throws_all_the_time);
    for (int i = 0; i < cycles; i++) {
        if (i == 200)
            before = memory();
        if (i % 50 == 7)
            other.open();
        one.open();
        moved += use(one);
        if (other.handle)
            use(other);
        if (i % 50 == 20)
            other.close();
        one.close();
    }
    ends = true;
    for (auto &t : threads)
        t.join();
    CHECK(cycles < 100 || (thrown > 100 && (walked > 10 || !walks)));
    printf("%d of %d times in moved code, %ld KB more\n", moved, cycles, memory() - before);
}
