//! The waves of a sweep: which addresses are probed together.

use super::Kind;
use crate::boot::Kernel;
use std::collections::BTreeMap;
use trapline_isa::function;

/// The least number of waves of jumps. A jump covers some instructions, and none of these may have a probe of the same
/// wave.
const APART: usize = 8;

/// The waves of a sweep, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The number of executed instructions.
    pub instructions: usize,
    /// The number of executed functions.
    pub functions: usize,
    /// The waves: their kinds and addresses.
    pub waves: Vec<(Kind, Vec<u64>)>,
}

impl Plan {
    /// The plan for the blocks that a run has executed: the length of each, by its address. Blocks outside the kernel's text
    /// are left out.
    pub fn of(kernel: &Kernel, blocks: &BTreeMap<u64, u32>, kinds: &[Kind], wave: usize) -> Plan {
        let instructions = instructions(kernel, blocks);
        let functions = entries(kernel, &instructions);
        let mut waves = Vec::new();
        for kind in Kind::ALL.iter().filter(|kind| kinds.contains(kind)) {
            let (addresses, least) = match kind {
                Kind::Kprobe => (&instructions, 1),
                Kind::Optimised => (&instructions, APART),
                Kind::Return => (&functions, 1),
            };
            let count = addresses.len().div_ceil(wave.max(1)).max(least).min(addresses.len());
            // Neighbours are in different waves.
            let each = |number: usize| addresses.iter().copied().skip(number).step_by(count).collect();
            waves.extend((0..count).map(|number| (*kind, each(number))));
        }
        Plan { instructions: instructions.len(), functions: functions.len(), waves }
    }
}

/// The instructions of these blocks, in order.
fn instructions(kernel: &Kernel, blocks: &BTreeMap<u64, u32>) -> Vec<u64> {
    let isa = kernel.arch.isa();
    let mut found = Vec::new();
    for (start, len) in blocks.iter().filter(|(start, _)| kernel.tables.is_text(**start)) {
        let end = start.saturating_add(u64::from(*len));
        let read = |at, into: &mut [u8]| kernel.read(at, into);
        found.extend(function::walk(isa, *start, end, read).map_while(Result::ok).map(|insn| insn.address));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The functions with executed instructions, by their symbols.
fn entries(kernel: &Kernel, instructions: &[u64]) -> Vec<u64> {
    let mut found: Vec<u64> =
        instructions.iter().filter_map(|at| kernel.symbols.containing(*at)).map(|symbol| symbol.start).collect();
    found.dedup();
    found
}
