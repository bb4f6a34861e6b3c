//! Emulates instructions that need their own address: branches, returns, calls with the caller's frame, loops that rotate
//! registers, checks of speculation, `mov` from the pc, and `rfi`.

use super::abi::{ALAT, BSP, CFM, EC, FLOAT_NATS, FPSR, IFS, IIP, IPSR, LC, NATS, PFS, PR, PSR, b, r};
use super::decode::Instruction;
use super::op::{Condition, Op, System};
use crate::regs::{Reg, Registers};

/// The distance of two slots in a pc.
const SLOT_STEP: u64 = super::bundle::SLOT_STEP as u64;
/// The lowest bit of the epilogue count in [`PFS`], and of the privilege level.
const PREVIOUS_EC: u32 = 52;
const PREVIOUS_LEVEL: u32 = 62;
/// The bits of a frame marker, and those of its sizes.
const FRAME: u64 = (1 << 38) - 1;
const SIZES: u64 = (1 << 18) - 1;
/// The lowest bit of the privilege level in the status, and of the slot's number.
const LEVEL: u32 = 32;
const RI: u32 = 41;

/// Emulates the instruction at the pc in `regs`, and sets the pc behind it or to the branch's target. Returns false, having
/// changed nothing, for an instruction that is none of these.
pub fn emulate(insn: &Instruction, regs: &mut dyn Registers) -> bool {
    let pc = regs.pc();
    let ip = pc & !15;
    let behind = match pc & 15 {
        0 => ip + SLOT_STEP,
        // A long instruction is both other slots.
        SLOT_STEP if insn.unit != super::bundle::Unit::X => ip + 2 * SLOT_STEP,
        _ => ip.wrapping_add(16),
    };
    let is_true = predicate(regs, insn.predicate);
    let asks = !matches!(insn.op, Op::Branch { condition, .. } if condition != Condition::Predicate);
    if asks && !is_true && !matches!(insn.op, Op::System(System::Rfi)) {
        regs.set_pc(behind);
        return true;
    }
    let to = match insn.op {
        Op::Branch { condition: Condition::Predicate, distance, .. } => ip.wrapping_add_signed(distance),
        Op::Branch { condition, distance, .. } => match loops(condition, is_true, regs) {
            true => ip.wrapping_add_signed(distance),
            false => behind,
        },
        Op::BranchIndirect { at, .. } => regs.get(b(at)) & !15,
        Op::BranchCall { link, distance, .. } => {
            call(link, ip, regs);
            ip.wrapping_add_signed(distance)
        }
        Op::BranchCallIndirect { link, at, .. } => {
            let to = regs.get(b(at)) & !15;
            call(link, ip, regs);
            to
        }
        Op::BranchReturn { at, .. } => {
            let to = regs.get(b(at)) & !15;
            returns(regs);
            to
        }
        Op::CheckSpeculation { float, register, distance } => {
            let (nats, bit) = bit_of(if float { FLOAT_NATS } else { NATS }, register);
            if regs.get(nats) & bit != 0 { ip.wrapping_add_signed(distance) } else { behind }
        }
        Op::CheckAdvanced { float, clear, register, distance } => {
            let [general, general_high, real, real_high] = ALAT;
            let (entries, bit) = bit_of(if float { [real, real_high] } else { [general, general_high] }, register);
            let has_entry = regs.get(entries) & bit != 0;
            if has_entry && clear {
                regs.set(entries, !bit);
            }
            if has_entry { behind } else { ip.wrapping_add_signed(distance) }
        }
        Op::FloatCheck { status, distance } => {
            let all = regs.get(FPSR);
            let flags = |field: u8| all >> (FIRST_FLAG + FIELD * u32::from(field & 3)) & 0x3f;
            let is_new = flags(status) & !(all & 0x3f) != 0 || flags(status) & !flags(0) != 0;
            if is_new { ip.wrapping_add_signed(distance) } else { behind }
        }
        Op::MoveIp { to } => {
            regs.set(r(to), ip);
            behind
        }
        // Predictions do nothing.
        Op::Predict { .. } | Op::PredictIndirect { .. } => behind,
        Op::System(System::Rfi) => return_from_interruption(regs),
        _ => return false,
    };
    regs.set_pc(to);
    true
}

/// The first flag of the floating-point status's field 0, and the size of a field in bits. The traps are in front of them.
const FIRST_FLAG: u32 = 13;
const FIELD: u32 = 13;

/// The bit of a register in two words of 64 bits.
fn bit_of(words: [Reg; 2], register: u8) -> (Reg, u64) {
    (words[usize::from(register >= 64)], 1 << (register % 64))
}

/// The registers of the frame that are its locals.
fn locals(frame: u64) -> i64 {
    (frame >> 7 & 0x7f) as i64
}

/// The address in the backing store of the register that is `registers` above the one at `address` (below it, if negative).
/// Each 64th word is skipped: it is a collection of NaT bits.
pub fn skip(address: u64, registers: i64) -> u64 {
    let delta = (address >> 3 & 63) as i64 + registers - if registers < 0 { 62 } else { 0 };
    address.wrapping_add_signed(8 * (registers + delta / 63))
}

/// The bit of [`PR`] that holds this predicate in a frame. Predicates from 16 on rotate.
fn bit(frame: u64, number: u8) -> u32 {
    let (number, base) = (u32::from(number), (frame >> 32 & 0x3f) as u32);
    if number < 16 { number } else { 16 + (number - 16 + base) % 48 }
}

fn predicate(regs: &dyn Registers, number: u8) -> bool {
    number == 0 || regs.get(PR) >> bit(regs.get(CFM), number) & 1 != 0
}

/// A call: the outputs of the caller's frame become the new frame.
fn call(link: u8, ip: u64, regs: &mut dyn Registers) {
    let frame = regs.get(CFM) & FRAME;
    let level = regs.get(PSR) >> LEVEL & 3;
    regs.set(b(link), ip.wrapping_add(16));
    regs.set(PFS, frame | (regs.get(EC) & 0x3f) << PREVIOUS_EC | level << PREVIOUS_LEVEL);
    let size = (frame & 0x7f) as i64;
    regs.set(BSP, skip(regs.get(BSP), locals(frame)));
    regs.set(CFM, (size - locals(frame).min(size)) as u64);
}

/// A return: the caller's frame comes back. The privilege level can only become lower, which is a higher number.
fn returns(regs: &mut dyn Registers) {
    let previous = regs.get(PFS);
    regs.set(BSP, skip(regs.get(BSP), -locals(previous)));
    regs.set(CFM, previous & FRAME);
    regs.set(EC, previous >> PREVIOUS_EC & 0x3f);
    let (status, level) = (regs.get(PSR), previous >> PREVIOUS_LEVEL);
    if level > status >> LEVEL & 3 {
        regs.set(PSR, status & !(3 << LEVEL) | level << LEVEL);
    }
}

/// Restores the frame, the status and the pc of the last interruption; returns the pc.
fn return_from_interruption(regs: &mut dyn Registers) -> u64 {
    let [frame, status, ip] = [IFS, IPSR, IIP].map(|reg| regs.get(reg));
    if frame >> 63 != 0 {
        regs.set(BSP, skip(regs.get(BSP), -((frame & 0x7f) as i64)));
        regs.set(CFM, frame & FRAME);
    }
    regs.set(PSR, status & !(3 << RI));
    (ip & !15) + (status >> RI & 3).min(2) * SLOT_STEP
}

/// Updates the counters of a loop branch and rotates the registers; returns whether the branch is taken.
fn loops(condition: Condition, is_true: bool, regs: &mut dyn Registers) -> bool {
    let (count, left, frame) = (regs.get(LC), regs.get(EC), regs.get(CFM));
    if condition == Condition::CountedLoop {
        regs.set(LC, count.saturating_sub(1));
        return count != 0;
    }
    let is_counted = matches!(condition, Condition::CountedTop | Condition::CountedExit);
    // The value of p63, which the rotation moves to p16; whether the loop goes on; whether registers rotate.
    let (stage, again, rotates) = if is_counted && count != 0 {
        regs.set(LC, count - 1);
        (true, true, true)
    } else if !is_counted && is_true {
        (false, true, true)
    } else {
        regs.set(EC, left.saturating_sub(1));
        (false, left > 1, left != 0)
    };
    let last = bit(frame, 63);
    regs.set(PR, regs.get(PR) & !(1 << last) | u64::from(stage) << last);
    if rotates {
        let previous = |base: u64, count: u64| if count == 0 { 0 } else { (base + count - 1) % count };
        let general = previous(frame >> 18 & 0x7f, (frame >> 14 & 0xf) * 8);
        let (real, predicates) = (previous(frame >> 25 & 0x7f, 96), previous(frame >> 32 & 0x3f, 48));
        regs.set(CFM, frame & SIZES | general << 18 | real << 25 | predicates << 32);
    }
    // `br.ctop` and `br.wtop` are taken while the loop goes on, `br.cexit` and `br.wexit` when it ends.
    again == matches!(condition, Condition::CountedTop | Condition::WhileTop)
}

#[cfg(test)]
mod tests;
