//! The running task. The offsets of its number and its name are found in the code that prints them (`cpu/tasks.rs` chooses the
//! code), because Debian's kernel has no type information.
//!
//! That code reads the running task from TPIDRURO, where kernels for ARMv7 keep it since 5.16
//! (CONFIG_CURRENT_POINTER_IN_TPIDRURO), or from the bottom of the kernel's stack. It loads the number and computes the
//! address of the name.

use super::state::THREAD;
use crate::boot::Kernel;
use crate::cpu::members::{self, Step};
use crate::cpu::moment::CountPlace;
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::arm::abi::AAPCS;
use trapline_isa::mem::Memory;

/// The running task: in a register that user code can only read, or at the bottom of the stack where the code says so.
pub fn current(view: &mut View) -> u64 {
    match view.tasks.in_stack {
        None => view.trap.handle().live32(THREAD).into(),
        Some(offset) => at_stack_bottom(view, offset),
    }
}

/// Apart, so that the usual way of [`current`], which every hit goes, keeps no registers.
#[cold]
fn at_stack_bottom(view: &mut View, offset: u64) -> u64 {
    view.read_number(view.stack_bottom().wrapping_add(offset), view.isa.word).unwrap_or(0)
}

/// The locations found in that code; empty if it has another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    read(&words(&bytes).collect::<Vec<u32>>())
}

fn words(code: &[u8]) -> impl Iterator<Item = u32> + '_ {
    code.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes))
}

fn read(code: &[u32]) -> TaskPlace {
    members::find(code.iter().map(|word| step(*word)), Some((SP, AAPCS.stack_size)))
}

/// Finds `preempt_count`: the word in `thread_info` to which this code adds `interrupt`, the kernel's HARDIRQ_OFFSET.
/// `thread_info` begins the task structure or, in older kernels, the stack.
pub fn count_by_code(_: u64, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let (mut task, mut loaded): (Option<u32>, Option<(u32, CountPlace)>) = (None, None);
    // Registers that the stack pointer was copied to, with or without its low bits.
    let mut of_stack = 1_u32 << SP;
    for word in words(code) {
        task = running_task(word).or(task);
        // add Rd, Rn, #interrupt
        if word & 0x0ff0_0000 == 0x0280_0000
            && u64::from((word & 0xff).rotate_right(2 * field(word, 8))) == interrupt
            && let Some((register, place)) = loaded
            && register == field(word, 16)
        {
            return Some(place);
        }
        match step(word) {
            Step::Address { into, base, distance: 0 } | Step::Cleared { into, base, .. } | Step::Masked { into, base, .. }
                if of_stack >> base & 1 != 0 =>
            {
                of_stack |= 1 << into;
            }
            Step::Load { into, base, distance, .. } => {
                let offset = u64::try_from(distance).ok();
                let place = match offset {
                    Some(offset) if task == Some(base.into()) => Some(CountPlace::Task(offset)),
                    Some(offset) if base != SP && of_stack >> base & 1 != 0 => Some(CountPlace::Stack(offset)),
                    _ => None,
                };
                of_stack &= !(1 << into);
                loaded = place.map(|place| (into.into(), place)).or(loaded);
            }
            _ => {}
        }
    }
    None
}

const SP: u8 = 13;
/// Registers that a called function may change: r0 to r3, ip and lr.
const OF_THE_CALLED: u32 = 0x500f;

const fn field(word: u32, low: u32) -> u32 {
    word >> low & 15
}

/// `mrc p15, 0, Rt, c13, c0, 3`: Rt.
fn running_task(word: u32) -> Option<u32> {
    (word & 0xffff_0fff == 0xee1d_0f70).then_some(field(word, 12))
}

/// The effect of an instruction of A32. A conditional instruction counts as one that changes its registers to unknown values.
fn step(word: u32) -> Step {
    const ALWAYS: u32 = 14;
    let [into, base, other] = [12, 16, 0].map(|low| field(word, low) as u8);
    // 8 bits turned by twice as many places as the next 4 say.
    let immediate = (word & 0xff).rotate_right(2 * field(word, 8));
    let half = field(word, 16) << 12 | word & 0xfff;
    let distance = if word & 1 << 23 != 0 { i64::from(word & 0xfff) } else { -i64::from(word & 0xfff) };
    if let Some(task) = running_task(word) {
        return Step::Task(task as u8);
    }
    if word >> 28 != ALWAYS {
        return Step::Others(written(word));
    }
    match word & 0x0ff0_0000 {
        0x0300_0000 => Step::Constant { into, value: half.into() },
        0x0340_0000 => Step::UpperHalf { into, value: half as u16 },
        0x03a0_0000 => Step::Constant { into, value: immediate.into() },
        0x01a0_0000 if word & 0xff0 == 0 => Step::Address { into, base: other, distance: 0 },
        0x0280_0000 => Step::Address { into, base, distance: immediate.into() },
        0x0240_0000 => Step::Address { into, base, distance: -i64::from(immediate) },
        0x0080_0000 if word & 0xff0 == 0 => Step::Sum { into, one: base, other },
        0x03c0_0000 => Step::Cleared { into, base, bits: immediate.into() },
        0x0000_0000 if word & 0xff0 == 0 => Step::Masked { into, base, mask: other },
        0x0510_0000 | 0x0590_0000 => Step::Load { into, base, distance, is_number: true },
        0x0790_0000 if word & 0xff0 == 0 => Step::LoadBy { into, base, by: other, is_number: true },
        _ => Step::Others(written(word)),
    }
}

/// The registers that an instruction may change, a bit for each: by its group, calls where the called may.
fn written(word: u32) -> u32 {
    let [rd, rn] = [12, 16].map(|low| 1 << field(word, low));
    let is_load = word & 1 << 20 != 0;
    let is_comparison = matches!(word >> 21 & 15, 8..=11) && is_load;
    let writes_back = if word & 1 << 24 == 0 || word & 1 << 21 != 0 { rn } else { 0 };
    match word >> 25 & 7 {
        // blx
        0 if word & 0x0fff_fff0 == 0x012f_ff30 => OF_THE_CALLED,
        // Multiplications, and loads and stores of other sizes.
        0 if word & 0x90 == 0x90 => rd | rd << 1 | rn,
        0 | 1 if is_comparison => 0,
        0 | 1 => rd,
        2 | 3 if is_load => rd | writes_back,
        2 | 3 => writes_back,
        4 if is_load => word & 0xffff | rn,
        5 if word & 1 << 24 != 0 => OF_THE_CALLED,
        7 if is_load => rd,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::moment::{HARD_INTERRUPT, NEWER_HARD_INTERRUPT};

    /// DV-4: the code of irq_enter_rcu in Debian's kernel.
    #[test]
    fn the_count_of_the_moment_is_where_interrupts_are_added() {
        // mrc p15, 0, r4, c13, c0, 3; ldr r3, [r4, #4]; ldr r2, [r4, #8]; add r3, r3, #0x10000
        let code = [0xee1d_4f70u32, 0xe594_3004, 0xe3a0_2008, 0xe283_3801];
        let bytes = |code: &[u32]| code.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(count_by_code(0, &bytes(&code), HARD_INTERRUPT), Some(CountPlace::Task(4)));
        assert_eq!(count_by_code(0, &bytes(&code[..3]), HARD_INTERRUPT), None);
        assert_eq!(count_by_code(0, &bytes(&[code[0], code[1], 0xe283_3001]), HARD_INTERRUPT), None, "preemption alone");
        // 7.3: add r3, r3, #0x1000000
        let newer = bytes(&[code[0], code[1], code[2], 0xe283_3401]);
        assert_eq!(count_by_code(0, &newer, NEWER_HARD_INTERRUPT), Some(CountPlace::Task(4)));
        assert_eq!(count_by_code(0, &newer, HARD_INTERRUPT), None);
        // 5.10: mov r4, #0xe000; movt r4, #0xffff; mov r3, sp; and r3, r3, r4; ldr r2, [r3, #4]; add r2, r2, #0x10000
        let code = [0xe3a0_4a0e, 0xe34f_4fff, 0xe1a0_300d, 0xe003_3004, 0xe593_2004, 0xe282_2801];
        assert_eq!(count_by_code(0, &bytes(&code), HARD_INTERRUPT), Some(CountPlace::Stack(4)));
        assert_eq!(count_by_code(0, &bytes(&code[4..]), HARD_INTERRUPT), None, "nothing says by which register");
    }

    /// DV-4: code as compilers emit it, and code without the fields.
    #[test]
    fn number_and_name_are_read_out_of_the_code() {
        const TASK: u32 = 0xee1d_5f70; // mrc p15, 0, r5, c13, c0, 3
        const CPU: u32 = 0xe595_3008; // ldr r3, [r5, #8]
        const NUMBER: u32 = 0xe595_a630; // ldr r10, [r5, #0x630]
        const NAME: u32 = 0xe285_be78; // add r11, r5, #0x780
        const CALL: u32 = 0xebdc_7814; // bl
        // mov r4, sp; bic r3, r4, #0x1fc0; bic r3, r3, #0x3f; ldr r2, [r3, #12]; ldr r9, [r3, #16]; add r7, r2, #0x4e0;
        // ldr r10, [r2, #0x3d0]; bl; add r7, r7, #8
        const OLD: [u32; 9] =
            [0xe1a0_400d, 0xe3c4_3d7f, 0xe3c3_303f, 0xe593_200c, 0xe593_9010, 0xe282_7e4e, 0xe592_a3d0, CALL, 0xe287_7008];
        let nothing = TaskPlace::default();
        let newer = TaskPlace { pid: Some(0x6b0), comm: Some(0x814), ..nothing };
        let older = TaskPlace { in_stack: Some(12), pid: Some(0x3d0), comm: Some(0x4e8), ..nothing };
        let place = TaskPlace { current: None, pid: Some(0x630), comm: Some(0x780), ..TaskPlace::default() };
        #[rustfmt::skip]
        let cases: [(&str, &[u32], TaskPlace); 10] = [
            ("as Debian's",                                 &[0xe92d_4ff0, TASK, 0xe1a0_4000, CPU, NAME, NUMBER, CALL], place),
            ("as 7.2's, by way of the credentials",         &[TASK, 0xe595_3808, 0xe285_8e81, 0xe595_2008, 0xe288_8004, 0xe593_3014, 0xe595_96b0], newer),
            ("as 5.10's, by way of the stack",              &OLD,                                                       older),
            ("the number behind the name and a call",       &[TASK, NAME, CALL, NUMBER, CPU],                           place),
            ("the register means something else by then",   &[TASK, CPU, 0xe3a0_5000, NUMBER, NAME],                    nothing),
            ("it is loaded anew",                           &[TASK, 0xe595_5004, NUMBER, NAME],                         nothing),
            ("it is restored",                              &[TASK, 0xe8bd_8020, NUMBER, NAME],                         nothing),
            ("the called may change it",                    &[0xee1d_0f70, CALL, 0xe590_a630, 0xe280_be78],             nothing),
            ("a number and no name",                        &[TASK, CPU, NUMBER],                                       nothing),
            ("no code at all",                              &[],                                                        nothing),
        ];
        for (what, code, expected) in cases {
            assert_eq!(read(code), expected, "{what}");
        }
    }
}
