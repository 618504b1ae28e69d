/* SPDX-License-Identifier: MIT
 *
 * combination.cc: which switches the variants of a function fix, and to which values.
 *
 * A switch is fixed if the function reads it as a whole, is bound to it (`bind`, or no `bind` at
 * all), and neither writes it nor takes its address: later reads of the function must see the new
 * value.  The product of all values is kept under the cap.
 */
#include "multiverse.h"

#include "llvm/IR/GlobalAlias.h"

#include <algorithm>

using namespace llvm;

/* ---- which switches a function uses, and how ------------------------------- */

namespace {

struct use {
    const GlobalVariable *sw;
    bool is_read, is_written, is_handed_out;
};

struct uses {
    std::vector<use> list;

    use &of(const GlobalVariable *sw)
    {
        for (use &u : list)
            if (u.sw == sw)
                return u;
        list.push_back({sw, false, false, false});
        return list.back();
    }
};

} // namespace

/* The switches that an operand names: directly, through casts, offsets or aliases. */
static void switches_in(const Value *value, std::set<const GlobalVariable *> &out)
{
    if (auto *alias = dyn_cast<GlobalAlias>(value)) {
        switches_in(alias->getAliasee(), out);
    } else if (auto *variable = dyn_cast<GlobalVariable>(value)) {
        if (mv_switch_of(variable))
            out.insert(variable);
    } else if (auto *constant = dyn_cast<Constant>(value)) {
        if (!isa<GlobalValue>(constant))
            for (const Use &operand : constant->operands())
                switches_in(operand, out);
    }
}

static void find_uses(const Instruction &i, uses &out)
{
    for (const Use &operand : i.operands()) {
        std::set<const GlobalVariable *> found;
        switches_in(operand, found);
        for (const GlobalVariable *sw : found) {
            unsigned at = operand.getOperandNo();
            if (isa<LoadInst>(i))
                out.of(sw); /* a part, or an operand that is computed: none of our reads */
            else if ((isa<StoreInst>(i) && at == 1) ||
                     ((isa<AtomicRMWInst>(i) || isa<AtomicCmpXchgInst>(i)) && at == 0))
                out.of(sw).is_written = true;
            else
                out.of(sw).is_handed_out = true;
        }
    }
}

static uses find_uses(Function &function)
{
    uses out;
    for (const BasicBlock &block : function)
        for (const Instruction &i : block)
            find_uses(i, out);
    for (use &u : out.list)
        u.is_read = !mv_reads(function, u.sw).empty();
    return out;
}

/* ---- which of them the variants fix ----------------------------------------- */

static bool is_named(const GlobalVariable *sw, const std::string &name)
{
    const std::string &full = mv_switch_of(sw)->name;
    return full == name || (full.size() > name.size() + 2 &&
                            full.compare(full.size() - name.size() - 2, 2, "::") == 0 &&
                            full.compare(full.size() - name.size(), name.size(), name) == 0);
}

static void warn_of_idle_binds(const Function &function, const uses &found, const mv_point &point)
{
    for (const std::string &name : point.bound)
        if (std::none_of(found.list.begin(), found.list.end(),
                         [&](const use &u) { return u.is_read && is_named(u.sw, name); }))
            mv_the_unit().warn(function, "function '" + point.name + "' is bound to '" + name +
                                             "' but reads no switch of that name");
}

mv_combination mv_choose_switches(Function &function, const mv_point &point)
{
    mv_combination out;
    uses found = find_uses(function);
    warn_of_idle_binds(function, found, point);
    for (const use &u : found.list) {
        if (!u.is_read)
            continue;
        if (point.is_bound && std::none_of(point.bound.begin(), point.bound.end(),
                                           [&](const std::string &n) { return is_named(u.sw, n); }))
            continue;
        if (u.is_written || u.is_handed_out) {
            mv_the_unit().warn(function, "variation point '" + point.name + "' " +
                                             (u.is_written ? "writes" : "takes the address of") +
                                             " switch '" + mv_switch_of(u.sw)->name +
                                             "' and is not specialised for it");
            continue;
        }
        out.switches.push_back(u.sw);
        out.domains.push_back(mv_domain(function, u.sw));
    }
    return out;
}

/* ---- the cap ------------------------------------------------------------------ */

/* The number of values of switch i, including unbound. */
static size_t choices(const mv_combination &c, size_t i)
{
    return c.domains[i].size() + mv_switch_of(c.switches[i])->is_tracked;
}

/* Whether the names of a record with so many variants begin within its first 64 KB: the offset in
 * struct multiverse_function has 16 bits. */
static bool fits_a_record(double variants, size_t switches)
{
    return 24 + variants * (16 + 24 * switches) <= 0xffff;
}

static bool is_allowed(double variants, size_t switches)
{
    return variants <= mv_the_unit().max_variants && fits_a_record(variants, switches);
}

static double count_all(const mv_combination &all)
{
    double wanted = 1;
    for (size_t i = 0; i < all.switches.size(); i++)
        wanted *= choices(all, i);
    return wanted;
}

bool mv_is_over_cap(const mv_combination &all)
{
    return !is_allowed(count_all(all), all.switches.size());
}

void mv_apply_cap(Function &function, mv_combination &all)
{
    unsigned most = mv_the_unit().max_variants;
    double wanted = count_all(all);
    if (!mv_is_over_cap(all))
        return;
    mv_combination kept;
    std::string names;
    size_t product = 1;
    for (size_t i = 0; i < all.switches.size(); i++) {
        if (!is_allowed((double)product * choices(all, i), kept.switches.size() + 1))
            continue;
        product *= choices(all, i);
        kept.switches.push_back(all.switches[i]);
        kept.domains.push_back(all.domains[i]);
        names += (names.empty() ? "" : ", ") + mv_switch_of(all.switches[i])->name;
    }
    if (kept.switches.empty() && most > 0) {
        const mv_switch *sw = mv_switch_of(all.switches[0]);
        kept.switches.push_back(all.switches[0]);
        all.domains[0].resize(std::max<size_t>(1, most - sw->is_tracked));
        kept.domains.push_back(all.domains[0]);
        names = std::to_string(all.domains[0].size()) + " values of " + sw->name;
    }
    mv_the_unit().warn(
        function, "variation point '" + mv_point_of(function)->name + "' would have " +
                      std::to_string((unsigned long long)wanted) + " variants, more than " +
                      (wanted > most ? std::to_string(most) : "a record of 64 KB holds") +
                      "; it is specialised for " + (names.empty() ? "none" : names) + " only; for "
                      "the rest it reads its switches at run time; name those that matter with "
                      "multiverse(\"bind\", ...), or give a switch fewer values with "
                      "multiverse(\"values\", ...)");
    all = kept;
}
