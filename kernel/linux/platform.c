// SPDX-License-Identifier: GPL-2.0
/*
 * platform.c: what kernel/core needs of Linux: memory, a line of log, and changes of code; and the interface of
 * <linux/multiverse.h>.
 *
 * Code is changed while all processors stand still with interrupts off (stop_machine), through a second mapping of
 * its pages that is writable, not executable, and there for this moment only.  text_poke_bp() would not do: it
 * knows calls, jumps and NOPs, while a site may hold a variant's body.  text_poke() would not do either: it takes a spin
 * lock for each site, and the call of that spin lock may be the site.  text_mutex keeps kprobes, jump labels and the
 * like away.  Where they have changed code, its bytes are not those that we expect, and we leave them alone.
 */
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/export.h>
#include <linux/extable.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/multiverse.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/stop_machine.h>
#include <linux/vmalloc.h>
#include <asm/alternative.h>
#include <asm/nospec-branch.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include <asm/sync_core.h>

#include "kernel/linux/glue.h"

#define PREFIX "multiverse: "

/* ---- locks */

static DEFINE_MUTEX(multiverse_mutex);

void mvl_lock_cpus_held(void)
{
	mutex_lock(&multiverse_mutex);
}

void mvl_unlock_cpus_held(void)
{
	mutex_unlock(&multiverse_mutex);
}

void mvl_lock(void)
{
	cpus_read_lock();
	mvl_lock_cpus_held();
}

void mvl_unlock(void)
{
	mvl_unlock_cpus_held();
	cpus_read_unlock();
}

/* ---- memory, log */

void *mvk_alloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL);
}

void mvk_release(void *memory)
{
	kvfree(memory);
}

/* Not everybody who reads the log may know where the kernel is: code has its name, data what the kernel makes of it. */
const char *mvl_named(const char *text)
{
	static char named[512];
	size_t n = 0;

	while (*text && n < sizeof(named) - 1) {
		unsigned long at;
		int length;

		if (!strncmp(text, "0x", 2) && sscanf(text, "%lx%n", &at, &length) == 1) {
			n += scnprintf(named + n, sizeof(named) - n, kernel_text_address(at) ? "%pS" : "%p", (void *)at);
			text += length;
		} else {
			named[n++] = *text++;
		}
	}
	named[n] = 0;
	return named;
}

void mvk_log(const char *line)
{
	pr_warn(PREFIX "%s\n", mvl_named(line));
}

int mvl_tell(const char *what, int result)
{
	if (result < 0)
		pr_warn(PREFIX "%s: %s (%d)\n", what, mvl_named(mvk_error()), result);
	return result;
}

/* ---- code */

struct moment {
	const struct mvk_change *changes;
	size_t n, n_pages;
	struct page **pages; /* ascending */
	unsigned long *addresses;
	char *alias;
	atomic_t arrived;
	int done;
};

static struct page *page_of(unsigned long address)
{
	if (core_kernel_text(address))
		return virt_to_page(address);
	return vmalloc_to_page((void *)address);
}

/* Collects the pages of the changes that were not refused, each once.  Such a change lies in one aligned word. */
static int collect_pages(struct moment *m)
{
	for (size_t i = 0; i < m->n; i++) {
		unsigned long page = m->changes[i].address & PAGE_MASK;

		if (m->changes[i].result || (m->n_pages && m->addresses[m->n_pages - 1] == page))
			continue;
		m->addresses[m->n_pages] = page;
		m->pages[m->n_pages] = page_of(page);
		if (!m->pages[m->n_pages++])
			return -EFAULT;
	}
	return 0;
}

static void make_changes(struct moment *m)
{
	size_t page = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct mvk_change *c = &m->changes[i];
		uint64_t *word;

		if (c->result)
			continue;
		while (m->addresses[page] != (c->address & PAGE_MASK))
			page++;
		word = (uint64_t *)(m->alias + page * PAGE_SIZE + (mvk_word_of(c) & ~PAGE_MASK));
		WRITE_ONCE(*word, mvk_merge(c, *word));
	}
}

/*
 * Runs on each processor.  The last to arrive changes the code: the others wait in the loop below, which has no site,
 * and no longer in stop_machine's.  Then each drops what it has fetched.
 */
static int at_the_moment(void *cookie)
{
	struct moment *m = cookie;

	if (atomic_inc_return(&m->arrived) == num_online_cpus()) {
		make_changes(m);
		smp_store_release(&m->done, 1); /* read below */
	} else {
		while (!smp_load_acquire(&m->done)) /* written above */
			cpu_relax();
	}
	sync_core();
	return 0;
}

/*
 * A probe remembers instructions, armed or not: that on which it stands, and, where it may become a jump, all that begin
 * within 5 bytes.  The instruction that is changed may begin 6 prefixes (cs) before.
 */
#define REMEMBERS 10

static bool is_probed(const struct mvk_change *change)
{
	for (unsigned long at = change->address - REMEMBERS; at < change->address + change->length; at++) {
		struct kprobe *probe = get_kprobe((void *)at);

		if (probe && !kprobe_ftrace(probe))
			return true;
	}
	return false;
}

static void leave_probed(struct mvk_change *changes, size_t n)
{
	preempt_disable(); /* what get_kprobe() asks for */
	for (size_t i = 0; i < n; i++)
		if (!changes[i].result && is_probed(&changes[i]))
			changes[i].result = -ESTALE;
	preempt_enable();
}

static void verify(struct mvk_change *changes, size_t n)
{
	mvk_verify(changes, n);
	leave_probed(changes, n);
}

void mvk_check_text(struct mvk_change *changes, size_t n)
{
	mutex_lock(&text_mutex);
	verify(changes, n);
	mutex_unlock(&text_mutex);
}

/*
 * A static call at a function's end is a return as long as there is nothing to call.  The handler of a fault is found by
 * the address of the instruction.
 */
int mvk_tied_to_address(uintptr_t code, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (search_exception_tables(code + i))
			return 1;
	return static_call_text_reserved((void *)code, (void *)(code + size - 1));
}

uintptr_t mvk_return_thunk(void)
{
	return cpu_wants_rethunk() ? (uintptr_t)x86_return_thunk : 0;
}

static int change_pages(struct moment *m)
{
	int err = collect_pages(m);

	if (err || !m->n_pages)
		return err;
	m->alias = vmap(m->pages, m->n_pages, VM_MAP, PAGE_KERNEL);
	if (!m->alias)
		return -ENOMEM;
	err = stop_machine_cpuslocked(at_the_moment, m, cpu_online_mask);
	vunmap(m->alias);
	vm_unmap_aliases(); /* now, also in each TLB */
	return err;
}

int mvk_change_text(struct mvk_change *changes, size_t n)
{
	struct moment m = {.changes = changes, .n = n};
	int err = -ENOMEM;

	m.pages = kvmalloc_array(n, sizeof(*m.pages), GFP_KERNEL);
	m.addresses = kvmalloc_array(n, sizeof(*m.addresses), GFP_KERNEL);
	if (m.pages && m.addresses) {
		mutex_lock(&text_mutex);
		verify(changes, n);
		err = change_pages(&m);
		mutex_unlock(&text_mutex);
	}
	kvfree(m.pages);
	kvfree(m.addresses);
	return err;
}

/* ---- <linux/multiverse.h> */

static int operation(enum mv_action action, enum mv_scope scope, void *what, const char *name)
{
	int result;

	mvl_lock();
	result = mvl_tell(name, mvk_apply(action, scope, what));
	mvl_unlock();
	return result;
}

int multiverse_commit(void)
{
	return operation(MV_COMMIT, MV_ALL, NULL, "commit");
}
EXPORT_SYMBOL_GPL(multiverse_commit);

int multiverse_commit_refs(void *variable)
{
	return operation(MV_COMMIT, MV_REFS, variable, "commit_refs");
}
EXPORT_SYMBOL_GPL(multiverse_commit_refs);

int multiverse_commit_fn(void *function)
{
	return operation(MV_COMMIT, MV_FUNCTION, function, "commit_fn");
}
EXPORT_SYMBOL_GPL(multiverse_commit_fn);

int multiverse_revert(void)
{
	return operation(MV_REVERT, MV_ALL, NULL, "revert");
}
EXPORT_SYMBOL_GPL(multiverse_revert);

int multiverse_revert_refs(void *variable)
{
	return operation(MV_REVERT, MV_REFS, variable, "revert_refs");
}
EXPORT_SYMBOL_GPL(multiverse_revert_refs);

int multiverse_revert_fn(void *function)
{
	return operation(MV_REVERT, MV_FUNCTION, function, "revert_fn");
}
EXPORT_SYMBOL_GPL(multiverse_revert_fn);

/* ---- start */

extern char __start_multiverse_functions[], __stop_multiverse_functions[];
extern char __start_multiverse_callsites[], __stop_multiverse_callsites[];
extern char __start_multiverse_switches[], __stop_multiverse_switches[];

static struct mvk_object vmlinux = {.object = {.name = "vmlinux", .segments = vmlinux.segments}};

static void __init add_segment(const void *start, const void *end, u32 prot)
{
	vmlinux.segments[vmlinux.object.n_segments++] =
		(struct mvld_segment){(uintptr_t)start, (uintptr_t)end, prot};
}

static void __init describe_vmlinux(void)
{
	add_segment(_stext, _etext, PROT_READ | PROT_EXEC);
	add_segment(__start_ro_after_init, __end_ro_after_init, PROT_READ | PROT_WRITE | MVK_READ_ONLY_LATER);
	add_segment(__start_rodata, __end_rodata, PROT_READ);
	add_segment(_sdata, _edata, PROT_READ | PROT_WRITE);
	add_segment(__bss_start, __bss_stop, PROT_READ | PROT_WRITE);
	vmlinux.object.bias = kaslr_offset();
	vmlinux.tables = (struct mvk_tables){
		(uintptr_t)__start_multiverse_functions, (uintptr_t)__stop_multiverse_functions,
		(uintptr_t)__start_multiverse_callsites, (uintptr_t)__stop_multiverse_callsites,
		(uintptr_t)__start_multiverse_switches,	 (uintptr_t)__stop_multiverse_switches,
	};
}

/*
 * Calls in .init sections are not changed: they call the entry.  The compiler plugin records none; asm does not know its
 * section and records all, so they are removed from the table here, while it is still writable.
 */
static void __init forget_init_code(struct mvk_tables *t)
{
	struct multiverse_callsite *to = (void *)t->callsites;

	for (struct multiverse_callsite *from = to; (uintptr_t)from < t->callsites_end; from++) {
		uintptr_t site = mv_distance(&from->site), callee = mv_distance(&from->callee);

		if (init_section_contains((void *)site, 1))
			continue;
		to->site = (int32_t)(site - (uintptr_t)&to->site);
		to->callee = (int32_t)(callee - (uintptr_t)&to->callee);
		to++;
	}
	t->callsites_end = (uintptr_t)to;
}

/*
 * Runs after the other processors were started and alternatives were applied.  Until then functions read the variables.
 */
static int __init multiverse_start(void)
{
	ktime_t began = ktime_get();
	int err;

	describe_vmlinux();
	forget_init_code(&vmlinux.tables);
	mvl_lock();
	err = mvk_start();
	if (!err)
		err = mvk_add(&vmlinux);
	if (err >= 0)
		err = mvk_apply(MV_COMMIT, MV_ALL, NULL);
	mvl_tell("start", err);
	mvl_unlock();
	if (err >= 0)
		pr_info(PREFIX "%d functions bound, %lld us\n", err, ktime_us_delta(ktime_get(), began));
	if (err >= 0)
		err = mvl_modules_start();
	if (!err)
		err = mvl_spinlock_start();
	return err;
}
core_initcall(multiverse_start);
