/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * members.cc: attributed members of global structures as switches.
 *
 *     struct settings { __attribute__((multiverse)) bool verbose; int level; };
 *     struct settings settings;          // settings.verbose is a switch
 *
 * The address of a switch must be known at link time.  So the object must be named:
 * `settings.verbose`, also inside nested structures.  A read through a pointer, or of an element of
 * an array, may concern any object and is a plain read.
 *
 * All other files know switches as declarations of variables.  So each member of each variable gets
 * such a declaration at its first use; the symbol table does not know it.  Its symbol is
 * `settings+4`.
 */
#include "multiverse.h"

namespace {
struct member {
    HOST_WIDE_INT offset, size;
    tree decl;
};
struct place {
    tree variable;
    HOST_WIDE_INT offset;
};
} // namespace

static std::unordered_map<unsigned, std::vector<member>> members; /* by DECL_UID of the variable */
static std::unordered_map<unsigned, place> places;                /* by DECL_UID of the member's decl */

/* Keeps the declarations alive. */
static tree kept;
static const struct ggc_root_tab roots[] = {
    {&kept, 1, sizeof kept, &gt_ggc_mx_tree_node, &gt_pch_nx_tree_node},
    LAST_GGC_ROOT_TAB,
};

const struct ggc_root_tab *mv_member_roots()
{
    return roots;
}

static tree make(tree variable, tree field, HOST_WIDE_INT offset, const std::string &name)
{
    tree decl = build_decl(DECL_SOURCE_LOCATION(field), VAR_DECL, get_identifier(name.c_str()),
                           TREE_TYPE(field));
    TREE_STATIC(decl) = TREE_STATIC(variable);
    DECL_EXTERNAL(decl) = DECL_EXTERNAL(variable);
    TREE_PUBLIC(decl) = TREE_PUBLIC(variable);
    TREE_USED(decl) = 1;
    DECL_ARTIFICIAL(decl) = 1;
    DECL_IGNORED_P(decl) = 1;
    for (tree a = lookup_attribute(MV_ATTR, DECL_ATTRIBUTES(field)); a;
         a = lookup_attribute(MV_ATTR, TREE_CHAIN(a)))
        DECL_ATTRIBUTES(decl) = tree_cons(TREE_PURPOSE(a), TREE_VALUE(a), DECL_ATTRIBUTES(decl));
    places[DECL_UID(decl)] = {variable, offset};
    kept = tree_cons(NULL_TREE, decl, kept);
    mv_describe_switch(decl, mv_display_name(variable) + name.substr(name.find('.')));
    return decl;
}

static void collect(tree variable, tree type, HOST_WIDE_INT at, const std::string &prefix,
                    std::vector<member> &out)
{
    for (tree field = TYPE_FIELDS(type); field; field = DECL_CHAIN(field)) {
        if (TREE_CODE(field) != FIELD_DECL || !DECL_FIELD_OFFSET(field) ||
            TREE_CODE(DECL_FIELD_OFFSET(field)) != INTEGER_CST || int_bit_position(field) % 8)
            continue;
        HOST_WIDE_INT offset = at + int_byte_position(field);
        std::string name = prefix;
        if (DECL_NAME(field))
            name += std::string(".") + IDENTIFIER_POINTER(DECL_NAME(field));
        if (TREE_CODE(TREE_TYPE(field)) == RECORD_TYPE)
            collect(variable, TREE_TYPE(field), offset, name, out);
        else if (lookup_attribute(MV_ATTR, DECL_ATTRIBUTES(field)) && !DECL_BIT_FIELD(field))
            out.push_back({offset, int_size_in_bytes(TREE_TYPE(field)),
                           make(variable, field, offset, name)});
    }
}

static bool has_members(const_tree variable)
{
    tree type = TREE_TYPE(variable);
    return TREE_CODE(type) == RECORD_TYPE && COMPLETE_TYPE_P(type) &&
           (TREE_STATIC(variable) || DECL_EXTERNAL(variable)) && !DECL_THREAD_LOCAL_P(variable) &&
           !decl_function_context(variable) && !TREE_READONLY(variable) &&
           !TREE_THIS_VOLATILE(variable) && !TYPE_READONLY(type) && !TYPE_VOLATILE(type);
}

static const std::vector<member> &members_of(tree variable)
{
    static const std::vector<member> none;
    if (!VAR_P(variable) || !has_members(variable))
        return none;
    auto it = members.find(DECL_UID(variable));
    if (it == members.end()) {
        std::vector<member> found;
        collect(variable, TREE_TYPE(variable), 0, IDENTIFIER_POINTER(DECL_NAME(variable)), found);
        it = members.insert({DECL_UID(variable), found}).first;
    }
    return it->second;
}

std::vector<tree> mv_members(tree variable)
{
    std::vector<tree> out;
    for (const member &m : members_of(variable))
        out.push_back(m.decl);
    return out;
}

/* The bytes that a reference covers; 0: unknown size. */
static tree extent(tree ref, HOST_WIDE_INT &offset, HOST_WIDE_INT &size)
{
    poly_int64 bit, bits, most;
    bool reverse;
    tree base = get_ref_base_and_extent(ref, &bit, &bits, &most, &reverse);
    HOST_WIDE_INT at, n, all;
    if (!base || !VAR_P(base) || !bit.is_constant(&at) || !bits.is_constant(&n) ||
        !most.is_constant(&all) || reverse)
        return NULL_TREE;
    offset = at / 8;
    size = n == all && n > 0 && at % 8 == 0 && n % 8 == 0 ? n / 8 : 0;
    return base;
}

tree mv_member_read(tree ref)
{
    HOST_WIDE_INT offset, size;
    tree base = handled_component_p(ref) || TREE_CODE(ref) == MEM_REF ? extent(ref, offset, size) : NULL_TREE;
    if (base && size)
        for (const member &m : members_of(base))
            if (m.offset == offset && m.size == size)
                return m.decl;
    return NULL_TREE;
}

std::vector<tree> mv_members_touched(tree ref)
{
    std::vector<tree> out;
    HOST_WIDE_INT offset = 0, size = 0;
    tree base = extent(ref, offset, size);
    if (!base)
        base = get_base_address(ref);
    if (base && VAR_P(base))
        for (const member &m : members_of(base))
            if (!size || (m.offset < offset + size && offset < m.offset + m.size))
                out.push_back(m.decl);
    return out;
}

/* Whether a reference reads an attributed member of any object: a constant, or a switch. */
static bool reads_member(tree ref, tree *field, bool constants)
{
    bool attributed = false, is_constant = false;
    while (TREE_CODE(ref) == VIEW_CONVERT_EXPR)
        ref = TREE_OPERAND(ref, 0);
    if (TREE_CODE(ref) != COMPONENT_REF || TREE_THIS_VOLATILE(ref))
        return false;
    *field = TREE_OPERAND(ref, 1);
    for (tree a = lookup_attribute(MV_ATTR, DECL_ATTRIBUTES(*field)); a;
         a = lookup_attribute(MV_ATTR, TREE_CHAIN(a))) {
        attributed = true;
        is_constant |= mv_says_constant(TREE_VALUE(a));
    }
    return attributed && is_constant == constants;
}

void mv_warn_of_pointer(gimple *stmt, tree ref, bool constants)
{
    static std::set<location_t> warned;
    location_t at = gimple_location(stmt);
    tree field, base = get_base_address(ref);
    bool in_array = false;
    if (!base || !reads_member(ref, &field, constants))
        return;
    for (tree part = ref; handled_component_p(part); part = TREE_OPERAND(part, 0))
        in_array |= TREE_CODE(part) == ARRAY_REF;
    /* Nobody commits a local object. */
    if (DECL_P(base) && !(in_array && is_global_var(base)))
        return;
    if (warned.insert(LOCATION_LOCUS(at)).second)
        warning_at(at, OPT_Wattributes, "this read of member %qD stays a load: it may be of any object, %s", field,
                   in_array ? "an element of an array" : "through a pointer");
}

tree mv_variable_of(const_tree sw, HOST_WIDE_INT *offset)
{
    auto it = places.find(DECL_UID(sw));
    *offset = it == places.end() ? 0 : it->second.offset;
    return it == places.end() ? const_cast<tree>(sw) : it->second.variable;
}

tree mv_operand_of(tree sw)
{
    HOST_WIDE_INT offset;
    tree variable = mv_variable_of(sw, &offset);
    if (variable == sw)
        return sw;
    return build2(MEM_REF, TREE_TYPE(sw), build_fold_addr_expr(variable),
                  build_int_cst(build_pointer_type(TREE_TYPE(sw)), offset));
}

tree mv_address_of(tree decl)
{
    HOST_WIDE_INT offset;
    tree variable = mv_variable_of(decl, &offset);
    tree address = fold_convert(ptr_type_node, build_fold_addr_expr(variable));
    return variable == decl ? address : fold_build_pointer_plus_hwi(address, offset);
}

tree mv_decl_at(tree address)
{
    HOST_WIDE_INT offset = 0;
    poly_int64 more;
    STRIP_NOPS(address);
    if (TREE_CODE(address) == POINTER_PLUS_EXPR && TREE_CODE(TREE_OPERAND(address, 1)) == INTEGER_CST) {
        offset = tree_to_shwi(TREE_OPERAND(address, 1));
        address = TREE_OPERAND(address, 0);
        STRIP_NOPS(address);
    }
    if (TREE_CODE(address) != ADDR_EXPR)
        return NULL_TREE;
    tree base = TREE_OPERAND(address, 0);
    if (!DECL_P(base)) {
        base = get_addr_base_and_unit_offset(base, &more);
        if (base && TREE_CODE(base) == MEM_REF && TREE_CODE(TREE_OPERAND(base, 0)) == ADDR_EXPR)
            base = TREE_OPERAND(TREE_OPERAND(base, 0), 0);
        if (!base || !DECL_P(base) || !more.is_constant())
            return NULL_TREE;
        offset += more.to_constant();
    }
    if (VAR_P(base))
        for (const member &m : members_of(base))
            if (m.offset == offset)
                return m.decl;
    return offset ? NULL_TREE : base;
}
