/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/errno.h>
#ifndef ENOTSUP
#define ENOTSUP EOPNOTSUPP /* as in glibc */
#endif
