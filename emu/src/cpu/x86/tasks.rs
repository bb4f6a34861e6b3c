//! Where the running task, its number and its name are, out of the code that prints them.
//!
//! That code (`cpu/tasks.rs` says which) takes the running task from the per-CPU area, reads the number out of it and
//! takes the address of its name. So one function tells all three where the kernel has neither types nor names for its
//! data, as Debian's for i386.

use super::state;
use crate::boot::Kernel;
use crate::cpu::moment::{CountPlace, HARD_INTERRUPT};
use crate::cpu::{TaskPlace, View, tasks};
use crate::unicorn::engine::Handle;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;

/// The running task: the pointer in the per-CPU area, or the page of the kernel stack where the kernel does not say.
pub fn current<const LONG: bool>(view: &mut View) -> u64 {
    let base = own_data::<LONG>(&view.trap.handle());
    let place = view.tasks.current;
    let word = if LONG { 8 } else { 4 };
    let found = place.and_then(|offset| view.read_number(base.wrapping_add(offset), word).ok()).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// Where the running CPU's own data begins, while its kernel runs.
pub fn own_data<const LONG: bool>(handle: &Handle) -> u64 {
    let segment = if LONG { state::GS } else { state::FS };
    handle.live64(state::SEGMENTS + segment * state::SEGMENT_BYTES + state::SEGMENT_BASE)
}

/// Where the count of the moment is: where this code adds an interrupt to a word of the CPU's own.
pub fn count_by_code<const BITS: u32>(start: u64, code: &[u8]) -> Option<CountPlace> {
    let adds = |insn: &Instruction| {
        let own = matches!(insn.segment_prefix(), Register::FS | Register::GS);
        let fixed = matches!(insn.memory_base(), Register::None | Register::RIP) && insn.memory_index() == Register::None;
        let into_memory = insn.mnemonic() == Mnemonic::Add && insn.op0_kind() == OpKind::Memory;
        own && fixed && into_memory && insn.op1_kind() == OpKind::Immediate32 && insn.immediate32() == HARD_INTERRUPT as u32
    };
    let found = Decoder::with_ip(BITS, code, start, DecoderOptions::NONE).into_iter().find(adds)?;
    Some(CountPlace::OwnData(found.memory_displacement64()))
}

/// No task structure is larger.
const LARGEST_TASK: u64 = 64 << 10;

/// What that code tells; nothing if the kernel has no such function, or one of another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((start, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    read(8 * kernel.arch.isa().word as u32, start, &bytes)
}

fn read(bits: u32, start: u64, bytes: &[u8]) -> TaskPlace {
    let code: Vec<Instruction> = Decoder::with_ip(bits, bytes, start, DecoderOptions::NONE).into_iter().collect();
    let places = (0..code.len()).filter_map(|at| {
        let (task, current) = loaded(&code[at])?;
        let (mut pid, mut comm) = (None, None);
        for insn in code[at + 1..].iter().take_while(|insn| !overwrites(insn, task)).filter(|insn| is_member(insn, task)) {
            let offset = Some(insn.memory_displacement64());
            match insn.mnemonic() {
                Mnemonic::Lea => comm = comm.or(offset),
                Mnemonic::Push | Mnemonic::Mov => pid = pid.or(offset),
                _ => {}
            }
        }
        (pid.is_some() && comm.is_some()).then_some(TaskPlace { current: Some(current), pid, comm, ..TaskPlace::default() })
    });
    places.into_iter().next().unwrap_or_default()
}

/// A register loaded from a fixed place of the per-CPU area: which, and where that is.
fn loaded(insn: &Instruction) -> Option<(Register, u64)> {
    let per_cpu = matches!(insn.segment_prefix(), Register::FS | Register::GS);
    let fixed = matches!(insn.memory_base(), Register::None | Register::RIP) && insn.memory_index() == Register::None;
    let is_load = insn.mnemonic() == Mnemonic::Mov && insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Memory;
    (is_load && per_cpu && fixed).then(|| (insn.op0_register().full_register(), insn.memory_displacement64()))
}

fn is_member(insn: &Instruction, task: Register) -> bool {
    let has_memory = (0..insn.op_count()).any(|operand| insn.op_kind(operand) == OpKind::Memory);
    has_memory
        && insn.memory_base().full_register() == task
        && insn.memory_index() == Register::None
        && (1..LARGEST_TASK).contains(&insn.memory_displacement64())
}

/// Gives the register another value. One that does so out of the task itself still names a member.
fn overwrites(insn: &Instruction, task: Register) -> bool {
    let writes = !matches!(insn.mnemonic(), Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test);
    writes && insn.op0_kind() == OpKind::Register && insn.op0_register().full_register() == task && !is_member(insn, task)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: as Debian's kernels have it in irq_enter_rcu.
    #[test]
    fn the_count_of_the_moment_is_where_interrupts_are_added() {
        // call; add dword fs:[0xc1e5_a2f4], 0x10000
        let narrow = [0xe8, 0, 0, 0, 0, 0x64, 0x81, 0x05, 0xf4, 0xa2, 0xe5, 0xc1, 0, 0, 1, 0];
        assert_eq!(count_by_code::<32>(0xc100_0000, &narrow), Some(CountPlace::OwnData(0xc1e5_a2f4)));
        // add dword gs:[rip + 0x7ef8_0000], 0x10000
        let wide = [0x65, 0x81, 0x05, 0, 0, 0xf8, 0x7e, 0, 0, 1, 0];
        assert_eq!(count_by_code::<64>(0xffff_ffff_8108_0000, &wide), Some(CountPlace::OwnData(0xb)));
        // add dword gs:[rip + 0x7ef8_0000], 1
        let preemption = [0x65, 0x83, 0x05, 0, 0, 0xf8, 0x7e, 1];
        assert_eq!(count_by_code::<64>(0xffff_ffff_8108_0000, &preemption), None);
    }

    /// DV-4: code as compilers make it, and code that tells nothing.
    #[test]
    fn the_three_places_are_read_out_of_the_code() {
        let place =
            |current, pid, comm| TaskPlace { current: Some(current), pid: Some(pid), comm: Some(comm), ..TaskPlace::default() };
        let nothing = TaskPlace::default();
        #[rustfmt::skip]
        let cases: [(&str, u32, &[u8], TaskPlace); 5] = [
            // mov %fs:0xc1e5e6e8,%edx; mov %fs:0xc1e598b8,%ecx; push $0; lea 0x584(%edx),%eax; push %eax; push
            // 0x454(%edx)
            ("32 bits", 32, &[0x64, 0x8b, 0x15, 0xe8, 0xe6, 0xe5, 0xc1, 0x64, 0x8b, 0x0d, 0xb8, 0x98, 0xe5, 0xc1, 0x6a, 0,
                              0x8d, 0x82, 0x84, 5, 0, 0, 0x50, 0xff, 0xb2, 0x54, 4, 0, 0],                     place(0xc1e5_e6e8, 0x454, 0x584)),
            // mov %gs:0x1fb80,%rax; lea 0xb98(%rax),%r9; mov 0x998(%rax),%ecx
            ("64 bits", 64, &[0x65, 0x48, 0x8b, 4, 0x25, 0x80, 0xfb, 1, 0, 0x4c, 0x8d, 0x88, 0x98, 0xb, 0, 0,
                              0x8b, 0x88, 0x98, 9, 0, 0],                                                     place(0x1fb80, 0x998, 0xb98)),
            // mov %fs:0x10,%eax; xor %eax,%eax; lea 0x20(%eax),%edx; mov 0x30(%eax),%ecx
            ("the register means something else by then", 32, &[0x64, 0xa1, 0x10, 0, 0, 0, 0x31, 0xc0, 0x8d, 0x50, 0x20, 0x8b, 0x48, 0x30], nothing),
            // mov %fs:0x10,%eax; lea 0x20(%eax),%edx
            ("a name and no number",                      32, &[0x64, 0xa1, 0x10, 0, 0, 0, 0x8d, 0x50, 0x20],                               nothing),
            ("no code at all",                            32, &[],                                                                          nothing),
        ];
        for (what, bits, code, expected) in cases {
            assert_eq!(read(bits, 0xc100_0000, code), expected, "{what}");
        }
    }
}
