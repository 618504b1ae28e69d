/* SPDX-License-Identifier: MIT
 *
 * frontend.h: what the files share that know clang's syntax tree.
 */
#ifndef MULTIVERSE_CLANG_FRONTEND_H
#define MULTIVERSE_CLANG_FRONTEND_H

#include "clang/AST/Attr.h"
#include "clang/AST/Decl.h"
#include "clang/Basic/Diagnostic.h"

#include <map>
#include <string>

/* An attribute is kept as an annotation: this word and those of its arguments, with spaces between,
 * as "multiverse values 1 3".  Of a member, an annotation would be a call at each access: there it is
 * the argument of a "suppress", of which the compiler makes nothing. */
#define MV_ANNOTATION "multiverse"

/* ---- unit.cc: fills in mv_the_unit(); where the functions of ours are declared, by symbol. */
std::map<std::string, clang::SourceLocation> mv_declare(clang::ASTContext &context);

/* Diagnostics of plugins heed no -w and -Werror by themselves. */
template <unsigned N>
clang::DiagnosticBuilder mv_warning(clang::DiagnosticsEngine &to, clang::SourceLocation at,
                                    const char (&text)[N])
{
    typedef clang::DiagnosticsEngine engine;
    engine::Level level = to.getIgnoreAllWarnings() ? engine::Ignored
                          : to.getWarningsAsErrors() ? engine::Error : engine::Warning;
    return to.Report(at, to.getCustomDiagID(level, text));
}

template <unsigned N>
clang::DiagnosticBuilder mv_error(clang::DiagnosticsEngine &to, clang::SourceLocation at,
                                  const char (&text)[N])
{
    return to.Report(at, to.getCustomDiagID(clang::DiagnosticsEngine::Error, text));
}

#endif
