//! The location of the running task, its number and its name, found in the code that prints them (`cpu/tasks.rs`).
//! That code loads the running task from the per-CPU data, loads the number and computes the address of the name. So
//! one function shows all three, even in kernels without type information and data symbols, such as Debian's i386
//! kernels.

use super::state;
use crate::boot::Kernel;
use crate::cpu::moment::CountPlace;
use crate::cpu::switched::Switched;
use crate::cpu::{TaskPlace, View, tasks};
use crate::unicorn::engine::Handle;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_isa::x86::abi;

/// The running task: the pointer in the per-CPU data or in a variable. If its location is unknown, the start of the
/// kernel stack identifies the task.
pub fn current<const LONG: bool>(view: &mut View) -> u64 {
    let base = if view.tasks.is_variable { 0 } else { own_data::<LONG>(&view.trap.handle()) };
    let at = view.tasks.current.map(|offset| base.wrapping_add(offset));
    let word = if LONG { 8 } else { 4 };
    let found = at.and_then(|at| view.read_number(at, word).ok()).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// The running task while a program runs on a 64-bit CPU. The kernel's GS is then in the register that SWAPGS exchanges.
pub fn in_program(view: &mut View) -> u64 {
    const KERNEL_GS_BASE: u32 = 0xc000_0102;
    let base = if view.tasks.is_variable { 0 } else { view.trap.handle().msr(KERNEL_GS_BASE) };
    let at = view.tasks.current.map(|offset| base.wrapping_add(offset));
    at.and_then(|at| view.read_number(at, 8).ok()).unwrap_or(0)
}

/// `__switch_to_asm` pushes these registers behind its return address, and keeps the stack pointer in the task.
pub static SWITCHED: Switched = Switched {
    path: &[("task_struct", "thread"), ("thread_struct", "sp")],
    is_address: true,
    words: &[(0, abi::R15, 1), (1, abi::R14, 1), (2, abi::R13, 1), (3, abi::R12, 1), (4, abi::BX, 1), (5, abi::BP, 1)],
    pc: 6,
    popped: Some((7, abi::SP)),
};

/// The word size of the running program, 4 bytes, if its code is not 64-bit code.
pub fn narrow_word(handle: &Handle) -> Option<usize> {
    (handle.live32(state::HFLAGS) & state::HF_CS64 == 0).then_some(4)
}

/// The start of the running CPU's per-CPU data, in kernel mode.
pub fn own_data<const LONG: bool>(handle: &Handle) -> u64 {
    let segment = if LONG { state::GS } else { state::FS };
    handle.live64(state::SEGMENTS + segment * state::SEGMENT_BYTES + state::SEGMENT_BASE)
}

/// The place of `preempt_count`: the word to which this code adds `interrupt`, the kernel's HARDIRQ_OFFSET. The word is in the
/// per-CPU data or, in a kernel for one CPU, in a variable.
pub fn count_by_code<const BITS: u32>(start: u64, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let adds = |insn: &Instruction| {
        let fixed = matches!(insn.memory_base(), Register::None | Register::RIP) && insn.memory_index() == Register::None;
        let into_memory = insn.mnemonic() == Mnemonic::Add && insn.op0_kind() == OpKind::Memory;
        fixed
            && into_memory
            && matches!(insn.op1_kind(), OpKind::Immediate32 | OpKind::Immediate32to64)
            && u64::from(insn.immediate32()) == interrupt
    };
    let found = Decoder::with_ip(BITS, code, start, DecoderOptions::NONE).into_iter().find(adds)?;
    let place = if is_own(&found) { CountPlace::OwnData } else { CountPlace::Variable };
    Some(place(found.memory_displacement64()))
}

/// Whether the instruction accesses per-CPU data.
fn is_own(insn: &Instruction) -> bool {
    matches!(insn.segment_prefix(), Register::FS | Register::GS)
}

/// More than the size of any task structure.
const LARGEST_TASK: u64 = 64 << 10;

/// The locations found in that code; empty if the kernel has no such function, or one of another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((start, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    read(8 * kernel.arch.isa().word as u32, start, &bytes, tasks::is_for_one_cpu(kernel))
}

/// Reads the locations from code. A kernel for one CPU has the running task in a variable.
fn read(bits: u32, start: u64, bytes: &[u8], has_one_cpu: bool) -> TaskPlace {
    let code: Vec<Instruction> = Decoder::with_ip(bits, bytes, start, DecoderOptions::NONE).into_iter().collect();
    let places = (0..code.len()).filter_map(|at| {
        let (task, current) = loaded(&code[at], has_one_cpu)?;
        let is_variable = !is_own(&code[at]);
        let (mut numbers, mut addresses) = (Vec::new(), Vec::new());
        let members = code[at + 1..].iter().enumerate().take_while(|(_, insn)| !overwrites(insn, task));
        for (behind, insn) in members.filter(|(_, insn)| is_member(insn, task)) {
            let offset = insn.memory_displacement64();
            match insn.mnemonic() {
                Mnemonic::Lea => addresses.push(offset),
                Mnemonic::Push => numbers.push(offset),
                Mnemonic::Mov if is_number(insn, &code[at + 2 + behind..]) => numbers.push(offset),
                _ => {}
            }
        }
        let pid = numbers.first().copied()?;
        // KASAN's code takes the address of a loaded field, too.
        let comm = addresses.into_iter().find(|address| !numbers.contains(address))?;
        Some(TaskPlace { current: Some(current), is_variable, pid: Some(pid), comm: Some(comm), ..TaskPlace::default() })
    });
    places.into_iter().next().unwrap_or_default()
}

/// Whether the instruction loads 32 bits that the following code does not use as a pointer.
fn is_number(insn: &Instruction, behind: &[Instruction]) -> bool {
    const BYTES: usize = 4;
    let register = insn.op0_register();
    let is_load = insn.op0_kind() == OpKind::Register && register.size() == BYTES;
    let mut same = behind.iter().take_while(|insn| !(writes_to(insn, register.full_register())));
    let follows = |insn: &Instruction| {
        insn.memory_base() != Register::None && insn.memory_base().full_register() == register.full_register()
    };
    is_load && !same.any(follows) && !behind.iter().find(|insn| writes_to(insn, register.full_register())).is_some_and(follows)
}

/// Whether the instruction changes the register.
fn writes_to(insn: &Instruction, register: Register) -> bool {
    let writes = !matches!(insn.mnemonic(), Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test);
    writes && insn.op0_kind() == OpKind::Register && insn.op0_register().full_register() == register
}

/// The register and address of a load from a fixed place in the per-CPU data or from a variable.
fn loaded(insn: &Instruction, has_one_cpu: bool) -> Option<(Register, u64)> {
    let fixed = matches!(insn.memory_base(), Register::None | Register::RIP) && insn.memory_index() == Register::None;
    let is_load = insn.mnemonic() == Mnemonic::Mov && insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Memory;
    let known = is_load && fixed && (is_own(insn) || has_one_cpu);
    known.then(|| (insn.op0_register().full_register(), insn.memory_displacement64()))
}

fn is_member(insn: &Instruction, task: Register) -> bool {
    let has_memory = (0..insn.op_count()).any(|operand| insn.op_kind(operand) == OpKind::Memory);
    has_memory
        && insn.memory_base().full_register() == task
        && insn.memory_index() == Register::None
        && (1..LARGEST_TASK).contains(&insn.memory_displacement64())
}

/// Whether the instruction changes the register. A load from the task itself into it still counts as a field access.
fn overwrites(insn: &Instruction, task: Register) -> bool {
    writes_to(insn, task) && !is_member(insn, task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::moment::{HARD_INTERRUPT, NEWER_HARD_INTERRUPT};

    /// DV-4: the code of irq_enter_rcu in Debian's kernels.
    #[test]
    fn the_count_of_the_moment_is_where_interrupts_are_added() {
        // call; add dword fs:[0xc1e5_a2f4], 0x10000
        let narrow = [0xe8, 0, 0, 0, 0, 0x64, 0x81, 0x05, 0xf4, 0xa2, 0xe5, 0xc1, 0, 0, 1, 0];
        assert_eq!(count_by_code::<32>(0xc100_0000, &narrow, HARD_INTERRUPT), Some(CountPlace::OwnData(0xc1e5_a2f4)));
        // add dword gs:[rip + 0x7ef8_0000], 0x10000
        let wide = [0x65, 0x81, 0x05, 0, 0, 0xf8, 0x7e, 0, 0, 1, 0];
        assert_eq!(count_by_code::<64>(0xffff_ffff_8108_0000, &wide, HARD_INTERRUPT), Some(CountPlace::OwnData(0xb)));
        // add dword gs:[rip + 0x7ef8_0000], 1
        let preemption = [0x65, 0x83, 0x05, 0, 0, 0xf8, 0x7e, 1];
        assert_eq!(count_by_code::<64>(0xffff_ffff_8108_0000, &preemption, HARD_INTERRUPT), None);
        // 7.3: add qword gs:[rip + 0x7ef8_0000], 0x100_0000
        let newer = [0x65, 0x48, 0x81, 0x05, 0, 0, 0xf8, 0x7e, 0, 0, 0, 1];
        let found = |interrupt| count_by_code::<64>(0xffff_ffff_8108_0000, &newer, interrupt);
        assert_eq!([HARD_INTERRUPT, NEWER_HARD_INTERRUPT].map(found), [None, Some(CountPlace::OwnData(0xc))]);
        // add dword [rip + 0x20_0000], 0x10000: with one CPU it is a variable
        let variable = [0x81, 0x05, 0, 0, 0x20, 0, 0, 0, 1, 0];
        assert_eq!(
            count_by_code::<64>(0xffff_ffff_8108_0000, &variable, HARD_INTERRUPT),
            Some(CountPlace::Variable(0xffff_ffff_8128_000a))
        );
    }

    /// DV-4: code as compilers emit it, and code without the fields.
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
            assert_eq!(read(bits, 0xc100_0000, code, false), expected, "{what}");
        }
    }

    /// DV-4: code for one CPU, with KASAN, and with a load of another field's pointer before the number.
    #[test]
    fn the_three_places_are_read_out_of_code_for_one_cpu() {
        const START: u64 = 0xffff_ffff_8100_0000;
        #[rustfmt::skip]
        let code: &[u8] = &[
            0x48, 0x8b, 0x1d, 0, 0, 0x20, 0,            // mov rbx, [rip + 0x20_0000]
            0x48, 0x8b, 0x83, 0x70, 7, 0, 0,            // mov rax, [rbx + 0x770]: a pointer
            0x44, 0x8b, 0x40, 0x18,                     // mov r8d, [rax + 0x18]
            0x48, 0x8d, 0xbb, 0x98, 9, 0, 0,            // lea rdi, [rbx + 0x998]: for the sanitizer
            0x44, 0x8b, 0x8b, 0x98, 9, 0, 0,            // mov r9d, [rbx + 0x998]
            0x48, 0x8d, 0x93, 0x98, 0xb, 0, 0,          // lea rdx, [rbx + 0xb98]
        ];
        let current = Some(START + 7 + 0x20_0000);
        let expected = TaskPlace { current, is_variable: true, pid: Some(0x998), comm: Some(0xb98), ..TaskPlace::default() };
        assert_eq!(read(64, START, code, true), expected);
        assert_eq!(read(64, START, code, false), TaskPlace::default(), "with many CPUs that is no per-CPU variable");
        #[rustfmt::skip]
        let narrow: &[u8] = &[
            0x8b, 0x1d, 0, 0, 0x20, 0xc1,               // mov ebx, [0xc120_0000]
            0x8b, 0x83, 0x70, 7, 0, 0,                  // mov eax, [ebx + 0x770]: a pointer
            0x8b, 0x40, 0x18,                           // mov eax, [eax + 0x18]
            0xff, 0xb3, 0x98, 9, 0, 0,                  // push [ebx + 0x998]
            0x8d, 0x93, 0x98, 0xb, 0, 0,                // lea edx, [ebx + 0xb98]
        ];
        let expected = TaskPlace { current: Some(0xc120_0000), ..expected };
        assert_eq!(read(32, 0xc100_0000, narrow, true), expected);
    }
}
