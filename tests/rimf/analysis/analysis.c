/* SPDX-License-Identifier: MIT
 *
 * An analysis is read as it was written, and one that is damaged, or says what cannot
 * be, is refused.  A failure means that code would be changed at places that nobody
 * proved.
 */
#include "made_analysis.h"

#include "../../check.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct made_analysis made;
static const char *why;

static int open_made(struct analysis *s, uint32_t wanted)
{
    why = NULL;
    return analysis_open(s, &made, sizeof made, wanted, &why);
}

static void reads(void)
{
    struct analysis s;

    made_analysis(&made);
    CHECK(open_made(&s, ANALYSIS_WANT_ALL) == 0, "%s", why);
    CHECK(s.n_segments == 2 && s.n_units == 5 && s.n_calls == 5 && s.n_references == 3 &&
          s.n_jump_tables == 2 && s.n_frames == 3 && s.n_frame_fixes == 6 && s.n_branches == 4 &&
          s.n_fixed == 2);
    CHECK(analysis_unit_at(&s, 0x0fff) == NULL && analysis_unit_at(&s, 0x1130) == NULL);
    CHECK(analysis_unit_at(&s, 0x1000) == &s.units[0] && analysis_unit_at(&s, 0x10ff) == s.units);
    CHECK(analysis_unit_at(&s, 0x1100) == &s.units[1] && analysis_unit_at(&s, 0x37ff) == &s.units[4]);
    CHECK(analysis_unit_at(&s, 0x3800) == NULL && analysis_unit_at(&s, UINT32_MAX) == NULL);
    CHECK(ANALYSIS_FROM(&s, references, 0x1011) == 1);
    CHECK(ANALYSIS_FROM(&s, frames, 0x1001) == 1 && ANALYSIS_FROM(&s, frames, 0x3001) == 3);
    CHECK(ANALYSIS_FROM(&s, frame_fixes, 0x6031) == 2 && ANALYSIS_FROM(&s, frame_fixes, 0x6032) == 3);
    CHECK(analysis_slot(&s.calls[1]) == 0x5008);
    CHECK(analysis_call_kind(&s.calls[1]) == ANALYSIS_CALL_SLOT);
    CHECK(analysis_is_of(&s, MADE_BUILD_ID, 4) && !analysis_is_of(&s, MADE_BUILD_ID, 3));
    CHECK(!analysis_is_of(&s, "\xab\xcd\xef\x02", 4) && !analysis_is_of(&s, "", 0));
}

/* Tables that nobody asked for cost nothing and are not looked at, and need not be there; one of a kind
 * that a later analyser may write is no error. */
static void parts(void)
{
    struct analysis s;

    made_analysis(&made);
    made.references[0].address = 0; /* a wrong checksum, too */
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_CALLS)) == 0, "%s", why);
    CHECK(s.n_calls == 5 && !s.n_units && s.n_references == 0 && s.n_jump_tables == 0);
    CHECK(analysis_open_more(&s, ANALYSIS_WANT(ANALYSIS_UNITS), &why) == 0 && s.n_units == 5, "%s", why);
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_REFERENCES)) == -22 && !s.header);
    CHECK_STR(why, "a table has a wrong checksum");

    made_analysis(&made);
    made.calls[0].address = 0; /* nor does anyone who asks for frames see the calls */
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_FRAMES)) == 0, "%s", why);
    CHECK(s.n_frames == 3 && s.n_frame_fixes == 6 && s.n_units == 5 && !s.n_calls && !s.branches);
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_BRANCHES)) == 0, "%s", why);
    CHECK(s.n_branches == 4 && s.branches && s.n_units == 5 && !s.n_frames);
    made.calls[0].address = 0x1000;
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_CALLS)) == 0 && s.n_calls == 5, "%s", why);
    CHECK(analysis_open_more(&s, ANALYSIS_WANT(ANALYSIS_UNITS), &why) == 0, "%s", why);
    made.calls[0].address = 0; /* it was checked, and is not again */
    CHECK(analysis_open_more(&s, ANALYSIS_WANT(ANALYSIS_FRAMES) | ANALYSIS_WANT(ANALYSIS_CALLS), &why) ==
          0, "%s", why);
    CHECK(s.n_calls == 5 && s.n_units == 5 && s.n_frames == 3 && !s.n_references);
    made.references[0].address = 0;
    CHECK(analysis_open_more(&s, ANALYSIS_WANT(ANALYSIS_REFERENCES), &why) == -22 && !s.header);
    CHECK_STR(why, "a table has a wrong checksum");
    made_analysis(&made);
    made.tables[7].kind = 77;
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, ANALYSIS_WANT_ALL & ~ANALYSIS_WANT(ANALYSIS_BRANCHES)) == 0 && s.n_jump_tables == 2, "%s",
          why);
    CHECK(open_made(&s, ANALYSIS_WANT_ALL) == -22 && !s.header);
    CHECK_STR(why, "a table is missing");
}

/* A path that is damaged, has no end or is not there is none. */
static void path_of(void)
{
    struct analysis s;

    made_analysis(&made);
    CHECK(open_made(&s, 0) == 0, "%s", why);
    CHECK_STR(analysis_path_of(&s), MADE_PATH);
    made.path[0] = 'x';
    CHECK(!analysis_path_of(&s));
    made.path[sizeof MADE_PATH - 1] = 'x';
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, 0) == 0 && !analysis_path_of(&s), "%s", why);
    made_analysis(&made);
    made.tables[9].kind = 77; /* as older analysers leave it out */
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, ANALYSIS_WANT_ALL) == 0 && !analysis_path_of(&s), "%s", why);
}

/* Calls are compared with segments where nobody asked for units, and with these once somebody does. */
static void calls_alone(void)
{
    struct analysis s;

    made_analysis(&made);
    made.calls[2].address = 0x1100;
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_CALLS)) == 0 && s.n_calls == 5, "%s", why);
    CHECK(analysis_open_more(&s, ANALYSIS_WANT(ANALYSIS_FRAMES), &why) == -22 && !s.header);
    CHECK_STR(why, "a call lies outside the decoded units");
    made_analysis(&made);
    made.calls[4].address = 0xfffffffe;
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_CALLS)) == -22 && !s.header);
    CHECK_STR(why, "a call lies outside the executable segments");
    made_analysis(&made);
    made.calls[1].address = 0x1004;
    made_seal(&made, sizeof made);
    CHECK(open_made(&s, ANALYSIS_WANT(ANALYSIS_CALLS)) == -22 && !s.header);
    CHECK_STR(why, "its calls overlap, or are out of order");
}

static void every_bit_counts(void)
{
    struct analysis s;

    made_analysis(&made);
    for (size_t i = 0; i < sizeof made * 8; i++) {
        ((uint8_t *)&made)[i / 8] ^= (uint8_t)(1u << i % 8);
        CHECK(open_made(&s, ANALYSIS_WANT_WHOLE) != 0, "(bit %zu)", i);
        ((uint8_t *)&made)[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 0; n < sizeof made; n++)
        CHECK(analysis_open(&s, &made, n, ANALYSIS_WANT_ALL, &why) != 0, "(%zu bytes)", n);
}

/* Checksums right, content wrong. */
#define REFUSED(change, sentence)                            \
    do {                                                     \
        struct analysis s_;                                   \
        made_analysis(&made);                                 \
        change;                                              \
        made_seal(&made, sizeof made);                       \
        CHECK(open_made(&s_, ANALYSIS_WANT_ALL) == -22);      \
        CHECK_STR(why, sentence);                            \
    } while (0)

static void refuses_headers(void)
{
    REFUSED(made.header.magic[0] = 'm', "it is no analysis");
    REFUSED(made.header.version = 1, "it is of another version of the format");
    REFUSED(made.header.size += 8, "it is cut short, or longer than it says");
    REFUSED(made.header.n_tables = 33, "its header is damaged");
    REFUSED(made.header.header_size -= 8, "its header is damaged");
    REFUSED(made.header.build_id_size = 65, "its header is damaged");
    REFUSED(made.header.build_id_size = 3, "its build-id has no end");
    REFUSED(made.header.flags = ANALYSIS_FLAGS + 1, "it says of its object what cannot be");
    REFUSED(made.header.frames_start = 0xffffffff, "its unwinding table lies nowhere");
    REFUSED(made.header.frames_size = 0, "its unwinding table lies nowhere");
    REFUSED(made.tables[1].offset += 8, "a table lies outside it");
    REFUSED(made.tables[9].count = 1ul << 61, "a table lies outside it");
    REFUSED(made.tables[9].count = 17, "a table lies outside it");
    REFUSED(made.tables[9].count = 8, "bytes of it belong to no table");
    REFUSED(made.tables[9].entry_size = 0, "a table lies outside it");
    REFUSED(made.tables[4].kind = ANALYSIS_REFERENCES,
            "a table has entries of another size, or is there twice");
    REFUSED(made.tables[0].entry_size = 8; made.tables[0].count = 4,
            "a table has entries of another size, or is there twice");
    REFUSED(made.tables[0].kind = 99, "a table is missing");
    REFUSED(made.tables[0].kind = 99; made.tables[8].kind = 98; made.tables[8].entry_size = 16;
            made.tables[9].kind = ANALYSIS_SEGMENTS; made.tables[9].entry_size = 16; made.tables[9].count = 0;
            made.tables[9].offset += 16, "it lists no executable segment");
}

static void refuses_entries(void)
{
    static const char segments[] = "its segments overlap, or are out of order",
                      units[] = "its units overlap, or are out of order",
                      calls[] = "its calls overlap, or are out of order",
                      references[] = "its references overlap, or are out of order";

    REFUSED(made.segments[1].start = 0x1fff, segments);
    REFUSED(made.segments[1].size = 0, segments);
    REFUSED(made.segments[1].size = 0xffffffff, segments);
    REFUSED(made.units[1].start = 0x10ff, units);
    REFUSED(made.units[1].size = 0, units);
    REFUSED(made.units[3].size = 0x101, "a unit lies outside the executable segments");
    REFUSED(made.units[4].size = 0xffffffff, "a unit lies outside the executable segments");
    REFUSED(made.units[0].start = 0xfff, "a unit lies outside the executable segments");
    REFUSED(made.units[1].flags = ANALYSIS_DECODED, "a unit is of a kind that does not exist");
    REFUSED(made.units[2].flags = 0, "a unit is of a kind that does not exist");
    REFUSED(made.units[2].reason = ANALYSIS_REASONS, "a unit is of a kind that does not exist");
    REFUSED(made.calls[1].address = 0x1004, calls);
    REFUSED(made.calls[0].slot_and_kind = 0x5000, "a call is of a kind that does not exist");
    REFUSED(made.calls[0].slot_and_kind = 0x5006, "a call is of a kind that does not exist");
    REFUSED(made.calls[0].slot_and_kind = ANALYSIS_CALL_PLT, "a call is of a kind that does not exist");
    REFUSED(made.calls[2].address = 0x1100, "a call lies outside the decoded units");
    REFUSED(made.calls[2].address = 0x112c, "a call lies outside the decoded units");
    REFUSED(made.calls[3].address = 0x1ffb, "a call lies outside the decoded units");
    REFUSED(made.calls[4].address = 0xfffffffe, "a call lies outside the decoded units");
    REFUSED(made.references[1].address = 0x1013, references);
    REFUSED(made.references[1].rest = 5, "a reference lies outside the proven units");
    REFUSED(made.references[1].address = 0x1124, "a reference lies outside the proven units");
    REFUSED(made.references[1].kind = 0, "a reference is of a kind that does not exist");
    REFUSED(made.jump_tables[0].count = 5, "its jump tables overlap, or are out of order");
    REFUSED(made.jump_tables[1].count = 0x40000000,
            "its jump tables overlap, or are out of order");
    REFUSED(made.branches[1].address = 0x1083, "its branches overlap, or are out of order");
    REFUSED(made.branches[1].address = 0x10fd, "a branch lies outside the proven units");
    REFUSED(made.branches[1].address = 0x1124, "a branch lies outside the proven units");
    REFUSED(made.branches[3].address = 0xfffffffe, "a branch lies outside the proven units");
}

static void refuses_unit_flags(void)
{
    static const char kind[] = "a unit is of a kind that does not exist";
    const uint8_t decoded = ANALYSIS_DECODED, reached = ANALYSIS_DECODED | ANALYSIS_REACHED;

    REFUSED(made.units[0].flags = ANALYSIS_REACHED | ANALYSIS_HEAD, kind); /* not decoded */
    REFUSED(made.units[0].flags = decoded | ANALYSIS_HEAD, kind);         /* not reached */
    REFUSED(made.units[0].flags |= 32, kind);
    REFUSED(made.units[2].flags |= ANALYSIS_HELD, kind); /* stays */
    REFUSED(made.units[2].flags = reached, kind); /* stays */
    REFUSED(made.units[2].flags = reached | ANALYSIS_HEAD, kind);
    REFUSED(made.units[1].flags = ANALYSIS_REACHED, kind);
    REFUSED(made.units[1].flags = ANALYSIS_REACHED | ANALYSIS_JOINED, kind);
    REFUSED(made.units[2].reason = 0; made.units[2].size = 4;
            made.units[2].flags = reached | ANALYSIS_HEAD, kind); /* no room for a jump */
}

static void refuses_frames(void)
{
    static const char outside[] = "a frame lies outside the unwinding table",
                      fix_kind[] = "a frame fix is of a kind that does not exist",
                      fix_outside[] = "a frame fix lies outside the unwinding table",
                      fixes[] = "its frame fixes overlap, or are out of order",
                      start[] = "a frame's start is not corrected",
                      unit[] = "a frame is not of a proven unit";

    REFUSED(made.frames[1].start = 0x1000, "its frames are out of order");
    REFUSED(made.frames[0].start = 0x1120, unit); /* that stays */
    REFUSED(made.frames[2].start = 0x3800, unit);
    REFUSED(made.units[4].reason = ANALYSIS_FRAME_ODD, unit);
    REFUSED(made.frames[0].fde = 0x5ff8, outside);
    REFUSED(made.frames[0].fde = 0x6081, outside);
    REFUSED(made.frames[0].fde = 0xffffffff, outside);
    REFUSED(made.frames[0].fde = 0x6068, start); /* nothing is at 0x6070 */
    REFUSED(made.frames[0].fde = 0x6029, start); /* something else is at 0x6031 */
    REFUSED(made.frame_fixes[3].kind = ANALYSIS_FRAME_OTHER, start);
    REFUSED(made.frame_fixes[0].kind = 0, fix_kind);
    REFUSED(made.frame_fixes[0].kind = ANALYSIS_FRAME_FIX_KINDS, fix_kind);
    REFUSED(made.frame_fixes[0].zero[2] = 1, fix_kind);
    REFUSED(made.frame_fixes[1].address = 0x6014, fixes);
    REFUSED(made.frame_fixes[2].address = 0x6028, fixes);
    REFUSED(made.frame_fixes[0].address = 0x5fff, fix_outside);
    REFUSED(made.frame_fixes[5].address = 0x608d, fix_outside);
    REFUSED(made.frame_fixes[5].address = 0xfffffffe, fix_outside);
    REFUSED(made.header.frames_start = made.header.frames_size = 0, fix_outside);
}

static void refuses_fixed(void)
{
    static const char order[] = "its fixed code overlaps, or is out of order";
    static const char outside[] = "fixed code lies outside the executable segments";

    REFUSED(made.fixed[1].start = 0x112f, order);
    REFUSED(made.fixed[0].size = 0, order);
    REFUSED(made.fixed[0].size = 0x1f01, outside);
    REFUSED(made.fixed[0].start = 0xfff, outside);
    REFUSED(made.fixed[1].size = 0x801, outside);
    REFUSED(made.fixed[1].size = 0xffffffff, outside);
}

/* ---- files -------------------------------------------------------------------- */

static void put_file(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, &made, sizeof made) == (ssize_t)sizeof made);
    CHECK(fchmod(fd, mode) == 0);
    close(fd);
}

static void paths(void)
{
    char path[64];

    CHECK(analysis_path(path, sizeof path, "/f", MADE_BUILD_ID, 4) == 17);
    CHECK_STR(path, "/f/ab/cdef01.mvld");
    CHECK(analysis_path(path, 18, "/f", MADE_BUILD_ID, 4) == 17);
    CHECK(analysis_path(path, 17, "/f", MADE_BUILD_ID, 4) == 0);
    CHECK(analysis_path(path, sizeof path, "/f", MADE_BUILD_ID, 0) == 0);
    CHECK(cache_user_folder(path, sizeof path, "/x", "/h", "analysis") == 16);
    CHECK_STR(path, "/x/mvld/analysis");
    CHECK(cache_user_folder(path, sizeof path, "x", "/h", "analysis") == 23);
    CHECK_STR(path, "/h/.cache/mvld/analysis");
    CHECK(cache_user_folder(path, sizeof path, NULL, NULL, "analysis") == 0);
    CHECK(cache_user_folder(path, 10, NULL, "/h", "analysis") == 0);
    CHECK(cache_is_own(1000, NULL) && cache_is_own(1000, "/x") && cache_is_own(0, "/x"));
    CHECK(!cache_is_own(0, NULL) && !cache_is_own(0, "") && !cache_is_own(0, "x"));
}

static int map_error(const char *path, uint32_t user)
{
    struct analysis_file file;
    int error = analysis_map(&file, &rimf_sys_kernel, path, user, ANALYSIS_WANT_ALL, &why);

    if (!error)
        analysis_unmap(&file, &rimf_sys_kernel);
    CHECK(!file.map && !file.view.header);
    return error;
}

static void trusts(void)
{
    uint32_t self = geteuid();

    made_analysis(&made);
    put_file("file.mvld", 0644);
    CHECK(map_error("file.mvld", self) == 0, "%s", why);
    CHECK(map_error("absent.mvld", self) == -2);
    put_file("open.mvld", 0664);
    CHECK(map_error("open.mvld", self) == -1, "%s", why);
    put_file("open.mvld", 0602);
    CHECK(map_error("open.mvld", self) == -1, "%s", why);
    if (self == 0 && chown("open.mvld", 12345, 0) == 0 && chmod("open.mvld", 0644) == 0) {
        CHECK(map_error("open.mvld", 0) == -1, "%s", why);
        CHECK(map_error("open.mvld", 12345) == 0, "%s", why);
    }
    CHECK(symlink("file.mvld", "link.mvld") == 0 && map_error("link.mvld", self) == -40);
    CHECK(mkfifo("fifo.mvld", 0600) == 0 && map_error("fifo.mvld", self) == -22);
    CHECK(map_error(".", self) == -22);
    CHECK(truncate("file.mvld", 100) == 0 && map_error("file.mvld", self) == -22);
}

static struct analysis_place places[] = {{.folder = "nothing"}, {.folder = "first"}, {.folder = "second"}};

#define FIND()                                                                                    \
    analysis_find(&file, &rimf_sys_kernel, places, 3, MADE_BUILD_ID, 4,                            \
                 ANALYSIS_WANT(ANALYSIS_CALLS), &why)

static void put_of(const char *path, uint32_t analyser)
{
    made.header.analyser = analyser;
    made_seal(&made, sizeof made);
    put_file(path, 0600);
}

/* Which analyser's is taken, when the two places have these. */
static uint32_t found_of(uint32_t in_first, uint32_t in_second)
{
    struct analysis_file file;
    uint32_t analyser;

    put_of("first/ab/cdef01.mvld", in_first);
    put_of("second/ab/cdef01.mvld", in_second);
    CHECK(FIND() == 0, "%s", why);
    analyser = file.view.header->analyser;
    analysis_unmap(&file, &rimf_sys_kernel);
    return analyser;
}

/* An old analysis, a user's or root's, does not hide a newer one. */
static void finds_newest(void)
{
    CHECK(found_of(ANALYSER_VERSION - 1, ANALYSER_VERSION) == ANALYSER_VERSION);
    CHECK(found_of(ANALYSER_VERSION, ANALYSER_VERSION - 1) == ANALYSER_VERSION);
    CHECK(found_of(ANALYSER_VERSION - 2, ANALYSER_VERSION - 1) == ANALYSER_VERSION - 1);
    CHECK(found_of(ANALYSER_VERSION - 1, ANALYSER_VERSION - 2) == ANALYSER_VERSION - 1);
    CHECK(found_of(ANALYSER_VERSION + 1, ANALYSER_VERSION) == ANALYSER_VERSION + 1);
}

/* A place that has a bad one does not hide the next. */
static void finds(void)
{
    struct analysis_file file;

    places[1].user = places[2].user = geteuid();
    made_analysis(&made);
    CHECK(!mkdir("first", 0700) && !mkdir("first/ab", 0700));
    CHECK(!mkdir("second", 0700) && !mkdir("second/ab", 0700));
    CHECK(FIND() == -2);
    put_file("second/ab/cdef01.mvld", 0600);
    CHECK(FIND() == 0 && file.view.n_calls == 5, "%s", why);
    analysis_unmap(&file, &rimf_sys_kernel);
    made.header.build_id[0] = 0xaa;
    made_seal(&made, sizeof made);
    put_file("first/ab/cdef01.mvld", 0600);
    CHECK(FIND() == 0 && analysis_is_of(&file.view, MADE_BUILD_ID, 4), "%s", why);
    analysis_unmap(&file, &rimf_sys_kernel);
    CHECK(unlink("second/ab/cdef01.mvld") == 0);
    CHECK(FIND() == -22 && !file.map);
    CHECK_STR(why, "it is of an object with another build-id");
    made_analysis(&made);
    finds_newest();
}

int main(void)
{
    char folder[] = "/tmp/mvld-analysis-XXXXXX", command[64];

    reads();
    parts();
    path_of();
    calls_alone();
    every_bit_counts();
    refuses_headers();
    refuses_entries();
    refuses_unit_flags();
    refuses_frames();
    refuses_fixed();
    paths();
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    trusts();
    finds();
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
