/* SPDX-License-Identifier: MIT
 *
 * rimf/image/tables.h: the image's tables, as the files of rimf/ ask and change them; what is behind rimf_api() is
 * described in mvld/pass.h.  Included by private.h.
 */
#ifndef RIMF_IMAGE_TABLES_H
#define RIMF_IMAGE_TABLES_H

#include "rimf/image/private.h"

/* ---- image/table.c -------------------------------------------------------- */

const struct rimf_table *rimf_table_enter(const struct mvld_image *);
void rimf_table_leave(const struct mvld_image *);
/* Creates a table of `n` objects with space for `places`; NULL: no memory. */
struct rimf_table *rimf_table_create(struct mvld_image *, size_t n, size_t places);
/* Fills in the places: those of `old` that are not closed, merged with the new objects', of which there is space for
 * one a segment. */
void rimf_table_index(struct rimf_table *, const struct rimf_table *old, uint64_t update,
                      struct rimf_object *const *added, size_t n_added);
/* The object that has a segment there, or NULL. */
struct rimf_object *rimf_table_find(const struct rimf_table *, uintptr_t address);
/* Publishes the table; frees those that no reader can have any more. */
void rimf_table_publish(struct mvld_image *, struct rimf_table *);

/* ---- image/image.c --------------------------------------------------------- */

/* Returns 1 if a debugger may have breakpoints in the code. */
int rimf_image_is_traced(const struct mvld_image *);
/* Why calls must keep going through PLT and GOT (an auditor or a profiler counts them there), or NULL. */
const char *rimf_auditor(const struct mvld_image *);

/* ---- image/table.c ------------------------------------------------------- */

struct rimf_object *rimf_object_create(struct mvld_image *, const struct rimf_source *);

long rimf_domain_add(struct mvld_image *, const char *name);
size_t rimf_domain_of(const struct mvld_object *);
int rimf_domain_move(struct mvld_image *, const struct mvld_object *, size_t domain);
/* Where this pass moved the object, it is in its domain of before. */
void rimf_domain_take_back(struct rimf_object *, const struct mvld_context *);

/* ---- image/sections.c ------------------------------------------------------ */

/* Fills in sections, at most n_segments + 2 of them. */
void rimf_sections_fill(struct rimf_object *);

/* ---- image/symbols.c, image/plt.c: behind rimf_api() ----------------------- */

int rimf_symbol_find(const struct mvld_object *, const char *name, const char *version,
                     struct mvld_symbol *out);
int rimf_symbol_each(const struct mvld_object *, int (*visit)(void *cookie, const struct mvld_symbol *),
                     void *cookie);
int rimf_symbol_resolve(const struct mvld_image *, const char *name, const char *version,
                        struct mvld_symbol *out);
/* The definition that a reference of `from` would be bound to.  -ENOENT, or -EAGAIN if objects outside the
 * global scope define it and only the host loader knows which one is meant. */
int rimf_symbol_bind(const struct mvld_image *, const struct rimf_object *from, size_t index,
                     struct mvld_symbol *out);
/* The original of the executable's copy of a library's variable (R_X86_64_COPY). */
int rimf_symbol_copied(const struct mvld_image *, const struct rimf_object *from, size_t index,
                       struct mvld_symbol *out);
uintptr_t rimf_plt_target(const struct mvld_image *, uintptr_t address);

enum rimf_slot_state {
    RIMF_SLOT_ODD, /* it contains no function of an object */
    RIMF_SLOT_LAZY,
    RIMF_SLOT_BOUND
};
/* The present content of the slot; for an address in moved code, the original; and the object of that address, unless
 * it is odd.  The code there tells whether it waits for the first call; it need not be read where that is impossible
 * (`lazy` 0). */
enum rimf_slot_state rimf_slot_value(const struct mvld_image *, const struct rimf_object *, uintptr_t slot, int lazy,
                                     uintptr_t *value, const struct mvld_object **holder);
uintptr_t rimf_plt_slot(const struct mvld_object *, uintptr_t entry);

/* ---- image/slots.c, image/references.c -------------------------------------- */

int rimf_slot_at(struct mvld_image *, const struct mvld_object *, size_t index,
                 struct mvld_slot *out);
int rimf_slot_target(struct mvld_image *, const struct mvld_object *, uintptr_t address,
                    struct mvld_slot *out, const struct mvld_object **holder);
const char *rimf_slot_name(struct mvld_image *, const struct mvld_object *, uintptr_t address);

/* ---- image/sections.c ---------------------------------------------------------- */

const struct mvld_section *rimf_section_at(const struct mvld_image *, const struct mvld_object *, size_t index);
const struct mvld_section *rimf_section_find(const struct mvld_image *, uintptr_t address);

int rimf_section_protect(const struct mvld_context *, const struct mvld_section *, uint32_t prot, int key);
long rimf_key_add(const struct mvld_context *);
/* Drops those of this pass. */
void rimf_protections_forget(struct mvld_image *, const struct mvld_context *);
/* Makes them, after the last pass.  NULL; or *error, with a sentence, and the pass whose one failed. */
const struct mvld_context *rimf_protections_emit(struct mvld_image *, int *error);

void *rimf_section_add(const struct mvld_context *, enum mvld_section_kind, size_t size);
/* Returns 1, or 0 with a sentence.  The next one records a mapped section: 0, or -ENOMEM. */
int rimf_section_may_add(const struct mvld_context *, enum mvld_section_kind, size_t size);
int rimf_section_note(const struct mvld_context *, enum mvld_section_kind, uintptr_t at, size_t size);
/* Whether these bytes are executable code, or will be when this pass has returned; or data. */
int rimf_new_section_holds(const struct mvld_context *, enum mvld_section_kind, uintptr_t address);
/* A pass added it, and it can be executed: a slot may be bound to it. */
int rimf_is_new_code(const struct mvld_image *, uintptr_t address);
/* Makes new code executable.  0, or -EACCES with a sentence. */
int rimf_new_sections_seal(struct mvld_image *, const struct mvld_context *);
/* Makes the pages of these bytes, in one segment of the object, writable and not executable; or restores
 * their protection.  0, or negative errno. */
long rimf_object_protect(const struct mvld_image *, const struct rimf_object *, uintptr_t address, size_t length,
                         int open);

/* ---- image/symbols.c: edits ---------------------------------------------------- */

int rimf_symbol_redirect(struct mvld_image *, const struct mvld_symbol *, const struct mvld_symbol *to);
int rimf_symbol_hide(struct mvld_image *, const struct mvld_symbol *);

/* ---- image/edits.c ------------------------------------------------------------ */

int rimf_calls_retarget(const struct mvld_context *, const struct mvld_object *, mvld_calls_rule *);

/* ---- image/watch.c ------------------------------------------------------------ */

int rimf_depends(struct mvld_image *, const struct mvld_object *, uintptr_t word);
/* Appends to a list, which is on the image's heap.  0, or -ENOMEM. */
int rimf_words_add(struct mvld_image *, struct rimf_word_list *, uintptr_t word);
/* Records that the image relies on this word.  0, or -ENOMEM. */
int rimf_watch_word(struct mvld_image *, uintptr_t word);
/* Records a word that was relocated to moved code. */
void rimf_watch_pointer(struct mvld_image *, uintptr_t word);
/* Sorts the words without duplicates, and the pointers.  0, or -ENOMEM: something was not recorded. */
int rimf_watch_finish(struct mvld_image *);
/* Sorts and removes duplicates. */
void rimf_words_sort(struct rimf_word_list *);
/* The index of the first of a sorted list at or behind `start`. */
size_t rimf_words_first(const struct rimf_word_list *, uintptr_t start);

/* ---- image/reference_tables.c, image/retarget.c --------------------------------- */

int rimf_reference_each(struct mvld_image *, const struct mvld_object *, uint32_t kinds,
                        int (*visit)(void *cookie, const struct mvld_reference *), void *cookie,
                        const char **why);
/* The kind of the instruction with a displacement at this address; 0: another one. */
enum mvld_reference_kind rimf_operand_kind(const uint8_t *at);
/* Returns 1 if a relocation makes this word of the object an address. */
int rimf_word_is_pointer(struct mvld_image *, struct rimf_object *, uintptr_t word);
int rimf_reference_retarget(const struct mvld_context *, const struct mvld_reference *, uintptr_t target);
/* The wanted target of the word or the displacement at this address; or NULL. */
const struct rimf_retarget *rimf_retarget_at(const struct mvld_image *, uintptr_t at);
/* The sentence that names the pass that removes this function, valid until the next one; or NULL. */
const char *rimf_removed_by(struct mvld_image *, uintptr_t entry);
/* 1: it counts; another pass did not say otherwise since, and it does not lead there already. */
int rimf_retarget_counts(const struct mvld_image *, const struct rimf_retarget *);
/* 1: one that counts leads into these bytes. */
int rimf_retarget_leads_into(const struct mvld_image *, uintptr_t at, size_t size);
/* Those of this pass go, or with `others` all but those: what was wanted before counts again. */
void rimf_retargets_forget(struct mvld_image *, const struct mvld_context *, int others);

/* ---- image/references.c: analyses ------------------------------------------------ */

/* The whole analysis of the object except the branches between units, or NULL with a sentence in *why, if that is not
 * NULL, and in the log.  Valid until the analyses are closed. */
const struct analysis *rimf_analysis_whole(struct mvld_image *, struct rimf_object *,
                                          const char **why);
/* With the branches, too; what the other two functions returned before has them from then on. */
const struct analysis *rimf_analysis_branches(struct mvld_image *, struct rimf_object *,
                                             const char **why);
/* As rimf_analysis_whole, perhaps only with the table of calls. */
const struct analysis *rimf_analysis_calls(struct mvld_image *, struct rimf_object *,
                                          const char **why);

/* ---- image/core.c -------------------------------------------------------------- */

/* Frees the patch engine's memory. */
void rimf_patch_forget(struct mvld_image *);

size_t rimf_object_count(const struct mvld_image *);
const struct mvld_object *rimf_object_at(const struct mvld_image *, size_t index);
const struct mvld_object *rimf_object_find(const struct mvld_image *, uintptr_t address);
int rimf_object_holds(const struct mvld_object *, uintptr_t address, size_t length, uint32_t prot);
/* 0, or -EPERM with a sentence: the stage is not that of the edit. */
int rimf_only_in(struct mvld_image *, enum rimf_stage, const char *who);
int rimf_note_each(const struct mvld_object *, const char *name, uint32_t type,
                   int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);
struct mvld_batch *rimf_api_patch_begin(struct mvld_image *);
void *rimf_api_alloc(struct mvld_image *, size_t size);
void rimf_api_release(struct mvld_image *, void *memory);
const char *rimf_last_error(const struct mvld_image *);
void rimf_api_log(const struct mvld_image *, uint32_t category, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int rimf_api_log_enabled(const struct mvld_image *, uint32_t category);
int rimf_fail(struct mvld_image *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The common part of both tables of struct mvld_api. */
#define RIMF_API_CORE \
    .object_count = rimf_object_count, .object_at = rimf_object_at, \
    .object_find = rimf_object_find, .object_holds = rimf_object_holds, \
    .note_each = rimf_note_each, .plt_target = rimf_plt_target, \
    .patch_add = rimf_patch_add, .patch_commit = rimf_patch_commit, \
    .patch_at = rimf_patch_at, .patch_end = rimf_patch_end, \
    .patch_often = rimf_patch_often, .patch_add_words = rimf_patch_add_words, \
    .original_of = rimf_original_of, \
    .alloc = rimf_api_alloc, .release = rimf_api_release, .fail = rimf_fail, \
    .last_error = rimf_last_error, .log = rimf_api_log, \
    .log_enabled = rimf_api_log_enabled

#endif
