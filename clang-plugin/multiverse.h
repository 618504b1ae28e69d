/* SPDX-License-Identifier: MIT
 *
 * multiverse.h: what the files of clang's plugin share.
 *
 * The path of a variation point through the compiler
 *
 *   parser         attributes.cc  checks `multiverse` attributes, keeps them as annotations
 *   end of unit    unit.cc        says what is declared, by symbol (struct mv_unit)
 *   first pass     pass.cc        makes variation points functions of which callers know nothing
 *   early          questions.cc   finds what a function asks of a switch, and cuts its values
 *                  combination.cc chooses switches and values
 *                  variants.cc    clones, substitutes, simplifies; folds equal ones
 *                  records.cc     pads entries, writes descriptors
 *   last pass      pass.cc        gives the functions their linkage back
 *                  constants.cc   says which constants a function loads
 *
 * Front end and passes are one shared object in one process.  They share struct mv_unit, because IR
 * has no annotations of mere declarations, such as another unit's enumeration.
 */
#ifndef MULTIVERSE_CLANG_PLUGIN_H
#define MULTIVERSE_CLANG_PLUGIN_H

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

typedef __int128 mv_wide; /* holds all values of a switch's type, and one more */
struct mv_piece {
    mv_wide low, high;
};
/* Values for which there is one variant. */
struct mv_value {
    mv_piece piece;    /* all of them */
    mv_piece example;  /* the values that the variant is made for; the others have the same body */
    std::string label; /* enumerator, number or range, as part of a symbol */
};

/* ---- unit.cc: what the front end knows */
struct mv_switch {
    std::string name; /* for people */
    unsigned width = 0;
    uint64_t offset = 0; /* of a constant that is a member: offset in its variable */
    bool is_signed = false, is_bool = false, is_tracked = false, is_constant = false;
    std::vector<mv_value> values; /* declared values; if none, the comparisons decide */
};
struct mv_point {
    std::string name;
    bool is_bound = false; /* to these switches only */
    std::vector<std::string> bound;
};
struct mv_unit {
    unsigned max_variants = 64;
    bool verbose = false;
    std::map<std::string, mv_switch> switches;               /* by symbol; no constants */
    std::map<std::string, std::vector<mv_switch>> constants; /* by symbol of the variable that contains it */
    std::map<std::string, mv_point> points;
    /* Report at the function's declaration. */
    std::function<void(const llvm::Function &, const std::string &)> warn, remark;
};
mv_unit &mv_the_unit();
/* The assembler's name. */
std::string mv_symbol(const llvm::GlobalValue &global);
/* The switch that a variable is; the point that a function is; or NULL. */
const mv_switch *mv_switch_of(const llvm::GlobalVariable *variable);
const mv_point *mv_point_of(const llvm::Function &function);
/* The constants that a variable is or holds. */
const std::vector<mv_switch> &mv_constants_of(const llvm::GlobalVariable &variable);
mv_value mv_value_of(mv_piece piece, const mv_piece &all);

/* ---- questions.cc */
mv_piece mv_all_values(const mv_switch &sw);
/* The loads of the whole switch that may become its value. */
std::vector<llvm::LoadInst *> mv_reads(llvm::Function &function, const llvm::GlobalVariable *sw);
/* The values that the function is specialised for; never empty. */
std::vector<mv_value> mv_domain(llvm::Function &function, const llvm::GlobalVariable *sw);
/* Replaces comparisons of the switch that have one result for the whole range. */
void mv_answer(llvm::Function &function, const llvm::GlobalVariable *sw, const mv_piece &range);

/* ---- combination.cc */
/* The switches that the variants of a function fix, and the values of each. */
struct mv_combination {
    std::vector<const llvm::GlobalVariable *> switches;
    std::vector<std::vector<mv_value>> domains;
};
/* Warns of switches that are bound without being read, written, or whose address is taken. */
mv_combination mv_choose_switches(llvm::Function &function, const mv_point &point);
bool mv_is_over_cap(const mv_combination &all);
/* Keeps, in order, the switches whose combinations fit under the cap; of a single switch with too
 * many values, the first ones.  Warns of the rest. */
void mv_apply_cap(llvm::Function &function, mv_combination &all);

/* ---- variants.cc */
struct mv_range {
    int64_t low, high;
    bool any; /* a tracked switch that is unbound: no guard */
};
/* One variant: a range for each switch of the function. */
struct mv_variant {
    std::vector<mv_range> ranges;
    llvm::Function *body;
};
struct mv_record {
    llvm::Function *generic;
    std::vector<const llvm::GlobalVariable *> switches;
    std::vector<mv_variant> variants;
};
mv_record mv_make_variants(llvm::Function &generic, const mv_point &point,
                           llvm::FunctionAnalysisManager &analyses);

/* ---- records.cc */
/* Why a function's entry cannot have a pad; "" when it can. */
std::string mv_entry_problem(const llvm::Function &function);
/* Sections, pads, descriptors of all points and switches. */
void mv_write_records(llvm::Module &module, const std::vector<mv_record> &records);
/* Does nothing if the unit has the note. */
void mv_write_note(llvm::Module &module);
/* A switch's record; `flags` are added to those of the declaration. */
std::string mv_switch_text(const llvm::GlobalVariable &variable, const mv_switch &sw, unsigned flags);

/* ---- constants.cc */
/* Writes records of the constants that each function loads. */
void mv_report_loads(llvm::Module &module);

#endif
