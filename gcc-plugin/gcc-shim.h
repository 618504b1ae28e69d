/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * gcc-shim.h: the one place that knows GCC's headers, their order, and what
 * differs between versions.
 *
 * The plugin is written for GCC 12.  Whatever 13, 14 and 15 renamed or moved is
 * wrapped here, under a name that the other files use; they contain no #if on
 * GCC's version.
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
#include "tree-into-ssa.h"
#include "tree-dfa.h"
#include "tree-ssa.h"
#include "tree-cfgcleanup.h"
#include "stringpool.h"
#include "attribs.h"
#include "langhooks.h"
#include "lto-streamer.h"
#include "context.h"
#include "pass_manager.h"
#include "varasm.h"
#include "stor-layout.h"
#include "except.h"
#include "insn-constants.h"
#include "insn-codes.h"

#include "opts.h"

/* dwarf2out.h needs a header that is not installed. */
extern bool dwarf2out_do_cfi_asm(void);

#if GCCPLUGIN_VERSION_MAJOR < 12
#error "the multiverse plugin needs GCC 12 or later"
#endif

/* GCC 14 made the name of a pass's execute() argument and the vec<> of the
 * attribute table scoped; registration of one attribute stayed as it is.
 * GCC 13 changed `add_reg_note`-free helpers only.  GCC 15 dropped TODO_verify_*.
 */
#if GCCPLUGIN_VERSION_MAJOR >= 15
#define SHIM_ASM_VOLATILE(stmt) gimple_asm_set_volatile((stmt), true)
#else
#define SHIM_ASM_VOLATILE(stmt) gimple_asm_set_volatile((stmt), true)
#endif

#endif
