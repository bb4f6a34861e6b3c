//! Helpers for the comparisons with capstone: random words, and capstone's view of an instruction.

#![allow(dead_code)] // each test has its own part of it

pub mod state;

use capstone::Capstone;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Runs very many cases; failed cases are stored in this file.
pub fn config(regressions: &'static str) -> ProptestConfig {
    let regressions = FileFailurePersistence::Direct(regressions);
    ProptestConfig { cases: 20_000, failure_persistence: Some(Box::new(regressions)), ..ProptestConfig::default() }
}

/// Random words. Half of them match one of `starts` (mask, value), which would be rare otherwise.
pub fn words(starts: &'static [(u32, u32)]) -> impl Strategy<Value = u32> {
    let shaped = (prop::sample::select(starts), any::<u32>()).prop_map(|((mask, value), rest)| value | rest & !mask);
    prop_oneof![any::<u32>(), shaped]
}

/// capstone's view of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    pub name: String,
    /// The operands without the last one if that is a number, which capstone prints in several forms.
    pub operands: String,
    /// The last operand, if it is a number.
    pub target: Option<u64>,
    pub length: usize,
}

/// capstone's view of these bytes, if it decodes them.
pub fn opinion(capstone: &Capstone, bytes: &[u8], address: u64) -> Option<Opinion> {
    let found = capstone.disasm_count(bytes, address, 1).expect("capstone runs");
    let first = found.iter().next()?;
    let operands = first.op_str().unwrap_or_default();
    let last = operands.rsplit([' ', ',']).next().unwrap_or_default();
    let (is_negative, digits) = last.strip_prefix('-').map_or((false, last), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    };
    Some(Opinion {
        name: first.mnemonic().unwrap_or_default().into(),
        operands: operands[..operands.len() - last.len()].into(),
        target: number.map(|number: u64| if is_negative { number.wrapping_neg() } else { number }),
        length: first.len(),
    })
}
