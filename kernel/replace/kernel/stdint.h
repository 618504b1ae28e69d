/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the engine asks of C's headers, of the kernel's.
 */
#ifndef MULTIVERSE_KERNEL_STDINT_H
#define MULTIVERSE_KERNEL_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>

typedef long intptr_t;

#define INT64_MAX 0x7fffffffffffffffll
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#ifndef UINTPTR_MAX
#define UINTPTR_MAX ULONG_MAX
#endif

#endif
