//! Writes and recognises the breakpoint of one instruction in the guest's text.
//!
//! On most ISAs it replaces the first bytes of the instruction. Instructions of a group (IA-64's bundles) share bytes, so there
//! the whole group is written, in which only the bits of this instruction change.

use crate::guest::Guest;
use trapline_isa::arch::{InGroup, Isa};
use trapline_isa::insn::{Insn, LONGEST_GROUP};
use trapline_isa::mem::Fault;

/// The guest's present text of an instruction's group, and its address.
fn group_now(guest: &dyn Guest, isa: &Isa, address: u64) -> Result<(u64, [u8; LONGEST_GROUP]), Fault> {
    let (start, mut now) = (isa.group_start(address), [0; LONGEST_GROUP]);
    guest.read_text(start, &mut now)?;
    Ok((start, now))
}

/// Whether the text has the instruction, or its breakpoint.
pub(crate) fn stands(guest: &dyn Guest, isa: &Isa, insn: &Insn, has_breakpoint: bool) -> bool {
    match isa.in_group {
        Some(in_group) => group_now(guest, isa, insn.address).is_ok_and(|(_, now)| in_group(now, insn, has_breakpoint) == now),
        None if has_breakpoint => holds(guest, insn.address, &(isa.breakpoint_over)(insn)),
        None => holds(guest, insn.address, insn.bytes()),
    }
}

/// Writes the breakpoint over the instruction, or the instruction again.
pub(crate) fn put(guest: &mut dyn Guest, isa: &Isa, insn: &Insn, has_breakpoint: bool) -> Result<(), Fault> {
    if let Some(in_group) = isa.in_group {
        let (start, now) = group_now(guest, isa, insn.address)?;
        return guest.patch_text(start, &in_group(now, insn, has_breakpoint));
    }
    let breakpoint = (isa.breakpoint_over)(insn);
    let original = &insn.bytes()[..breakpoint.len().min(insn.bytes().len())];
    guest.patch_text(insn.address, if has_breakpoint { &breakpoint } else { original })
}

/// Reads text of an ISA with groups, with these instructions in place of their breakpoints. `insns` calls the function that it
/// is given with each instruction of a group that begins at an address.
pub(crate) fn read_groups(
    guest: &dyn Guest,
    isa: &Isa,
    in_group: InGroup,
    (address, into): (u64, &mut [u8]),
    insns: impl Fn(u64, &mut dyn FnMut(&Insn)),
) -> Result<(), Fault> {
    let mut at = address;
    let mut rest = into;
    while !rest.is_empty() {
        let start = isa.group_start(at);
        let skipped = at.wrapping_sub(start) as usize;
        let count = (isa.group as usize - skipped).min(rest.len());
        let (part, more) = core::mem::take(&mut rest).split_at_mut(count);
        guest.read_text(at, part)?;
        let mut original = None;
        insns(start, &mut |insn| {
            if let Ok((_, now)) = group_now(guest, isa, start) {
                original = Some(in_group(original.unwrap_or(now), insn, false));
            }
        });
        if let Some(bytes) = original.as_ref().and_then(|bytes| bytes.get(skipped..skipped + count)) {
            part.copy_from_slice(bytes);
        }
        (at, rest) = (at.wrapping_add(count as u64), more);
    }
    Ok(())
}

/// Whether the text holds exactly these bytes.
pub(crate) fn holds(guest: &dyn Guest, address: u64, bytes: &[u8]) -> bool {
    let mut now = [0; LONGEST_GROUP];
    let now = &mut now[..bytes.len().min(LONGEST_GROUP)];
    guest.read_text(address, now).is_ok() && *now == *bytes
}
