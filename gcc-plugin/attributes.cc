/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * attributes.cc: __attribute__((multiverse)) on switches, variation points and function pointers:
 * what may carry it, and what must be recorded before the front end's knowledge is lost.
 *
 *   __attribute__((multiverse))                          variable, function, pointer
 *   __attribute__((multiverse("values", 1, 3, 5)))       switch
 *   __attribute__((multiverse("tracked")))               switch
 *   __attribute__((multiverse("constant")))              switch, data or function pointer
 *   __attribute__((multiverse("bind", "a", "b")))        function
 *   __attribute__((multiverse("inline")))                function, also before "bind"
 *
 * A switch, and a constant, may also be a member of a structure (members.cc).
 *
 * A storage class is known only when the declaration is finished (`extern __thread`, C++ static
 * members).  So the handler refuses what it can, and mv_finish_decl() the rest.
 */
#include "multiverse.h"

/* ---- what a declaration is ---------------------------------------------- */

static tree attribute_of(const_tree decl)
{
    return lookup_attribute(MV_ATTR, DECL_ATTRIBUTES(decl));
}

static bool is_function_pointer_type(const_tree type)
{
    return TREE_CODE(type) == POINTER_TYPE && FUNC_OR_METHOD_TYPE_P(TREE_TYPE(type));
}

bool mv_is_switch(const_tree decl)
{
    return decl && VAR_P(decl) && attribute_of(decl) &&
           (INTEGRAL_TYPE_P(TREE_TYPE(decl)) || mv_is_constant(decl));
}

bool mv_is_pointer(const_tree decl)
{
    return decl && VAR_P(decl) && is_function_pointer_type(TREE_TYPE(decl)) && attribute_of(decl) &&
           !mv_is_constant(decl);
}

bool mv_is_function(const_tree decl)
{
    return decl && TREE_CODE(decl) == FUNCTION_DECL && attribute_of(decl);
}

unsigned mv_width(const_tree sw)
{
    return (unsigned)int_size_in_bytes(TREE_TYPE(sw));
}

bool mv_is_signed(const_tree sw)
{
    return !TYPE_UNSIGNED(TREE_TYPE(sw));
}

/* An enumeration may have bool as its type, too. */
bool mv_is_bool(const_tree sw)
{
    return TYPE_PRECISION(TREE_TYPE(sw)) == 1;
}

/* ---- the handler ---------------------------------------------------------- */

void mv_make_noipa(tree fndecl)
{
    for (const char *name : {"noipa", "noinline", "noclone", "no_icf"})
        if (!lookup_attribute(name, DECL_ATTRIBUTES(fndecl)))
            DECL_ATTRIBUTES(fndecl) = tree_cons(get_identifier(name), NULL_TREE,
                                                DECL_ATTRIBUTES(fndecl));
    DECL_UNINLINABLE(fndecl) = 1;
}

/* Called when the attribute is read, and again when the unit is: the conflicting attribute may
 * follow, or be on another declaration. */
static bool has_conflict(tree decl)
{
    static const char *const conflicts[] = {"always_inline", "naked", "ifunc", "target_clones",
                                            "ms_hook_prologue"};
    for (const char *name : conflicts)
        if (lookup_attribute(name, DECL_ATTRIBUTES(decl))) {
            error_at(DECL_SOURCE_LOCATION(decl), "function %qD cannot be %<multiverse%> and %qs",
                     decl, name);
            return true;
        }
    return false;
}

/* An alias is a variation point only if its target is one: otherwise there is no body to
 * specialise.  An alias of a variable is a second name of the same bytes, and works. */
static bool is_idle_alias(symtab_node *node)
{
    if (!node->alias || mv_is_function(node->ultimate_alias_target()->decl))
        return false;
    warning_at(DECL_SOURCE_LOCATION(node->decl), OPT_Wattributes, "attribute %<multiverse%> ignored: "
               "%qD is an alias of a function without it", node->decl);
    return true;
}

static bool check_function(tree decl, tree args)
{
    if (has_conflict(decl))
        return false;
    if (DECL_CXX_CONSTRUCTOR_P(decl) || DECL_CXX_DESTRUCTOR_P(decl)) {
        error_at(DECL_SOURCE_LOCATION(decl), "%qD cannot be %<multiverse%>: a constructor or "
                 "destructor has several bodies", decl);
        return false;
    }
    return mv_check_function_arguments(decl, args);
}

/* Why the storage of a variable forbids the attribute; "" if it does not. */
static const char *storage_problem(tree decl)
{
    if (DECL_THREAD_LOCAL_P(decl))
        return "is thread-local";
    if (DECL_REGISTER(decl) && DECL_HARD_REGISTER(decl))
        return "is a register";
    if (decl_function_context(decl) && !DECL_EXTERNAL(decl))
        return "is local to a function";
    return nullptr;
}

/* A variable that the program changes, possibly unseen by the compiler. */
static bool is_changed_at_run_time(tree decl)
{
    location_t loc = DECL_SOURCE_LOCATION(decl);
    tree type = TREE_TYPE(decl);
    if (TYPE_VOLATILE(type))
        warning_at(loc, OPT_Wattributes, "attribute %<multiverse%> ignored: every read of the "
                   "volatile variable %qD must be made", decl);
    else if (TYPE_READONLY(type))
        warning_at(loc, OPT_Wattributes, "attribute %<multiverse%> ignored: %qD is constant", decl);
    return !TYPE_VOLATILE(type) && !TYPE_READONLY(type);
}

static bool check_type(tree decl, tree args)
{
    location_t loc = DECL_SOURCE_LOCATION(decl);
    tree type = TREE_TYPE(decl);
    if (TYPE_ATOMIC(type)) {
        error_at(loc, "variable %qD cannot be %<multiverse%>: it is %<_Atomic%>", decl);
        return false;
    }
    if (TREE_CODE(type) == POINTER_TYPE && mv_says_constant(args))
        return is_changed_at_run_time(decl) && mv_check_switch_arguments(decl, args);
    if (is_function_pointer_type(type) && VAR_P(decl)) {
        if (args) {
            error_at(loc, "attribute %<multiverse%> takes no argument but %<\"constant\"%> on function "
                     "pointer %qD", decl);
            return false;
        }
        return true;
    }
    if (!INTEGRAL_TYPE_P(type)) {
        error_at(loc, "variable %qD cannot be %<multiverse%>: neither an integer, a Boolean, an "
                 "enumeration nor a pointer to a function", decl);
        if (POINTER_TYPE_P(type))
            inform(loc, "with %<multiverse(\"constant\")%> its value stands in the code that reads it");
        return false;
    }
    if (!COMPLETE_TYPE_P(type) || int_size_in_bytes(type) > 8) {
        error_at(loc, "variable %qD cannot be %<multiverse%>: a switch has 1 to 8 bytes", decl);
        return false;
    }
    /* The ABI leaves the padding of a _BitInt undefined; that of the other types is 0. */
    if (TREE_CODE(type) != BOOLEAN_TYPE && TREE_CODE(type) != ENUMERAL_TYPE &&
        TYPE_PRECISION(type) != 8 * int_size_in_bytes(type)) {
        error_at(loc, "variable %qD cannot be %<multiverse%>: its type has padding bits", decl);
        return false;
    }
    return is_changed_at_run_time(decl) && mv_check_switch_arguments(decl, args);
}

static bool check_variable(tree decl, tree args)
{
    location_t loc = DECL_SOURCE_LOCATION(decl);
    if (const char *problem = storage_problem(decl)) {
        error_at(loc, "variable %qD cannot be %<multiverse%>: it %s", decl, problem);
        inform(loc, "a switch or a function pointer is one global variable of the process");
        return false;
    }
    return check_type(decl, args);
}

/* Refuses a member because of its position. */
static bool refuse_member(tree field, const char *why)
{
    error_at(DECL_SOURCE_LOCATION(field), "member %qD cannot be %<multiverse%>: it is %s", field, why);
    return false;
}

static bool check_member(tree field, tree args)
{
    if (shim_is_bit_field(field))
        return refuse_member(field, "a bit-field");
    if (is_function_pointer_type(TREE_TYPE(field)) && !mv_says_constant(args))
        return refuse_member(field, "a pointer to a function; with \"constant\" its value stands in the code");
    return check_type(field, args);
}

void mv_finish_type(tree type)
{
    if (type == error_mark_node || !RECORD_OR_UNION_TYPE_P(type))
        return;
    for (tree field = TYPE_FIELDS(type); field; field = DECL_CHAIN(field)) {
        if (TREE_CODE(field) != FIELD_DECL || !attribute_of(field))
            continue;
        if (TREE_CODE(type) == RECORD_TYPE && !shim_is_bit_field(field))
            continue;
        refuse_member(field, shim_is_bit_field(field) ? "a bit-field" : "a member of a union");
        DECL_ATTRIBUTES(field) = remove_attribute(MV_ATTR, DECL_ATTRIBUTES(field));
    }
}

static tree handle_multiverse(tree *node, tree, tree args, int, bool *no_add_attrs)
{
    tree decl = *node;
    bool good = false;
    if (TREE_CODE(decl) == FUNCTION_DECL) {
        good = check_function(decl, args);
    } else if (VAR_P(decl)) {
        good = check_variable(decl, args);
        if (good)
            DECL_PRESERVE_P(decl) = 1; /* written by others: the loader, a debugger */
    } else if (TREE_CODE(decl) == FIELD_DECL) {
        good = check_member(decl, args);
    } else if (TREE_CODE(decl) == PARM_DECL) {
        error_at(DECL_SOURCE_LOCATION(decl),
                 "parameter %qD cannot be %<multiverse%>: a switch is a global variable", decl);
    } else {
        warning(OPT_Wattributes, "attribute %<multiverse%> ignored: it is for variables and "
                "functions");
    }
    if (!good)
        *no_add_attrs = true;
    return NULL_TREE;
}

static struct attribute_spec multiverse_attribute = {
    MV_ATTR, 0, -1, true, false, false, false, handle_multiverse, nullptr,
};

void mv_register_attributes()
{
    register_attribute(&multiverse_attribute);
}

void mv_finish_decl(tree decl)
{
    if (!decl || decl == error_mark_node)
        return;
    if (VAR_P(decl) && attribute_of(decl)) {
        const char *problem = storage_problem(decl);
        if (!problem && !TREE_STATIC(decl) && !DECL_EXTERNAL(decl))
            problem = "is local to a function";
        if (!problem)
            return;
        error_at(DECL_SOURCE_LOCATION(decl), "variable %qD cannot be %<multiverse%>: it %s", decl,
                 problem);
        DECL_ATTRIBUTES(decl) = remove_attribute(MV_ATTR, DECL_ATTRIBUTES(decl));
    }
}

/* ---- what the middle end would forget -------------------------------------- */

static void remember(tree decl, const char *attribute, tree value)
{
    if (!lookup_attribute(attribute, DECL_ATTRIBUTES(decl)))
        DECL_ATTRIBUTES(decl) = tree_cons(get_identifier(attribute), value, DECL_ATTRIBUTES(decl));
}

/* Only the form with its type, "bool ns::on<int>", names template arguments. */
static std::string switch_name(tree decl)
{
    std::string text = lang_hooks.decl_printable_name(decl, 2);
    size_t start = 0;
    int depth = 0;
    for (size_t i = 0; i < text.size(); i++) {
        depth += strchr("<({[", text[i]) ? 1 : strchr(">)}]", text[i]) ? -1 : 0;
        if (text[i] == ' ' && !depth)
            start = i + 1;
    }
    return text.substr(start);
}

static void remember_name(tree decl)
{
    std::string name = mv_is_switch(decl) ? switch_name(decl) : lang_hooks.decl_printable_name(decl, 1);
    size_t paren = name.find('(');
    /* "operator()" and "(anonymous namespace)" have parentheses of their own. */
    while (paren != std::string::npos &&
           (name.compare(paren, 3, "(an") == 0 ||
            (paren >= 8 && name.compare(paren - 8, 8, "operator") == 0)))
        paren = name.find('(', paren + 1);
    if (TREE_CODE(decl) == FUNCTION_DECL && paren != std::string::npos)
        name.resize(paren);
    tree text = build_string(name.size() + 1, name.c_str());
    TREE_TYPE(text) = build_array_type_nelts(char_type_node, name.size() + 1);
    remember(decl, MV_ATTR_NAME, build_tree_list(NULL_TREE, text));
}

/* The enumerators in the order of their declaration. */
static void remember_enumerators(tree sw)
{
    tree type = TREE_TYPE(sw), list = NULL_TREE;
    if (TREE_CODE(type) != ENUMERAL_TYPE)
        return;
    for (tree e = TYPE_VALUES(type); e; e = TREE_CHAIN(e)) {
        tree value = TREE_VALUE(e);
        if (TREE_CODE(value) == CONST_DECL)
            value = DECL_INITIAL(value);
        if (!value || TREE_CODE(value) != INTEGER_CST)
            continue;
        const char *label = IDENTIFIER_POINTER(TREE_PURPOSE(e));
        tree text = build_string(strlen(label) + 1, label);
        TREE_TYPE(text) = build_array_type_nelts(char_type_node, strlen(label) + 1);
        list = tree_cons(text, build_int_cst(long_long_integer_type_node, mv_value_in_type(value, type)),
                         list);
    }
    if (list)
        remember(sw, MV_ATTR_DOMAIN, nreverse(list));
}

void mv_describe_switch(tree sw, const std::string &name)
{
    tree text = build_string(name.size() + 1, name.c_str());
    TREE_TYPE(text) = build_array_type_nelts(char_type_node, name.size() + 1);
    remember(sw, MV_ATTR_NAME, build_tree_list(NULL_TREE, text));
    if (!in_lto_p)
        remember_enumerators(sw);
}

/* A variable with member switches is written by others. */
static void describe_members(symtab_node *node)
{
    if (!VAR_P(node->decl) || mv_is_switch(node->decl) || TREE_CODE(TREE_TYPE(node->decl)) != RECORD_TYPE ||
        !DECL_NAME(node->decl))
        return;
    std::string name = switch_name(node->decl);
    tree text = build_string(name.size() + 1, name.c_str());
    TREE_TYPE(text) = build_array_type_nelts(char_type_node, name.size() + 1);
    tree attributes = DECL_ATTRIBUTES(node->decl);
    remember(node->decl, MV_ATTR_NAME, build_tree_list(NULL_TREE, text));
    if (mv_members(node->decl).empty()) {
        DECL_ATTRIBUTES(node->decl) = attributes;
        return;
    }
    DECL_PRESERVE_P(node->decl) = 1;
    node->force_output = node->definition;
}

/* The program has noinline; the plugin adds it to variation points itself. */
static bool is_never_inlined(tree fndecl)
{
    return lookup_attribute("noinline", DECL_ATTRIBUTES(fndecl)) ||
           lookup_attribute("noipa", DECL_ATTRIBUTES(fndecl));
}

void mv_describe_declarations()
{
    if (in_lto_p)
        return;
    symtab_node *node;
    FOR_EACH_SYMBOL(node) {
        tree decl = node->decl;
        if (mv_is_function(decl) && (has_conflict(decl) || is_idle_alias(node)))
            DECL_ATTRIBUTES(decl) = remove_attribute(MV_ATTR, DECL_ATTRIBUTES(decl));
        /* Not earlier: front ends warn of `inline` together with `noinline`. */
        if (mv_is_function(decl) && is_never_inlined(decl))
            remember(decl, MV_ATTR_NOINLINE, NULL_TREE);
        if (mv_is_function(decl))
            mv_make_noipa(decl);
        describe_members(node);
        if (mv_is_switch(decl)) {
            remember_name(decl);
            remember_enumerators(decl);
        } else if (mv_is_pointer(decl) || mv_is_function(decl)) {
            remember_name(decl);
        }
    }
}

std::string mv_display_name(const_tree decl)
{
    tree a = lookup_attribute(MV_ATTR_NAME, DECL_ATTRIBUTES(decl));
    if (a)
        return TREE_STRING_POINTER(TREE_VALUE(TREE_VALUE(a)));
    return DECL_NAME(decl) ? IDENTIFIER_POINTER(DECL_NAME(decl)) : "";
}

std::string mv_symbol(tree decl)
{
    HOST_WIDE_INT offset;
    const char *name = IDENTIFIER_POINTER(DECL_ASSEMBLER_NAME(mv_variable_of(decl, &offset)));
    return std::string(name[0] == '*' ? name + 1 : name) + (offset ? "+" + std::to_string(offset) : "");
}
