//! Random instructions in volume (`make differential`). Half of them are made from the rows of the ISA's table, so that
//! each row is tested. Each run reports its counts.

use super::Labs;
use proptest::prelude::*;
use std::fmt::Write;
use std::time::Duration;
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, bench, place};

/// The bench's random cases, and as many cases with instructions made from the rows.
pub fn cases(arch: Arch) -> BoxedStrategy<Before> {
    let isa = arch.isa();
    let of_rows = ((bench(arch).case)(arch), 0..isa.rows.count(), any::<u64>());
    let of_rows = of_rows.prop_filter_map("no instruction", move |(before, row, free)| {
        let insn = (isa.decode)(place(arch), &(isa.rows.example)(row, free)?).ok()?;
        Some(Before { bytes: insn.bytes().to_vec(), ..before })
    });
    prop_oneof![(bench(arch).case)(arch), of_rows].boxed()
}

/// The row that decides about an instruction.
pub fn row(arch: Arch, bytes: &[u8]) -> Option<usize> {
    let isa = arch.isa();
    (isa.rows.of)(&(isa.decode)(place(arch), bytes).ok()?)
}

/// Appends lines to the file that `TRAPLINE_VOLUME` names: the part's counts, and the number of cases of each row. Does
/// nothing if the variable is not set.
pub fn report(arch: Arch, part: u8, took: Duration, labs: &Labs) {
    let Some(folder) = std::env::var_os("TRAPLINE_VOLUME") else { return };
    let (name, rows) = (arch.name(), arch.isa().rows.count());
    let mut text = format!("part\t{name}\t{}\t{}\t{:.1}\t{rows}\n", labs.compared, labs.refused, took.as_secs_f64());
    for (row, cases) in &labs.rows {
        let row = row.map_or("none".into(), |row| row.to_string());
        let _ = writeln!(text, "row\t{name}\t{row}\t{cases}");
    }
    for row in &labs.refused_rows {
        let _ = writeln!(text, "refused\t{name}\t{row}");
    }
    let file = std::path::Path::new(&folder).join(format!("{name}-{part}.tsv"));
    std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}
