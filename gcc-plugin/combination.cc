/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * combination.cc: which switches the variants of a function fix, and to which values.
 *
 * A switch is fixed if the function reads it as a whole, is bound to it (`bind`, or no `bind` at
 * all), and neither writes it nor takes its address: later reads of the function must see the new
 * value.  The product of all values is kept under the cap.
 */
#include "multiverse.h"

/* ---- which switches a function uses, and how ------------------------------- */

namespace {

struct use {
    tree sw;
    unsigned reads = 0;
    gimple *write = nullptr, *address = nullptr;
};

struct uses {
    std::vector<use> list;

    use &of(tree sw)
    {
        for (use &u : list)
            if (u.sw == sw)
                return u;
        use u;
        u.sw = sw;
        list.push_back(u);
        return list.back();
    }
};

} // namespace

std::vector<tree> mv_switches_at(tree ref)
{
    tree base = get_base_address(ref);
    if (base && VAR_P(base) && mv_is_switch(base))
        return {base};
    return mv_members_touched(ref);
}

static bool visit_store(gimple *stmt, tree, tree ref, void *data)
{
    if (!gimple_clobber_p(stmt))
        for (tree sw : mv_switches_at(ref))
            ((uses *)data)->of(sw).write = stmt;
    return false;
}

/* A call by which a sanitizer checks or reports a read. */
static bool is_of_sanitizer(gimple *stmt)
{
    for (internal_fn fn : {IFN_UBSAN_NULL, IFN_UBSAN_OBJECT_SIZE, IFN_UBSAN_PTR, IFN_UBSAN_VPTR, IFN_ASAN_CHECK})
        if (gimple_call_internal_p(stmt, fn))
            return true;
    if (!gimple_call_builtin_p(stmt, BUILT_IN_NORMAL))
        return false;
    const char *name = IDENTIFIER_POINTER(DECL_NAME(gimple_call_fndecl(stmt)));
    for (const char *part : {"__ubsan_handle", "__asan_load", "__asan_report_load", "__tsan_read"})
        if (strstr(name, part))
            return true;
    return false;
}

/* Whether an address in this statement is only compared, passed to sanitizers, or read, but never
 * written through. */
static bool only_checks_address(gimple *stmt, unsigned depth = 0)
{
    if (gimple_code(stmt) == GIMPLE_COND || is_gimple_debug(stmt) || is_of_sanitizer(stmt) ||
        mv_load_of_switch(stmt) || mv_load_of_constant(stmt))
        return true;
    gassign *assign = dyn_cast<gassign *>(stmt);
    if (depth > 12 || !assign || gimple_vuse(assign) || TREE_CODE(gimple_assign_lhs(assign)) != SSA_NAME)
        return false;
    tree_code code = gimple_assign_rhs_code(assign);
    if (code == RSHIFT_EXPR || code == BIT_AND_EXPR || TREE_CODE_CLASS(code) == tcc_comparison)
        return true; /* none any more */
    imm_use_iterator it;
    use_operand_p use;
    FOR_EACH_IMM_USE_FAST(use, it, gimple_assign_lhs(assign))
        if (!only_checks_address(USE_STMT(use), depth + 1))
            return false;
    return true;
}

static bool visit_address(gimple *stmt, tree, tree ref, void *data)
{
    if (only_checks_address(stmt))
        return false;
    if (TREE_CODE(ref) == ADDR_EXPR)
        ref = TREE_OPERAND(ref, 0);
    for (tree sw : mv_switches_at(ref))
        ((uses *)data)->of(sw).address = stmt;
    return false;
}

static bool reads_only_by_atomic(gimple *stmt)
{
    if (!gimple_call_builtin_p(stmt, BUILT_IN_NORMAL))
        return false;
    built_in_function f = DECL_FUNCTION_CODE(gimple_call_fndecl(stmt));
    return f == BUILT_IN_ATOMIC_LOAD_1 || f == BUILT_IN_ATOMIC_LOAD_2 ||
           f == BUILT_IN_ATOMIC_LOAD_4 || f == BUILT_IN_ATOMIC_LOAD_8;
}

static void find_uses(function *fun, uses &out)
{
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun) {
        for (gphi_iterator gsi = gsi_start_phis(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            walk_stmt_load_store_addr_ops(gsi.phi(), &out, nullptr, visit_store, visit_address);
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            gimple *stmt = gsi_stmt(gsi);
            if (is_gimple_debug(stmt))
                continue;
            if (tree sw = mv_load_of_switch(stmt))
                out.of(sw).reads++;
            else if (!mv_load_of_constant(stmt) && !reads_only_by_atomic(stmt))
                walk_stmt_load_store_addr_ops(stmt, &out, nullptr, visit_store, visit_address);
        }
    }
}

std::set<tree> mv_changed_switches(function *fun)
{
    std::set<tree> out;
    uses found;
    find_uses(fun, found);
    for (const use &u : found.list)
        if (u.write || u.address)
            out.insert(u.sw);
    return out;
}

/* ---- which of them the variants fix ----------------------------------------- */

static bool named(tree sw, const std::string &name)
{
    return mv_display_name(sw) == name ||
           (DECL_NAME(sw) && name == IDENTIFIER_POINTER(DECL_NAME(sw)));
}

static void warn_unused_binds(tree fn, const uses &found, const std::vector<std::string> &names)
{
    for (const std::string &name : names)
        if (std::none_of(found.list.begin(), found.list.end(),
                         [&](const use &u) { return u.reads && named(u.sw, name); }))
            warning_at(DECL_SOURCE_LOCATION(fn), OPT_Wattributes,
                       "function %qD is bound to %qs but reads no switch of that name", fn,
                       name.c_str());
}

static bool visit_load(gimple *stmt, tree, tree ref, void *)
{
    mv_warn_of_pointer(stmt, ref, false);
    return false;
}

/* A variation point with "bind" ignores other switches. */
static void warn_of_pointers(function *fun)
{
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (!is_gimple_debug(gsi_stmt(gsi)))
                walk_stmt_load_store_addr_ops(gsi_stmt(gsi), nullptr, visit_load, nullptr, nullptr);
}

void mv_choose_switches(function *fun, mv_combination &out)
{
    tree fn = fun->decl;
    uses found;
    find_uses(fun, found);
    std::vector<std::string> bound;
    bool has_bind = mv_bind_names(fn, bound);
    warn_unused_binds(fn, found, bound);
    if (!has_bind)
        warn_of_pointers(fun);
    for (const use &u : found.list) {
        if (!u.reads)
            continue;
        if (has_bind && std::none_of(bound.begin(), bound.end(),
                                     [&](const std::string &n) { return named(u.sw, n); }))
            continue;
        if (u.write || u.address) {
            location_t at = gimple_location(u.write ? u.write : u.address);
            warning_at(at != UNKNOWN_LOCATION ? at : DECL_SOURCE_LOCATION(fn), OPT_Wattributes,
                       u.write ? "variation point %qD writes switch %qD and is not specialised "
                                 "for it"
                               : "variation point %qD takes the address of switch %qD and is not "
                                 "specialised for it",
                       fn, u.sw);
            continue;
        }
        out.switches.push_back(u.sw);
        out.domains.push_back(mv_domain(u.sw, fun));
    }
}

/* The number of values of switch i, including unbound. */
static size_t choices(const mv_combination &c, size_t i)
{
    return c.domains[i].size() + mv_is_tracked(c.switches[i]);
}

/* Whether the names of a record with so many variants begin within its first 64 KB: the offset in
 * struct multiverse_function has 16 bits. */
static bool fits_a_record(double variants, size_t switches)
{
    return 24 + variants * (16 + 24 * switches) <= 0xffff;
}

static bool is_allowed(double variants, size_t switches)
{
    return variants <= mv_opts.max_variants && fits_a_record(variants, switches);
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

void mv_apply_cap(tree fn, mv_combination &all)
{
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
        names += (names.empty() ? "" : ", ") + mv_display_name(all.switches[i]);
    }
    if (kept.switches.empty() && mv_opts.max_variants > 0) {
        kept.switches.push_back(all.switches[0]);
        all.domains[0].resize(std::max<size_t>(1, mv_opts.max_variants -
                                                      mv_is_tracked(all.switches[0])));
        kept.domains.push_back(all.domains[0]);
        names = std::to_string(all.domains[0].size()) + " values of " +
                mv_display_name(all.switches[0]);
    }
    location_t loc = DECL_SOURCE_LOCATION(fn);
    bool many = wanted > mv_opts.max_variants;
    std::string limit = many ? std::to_string(mv_opts.max_variants) : "a record of 64 KB holds";
    if (warning_at(loc, 0, "variation point %qD would have %s variants, more than %s; it is "
                   "specialised for %s only; for the rest it reads its switches at run time",
                   fn, std::to_string((unsigned long long)wanted).c_str(), limit.c_str(), names.c_str()))
        inform(loc, many ? "name the switches that matter with %<multiverse(\"bind\", …)%>, give a "
                           "switch fewer values with %<multiverse(\"values\", …)%>, or raise "
                           "%<-fplugin-arg-multiverse-max-variants=%>"
                         : "name the switches that matter with %<multiverse(\"bind\", …)%>");
    all = kept;
}
