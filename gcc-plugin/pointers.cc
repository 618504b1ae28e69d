/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * pointers.cc: calls through attributed function pointers.
 *
 * An indirect call has too many forms to be patched: the pointer may have been loaded long before,
 * or once for two calls, or the call may be a jump through a register.  So every `p(x)` becomes a
 * direct call of a stub, `jmp *p`, with the prototype of p's target.  The stub is the variation
 * point, and its calls are recorded like those of any other (stub_text() in descriptors.cc).
 *
 * The stub reads the pointer when it is called.  This is equivalent only if nothing between the
 * program's own load and the call could have changed the pointer: a call is converted if every
 * store between them (of arguments) is elsewhere.  The load precedes the evaluation of the
 * arguments.  In C, which does not define their order, it is first moved behind them, while it is
 * still known that the program has not kept the value in a variable.
 */
#include "multiverse.h"

/* The load behind a call through an attributed pointer, or NULL. */
static gassign *load_of_pointer(gcall *call)
{
    if (gimple_call_internal_p(call) || gimple_call_chain(call))
        return nullptr;
    tree fn = gimple_call_fn(call);
    if (!fn || TREE_CODE(fn) != SSA_NAME)
        return nullptr;
    gassign *load = dyn_cast<gassign *>(SSA_NAME_DEF_STMT(fn));
    if (!load || !gimple_assign_single_p(load))
        return nullptr;
    tree pointer = gimple_assign_rhs1(load);
    if (!VAR_P(pointer) || !mv_is_pointer(pointer) || TREE_THIS_VOLATILE(pointer))
        return nullptr;
    return types_compatible_p(gimple_call_fntype(call), TREE_TYPE(TREE_TYPE(pointer))) ? load
                                                                                      : nullptr;
}

static bool is_c()
{
    return !strncmp(lang_hooks.name, "GNU C", 5) && lang_hooks.name[5] != '+';
}

/* Right after SSA construction: the value was read for this call only. */
static bool is_unnamed(tree name)
{
    return !SSA_NAME_VAR(name) || DECL_ARTIFICIAL(SSA_NAME_VAR(name));
}

void mv_settle_pointer_loads(function *fun)
{
    basic_block bb;
    if (!is_c())
        return;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            gcall *call = dyn_cast<gcall *>(gsi_stmt(gsi));
            gassign *load = call ? load_of_pointer(call) : nullptr;
            if (!load || gimple_vuse(load) == gimple_vuse(call) || !gimple_vuse(call) ||
                !is_unnamed(gimple_assign_lhs(load)) || !has_single_use(gimple_assign_lhs(load)) ||
                stmt_could_throw_p(fun, load))
                continue;
            tree fresh = make_ssa_name(TREE_TYPE(gimple_assign_lhs(load)));
            gassign *copy = gimple_build_assign(fresh, gimple_assign_rhs1(load));
            gimple_set_location(copy, gimple_location(load));
            gimple_set_vuse(copy, gimple_vuse(call));
            gsi_insert_before(&gsi, copy, GSI_SAME_STMT);
            gimple_call_set_fn(call, fresh);
            update_stmt(call);
        }
}

tree mv_stub_of(tree pointer)
{
    static std::unordered_map<unsigned, tree> made;
    auto it = made.find(DECL_UID(pointer));
    if (it != made.end()) {
        mv_use_stub(it->second, pointer);
        return it->second;
    }
    tree type = TREE_TYPE(TREE_TYPE(pointer));
    tree name = get_identifier((mv_symbol(pointer) + ".multiverse_stub").c_str());
    tree stub = build_decl(BUILTINS_LOCATION, FUNCTION_DECL, name, type);
    SET_DECL_ASSEMBLER_NAME(stub, name);
    DECL_EXTERNAL(stub) = 1;
    TREE_PUBLIC(stub) = TREE_PUBLIC(pointer);
    DECL_ARTIFICIAL(stub) = 1;
    DECL_IGNORED_P(stub) = 1;
    if (TREE_PUBLIC(stub)) {
        DECL_VISIBILITY(stub) = VISIBILITY_HIDDEN;
        DECL_VISIBILITY_SPECIFIED(stub) = 1;
    }
    DECL_ATTRIBUTES(stub) = build_tree_list(get_identifier(MV_ATTR), NULL_TREE);
    mv_make_noipa(stub);
    TREE_READONLY(stub) = TYPE_READONLY(type);
    TREE_THIS_VOLATILE(stub) = TYPE_VOLATILE(type);
    TREE_USED(stub) = 1;
    cgraph_node::get_create(stub); /* keeps the tree alive, too */
    made[DECL_UID(pointer)] = stub;
    mv_use_stub(stub, pointer);
    return stub;
}

/* Whether the pointer still has the loaded value at the call. */
static bool is_current(gassign *load, gcall *call)
{
    tree state = gimple_vuse(call);
    for (unsigned n = 0; state && state != gimple_vuse(load); n++) {
        gimple *def = SSA_NAME_DEF_STMT(state);
        if (n == 64 || gimple_nop_p(def) || gimple_code(def) == GIMPLE_PHI ||
            stmt_may_clobber_ref_p(def, gimple_assign_rhs1(load)))
            return false;
        state = gimple_vuse(def);
    }
    return state != NULL_TREE;
}

void mv_call_stubs(function *fun)
{
    basic_block bb;
    if (ix86_indirect_branch != indirect_branch_keep || mv_is_large_model())
        return; /* the user forbids the stub's plain indirect jump */
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            gcall *call = dyn_cast<gcall *>(gsi_stmt(gsi));
            gassign *load = call ? load_of_pointer(call) : nullptr;
            if (!load || !is_current(load, call))
                continue;
            tree fntype = gimple_call_fntype(call);
            gimple_call_set_fndecl(call, mv_stub_of(gimple_assign_rhs1(load)));
            gimple_call_set_fntype(call, fntype);
            update_stmt(call);
        }
}
