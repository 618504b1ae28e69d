/* SPDX-License-Identifier: MIT
 *
 * A program and a library built for gprof: who calls whom, and how often, is in gmon.out, by
 * addresses.  Such code stays, and libraries beside it need not.
 *
 * A failure means that a profile names other functions.
 *
 * The exit of a program that has written its profile itself, as this one, crashes in
 * glibc 2.31.
 *
 * needs: 2.36
 * build: libprofiled.so -DLIBRARY -pg
 * build: libbeside.so -DBESIDE
 * build: program libprofiled.so libbeside.so -pg -no-pie
 * run: GMON_OUT_PREFIX=$D/arcs IDENTITY=
 */
#include "identity.h"

#include <sys/gmon.h>
#include <sys/gmon_out.h>

int profiled(int), beside(int);

#if defined LIBRARY
__attribute__((noinline)) int profiled(int n)
{
    const char *wanted = getenv("IDENTITY");

    if (wanted && identity_moved(identity_here()))
        printf("runs in moved code, though it is profiled\n");
    return n < 2 ? n : profiled(n - 1) + 1;
}
#elif defined BESIDE
int beside(int n)
{
    RUNS;
    return n;
}
#else
static __attribute__((noinline)) int first(int n)
{
    return profiled(n) + beside(1);
}

static __attribute__((noinline)) int second(int n)
{
    return first(n) * 2 + first(1);
}

/* The arcs that the program itself has recorded, which glibc keeps until exit. */
int main(void)
{
    int sum = 0;
    char name[300], *prefix = getenv("GMON_OUT_PREFIX");
    unsigned char tag;
    FILE *file;
    struct gmon_hdr header;

    for (int i = 0; i < 30; i++)
        sum += second(i);
    printf("%d\n", sum);
    if (!prefix)
        return 1;
    fflush(stdout);
    _mcleanup();
    snprintf(name, sizeof(name), "%s.%d", prefix, (int)getpid());
    file = fopen(name, "r");
    if (!file || fread(&header, sizeof(header), 1, file) != 1)
        return 2;
    while (fread(&tag, 1, 1, file) == 1) {
        if (tag == GMON_TAG_TIME_HIST) {
            struct gmon_hist_hdr hist;
            uint32_t bins;

            if (fread(&hist, sizeof(hist), 1, file) != 1)
                return 3;
            memcpy(&bins, hist.hist_size, 4);
            fseek(file, bins * 2L, SEEK_CUR);
        } else {
            struct gmon_cg_arc_record arc;
            unsigned long from, to;
            int count;

            if (fread(&arc, sizeof(arc), 1, file) != 1)
                return 4;
            memcpy(&from, arc.from_pc, 8);
            memcpy(&to, arc.self_pc, 8);
            memcpy(&count, arc.count, 4);
            if (to > 0x800000)
                printf("%#lx calls a library %d\n", from, count);
            else
                printf("%#lx calls %#lx %d\n", from, to, count);
        }
    }
    remove(name);
    return 0;
}
#endif
