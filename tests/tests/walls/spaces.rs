//! Address spaces of z/Architecture, for instructions that trapline executes in place of Unicorn. In home-space mode
//! such an instruction is fetched from the home space, otherwise from the primary one. Its operand is in the space that
//! the PSW selects. Each space has different memory at the same addresses.

use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_tests::lab::PAGE_TABLES;
use trapline_tests::lab::hostile::Bare;

/// The page tables of the three spaces, and the memory of each at [`SEEN`]: two pages of code and one of data.
const TABLES: [u64; 3] = [0x90_0000, 0x92_0000, 0x94_0000];
const MEMORY: [u64; 3] = [0xa0_0000, 0xa1_0000, 0xa2_0000];
const SEEN: u64 = 0x60_4000;
const DATA: u64 = SEEN + 0x2000;

/// Primary, secondary and home: the number of the control register, and the PSW's two bits.
const SPACES: [(u8, u64); 3] = [(1, 0), (7, 2), (13, 3)];
const PRIMARY: usize = 0;
const SECONDARY: usize = 1;
const HOME: usize = 2;

/// Instructions that store at the address in the third register, and their result over bytes of 0x5a.
const STORES: [(&str, [u8; 4], [u8; 4]); 3] = [
    ("stap", [0xb2, 0x12, 0x30, 0], [0, 0, 0x5a, 0x5a]),
    ("stidp", [0xb2, 0x02, 0x30, 0], [0, 0, 0, 0]),
    ("stfle", [0xb2, 0xb0, 0x30, 0], [0xf9, 0x40, 0xb6, 0xd3]),
];

/// A machine with three spaces. `codes` says which of [`STORES`] is the code of each one; a supervisor call follows it.
fn ready(codes: [usize; 3], at: u64) -> Bare {
    let mut bare = Bare::new(Arch::S390x);
    let (pages, size) = (2048 * 8, 2048 * 8 + 8 * 2048);
    let mut tables = vec![0; size];
    bare.machine().ram().read(PAGE_TABLES, &mut tables);
    for space in 0..3 {
        let mut own = tables.clone();
        let mut put = |at: usize, entry: u64| own[at..at + 8].copy_from_slice(&entry.to_be_bytes());
        for segment in 0..8 {
            put(8 * segment, TABLES[space] + (pages + 2048 * segment) as u64);
        }
        for page in 0..3 {
            put(pages + 8 * (SEEN / 0x1000 + page) as usize, MEMORY[space] + 0x1000 * page);
        }
        bare.put(TABLES[space], &own);
        let code = [&STORES[codes[space]].1[..], &[0x0a, 0]].concat();
        bare.put(MEMORY[space] + at, &code);
        bare.put(MEMORY[space] + 0x2000, &[0x5a; 8]);
    }
    bare
}

/// Enters the code: lctlg for the three spaces, then lpswe. The operands are in the data area.
fn enters(bare: &mut Bare, bits: u64, at: u64) {
    const NUMBERS: u64 = trapline_tests::lab::DATA;
    let mask = 1u64 << 58 | bits << 46 | 3 << 31;
    let words = [TABLES[0] | 3, TABLES[1] | 3, TABLES[2] | 3, mask, SEEN + at];
    bare.put(NUMBERS, &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
    bare.set(Reg(1), NUMBERS);
    bare.set(Reg(3), DATA);
    let loads = (0..3).flat_map(|space| {
        let register = SPACES[space].0;
        [0xeb, register << 4 | register, 0x10, 8 * space as u8, 0, 0x2f]
    });
    let code: Vec<u8> = loads.chain([0xb2, 0xb2, 0x10, 0x18]).collect();
    bare.run(&code);
}

#[test]
fn an_instruction_is_fetched_by_its_own_space() {
    let mut tried = 0;
    for (in_force, (_, bits)) in SPACES.iter().enumerate() {
        let fetched = if in_force == HOME { HOME } else { PRIMARY };
        for turn in 0..3 {
            // Each space has another instruction.
            let codes = [turn, (turn + 1) % 3, (turn + 2) % 3];
            // The instruction lies in one page, or crosses the end of one.
            for at in [0x100, 0xffe] {
                let mut bare = ready(codes, at);
                enters(&mut bare, *bits, at);
                let (what, _, stored) = STORES[codes[fetched]];
                for space in [PRIMARY, SECONDARY, HOME] {
                    let mut bytes = [0; 4];
                    bare.machine().ram().read(MEMORY[space] + 0x2000, &mut bytes);
                    let expected = if space == in_force { stored } else { [0x5a; 4] };
                    let last = bare.machine().happenings().last().cloned();
                    assert_eq!(bytes, expected, "{what} in space {in_force}, at {at:#x}, memory of {space}: {last:x?}");
                }
                tried += 1;
            }
        }
    }
    println!("{tried} cases");
}
