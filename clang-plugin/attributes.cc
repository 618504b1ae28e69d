/* SPDX-License-Identifier: MIT
 *
 * attributes.cc: __attribute__((multiverse)) in the parser: what may carry it, and its arguments.
 * Checks of the whole declaration come at the end of the unit (unit.cc).
 *
 *   __attribute__((multiverse))                          variable, function
 *   __attribute__((multiverse("values", 1, 3, 5)))       switch
 *   __attribute__((multiverse("tracked")))               switch
 *   __attribute__((multiverse("constant")))              variable, member: its reads stay reads
 *   __attribute__((multiverse("bind", "a", "b")))        function
 */
#include "frontend.h"

#include "clang/AST/ASTContext.h"
#include "clang/AST/DeclCXX.h"
#include "clang/AST/Expr.h"
#include "clang/Basic/TargetInfo.h"
#include "clang/Sema/ParsedAttr.h"
#include "clang/Sema/Sema.h"

#include <algorithm>

using namespace clang;

/* ---- arguments --------------------------------------------------------------------- */

namespace {
struct argument {
    bool is_string = false, is_integer = false;
    std::string text; /* also of an integer */
};
} // namespace

/* The paper writes ("values", 1, 3) in parentheses. */
static void flatten(Sema &sema, Expr *e, std::vector<argument> &out)
{
    e = e->IgnoreParenImpCasts();
    auto *both = dyn_cast<BinaryOperator>(e);
    if (both && both->getOpcode() == BO_Comma) {
        flatten(sema, both->getLHS(), out);
        flatten(sema, both->getRHS(), out);
        return;
    }
    argument a;
    Expr::EvalResult value;
    if (auto *string = dyn_cast<StringLiteral>(e)) {
        a.is_string = string->isAscii();
        a.text = a.is_string ? string->getString().str() : "";
    } else if (!e->isValueDependent() && e->getType()->isIntegralOrEnumerationType() &&
               e->EvaluateAsInt(value, sema.Context)) {
        a.is_integer = true;
        a.text = llvm::toString(value.Val.getInt(), 10);
    }
    out.push_back(a);
}

static std::vector<argument> arguments(Sema &sema, const ParsedAttr &attribute)
{
    std::vector<argument> out;
    for (unsigned i = 0; i < attribute.getNumArgs(); i++)
        if (attribute.isArgExpr(i))
            flatten(sema, attribute.getArgAsExpr(i), out);
        else
            out.push_back({});
    return out;
}

/* Report errors in the arguments, or add them as words; true if there is no error. */
static bool read_switch(Sema &sema, const DeclaratorDecl *decl, const std::vector<argument> &list, std::string &words)
{
    DiagnosticsEngine &to = sema.Diags;
    SourceLocation at = decl->getLocation();
    bool in_values = false, some = true, constant = false, values = false;
    for (const argument &a : list) {
        if (a.is_string && !some)
            break;
        if (a.is_string && (a.text == "tracked" || a.text == "constant")) {
            in_values = false;
            constant |= a.text == "constant";
        } else if (a.is_string && a.text == "values") {
            in_values = values = true;
            some = false;
        } else if (a.is_string) {
            mv_error(to, at, "unknown argument '%0' of attribute 'multiverse' of switch %1; known are "
                     "\"values\", 1, 3, 5; \"tracked\"; \"constant\"") << a.text << decl;
            return false;
        } else if (!in_values) {
            mv_error(to, at, "argument of attribute 'multiverse' of switch %0 must begin with a string")
                << decl;
            return false;
        } else if (!a.is_integer) {
            mv_error(to, at, "value in attribute 'multiverse' of switch %0 is not an integer constant")
                << decl;
            return false;
        } else {
            some = true;
        }
        words += " " + a.text;
    }
    if (!some)
        mv_error(to, at, "\"values\" in attribute 'multiverse' of switch %0 without a value") << decl;
    if (some && constant && values)
        mv_error(to, at, "\"values\" in attribute 'multiverse' of %0, which is \"constant\": nothing is "
                 "specialised for it") << decl;
    return some && !(constant && values);
}

static bool read_function(Sema &sema, FunctionDecl *decl, std::vector<argument> list, std::string &words)
{
    DiagnosticsEngine &to = sema.Diags;
    SourceLocation at = decl->getLocation();
    if (!list.empty() && list[0].is_string && list[0].text == "inline") {
        mv_warning(to, at, "\"inline\" in attribute 'multiverse' of function %0 ignored: clang's plugin "
                   "leaves calls to the entry") << decl;
        list.erase(list.begin());
    }
    for (size_t i = 0; i < list.size(); i++) {
        if (!list[i].is_string || (i == 0 && list[i].text != "bind")) {
            mv_error(to, at, "argument of attribute 'multiverse' of function %0 must be \"bind\", "
                     "\"switch\", ...") << decl;
            return false;
        }
        words += " " + list[i].text;
    }
    if (list.size() == 1)
        mv_error(to, at, "\"bind\" in attribute 'multiverse' of function %0 without a switch") << decl;
    return list.size() != 1;
}

/* ---- the attribute --------------------------------------------------------------------- */

static bool is_allowed(Sema &sema, Decl *decl, const ParsedAttr &attribute, std::string &words)
{
    DiagnosticsEngine &to = sema.Diags;
    SourceLocation at = decl->getLocation();
    if (auto *function = dyn_cast<FunctionDecl>(decl)) {
        if (!isa<CXXConstructorDecl>(decl) && !isa<CXXDestructorDecl>(decl))
            return read_function(sema, function, arguments(sema, attribute), words);
        mv_error(to, at, "%0 cannot be 'multiverse': a constructor or destructor has several bodies")
            << function;
    } else if (auto *parameter = dyn_cast<ParmVarDecl>(decl)) {
        mv_error(to, at, "parameter %0 cannot be 'multiverse': a switch is a global variable") << parameter;
    } else if (auto *variable = dyn_cast<VarDecl>(decl)) {
        if (!variable->isLocalVarDecl() || variable->hasExternalStorage())
            return read_switch(sema, variable, arguments(sema, attribute), words);
        mv_error(to, at, "variable %0 cannot be 'multiverse': it is local to a function") << variable;
    } else if (auto *field = dyn_cast<FieldDecl>(decl)) {
        std::vector<argument> list = arguments(sema, attribute);
        if (std::any_of(list.begin(), list.end(), [](const argument &a) { return a.text == "constant"; }) &&
            !field->isBitField())
            return read_switch(sema, field, list, words);
        mv_warning(to, at, "attribute 'multiverse' of member %0 ignored: clang's plugin specialises for "
                   "whole variables only") << field;
    } else {
        mv_warning(to, at, "attribute 'multiverse' ignored: it is for variables and functions");
    }
    return false;
}

namespace {

struct multiverse_attribute : public ParsedAttrInfo {
    multiverse_attribute()
    {
        static constexpr Spelling spellings[] = {{ParsedAttr::AS_GNU, "multiverse"},
                                                 {ParsedAttr::AS_C2x, "gnu::multiverse"},
                                                 {ParsedAttr::AS_CXX11, "gnu::multiverse"}};
        OptArgs = 15; /* any number */
        Spellings = spellings;
    }

    bool existsInTarget(const TargetInfo &target) const override
    {
        return target.getTriple().getArch() == llvm::Triple::x86_64 && target.getTriple().isOSBinFormatELF();
    }

    AttrHandling handleDeclAttribute(Sema &sema, Decl *decl, const ParsedAttr &attribute) const override
    {
        std::string words = MV_ANNOTATION;
        if (!is_allowed(sema, decl, attribute, words))
            return AttributeNotApplied;
        StringRef kept = StringRef(words).copy(sema.Context.getAllocator());
        if (isa<FieldDecl>(decl))
            decl->addAttr(SuppressAttr::Create(sema.Context, &kept, 1, attribute));
        else
            decl->addAttr(AnnotateAttr::Create(sema.Context, kept, nullptr, 0, attribute));
        return AttributeApplied;
    }
};

} // namespace

static ParsedAttrInfoRegistry::Add<multiverse_attribute> registered("multiverse", "");
