// SPDX-License-Identifier: GPL-2.0
/*
 * paravirt.c: the stubs of pv_ops.  They change no register, so that each operation's own convention holds.  Before a
 * commit they are indirect jumps without a retpoline, as the kernel's own calls through these pointers are.
 */
#include <linux/init.h>
#include <linux/multiverse.h>
#include <linux/version.h>
#include <asm/nospec-branch.h>
#include <asm/paravirt.h>

#include "mvld/descriptor.h"

#define CPU(op)		MULTIVERSE_STUB(pv_ops.cpu.op)
#define IRQ(op)		MULTIVERSE_STUB(pv_ops.irq.op)
#define MMU(op)		MULTIVERSE_STUB(pv_ops.mmu.op)
#define LOCK(op)	MULTIVERSE_STUB(pv_ops.lock.op)

/* Not for irq.save_fl: pushf and pop are two instructions, and a call holds one. */
static void __init __used stubs(void)
{
	CPU(io_delay);
	CPU(get_debugreg);
	CPU(set_debugreg);
	CPU(read_cr0);
	CPU(write_cr0);
	CPU(write_cr4);
	CPU(load_tr_desc);
	CPU(load_gdt);
	CPU(load_idt);
	CPU(set_ldt);
	CPU(store_tr);
	CPU(load_tls);
	CPU(load_gs_index);
	CPU(write_ldt_entry);
	CPU(write_gdt_entry);
	CPU(write_idt_entry);
	CPU(alloc_ldt);
	CPU(free_ldt);
	CPU(load_sp0);
#ifdef CONFIG_X86_IOPL_IOPERM
	CPU(invalidate_io_bitmap);
	CPU(update_io_bitmap);
#endif
	CPU(wbinvd);
	CPU(cpuid);
	CPU(read_msr);
	CPU(write_msr);
	CPU(read_msr_safe);
	CPU(write_msr_safe);
	CPU(read_pmc);
	CPU(start_context_switch);
	CPU(end_context_switch);

	IRQ(irq_disable.func);
	IRQ(irq_enable.func);
	IRQ(safe_halt);
	IRQ(halt);

	MMU(flush_tlb_user);
	MMU(flush_tlb_kernel);
	MMU(flush_tlb_one_user);
	MMU(flush_tlb_multi);
	MMU(tlb_remove_table);
	MMU(exit_mmap);
	MMU(notify_page_enc_status_changed);
	MMU(read_cr2.func);
	MMU(write_cr2);
	MMU(read_cr3);
	MMU(write_cr3);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	MMU(enter_mmap);
#else
	MMU(activate_mm);
	MMU(dup_mmap);
#endif
	MMU(pgd_alloc);
	MMU(pgd_free);
	MMU(alloc_pte);
	MMU(alloc_pmd);
	MMU(alloc_pud);
	MMU(alloc_p4d);
	MMU(release_pte);
	MMU(release_pmd);
	MMU(release_pud);
	MMU(release_p4d);
	MMU(set_pte);
	MMU(set_pmd);
	MMU(ptep_modify_prot_start);
	MMU(ptep_modify_prot_commit);
	MMU(pte_val.func);
	MMU(make_pte.func);
	MMU(pgd_val.func);
	MMU(make_pgd.func);
	MMU(set_pud);
	MMU(pmd_val.func);
	MMU(make_pmd.func);
	MMU(pud_val.func);
	MMU(make_pud.func);
	MMU(set_p4d);
#if CONFIG_PGTABLE_LEVELS >= 5
	MMU(p4d_val.func);
	MMU(make_p4d.func);
	MMU(set_pgd);
#endif
	MMU(lazy_mode.enter);
	MMU(lazy_mode.leave);
	MMU(lazy_mode.flush);

#ifdef CONFIG_PARAVIRT_SPINLOCKS
	LOCK(queued_spin_lock_slowpath);
	LOCK(queued_spin_unlock.func);
	LOCK(wait);
	LOCK(kick);
	LOCK(vcpu_is_preempted.func);
#endif
}
