/* SPDX-License-Identifier: MIT
 *
 * variants.cc: clones of a variation point in which switches are constants.
 *
 * A clone keeps the ABI of its generic, its static variables, and its calls of the generic.  It is
 * local to the unit; the clone of a COMDAT function is in the same group.
 *
 * For a range there is no constant: comparisons are replaced by their results.  A clone that still
 * uses the value must not assume the range, because the variable may have changed since the commit;
 * such a switch is read.
 */
#include "multiverse.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/FunctionComparator.h"
#include "llvm/Transforms/Utils/Local.h"

#include <algorithm>

using namespace llvm;

/* ---- why a body cannot be copied ---------------------------------------------- */

/* `name:` at the start of an asm statement would be defined twice. */
static bool defines_label(std::string text)
{
    static const std::string unique = "${:uid}"; /* %= in C */
    bool start = true;
    for (size_t i; (i = text.find(unique)) != std::string::npos;)
        text.replace(i, unique.size(), "%=");
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '\n' || text[i] == ';') {
            start = true;
        } else if (start && (isalpha(text[i]) || text[i] == '_' || text[i] == '.')) {
            size_t end = text.find_first_of(":,; \t\n\"(", i);
            std::string word = text.substr(i, end == std::string::npos ? end : end - i);
            if (end != std::string::npos && text[end] == ':' && word.find("%=") == std::string::npos)
                return true;
            if (word == ".globl" || word == ".global" || word == ".set" || word == ".type")
                return true;
            start = false;
        } else if (!isspace((unsigned char)text[i])) {
            start = false;
        }
    }
    return false;
}

static std::string copy_problem(Function &function)
{
    if (function.hasFnAttribute("coroutine.presplit"))
        return "it is a coroutine";
    for (BasicBlock &block : function) {
        if (block.hasAddressTaken())
            return "it keeps addresses of its labels";
        for (Instruction &i : block)
            if (auto *call = dyn_cast<CallBase>(&i))
                if (auto *text = dyn_cast<InlineAsm>(call->getCalledOperand()))
                    if (defines_label(text->getAsmString()))
                        return "it has an asm that defines a symbol";
    }
    return "";
}

/* ---- making one ----------------------------------------------------------------- */

namespace {

/* The values that the switches have in a variant; NULL: the switch is read. */
typedef std::vector<const mv_value *> values;

struct maker {
    Function &generic;
    FunctionAnalysisManager &analyses;
    GlobalNumberState numbers;

    Function *make(const mv_combination &c, values with, const std::string &suffix);
    std::vector<size_t> specialise(Function &clone, const mv_combination &c, const values &with);
    void remove(Function *clone);
    bool equal(Function *a, Function *b)
    {
        return FunctionComparator(a, b, &numbers).compare() == 0;
    }
    void join_equal_ranges(mv_combination &c, size_t at);
    void all(const mv_combination &c, std::vector<mv_variant> &out);
};

} // namespace

static std::string suffix_of(const mv_combination &c, const std::vector<int> &point)
{
    std::string s = ".multiverse";
    for (size_t i = 0; i < point.size(); i++) {
        const std::string &name = mv_switch_of(c.switches[i])->name;
        size_t last = name.rfind("::");
        if (point[i] >= 0)
            s += "." + (last == std::string::npos ? name : name.substr(last + 2)) + "_" +
                 c.domains[i][point[i]].label;
    }
    return s;
}

static Function *copy(Function &generic, const std::string &suffix)
{
    ValueToValueMapTy map;
    Function *clone = CloneFunction(&generic, map);
    clone->setName(generic.getName() + suffix);
    clone->setLinkage(GlobalValue::InternalLinkage);
    clone->setVisibility(GlobalValue::DefaultVisibility);
    clone->setDSOLocal(true);
    clone->setComdat(generic.getComdat());
    clone->removeFnAttr("multiverse-linkage");
    return clone;
}

/* Constants are propagated at -O0, too: a test of the switch must disappear, through the unnamed
 * values that hold it. */
static void fold(Function &function)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (BasicBlock &block : function) {
            changed |= SimplifyInstructionsInBlock(&block);
            changed |= ConstantFoldTerminator(&block, true);
        }
        changed |= removeUnreachableBlocks(function);
    }
}

/* Makes the switches constant, or replaces their comparisons.  Returns those with a range whose
 * value is still used. */
std::vector<size_t> maker::specialise(Function &clone, const mv_combination &c, const values &with)
{
    for (size_t i = 0; i < with.size(); i++) {
        if (with[i] && with[i]->example.low != with[i]->example.high)
            mv_answer(clone, c.switches[i], with[i]->example);
        else if (with[i])
            for (LoadInst *load : mv_reads(clone, c.switches[i])) {
                load->replaceAllUsesWith(
                    ConstantInt::get(load->getType(), (uint64_t)with[i]->example.low));
                load->eraseFromParent();
            }
    }
    fold(clone);
    /* LLVM skips these passes in functions that must not be optimised. */
    FunctionPassManager passes;
    passes.addPass(SROAPass());
    passes.addPass(EarlyCSEPass(true));
    passes.addPass(SimplifyCFGPass());
    passes.addPass(ADCEPass());
    analyses.invalidate(clone, PreservedAnalyses::none());
    passes.run(clone, analyses);
    analyses.invalidate(clone, PreservedAnalyses::none());

    std::vector<size_t> still_used;
    for (size_t i = 0; i < with.size(); i++)
        if (with[i] && with[i]->example.low != with[i]->example.high &&
            !mv_reads(clone, c.switches[i]).empty())
            still_used.push_back(i);
    return still_used;
}

void maker::remove(Function *clone)
{
    numbers.erase(clone);
    analyses.clear(*clone, clone->getName());
    clone->eraseFromParent();
}

/* Makes a variant; NULL if nothing in it would be fixed. */
Function *maker::make(const mv_combination &c, values with, const std::string &suffix)
{
    while (std::any_of(with.begin(), with.end(), [](const mv_value *v) { return v; })) {
        Function *clone = copy(generic, suffix);
        std::vector<size_t> still_used = specialise(*clone, c, with);
        if (still_used.empty())
            return clone;
        remove(clone);
        for (size_t i : still_used)
            with[i] = nullptr;
    }
    return nullptr;
}

/* ---- making all ---------------------------------------------------------------------- */

/* Increments `point`; -1 stands for an unbound tracked switch. */
static bool next_point(const mv_combination &c, std::vector<int> &point)
{
    for (size_t i = 0; i < point.size(); i++) {
        if (++point[i] < (int)c.domains[i].size())
            return true;
        point[i] = mv_switch_of(c.switches[i])->is_tracked ? -1 : 0;
    }
    return false;
}

void maker::all(const mv_combination &c, std::vector<mv_variant> &out)
{
    std::vector<int> point;
    for (const GlobalVariable *sw : c.switches)
        point.push_back(mv_switch_of(sw)->is_tracked ? -1 : 0);
    do {
        values with;
        mv_variant v;
        for (size_t i = 0; i < point.size(); i++) {
            with.push_back(point[i] < 0 ? nullptr : &c.domains[i][point[i]]);
            mv_piece piece = with[i] ? with[i]->piece : mv_piece{0, 0};
            v.ranges.push_back({(int64_t)piece.low, (int64_t)piece.high, !with[i]});
        }
        v.body = make(c, with, suffix_of(c, point));
        if (!v.body)
            continue; /* nothing is fixed: the generic */
        auto same = std::find_if(out.begin(), out.end(),
                                 [&](const mv_variant &o) { return equal(o.body, v.body); });
        if (same != out.end()) {
            remove(v.body);
            v.body = same->body;
        }
        out.push_back(v);
    } while (next_point(c, point));
}

/* Joins neighbouring ranges of a switch that give the same body when nothing else is fixed. */
void maker::join_equal_ranges(mv_combination &c, size_t at)
{
    std::vector<mv_value> joined;
    mv_combination alone;
    Function *last = nullptr;
    alone.switches.push_back(c.switches[at]);
    for (const mv_value &v : c.domains[at]) {
        Function *body = make(alone, {&v}, ".multiverse.trial");
        if (body && last && joined.back().piece.high + 1 == v.piece.low && equal(last, body))
            joined.back().piece.high = v.piece.high;
        else
            joined.push_back(v);
        if (last)
            remove(last);
        last = body;
    }
    if (last)
        remove(last);
    c.domains[at] = joined;
}

/* ---- fewer records for variants that share a body ----------------------------------------- */

static bool same(const mv_range &a, const mv_range &b)
{
    return a.any == b.any && (a.any || (a.low == b.low && a.high == b.high));
}

/* a ends right before b begins, as the switch's type counts. */
static bool touches(const mv_range &a, const mv_range &b, bool is_signed)
{
    int64_t last = is_signed ? INT64_MAX : -1; /* UINT64_MAX */
    return !a.any && !b.any && a.high != last && (int64_t)((uint64_t)a.high + 1) == b.low;
}

/* The guards of a variant are a box in the space of its switches.  Two boxes that are equal in all
 * dimensions but one, and touch in that one, are joined. */
static bool join(mv_variant &a, const mv_variant &b, const mv_combination &c)
{
    size_t differing = 0, at = 0;
    for (size_t i = 0; i < a.ranges.size(); i++)
        if (!same(a.ranges[i], b.ranges[i])) {
            differing++;
            at = i;
        }
    if (differing != 1)
        return false;
    bool is_signed = mv_switch_of(c.switches[at])->is_signed;
    if (touches(a.ranges[at], b.ranges[at], is_signed))
        a.ranges[at].high = b.ranges[at].high;
    else if (touches(b.ranges[at], a.ranges[at], is_signed))
        a.ranges[at].low = b.ranges[at].low;
    else
        return false;
    return true;
}

static void merge_guards(std::vector<mv_variant> &variants, const mv_combination &c)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < variants.size(); i++)
            for (size_t k = i + 1; k < variants.size();) {
                if (variants[i].body == variants[k].body && join(variants[i], variants[k], c)) {
                    variants.erase(variants.begin() + k);
                    changed = true;
                } else {
                    k++;
                }
            }
    }
}

mv_record mv_make_variants(Function &generic, const mv_point &point,
                           FunctionAnalysisManager &analyses)
{
    mv_record record = {&generic, {}, {}};
    mv_combination c = mv_choose_switches(generic, point);
    std::string problem = c.switches.empty() ? "" : copy_problem(generic);
    if (!problem.empty())
        mv_the_unit().warn(generic, "no variants are made of variation point '" + point.name +
                                        "': " + problem);
    if (!c.switches.empty() && problem.empty()) {
        maker m{generic, analyses, {}};
        for (size_t i = 0; i < c.switches.size() && mv_is_over_cap(c); i++)
            if (c.domains[i].size() > 2)
                m.join_equal_ranges(c, i);
        mv_apply_cap(generic, c);
        if (!c.switches.empty())
            m.all(c, record.variants);
        merge_guards(record.variants, c);
        record.switches = c.switches;
    }
    std::set<Function *> bodies;
    for (const mv_variant &v : record.variants)
        bodies.insert(v.body);
    if (mv_the_unit().verbose)
        mv_the_unit().remark(generic, "variation point '" + point.name + "': " +
                                          std::to_string(record.switches.size()) + " switches, " +
                                          std::to_string(record.variants.size()) + " variants, " +
                                          std::to_string(bodies.size()) + " bodies");
    return record;
}
