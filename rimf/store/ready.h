/* SPDX-License-Identifier: MIT
 *
 * rimf/store/ready.h: ready code: an object's file with its calls direct.
 *
 * A library calls most of all itself, through its own PLT: because a symbol might be interposed, or because
 * an IFUNC chooses (memcpy and its like, which is nearly all of libc's).  Such a call that was made direct
 * holds the distance between two places of one object, which is the same in every process.  So it is
 * written once an object, and mapped by every process of every program, also by those without an image:
 *
 *     +------------------------+--------+-------+-------+-------+------+
 *     | the object's file      | header | texts | rest  | slots | name |
 *     | with its calls direct  |        |       |       |       |      |
 *     +------------------------+--------+-------+-------+-------+------+
 *                              a page
 *
 * In front lies the whole ELF file, each segment of code at the offset at which it lies in the original, so
 * that whoever meets this file's name in /proc/PID/maps finds symbols and unwinding tables there.
 * Where the tables begin is known from the size of the original.
 *
 * A call to another object holds the distance between the two.  Without an image libraries lie side by side in
 * the order in which they are loaded, so that is the same in each start of a program.  Who makes an image
 * draws its distances, but writes those of such a start (rimf_ready_distance).  Such calls are direct in a
 * file of its own (`reach`), one for each object and program, beside the other, if that spares pages; it is tried
 * first.
 *
 * WHAT IT RELIES ON.  Each slot that such calls went through, and where it led (`slots`), counted from where
 * the object lies.  A process compares these words with what relocation has just written, a few hundred instead of
 * thousands of calls; when all of them agree the code is what the pass would have made of it.  Whatever
 * decides where calls go (preloaded libraries, CPU features, tunables, versions, where objects lie) need
 * not be known.  One word that differs, and the file is not used by this process.  `rest` has the calls that are
 * as in the original, so that nobody needs the object's analysis to go on with them.  Of a file with all calls
 * direct those that nobody will go on with are left out of it: their slots stand among the others.
 *
 * An allocator that a program brings takes calls of the C library's away from it, and so that program needs other
 * ready code of libc than most.  So a file with calls to itself is named after the object's file and after a key, a
 * hash of the object's slots as far as they lead into its own code: each program finds the one that can fit.
 * One with all calls is named after the object's file and the program's, and the next one of the program takes
 * its place: distances change with each upgrade of a library, and nobody would take the old ones away.
 *
 * Nothing else is in the code: it is made from the bytes of the file, not from memory, where passes and
 * debuggers may have changed them.
 *
 * WHEN IT IS USED (store/thaw_ready.c).  The object is the same file; nobody watches that changes of its code be
 * kept for an image; its code has not run, and no page of it was written.
 *
 * WHO WRITES IT (store/ready_write.c).  Who makes an image, or adds to one, because the calls are known then:
 * where there is none for these slots.  `mvld build --ready` starts as if for an image, and writes none.
 *
 * Who can write such a file can change the code of all who map it: as with images (cache.h), only
 * files of root and of the user are taken, and under AT_SECURE only root's.  The file says
 * itself which file it is (file_id_is_own), so it is not used
 * when it was changed after it was written.  Checksums cover the tables; the code is not read before it
 * runs, and `mvld cache verify` compares it.
 */
#ifndef RIMF_READY_H
#define RIMF_READY_H

#include "rimf/store/frozen.h"

#define READY_MAGIC "MVLDredy"
#define READY_VERSION 3u
#define READY_SIZE_MAX (64ul << 20) /* of the tables */
#define READY_FOLDER "ready"
#define READY_SYSTEM_FOLDER "/var/cache/mvld/" READY_FOLDER
#define READY_NAME_MAX 255u

enum ready_reach {
    READY_OWN, /* calls that stay in the object */
    READY_ALL, /* those to other objects, too */
    READY_REACHES
};

struct ready_header {
    char magic[8] FROZEN_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of the tables, this header included */
    uint64_t checksum; /* of these, with 0 in this place */
    uint64_t made_by;  /* which mvld */
    uint64_t build_id; /* frozen_build_id */
    struct file_id file; /* the object's, */
    struct file_id self; /* and this one; `changed` is 0 */
    uint32_t n_texts, n_slots, n_rest, name_size;
    uint32_t singles; /* calls of functions of a single instruction that are those instructions */
    uint32_t reach;   /* enum ready_reach */
    struct file_id program; /* of all calls: the program's file */
};

#define READY_LEFT 0x80000000u

struct ready_slot { /* ascending; addresses as linked */
    uint32_t slot;
    uint32_t calls; /* so many are direct; with READY_LEFT: are none */
    int64_t leads;  /* there; of those with READY_LEFT what it held */
};

/* For people. */
static inline const char *ready_reach_name(enum ready_reach reach)
{
    return reach == READY_ALL ? "all calls" : "calls to itself";
}

static inline uint32_t ready_calls(const struct ready_slot *slot)
{
    return slot->calls & ~READY_LEFT;
}

/* A checked view into the bytes. */
struct ready {
    const struct ready_header *header;
    const struct frozen_text *texts; /* their `object` is 0 */
    const struct ready_slot *slots;
    const struct analysis_call *rest; /* ascending, each within a text */
    const char *name;                /* the object's path; for people */
    const char *program;             /* and the program's, or "" */
};

struct ready_file {
    struct ready view;
    int fd; /* for the texts, or -1 */
    void *map;
    size_t size;
};

/* ---- ready.c ------------------------------------------------------------------ */

/* `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a sentence (static) in *why. */
int ready_open(struct ready *, const void *bytes, size_t size, const char **why);
/* The tables of the file at `path`, which stays open; of an original of `original` bytes.  0; -ENOENT:
 * there is none; other errors with a sentence (static) and nothing left open.  `large`: its code will be
 * mapped, and calls may be made that the host loader does not make. */
int ready_map(struct ready_file *, const struct rimf_sys *, const char *path, uint32_t user,
              uint64_t original, int large, const char **why);
void ready_close(struct ready_file *, const struct rimf_sys *); /* the tables stay */
void ready_unmap(struct ready_file *, const struct rimf_sys *);
/* FOLDER/0123456789abcdef-libc.so.6: where that of the object in this file lies whose slots have this
 * key.  The length, or 0 when it does not fit. */
size_t ready_path(char *to, size_t size, const char *folder, const struct file_id *,
                  uint64_t key, const char *name);

#endif
