//! Every kind of control flow, at both ends of its range, in both widths.

use super::*;
use crate::mem::Fault;
use alloc::vec::Vec;

const HERE: u64 = 0xffff_ffff_8020_0ffe;

fn bytes(word: u32) -> ([u8; 4], usize) {
    (word.to_le_bytes(), if word & 3 == 3 { 4 } else { 2 })
}

/// KP-2: displacements at both ends of their range.
#[test]
fn instructions_decode_to_their_target() {
    use Flow::*;
    let at = |distance: i64| HERE.wrapping_add_signed(distance);
    #[rustfmt::skip]
    let cases: &[(&str, u32, Flow)] = &[
        ("c.j .+2",                 0xa009,      Jump(at(2))),
        ("c.j, the farthest",       0xaffd,      Jump(at(2046))),
        ("c.j, the farthest back",  0xb001,      Jump(at(-2048))),
        ("c.beqz a0, the farthest", 0xcd7d,      Branch(at(254))),
        ("c.bnez s1, farthest back", 0xf081,     Branch(at(-256))),
        ("c.beqz a5, .+2",          0xc389,      Branch(at(2))),
        ("c.jr t1",                 0x8302,      IndirectJump),
        ("c.jr ra",                 0x8082,      Return),
        ("c.jr of x0: reserved",    0x8002,      Trap),
        ("c.jalr a5",               0x9782,      IndirectCall),
        ("c.ebreak",                0x9002,      Trap),
        ("c.mv a0, a1",             0x852e,      Next),
        ("c.add a0, a1",            0x952e,      Next),
        ("c.nop",                   0x0001,      Next),
        ("zeros",                   0x0000,      Trap),
        ("j .+4",                   0x0040_006f, Jump(at(4))),
        ("j, the farthest",         0x7fff_f06f, Jump(at(0xf_fffe))),
        ("j, the farthest back",    0x8000_006f, Jump(at(-0x10_0000))),
        ("jal ra, .+0x800",         0x0010_00ef, Call(at(0x800))),
        ("jal t0, .-2",             0xffff_f2ef, Call(at(-2))),
        ("beq, the farthest",       0x7eb5_0fe3, Branch(at(4094))),
        ("bne, the farthest back",  0x8005_1063, Branch(at(-4096))),
        ("blt .+8",                 0x0094_4463, Branch(at(8))),
        ("bge .+8",                 0x0094_5463, Branch(at(8))),
        ("bltu .+8",                0x0094_6463, Branch(at(8))),
        ("bgeu .+2048",             0x0094_70e3, Branch(at(2048))),
        ("a branch with funct3 2",  0x0094_2463, Trap),
        ("a branch with funct3 3",  0x0094_3463, Trap),
        ("jr a0",                   0x0005_0067, IndirectJump),
        ("ret",                     0x0000_8067, Return),
        ("jr 8(ra): no return",     0x0080_8067, IndirectJump),
        ("jr t0",                   0x0002_8067, IndirectJump),
        ("jalr 4(ra)",              0x0040_80e7, IndirectCall),
        ("jalr t0, -8(t1)",         0xff83_02e7, IndirectCall),
        ("jalr with funct3 1",      0x0000_9067, Trap),
        ("auipc t0, 1",             0x0000_1297, Next),
        ("ecall",                   0x0000_0073, Trap),
        ("ebreak",                  0x0010_0073, Trap),
        ("uret",                    0x0020_0073, Trap),
        ("sret",                    0x1020_0073, Trap),
        ("mret",                    0x3020_0073, Trap),
        ("mnret",                   0x7020_0073, Trap),
        ("dret",                    0x7b20_0073, Trap),
        ("wfi",                     0x1050_0073, Next),
        ("sfence.vma",              0x1200_0073, Next),
        ("csrrci s1, sstatus, 2",   0x1001_74f3, Next),
        ("fence",                   0x0ff0_000f, Next),
        ("cbo.zero (a0)",           0x0045_200f, Next),
        ("lr.w a0, (a1)",           0x1005_a52f, Next),
        ("andn a0, a1, a2",         0x40c5_f533, Next),
        ("vsetvli a0, a1, e8",      0x0005_f557, Next),
        ("48 bits",                 0x0000_001f, Trap),
        ("64 bits",                 0x0000_003f, Trap),
    ];
    for set in Set::ALL {
        for (what, word, expected) in cases {
            let (bytes, length) = bytes(*word);
            let insn = decode(set, set.cut(HERE), &bytes).expect("whole bytes");
            let expected = match *expected {
                Jump(target) => Jump(set.cut(target)),
                Call(target) => Call(set.cut(target)),
                Branch(target) => Branch(set.cut(target)),
                other => other,
            };
            assert_eq!((insn.flow, insn.bytes().len()), (expected, length), "{what}, {set:?}");
        }
    }
}

/// KP-2: one compressed encoding is a call on 32 bits and an addition on 64.
#[test]
fn the_compressed_call_is_of_32_bits_only() {
    let flow = |set, word: u32| decode(set, 0x8020_0ffe, &word.to_le_bytes()).expect("whole bytes").flow;
    assert_eq!(flow(Set::Rv32, 0x2ffd), Flow::Call(0x8020_0ffe + 2046));
    assert_eq!(flow(Set::Rv32, 0x3001), Flow::Call(0x8020_0ffe - 2048));
    assert_eq!(flow(Set::Rv64, 0x2ffd), Flow::Next, "c.addiw");
}

/// KP-2: addresses of 32 bits wrap around.
#[test]
fn a_target_has_the_width_of_addresses() {
    let flow = |set| decode(set, 0xffff_fff0, &0x0200_006f_u32.to_le_bytes()).expect("whole bytes").flow;
    assert_eq!((flow(Set::Rv32), flow(Set::Rv64)), (Flow::Jump(0x10), Flow::Jump(0x1_0000_0010)));
}

/// KP-5: the two lowest bits tell the length.
#[test]
fn truncated_bytes_do_not_decode() {
    let cut = Err(Undecodable { address: HERE, truncated: true });
    for word in [0x13_u32, 0x1f] {
        for length in 0..4 {
            assert_eq!(decode(Set::Rv64, HERE, &word.to_le_bytes()[..length]), cut);
        }
    }
    assert_eq!(decode(Set::Rv64, HERE, &[0x01]), cut);
    assert_eq!(decode(Set::Rv64, HERE, &[0x01, 0x00]).map(|insn| insn.length()), Ok(2));
}

/// KP-2: `auipc` and `jalr` of the same register form a far call; other pairs do not.
#[test]
fn a_far_call_has_the_target_of_both_instructions() {
    use crate::function::walk_far;
    let flows = |set: Set, words: [u32; 2]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let read = |at: u64, into: &mut [u8]| {
            let from = (at - HERE) as usize;
            let there = bytes.get(from..from + into.len());
            there.map(|there| into.copy_from_slice(there)).ok_or(Fault { address: HERE + 8, write: false })
        };
        walk_far(set.isa(), HERE, HERE + 8, read).map(|insn| insn.expect("whole bytes").flow).last().expect("two instructions")
    };
    for set in Set::ALL {
        let target = |distance: i64| set.cut(HERE.wrapping_add_signed(distance));
        let cases = [
            ("auipc ra, 0x1f; jalr ra, 0x132(ra)", [0x0001_f097, 0x1320_80e7], Flow::Call(target(0x1f132))),
            ("auipc ra, 0xfffeb; jalr ra, 0xfa(ra)", [0xfffe_b097, 0x0fa0_80e7], Flow::Call(target(-0x15000 + 0xfa))),
            ("auipc t1, 1; jalr zero, -8(t1)", [0x0000_1317, 0xff83_0067], Flow::Jump(target(0x1000 - 8))),
            ("auipc t1, 1; jalr ra, 0(t2)", [0x0000_1317, 0x0003_80e7], Flow::IndirectCall),
            ("lui ra, 1; jalr ra, 0(ra)", [0x0000_10b7, 0x0000_80e7], Flow::IndirectCall),
        ];
        for (what, words, expected) in cases {
            assert_eq!(flows(set, words), expected, "{what}, {set:?}");
        }
    }
}
