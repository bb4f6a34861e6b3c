//! Exception frames of 32-bit x86 CPUs, compared with a model of the manual: on a stack whose segment has a base and 16
//! or 32 bits, on the stack of the task, and out of virtual-8086 mode.

use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{DATA, ELSEWHERE, EXCEPTION_STACK, FREE, PAGE_TABLES, PLACE, STACK};

/// The descriptor table of these cases, and the operand of LGDT.
pub const GDT: u64 = FREE + 0x400;
const GDT_POINTER: u64 = FREE + 0x500;
/// The task state.
pub const TASK: u64 = FREE + 0x2000;

// Selectors.
pub const CODE: u64 = 0x10;
pub const USER_CODE: u64 = 0x20;
pub const USER_DATA: u64 = 0x28;
const TASK_SELECTOR: u64 = 0x30;
const STACK_SELECTOR: u64 = 0x40;

const FLAT_DATA: u64 = 0x00cf_9300_0000_ffff;

/// A machine with pages that programs may access, and with descriptors for programs and for a task of this limit.
pub fn ready(arch: Arch, task_limit: u64) -> Bare {
    let mut bare = Bare::new(arch);
    let (entry, tables): (usize, usize) = if arch == Arch::X86_64 { (8, 15 * 0x1000) } else { (4, 6 * 0x1000) };
    let mut bytes = vec![0; tables];
    bare.machine().ram().read(PAGE_TABLES, &mut bytes);
    bytes.chunks_exact_mut(entry).filter(|entry| entry[0] & 1 != 0).for_each(|entry| entry[0] |= 4);
    bare.put(PAGE_TABLES, &bytes);
    let code = match arch {
        Arch::X86_64 => [0x00af_9b00_0000_ffff, 0x00af_fb00_0000_ffff],
        _ => [0x00cf_9b00_0000_ffff, 0x00cf_fb00_0000_ffff],
    };
    let task = 0x8900_0000_0000 | task_limit | (TASK & 0xff_ffff) << 16 | (TASK >> 24) << 56;
    let rows = [0, 0, code[0], FLAT_DATA, code[1], 0x00cf_f300_0000_ffff, task, 0, FLAT_DATA];
    bare.put(GDT, &rows.iter().flat_map(|row: &u64| row.to_le_bytes()).collect::<Vec<_>>());
    bare.put(GDT_POINTER, &[&(rows.len() as u16 * 8 - 1).to_le_bytes()[..], &GDT.to_le_bytes()].concat());
    let mut state = vec![0; 0x68];
    state[4..8].copy_from_slice(&(EXCEPTION_STACK as u32).to_le_bytes());
    state[8..12].copy_from_slice(&0x18u32.to_le_bytes());
    if arch == Arch::X86_64 {
        state[4..12].copy_from_slice(&EXCEPTION_STACK.to_le_bytes());
        state[36..44].copy_from_slice(&EXCEPTION_STACK.to_le_bytes());
    }
    bare.put(TASK, &state);
    bare.set(arch.isa().abi.sp, STACK);
    bare
}

/// Maps a page of the lowest 4 MiB.
pub fn map_low(bare: &mut Bare, page: u64, to: u64) {
    bare.put(PAGE_TABLES + 0x1000 + 4 * page, &(to as u32 | 7).to_le_bytes());
}

/// Code that loads the tables and the task: lgdt; mov eax,cr3; mov cr3,eax; mov ax,TASK; ltr ax. It leaves eax alone.
fn loads_tables(arch: Arch) -> Vec<u8> {
    let mut code = vec![0x50, 0x0f, 0x01];
    code.extend(if arch == Arch::X86_64 { &[0x14, 0x25][..] } else { &[0x15] });
    code.extend((GDT_POINTER as u32).to_le_bytes());
    code.extend([0x0f, 0x20, 0xd8, 0x0f, 0x22, 0xd8, 0x66, 0xb8, TASK_SELECTOR as u8, 0, 0x0f, 0x00, 0xd8, 0x58]);
    code
}

/// Code that loads the tables and returns by these words, the highest address first.
pub fn enters(arch: Arch, frame: &[u64]) -> Vec<u8> {
    let mut code = loads_tables(arch);
    for word in frame {
        code.push(0x68);
        code.extend((*word as u32).to_le_bytes());
    }
    // In 64-bit mode a return always takes five words.
    code.extend(if arch == Arch::X86_64 { &[0x48, 0xcf][..] } else { &[0xcf] });
    if arch == Arch::X86_64 && frame.len() == 3 {
        let all = [&[0x18, STACK][..], frame].concat();
        return enters(arch, &all);
    }
    code
}

/// A descriptor of writable data.
fn data_segment(base: u64, limit: u64, big: bool, level: u64) -> u64 {
    let top = (0x0010_0000_0000_0000 * u64::from(limit > 0xffff) * 8) | if big { 1 << 54 } else { 0 };
    let limit = if limit > 0xffff { limit >> 12 } else { limit };
    let access = 0x93 | level << 5;
    limit & 0xffff | (base & 0xff_ffff) << 16 | access << 40 | (limit >> 16) << 48 | top | (base >> 24) << 56
}

/// The frame as the manual describes it: addresses and words from the highest address down, and the stack pointer
/// afterwards.
fn model(words: &[u64], base: u64, big: bool, pointer: u64) -> (Vec<(u64, u32)>, u64) {
    let mask = if big { 0xffff_ffff } else { 0xffff };
    let at = |number: u64| (base + (pointer.wrapping_sub(4 * (number + 1)) & mask)) & 0xffff_ffff;
    let stored = words.iter().zip(0..).map(|(word, number)| (at(number), *word as u32)).collect();
    let left = pointer & !mask & 0xffff_ffff | pointer.wrapping_sub(4 * words.len() as u64) & mask;
    (stored, left)
}

fn check(name: &str, bare: &mut Bare, (stored, pointer): &(Vec<(u64, u32)>, u64)) {
    for (at, word) in stored {
        let mut bytes = [0; 4];
        bare.machine().ram().read(*at, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), *word, "{name}: the word at {at:#x} of {stored:x?}");
    }
    assert_eq!(bare.get(Arch::I386.isa().abi.sp), *pointer, "{name}: the stack pointer");
}

fn get(bare: &mut Bare, name: &str) -> u64 {
    bare.get(Arch::I386.isa().abi.register(name).expect("it has a name"))
}

/// Instructions that raise an exception: the bytes, the error code, and the distance from the instruction to the saved
/// pc.
const RAISING: [(&str, &[u8], Option<u64>, u64); 3] =
    [("ud2", &[0x0f, 0x0b], None, 0), ("int", &[0xcd, 0x80], None, 2), ("page fault", &[0xa1, 0, 0, 0, 0x70], Some(0), 0)];

/// Bases of stack segments, whether the segment has 32 bits, and stack pointers. Base and pointer add up to the lab's
/// stack.
fn stacks() -> Vec<(u64, bool, u64)> {
    let mut all = Vec::new();
    for base in [0, 0x1000, 0x3f_0000, 0xffff_0000u64] {
        for pointer in [STACK, STACK - 0x20, STACK - 0x102] {
            all.push((base, true, pointer.wrapping_sub(base) & 0xffff_ffff));
        }
    }
    for base in [STACK - 0x100, STACK - 0x400, STACK - 0x7f0] {
        for above in [0, 0x1234_0000, 0xffff_0000u64] {
            all.push((base, false, above | (STACK - base)));
            // The pointer wraps within the segment.
            all.push((base, false, above | 0xfff0));
        }
    }
    all.retain(|(base, big, pointer)| {
        let (stored, _) = model(&[0; 10], *base, *big, *pointer);
        stored.iter().all(|(at, _)| (STACK - 0x800..STACK + 0x800).contains(at))
    });
    all
}

/// The stack segment has a base, as with espfix, and the exception does not change the privilege level.
#[test]
fn a_frame_on_the_own_stack_lies_where_its_segment_says() {
    let mut tried = 0;
    for (base, big, pointer) in stacks() {
        for (what, bytes, error, behind) in RAISING {
            let name = format!("{what} on {base:#x}, {big}, {pointer:#x}");
            let mut bare = ready(Arch::I386, 0x67);
            bare.put(GDT + STACK_SELECTOR, &data_segment(base, 0xffff_ffff, big, 0).to_le_bytes());
            let mut code = loads_tables(Arch::I386);
            // mov $selector,%ax; mov %ax,%ss; mov $pointer,%esp
            code.extend([0x66, 0xb8, STACK_SELECTOR as u8, 0, 0x8e, 0xd0, 0xbc]);
            code.extend((pointer as u32).to_le_bytes());
            let pc = PLACE + code.len() as u64 + behind;
            code.extend(bytes);
            bare.run(&code);
            let frame: Vec<u64> = [0, CODE, pc].into_iter().chain(error).collect();
            let (mut stored, left) = model(&frame, base, big, pointer);
            // The code in front has changed the flags.
            stored[0].1 = read(&mut bare, stored[0].0);
            check(&name, &mut bare, &(stored, left));
            assert_eq!(get(&mut bare, "ss"), STACK_SELECTOR, "{name}");
            tried += 1;
        }
    }
    println!("{tried} frames");
    assert!(tried > 40, "{tried}");
}

fn read(bare: &mut Bare, at: u64) -> u32 {
    let mut bytes = [0; 4];
    bare.machine().ram().read(at, &mut bytes);
    u32::from_le_bytes(bytes)
}

/// An exception in a program uses the stack of the task, whose segment has a base.
#[test]
fn a_frame_on_the_tasks_stack_lies_where_its_segment_says() {
    let mut tried = 0;
    for (base, big, pointer) in stacks() {
        for (what, bytes, error, behind) in RAISING {
            // An interrupt gate that programs may not use is another exception.
            if what == "int" {
                continue;
            }
            let error = error.map(|error| error | 4);
            let name = format!("{what} to {base:#x}, {big}, {pointer:#x}");
            let mut bare = ready(Arch::I386, 0x67);
            bare.put(GDT + STACK_SELECTOR, &data_segment(base, 0xffff_ffff, big, 0).to_le_bytes());
            bare.put(TASK + 4, &[(pointer as u32).to_le_bytes(), (STACK_SELECTOR as u32).to_le_bytes()].concat());
            bare.put(ELSEWHERE, bytes);
            let (user, flags) = (DATA + 0x1000, 0x202 | 0xd5);
            bare.run(&enters(Arch::I386, &[USER_DATA | 3, user, flags, USER_CODE | 3, ELSEWHERE]));
            let frame: Vec<u64> =
                [USER_DATA | 3, user, flags, USER_CODE | 3, ELSEWHERE + behind].into_iter().chain(error).collect();
            check(&name, &mut bare, &model(&frame, base, big, pointer));
            assert_eq!((get(&mut bare, "ss"), get(&mut bare, "cs")), (STACK_SELECTOR, CODE), "{name}");
            tried += 1;
        }
    }
    println!("{tried} frames");
    assert!(tried > 20, "{tried}");
}

/// An exception in virtual-8086 mode saves four more segment registers, and sets them to null.
#[test]
fn a_frame_out_of_virtual_8086_mode_has_its_segments() {
    let mut tried = 0;
    for (base, big, pointer) in stacks() {
        for (seed, (what, bytes, error, _)) in RAISING.iter().enumerate() {
            if *what == "int" {
                continue;
            }
            let error = error.map(|error| error | 4);
            // In 16-bit code: mov 0xfff0(16 bits),%ax, where nothing is mapped.
            let bytes: &[u8] = if *what == "ud2" { bytes } else { &[0xa1, 0xf0, 0xff] };
            let name = format!("{what} to {base:#x}, {big}, {pointer:#x}");
            let mut bare = ready(Arch::I386, 0x67);
            bare.put(GDT + STACK_SELECTOR, &data_segment(base, 0xffff_ffff, big, 0).to_le_bytes());
            bare.put(TASK + 4, &[(pointer as u32).to_le_bytes(), (STACK_SELECTOR as u32).to_le_bytes()].concat());
            map_low(&mut bare, 1, ELSEWHERE);
            bare.put(ELSEWHERE, bytes);
            let segments = [1, 2, 3, 4].map(|number| 0x1000 * number + 0x11 * (seed as u64 + tried));
            let [gs, fs, ds, es] = segments;
            let (user, flags) = (0x180, 0x2_0202);
            bare.run(&enters(Arch::I386, &[gs, fs, ds, es, 0x345, user, flags, 0x100, 0]));
            let frame: Vec<u64> = [gs, fs, ds, es, 0x345, user, flags, 0x100, 0].into_iter().chain(error).collect();
            check(&name, &mut bare, &model(&frame, base, big, pointer));
            let now = ["ss", "cs", "ds", "es", "fs", "gs"].map(|segment| get(&mut bare, segment));
            assert_eq!(now, [STACK_SELECTOR, CODE, 0, 0, 0, 0], "{name}");
            assert_eq!(get(&mut bare, "flags") & 1 << 17, 0, "{name}");
            tried += 1;
        }
    }
    println!("{tried} frames");
    assert!(tried > 20, "{tried}");
}

/// A stack without room, or an invalid one, raises another exception. If that cannot be pushed either, the CPU shuts
/// down.
#[test]
fn a_frame_that_has_no_room_is_another_exception() {
    // The row of the stack, its selector, and the exception that is raised instead.
    let too_short = data_segment(0, 0xff, true, 0);
    #[rustfmt::skip]
    let cases = [
        ("no room",        too_short,                                   STACK_SELECTOR,     None),
        ("not present",    FLAT_DATA & !(0x80 << 40),                   STACK_SELECTOR,     None),
        ("of programs",    data_segment(0, 0xffff_ffff, true, 3),       STACK_SELECTOR,     None),
        ("read only",      FLAT_DATA & !(2 << 40),                      STACK_SELECTOR,     None),
        ("of another level", FLAT_DATA,                                 STACK_SELECTOR | 3, None),
        ("none",           FLAT_DATA,                                   0,                  None),
        ("behind the table", FLAT_DATA,                                 0xf8,               None),
        ("a good one",     FLAT_DATA,                                   STACK_SELECTOR,     Some(6)),
    ];
    for (what, row, selector, expected) in cases {
        let mut bare = ready(Arch::I386, 0x67);
        bare.put(GDT + STACK_SELECTOR, &row.to_le_bytes());
        bare.put(TASK + 4, &[(STACK as u32).to_le_bytes(), (selector as u32).to_le_bytes()].concat());
        bare.put(ELSEWHERE, &[0x0f, 0x0b]);
        let stop = bare.run(&enters(Arch::I386, &[USER_DATA | 3, DATA + 0x1000, 2, USER_CODE | 3, ELSEWHERE]));
        let vectors: Vec<u32> = bare
            .machine()
            .happenings()
            .iter()
            .filter_map(|event| if let What::Exception(vector, _) = event.what { Some(vector) } else { None })
            .collect();
        match expected {
            Some(vector) => assert_eq!(vectors, [vector], "{what}"),
            None => {
                let Stop::Dead(why) = stop else { panic!("{what}: {stop:?}") };
                assert!(why.contains("could not be delivered"), "{what}: {why}");
            }
        }
    }
}
