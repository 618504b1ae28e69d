/* SPDX-License-Identifier: MIT
 *
 * A small object with everything that a reader of ELF meets: versions, notes, an
 * IFUNC, PLT entries.  Built with each style of hash table; also the seed of the ELF
 * fuzzers.
 */
int outside(int);
int plain(int x);
int entry(int x);
int indirect(int x);
int old_versioned(int x);
int new_versioned(int x);
int data_of = 5;

__asm__(".symver old_versioned, versioned@V1\n"
        ".symver new_versioned, versioned@@V2\n"
        ".pushsection .note.multiverse, \"a\", @note\n"
        ".balign 4\n"
        ".long 11, 8, 1\n"
        ".asciz \"Multiverse\"\n"
        ".balign 4\n"
        ".long 1, 2\n"
        ".popsection");

int plain(int x) { return x + data_of; }
int entry(int x) { return outside(x) + plain(x); }
int old_versioned(int x) { return x; }
int new_versioned(int x) { return x + 1; }

/* Used by name alone, which clang does not see. */
__attribute__((used)) static int (*choose(void))(int) { return plain; }
int indirect(int x) __attribute__((ifunc("choose")));
