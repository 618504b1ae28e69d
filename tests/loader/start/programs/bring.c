/* SPDX-License-Identifier: MIT
 *
 * A pass that does nothing but bring a library into the global scope.
 */
#include <mvld/pass.h>

#ifndef FLAGS
#define FLAGS 0
#endif

const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "bring",
    .help = "brings a library",
    .library = LIBRARY,
    .flags = FLAGS,
};
