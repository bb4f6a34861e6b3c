//! Names of Linux code that is not called: exception entries, and returns to the interrupted code (arch/mips: genex.S,
//! entry.S, scall32-o32.S, scall64-n64.S, tlbex.c). There the link register belongs to the interrupted code, which the
//! kernel saves and restores. A return probe would make a program jump to the pad.

/// Functions that switch stacks, then code that is not called.
#[rustfmt::skip]
pub const NOT_CALLED: &[&str] = &[
    "resume", "__switch_to", "__switch_to_asm",
    "handle_int", "rollback_handle_int", "handle_adel", "handle_adel_int", "handle_ades", "handle_ades_int", "handle_ibe",
    "handle_ibe_int", "handle_dbe", "handle_dbe_int", "handle_bp", "handle_bp_int", "handle_ri", "handle_ri_int", "handle_cpu",
    "handle_cpu_int", "handle_ov", "handle_ov_int", "handle_tr", "handle_tr_int", "handle_msa_fpe", "handle_msa_fpe_int",
    "handle_fpe", "handle_fpe_int", "handle_ftlb", "handle_ftlb_int", "handle_gsexc", "handle_gsexc_int", "handle_msa",
    "handle_msa_int", "handle_mdmx", "handle_mdmx_int", "handle_watch", "handle_watch_int", "handle_mcheck",
    "handle_mcheck_int", "handle_mt", "handle_mt_int", "handle_dsp", "handle_dsp_int", "handle_reserved",
    "handle_reserved_int", "handle_ri_rdhwr", "handle_ri_rdhwr_tlbp", "handle_vced", "handle_vcei",
    "handle_sys", "handle_sys64", "handle_sysn32", "syscall_common", "syscall_exit_work", "syscall_trace_entry",
    "load_a4", "load_a5", "load_a6", "load_a7", "loads_done", "bad_stack", "bad_stack_a4", "bad_stack_a5", "bad_stack_a6",
    "bad_stack_a7", "illegal_syscall", "not_o32_scall", "trace_a_syscall", "o32_syscall_exit", "n32_syscall_exit",
    "n64_syscall_exit", "n32_syscall_trace_entry", "not_n32_scall",
    "handle_tlbl", "handle_tlbs", "handle_tlbm", "tlb_do_page_fault_0", "tlb_do_page_fault_1",
    // End labels, which are also the start of the next piece of code.
    "tlbmiss_handler_setup_pgd_end", "handle_tlbm_end", "handle_tlbs_end", "handle_tlbl_end",
    "except_vec0_generic", "except_vec1_generic", "except_vec2_generic", "except_vec3_generic", "except_vec3_r4000",
    "except_vec4", "except_vec_vi", "except_vec_vi_lui", "except_vec_vi_ori", "except_vec_vi_end", "except_vec_vi_handler",
    "rollback_except_vec_vi", "except_vec_nmi", "except_vec_ejtag_debug", "ejtag_debug_handler", "nmi_handler",
    "ret_from_exception", "ret_from_irq", "__ret_from_irq", "resume_userspace", "resume_userspace_check",
    "restore_all", "restore_partial", "work_pending", "work_resched", "work_notifysig", "ret_from_fork",
    "ret_from_kernel_thread", "syscall_exit", "syscall_exit_partial",
];
