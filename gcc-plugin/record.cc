/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * record.cc: passes the facts about a variation point to code generation.
 *
 * Between the two, LTO may write the unit to a file, rename local symbols, drop functions, and
 * divide the rest among several compilers.  So the facts are stored in forms that LTO understands:
 * a read-only array of pointers,
 *
 *     the generic or 0 (if it is called inline: callers refer to the array, too),
 *     n_switches, &switch...,
 *     n_variants, { any, low, high } for each variant and switch...
 *
 * and empty asms at the start of the generic's body, which refer to the array and, some in each, to
 * the bodies of the variants.  So these live as long as the generic; symbols are renamed
 * everywhere; a constant's initialiser is available wherever it is used.  The array does not
 * contain the bodies: those of a COMDAT function are visible in its group only, and GCC expects no
 * variables there.  When code is generated (of the generic, in whichever partition) the asms are
 * removed and the array is not written.  A compiler without the plugin keeps both: then there is an
 * unused array, and the program is correct.
 */
#include "multiverse.h"

static const char marker[] = "# multiverse record ";
static const unsigned bodies_of_asm = 16; /* GCC allows 30 operands */

static std::unordered_map<unsigned, mv_record> records; /* by DECL_UID of the generic */

/* ---- writing ---------------------------------------------------------------- */

static tree number(uint64_t n)
{
    return build_int_cst(ptr_type_node, n);
}

static tree build_array(cgraph_node *generic, const std::vector<tree> &switches,
                        const std::vector<mv_variant> &variants, bool inlined)
{
    vec<constructor_elt, va_gc> *elements = nullptr;
    auto push = [&](tree t) { CONSTRUCTOR_APPEND_ELT(elements, size_int(vec_safe_length(elements)), t); };
    push(inlined ? build_fold_addr_expr(generic->decl) : number(0));
    push(number(switches.size()));
    for (tree sw : switches)
        push(mv_address_of(sw));
    push(number(variants.size()));
    for (const mv_variant &v : variants)
        for (const mv_range &r : v.ranges) {
            push(number(r.any));
            push(number(r.low));
            push(number(r.high));
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

/* The template contains the number of the first body; the first asm also refers to the array. */
static gasm *build_asm(tree array, size_t first, const std::vector<mv_variant> &variants)
{
    vec<tree, va_gc> *inputs = nullptr;
    auto push = [&](tree decl) {
        vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(2, "i")),
                                              build_fold_addr_expr(decl)));
    };
    if (!first)
        push(array);
    for (size_t i = first; i < variants.size() && i < first + bodies_of_asm; i++)
        push(variants[i].node->decl);
    std::string text = marker + std::to_string(first);
    gasm *stmt = gimple_build_asm_vec(ggc_strdup(text.c_str()), inputs, nullptr, nullptr, nullptr);
    gimple_asm_set_volatile(stmt, true);
    return stmt;
}

tree mv_attach_record(cgraph_node *generic, const std::vector<tree> &switches,
                      const std::vector<mv_variant> &variants, bool inlined)
{
    tree array = build_array(generic, switches, variants, inlined);
    push_cfun(DECL_STRUCT_FUNCTION(generic->decl));
    basic_block entry = split_edge(single_succ_edge(ENTRY_BLOCK_PTR_FOR_FN(cfun)));
    gimple_stmt_iterator gsi = gsi_start_bb(entry);
    size_t first = 0;
    do {
        gsi_insert_before(&gsi, build_asm(array, first, variants), GSI_SAME_STMT);
        first += bodies_of_asm;
    } while (first < variants.size());
    cgraph_edge::rebuild_references();
    free_dominance_info(CDI_DOMINATORS);
    free_dominance_info(CDI_POST_DOMINATORS);
    pop_cfun();
    return array;
}

/* ---- reading ------------------------------------------------------------------ */

/* Adds the references of one of our asms at their positions; false for other statements. */
static bool read_asm(gimple *stmt, std::vector<tree> &out)
{
    gasm *a = dyn_cast<gasm *>(stmt);
    if (!a || strncmp(gimple_asm_string(a), marker, strlen(marker)))
        return false;
    unsigned first = atoi(gimple_asm_string(a) + strlen(marker));
    for (unsigned i = 0; i < gimple_asm_ninputs(a); i++) {
        tree op = TREE_VALUE(gimple_asm_input_op(a, i));
        STRIP_NOPS(op);
        unsigned at = first + (first != 0) + i; /* the array is at 0 */
        if (out.size() <= at)
            out.resize(at + 1);
        out[at] = TREE_CODE(op) == ADDR_EXPR ? TREE_OPERAND(op, 0) : NULL_TREE;
    }
    return true;
}

namespace {
/* Reads the array's elements in order; `good`: all had the expected form. */
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
        tree t = next(), found = good ? mv_decl_at(t) : NULL_TREE;
        good = found != NULL_TREE;
        return found;
    }
};
} // namespace

bool mv_read_array(tree array, tree *generic, mv_record &out)
{
    if (!array || !VAR_P(array))
        return false;
    varpool_node *node = varpool_node::get(array);
    tree ctor = node ? node->get_constructor() : DECL_INITIAL(array);
    if (!ctor || TREE_CODE(ctor) != CONSTRUCTOR)
        return false;
    reader r{ctor};
    tree first = r.next();
    *generic = first && TREE_CODE(first) == ADDR_EXPR ? TREE_OPERAND(first, 0) : NULL_TREE;
    for (uint64_t n = r.number(); n > 0 && r.good; n--)
        out.switches.push_back(r.decl());
    for (uint64_t n = r.number(); n > 0 && r.good; n--) {
        mv_record::variant v;
        v.decl = NULL_TREE;
        for (size_t i = 0; i < out.switches.size(); i++) {
            bool any = r.number();
            int64_t low = r.number(), high = r.number();
            v.ranges.push_back({low, high, any});
        }
        out.variants.push_back(v);
    }
    return r.good;
}

/* decls: the array, and the bodies. */
static bool read_record(const std::vector<tree> &decls, mv_record &out)
{
    tree generic;
    if (!mv_read_array(decls[0], &generic, out) || decls.size() != out.variants.size() + 1)
        return false;
    for (size_t i = 0; i < out.variants.size(); i++) {
        out.variants[i].decl = decls[i + 1];
        if (!decls[i + 1] || TREE_CODE(decls[i + 1]) != FUNCTION_DECL)
            return false;
    }
    return true;
}

void mv_take_record(function *fun)
{
    if (!mv_is_function(fun->decl))
        return;
    std::vector<tree> decls;
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi);)
            if (read_asm(gsi_stmt(gsi), decls))
                gsi_remove(&gsi, true);
            else
                gsi_next(&gsi);
    mv_record record;
    if (!decls.empty() && read_record(decls, record))
        records[DECL_UID(fun->decl)] = record;
}

const mv_record *mv_find_record(tree fndecl)
{
    auto it = records.find(DECL_UID(fndecl));
    return it == records.end() ? nullptr : &it->second;
}

/* At code generation the arrays are no longer needed: a variable of the constant pool that counts
 * as written is not written.  Only in functions of this compiler: in a partition of LTO an array
 * may belong to code of another one, which reads its own copy of the initialiser. */
void mv_hide_records()
{
    cgraph_node *node;
    FOR_EACH_FUNCTION(node) {
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
