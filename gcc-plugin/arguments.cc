/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * arguments.cc: reads the arguments of __attribute__((multiverse)) and reports errors in them
 * (attributes.cc lists the forms).
 */
#include "multiverse.h"

/* An argument may come wrapped in conversions, as the address of a string, as a
 * C++ constant, or as a comma expression whose parts are in order. */
static void flatten(tree t, std::vector<tree> &out)
{
    while (CONVERT_EXPR_P(t) || TREE_CODE(t) == NON_LVALUE_EXPR || TREE_CODE(t) == ADDR_EXPR ||
           TREE_CODE(t) == EXCESS_PRECISION_EXPR || TREE_CODE(t) == ARRAY_REF)
        t = TREE_OPERAND(t, 0);
    if (TREE_CODE(t) == COMPOUND_EXPR) {
        flatten(TREE_OPERAND(t, 0), out);
        flatten(TREE_OPERAND(t, 1), out);
        return;
    }
    if (TREE_CODE(t) == CONST_DECL)
        t = DECL_INITIAL(t);
    else if (TREE_CODE(t) != STRING_CST)
        t = fold(t);
    out.push_back(t);
}

static std::vector<tree> flat_arguments(tree args)
{
    std::vector<tree> out;
    for (; args; args = TREE_CHAIN(args))
        flatten(TREE_VALUE(args), out);
    return out;
}

static const char *string_of(tree t)
{
    return TREE_CODE(t) == STRING_CST ? TREE_STRING_POINTER(t) : nullptr;
}

/* All arguments of all `multiverse` attributes of a declaration: a header may
 * give the values and the definition "tracked". */
static std::vector<tree> all_arguments(const_tree decl)
{
    std::vector<tree> out;
    for (tree a = lookup_attribute(MV_ATTR, DECL_ATTRIBUTES(decl)); a;
         a = lookup_attribute(MV_ATTR, TREE_CHAIN(a)))
        for (tree t : flat_arguments(TREE_VALUE(a)))
            out.push_back(t);
    return out;
}

static bool says(const std::vector<tree> &arguments, const char *word)
{
    return std::any_of(arguments.begin(), arguments.end(), [&](tree t) {
        return string_of(t) && !strcmp(string_of(t), word);
    });
}

bool mv_is_tracked(const_tree sw)
{
    return says(all_arguments(sw), "tracked");
}

bool mv_is_constant(const_tree decl)
{
    return VAR_P(decl) && says(all_arguments(decl), "constant");
}

bool mv_is_inline(const_tree fn)
{
    return says(all_arguments(fn), "inline");
}

bool mv_says_constant(tree args)
{
    return says(flat_arguments(args), "constant");
}

int64_t mv_value_in_type(tree constant, const_tree type)
{
    auto value = wi::to_wide(fold_convert(const_cast<tree>(type), constant));
    return TYPE_UNSIGNED(type) ? (int64_t)value.to_uhwi() : value.to_shwi();
}

std::vector<int64_t> mv_values(const_tree sw)
{
    std::vector<int64_t> out;
    bool in_values = false;
    for (tree t : all_arguments(sw)) {
        if (string_of(t))
            in_values = !strcmp(string_of(t), "values");
        else if (in_values && TREE_CODE(t) == INTEGER_CST) {
            int64_t v = mv_value_in_type(t, TREE_TYPE(sw));
            if (std::find(out.begin(), out.end(), v) == out.end())
                out.push_back(v);
        }
    }
    return out;
}

bool mv_bind_names(const_tree fn, std::vector<std::string> &names)
{
    bool in_bind = false, found = false;
    for (tree t : all_arguments(fn)) {
        const char *s = string_of(t);
        if (!s)
            continue;
        if (!in_bind && !strcmp(s, "bind"))
            found = in_bind = true;
        else if (in_bind && strcmp(s, "bind") && strcmp(s, "inline"))
            names.push_back(s);
    }
    return found;
}

/* The C++ front end evaluates an argument first, and keeps only the last part of a comma
 * expression. */
static void explain_parentheses(location_t loc, const char *form)
{
    if (!strncmp(lang_hooks.name, "GNU C++", 7))
        inform(loc, "%s", form);
}

bool mv_check_switch_arguments(tree decl, tree args)
{
    location_t loc = DECL_SOURCE_LOCATION(decl);
    bool in_values = false, some = true;
    for (tree t : flat_arguments(args)) {
        const char *s = string_of(t);
        if (s && !some)
            break;
        if (s && (!strcmp(s, "tracked") || !strcmp(s, "constant"))) {
            in_values = false;
        } else if (s && !strcmp(s, "values")) {
            in_values = true;
            some = false;
        } else if (s) {
            error_at(loc, "unknown argument %qs of attribute %<multiverse%> of switch %qD", s, decl);
            inform(loc, "known are %<\"values\", 1, 3, 5%>, %<\"tracked\"%> and %<\"constant\"%>");
            return false;
        } else if (!in_values) {
            error_at(loc, "argument of attribute %<multiverse%> of switch %qD must begin with "
                     "a string", decl);
            explain_parentheses(loc, "in C++ write multiverse(\"values\", 1, 3, 5), without inner "
                                     "parentheses");
            return false;
        } else if (TREE_CODE(t) != INTEGER_CST) {
            error_at(loc, "value in attribute %<multiverse%> of switch %qD is not an integer "
                     "constant", decl);
            return false;
        } else {
            some = true;
            if (!int_fits_type_p(t, TREE_TYPE(decl))) {
                error_at(loc, "value %qE in attribute %<multiverse%> does not fit the type of "
                         "switch %qD", t, decl);
                return false;
            }
        }
    }
    if (!some)
        error_at(loc, "%<\"values\"%> in attribute %<multiverse%> of switch %qD without a value",
                 decl);
    if (some && says(flat_arguments(args), "values") &&
        (mv_is_constant(decl) || says(flat_arguments(args), "constant"))) {
        error_at(loc, "%<\"values\"%> in attribute %<multiverse%> of %qD, which is %<\"constant\"%>: "
                 "nothing is specialised for it", decl);
        return false;
    }
    return some;
}

bool mv_check_function_arguments(tree decl, tree args)
{
    location_t loc = DECL_SOURCE_LOCATION(decl);
    std::vector<tree> flat = flat_arguments(args);
    if (flat.empty())
        return true;
    if (string_of(flat[0]) && !strcmp(string_of(flat[0]), "inline"))
        flat.erase(flat.begin());
    for (size_t i = 0; i < flat.size(); i++) {
        const char *s = string_of(flat[i]);
        if (!s || (i == 0 && strcmp(s, "bind"))) {
            error_at(loc, "argument of attribute %<multiverse%> of function %qD must be "
                     "%<\"inline\"%> or %<\"bind\", \"switch\", …%>", decl);
            explain_parentheses(loc, "in C++ write multiverse(\"bind\", \"a\", \"b\"), without inner "
                                     "parentheses");
            return false;
        }
    }
    if (flat.size() == 1) {
        error_at(loc, "%<\"bind\"%> in attribute %<multiverse%> of function %qD without a switch",
                 decl);
        return false;
    }
    return true;
}
