/* SPDX-License-Identifier: MIT
 *
 * What the pass of bring.c brings into every program.
 */
int brought = 1;
