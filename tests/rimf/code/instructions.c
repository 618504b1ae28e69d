/* SPDX-License-Identifier: MIT
 *
 * instructions: what is live before instructions of code made by hand, and who leads there.  A failure means
 * that code which runs in front of an instruction may destroy what the program reads behind it.
 */
#include "../../check.h"

#include "rimf/base/sys.h"
#include "rimf/code/code.h"
#include "rimf/x86/registers.h"

#define FLAGS MVLD_LIVE_FLAGS
#define REG(n) MVLD_LIVE(n)

static struct rimf_heap heap;

/* Whether this is live, instruction by instruction, as '1' or '0'. */
static void expect(const char *name, const uint8_t *code, size_t size, uint32_t what, const char *live)
{
    struct code_instructions all;

    CHECK(code_instructions_of(&heap, code, size, 0x1000, 1, &all) == 0, "%s", name);
    CHECK(all.n == strlen(live), "%s has %zu instructions", name, all.n);
    for (size_t i = 0; i < all.n; i++)
        CHECK(!(all.list[i].live & what) == (live[i] == '0'), "%s, instruction %zu: %x", name, i, all.list[i].live);
    code_instructions_release(&heap, &all);
}
#define EXPECT(name, code, what, live) expect(name, code, sizeof code, what, live)

int main(void)
{
    static const uint8_t straight[] = {
        0x89, 0xf8,             /* mov %edi, %eax */
        0x01, 0xf0,             /* add %esi, %eax */
        0xb9, 1, 0, 0, 0,       /* mov $1, %ecx */
        0xc3,                   /* ret */
    };
    static const uint8_t branches[] = {
        0x85, 0xff,             /* test %edi, %edi */
        0x74, 0x04,             /* je 1f */
        0x31, 0xd2,             /* xor %edx, %edx */
        0xeb, 0x02,             /* jmp 2f */
        0x89, 0xd0,             /* 1: mov %edx, %eax */
        0x31, 0xc0,             /* 2: xor %eax, %eax */
        0x31, 0xd2,             /* xor %edx, %edx */
        0xc3,                   /* ret */
    };
    static const uint8_t loop[] = {
        0x31, 0xc0,             /* xor %eax, %eax */
        0x01, 0xc8,             /* 1: add %ecx, %eax */
        0xff, 0xce,             /* dec %esi: CF stays */
        0x75, 0xfa,             /* jne 1b */
        0xb1, 0x00,             /* mov $0, %cl: the rest of it stays */
        0x11, 0xc9,             /* adc %ecx, %ecx */
        0xc3,                   /* ret */
    };
    static const uint8_t calls[] = {
        0x31, 0xc9,             /* xor %ecx, %ecx */
        0x31, 0xc9,             /* xor %ecx, %ecx */
        0xe8, 0, 0, 0, 0,       /* call: whatever it reads */
        0x31, 0xc9,             /* xor %ecx, %ecx */
        0xc3,                   /* ret */
    };
    static const uint8_t direction[] = {
        0xfd,                   /* std */
        0x31, 0xc9,             /* xor %ecx, %ecx */
        0xfc,                   /* cld */
        0xc3,                   /* ret */
    };
    static const uint8_t shifts[] = {
        0xc1, 0xe0, 0x01,       /* shl $1, %eax */
        0xd3, 0xe0,             /* shl %cl, %eax: by nothing, perhaps */
        0xc1, 0xe0, 0x20,       /* shl $32, %eax: by nothing */
        0xc1, 0xc0, 0x01,       /* rol $1, %eax: CF and OF alone */
        0xc3,                   /* ret */
    };
    struct code_instructions all;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    EXPECT("straight", straight, FLAGS, "0011");
    EXPECT("straight", straight, REG(RAX), "0111");
    EXPECT("straight", straight, REG(RCX), "0001");
    EXPECT("straight", straight, REG(RSI), "1111");
    EXPECT("straight", straight, REG(RSP), "1111");
    EXPECT("branches", branches, FLAGS, "01000001");
    EXPECT("branches", branches, REG(RDX), "11001001");
    EXPECT("branches", branches, REG(RAX), "00000011");
    EXPECT("loop", loop, FLAGS, "0011111");
    EXPECT("loop", loop, REG(RAX), "0111111");
    EXPECT("loop", loop, REG(RCX), "1111111");
    EXPECT("calls", calls, REG(RCX), "00101");
    EXPECT("calls", calls, FLAGS, "00101");
    EXPECT("direction", direction, FLAGS, "1111");
    EXPECT("shifts", shifts, FLAGS, "01111");

    CHECK(code_instructions_of(&heap, loop, sizeof loop, 0x1000, 0, &all) == 0);
    CHECK(all.list[1].live == (FLAGS | REGISTERS_ALL));
    CHECK(all.list[0].others == MVLD_OTHERS_LEAD && all.list[1].others == MVLD_OTHERS_LEAD);
    CHECK(all.list[2].others == MVLD_OTHERS_UNKNOWN && all.list[3].target == 0x1002);
    CHECK(code_instruction_at(&all, 0x1004) == &all.list[2] && !code_instruction_at(&all, 0x1003));
    code_instructions_release(&heap, &all);
    CHECK(code_instructions_of(&heap, loop, sizeof loop - 2, 0x1000, 0, &all) == -ENOEXEC);
    return 0;
}
