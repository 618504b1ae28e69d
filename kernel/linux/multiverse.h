/* SPDX-License-Identifier: GPL-2.0 */
/*
 * <linux/multiverse.h>: switches that become code.
 *
 *	bool audited __multiverse;
 *
 *	__multiverse void note(struct event *e) { if (audited) write_down(e); }
 *
 *	audited = true;
 *	multiverse_commit_refs(&audited);
 *
 * The compiler plugin makes a variant of note() for each value; a commit changes the calls to lead to the
 * one that fits.  Until then note() looks at the variable.  As in user space (include/multiverse.h of mvld).
 * A commit does not wait for tasks that are in a function: they leave it as they entered it.
 *
 * All functions may sleep, and stop all processors for a moment.  Not inside of CPU hotplug callbacks, which hold
 * the lock that these take.  Without CONFIG_MULTIVERSE the variables are variables.
 */
#ifndef _LINUX_MULTIVERSE_H
#define _LINUX_MULTIVERSE_H

#ifdef MULTIVERSE_PLUGIN /* also not for the vDSO and the like */
#define __multiverse		__attribute__((multiverse))
#define __multiverse_values(...) __attribute__((multiverse("values", __VA_ARGS__)))
#define __multiverse_inline	__attribute__((multiverse("inline")))
#define __multiverse_constant	__attribute__((multiverse("constant")))
#else
#define __multiverse
#define __multiverse_values(...)
#define __multiverse_inline
#define __multiverse_constant
#endif

/*
 * A call through a function pointer, for asm that has a convention of its own: the text MULTIVERSE_CALL(table.f), and
 * in some function of one unit the statement MULTIVERSE_STUB(table.f), with mvld/descriptor.h and
 * ANNOTATE_RETPOLINE_SAFE.  The call lies in one aligned word; cs prefixes (2e), which it ignores, fill up.
 * Until a commit it calls the stub, which changes no register:
 *
 *	0f 1f 44 00 00		nopl 0(%rax,%rax)	a commit makes it jmp function
 *	ff 25 rel32		jmp *table.f(%rip)
 *	cc			int3			nothing is executed behind an indirect jump
 */
#define MULTIVERSE_STUB_NAME(pointer)	#pointer ".multiverse_stub"
#define MULTIVERSE_CALL(pointer)						\
	".balign 8, 0x2e, 4\n"							\
	"771:\tcall " MULTIVERSE_STUB_NAME(pointer) "\n\t"			\
	".pushsection multiverse_callsites,\"a\",@progbits\n\t"		\
	".balign 4\n\t"								\
	".long 771b-., " MULTIVERSE_STUB_NAME(pointer) "-.\n\t"			\
	".popsection\n"
#define MULTIVERSE_STUB(pointer)						\
	asm volatile(".pushsection .noinstr.text,\"ax\"\n\t"			\
		     ".balign 8\n\t"						\
		     ".globl " MULTIVERSE_STUB_NAME(pointer) "\n\t"		\
		     ".type " MULTIVERSE_STUB_NAME(pointer) ", @function\n"	\
		     MULTIVERSE_STUB_NAME(pointer) ":\n\t"			\
		     ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"			\
		     ANNOTATE_RETPOLINE_SAFE					\
		     "jmp *%c0(%%rip)\n\t"					\
		     "int3\n\t"							\
		     ".size " MULTIVERSE_STUB_NAME(pointer) ", .-"		\
		     MULTIVERSE_STUB_NAME(pointer) "\n\t"			\
		     ".popsection\n\t"						\
		     ".pushsection multiverse_functions,\"a\",@progbits\n\t"	\
		     ".balign 8\n"						\
		     "772:\t.long 773f-772b\n\t"				\
		     ".value %c1, %c2, 0, 0\n\t"				\
		     ".long " MULTIVERSE_STUB_NAME(pointer) "-., "		\
		     MULTIVERSE_STUB_NAME(pointer) "-.\n\t"			\
		     ".long %c0-.\n\t"						\
		     ".asciz \"" #pointer "\"\n\t"				\
		     ".balign 8\n"						\
		     "773:\t.popsection"					\
		     : : "i" (&pointer),					\
			 "i" (MULTIVERSE_FUNCTION_POINTER | MULTIVERSE_FUNCTION_DIRECT), \
			 "i" (sizeof(struct multiverse_function)))

#ifdef CONFIG_MULTIVERSE
/* How many functions are bound otherwise now, or negative errno, with a line in the log. */
int multiverse_commit(void);
int multiverse_revert(void);
int multiverse_commit_refs(void *variable);
int multiverse_revert_refs(void *variable);
int multiverse_commit_fn(void *function);
int multiverse_revert_fn(void *function);
#else
static inline int multiverse_commit(void) { return 0; }
static inline int multiverse_revert(void) { return 0; }
static inline int multiverse_commit_refs(void *variable) { return 0; }
static inline int multiverse_revert_refs(void *variable) { return 0; }
static inline int multiverse_commit_fn(void *function) { return 0; }
static inline int multiverse_revert_fn(void *function) { return 0; }
#endif

#endif
