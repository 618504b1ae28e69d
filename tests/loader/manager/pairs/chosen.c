/* SPDX-License-Identifier: MIT
 *
 * Built with the plugin, in a library of its own: an object that has such functions stays where it is mapped when no
 * pass patches them.
 */
__attribute__((multiverse)) _Bool chosen_switch;
static __attribute__((multiverse, noinline)) int choose(void) { return chosen_switch ? 2 : 1; }
int chosen(void) { return choose(); }
int answered(void) { volatile int one = 1; return one; }
