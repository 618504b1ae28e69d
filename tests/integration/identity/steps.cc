// SPDX-License-Identifier: MIT
//
// A backtrace at each instruction of functions: the program sets the trap flag, and the
// handler of SIGTRAP walks the stack.  From prologues, epilogues, calls, tail calls, jump tables,
// libc and a throw, each must reach main through the same functions.
//
// The stacks of one walk are printed once each, as long as they change.  Instructions of
// linkage (the PLT, an entry that leads to moved code) are passed over: what stands there a pass
// may change.
//
// A failure means that profilers and crash reporters lose their way at some instructions.
//
// Before glibc 2.35 unwinding takes a lock, and the handler that has interrupted the taking of it waits for
// good; plainly it does not, because libpthread, without which there are no locks, is not loaded.
//
// needs: 2.35
// build: libsteps.so -DLIBRARY -Wl,-z,now
// build: program libsteps.so -rdynamic -Wl,-z,now
// build: optimised libsteps.so -rdynamic -Wl,-z,now -O3 -fno-plt -fcf-protection=none
// build: framed libsteps.so -rdynamic -Wl,-z,now -O1 -fno-omit-frame-pointer
// run: LD_BIND_NOW=1
// run: program=optimised LD_BIND_NOW=1
// run: program=framed LD_BIND_NOW=1
#include "identity.h"

#include <alloca.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>
#include <unwind.h>

#define STAYS __attribute__((noinline, noclone))

extern "C" {
int leaf(int);
int saves(int, int (*)(int));
int tail(int);
int table(int, int (*)(int));
int frame(int);
int throws(int);
}

#ifdef LIBRARY
extern "C" STAYS int leaf(int n)
{
    return n * 3 + 1;
}

extern "C" STAYS int saves(int n, int (*call)(int))
{
    int sum = 0;

    for (int i = 0; i < 2; i++)
        sum += call(i + n) * call(sum);
    return sum;
}

extern "C" STAYS int tail(int n)
{
    return leaf(n + 1);
}

extern "C" STAYS int table(int n, int (*call)(int))
{
    switch (n) {
    case 0: return call(1);
    case 1: return call(2) + 1;
    case 2: return call(n) * 5;
    case 3: return call(7) - 2;
    case 4: return -call(9);
    case 5: return 11;
    default: return 0;
    }
}

extern "C" STAYS int frame(int n)
{
    volatile char *bytes = static_cast<volatile char *>(alloca(static_cast<unsigned>(n) * 16));

    bytes[0] = 1;
    return leaf(bytes[0]);
}

extern "C" STAYS int throws(int n)
{
    if (n > 1)
        throw n;
    return n;
}
#else
/* Text that the handler may write: it may have interrupted malloc and printf. */
static char said[1 << 17], now[2000], last[2000];
static size_t said_size;
static unsigned long steps, stacks, moved;
static volatile int tracing;

/* The name of the function that covers `pc`, or "?". */
static const char *name_of(void *pc)
{
    Dl_info info;
    ElfW(Sym) *symbol = nullptr;

    if (dladdr1(pc, &info, reinterpret_cast<void **>(&symbol), RTLD_DL_SYMENT) && symbol &&
        static_cast<char *>(pc) - static_cast<char *>(info.dli_saddr) <
            static_cast<long>(symbol->st_size))
        return info.dli_sname;
    return "?";
}

/* Outwards to main; at the frame that the signal interrupted all begins anew. */
static _Unwind_Reason_Code frame_of(struct _Unwind_Context *context, void *)
{
    int before = 0;
    auto pc = reinterpret_cast<char *>(_Unwind_GetIPInfo(context, &before));
    const char *name = name_of(pc - !before);
    size_t n = before ? 0 : strlen(now);

    snprintf(now + n, sizeof(now) - n, " %s", name);
    return strcmp(name, "main") ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* An entry of the PLT, [endbr64] [bnd] jmp *slot(%rip); or code of mvld's in front of a function
 * that answers for addresses, of which some instructions are described for nobody. */
static int in_linkage(void *pc)
{
    auto code = static_cast<const unsigned char *>(pc);
    Dl_info info;

    if (!dladdr(pc, &info) || strstr(info.dli_fname, "/libconcat.so") ||
        strstr(info.dli_fname, "/concat.so"))
        return 1;
    code += memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
    code += *code == 0xf2;
    return code[0] == 0xff && code[1] == 0x25;
}

/* Its last instructions before a landing pad are described for nobody. */
static int in_unwinder(void *pc)
{
    Dl_info info;

    return dladdr(pc, &info) && strstr(info.dli_fname, "/libgcc_s");
}

extern "C" void trap(int, siginfo_t *, void *data)
{
    auto registers = static_cast<ucontext_t *>(data)->uc_mcontext.gregs;
    auto pc = reinterpret_cast<void *>(registers[REG_RIP]);

    if (!tracing) {
        registers[REG_EFL] &= ~0x100L;
        return;
    }
    steps++;
    moved += static_cast<unsigned long>(identity_moved(pc));
    if (in_unwinder(pc))
        return;
    now[0] = 0;
    _Unwind_Backtrace(frame_of, nullptr);
    if (strcmp(now, last) == 0 || (strncmp(now, " ?", 2) == 0 && in_linkage(pc)))
        return;
    strcpy(last, now);
    stacks++;
    said_size += static_cast<size_t>(
        snprintf(said + said_size, sizeof(said) - said_size, "%s\n", now));
    if (said_size >= sizeof(said))
        _exit(97);
}

/* The trap flag is put on, and ends with the next call of the handler. */
static inline void on()
{
    tracing = 1;
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "cc", "memory");
}

static inline void off()
{
    tracing = 0;
    __asm__ volatile("nop\n\tnop" ::: "memory");
}

extern "C" STAYS int callee(int n)
{
    return n + (n > 2 ? leaf(n) : 1);
}

extern "C" STAYS int catches(int n)
{
    try {
        return throws(n);
    } catch (int got) {
        return got * 2;
    }
}

extern "C" int order(const void *a, const void *b)
{
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

int main()
{
    struct sigaction action = {};
    volatile int results[8];
    int list[3] = {3, 1, 2};

    RUNS;
    action.sa_sigaction = trap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, nullptr);
    catches(5); /* once without: libgcc gathers things at the first throw */
    on();
    results[0] = leaf(4);
    results[1] = saves(1, callee);
    results[2] = tail(3);
    for (int i = 0; i < 7; i++)
        results[3] = table(i, callee);
    results[4] = frame(4);
    qsort(list, 3, sizeof(int), order);
    results[5] = static_cast<int>(std::strtol("-12", nullptr, 10));
    results[6] = catches(1);
    off();
    std::printf("%d %d %d %d %d %d %d %d\n", results[0], results[1], results[2], results[3],
                results[4], results[5], results[6], list[0]);
    on();
    results[7] = catches(3);
    off();
    std::printf("%s", said);
    std::printf("%d, %s, %s\n", results[7], steps > 500 ? "many steps" : "few steps",
                stacks > 30 ? "many stacks" : "few stacks");
    const char *wanted = std::getenv("IDENTITY");
    if (wanted && !strcmp(wanted, "moved") && moved < steps / 2)
        std::printf("only %lu of %lu steps were in moved code\n", moved, steps);
    return 0;
}
#endif
