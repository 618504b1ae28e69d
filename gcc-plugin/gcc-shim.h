/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * gcc-shim.h: includes GCC's headers in their order, and hides the differences between versions.
 *
 * The plugin is written for GCC 12, and works with 11 to 16.  What another version renames or moves
 * is wrapped here, under a name that the other files use.  They contain no #if on GCC's version.
 */
#ifndef MULTIVERSE_GCC_SHIM_H
#define MULTIVERSE_GCC_SHIM_H

/* Before GCC's headers, which poison malloc and friends. */
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gcc-plugin.h"
#include "plugin-version.h"

#include "system.h"
#include "coretypes.h"
#include "tm.h"
#include "backend.h"
#include "target.h"
#include "rtl.h"
#include "tree.h"
#include "gimple.h"
#include "cfghooks.h"
#include "cfgloop.h"
#include "tree-pass.h"
#include "ssa.h"
#include "memmodel.h"
#include "emit-rtl.h"
#include "output.h"
#include "cgraph.h"
#include "diagnostic.h"
#include "fold-const.h"
#include "gimple-pretty-print.h"
#include "gimple-iterator.h"
#include "gimple-walk.h"
#include "gimple-fold.h"
#include "tree-cfg.h"
#include "tree-eh.h"
#include "tree-inline.h"
#include "predict.h"
#include "sreal.h"
#include "tree-into-ssa.h"
#include "tree-dfa.h"
#include "tree-ssa.h"
#include "tree-cfgcleanup.h"
#include "stringpool.h"
#include "attribs.h"
#include "langhooks.h"
#include "context.h"
#include "pass_manager.h"
#include "varasm.h"
#include "stor-layout.h"
#include "except.h"
#include "insn-constants.h"
#include "insn-codes.h"
#include "insn-config.h"
#include "recog.h"

#include "opts.h"

/* dwarf2out.h needs a header that is not installed. */
extern bool dwarf2out_do_cfi_asm(void);

#if GCCPLUGIN_VERSION_MAJOR < 11
#error "the multiverse plugin needs GCC 11 or later"
#endif

/* Turns warnings off or on; returns whether they were off. */
static inline bool shim_inhibit_warnings(bool off)
{
#if GCCPLUGIN_VERSION_MAJOR >= 14
    bool &inhibited = global_dc->m_inhibit_warnings;
#else
    bool &inhibited = global_dc->dc_inhibit_warnings;
#endif
    bool before = inhibited;

    inhibited = off;
    return before;
}

/* A copy of a function and its body, called "function.suffix".  gcov counts its lines. */
static inline cgraph_node *shim_clone(cgraph_node *of, const char *suffix)
{
#if GCCPLUGIN_VERSION_MAJOR >= 12
    cgraph_node *node = of->create_version_clone_with_body(vNULL, nullptr, nullptr, nullptr, nullptr,
                                                           suffix, NULL_TREE, false);
#else
    cgraph_node *node = of->create_version_clone_with_body(vNULL, nullptr, nullptr, nullptr,
                                                           nullptr, suffix);
    if (node) /* GCC 11 adds a number */
        symtab->change_decl_assembler_name(node->decl, clone_function_name(of->decl, suffix));
#endif
    if (node && flag_test_coverage)
        DECL_ARTIFICIAL(node->decl) = 0;
    return node;
}

/* Front ends keep this in a flag of their own until the structure is laid out (c-common.h). */
static inline bool shim_is_bit_field(const_tree field)
{
    return DECL_BIT_FIELD(field) || DECL_LANG_FLAG_4(field);
}

/* Whether it is an asm without operands. */
static inline bool shim_asm_basic_p(const gasm *statement)
{
#if GCCPLUGIN_VERSION_MAJOR >= 15
    return gimple_asm_basic_p(statement);
#else
    return gimple_asm_input_p(statement);
#endif
}

#endif
