/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Nothing of ELF is asked by what the kernel has of rimf.
 */
