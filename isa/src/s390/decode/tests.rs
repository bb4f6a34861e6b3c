//! At least one case for each row of the table, and the ends of each displacement.

use super::*;
use Flow::*;

const HERE: u64 = 0x10_0ff0;

/// Rows are found by binary search.
#[test]
fn the_table_is_sorted_by_operation_code() {
    assert!(FLOWS.is_sorted_by(|one, other| one.code < other.code));
}

/// KP-2: the control flow of every kind of instruction.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn instructions_decode_to_their_target() {
    let at = |distance: i64| HERE.wrapping_add_signed(distance);
    #[rustfmt::skip]
    let cases: &[(&str, &[u8], Flow)] = &[
        ("nopr",                    &[0x07, 0x07],                         Next),
        ("bcr 15,0: serialises",    &[0x07, 0xf0],                         Next),
        ("bcr 0,%r14",              &[0x07, 0x0e],                         Next),
        ("br %r14",                 &[0x07, 0xfe],                         Return),
        ("ber %r14",                &[0x07, 0x8e],                         IndirectBranch),
        ("br %r1",                  &[0x07, 0xf1],                         IndirectJump),
        ("bner %r1",                &[0x07, 0x71],                         IndirectBranch),
        ("nop",                     &[0x47, 0x00, 0x00, 0x00],             Next),
        ("b 4(%r1)",                &[0x47, 0xf0, 0x10, 0x04],             IndirectJump),
        ("bne 4(%r1)",              &[0x47, 0x70, 0x10, 0x04],             IndirectBranch),
        ("balr %r14,%r1",           &[0x05, 0xe1],                         IndirectCall),
        ("balr %r14,0",             &[0x05, 0xe0],                         Next),
        ("bctr %r2,%r1",            &[0x06, 0x21],                         IndirectBranch),
        ("bctr %r2,0",              &[0x06, 0x20],                         Next),
        ("svc 1",                   &[0x0a, 0x01],                         Trap),
        ("bsm 0,%r14",              &[0x0b, 0x0e],                         IndirectJump),
        ("bsm %r1,0",               &[0x0b, 0x10],                         Next),
        ("bassm %r14,%r1",          &[0x0c, 0xe1],                         IndirectCall),
        ("bassm %r14,0",            &[0x0c, 0xe0],                         Next),
        ("basr %r14,%r1",           &[0x0d, 0xe1],                         IndirectCall),
        ("basr %r14,0",             &[0x0d, 0xe0],                         Next),
        ("pr",                      &[0x01, 0x01],                         Trap),
        ("trap2",                   &[0x01, 0xff],                         Trap),
        ("ex %r1,0(%r2)",           &[0x44, 0x10, 0x20, 0x00],             IndirectBranch),
        ("bal %r1,0(%r2)",          &[0x45, 0x10, 0x20, 0x00],             IndirectCall),
        ("bct %r1,0(%r2)",          &[0x46, 0x10, 0x20, 0x00],             IndirectBranch),
        ("bas %r1,0(%r2)",          &[0x4d, 0x10, 0x20, 0x00],             IndirectCall),
        ("lpsw 0(%r1)",             &[0x82, 0x00, 0x10, 0x00],             Trap),
        ("brxh %r1,%r3,.+8",        &[0x84, 0x13, 0x00, 0x04],             Branch(at(8))),
        ("brxle %r1,%r3,.-8",       &[0x85, 0x13, 0xff, 0xfc],             Branch(at(-8))),
        ("bxh %r1,%r3,0(%r2)",      &[0x86, 0x13, 0x20, 0x00],             IndirectBranch),
        ("bxle %r1,%r3,0(%r2)",     &[0x87, 0x13, 0x20, 0x00],             IndirectBranch),
        ("j, the farthest",         &[0xa7, 0xf4, 0x7f, 0xff],             Jump(at(0xfffe))),
        ("j, the farthest back",    &[0xa7, 0xf4, 0x80, 0x00],             Jump(at(-0x1_0000))),
        ("je .+4",                  &[0xa7, 0x84, 0x00, 0x02],             Branch(at(4))),
        ("brc 0: never",            &[0xa7, 0x04, 0x00, 0x02],             Next),
        ("bras %r14,.+8",           &[0xa7, 0xe5, 0x00, 0x04],             Call(at(8))),
        ("brct %r1,.",              &[0xa7, 0x16, 0x00, 0x00],             Branch(HERE)),
        ("brctg %r1,.-2",           &[0xa7, 0x17, 0xff, 0xff],             Branch(at(-2))),
        ("mc 0,0",                  &[0xaf, 0x00, 0x00, 0x00],             Trap),
        ("pc 0(%r1)",               &[0xb2, 0x18, 0x10, 0x00],             Trap),
        ("pt %r1,%r2",              &[0xb2, 0x28, 0x00, 0x12],             Trap),
        ("bakr %r1,%r2",            &[0xb2, 0x40, 0x00, 0x12],             Trap),
        ("bsg %r1,%r2",             &[0xb2, 0x58, 0x00, 0x12],             Trap),
        ("bsa %r1,%r2",             &[0xb2, 0x5a, 0x00, 0x12],             Trap),
        ("rp 0(%r1)",               &[0xb2, 0x77, 0x10, 0x00],             Trap),
        ("lpswe 0(%r1)",            &[0xb2, 0xb2, 0x10, 0x00],             Trap),
        ("trap4 0(%r1)",            &[0xb2, 0xff, 0x10, 0x00],             Trap),
        ("bctgr %r1,%r2",           &[0xb9, 0x46, 0x00, 0x12],             IndirectBranch),
        ("bctgr %r1,0",             &[0xb9, 0x46, 0x00, 0x10],             Next),
        ("pti %r1,%r2",             &[0xb9, 0x9e, 0x00, 0x12],             Trap),
        ("jgnop",                   &[0xc0, 0x04, 0x00, 0x00, 0x10, 0x00], Next),
        ("jg, the farthest",        &[0xc0, 0xf4, 0x7f, 0xff, 0xff, 0xff], Jump(at(0xffff_fffe))),
        ("jg, the farthest back",   &[0xc0, 0xf4, 0x80, 0x00, 0x00, 0x00], Jump(at(-0x1_0000_0000))),
        ("jgh .+6",                 &[0xc0, 0x24, 0x00, 0x00, 0x00, 0x03], Branch(at(6))),
        ("brasl %r14,.-4",          &[0xc0, 0xe5, 0xff, 0xff, 0xff, 0xfe], Call(at(-4))),
        ("exrl %r1,.+16",           &[0xc6, 0x10, 0x00, 0x00, 0x00, 0x08], Branch(at(16))),
        ("brcth %r1,.+16",          &[0xcc, 0x16, 0x00, 0x00, 0x00, 0x08], Branch(at(16))),
        ("bctg %r1,0(%r2)",         &[0xe3, 0x10, 0x20, 0x00, 0x00, 0x46], IndirectBranch),
        ("bi 0(%r2)",               &[0xe3, 0xf0, 0x20, 0x00, 0x00, 0x47], IndirectJump),
        ("bie 0(%r2)",              &[0xe3, 0x80, 0x20, 0x00, 0x00, 0x47], IndirectBranch),
        ("tbegin 0,0",              &[0xe5, 0x60, 0x00, 0x00, 0xff, 0x00], IndirectBranch),
        ("tbeginc 0,0",             &[0xe5, 0x61, 0x00, 0x00, 0xff, 0x00], IndirectBranch),
        ("bxhg %r1,%r3,0(%r2)",     &[0xeb, 0x13, 0x20, 0x00, 0x00, 0x44], IndirectBranch),
        ("bxleg %r1,%r3,0(%r2)",    &[0xeb, 0x13, 0x20, 0x00, 0x00, 0x45], IndirectBranch),
        ("lpswey 0(%r2)",           &[0xeb, 0x00, 0x20, 0x00, 0x00, 0x71], Trap),
        ("brxhg %r1,%r3,.+8",       &[0xec, 0x13, 0x00, 0x04, 0x00, 0x44], Branch(at(8))),
        ("brxlg %r1,%r3,.+8",       &[0xec, 0x13, 0x00, 0x04, 0x00, 0x45], Branch(at(8))),
        ("cgrje %r1,%r2,.+8",       &[0xec, 0x12, 0x00, 0x04, 0x80, 0x64], Branch(at(8))),
        ("clgrje %r1,%r2,.+8",      &[0xec, 0x12, 0x00, 0x04, 0x80, 0x65], Branch(at(8))),
        ("crje %r1,%r2,.+8",        &[0xec, 0x12, 0x00, 0x04, 0x80, 0x76], Branch(at(8))),
        ("clrje %r1,%r2,.+8",       &[0xec, 0x12, 0x00, 0x04, 0x80, 0x77], Branch(at(8))),
        ("cgije %r1,5,.+8",         &[0xec, 0x18, 0x00, 0x04, 0x05, 0x7c], Branch(at(8))),
        ("clgije %r1,5,.+8",        &[0xec, 0x18, 0x00, 0x04, 0x05, 0x7d], Branch(at(8))),
        ("cije %r1,5,.-8",          &[0xec, 0x18, 0xff, 0xfc, 0x05, 0x7e], Branch(at(-8))),
        ("clije %r1,5,.-8",         &[0xec, 0x18, 0xff, 0xfc, 0x05, 0x7f], Branch(at(-8))),
        ("cgrbe %r1,%r2,0(%r3)",    &[0xec, 0x12, 0x30, 0x00, 0x80, 0xe4], IndirectBranch),
        ("clgrbe %r1,%r2,0(%r3)",   &[0xec, 0x12, 0x30, 0x00, 0x80, 0xe5], IndirectBranch),
        ("crbe %r1,%r2,0(%r3)",     &[0xec, 0x12, 0x30, 0x00, 0x80, 0xf6], IndirectBranch),
        ("clrbe %r1,%r2,0(%r3)",    &[0xec, 0x12, 0x30, 0x00, 0x80, 0xf7], IndirectBranch),
        ("cgibe %r1,5,0(%r3)",      &[0xec, 0x18, 0x30, 0x00, 0x05, 0xfc], IndirectBranch),
        ("clgibe %r1,5,0(%r3)",     &[0xec, 0x18, 0x30, 0x00, 0x05, 0xfd], IndirectBranch),
        ("cibe %r1,5,0(%r3)",       &[0xec, 0x18, 0x30, 0x00, 0x05, 0xfe], IndirectBranch),
        ("clibe %r1,5,0(%r3)",      &[0xec, 0x18, 0x30, 0x00, 0x05, 0xff], IndirectBranch),
        ("larl %r1,.",              &[0xc0, 0x10, 0x00, 0x00, 0x00, 0x00], Next),
        ("stmg %r14,%r15,136(%r15)", &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24], Next),
        ("lgr %r2,%r3",             &[0xb9, 0x04, 0x00, 0x23],             Next),
    ];
    for (what, bytes, expected) in cases {
        let insn = decode(HERE, bytes).unwrap_or_else(|what| panic!("{what:?}"));
        assert_eq!((insn.flow, insn.bytes()), (*expected, *bytes), "{what}");
    }
    let rows: alloc::collections::BTreeSet<u16> = FLOWS.iter().map(|row| row.code).collect();
    let tried = cases.iter().map(|(_, bytes, _)| code(bytes)).collect();
    assert_eq!(rows.difference(&tried).count(), 0, "rows without a case: {:04x?}", rows.difference(&tried));
}

/// KP-5: truncated bytes, and a zero byte, which starts a breakpoint of unknown length.
#[test]
fn truncated_bytes_and_breakpoints_do_not_decode() {
    for (whole, bytes) in [(2, [0x07, 0xfe, 0, 0, 0, 0]), (4, [0xa7, 0xf4, 0, 0, 0, 0]), (6, [0xc0, 0xf4, 0, 0, 0, 0])] {
        for length in 0..whole {
            assert_eq!(
                decode(HERE, &bytes[..length]),
                Err(Undecodable { address: HERE, truncated: true }),
                "{length} of {whole}"
            );
        }
        assert_eq!(decode(HERE, &bytes).map(|insn| insn.length()), Ok(whole as u64));
    }
    for second in 0..=255 {
        assert_eq!(decode(HERE, &[0, second]), Err(Undecodable { address: HERE, truncated: false }));
    }
}

/// KP-2: the registers that identify one execution of a suspended instruction.
#[test]
fn suspended_instructions_name_their_progress_registers() {
    let of = |bytes: &[u8]| progress(&decode(HERE, bytes).expect("an instruction")).registers().collect::<alloc::vec::Vec<_>>();
    assert_eq!(of(&[0x0e, 0x24]), [2, 3, 4, 5].map(r), "mvcl %r2,%r4");
    assert_eq!(of(&[0x0f, 0x8a]), [8, 9, 10, 11].map(r), "clcl %r8,%r10");
    assert_eq!(of(&[0xb9, 0xaf, 0x00, 0x12]), [2].map(r), "pfmf %r1,%r2");
    assert_eq!(of(&[0xb2, 0x41, 0x00, 0x24]), [], "cksm ends by itself");
    assert_eq!(of(&[0xa8, 0x24, 0x00, 0x00]), [], "mvcle too");
    assert_eq!(of(&[0x18, 0x24]), [], "lr");
}
