/* SPDX-License-Identifier: MIT
 *
 * unit.cc: collects a unit's declarations, by symbol, for the passes, and reports errors in them.
 */
#include "frontend.h"
#include "multiverse.h"

#include "clang/AST/ASTContext.h"
#include "clang/AST/Mangle.h"
#include "clang/AST/RecordLayout.h"
#include "clang/AST/RecursiveASTVisitor.h"

#include <algorithm>
#include <sstream>

using namespace clang;

/* ---- what the passes ask ---------------------------------------------------------- */

mv_unit &mv_the_unit()
{
    static mv_unit unit;
    return unit;
}

std::string mv_symbol(const llvm::GlobalValue &global)
{
    return llvm::GlobalValue::dropLLVMManglingEscape(global.getName()).str();
}

const mv_switch *mv_switch_of(const llvm::GlobalVariable *variable)
{
    auto &switches = mv_the_unit().switches;
    auto it = switches.find(mv_symbol(*variable));
    return it == switches.end() ? nullptr : &it->second;
}

const std::vector<mv_switch> &mv_constants_of(const llvm::GlobalVariable &variable)
{
    static const std::vector<mv_switch> none;
    auto &constants = mv_the_unit().constants;
    auto it = constants.find(mv_symbol(variable));
    return it == constants.end() ? none : it->second;
}

const mv_point *mv_point_of(const llvm::Function &function)
{
    auto &points = mv_the_unit().points;
    auto it = points.find(mv_symbol(function));
    return it == points.end() ? nullptr : &it->second;
}

/* ---- declarations ---------------------------------------------------------------------- */

/* The words of all its attributes: a header may give the values and the definition "tracked". */
static bool words_of(const Decl *decl, std::vector<std::string> &words)
{
    bool found = false;
    auto add = [&](StringRef attribute) {
        std::istringstream text(attribute.str());
        std::string word;
        if (!(text >> word) || word != MV_ANNOTATION)
            return;
        found = true;
        while (text >> word)
            words.push_back(word);
    };
    for (const auto *a : decl->specific_attrs<AnnotateAttr>())
        add(a->getAnnotation());
    for (const auto *a : decl->specific_attrs<SuppressAttr>())
        for (StringRef argument : a->diagnosticIdentifiers())
            add(argument);
    return found;
}

static mv_wide wide_of(const llvm::APSInt &value)
{
    return value.isSigned() ? (mv_wide)value.getExtValue() : (mv_wide)value.getZExtValue();
}

namespace {

class visitor : public RecursiveASTVisitor<visitor> {
public:
    visitor(ASTContext &context) : context(context), to(context.getDiagnostics()), names(context) {}
    std::map<std::string, SourceLocation> places; /* of functions, by symbol */
    std::vector<const FunctionDecl *> aliases;

    bool shouldVisitTemplateInstantiations() const { return true; }
    bool VisitVarDecl(VarDecl *decl);
    bool VisitFieldDecl(FieldDecl *decl);
    bool VisitFunctionDecl(FunctionDecl *decl);
    void finish();

private:
    ASTContext &context;
    DiagnosticsEngine &to;
    ASTNameGenerator names;
    std::set<const FieldDecl *> members; /* that are constants */
    std::vector<const VarDecl *> objects; /* that may have some */
    std::set<const Decl *> seen; /* a template's specialisations come twice */

    bool type_is_good(const DeclaratorDecl *decl, bool is_constant);
    bool is_changed_at_run_time(const DeclaratorDecl *decl);
    mv_switch switch_of(const DeclaratorDecl *decl, const std::vector<std::string> &words);
    void warn_of_constant(const DeclaratorDecl *decl);
    void constants_in(const RecordDecl *type, uint64_t offset, const std::string &name, std::vector<mv_switch> &out);
    void values_of(const VarDecl *decl, const std::vector<std::string> &words, mv_switch &out);
    void enumerators_of(const EnumDecl *type, mv_switch &out);
};

} // namespace

bool visitor::is_changed_at_run_time(const DeclaratorDecl *decl)
{
    QualType type = decl->getType();
    if (type.isVolatileQualified())
        mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: every read of the volatile "
                   "variable %0 must be made") << decl;
    else if (type.isConstQualified())
        mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: %0 is constant") << decl;
    return !type.isVolatileQualified() && !type.isConstQualified();
}

bool visitor::type_is_good(const DeclaratorDecl *decl, bool is_constant)
{
    QualType type = decl->getType().getCanonicalType();
    SourceLocation at = decl->getLocation();
    auto *variable = dyn_cast<VarDecl>(decl);
    if (variable && variable->getTLSKind() != VarDecl::TLS_None) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': it is thread-local") << decl;
    } else if (variable && variable->getStorageClass() == SC_Register) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': it is a register") << decl;
    } else if (type->isAtomicType()) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': it is '_Atomic'") << decl;
    } else if (type->isPointerType() && is_constant) {
        return is_changed_at_run_time(decl);
    } else if (type->isFunctionPointerType()) {
        mv_warning(to, at, "attribute 'multiverse' of function pointer %0 ignored: clang's plugin leaves "
                   "calls through pointers alone") << decl;
    } else if (!type->isIntegralOrEnumerationType()) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': neither an integer, a Boolean nor an "
                 "enumeration") << decl;
    } else if (type->isIncompleteType() || context.getTypeSize(type) > 64) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': a switch has 1 to 8 bytes") << decl;
    } else if (!type->isBooleanType() && !type->isEnumeralType() &&
               context.getIntWidth(type) != context.getTypeSize(type)) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': its type has padding bits") << decl;
    } else {
        return is_changed_at_run_time(decl);
    }
    return false;
}

void visitor::values_of(const VarDecl *decl, const std::vector<std::string> &words, mv_switch &out)
{
    mv_piece all = mv_all_values(out);
    for (const std::string &word : words) {
        llvm::APInt value(128, 0);
        bool negative = word[0] == '-';
        if (llvm::StringRef(word).drop_front(negative).getAsInteger(10, value))
            continue; /* no number */
        mv_wide v = value.getLimitedValue();
        v = negative ? -v : v;
        if (v < all.low || v > all.high)
            mv_error(to, decl->getLocation(), "value '%0' in attribute 'multiverse' does not fit the type "
                     "of switch %1") << word << decl;
        else if (std::none_of(out.values.begin(), out.values.end(),
                              [&](const mv_value &o) { return o.piece.low == v; }))
            out.values.push_back(mv_value_of({v, v}, all));
    }
}

void visitor::enumerators_of(const EnumDecl *type, mv_switch &out)
{
    for (const EnumConstantDecl *e : type->enumerators()) {
        mv_wide v = wide_of(e->getInitVal());
        mv_value value = mv_value_of({v, v}, {0, -1});
        value.label = e->getName().str();
        if (std::none_of(out.values.begin(), out.values.end(),
                         [&](const mv_value &o) { return o.piece.low == v; }))
            out.values.push_back(value);
    }
}

static bool says(const std::vector<std::string> &words, const char *word)
{
    return std::find(words.begin(), words.end(), word) != words.end();
}

mv_switch visitor::switch_of(const DeclaratorDecl *decl, const std::vector<std::string> &words)
{
    mv_switch out;
    QualType type = decl->getType().getCanonicalType();
    auto *enumeration = type->getAs<EnumType>();
    QualType plain = enumeration ? enumeration->getDecl()->getIntegerType() : type;
    out.name = decl->getQualifiedNameAsString();
    out.width = context.getTypeSize(type) / 8;
    out.is_signed = plain->isSignedIntegerType();
    out.is_bool = plain->isBooleanType();
    out.is_tracked = says(words, "tracked");
    out.is_constant = says(words, "constant");
    return out;
}

void visitor::warn_of_constant(const DeclaratorDecl *decl)
{
    mv_warning(to, decl->getLocation(), "the reads of %0 stay reads: clang's plugin makes no immediates of "
               "what is multiverse(\"constant\")") << decl;
}

/* The constants of an object of this type: its own members, and those of members and bases. */
void visitor::constants_in(const RecordDecl *type, uint64_t offset, const std::string &name,
                           std::vector<mv_switch> &out)
{
    if (!type || type->isUnion() || !type->isCompleteDefinition() || type->isInvalidDecl())
        return;
    const ASTRecordLayout &layout = context.getASTRecordLayout(type);
    if (auto *with_bases = dyn_cast<CXXRecordDecl>(type))
        for (const CXXBaseSpecifier &base : with_bases->bases())
            if (auto *record = base.isVirtual() ? nullptr : base.getType()->getAsCXXRecordDecl())
                constants_in(record, offset + layout.getBaseClassOffset(record).getQuantity(), name, out);
    for (const FieldDecl *field : type->fields()) {
        std::vector<std::string> words;
        uint64_t at = offset + layout.getFieldOffset(field->getFieldIndex()) / 8;
        std::string full = name + (field->getDeclName() ? "." + field->getNameAsString() : "");
        constants_in(field->getType()->getAsRecordDecl(), at, full, out);
        if (!members.count(field->getCanonicalDecl()) || !words_of(field, words))
            continue;
        mv_switch member = switch_of(field, words);
        member.name = full;
        member.offset = at;
        out.push_back(member);
    }
}

/* attributes.cc accepts constants only. */
bool visitor::VisitFieldDecl(FieldDecl *decl)
{
    std::vector<std::string> words;
    if (decl->getType()->isDependentType() || decl->getDeclContext()->isDependentContext() ||
        !words_of(decl, words) || !seen.insert(decl).second || !type_is_good(decl, true))
        return true;
    members.insert(decl);
    warn_of_constant(decl);
    return true;
}

bool visitor::VisitVarDecl(VarDecl *decl)
{
    std::vector<std::string> words;
    if (decl != decl->getMostRecentDecl() || decl->getType()->isDependentType() ||
        decl->getDeclContext()->isDependentContext() || decl->getDescribedVarTemplate())
        return true;
    if (decl->getType()->isRecordType() && decl->hasGlobalStorage() && !decl->isLocalVarDecl())
        objects.push_back(decl);
    if (!words_of(decl, words) || !seen.insert(decl).second || !type_is_good(decl, says(words, "constant")))
        return true;
    std::string symbol = names.getName(decl);
    mv_switch out = switch_of(decl, words);
    if (out.is_constant) {
        warn_of_constant(decl);
        mv_the_unit().constants[symbol] = {out};
        return true;
    }
    values_of(decl, words, out);
    auto *enumeration = decl->getType().getCanonicalType()->getAs<EnumType>();
    if (out.values.empty() && enumeration)
        enumerators_of(enumeration->getDecl(), out);
    if (out.values.empty() && out.is_bool)
        out.values = {mv_value_of({0, 0}, {0, 1}), mv_value_of({1, 1}, {0, 1})};
    mv_the_unit().switches[symbol] = out;
    return true;
}

/* Attributes that exclude ours. */
static const char *conflict(const FunctionDecl *decl)
{
    return decl->hasAttr<AlwaysInlineAttr>() ? "always_inline"
           : decl->hasAttr<NakedAttr>()      ? "naked"
           : decl->hasAttr<IFuncAttr>()      ? "ifunc"
           : decl->isMultiVersion()          ? "target"
                                             : nullptr;
}

bool visitor::VisitFunctionDecl(FunctionDecl *decl)
{
    mv_point out;
    std::vector<std::string> words;
    if (decl != decl->getMostRecentDecl() || decl->isDependentContext() || !words_of(decl, words) ||
        !seen.insert(decl).second)
        return true;
    if (const char *other = conflict(decl)) {
        mv_error(to, decl->getLocation(), "function %0 cannot be 'multiverse' and '%1'") << decl << other;
        return true;
    }
    if (decl->hasAttr<AliasAttr>()) {
        aliases.push_back(decl);
        return true;
    }
    out.name = decl->getQualifiedNameAsString();
    out.is_bound = !words.empty();
    for (const std::string &word : words)
        if (word != "bind")
            out.bound.push_back(word);
    std::string symbol = names.getName(decl);
    mv_the_unit().points[symbol] = out;
    places[symbol] = decl->getLocation();
    return true;
}

/* An alias is a variation point only if its target is one. */
void visitor::finish()
{
    for (const VarDecl *decl : objects) {
        std::vector<mv_switch> found;
        QualType type = decl->getType();
        if (!type.isConstQualified() && !type.isVolatileQualified() && decl->getTLSKind() == VarDecl::TLS_None)
            constants_in(type->getAsRecordDecl(), 0, decl->getQualifiedNameAsString(), found);
        if (!found.empty())
            mv_the_unit().constants[names.getName(decl)] = found;
    }
    for (const FunctionDecl *decl : aliases)
        if (!mv_the_unit().points.count(decl->getAttr<AliasAttr>()->getAliasee().str()))
            mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: %0 is an alias of a "
                       "function without it") << decl;
}

std::map<std::string, SourceLocation> mv_declare(ASTContext &context)
{
    visitor v(context);
    v.TraverseDecl(context.getTranslationUnitDecl());
    v.finish();
    return v.places;
}
