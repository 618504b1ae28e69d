/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MULTIVERSE_KERNEL_STDINT_H
#define MULTIVERSE_KERNEL_STDINT_H
#include <linux/types.h>
#include <linux/limits.h>
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#define UINTPTR_MAX 0xfffffffffffffffful
#endif
