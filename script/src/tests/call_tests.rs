//! Raw tracepoints of system calls, on guests with and without a function that all calls pass through.

use super::options;
use crate::compile::{Knowledge, compile};
use crate::program::PointKind;
use crate::types::Types;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::string::ToString;
use trapline_isa::arch::{Arch, Isa};

/// A guest of some ISA with this dispatcher, or with none, and with two system calls.
struct Calls(Arch, &'static str);

impl Knowledge for Calls {
    fn isa(&self) -> &'static Isa {
        self.0.isa()
    }
    fn types(&self) -> Option<&dyn Types> {
        None
    }
    fn address(&self, name: &str) -> Option<u64> {
        (name == self.1).then_some(0x1000)
    }
    fn system_call_names(&self) -> Arc<[String]> {
        Arc::new([])
    }
    fn functions(&self, pattern: &str, _: bool) -> Vec<String> {
        let prefix = pattern.strip_suffix('*').expect("a pattern");
        ["read", "write"].map(|name| format!("{prefix}{name}")).into()
    }
}

/// BY-1: without a dispatcher each call's own function is probed, if it can tell the call's number.
#[test]
fn raw_system_calls_are_found_with_and_without_a_dispatcher() {
    let text =
        "tracepoint:raw_syscalls:sys_enter { @calls[args.id] = count(); } tracepoint:raw_syscalls:sys_exit { @ret = args.ret; }";
    let functions = |arch, dispatcher| {
        let program = compile(text, &Calls(arch, dispatcher), &options(false)).map_err(|errors| errors[0].to_string())?;
        // Each call has a block of its own.
        let names = program.blocks.iter().flat_map(|block| {
            let name = |kind: &PointKind| match kind {
                PointKind::Kprobe(name, 0) | PointKind::Kretprobe(name) => name.clone(),
                other => panic!("{other:?}"),
            };
            block.points.iter().map(|point| name(&point.kind)).collect::<Vec<_>>()
        });
        Ok::<_, String>(names.collect::<Vec<_>>())
    };
    for (arch, dispatcher, expected) in [
        (Arch::Arm64, "invoke_syscall", &["invoke_syscall"][..]),
        (Arch::Arm64, "", &["__arm64_sys_read", "__arm64_sys_write"]),
        (Arch::X86_64, "x64_sys_call", &["x64_sys_call"]),
        (Arch::X86_64, "", &["__x64_sys_read", "__x64_sys_write"]),
        (Arch::Riscv64, "", &["__riscv_sys_read", "__riscv_sys_write"]),
        (Arch::I386, "", &["__ia32_sys_read", "__ia32_sys_write"]),
    ] {
        let entries_and_exits: Vec<String> = expected.iter().chain(expected).map(ToString::to_string).collect();
        assert_eq!(functions(arch, dispatcher), Ok(entries_and_exits), "{arch:?} {dispatcher}");
    }
    for arch in [Arch::Mips, Arch::S390x] {
        let refused = functions(arch, "").expect_err("its functions do not get the number");
        assert!(refused.contains("no function that all system calls go through"), "{arch:?}: {refused}");
    }
}
