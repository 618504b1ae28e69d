/* SPDX-License-Identifier: MIT
 *
 * unit.cc: what a unit declares, by symbol, for the passes; and what is wrong with it.
 *
 * The passes come with the plugin: it enters its own file where -fpass-plugin= would.
 */
#include "frontend.h"
#include "multiverse.h"

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ASTContext.h"
#include "clang/AST/Mangle.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/Version.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>
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
    for (const auto *a : decl->specific_attrs<AnnotateAttr>()) {
        std::istringstream text(a->getAnnotation().str());
        std::string word;
        if (!(text >> word) || word != MV_ANNOTATION)
            continue;
        found = true;
        while (text >> word)
            words.push_back(word);
    }
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
    bool VisitFunctionDecl(FunctionDecl *decl);
    void finish();

private:
    ASTContext &context;
    DiagnosticsEngine &to;
    ASTNameGenerator names;
    std::set<const Decl *> seen; /* a template's specialisations come twice */

    bool type_is_good(const VarDecl *decl, bool is_constant);
    bool is_changed_at_run_time(const VarDecl *decl);
    void values_of(const VarDecl *decl, const std::vector<std::string> &words, mv_switch &out);
    void enumerators_of(const EnumDecl *type, mv_switch &out);
};

} // namespace

bool visitor::is_changed_at_run_time(const VarDecl *decl)
{
    QualType type = decl->getType();
    if (type.isVolatileQualified())
        mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: every read of the volatile "
                   "variable %0 must be made") << decl;
    else if (type.isConstQualified())
        mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: %0 is constant") << decl;
    return !type.isVolatileQualified() && !type.isConstQualified();
}

bool visitor::type_is_good(const VarDecl *decl, bool is_constant)
{
    QualType type = decl->getType().getCanonicalType();
    SourceLocation at = decl->getLocation();
    if (decl->getTLSKind() != VarDecl::TLS_None) {
        mv_error(to, at, "variable %0 cannot be 'multiverse': it is thread-local") << decl;
    } else if (decl->getStorageClass() == SC_Register) {
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

bool visitor::VisitVarDecl(VarDecl *decl)
{
    std::vector<std::string> words;
    if (decl != decl->getMostRecentDecl() || decl->getType()->isDependentType() ||
        decl->getDeclContext()->isDependentContext() || decl->getDescribedVarTemplate() ||
        !words_of(decl, words) || !seen.insert(decl).second)
        return true;
    auto says = [&](const char *word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    mv_switch out;
    out.is_constant = says("constant");
    if (!type_is_good(decl, out.is_constant))
        return true;
    QualType type = decl->getType().getCanonicalType();
    auto *enumeration = type->getAs<EnumType>();
    QualType plain = enumeration ? enumeration->getDecl()->getIntegerType() : type;
    out.name = decl->getQualifiedNameAsString();
    out.width = context.getTypeSize(type) / 8;
    out.is_signed = plain->isSignedIntegerType();
    out.is_bool = plain->isBooleanType();
    out.is_tracked = says("tracked");
    values_of(decl, words, out);
    if (out.values.empty() && enumeration)
        enumerators_of(enumeration->getDecl(), out);
    if (out.values.empty() && out.is_bool)
        out.values = {mv_value_of({0, 0}, {0, 1}), mv_value_of({1, 1}, {0, 1})};
    if (out.is_constant)
        mv_warning(to, decl->getLocation(), "the reads of %0 stay reads: clang's plugin makes no "
                   "immediates of what is multiverse(\"constant\")") << decl;
    mv_the_unit().switches[names.getName(decl)] = out;
    return true;
}

/* What the attribute cannot stand together with. */
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

/* An alias is as much of a variation point as what it names. */
void visitor::finish()
{
    for (const FunctionDecl *decl : aliases)
        if (!mv_the_unit().points.count(decl->getAttr<AliasAttr>()->getAliasee().str()))
            mv_warning(to, decl->getLocation(), "attribute 'multiverse' ignored: %0 is an alias of a "
                       "function without it") << decl;
}

/* ---- the plugin ---------------------------------------------------------------------------- */

namespace {

class consumer : public ASTConsumer {
public:
    consumer(CompilerInstance &compiler) : compiler(compiler) {}

    void HandleTranslationUnit(ASTContext &context) override
    {
        visitor v(context);
        v.TraverseDecl(context.getTranslationUnitDecl());
        v.finish();
        mv_unit &unit = mv_the_unit();
        DiagnosticsEngine &to = context.getDiagnostics();
        std::string why = obstacle();
        if (!why.empty() && !(unit.switches.empty() && unit.points.empty())) {
            mv_warning(to, {}, "this unit is not multiversed: %0") << why;
            unit.switches.clear();
            unit.points.clear();
        }
        auto places = v.places;
        unit.warn = [&to, places](const llvm::Function &f, const std::string &text) {
            mv_warning(to, places.at(mv_symbol(f)), "%0") << text;
        };
        unit.remark = [&to, places](const llvm::Function &f, const std::string &text) {
            to.Report(places.at(mv_symbol(f)), to.getCustomDiagID(DiagnosticsEngine::Remark, "%0")) << text;
        };
    }

private:
    CompilerInstance &compiler;

    std::string obstacle() const
    {
        const CodeGenOptions &options = compiler.getCodeGenOpts();
        return options.PrepareForLTO || options.PrepareForThinLTO ? "clang's plugin cannot see through -flto"
               : options.LegacyPassManager ? "clang's plugin needs the new pass manager"
               : options.CodeModel == "large" ? "descriptors do not reach through the large code model"
                                              : "";
    }
};

class action : public PluginASTAction {
public:
    ActionType getActionType() override { return AddBeforeMainAction; }

    std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance &compiler, StringRef) override
    {
        Dl_info self;
        auto &plugins = compiler.getCodeGenOpts().PassPlugins;
        bool differ = dladdr((void *)mv_the_unit, &self);
        for (const std::string &other : plugins) /* the same one, by -fpass-plugin= */
            differ &= !llvm::sys::fs::equivalent(other, self.dli_fname);
        if (differ)
            plugins.push_back(self.dli_fname);
        return std::make_unique<consumer>(compiler);
    }

    bool ParseArgs(const CompilerInstance &compiler, const std::vector<std::string> &arguments) override
    {
        DiagnosticsEngine &to = compiler.getDiagnostics();
        if (getClangFullVersion().find(CLANG_VERSION_STRING) == std::string::npos) {
            mv_error(to, {}, "the multiverse plugin was built for clang %0, this is %1")
                << CLANG_VERSION_STRING << getClangFullVersion();
            return false;
        }
        for (const std::string &argument : arguments)
            if (!read_option(to, argument))
                return false;
        return true;
    }

private:
    static bool read_option(DiagnosticsEngine &to, llvm::StringRef argument)
    {
        mv_unit &unit = mv_the_unit();
        if (argument == "verbose") {
            unit.verbose = true;
            return true;
        }
        if (!argument.consume_front("max-variants=")) {
            mv_error(to, {}, "unknown option -fplugin-arg-multiverse-%0; known are max-variants= and verbose")
                << argument;
            return false;
        }
        if (!argument.getAsInteger(10, unit.max_variants) && unit.max_variants <= 512)
            return true;
        mv_error(to, {}, "-fplugin-arg-multiverse-max-variants=%0 is not a number from 0 to 512") << argument;
        return false;
    }
};

} // namespace

static FrontendPluginRegistry::Add<action> registered("multiverse", "variants of functions for the "
                                                      "values of configuration switches");
