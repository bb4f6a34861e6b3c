use super::super::{ARM, THUMB2};
use super::*;
use crate::arch::Isa;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};
use crate::regs::{Reg, Registers};
use alloc::vec::Vec;

const TEXT: u32 = 0xc030_0ff0;
const DATA: u32 = 0xd000_0000;
const N: u32 = 1 << 31;
const Z: u32 = 1 << 30;
const C: u32 = 1 << 29;
const V: u32 = 1 << 28;

#[derive(Clone, Debug, PartialEq)]
struct Toy {
    regs: [u32; 17],
    pc: u32,
}

impl Registers for Toy {
    fn get(&self, reg: Reg) -> u64 {
        self.regs[usize::from(reg.0)].into()
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.regs[usize::from(reg.0)] = value as u32;
    }
    fn pc(&self) -> u64 {
        self.pc.into()
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc as u32;
    }
}

/// 256 bytes around the text and 256 bytes of data. All other addresses fault.
#[derive(Clone, Debug, PartialEq)]
struct Ram {
    text: Vec<u8>,
    data: Vec<u8>,
}

impl Ram {
    fn place(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let parts = [(u64::from(TEXT & !0xff), &mut self.text), (u64::from(DATA), &mut self.data)];
        parts.into_iter().find_map(|(start, bytes)| {
            let from = address.checked_sub(start)? as usize;
            bytes.get_mut(from..from.checked_add(len)?)
        })
    }
    fn word(&mut self, address: u32) -> u32 {
        self.read_number(address.into(), 4).expect("it is there") as u32
    }
}

impl Memory for Ram {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = self.place(address, into.len()).ok_or(Fault { address, write: false })?;
        into.copy_from_slice(from);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.place(address, bytes.len()).ok_or(Fault { address, write: true })?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Registers 0 to 12 hold 16 times their number; sp and lr point to data; each word of memory holds its address plus 3.
fn start(flags: u32) -> (Toy, Ram) {
    let mut regs = core::array::from_fn(|number| number as u32 * 16);
    (regs[13], regs[14], regs[15], regs[16]) = (DATA + 0x80, DATA + 0x40, 0, flags | 0x13);
    let words = |start: u32| (0..64).flat_map(|word| (start + 4 * word + 3).to_le_bytes()).collect();
    (Toy { regs, pc: TEXT }, Ram { text: words(TEXT & !0xff), data: words(DATA) })
}

fn run(isa: &Isa, policy: Policy, bytes: &[u8], flags: u32) -> (Toy, Ram, Result<(), Fault>) {
    let (mut toy, mut ram) = start(flags);
    let insn = (isa.decode)(TEXT.into(), bytes).expect("a whole instruction");
    let Ok(Plan::Emulate(what)) = (isa.plan)(&insn, policy) else { panic!("{bytes:02x?} is not computed") };
    let done = (isa.emulate)(&what, &insn, &mut toy, &mut ram);
    (toy, ram, done.map(|_| ()))
}

/// The expected changes: registers by number (16 is the CPSR), the pc, words of memory.
struct After(&'static [(usize, u32)], u32, &'static [(u32, u32)]);

fn check(isa: &Isa, what: &str, bytes: &[u8], flags: u32, after: &After) {
    let (toy, mut ram, done) = run(isa, Policy::LINUX_6_1, bytes, flags);
    assert_eq!(done, Ok(()), "{what}");
    let (mut expected, _) = start(flags);
    for (number, value) in after.0 {
        expected.regs[*number] = *value;
    }
    expected.pc = after.1;
    assert_eq!(toy, expected, "{what}");
    for (address, value) in after.2 {
        assert_eq!(ram.word(*address), *value, "{what}");
    }
}

/// KP-2: the pc as an operand is 8 ahead. Loads and ALU results in the pc may switch to Thumb.
#[test]
fn a32_instructions_with_the_pc_are_emulated() {
    const NEXT: u32 = TEXT + 4;
    const THUMB_SVC: u32 = THUMB | 0x13;
    const FROM_R2: u32 = 32_u32.wrapping_sub(TEXT + 8);
    #[rustfmt::skip]
    let cases: &[(&str, u32, u32, After)] = &[
        ("b",                          0xea00_0002, 0, After(&[], TEXT + 16, &[])),
        ("bl back",                    0xebff_fffc, 0, After(&[(14, NEXT)], TEXT - 8, &[])),
        ("bne, not taken",             0x1a00_0002, Z, After(&[], NEXT, &[])),
        ("bne, taken",                 0x1a00_0002, 0, After(&[], TEXT + 16, &[])),
        ("blx with H",                 0xfb00_0002, 0, After(&[(14, NEXT), (16, THUMB_SVC)], TEXT + 18, &[])),
        ("bx r2",                      0xe12f_ff12, 0, After(&[], 32, &[])),
        ("blx lr: old value",          0xe12f_ff3e, 0, After(&[(14, NEXT)], DATA + 0x40, &[])),
        ("bx pc",                      0xe12f_ff1f, 0, After(&[], TEXT + 8, &[])),
        ("mrs r1, cpsr",               0xe10f_1000, N | C, After(&[(1, N | C | 0x13)], NEXT, &[])),
        ("mov ip, sp",                 0xe1a0_c00d, 0, After(&[(12, DATA + 0x80)], NEXT, &[])),
        ("mov pc, lr",                 0xe1a0_f00e, 0, After(&[], DATA + 0x40, &[])),
        ("add r1, pc, #8",             0xe28f_1008, 0, After(&[(1, TEXT + 16)], NEXT, &[])),
        ("sub r1, pc, #0x1000",        0xe24f_1a01, 0, After(&[(1, TEXT + 8 - 0x1000)], NEXT, &[])),
        ("add pc, pc, r1, lsl #2",     0xe08f_f101, 0, After(&[], TEXT + 8 + 64, &[])),
        ("add pc, r1, #1: Thumb",      0xe281_f001, 0, After(&[(16, THUMB_SVC)], 16, &[])),
        ("rsb r1, pc, r2",             0xe06f_1002, 0, After(&[(1, FROM_R2)], NEXT, &[])),
        ("adc r1, pc, #0, with carry", 0xe2af_1000, C, After(&[(1, TEXT + 9)], NEXT, &[])),
        ("adds r1, pc, r2, ror #1",    0xe09f_10e2, V, After(&[(1, TEXT + 24), (16, N | 0x13)], NEXT, &[])),
        ("movs r1, pc, lsl #1",        0xe1b0_108f, V, After(&[(1, (TEXT + 8) << 1), (16, N | C | V | 0x13)], NEXT, &[])),
        ("cmp pc, r1",                 0xe15f_0001, V, After(&[(16, N | C | 0x13)], NEXT, &[])),
        ("tst pc, #0x80000000",        0xe31f_0102, V, After(&[(16, N | C | V | 0x13)], NEXT, &[])),
        ("teq pc, pc",                 0xe13f_000f, C, After(&[(16, Z | C | 0x13)], NEXT, &[])),
        ("bics r1, pc, pc",            0xe1df_100f, 0, After(&[(1, 0), (16, Z | 0x13)], NEXT, &[])),
        ("ldr r1, [pc, #-8]",          0xe51f_1008, 0, After(&[(1, TEXT + 3)], NEXT, &[])),
        ("ldrb r1, [pc, #-7]",         0xe55f_1007, 0, After(&[(1, 0x0f)], NEXT, &[])),
        ("ldr pc, [lr], #4: Thumb",    0xe49e_f004, 0, After(&[(14, DATA + 0x44), (16, THUMB_SVC)], DATA + 0x42, &[])),
        ("ldr pc, [sp, -r1, lsl #1]!", 0xe73d_f081, 0, After(&[(13, DATA + 0x60), (16, THUMB_SVC)], DATA + 0x62, &[])),
        ("str pc, [sp, #-4]!",         0xe52d_f004, 0, After(&[(13, DATA + 0x7c)], NEXT, &[(DATA + 0x7c, TEXT + 8)])),
        ("str r1, [pc]",               0xe58f_1000, 0, After(&[], NEXT, &[(TEXT + 8, 16)])),
        ("ldrh r1, [pc, #-6]",         0xe15f_10b6, 0, After(&[(1, 0xc030)], NEXT, &[])),
        ("ldrsh r1, [pc, #-6]",        0xe15f_10f6, 0, After(&[(1, 0xffff_c030)], NEXT, &[])),
        ("ldrsb r1, [pc, #-8]",        0xe15f_10d8, 0, After(&[(1, 0xffff_fff3)], NEXT, &[])),
        ("ldrd r2, [pc, #-8]",         0xe14f_20d8, 0, After(&[(2, TEXT + 3), (3, TEXT + 7)], NEXT, &[])),
        ("strd r2, [pc, #-8]",         0xe14f_20f8, 0, After(&[], NEXT, &[(TEXT, 32), (TEXT + 4, 48)])),
        ("pop {r4, pc}: Thumb",        0xe8bd_8010, 0, After(&[(4, DATA + 0x83), (13, DATA + 0x88), (16, THUMB_SVC)], DATA + 0x86, &[])),
        ("ldmib lr, {r1, pc}",         0xe99e_8002, 0, After(&[(1, DATA + 0x47), (16, THUMB_SVC)], DATA + 0x4a, &[])),
        ("ldmda lr, {lr, pc}",         0xe81e_c000, 0, After(&[(14, DATA + 0x3f), (16, THUMB_SVC)], DATA + 0x42, &[])),
        ("push {r1, pc}",              0xe92d_8002, 0, After(&[(13, DATA + 0x78)], NEXT, &[(DATA + 0x78, 16), (DATA + 0x7c, TEXT + 8)])),
        ("nop",                        0xe320_f000, 0, After(&[], NEXT, &[])),
        ("addeq pc, pc, #0, not done", 0x028f_f000, 0, After(&[], NEXT, &[])),
    ];
    for (what, word, flags, after) in cases {
        check(&ARM, what, &word.to_le_bytes(), *flags, after);
    }
}

/// KP-2: the pc as an operand is 4 ahead, aligned to 4 for addresses. Moves to the pc stay in Thumb.
#[test]
fn thumb_instructions_with_the_pc_are_emulated() {
    const T: u32 = THUMB;
    const SVC: u32 = THUMB | 0x13;
    #[rustfmt::skip]
    let cases: &[(&str, &[u16], u32, After)] = &[
        ("b",                        &[0xe002],         T,     After(&[], TEXT + 8, &[])),
        ("beq, not taken",           &[0xd002],         T,     After(&[], TEXT + 2, &[])),
        ("beq, taken",               &[0xd002],         T | Z, After(&[], TEXT + 8, &[])),
        ("bl",                       &[0xf000, 0xf802], T,     After(&[(14, TEXT + 5)], TEXT + 8, &[])),
        ("blx",                      &[0xf000, 0xe802], T,     After(&[(14, TEXT + 5), (16, 0x13)], TEXT + 8, &[])),
        ("bx r2",                    &[0x4710],         T,     After(&[(16, 0x13)], 32, &[])),
        ("blx r2",                   &[0x4790],         T,     After(&[(14, TEXT + 3), (16, 0x13)], 32, &[])),
        ("bx pc: to A32",            &[0x4778],         T,     After(&[(16, 0x13)], TEXT + 4, &[])),
        ("add r2, pc",               &[0x447a],         T,     After(&[(2, TEXT + 36)], TEXT + 2, &[])),
        ("add pc, r2",               &[0x4497],         T,     After(&[], TEXT + 36, &[])),
        ("mov pc, lr",               &[0x46f7],         T,     After(&[], DATA + 0x40, &[])),
        ("cbz r0",                   &[0xb118],         T,     After(&[], TEXT + 10, &[])),
        ("cbnz r0",                  &[0xb918],         T,     After(&[], TEXT + 2, &[])),
        ("ldr r0, [pc, #4]",         &[0x4801],         T,     After(&[(0, TEXT + 11)], TEXT + 2, &[])),
        ("adr r1, #4",               &[0xa101],         T,     After(&[(1, TEXT + 8)], TEXT + 2, &[])),
        ("add r1, sp, #8",           &[0xa902],         T,     After(&[(1, DATA + 0x88)], TEXT + 2, &[])),
        ("sub sp, #8",               &[0xb082],         T,     After(&[(13, DATA + 0x78)], TEXT + 2, &[])),
        ("ldr r1, [sp, #8]",         &[0x9902],         T,     After(&[(1, DATA + 0x8b)], TEXT + 2, &[])),
        ("str r1, [sp, #8]",         &[0x9102],         T,     After(&[], TEXT + 2, &[(DATA + 0x88, 16)])),
        ("pop {r1, pc}",             &[0xbd02],         T,     After(&[(1, DATA + 0x83), (13, DATA + 0x88)], DATA + 0x86, &[])),
        ("ldr.w pc, [lr, #4]",       &[0xf8de, 0xf004], T,     After(&[], DATA + 0x46, &[])),
        ("ldr pc, [sp], #4",         &[0xf85d, 0xfb04], T,     After(&[(13, DATA + 0x84)], DATA + 0x82, &[])),
        ("ldr.w pc, [lr, r1, lsl 1]", &[0xf85e, 0xf011], T,    After(&[], DATA + 0x62, &[])),
        ("ldr.w r1, [pc, #-4]",      &[0xf85f, 0x1004], T,     After(&[(1, TEXT + 3)], TEXT + 4, &[])),
        ("ldrh.w r1, [pc, #-2]",     &[0xf83f, 0x1002], T,     After(&[(1, 0xc030)], TEXT + 4, &[])),
        ("ldrsh.w r1, [pc, #-2]",    &[0xf93f, 0x1002], T,     After(&[(1, 0xffff_c030)], TEXT + 4, &[])),
        ("ldrsb.w r1, [pc, #-4]",    &[0xf91f, 0x1004], T,     After(&[(1, 0xffff_fff3)], TEXT + 4, &[])),
        ("ldrd r1, r2, [pc, #-4]",   &[0xe95f, 0x1201], T,     After(&[(1, TEXT + 3), (2, TEXT + 7)], TEXT + 4, &[])),
        ("addw r1, pc, #0x801",      &[0xf60f, 0x0101], T,     After(&[(1, TEXT + 4 + 0x801)], TEXT + 4, &[])),
        ("subw r1, pc, #4",          &[0xf2af, 0x0104], T,     After(&[(1, TEXT)], TEXT + 4, &[])),
        ("tbb [lr, r0]",             &[0xe8de, 0xf000], T,     After(&[], TEXT + 4 + 2 * 0x43, &[])),
        ("tbh [pc, r0]",             &[0xe8df, 0xf010], T,     After(&[], TEXT + 4 + 2 * 0x0ff7, &[])),
        ("pop.w {r1, pc}",           &[0xe8bd, 0x8002], T,     After(&[(1, DATA + 0x83), (13, DATA + 0x88)], DATA + 0x86, &[])),
        ("mrs r1, cpsr",             &[0xf3ef, 0x8100], T | N, After(&[(1, N | 0x13)], TEXT + 4, &[])),
        ("itte ne",                  &[0xbf1a],         T,     After(&[(16, SVC | 1 << 26 | 0x1800)], TEXT + 2, &[])),
        ("the first of itte",        &[0xb082],         T | 1 << 26 | 0x1800, After(&[(13, DATA + 0x78), (16, SVC | 0x1400)], TEXT + 2, &[])),
        ("the last of it",           &[0x4790],         T | 0x1800, After(&[(14, TEXT + 3), (16, 0x13)], 32, &[])),
    ];
    for (what, halves, flags, after) in cases {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        check(&THUMB2, what, &bytes, *flags, after);
    }
}

/// KP-2: `cpsie i` and `cpsid i` in both sets, which only `best` emulates.
#[test]
fn interrupt_masks_are_set_and_cleared() {
    #[rustfmt::skip]
    let cases: &[(&Isa, &[u8], u32, u32)] = &[
        (&ARM,    &0xf10c_0080_u32.to_le_bytes(), 0x100, 0x180), // cpsid i
        (&ARM,    &0xf108_0080_u32.to_le_bytes(), 0x1c0, 0x140), // cpsie i
        (&THUMB2, &0xb672_u16.to_le_bytes(),      0x100, 0x180), // cpsid i
        (&THUMB2, &0xb662_u16.to_le_bytes(),      0x1c0, 0x140), // cpsie i
    ];
    for (isa, bytes, before, after) in cases {
        let thumb = if isa.longest > bytes.len() { THUMB } else { 0 };
        let (toy, _, done) = run(isa, Policy::Best, bytes, thumb | before);
        assert_eq!((done, toy.regs[16]), (Ok(()), thumb | after | 0x13), "{bytes:02x?}");
    }
}

/// KP-2: a load of several registers that includes a written-back base is UNPREDICTABLE, so the CPU runs it.
#[test]
fn a_load_of_a_written_back_base_runs_on_the_cpu() {
    for (what, isa, bytes) in
        [("ldmda lr!, {lr, pc}", &ARM, 0xe83e_c000_u32.to_le_bytes()), ("ldmia r3!, {r3, pc}", &THUMB2, [0xb3, 0xe8, 0x08, 0x80])]
    {
        assert!(run(isa, Policy::Best, &bytes, 0).2.is_err(), "{what}");
    }
}

/// KP-2: all conditions with all flags, compared with the manual's definitions.
#[test]
fn conditions_are_evaluated_as_in_the_manual() {
    for flags in 0..16_u32 {
        let status = flags << 28;
        let (n, z, c, v) = (status & N != 0, status & Z != 0, status & C != 0, status & V != 0);
        #[rustfmt::skip]
        let expected = [
            z, !z, c, !c, n, !n, v, !v, c && !z, !c || z, n == v, n != v, !z && n == v, z || n != v, true, true,
        ];
        for (condition, expected) in (0..).zip(expected) {
            assert_eq!(holds(condition, status), expected, "{condition} {flags:04b}");
            let branch = (u32::from(condition) << 28 | 0x0a00_0002).to_le_bytes();
            if condition < 15 {
                let (toy, ..) = run(&ARM, Policy::Best, &branch, status);
                assert_eq!(toy.pc, if expected { TEXT + 16 } else { TEXT + 4 }, "{condition} {flags:04b}");
            }
        }
    }
}

/// KP-2: the CPU then runs the copy, which raises the fault.
#[test]
fn a_fault_changes_nothing() {
    let words = [0xe59f_1ffc_u32, 0xe58f_1ffc, 0xe591_f000, 0xe8b2_8010, 0xe922_8010, 0xe1cf_2fdc, 0xe1cf_2ffc, 0xe72d_f08e];
    for word in words {
        let (toy, ram, done) = run(&ARM, Policy::Best, &word.to_le_bytes(), 0);
        assert!(done.is_err(), "{word:#x}");
        assert_eq!((toy, ram), start(0), "{word:#x}");
    }
}
