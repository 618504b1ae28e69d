/* SPDX-License-Identifier: MIT
 *
 * frontend.h: shared by the files that use clang's syntax tree.
 */
#ifndef MULTIVERSE_CLANG_FRONTEND_H
#define MULTIVERSE_CLANG_FRONTEND_H

#include "clang/AST/Attr.h"
#include "clang/AST/Decl.h"
#include "clang/Basic/Diagnostic.h"

#include <map>
#include <string>

/* An attribute is stored as an annotation: this word and the words of its arguments, separated by
 * spaces, as "multiverse values 1 3".  For a member, an annotation would cause a call at each
 * access: there it is the argument of a "suppress", which generates no code. */
#define MV_ANNOTATION "multiverse"

/* ---- unit.cc: fills in mv_the_unit(); where the functions of ours are declared, by symbol. */
std::map<std::string, clang::SourceLocation> mv_declare(clang::ASTContext &context);

/* Diagnostics of plugins do not obey -w and -Werror by themselves. */
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
