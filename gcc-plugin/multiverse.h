/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * multiverse.h: what the files of the plugin share.
 *
 * The path of a variation point through the compiler
 *
 *   front end     attributes.cc   checks `multiverse` attributes, with arguments.cc
 *   before IPA    attributes.cc   makes variation points `noipa`; writes names and
 *                                 enumerators, which LTO would forget, into
 *                                 attributes of the declaration
 *   after SSA     domains.cc      remembers the constants that switches are
 *                                 compared with, which questions.cc finds
 *                 pointers.cc     puts the load of a function pointer next to
 *                                 its call
 *   small IPA     combination.cc  chooses switches and values
 *                 variants.cc     clones, substitutes (substitute.cc), simplifies; compare.cc
 *                                 and merge.cc fold equal ones; record.cc puts
 *                                 the result into a variable that the generic's
 *                                 body refers to
 *                 inline.cc       calls of functions that arms.cc chose become asm gotos with an
 *                                 arm for each variant
 *   ---------     here LTO may write the unit out and another compiler read it
 *   late IPA      record.cc       reads that variable back
 *   all_passes    pointers.cc     calls through pointers become calls of stubs
 *                 constants.cc    reads of constants become asms
 *   late RTL      callsites.cc    labels and pads calls, entries and these reads
 *   end of unit   descriptors.cc  note, switches, stubs
 *
 * State crosses the line only in trees that LTO writes out.  So -flto and a plain compilation run
 * the same code on both sides.
 */
#ifndef MULTIVERSE_PLUGIN_H
#define MULTIVERSE_PLUGIN_H

#include "gcc-shim.h"

/* Attribute names with a leading space cannot be written in a source file. */
#define MV_ATTR "multiverse"
#define MV_ATTR_NAME " multiverse name"     /* string: name for people */
#define MV_ATTR_DOMAIN " multiverse domain" /* list: label -> value */
#define MV_ATTR_VARIANT " multiverse variant"
#define MV_ATTR_NOINLINE " multiverse noinline" /* the program has noinline */

struct mv_options {
    unsigned max_variants = 64;
    bool verbose = false;
};
extern mv_options mv_opts;

/* ---- attributes.cc */
void mv_register_attributes();
void mv_finish_decl(tree decl);
void mv_finish_type(tree type);
void mv_describe_declarations();
/* Name and enumerators of a switch that the front end does not know. */
void mv_describe_switch(tree sw, const std::string &name);
bool mv_is_switch(const_tree decl); /* a constant is one, too */
bool mv_is_function(const_tree decl);
bool mv_is_pointer(const_tree decl);
unsigned mv_width(const_tree sw);
bool mv_is_signed(const_tree sw);
bool mv_is_bool(const_tree sw);
/* Excludes a function from interprocedural analysis (noipa). */
void mv_make_noipa(tree fndecl);
/* The name for people: qualified, without parameters. */
std::string mv_display_name(const_tree decl);
/* The assembler's name. */
std::string mv_symbol(tree decl);

/* ---- arguments.cc */
/* Report errors in the arguments; true if there is none. */
bool mv_check_switch_arguments(tree decl, tree args);
bool mv_check_function_arguments(tree decl, tree args);
bool mv_is_tracked(const_tree sw);
/* `multiverse("constant")`: read as an immediate, never specialised for. */
bool mv_is_constant(const_tree decl);
bool mv_says_constant(tree args);
/* The values of "values", …, in order; empty without "values". */
std::vector<int64_t> mv_values(const_tree sw);
/* The names of "bind", …; false if the function has no such argument. */
bool mv_bind_names(const_tree fn, std::vector<std::string> &names);
/* `multiverse("inline")`: its calls become inline calls (inline.cc). */
bool mv_is_inline(const_tree fn);
/* An integer constant as a variable of that type holds it, extended to 64 bits by the type's own
 * sign, as the run time reads it.  All values of switches have this form. */
int64_t mv_value_in_type(tree constant, const_tree type);

/* ---- members.cc */
const struct ggc_root_tab *mv_member_roots();
/* The switches that are members of a variable. */
std::vector<tree> mv_members(tree variable);
/* mv_member_read: the member switch that a reference covers exactly, or NULL_TREE.  mv_members_touched:
 * those that it touches. */
tree mv_member_read(tree ref);
std::vector<tree> mv_members_touched(tree ref);
/* Warns of a read of a member whose object is not known; of constants, or of switches. */
void mv_warn_of_pointer(gimple *stmt, tree ref, bool constants);
/* The variable that a switch is, or is a member of, and the offset in it. */
tree mv_variable_of(const_tree sw, HOST_WIDE_INT *offset);
/* A switch as a memory operand; the address of a declaration; the declaration at an address. */
tree mv_operand_of(tree sw);
tree mv_address_of(tree decl);
tree mv_decl_at(tree address);

/* ---- questions.cc */
typedef __int128 mv_wide; /* holds all values of a switch's type, and one more */
struct mv_piece {
    mv_wide low, high;
};
typedef std::vector<mv_piece> mv_pieces; /* ascending, with gaps between them */
/* One step of a value's computation: the next type, and what is added in it. */
struct mv_step {
    tree type;
    mv_wide added;
};
struct mv_question {
    tree sw;
    gimple *stmt;                   /* a comparison, or a GIMPLE_SWITCH */
    std::vector<mv_pieces> answers; /* the values for which it holds; one set for each label but the
                                     * default */
    std::vector<mv_step> way;       /* the steps from the switch's value to the compared value */
    bool only_examples;             /* it may also hold for other values */
};
/* `otherwise`: the switches whose value has uses besides comparisons. */
std::vector<mv_question> mv_questions(function *fun, std::set<tree> &otherwise);
mv_piece mv_all_values(const_tree type);
/* The compared value of q when the switch has `value`. */
mv_wide mv_compared_value(const mv_question &q, mv_wide value);

/* ---- reads.cc */
/* mv_load_of_switch: the switch that this statement loads (by a plain or a relaxed atomic load), or
 * NULL_TREE.  mv_load_of_constant: likewise for constants. */
tree mv_load_of_switch(gimple *stmt);
tree mv_load_of_constant(gimple *stmt);

/* ---- domains.cc */
/* Values for which there is one variant. */
struct mv_value {
    mv_piece piece;    /* all of them */
    mv_piece example;  /* the values that the variant is made for; the others have the same body */
    std::string label; /* enumerator, number or range, as part of a symbol */
};
void mv_collect_hints(function *fun);
/* The values that fun is specialised for; never empty. */
std::vector<mv_value> mv_domain(tree sw, function *fun);
/* ---- combination.cc */
/* The switches that the variants of a function fix, and the values of each. */
struct mv_combination {
    std::vector<tree> switches;
    std::vector<std::vector<mv_value>> domains;
};
/* The switches and constants that a reference touches. */
std::vector<tree> mv_switches_at(tree ref);
/* The switches that a function writes, or whose address it takes. */
std::set<tree> mv_changed_switches(function *fun);
/* Warns of switches that are bound without being read, written, or whose address is taken. */
void mv_choose_switches(function *fun, mv_combination &out);
bool mv_is_over_cap(const mv_combination &all);
/* Keeps, in order, the switches whose combinations fit under the cap; of a single switch with too
 * many values, the first ones.  Warns of the rest. */
void mv_apply_cap(tree fn, mv_combination &all);

/* ---- merge.cc */
struct mv_range {
    int64_t low, high;
    bool any; /* a tracked switch that is unbound: no guard */
};
/* One variant: a range for each switch of the function. */
struct mv_variant {
    std::vector<mv_range> ranges;
    cgraph_node *node;
};
/* Joins touching boxes of the same body; keeps the order of first members. */
void mv_merge_guards(std::vector<mv_variant> &variants, const std::vector<tree> &switches);

/* ---- compare.cc */
bool mv_equal_bodies(tree a, tree b);

/* ---- record.cc */
/* The facts about a variation point at code generation. */
struct mv_record {
    std::vector<tree> switches;
    struct variant {
        tree decl;                    /* of an arm NULL_TREE; */
        std::string place;            /* then the label of the arm */
        std::vector<mv_range> ranges; /* one a switch */
    };
    std::vector<variant> variants;
};
/* Returns the array. */
tree mv_attach_record(cgraph_node *generic, const std::vector<tree> &switches,
                      const std::vector<mv_variant> &variants, bool inlined);
void mv_hide_records();
void mv_take_record(function *fun);
/* Reads an array into a record of variants without decl.  *generic: NULL_TREE unless it is called
 * inline. */
bool mv_read_array(tree array, tree *generic, mv_record &out);
const mv_record *mv_find_record(tree fndecl);

/* ---- descriptors.cc */
/* The record of a variation point as assembler text, to be written inside its code. */
std::string mv_function_text(tree fndecl, const mv_record *record, const std::string &pad,
                             const std::string &anchor);
/* The record of a call or a read.  `anchor` is any label of the code's section.  `what` is the
 * callee or constant; `record` is the label of the constant's record. */
std::string mv_callsite_text(const std::string &label, tree what, const std::string &anchor,
                             const std::string &record = "");
/* The record of a constant that the code refers to.  `unrecorded`: some of its reads stay loads. */
std::string mv_constant_text(tree sw, const std::string &label, bool unrecorded, const std::string &anchor);
/* The record of an inline call: `record` has its arms; then the labels of the generic's body or
 * call, and of the bytes to change. */
std::string mv_inline_record_text(tree fndecl, const mv_record &record, const std::string &generic,
                                  const std::string &site, bool branches, const std::string &anchor);
/* The records of switches that code refers to. */
std::string mv_switches_text(const std::vector<tree> &switches, const std::string &anchor);
/* A local label of a declaration: `.Lmv_KIND` and a number that, unlike DECL_UID, does not depend
 * on -g. */
std::string mv_label(const char *kind, tree decl);
bool mv_is_large_model();
bool mv_is_kernel_model();
/* A function of a kernel's .init or .exit section, which is freed, or not mapped where it is
 * linked.  Its code is not changed; calls in it run the generic. */
bool mv_is_init_code(tree fndecl);
void mv_note_needed();
void mv_finish_unit();
void mv_use_stub(tree stub, tree pointer);

/* ---- pointers.cc */
/* The stub of a function pointer, through which all its calls go. */
tree mv_stub_of(tree pointer);
void mv_settle_pointer_loads(function *fun);
void mv_call_stubs(function *fun);

/* ---- callsites.cc */
void mv_record_sites(function *fun);

/* ---- constants.cc */
/* Turns reads of constants into asms. */
void mv_mark_reads(function *fun);
/* The constants with reads that stay loads. */
const std::set<tree> &mv_unrecorded();
/* The text before the instruction of such an asm, after the last pass that changes instructions:
 * its label, and prefixes.  "" if it is no such asm, or stays a load. */
std::string mv_read_text(rtx_insn *insn, const std::string &label, tree *sw);

/* ---- arms.cc */
struct mv_offer {
    tree array;
    std::vector<tree> arms;
    std::string arm_of; /* one letter for each variant: 'a' is the first arm, '-' none */
    tree generic;       /* what runs without an arm: the function, or a copy to be inlined; or the
                         * last arm */
    std::string branch; /* the comparison of a branch; else "" */
    tree compared;      /* the compared switch */
    bool asked;         /* the function has "inline" */
};
/* Whether this function may be inlined, and calls in it. */
bool mv_may_inline(tree fndecl);
/* Whether calls of this function, with these variants, may become inline calls. */
bool mv_offer_inline(cgraph_node *generic, const std::vector<tree> &switches,
                     const std::vector<mv_variant> &variants);
/* Adds its record. */
void mv_complete_offer(cgraph_node *generic, tree array);
/* NULL: they may not. */
const mv_offer *mv_offer_of(tree fndecl);
/* The copies that were made for callers; empty if there are no inline calls. */
const std::set<tree> &mv_copies();
/* Whether a call becomes an inline call without "inline"; `branches`: it would be a branch. */
bool mv_is_worth_it(cgraph_edge *call, bool branches);

/* ---- inline.cc */
/* Makes inline calls, when all variants exist. */
void mv_expand_inline_calls();
/* Removes from them what LTO needed. */
void mv_take_inline_calls(function *fun);
/* Describes them: the text before the instruction. */
bool mv_is_inline_site(rtx_insn *insn);
std::string mv_inline_text(rtx_insn *insn, const std::string &label, const std::string &anchor);

/* ---- substitute.cc, in the function that cfun is */
void mv_substitute(function *fun, tree sw, mv_wide value);
void mv_answer(function *fun, tree sw, const mv_piece &range);
/* Whether the function still uses the value of the switch; removes computations without effect. */
bool mv_uses_value(function *fun, tree sw);

/* ---- variants.cc */
void mv_generate_variants();
/* The attributes of a copy that nobody calls by name. */
tree mv_variant_attributes(tree attributes);

#endif
