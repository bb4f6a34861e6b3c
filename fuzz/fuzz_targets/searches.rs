//! Any bytes as the only segment of a kernel: the searches for its tables end within their budgets.
//!
//! Input: a byte that chooses the ISA, how often what follows is repeated (one byte), then the segment's beginning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::boot::btf::Btf;
use trapline::boot::{Kernel, Segment, exports, kallsyms};
use trapline::symbols::Symbols;
use trapline_isa::arch::Arch;
use trapline_probes::budget::Budget;

const START: u64 = 0x8010_0000;

fuzz_target!(|data: &[u8]| {
    let [arch, times, piece @ ..] = data else { return };
    let bytes = piece.repeat(usize::from(*times) + 1);
    let size = bytes.len() as u64;
    if size == 0 {
        return;
    }
    let arch = Arch::ALL[usize::from(*arch) % Arch::ALL.len()];
    let segment = Segment { physical: 0x10_0000, virtual_address: START, bytes: bytes.into(), size, executable: false };
    let kernel = Kernel::from_parts(arch, 0x10_0000, vec![segment], Symbols::default());
    let holds = |budget: &Budget| assert!(budget.spent() <= 2 * budget.most(), "{budget:?}: it went on when it was spent");
    let budget = kallsyms::budget(&kernel);
    let _ = kallsyms::find_within(&kernel, &budget);
    holds(&budget);
    let budget = Btf::budget(&kernel);
    let _ = Btf::search(&kernel, &budget);
    assert!(!budget.is_spent(), "{budget:?}: it is enough for every image");
    let _ = exports::find(&kernel, "jiffies");
});
