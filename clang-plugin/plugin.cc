/* SPDX-License-Identifier: MIT
 *
 * plugin.cc: the plugin as clang sees it: options, and what happens when a unit is parsed.
 *
 * It registers the passes by adding its own file as -fpass-plugin= would.
 */
#include "frontend.h"
#include "multiverse.h"

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ASTContext.h"
#include "clang/Basic/Version.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>

using namespace clang;

namespace {

class consumer : public ASTConsumer {
public:
    consumer(CompilerInstance &compiler) : compiler(compiler) {}

    void HandleTranslationUnit(ASTContext &context) override
    {
        std::map<std::string, SourceLocation> places = mv_declare(context);
        mv_unit &unit = mv_the_unit();
        DiagnosticsEngine &to = context.getDiagnostics();
        std::string why = obstacle();
        if (!why.empty() && !(unit.switches.empty() && unit.points.empty() && unit.constants.empty())) {
            mv_warning(to, {}, "this unit is not multiversed: %0") << why;
            unit.switches.clear();
            unit.points.clear();
            unit.constants.clear();
        }
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
        for (const std::string &other : plugins) /* this file, given by -fpass-plugin= */
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
