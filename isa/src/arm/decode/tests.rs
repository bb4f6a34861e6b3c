use super::*;
use Flow::*;

const HERE: u64 = 0xc030_0ff2;

/// KP-2: displacements at both ends of their range.
#[test]
fn branches_decode_to_their_target() {
    let here = HERE & !3;
    #[rustfmt::skip]
    let a32: &[(&str, u32, Flow)] = &[
        ("b .",                       0xeaff_fffe, Jump(here)),
        ("b, the farthest",           0xea7f_ffff, Jump(here + 0x200_0004)),
        ("bne, the farthest back",    0x1a80_0000, Branch(here - 0x1ff_fff8)),
        ("bl",                        0xeb00_0000, Call(here + 8)),
        ("bleq",                      0x0b00_0000, Call(here + 8)),
        ("blx with H",                0xfb00_0000, Call(here + 10)),
        ("ldmfd sp, {fp, sp, pc}",    0xe89d_a800, Return),
        ("ldm r3, {r4, pc}",          0xe893_8010, IndirectJump),
        ("ldrls pc, [pc, r3, lsl #2]", 0x979f_f103, IndirectJump),
    ];
    for (what, word, flow) in a32 {
        assert_eq!(super::a32(here, &word.to_le_bytes()).map(|insn| insn.flow), Ok(*flow), "{what}");
    }
    #[rustfmt::skip]
    let thumb: &[(&str, &[u16], Flow)] = &[
        ("b .",                       &[0xe7fe],         Jump(HERE)),
        ("b, the farthest",           &[0xe3ff],         Jump(HERE + 0x802)),
        ("beq, the farthest back",    &[0xd080],         Branch(HERE - 0xfc)),
        ("cbnz, the farthest",        &[0xbbf8],         Branch(HERE + 0x82)),
        ("beq.w, the farthest back",  &[0xf400, 0x8000], Branch(HERE - 0xf_fffc)),
        ("beq.w, the farthest",       &[0xf03f, 0xafff], Branch(HERE + 0x10_0002)),
        ("b.w, the farthest",         &[0xf3ff, 0x97ff], Jump(HERE + 0x100_0002)),
        ("b.w, the farthest back",    &[0xf400, 0x9000], Jump(HERE - 0xff_fffc)),
        ("bl .",                      &[0xf7ff, 0xfffe], Call(HERE)),
        ("blx, from a multiple of 4", &[0xf000, 0xe800], Call(HERE + 2)),
    ];
    for (what, halves, flow) in thumb {
        let bytes: alloc::vec::Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let insn = super::thumb(HERE | 1, &bytes).expect("a whole instruction");
        assert_eq!((insn.address, insn.flow), (HERE, *flow), "{what}");
    }
}

/// KP-5
#[test]
fn truncated_bytes_do_not_decode() {
    for length in 0..LENGTH {
        assert!(a32(HERE, &[0; LENGTH][..length]).is_err_and(|cut| cut.truncated));
        let wide = [0x00, 0xf0, 0x00, 0xf8];
        assert!(thumb(HERE, &wide[..length]).is_err_and(|cut| cut.truncated));
    }
    assert_eq!(thumb(HERE, &[0xff, 0xe7]).map(|insn| insn.length()), Ok(2), "the highest that is alone");
}
