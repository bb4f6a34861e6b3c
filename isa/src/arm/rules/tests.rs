//! At least one case for each row of the rules. capstone confirms that each word is the instruction that the case
//! names.

use super::*;
use crate::arm::decode;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use capstone::Capstone;
use capstone::arch::arm::{ArchExtraMode, ArchMode};
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode};

const EMULATE: &str = "emulate";
const BOOST: &str = "boost";
const STEP: &str = "step";

/// Assembly text, word, and the answers of Linux 6.1 and of `best`: a plan, or the name of the refusing rule.
type Case = (&'static str, u32, &'static str, &'static str);

fn insn(set: Set, bytes: &[u8]) -> Insn {
    match set {
        Set::A32 => decode::a32(0x8000, bytes),
        Set::Thumb => decode::thumb(0x8000, bytes),
    }
    .expect("a whole instruction")
}

fn said(set: Set, insn: &Insn, policy: Policy) -> &'static str {
    match plan(set, insn, policy) {
        Ok(Plan::Emulate(_)) => EMULATE,
        Ok(Plan::Boost) => BOOST,
        Ok(Plan::Step) => STEP,
        Err(refusal) => RULES.iter().find(|rule| rule.refusal() == refusal).map_or("no rule", |rule| rule.name),
    }
}

fn check(set: Set, mode: ArchMode, cases: &[Case], bytes: fn(u32) -> Vec<u8>) {
    let modes = [ArchExtraMode::V8].into_iter();
    let capstone = Capstone::new().arm().mode(mode).extra_mode(modes).build().expect("capstone knows ARM");
    for (text, word, linux, best) in cases {
        let bytes = bytes(*word);
        let found = capstone.disasm_count(&bytes, 0x8000, 1).expect("capstone runs");
        let name = |one: &capstone::Insn<'_>| {
            format!("{} {}", one.mnemonic().unwrap_or_default(), one.op_str().unwrap_or_default()).trim_end().into()
        };
        assert_eq!(found.iter().next().map_or(String::new(), name), *text, "{word:#x}");
        let insn = insn(set, &bytes);
        let said = |policy| said(set, &insn, policy);
        assert_eq!((said(Policy::LINUX_6_1), said(Policy::Best)), (*linux, *best), "{word:#x} {text}");
    }
}

/// KP-1, KP-2, KP-5: A32.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_row_of_a32_gives_the_specified_answer() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("pld [r4, #8]",                        0xf5d4_f008, EMULATE,             EMULATE),
        ("pld [r4, r1]",                        0xf7d4_f001, EMULATE,             EMULATE),
        ("blx #0x110c0c",                       0xfa04_2301, EMULATE,             EMULATE),
        ("clrex",                               0xf57f_f01f, "barrier",           BOOST),
        ("dmb sy",                              0xf57f_f05f, "barrier",           BOOST),
        ("isb sy",                              0xf57f_f06f, "barrier",           BOOST),
        ("cpsid i",                             0xf10c_0080, "status",            EMULATE),
        ("cpsie i",                             0xf108_0080, "status",            EMULATE),
        ("cpsie af",                            0xf108_0140, "status",            STEP),
        ("cps #0x13",                           0xf102_0013, "system-state",      "system-state"),
        ("setend le",                           0xf101_0000, "system-state",      "system-state"),
        ("rfeia r4!",                           0xf8b4_0a00, "exception-return",  "exception-return"),
        ("srsda sp!, #0x13",                    0xf86d_0513, "exception-return",  "exception-return"),
        ("vcgt.s8 d2, d4, d1",                  0xf204_2301, "coprocessor",       BOOST),
        ("vld1.8 {d2, d3}, [r4]",               0xf424_2a0f, "coprocessor",       BOOST),
        ("",                                    0xfc04_2301, "unknown",           "unknown"),
        ("mrs r2, apsr",                        0xe10f_2000, EMULATE,             EMULATE),
        ("bx r1",                               0xe12f_ff11, EMULATE,             EMULATE),
        ("bx lr",                               0xe12f_ff1e, EMULATE,             EMULATE),
        ("bx pc",                               0xe12f_ff1f, EMULATE,             EMULATE),
        ("blx r1",                              0xe12f_ff31, EMULATE,             EMULATE),
        ("blx pc",                              0xe12f_ff3f, "registers",         "registers"),
        ("clz r2, r1",                          0xe16f_2f11, BOOST,               BOOST),
        ("qadd r2, r1, r4",                     0xe104_2051, BOOST,               BOOST),
        ("msr cpsr_c, r2",                      0xe121_f002, "status",            STEP),
        ("msr spsr_fc, r2",                     0xe169_f002, "trap-state",        "trap-state"),
        ("mrs r2, spsr",                        0xe14f_2000, "trap-state",        "trap-state"),
        ("bkpt #0",                             0xe120_0070, "undefined",         "undefined"),
        ("hvc #0",                              0xe140_0070, "exception",         "exception"),
        ("smc #0",                              0xe160_0070, "exception",         "exception"),
        ("eret",                                0xe160_006e, "exception-return",  "exception-return"),
        ("bxj r1",                              0xe12f_ff21, "unknown",           "unknown"),
        ("smlalbb r2, r4, r1, r3",              0xe144_2381, BOOST,               BOOST),
        ("smulwb r4, r1, r3",                   0xe124_03a1, BOOST,               BOOST),
        ("smulbb r4, r1, r3",                   0xe164_0381, BOOST,               BOOST),
        ("smlabb r4, r1, r3, r2",               0xe104_2381, BOOST,               BOOST),
        ("smlawb r4, r1, r3, r2",               0xe124_2381, BOOST,               BOOST),
        ("mul r4, r1, r3",                      0xe004_2391, BOOST,               BOOST),
        ("mla r4, r1, r3, r2",                  0xe024_2391, BOOST,               BOOST),
        ("mls r4, r1, r3, r2",                  0xe064_2391, BOOST,               BOOST),
        ("umaal r2, r4, r1, r3",                0xe044_2391, BOOST,               BOOST),
        ("umull r2, r4, r1, r3",                0xe084_2391, BOOST,               BOOST),
        ("mul pc, r1, r3",                      0xe00f_2391, "registers",         "registers"),
        ("lda r2, [r4]",                        0xe194_2c9f, "exclusive",         BOOST),
        ("stl r1, [r4]",                        0xe184_fc91, "exclusive",         BOOST),
        ("ldrex r2, [r4]",                      0xe194_2f9f, "exclusive",         "exclusive"),
        ("strex r2, r1, [r4]",                  0xe184_2f91, "exclusive",         "exclusive"),
        ("ldaex r2, [r4]",                      0xe194_2e9f, "exclusive",         "exclusive"),
        ("",                                    0xe104_2091, "unknown",           "unknown"),
        ("strht r2, [r4], #4",                  0xe0e4_20b4, "unprivileged",      BOOST),
        ("ldrd lr, pc, [r4], -r1",              0xe004_e0d1, "registers",         "registers"),
        ("ldrd r2, r3, [r4], -r1",              0xe004_20d1, BOOST,               BOOST),
        ("ldrd r2, r3, [r4, #8]",               0xe1c4_20d8, BOOST,               BOOST),
        ("ldrd r3, r4, [r4, #8]",               0xe1c4_30d8, BOOST,               "registers"),
        ("strd r7, r8, [r4], -r1",              0xe004_70f1, BOOST,               "registers"),
        ("ldrd r7, r8, [pc, #0x11]",            0xe1cf_71d1, EMULATE,             "registers"),
        ("ldrd r2, r3, [pc, #8]",               0xe1cf_20d8, EMULATE,             EMULATE),
        ("strh r2, [r4, r1]",                   0xe184_20b1, BOOST,               BOOST),
        ("strh r2, [r4, r1]",                   0xe184_23b1, BOOST,               "unknown"),
        ("strhlo sp, [pc, -fp]",                0x310f_d3bb, EMULATE,             "unknown"),
        ("ldrd r2, r3, [r4, r1]",               0xe184_21d1, BOOST,               "unknown"),
        ("ldrsh r2, [pc, r1]",                  0xe19f_28f1, EMULATE,             "unknown"),
        ("strh r2, [r4, #4]",                   0xe1c4_20b4, BOOST,               BOOST),
        ("ldrh r2, [r4, r1]",                   0xe194_20b1, BOOST,               BOOST),
        ("ldrsh r2, [r4, #4]",                  0xe1d4_20f4, BOOST,               BOOST),
        ("ldrh r2, [pc, #4]",                   0xe1df_20b4, EMULATE,             EMULATE),
        ("ldrh pc, [r4, #4]",                   0xe1d4_f0b4, "registers",         "registers"),
        ("strh r2, [pc, #4]!",                  0xe1ef_20b4, "registers",         "registers"),
        ("ands pc, r4, r1, lsl #6",             0xe014_f301, "exception-return",  "exception-return"),
        ("mov ip, sp",                          0xe1a0_c00d, EMULATE,             BOOST),
        ("tst r4, r1, lsl #6",                  0xe114_0301, BOOST,               BOOST),
        ("tst pc, r1",                          0xe11f_0001, EMULATE,             EMULATE),
        ("tst pc, r1",                          0xe11f_1001, EMULATE,             "unknown"),
        ("lsl r2, r1, #6",                      0xe1a0_2301, BOOST,               BOOST),
        ("mov pc, lr",                          0xe1a0_f00e, EMULATE,             EMULATE),
        ("and r2, r4, r1, lsl #6",              0xe004_2301, BOOST,               BOOST),
        ("add pc, pc, r1, lsl #2",              0xe08f_f101, EMULATE,             EMULATE),
        ("tst r4, r1, lsl r3",                  0xe114_0311, BOOST,               BOOST),
        ("lsl r2, r1, r3",                      0xe1a0_2311, BOOST,               BOOST),
        ("add r2, r4, r1, lsl r3",              0xe084_2311, BOOST,               BOOST),
        ("lsl r2, pc, r3",                      0xe1a0_231f, "registers",         "registers"),
        ("movw r2, #0x4301",                    0xe304_2301, BOOST,               BOOST),
        ("movw pc, #0x4301",                    0xe304_f301, "registers",         "registers"),
        ("yield",                               0xe320_f001, BOOST,               EMULATE),
        ("",                                    0xe320_a001, BOOST,               "unknown"),
        ("",                                    0xe320_6004, BOOST,               "unknown"),
        ("",                                    0xe320_e000, EMULATE,             "unknown"),
        ("sev",                                 0xe320_f004, BOOST,               EMULATE),
        ("wfi",                                 0xe320_f003, EMULATE,             "wait"),
        ("nop",                                 0xe320_f000, EMULATE,             EMULATE),
        ("wfe",                                 0xe320_f002, EMULATE,             EMULATE),
        ("csdb",                                0xe320_f014, "hint",              BOOST),
        ("msr cpsr_c, #0xd3",                   0xe321_f0d3, "status",            STEP),
        ("msr spsr_fc, #1",                     0xe369_f001, "trap-state",        "trap-state"),
        ("subs pc, lr, #4",                     0xe25e_f004, "exception-return",  "exception-return"),
        ("cmp pc, #4",                          0xe35f_0004, EMULATE,             EMULATE),
        ("mov r2, #4",                          0xe3a0_2004, BOOST,               BOOST),
        ("mov pc, #4",                          0xe3a0_f004, EMULATE,             EMULATE),
        ("add r2, r4, #4",                      0xe284_2004, BOOST,               BOOST),
        ("add r2, pc, #4",                      0xe28f_2004, EMULATE,             EMULATE),
        ("addne r2, r4, #4",                    0x1284_2004, BOOST,               BOOST),
        ("sel r2, r4, r1",                      0xe684_23b1, BOOST,               BOOST),
        ("ssat r2, #5, r1, lsl #6",             0xe6a4_2311, BOOST,               BOOST),
        ("ssat16 r2, #5, r1",                   0xe6a4_2f31, BOOST,               BOOST),
        ("rev r2, r1",                          0xe6bf_2f31, BOOST,               BOOST),
        ("",                                    0xe604_2f11, "unknown",           "unknown"),
        ("pkhbt r2, r4, r1, lsl #6",            0xe684_2311, BOOST,               BOOST),
        ("",                                    0xe694_2371, "unknown",           "unknown"),
        ("sxtb16 r2, r1",                       0xe68f_2071, BOOST,               BOOST),
        ("sxtab16 r2, r4, r1",                  0xe684_2071, BOOST,               BOOST),
        ("udf #0",                              0xe7f0_00f0, "undefined",         "undefined"),
        ("udf #0x18",                           0xe7f0_01f8, "undefined",         "undefined"),
        ("smlald r2, r4, r1, r3",               0xe744_2311, BOOST,               BOOST),
        ("smuad r4, r1, r3",                    0xe704_f311, BOOST,               BOOST),
        ("smmul r4, r1, r3",                    0xe754_f311, BOOST,               BOOST),
        ("usad8 r4, r1, r3",                    0xe784_f311, BOOST,               BOOST),
        ("smlad r4, r1, r3, r2",                0xe704_2311, BOOST,               BOOST),
        ("smmla r4, r1, r3, r2",                0xe754_2311, BOOST,               BOOST),
        ("usada8 r4, r1, r3, r2",               0xe784_2311, BOOST,               BOOST),
        ("smmls r4, r1, r3, r2",                0xe754_23d1, BOOST,               BOOST),
        ("sbfx r2, r1, #6, #5",                 0xe7a4_2351, BOOST,               BOOST),
        ("bfc r2, #4, #1",                      0xe7c4_231f, BOOST,               BOOST),
        ("bfi r2, r1, #4, #1",                  0xe7c4_2311, BOOST,               BOOST),
        ("sdiv r4, r1, r3",                     0xe714_f311, "divide",            BOOST),
        ("udiv r4, r1, r3",                     0xe734_f311, "divide",            BOOST),
        ("ldrb pc, [r4], #-4",                  0xe454_f004, "registers",         "registers"),
        ("ldrt r2, [r4], #4",                   0xe4b4_2004, "unprivileged",      BOOST),
        ("str r2, [r4, #4]",                    0xe584_2004, BOOST,               BOOST),
        ("str pc, [r4, #4]",                    0xe584_f004, EMULATE,             EMULATE),
        ("str r2, [pc, #4]",                    0xe58f_2004, EMULATE,             EMULATE),
        ("str r2, [r4, r1]",                    0xe784_2001, BOOST,               BOOST),
        ("ldr r2, [r4, #4]",                    0xe594_2004, BOOST,               BOOST),
        ("ldr r2, [pc, #4]",                    0xe59f_2004, EMULATE,             EMULATE),
        ("ldr pc, [r4]",                        0xe594_f000, EMULATE,             EMULATE),
        ("pop {pc}",                            0xe49d_f004, EMULATE,             EMULATE),
        ("ldr pc, [pc, r3, lsl #2]",            0xe79f_f103, EMULATE,             EMULATE),
        ("stm r4, {r0, r8, sb}",                0xe884_0301, BOOST,               BOOST),
        ("ldm sp!, {r4}",                       0xe8bd_0010, BOOST,               BOOST),
        ("pop {r4, pc}",                        0xe8bd_8010, EMULATE,             EMULATE),
        ("push {r4, lr}",                       0xe92d_4010, BOOST,               BOOST),
        ("push {r4, r5, r6, r7, r8, sb, sl, fp, ip, lr, pc}", 0xe92d_dff0, EMULATE,             EMULATE),
        ("push {r0, r1, r2, r3, r4, r5, r6, r7, r8, sb, sl, fp, ip, sp, lr, pc}", 0xe92d_ffff, EMULATE,             EMULATE),
        ("stm r4, {r0, r1, r2, r3} ^",          0xe8c4_000f, "exception-return",  BOOST),
        ("ldm r4, {r0, r1, r2, r3, pc} ^",      0xe8d4_800f, "exception-return",  "exception-return"),
        ("str r2, [sp, #-0x40]!",               0xe52d_2040, BOOST,               BOOST),
        ("str r2, [sp, #-0x44]!",               0xe52d_2044, "stack",             BOOST),
        ("str r2, [sp, r1]",                    0xe78d_2001, "stack",             BOOST),
        ("strd r4, r5, [sp, #-0x50]",           0xe14d_45f0, "stack",             BOOST),
        ("b #0x110c0c",                         0xea04_2301, EMULATE,             EMULATE),
        ("bne #0x110c0c",                       0x1a04_2301, EMULATE,             EMULATE),
        ("bl #0x8000",                          0xebff_fffe, EMULATE,             EMULATE),
        ("svc #0",                              0xef00_0000, "exception",         "exception"),
        ("vldr d2, [pc, #-4]",                  0xed1f_2b01, "literal-vector",    "literal-vector"),
        ("vldr d2, [r4, #4]",                   0xed94_2b01, "coprocessor",       BOOST),
        ("vmla.f32 s4, s8, s2",                 0xee04_2a01, "coprocessor",       BOOST),
        ("vmrs r2, fpscr",                      0xeef1_2a10, "coprocessor",       BOOST),
        ("vmsr fpscr, r2",                      0xeee1_2a10, "coprocessor",       BOOST),
        ("vmrs r2, fpexc",                      0xeef8_2a10, "system-state",      "system-state"),
        ("vmov s8, r2",                         0xee04_2a10, "coprocessor",       BOOST),
        ("mrc p15, #0, r2, c13, c0, #3",        0xee1d_2f70, "coprocessor",       BOOST),
        ("mcr p15, #0, r2, c7, c0, #4",         0xee07_2f90, "wait",              "wait"),
        ("mcr p15, #0, r2, c3, c0, #0",         0xee03_2f10, "coprocessor",       STEP),
        ("mcr p15, #0, r2, c7, c5, #0",         0xee07_2f15, "coprocessor",       STEP),
        ("mcr p15, #0, r2, c8, c7, #0",         0xee08_2f17, "coprocessor",       STEP),
        ("mcr p15, #0, r2, c13, c0, #3",        0xee0d_2f70, "coprocessor",       STEP),
        ("mcr p15, #0, r2, c14, c1, #1",        0xee0e_2f31, "coprocessor",       STEP),
        ("mcr p15, #0, r2, c1, c0, #0",         0xee01_2f10, "system-state",      "system-state"),
        ("mrrc p15, #0, r2, r4, c2",            0xec54_2f02, "coprocessor",       BOOST),
        ("mcrr p15, #0, r2, r4, c2",            0xec44_2f02, "system-state",      "system-state"),
        ("",                                    0xec04_2e01, "coprocessor",       "coprocessor"),
        ("mrc p14, #0, r2, c4, c1, #0",         0xee14_2e11, "coprocessor",       "coprocessor"),
    ];
    check(Set::A32, ArchMode::Arm, cases, |word| word.to_le_bytes().to_vec());
}

/// KP-1, KP-2, KP-5: 16-bit Thumb.
#[test]
fn every_row_of_t16_gives_the_specified_answer() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("movs r2, r1",                         0x000a, STEP,                STEP),
        ("ands r2, r5",                         0x402a, STEP,                STEP),
        ("blx pc",                              0x47f8, "registers",         "registers"),
        ("bx r5",                               0x4728, EMULATE,             EMULATE),
        ("bx lr",                               0x4770, EMULATE,             EMULATE),
        ("add pc, pc",                          0x44ff, "registers",         "registers"),
        ("add r2, pc",                          0x447a, EMULATE,             EMULATE),
        ("add pc, r5",                          0x44af, EMULATE,             EMULATE),
        ("mov pc, lr",                          0x46f7, EMULATE,             EMULATE),
        ("add r2, r5",                          0x442a, STEP,                STEP),
        ("ldr r0, [pc, #0xa8]",                 0x482a, EMULATE,             EMULATE),
        ("str r2, [r5, r0]",                    0x502a, STEP,                STEP),
        ("ldr r2, [r5]",                        0x682a, STEP,                STEP),
        ("strh r2, [r5]",                       0x802a, STEP,                STEP),
        ("str r0, [sp, #0xa8]",                 0x902a, EMULATE,             STEP),
        ("adr r0, #0xa8",                       0xa02a, EMULATE,             EMULATE),
        ("add r0, sp, #0xa8",                   0xa82a, EMULATE,             STEP),
        ("add sp, #0xa8",                       0xb02a, EMULATE,             STEP),
        ("cbz r2, #0x800e",                     0xb12a, EMULATE,             EMULATE),
        ("hlt #0x2a",                           0xbaaa, "unknown",           "unknown"),
        ("sxth r2, r5",                         0xb22a, STEP,                STEP),
        ("pop {r1, r3, r5, pc}",                0xbd2a, EMULATE,             EMULATE),
        ("pop {r1, r3, r5}",                    0xbc2a, STEP,                STEP),
        ("push {r1, r3, r5}",                   0xb42a, STEP,                STEP),
        ("push {r0, r1, r2, r3, r4, r5, r6, r7, lr}", 0xb5ff, STEP,                STEP),
        ("yield",                               0xbf10, STEP,                EMULATE),
        ("sev",                                 0xbf40, STEP,                EMULATE),
        ("wfi",                                 0xbf30, EMULATE,             "wait"),
        ("wfe",                                 0xbf20, EMULATE,             EMULATE),
        ("nop",                                 0xbf00, EMULATE,             EMULATE),
        ("sevl",                                0xbf50, "hint",              STEP),
        ("itet hs",                             0xbf2a, EMULATE,             EMULATE),
        ("cpsie i",                             0xb662, "status",            EMULATE),
        ("cpsie af",                            0xb665, "status",            STEP),
        ("cpsid i",                             0xb672, "status",            EMULATE),
        ("setend le",                           0xb650, "system-state",      "system-state"),
        ("bkpt #0x2a",                          0xbe2a, "undefined",         "undefined"),
        ("stm r0!, {r1, r3, r5}",               0xc02a, STEP,                STEP),
        ("udf #0x18",                           0xde18, "undefined",         "undefined"),
        ("svc #0x2a",                           0xdf2a, "exception",         "exception"),
        ("beq #0x8058",                         0xd02a, EMULATE,             EMULATE),
        ("b #0x8058",                           0xe02a, EMULATE,             EMULATE),
    ];
    check(Set::Thumb, ArchMode::Thumb, cases, |word| (word as u16).to_le_bytes().to_vec());
}

/// KP-1, KP-2, KP-5: 32-bit Thumb.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_row_of_t32_gives_the_specified_answer() {
    #[rustfmt::skip]
    let cases: &[Case] = &[
        ("stm.w pc, {r1, r2}",                  0xe88f_0006, "registers",         "registers"),
        ("rfedb r0",                            0xe810_c000, "exception-return",  "exception-return"),
        ("rfeia r4!",                           0xe9b4_c000, "exception-return",  "exception-return"),
        ("",                                    0xe884_8006, "registers",         "registers"),
        ("ldm.w r4!, {r1, r2, lr, pc}",         0xe8b4_c006, "registers",         "registers"),
        ("",                                    0xe884_2006, "registers",         "registers"),
        ("pop.w {r4, pc}",                      0xe8bd_8010, EMULATE,             EMULATE),
        ("ldm.w r4, {r1, r2}",                  0xe894_0006, STEP,                STEP),
        ("push.w {r4, r5, r6, r7, r8, sb, sl, lr}", 0xe92d_47f0, STEP,                STEP),
        ("push.w {r0, r1, r2, r3, r4, r5, r6, r7, r8, sb, sl, fp, ip, lr}", 0xe92d_5fff, STEP,                STEP),
        ("ldrd r2, r3, [r4], #-4",              0xe874_2301, STEP,                STEP),
        ("ldrd r2, r3, [r4, #8]",               0xe9d4_2302, STEP,                STEP),
        ("ldrd r2, r3, [pc, #8]",               0xe9df_2302, EMULATE,             EMULATE),
        ("ldrd r2, r3, [pc, #8]!",              0xe9ff_2302, "registers",         "registers"),
        ("tbb [r4, r1]",                        0xe8d4_f001, EMULATE,             EMULATE),
        ("tbh [pc, r1, lsl #1]",                0xe8df_f011, EMULATE,             EMULATE),
        ("lda r2, [r4]",                        0xe8d4_2faf, "exclusive",         STEP),
        ("stl r2, [r4]",                        0xe8c4_2faf, "exclusive",         STEP),
        ("ldrex r2, [r4, #4]",                  0xe854_2f01, "exclusive",         "exclusive"),
        ("strex r3, r2, [r4, #4]",              0xe844_2301, "exclusive",         "exclusive"),
        ("ldrexb r2, [r4]",                     0xe8d4_2f4f, "exclusive",         "exclusive"),
        ("tst.w r4, r1",                        0xea14_0f01, STEP,                STEP),
        ("cmn.w r4, r1",                        0xeb14_0f01, STEP,                STEP),
        ("cmp.w r4, r1",                        0xebb4_0f01, STEP,                STEP),
        ("lsl.w r3, r1, #8",                    0xea4f_2301, STEP,                STEP),
        ("",                                    0xeaa4_0301, "unknown",           "unknown"),
        ("add.w sp, sp, r1",                    0xeb0d_0d01, STEP,                STEP),
        ("add.w sp, sp, r1, lsl #8",            0xeb0d_2d01, "registers",         "registers"),
        ("add.w r3, sp, r1",                    0xeb0d_0301, STEP,                STEP),
        ("and.w r3, r4, r1",                    0xea04_0301, STEP,                STEP),
        ("and.w r3, pc, r1",                    0xea0f_0301, "registers",         "registers"),
        ("vcgt.s8 d2, d4, d1",                  0xef04_2301, "coprocessor",       STEP),
        ("mrc p15, #0, r2, c13, c0, #3",        0xee1d_2f70, "coprocessor",       STEP),
        ("vmla.f32 s4, s8, s2",                 0xee04_2a01, "coprocessor",       STEP),
        ("vldr d2, [pc, #-4]",                  0xed1f_2b01, "coprocessor",       "literal-vector"),
        ("mcr p15, #0, r2, c1, c0, #0",         0xee01_2f10, "coprocessor",       "system-state"),
        ("tst.w r4, #1",                        0xf014_0f01, STEP,                STEP),
        ("cmn.w r4, #1",                        0xf114_0f01, STEP,                STEP),
        ("cmp.w r4, #1",                        0xf1b4_0f01, STEP,                STEP),
        ("mov.w r3, #1",                        0xf04f_0301, STEP,                STEP),
        ("",                                    0xf0a4_0301, "unknown",           "unknown"),
        ("add.w r3, sp, #1",                    0xf10d_0301, STEP,                STEP),
        ("and r3, r4, #1",                      0xf004_0301, STEP,                STEP),
        ("and r3, sp, #1",                      0xf00d_0301, "registers",         "registers"),
        ("addw r3, pc, #1",                     0xf20f_0301, EMULATE,             EMULATE),
        ("subw r3, pc, #1",                     0xf2af_0301, EMULATE,             EMULATE),
        ("addw sp, sp, #1",                     0xf20d_0d01, STEP,                STEP),
        ("addw r3, r4, #1",                     0xf204_0301, STEP,                STEP),
        ("subw r3, r4, #1",                     0xf2a4_0301, STEP,                STEP),
        ("movw r3, #0x4001",                    0xf244_0301, STEP,                STEP),
        ("ssat r3, #2, r4",                     0xf304_0301, STEP,                STEP),
        ("sbfx r3, r4, #0, #2",                 0xf344_0301, STEP,                STEP),
        ("bfc r3, #0, #2",                      0xf36f_0301, STEP,                STEP),
        ("bfi r3, r4, #0, #2",                  0xf364_0301, STEP,                STEP),
        ("yield.w",                             0xf3af_8001, STEP,                EMULATE),
        ("sev.w",                               0xf3af_8004, STEP,                EMULATE),
        ("wfi.w",                               0xf3af_8003, EMULATE,             "wait"),
        ("nop.w",                               0xf3af_8000, EMULATE,             EMULATE),
        ("csdb",                                0xf3af_8014, "hint",              STEP),
        ("mrs r3, apsr",                        0xf3ef_8300, EMULATE,             EMULATE),
        ("clrex",                               0xf3bf_8f2f, "barrier",           STEP),
        ("dmb sy",                              0xf3bf_8f5f, "barrier",           STEP),
        ("msr cpsr_c, r4",                      0xf384_8100, "status",            STEP),
        ("msr spsr_c, r4",                      0xf394_8100, "trap-state",        "trap-state"),
        ("mrs r3, spsr",                        0xf3ff_8300, "trap-state",        "trap-state"),
        ("subs pc, lr, #4",                     0xf3de_8f04, "exception-return",  "exception-return"),
        ("udf.w #0x18",                         0xf7f0_a018, "undefined",         "undefined"),
        ("hvc.w #0",                            0xf7e0_8000, "exception",         "exception"),
        ("smc #0",                              0xf7f0_8000, "exception",         "exception"),
        ("cpsid.w if",                          0xf3af_8660, "system-state",      "system-state"),
        ("beq.w #0xc606",                       0xf004_8301, EMULATE,             EMULATE),
        ("blx #0xc0c604",                       0xf004_c300, EMULATE,             EMULATE),
        ("b.w #0xc0c606",                       0xf004_9301, EMULATE,             EMULATE),
        ("b.w #0x8002",                         0xf7ff_bfff, EMULATE,             "branch-into-itself"),
        ("bl #0xc0c606",                        0xf004_d301, EMULATE,             EMULATE),
        ("vld1.8 {d2, d3}, [r4]",               0xf924_2a0f, "coprocessor",       STEP),
        ("pld [pc, #-0x301]",                   0xf81f_f301, EMULATE,             EMULATE),
        ("pld [r4, #0x301]",                    0xf894_f301, EMULATE,             EMULATE),
        ("pld [r4, #-0x1]",                     0xf814_fc01, EMULATE,             EMULATE),
        ("pli [r4, #0x301]",                    0xf994_f301, EMULATE,             EMULATE),
        ("pld [r4, r1]",                        0xf814_f001, EMULATE,             EMULATE),
        ("",                                    0xf864_2301, "unknown",           "unknown"),
        ("strbt r2, [r4, #1]",                  0xf804_2e01, "unprivileged",      STEP),
        ("",                                    0xf80f_2301, "registers",         "registers"),
        ("str.w pc, [r4, #4]",                  0xf8c4_f004, "registers",         "registers"),
        ("ldr.w r2, [pc, #4]",                  0xf8df_2004, EMULATE,             EMULATE),
        ("ldr.w pc, [pc, #4]",                  0xf8df_f004, EMULATE,             EMULATE),
        ("ldr r2, [r4, #-0x4]!",                0xf854_2d04, STEP,                STEP),
        ("str r2, [sp, #-0x40]!",               0xf84d_2d40, STEP,                STEP),
        ("str r2, [sp, #-0x44]!",               0xf84d_2d44, "stack",             STEP),
        ("str.w r2, [sp, r1]",                  0xf84d_2001, "stack",             STEP),
        ("str.w r2, [r4, #0x301]",              0xf8c4_2301, STEP,                STEP),
        ("str.w r2, [r4, r1]",                  0xf844_2001, STEP,                STEP),
        ("ldr.w pc, [r4, r1, lsl #2]",          0xf854_f021, EMULATE,             EMULATE),
        ("ldr pc, [sp], #4",                    0xf85d_fb04, EMULATE,             EMULATE),
        ("ldrb.w r2, [pc, #4]",                 0xf89f_2004, EMULATE,             EMULATE),
        ("ldrh.w r2, [pc, #-0x4]",              0xf83f_2004, EMULATE,             EMULATE),
        ("ldrsb.w r2, [pc, #4]",                0xf99f_2004, EMULATE,             EMULATE),
        ("ldrb.w r2, [r4, #0x301]",             0xf894_2301, STEP,                STEP),
        ("strb.w r2, [r4, r1]",                 0xf804_2001, STEP,                STEP),
        ("",                                    0xfa64_f381, "unknown",           "unknown"),
        ("sxth.w r3, r1",                       0xfa0f_f381, STEP,                STEP),
        ("sadd8 r3, r4, r1",                    0xfa84_f301, STEP,                STEP),
        ("sxtah r3, r4, r1",                    0xfa04_f381, STEP,                STEP),
        ("qadd r3, r1, r4",                     0xfa84_f381, STEP,                STEP),
        ("sel r3, r4, r1",                      0xfaa4_f381, STEP,                STEP),
        ("lsl.w r3, r4, r1",                    0xfa04_f301, STEP,                STEP),
        ("clz r3, r4",                          0xfab4_f384, STEP,                STEP),
        ("clz r3, r5",                          0xfab4_f385, "registers",         "registers"),
        ("rev.w r3, r4",                        0xfa94_f384, STEP,                STEP),
        ("mul r3, r4, r1",                      0xfb04_f301, STEP,                STEP),
        ("smulbb r3, r4, r1",                   0xfb14_f301, STEP,                STEP),
        ("smlabb r3, r4, r1, r2",               0xfb14_2301, STEP,                STEP),
        ("mla r3, r4, r1, r2",                  0xfb04_2301, STEP,                STEP),
        ("umaal r2, r3, r4, r1",                0xfbe4_2361, STEP,                STEP),
        ("smlalbb r2, r3, r4, r1",              0xfbc4_2381, STEP,                STEP),
        ("smlald r2, r3, r4, r1",               0xfbc4_23c1, STEP,                STEP),
        ("smull r2, r3, r4, r1",                0xfb84_2301, STEP,                STEP),
        ("sdiv r3, r4, r1",                     0xfb94_f3f1, "divide",            STEP),
        ("udiv r3, r4, r1",                     0xfbb4_f3f1, "divide",            STEP),
        ("",                                    0xfc04_2301, "unknown",           "unknown"),
    ];
    check(Set::Thumb, ArchMode::Thumb, cases, |word| word.rotate_right(16).to_le_bytes().to_vec());
}

/// KP-1: an instruction that computes with the pc is emulated, never copied.
#[test]
fn copied_instructions_are_not_pc_relative() {
    for word in [0xe59f_2004_u32, 0xe58f_2004, 0xe08f_f101, 0xe1cf_20d8, 0xea04_2301, 0xe92d_dff0, 0xe584_f004] {
        assert!(reads_pc(Set::A32, &insn(Set::A32, &word.to_le_bytes())), "{word:#x}");
    }
    for word in [0xe8bd_8010_u32, 0xe594_f000, 0xe284_2004, 0xe1a0_c00d, 0xe320_f000] {
        assert!(!reads_pc(Set::A32, &insn(Set::A32, &word.to_le_bytes())), "{word:#x}");
    }
}

/// KP-3: `best` refuses probes between a load-exclusive and its store. Linux 6.1 does not.
#[test]
fn probes_inside_an_exclusive_loop_are_refused() {
    use crate::arm::{ARM, THUMB2};
    use crate::region::PlainText;
    // ldrex r0, [r3]; add r0, r0, #1; strex r1, r0, [r3]; teq r1, #0; bne to the start; bx lr
    let a32 = [0xe193_0f9f_u32, 0xe280_0001, 0xe183_1f90, 0xe331_0000, 0x1aff_fffa, 0xe12f_ff1e];
    let a32: Vec<u8> = a32.iter().flat_map(|word| word.to_le_bytes()).collect();
    // ldrex r0, [r3]; adds r0, #1; strex r1, r0, [r3]; cmp r1, #0; bne to the start; bx lr
    let thumb = [0xe853_u16, 0x0f00, 0x3001, 0xe843, 0x0100, 0x2900, 0xd1f8, 0x4770];
    let thumb: Vec<u8> = thumb.iter().flat_map(|half| half.to_le_bytes()).collect();
    #[rustfmt::skip]
    let cases = [
        // the text                at, refused
        (&ARM,    &a32,   [(4, true), (12, false), (20, false)]),
        (&THUMB2, &thumb, [(4, true), (10, false), (14, false)]),
    ];
    for (isa, bytes, places) in cases {
        for (at, refused) in places {
            let mut text = PlainText { start: 0x8000, bytes: bytes.clone(), ..PlainText::default() };
            let insn = (isa.decode)(0x8000 + at, &bytes[at as usize..]).expect("a whole instruction");
            let function = 0x8000..0x8000 + bytes.len() as u64;
            let mut answer = |policy| (isa.check_context)(&insn, policy, function.clone(), &mut text);
            assert_eq!(answer(Policy::Best).is_err(), refused, "{at}");
            assert_eq!(answer(Policy::LINUX_6_1), Ok(()), "{at}");
        }
    }
}
