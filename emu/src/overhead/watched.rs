//! The cost of an access to a watched page: the loop of loads and stores of `many/loops`, with a watchpoint on its data
//! or beside it.

use super::bench_loop::BenchLoop;
use super::many::loops::{Loop, Loops, of};
use std::ops::Range;
use trapline_probes::watch::{Area, Watchpoint};

/// Offset of the loop's data from the start of RAM.
const DATA: u64 = 0xa0_0000;
/// Accesses in a round of the loop: as many loads as stores.
const ACCESSES: u64 = 8;

/// A row: the loop with one watchpoint.
pub struct Row {
    /// Its name in the list of budgets.
    pub what: &'static str,
    /// The watched bytes, from the start of the loop's data.
    bytes: Range<u64>,
    reads: bool,
    writes: bool,
}

/// `load` and `store`: an access to watched bytes, with an empty handler. `beside`: an access to other bytes of the page.
pub const ROWS: &[Row] = &[
    Row { what: "load", bytes: 0..32, reads: true, writes: false },
    Row { what: "store", bytes: 64..96, reads: false, writes: true },
    Row { what: "beside", bytes: 192..200, reads: true, writes: true },
];

/// Prefix of an ISA's name on the command line.
pub const PREFIX: &str = "watch/";

/// A guest that runs the loop of an ISA. [`Bench::watch`] sets a watchpoint on its data.
pub struct Bench {
    /// The guest in its loop.
    pub bench: BenchLoop,
    chosen: &'static Loop,
}

impl Bench {
    /// Starts the loop. `None` if the ISA has none.
    pub fn start(isa: &str) -> Option<Result<Bench, String>> {
        let loops: &'static Loops = of(&format!("loops/{isa}"))?;
        let chosen = loops.all.iter().find(|chosen| chosen.what == "memory")?;
        Some(loops.bench_loop(chosen).map(|bench| Bench { bench, chosen }))
    }

    /// Sets the watchpoint of a row.
    pub fn watch(&mut self, row: &Row) -> Result<Watchpoint, String> {
        let session = self.bench.session();
        let symbols = &session.kernel().symbols;
        let base = symbols.address_of("_stext").ok_or("the loop has no text")?.wrapping_sub(super::many::ENTRY);
        let start = base.wrapping_add(DATA + row.bytes.start);
        let area = Area { start, len: row.bytes.end - row.bytes.start, reads: row.reads, writes: row.writes, ..Area::default() };
        let watchpoint = Watchpoint::on(area).on_hit(|_| {});
        session.register_watchpoint(&watchpoint).map_err(|refusal| refusal.to_string())?;
        Ok(watchpoint)
    }

    /// Removes the watchpoint of a row.
    pub fn end(&mut self, watchpoint: &Watchpoint) {
        self.bench.session().unregister_watchpoint(watchpoint);
    }

    /// The loads and stores of the loop up to now.
    pub fn accesses(bench: &mut BenchLoop, chosen: &Loop) -> u64 {
        chosen.rounds_in(bench.session().machine().time()) * ACCESSES
    }

    /// The loop that the guest runs, for [`Bench::accesses`].
    pub fn chosen(&self) -> &'static Loop {
        self.chosen
    }
}

#[cfg(test)]
mod tests {
    use super::super::many::loops::ALL;
    use super::*;

    /// BY-3, OP-1: the watchpoints of the rows see the loop's loads, its stores, and nothing, on every ISA.
    #[test]
    fn the_rows_watch_the_loops_accesses() {
        for isa in ALL.iter().filter_map(|loops| loops.name.strip_prefix("loops/")) {
            let mut watched = Bench::start(isa).expect("it has a loop").expect("it starts");
            for row in ROWS {
                let watchpoint = watched.watch(row).expect("it can be watched");
                let before = Bench::accesses(&mut watched.bench, watched.chosen);
                watched.bench.run(10_000).expect("it goes round");
                let made = Bench::accesses(&mut watched.bench, watched.chosen) - before;
                watched.end(&watchpoint);
                let expected = if row.what == "beside" { 0 } else { made / 2 };
                assert!(watchpoint.hits().abs_diff(expected) <= ACCESSES, "{isa} {}: {} of {made}", row.what, watchpoint.hits());
            }
        }
    }
}
