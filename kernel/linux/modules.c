// SPDX-License-Identifier: GPL-2.0
/*
 * modules.c: a module's descriptors are gathered before its init runs, and forgotten when it goes.
 */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "kernel/linux/glue.h"

#ifdef CONFIG_MODULES

struct known {
	struct mvk_object object;
	struct module *module;
	struct list_head list;
};

static LIST_HEAD(known_modules); /* under mvl_lock */

static void add_segment(struct mvk_object *o, const void *start, size_t size, u32 prot)
{
	if (size)
		o->segments[o->object.n_segments++] =
			(struct mvld_segment){(uintptr_t)start, (uintptr_t)start + size, prot};
}

static void add_segments(struct mvk_object *o, const struct module *mod)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	add_segment(o, mod->mem[MOD_TEXT].base, mod->mem[MOD_TEXT].size, PROT_READ | PROT_EXEC);
	add_segment(o, mod->mem[MOD_RODATA].base, mod->mem[MOD_RODATA].size, PROT_READ);
	add_segment(o, mod->mem[MOD_RO_AFTER_INIT].base, mod->mem[MOD_RO_AFTER_INIT].size,
		    PROT_READ | PROT_WRITE | MVK_READ_ONLY_LATER);
	add_segment(o, mod->mem[MOD_DATA].base, mod->mem[MOD_DATA].size, PROT_READ | PROT_WRITE);
#else
	const struct module_layout *l = &mod->core_layout;

	add_segment(o, l->base, l->text_size, PROT_READ | PROT_EXEC);
	add_segment(o, l->base + l->text_size, l->ro_size - l->text_size, PROT_READ);
	add_segment(o, l->base + l->ro_size, l->ro_after_init_size - l->ro_size,
		    PROT_READ | PROT_WRITE | MVK_READ_ONLY_LATER);
	add_segment(o, l->base + l->ro_after_init_size, l->size - l->ro_after_init_size, PROT_READ | PROT_WRITE);
#endif
}

static void comes(struct module *mod)
{
	struct known *known;
	struct mvk_tables tables = {
		(uintptr_t)mod->mv_functions, (uintptr_t)mod->mv_functions + mod->mv_functions_size,
		(uintptr_t)mod->mv_callsites, (uintptr_t)mod->mv_callsites + mod->mv_callsites_size,
		(uintptr_t)mod->mv_switches,  (uintptr_t)mod->mv_switches + mod->mv_switches_size,
	};

	if (!mod->mv_functions && !mod->mv_callsites && !mod->mv_switches)
		return;
	known = kzalloc(sizeof(*known), GFP_KERNEL);
	if (!known) {
		pr_warn("multiverse: %s: out of memory, its functions stay generic\n", mod->name);
		return;
	}
	known->module = mod;
	known->object.object.name = mod->name;
	known->object.object.segments = known->object.segments;
	known->object.tables = tables;
	add_segments(&known->object, mod);
	mvl_lock();
	mvl_tell(mod->name, mvk_add(&known->object));
	list_add(&known->list, &known_modules);
	mvl_unlock();
}

static void goes(const struct module *mod)
{
	struct known *known, *next;

	mvl_lock();
	list_for_each_entry_safe(known, next, &known_modules, list)
		if (known->module == mod) {
			mvk_remove(&known->object);
			list_del(&known->list);
			kfree(known);
		}
	mvl_unlock();
}

static int notified(struct notifier_block *block, unsigned long event, void *mod)
{
	if (event == MODULE_STATE_COMING)
		comes(mod);
	else if (event == MODULE_STATE_GOING)
		goes(mod);
	return NOTIFY_OK;
}

static struct notifier_block notifier = {.notifier_call = notified};

int __init mvl_modules_start(void)
{
	return register_module_notifier(&notifier);
}

#else

int __init mvl_modules_start(void)
{
	return 0;
}

#endif
