// SPDX-License-Identifier: MIT
//
// late_library.cc: comes and goes.  Throws, catches, cleans up; LARGE makes it so.
#include <stdexcept>
#include <string>

namespace {
struct counting {
    int &count;
    explicit counting(int &c) : count(c) { ++count; }
    ~counting() { --count; }
};
int alive;

__attribute__((noinline)) int deeper(int depth, int (*visit)(void *), void *cookie)
{
    counting one(alive);

    if (depth)
        return deeper(depth - 1, visit, cookie) + 1;
    if (visit(cookie))
        throw std::runtime_error("from late: " + std::to_string(alive));
    return 0;
}
} // namespace

// Throws what `visit` asks for, through a few frames of this library.
extern "C" int late_throw(int (*visit)(void *), void *cookie)
{
    return deeper(3, visit, cookie);
}

// Catches what `visit` throws; how many of our objects are left.
extern "C" int late_catch(int (*visit)(void *), void *cookie)
{
    try {
        counting one(alive);

        visit(cookie);
    } catch (const std::logic_error &e) {
        return alive;
    }
    return -1;
}

// Code that nobody runs.
#ifdef LARGE
asm(".text\n.type padding,@function\npadding:\n.cfi_startproc\n.fill 1000000, 1, 0x90\n"
    "ret\n.cfi_endproc\n.size padding, .-padding\n");
#endif
