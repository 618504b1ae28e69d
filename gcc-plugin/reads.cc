/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * reads.cc: which statement reads a switch, as a whole and once.
 */
#include "multiverse.h"

/* The value assigned to a pointer: UBSan reads a bool through one, and at -O0 nothing replaces it
 * by the address. */
static tree address_in(tree pointer)
{
    gimple *def = TREE_CODE(pointer) == SSA_NAME ? SSA_NAME_DEF_STMT(pointer) : NULL;
    return def && gimple_assign_single_p(def) ? gimple_assign_rhs1(def) : pointer;
}

/* The switch or constant that a memory operand reads as a whole, or NULL_TREE. */
static tree read_by_ref(tree ref)
{
    if (!ref || TREE_THIS_VOLATILE(ref))
        return NULL_TREE;
    if (VAR_P(ref))
        return mv_is_switch(ref) ? ref : NULL_TREE;
    tree type = TREE_TYPE(ref);
    if (!INTEGRAL_TYPE_P(type) && !POINTER_TYPE_P(type))
        return NULL_TREE;
    if (tree member = mv_member_read(ref))
        return member;
    if (TREE_CODE(ref) == VIEW_CONVERT_EXPR)
        return read_by_ref(TREE_OPERAND(ref, 0));
    if (TREE_CODE(ref) != MEM_REF || !integer_zerop(TREE_OPERAND(ref, 1)))
        return NULL_TREE;
    tree decl = mv_decl_at(address_in(TREE_OPERAND(ref, 0)));
    if (!decl || !VAR_P(decl) || !mv_is_switch(decl) ||
        int_size_in_bytes(type) != int_size_in_bytes(TREE_TYPE(decl)))
        return NULL_TREE;
    return decl;
}

static tree relaxed_atomic_load(gimple *stmt)
{
    if (!gimple_call_builtin_p(stmt, BUILT_IN_NORMAL) || !gimple_call_lhs(stmt))
        return NULL_TREE;
    switch (DECL_FUNCTION_CODE(gimple_call_fndecl(stmt))) {
    case BUILT_IN_ATOMIC_LOAD_1:
    case BUILT_IN_ATOMIC_LOAD_2:
    case BUILT_IN_ATOMIC_LOAD_4:
    case BUILT_IN_ATOMIC_LOAD_8:
        break;
    default:
        return NULL_TREE;
    }
    tree address = gimple_call_arg(stmt, 0), order = gimple_call_arg(stmt, 1);
    if (TREE_CODE(address) != ADDR_EXPR || !integer_zerop(order))
        return NULL_TREE;
    tree decl = TREE_OPERAND(address, 0), type = TREE_TYPE(gimple_call_lhs(stmt));
    if (!VAR_P(decl))
        decl = mv_member_read(decl);
    if (!decl || !mv_is_switch(decl) || (!INTEGRAL_TYPE_P(type) && !POINTER_TYPE_P(type)) ||
        int_size_in_bytes(type) != int_size_in_bytes(TREE_TYPE(decl)))
        return NULL_TREE;
    return decl;
}

static tree read_by(gimple *stmt)
{
    if (gimple_assign_single_p(stmt) && TREE_CODE(gimple_assign_lhs(stmt)) == SSA_NAME)
        return read_by_ref(gimple_assign_rhs1(stmt));
    if (is_gimple_call(stmt))
        return relaxed_atomic_load(stmt);
    return NULL_TREE;
}

tree mv_load_of_switch(gimple *stmt)
{
    tree decl = read_by(stmt);
    return decl && !mv_is_constant(decl) ? decl : NULL_TREE;
}

tree mv_load_of_constant(gimple *stmt)
{
    tree decl = read_by(stmt);
    return decl && mv_is_constant(decl) ? decl : NULL_TREE;
}
