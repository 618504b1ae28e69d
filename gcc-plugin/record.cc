/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * record.cc: how what was found out about a variation point travels to the
 * place where code is generated.
 *
 * Between the two LTO may write the unit to a file, rename local symbols, drop
 * functions, and spread the rest over several compilers.  So the facts are kept
 * in what LTO understands: a read-only array of pointers,
 *
 *     n_switches, &switch...,
 *     n_variants, { &body, { any, low, high } a switch }...
 *
 * which an empty asm at the start of the generic's body refers to.  As long as
 * the generic lives the array does, and with it the variants; symbols are
 * renamed in it as everywhere; a constant's initialiser is available wherever it
 * is used.  When code is generated (of the generic, in whichever partition) the
 * asm is taken out again and the array is not written.  A compiler without the
 * plugin leaves both in: then there is an unused array, and the program is
 * right.
 */
#include "multiverse.h"

static const char marker[] = "# multiverse";

static std::unordered_map<unsigned, mv_record> records; /* by DECL_UID of the generic */

/* ---- writing ---------------------------------------------------------------- */

static tree number(uint64_t n)
{
    return build_int_cst(ptr_type_node, n);
}

static tree address(tree decl)
{
    return fold_convert(ptr_type_node, build_fold_addr_expr(decl));
}

static tree build_array(cgraph_node *generic, const std::vector<tree> &switches,
                        const std::vector<mv_variant> &variants)
{
    vec<constructor_elt, va_gc> *elements = nullptr;
    auto push = [&](tree t) { CONSTRUCTOR_APPEND_ELT(elements, size_int(vec_safe_length(elements)), t); };
    push(number(switches.size()));
    for (tree sw : switches)
        push(address(sw));
    push(number(variants.size()));
    for (const mv_variant &v : variants) {
        push(address(v.node->decl));
        for (const mv_range &r : v.ranges) {
            push(number(r.any));
            push(number(r.low));
            push(number(r.high));
        }
    }
    tree type = build_array_type_nelts(ptr_type_node, vec_safe_length(elements));
    type = build_qualified_type(type, TYPE_QUAL_CONST);
    tree var = build_decl(DECL_SOURCE_LOCATION(generic->decl), VAR_DECL,
                          clone_function_name(generic->decl, "multiverse_record"), type);
    TREE_STATIC(var) = 1;
    TREE_READONLY(var) = 1;
    TREE_ADDRESSABLE(var) = 1;
    TREE_USED(var) = 1;
    DECL_ARTIFICIAL(var) = 1;
    DECL_IGNORED_P(var) = 1;
    DECL_INITIAL(var) = build_constructor(type, elements);
    TREE_CONSTANT(DECL_INITIAL(var)) = 1;
    TREE_STATIC(DECL_INITIAL(var)) = 1;
    SET_DECL_ASSEMBLER_NAME(var, DECL_NAME(var));
    varpool_node::finalize_decl(var);
    return var;
}

void mv_attach_record(cgraph_node *generic, const std::vector<tree> &switches,
                      const std::vector<mv_variant> &variants)
{
    /* Never in the generic's COMDAT group: GCC expects functions only there. */
    tree var = build_array(generic, switches, variants);
    push_cfun(DECL_STRUCT_FUNCTION(generic->decl));
    vec<tree, va_gc> *inputs = nullptr;
    vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(2, "i")),
                                          build_fold_addr_expr(var)));
    gasm *stmt = gimple_build_asm_vec(marker, inputs, nullptr, nullptr, nullptr);
    gimple_asm_set_volatile(stmt, true);
    basic_block entry = split_edge(single_succ_edge(ENTRY_BLOCK_PTR_FOR_FN(cfun)));
    gimple_stmt_iterator gsi = gsi_start_bb(entry);
    gsi_insert_before(&gsi, stmt, GSI_NEW_STMT);
    cgraph_edge::rebuild_references();
    free_dominance_info(CDI_DOMINATORS);
    free_dominance_info(CDI_POST_DOMINATORS);
    pop_cfun();
}

/* ---- reading ------------------------------------------------------------------ */

static tree array_of_asm(gimple *stmt)
{
    gasm *a = dyn_cast<gasm *>(stmt);
    if (!a || gimple_asm_ninputs(a) != 1 || strcmp(gimple_asm_string(a), marker))
        return NULL_TREE;
    tree op = TREE_VALUE(gimple_asm_input_op(a, 0));
    STRIP_NOPS(op);
    return TREE_CODE(op) == ADDR_EXPR ? TREE_OPERAND(op, 0) : NULL_TREE;
}

namespace {
/* Reads the array's elements one after the other; `good` says whether they were
 * what they had to be. */
struct reader {
    tree ctor;
    unsigned at = 0;
    bool good = true;

    tree next()
    {
        if (!good || at >= CONSTRUCTOR_NELTS(ctor)) {
            good = false;
            return NULL_TREE;
        }
        tree t = CONSTRUCTOR_ELT(ctor, at++)->value;
        STRIP_NOPS(t);
        return t;
    }

    uint64_t number()
    {
        tree t = next();
        good = good && TREE_CODE(t) == INTEGER_CST;
        return good ? wi::to_wide(t).to_uhwi() : 0;
    }

    tree decl()
    {
        tree t = next();
        good = good && TREE_CODE(t) == ADDR_EXPR;
        return good ? TREE_OPERAND(t, 0) : NULL_TREE;
    }
};
} // namespace

static bool read_array(tree var, mv_record &out)
{
    varpool_node *node = varpool_node::get(var);
    tree ctor = node ? node->get_constructor() : DECL_INITIAL(var);
    if (!ctor || TREE_CODE(ctor) != CONSTRUCTOR)
        return false;
    reader r{ctor};
    for (uint64_t n = r.number(); n > 0 && r.good; n--)
        out.switches.push_back(r.decl());
    for (uint64_t n = r.number(); n > 0 && r.good; n--) {
        mv_record::variant v;
        v.decl = r.decl();
        for (size_t i = 0; i < out.switches.size(); i++) {
            bool any = r.number();
            int64_t low = r.number(), high = r.number();
            v.ranges.push_back({low, high, any});
        }
        out.variants.push_back(v);
    }
    return r.good;
}

void mv_take_record(function *fun)
{
    if (!mv_is_function(fun->decl))
        return;
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi);) {
            tree var = array_of_asm(gsi_stmt(gsi));
            if (!var) {
                gsi_next(&gsi);
                continue;
            }
            mv_record record;
            if (read_array(var, record))
                records[DECL_UID(fun->decl)] = record;
            gsi_remove(&gsi, true);
        }
}

const mv_record *mv_find_record(tree fndecl)
{
    auto it = records.find(DECL_UID(fndecl));
    return it == records.end() ? nullptr : &it->second;
}

/* The arrays have served when code is generated: a variable of the constant pool
 * that counts as written is not written.  Only in functions of this compiler: in
 * a partition of LTO an array may belong to the code of another one, which reads
 * its own copy of the initialiser. */
void mv_hide_records()
{
    cgraph_node *node;
    FOR_EACH_FUNCTION(node) {
        if (!mv_is_function(node->decl))
            continue;
        ipa_ref *ref = nullptr;
        for (unsigned i = 0; node->iterate_reference(i, ref); i++) {
            varpool_node *var = dyn_cast<varpool_node *>(ref->referred);
            if (!var || !DECL_ARTIFICIAL(var->decl) ||
                !strstr(IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(var->decl)), ".multiverse_record"))
                continue;
            var->get_constructor();
            DECL_IN_CONSTANT_POOL(var->decl) = 1;
            TREE_ASM_WRITTEN(var->decl) = 1;
        }
    }
}
