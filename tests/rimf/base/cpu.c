/* SPDX-License-Identifier: MIT
 *
 * Answers of cpuid that are kept (rimf/base/cpu.h), over made-up CPUs.  A failure means that a program
 * may see another CPU than the one it runs on.
 */
#include "../../check.h"

#include "rimf/base/cpu.h"
#include "rimf/analysis/analysis.h"

#include <stdint.h>

/* Answers to everything, different for each question; the last two are what a test changes. */
struct made {
    struct cpu cpu; /* stays first */
    uint64_t xcr0;
    int asked;
    uint32_t number; /* of the CPU */
    struct cpu_answer set[8];
    size_t n;
};

static const struct cpu_answer usual[] = {
    {0, 0, 0x1f, 0x756e6547, 0x6c65746e, 0x49656e69},
    {1, 0, 0xa0671, 0x00100800, 0xfffa3203, 0xbfebfbff}, /* a hypervisor, XSAVE */
    {7, 0, 2, 0xf0bf27ab, 0x00405fce, 0xbc000400},
    {0x80000000, 0, 0x80000021, 0, 0, 0},
    {2, 0, 0x00feff01, 0xf0, 0, 0},
};

static void made_ask(const struct cpu *cpu, struct cpu_answer *a)
{
    struct made *made = (struct made *)cpu;
    const struct cpu_answer *set = cpu_answer_find(made->set, made->n, a->leaf, a->subleaf);

    made->asked++;
    if (!set)
        set = cpu_answer_find(usual, sizeof usual / sizeof *usual, a->leaf, a->subleaf);
    if (set) {
        *a = *set;
    } else {
        a->eax = a->leaf * 7 + a->subleaf;
        a->ebx = a->leaf ^ 0x1234;
        a->ecx = a->subleaf ^ 0x4321;
        a->edx = 5;
        if ((a->leaf == 4 || a->leaf == 0x8000001d) && a->subleaf == 4)
            a->eax = 0; /* the end of a list */
    }
    if (a->leaf == 1)
        a->ebx |= made->number << 24;
}

static uint64_t made_xcr0(const struct cpu *cpu)
{
    return ((const struct made *)cpu)->xcr0;
}

static struct made make(void)
{
    return (struct made){.cpu = {made_ask, made_xcr0}, .xcr0 = 0xe7, .number = 3};
}

static struct made with(struct cpu_answer answer)
{
    struct made made = make();

    made.set[made.n++] = answer;
    return made;
}

static size_t record(struct cpu_record *r, const struct made *made)
{
    const char *why = NULL;
    size_t size = cpu_record(r, &made->cpu, &why);

    CHECK(size || why);
    return size;
}

static int same(const struct cpu_answer *a, const struct cpu_answer *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The record has the CPU's answers, and nothing else. */
static void is_kept(void)
{
    static const uint32_t kept[][2] = {{2, 0}, {4, 0}, {4, 4}, {0xd, 0}, {0xd, 2}, {0xd, 19}, {0x14, 0},
                                       {0x19, 0}, {0x80000000, 0}, {0x80000005, 0}, {0x80000006, 9},
                                       {0x80000007, 0}, {0x8000001d, 3}};
    static const uint32_t never[][2] = {{7, 1}, {0xb, 0}, {0xb, 1}, {0x1f, 0}, {0x1a, 0}, {4, 5},
                                        {0x80000001, 0}, {0x80000008, 0}, {0x8000001e, 0}, {0x24, 0},
                                        {0x40000000, 0}, {0xd, 20}, {5, 0}, {6, 0}, {0x15, 0}};
    struct made made = make(), other = make();
    struct cpu_record r;
    size_t size = record(&r, &made);
    const char *why;

    CHECK(size == 32 + r.n * sizeof *r.answers && r.n > 30 && size <= sizeof r);
    CHECK(cpu_record_check(&r, size, &why) == 0, "%s", why);
    CHECK(!(r.answers[0].ebx >> 24));
    other.number = 9; /* it runs elsewhere now */
    other.asked = 0;
    CHECK(cpu_record_fits(&r, &other.cpu) && other.asked == CPU_BASIS);
    CHECK(r.answers[0].leaf == 1 && r.answers[0].ebx >> 24 == 9);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const struct cpu_answer *a = cpu_answer_find(r.answers, r.n, kept[i][0], kept[i][1]);
        struct cpu_answer asked = {.leaf = kept[i][0], .subleaf = a ? a->subleaf : 0};

        CHECK(a, "%x.%x", kept[i][0], kept[i][1]);
        made_ask(&made.cpu, &asked);
        CHECK(same(a, &asked), "%x.%x", kept[i][0], kept[i][1]);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        CHECK(!cpu_answer_find(r.answers, r.n, never[i][0], never[i][1]), "%x.%x", never[i][0],
              never[i][1]);
}

/* Each bit of what answers depend on. */
static void is_of_another(void)
{
    struct made made = make();
    struct cpu_record r;
    size_t size = record(&r, &made);

    for (size_t i = 0; i < CPU_BASIS; i++) {
        for (unsigned bit = 0; bit < 128; bit++) {
            struct cpu_answer answer = r.answers[i];
            struct cpu_record copy = r;
            struct made other;

            (&answer.eax)[bit / 32] ^= 1u << bit % 32;
            other = with(answer);
            other.number = 0;
            CHECK(cpu_record_fits(&copy, &other.cpu) == (answer.leaf == 1 && bit >= 56 && bit < 64),
                  "%x.%x, bit %u", answer.leaf, answer.subleaf, bit);
        }
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        struct cpu_record copy = r;
        struct made other = make();

        other.xcr0 ^= 1ul << bit;
        CHECK(!cpu_record_fits(&copy, &other.cpu), "XCR0, bit %u", bit);
    }
    CHECK(cpu_record_fits(&r, &made.cpu) && size);
}

/* Each bit by which resolvers of IFUNCs may choose otherwise. */
static void is_told_apart(void)
{
    struct made made = make(), hybrid = with((struct cpu_answer){7, 0, 2, 0xf2bf27ab, 0x00c05fce, 0xbc008400});
    const uint64_t number = cpu_identity(&made.cpu, NULL);
    struct cpu_record r;

    CHECK(number && record(&r, &made) && !cpu_identity(&hybrid.cpu, NULL));
    for (size_t i = 0; i < CPU_BASIS; i++) {
        for (unsigned bit = 0; bit < 128; bit++) {
            struct cpu_answer answer = r.answers[i];
            struct made other;

            (&answer.eax)[bit / 32] ^= 1u << bit % 32;
            other = with(answer);
            other.number = 0;
            CHECK((cpu_identity(&other.cpu, NULL) == number) == (answer.leaf == 1 && bit >= 56 && bit < 64),
                  "%x.%x, bit %u", answer.leaf, answer.subleaf, bit);
        }
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        struct made other = make();

        other.xcr0 ^= 1ul << bit;
        CHECK(cpu_identity(&other.cpu, NULL) != number, "XCR0, bit %u", bit);
    }
}

static uint64_t checksum(struct cpu_record r, size_t size)
{
    r.checksum = 0;
    return rimf_hash(&r, size);
}

/* Bits, lengths, and what is whole and must not be there. */
static void is_damaged(void)
{
    struct made made = make();
    struct cpu_record r, copy;
    size_t size = record(&r, &made);
    const char *why;

    for (size_t bit = 0; bit < 8 * size; bit++) {
        copy = r;
        ((uint8_t *)&copy)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(cpu_record_check(&copy, size, &why) < 0, "bit %zu", bit);
    }
    for (size_t other = 0; other <= sizeof r; other++)
        CHECK(other == size || cpu_record_check(&r, other, &why) < 0, "size %zu", other);
    for (size_t i = 0; i < r.n; i++) {
        static const uint32_t leaves[] = {0x80000001, 0xb, 7, 0x1f, 0x80000008, 3};

        for (size_t j = 0; j < sizeof leaves / sizeof *leaves; j++) {
            copy = r;
            copy.answers[i].leaf = leaves[j];
            copy.checksum = checksum(copy, size);
            CHECK(cpu_record_check(&copy, size, &why) < 0 || same(&copy.answers[i], &r.answers[i]),
                  "answer %zu, leaf %x", i, leaves[j]);
        }
    }
    copy = r;
    copy.n = UINT32_MAX;
    CHECK(cpu_record_check(&copy, size, &why) < 0);
}

/* No record is made where it gains nothing, or where answers differ. */
static void is_none(void)
{
    static const struct cpu_answer refused[] = {
        {1, 0, 0xa0671, 0x00100800, 0x7ffa3203, 0xbfebfbff}, /* no hypervisor */
        {7, 0, 2, 0xf0bf27ab, 0x00405fce, 0xbc008400},       /* CPUs of two kinds */
        {0, 0, 0xc, 0, 0, 0},
    };
    struct cpu_record r;
    struct made made;

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        made = with(refused[i]);
        CHECK(!record(&r, &made), "%zu", i);
    }
    made = with((struct cpu_answer){7, 0, 2, 0xf2bf27ab, 0x00c05fce, 0xbc000400});
    CHECK(record(&r, &made));
    CHECK(!cpu_answer_find(r.answers, r.n, 0x14, 0) && !cpu_answer_find(r.answers, r.n, 0x19, 0));
    made = with((struct cpu_answer){2, 0, 0x00feff02, 0xf0, 0, 0});
    CHECK(record(&r, &made) && !cpu_answer_find(r.answers, r.n, 2, 0));
    made = with((struct cpu_answer){0x80000000, 0, 0x80000005, 0, 0, 0});
    CHECK(record(&r, &made) && cpu_answer_find(r.answers, r.n, 0x80000005, 0) &&
          !cpu_answer_find(r.answers, r.n, 0x80000006, 0));
    made = with((struct cpu_answer){1, 0, 0xa0671, 0x00100800, 0xf7fa3203, 0xbfebfbff}); /* no XSAVE */
    CHECK(record(&r, &made) && r.xcr0 == 0);
    made.xcr0 = 1; /* nobody may ask for it */
    CHECK(cpu_record_fits(&r, &made.cpu));
}

/* The CPU at hand, whatever it is. */
static void is_at_hand(void)
{
    struct cpu_record r, copy;
    const char *why = "";
    size_t size = cpu_record(&r, &cpu_at_hand, &why);

    if (!size) {
        printf("no record of this CPU: %s\n", why);
        return;
    }
    copy = r;
    CHECK(cpu_record_check(&r, size, &why) == 0 && cpu_record_fits(&copy, &cpu_at_hand));
}

int main(void)
{
    is_kept();
    is_of_another();
    is_told_apart();
    is_damaged();
    is_none();
    is_at_hand();
    return 0;
}
