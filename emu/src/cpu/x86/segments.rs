//! Tests the fast loads of segment registers (`translator/x86/segments.h`) against Unicorn's own, on random descriptor
//! tables.

use super::core::CORE;
use super::state;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::fills::Numbers;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

const DIRECTORY: u64 = 0x1000;
const TABLE: u64 = 0x2000;
const DESCRIPTORS: u64 = 0x4000;
const COUNT: u64 = 32;
const STACK: u64 = 0x8000;
const CODE: u64 = 0x1_0000;
/// The target of an interrupt return: INT3.
const PROGRAM: u64 = 0x2_0000;

/// The first random descriptor. The tests' own code and stack segments (`enter_flat_32`) need no table.
const FIRST_FREE: u64 = 4;

/// A random descriptor: mostly one that a kernel has, sometimes with one wrong bit.
fn descriptor(numbers: &mut Numbers) -> u64 {
    // Flat code and data, for the kernel and for programs, accessed already, and a small segment with a base.
    let usual =
        [0x00cf_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00cf_fb00_0000_ffff, 0x00cf_f300_0000_ffff, 0x1240_f334_5678_0fff];
    let row: u64 = numbers.of(&usual);
    if numbers.one_in(2) { row } else { row ^ 1 << (40 + numbers.any() % 16) }
}

/// Runs a program at CODE after loads from the descriptor table and the stack. Returns the vector that ended it, the
/// CPU's state and the stack.
fn run(ram: &Ram, forgotten: bool, program: &[u8]) -> (Option<Option<u32>>, CoreState, [u8; 64]) {
    // mov eax, [table]; mov eax, [esp]; then INVLPG of both pages, or a nop of equal length.
    let forget: &[u8] = if forgotten { b"\x0f\x01\x3d" } else { b"\x0f\x1f\x05" };
    let pages = [DESCRIPTORS, STACK].map(|page| (page as u32).to_le_bytes());
    let touch = [b"\xa1", &pages[0][..], b"\xa1", &pages[1]].concat();
    let start = [
        &b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0"[..], // paging on
        b"\x0f\x01\x15\0\x30\0\0",                      // lgdt [0x3000]
        &touch,
        forget,
        &pages[0],
        forget,
        &pages[1],
    ];
    ram.write(CODE, &[&start.concat(), program, b"\xf4"].concat());
    let mut core: Core<RecordingEvents> = Core::new(&CORE, ram).expect("a core");
    state::enter_flat_32(&core.stopped(), CODE);
    for (register, value) in [(RegisterX86::RAX, 0), (RegisterX86::RSP, STACK), (RegisterX86::CR3, DIRECTORY)] {
        core.stopped().write(register, value);
    }
    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
    assert_eq!(core.run(&mut events), Ended::Stopped);
    let mut image = CoreState::new(core.handle()).expect("a state");
    image.save(core.handle());
    let mut frame = [0; 64];
    assert!(ram.read(STACK, &mut frame));
    (events.last.map(|(vector, _)| vector), image, frame)
}

/// Runs a program with both paths over the same tables and compares the results. Returns how it ended.
fn compare(numbers: &mut Numbers, program: &[u8], frame: &[u32]) -> Option<Option<u32>> {
    let rows: Vec<u64> = (0..COUNT).map(|row| if row < FIRST_FREE { 0 } else { descriptor(numbers) }).collect();
    let ways = [true, false].map(|forgotten| {
        let ram = Ram::at(0, 1 << 20, ByteOrder::Little).expect("memory");
        ram.set_word32(DIRECTORY, TABLE as u32 | 0x63);
        (0..256).for_each(|page| assert!(ram.set_word32(TABLE + 4 * page, (page << 12) as u32 | 0x67)));
        ram.write(0x3000, &[&(COUNT as u16 * 8 - 1).to_le_bytes()[..], &(DESCRIPTORS as u32).to_le_bytes()].concat());
        rows.iter().zip(0..).for_each(|(row, number)| assert!(ram.set_word64(DESCRIPTORS + 8 * number, *row)));
        frame.iter().zip(0..).for_each(|(word, number)| assert!(ram.set_word32(STACK + 4 * number, *word)));
        ram.write(PROGRAM, b"\xcc");
        let (vector, image, stack) = run(&ram, forgotten, program);
        let after: Vec<u64> = (0..COUNT).map(|row| ram.word64(DESCRIPTORS + 8 * row)).collect();
        let words: Vec<u64> = (0..image.len() / 8).map(|word| image.get64(8 * word)).collect();
        (vector, after, stack, words)
    });
    let [library, quick] = &ways;
    assert_eq!((library.0, &library.1, library.2), (quick.0, &quick.1, quick.2), "{program:x?} {frame:x?} {rows:x?}");
    let differs: Vec<_> = (0..library.3.len()).filter(|word| library.3[*word] != quick.3[*word]).map(|word| 8 * word).collect();
    assert!(differs.is_empty(), "at {differs:x?}: {program:x?} {frame:x?} {rows:x?}");
    quick.0
}

fn selector(numbers: &mut Numbers) -> u32 {
    // Sometimes null, beyond the table's limit, or in the LDT.
    let row = match numbers.any() % 24 {
        0 => numbers.any() % 64,
        1 | 2 => 0,
        _ => FIRST_FREE + numbers.any() % (COUNT - FIRST_FREE),
    };
    (row << 3) as u32 | numbers.of(&[0, 0, 3, 3, 3, 1, 4])
}

#[test]
fn a_segment_register_is_loaded_as_the_library_would() {
    let mut numbers = Numbers(20_220_117);
    let (mut loaded, mut refused) = (0, 0);
    for _ in 0..400 {
        // mov ax, selector; mov es, ss, ds, fs or gs, ax
        let register = numbers.of(&[0, 2, 3, 3, 4, 5]);
        let program = [b"\x66\xb8", &selector(&mut numbers).to_le_bytes()[..2], b"\x8e", &[0xc0 | register << 3]].concat();
        match compare(&mut numbers, &program, &[]) {
            None => loaded += 1,
            Some(_) => refused += 1,
        }
    }
    assert!(loaded > 80 && refused > 80, "{loaded} loaded, {refused} refused");
}

#[test]
fn an_interrupt_returns_to_a_program_as_the_library_would() {
    let mut numbers = Numbers(20_220_118);
    let (mut faults, mut others) = (0, 0);
    for _ in 0..600 {
        let levels = numbers.of(&[3, 3, 3, 3, 0, 1]);
        let mut any = || selector(&mut numbers) & !7 | levels;
        let (code, stack) = (any(), any());
        let flags = numbers.any() as u32 & numbers.of(&[0x3cd5, 0x3cd5, 0x25_4dd5, 0xffff_ffff]);
        let frame = [PROGRAM as u32, code, flags, 0x3_0000, stack];
        // mov ax, selector; mov ds, ax, so that DS has a value that must not leak to the program; mov esp, frame; iret
        let program = if numbers.one_in(3) { b"\x66\xb8\x20\0\x8e\xd8\xcf".as_slice() } else { b"\xcf" };
        match compare(&mut numbers, program, &frame) {
            Some(Some(13)) => faults += 1,
            _ => others += 1,
        }
    }
    assert!(faults > 100 && others > 60, "{faults} refused, {others} others");
}
