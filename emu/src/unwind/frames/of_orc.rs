//! Call frame information (DWARF's `.debug_frame`) made from ORC tables.
//!
//! A frame of a call has its caller's address below the CFA. In a frame of an interrupt the registers lie in memory; there
//! the CFA is the saved stack pointer, and expressions say where the others are.

use super::super::orc::{Orc, OrcEntry};
use super::{ADVANCE, CFA_EXPRESSION, DEFINE_CFA, DEREFERENCE, OFFSET_SIGNED, REGISTER, SAME_VALUE, put_signed, put_unsigned};

/// DWARF's numbers of registers on x86-64.
const RBP: u8 = 6;
const RSP: u8 = 7;
const RETURN: u8 = 16;

// Call frame instructions.
const UNDEFINED: u8 = 0x07;
const EXPRESSION: u8 = 0x10;
const OFFSET: u8 = 0x80;
/// The data alignment factor: saved words lie at multiples of it from the CFA.
const DATA_FACTOR: i64 = -8;

/// Offsets in `struct pt_regs`, the kernel's interrupt frame.
const SAVED_BP: i64 = 32;
const SAVED_IP: i64 = 128;
/// The distance from the saved pc to the saved stack pointer; cs and the flags lie in between.
const BEHIND_IP_SP: i64 = 24;

/// The contents of `.debug_frame`: one entry for each function. `functions` has their start addresses, and last the end of
/// the last function.
pub fn of_tables(orc: &Orc, functions: &[u64]) -> Vec<u8> {
    let mut section = Vec::new();
    // One common entry (CIE): code factor 1, data factor -8, the return address in column 16, and the frame at a function's
    // entry.
    let common = [&u32::MAX.to_le_bytes()[..], &[1, 0, 1, 0x78, RETURN, DEFINE_CFA, RSP, 8, OFFSET | RETURN, 1, 0, 0]].concat();
    section.extend((common.len() as u32).to_le_bytes());
    section.extend(common);
    for pair in functions.windows(2) {
        let entry = function(orc, pair[0], pair[1]);
        section.extend((entry.len() as u32).to_le_bytes());
        section.extend(entry);
    }
    section
}

fn function(orc: &Orc, start: u64, end: u64) -> Vec<u8> {
    let mut entry = 0_u32.to_le_bytes().to_vec();
    entry.extend(start.to_le_bytes());
    entry.extend((end - start).to_le_bytes());
    let mut here = start;
    for (at, row) in orc.rows_in(start..end) {
        let at = at.max(start);
        if at > here {
            entry.push(ADVANCE);
            entry.extend(((at - here) as u32).to_le_bytes());
            here = at;
        }
        put_row(&mut entry, row);
    }
    // DW_CFA_nop pads the entry.
    entry.resize((entry.len() + 4).next_multiple_of(8) - 4, 0);
    entry
}

fn put_row(entry: &mut Vec<u8>, row: OrcEntry) {
    let Some(base) = row.base(RSP, RBP) else {
        entry.extend([UNDEFINED, RETURN]);
        return;
    };
    let distance = row.sp_distance();
    if row.is_call() {
        entry.extend([DEFINE_CFA, base]);
        put_unsigned(entry, distance.max(0).cast_unsigned());
        entry.extend([OFFSET | RETURN, 1]);
        match row.bp_below_cfa() {
            Some(at) => {
                entry.extend([OFFSET_SIGNED, RBP]);
                put_signed(entry, at / DATA_FACTOR);
            }
            None => entry.extend([SAME_VALUE, RBP]),
        }
        return;
    }
    let (ip, bp) = if row.has_registers() { (distance + SAVED_IP, Some(distance + SAVED_BP)) } else { (distance, None) };
    put_expression(entry, &[CFA_EXPRESSION], base, ip + BEHIND_IP_SP, true);
    put_expression(entry, &[EXPRESSION, RETURN], base, ip, false);
    match bp {
        Some(bp) => put_expression(entry, &[EXPRESSION, RBP], base, bp, false),
        None => entry.extend([SAME_VALUE, RBP]),
    }
}

/// Puts an instruction whose operand is the address, or the word, at a distance from a register.
fn put_expression(entry: &mut Vec<u8>, instruction: &[u8], base: u8, distance: i64, is_word: bool) {
    let mut expression = vec![REGISTER + base];
    put_signed(&mut expression, distance);
    if is_word {
        expression.push(DEREFERENCE);
    }
    entry.extend(instruction);
    put_unsigned(entry, expression.len() as u64);
    entry.extend(expression);
}
