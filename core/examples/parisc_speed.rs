//! Prints the number of guest instructions per second that the PA-RISC core runs: in the loop of the tiny kernel that
//! `trapline bench tiny/parisc` uses, and in the kernel's own programs.
//!
//!     cargo run --release -p trapline-core --example parisc_speed

#[path = "../tests/parisc/board.rs"]
mod board;

use board::Board;
use std::time::Instant;
use trapline_core::parisc::Core;

/// Bytes of the loop's code that are measured.
const LOOP: i64 = 4 * 20_000_000;
/// Each row is measured so many times. The best one counts, because other work on the computer only makes it slower.
const TURNS: usize = 5;

/// The CPU time of this process in nanoseconds, which other work on the computer disturbs less than the time of day. Only
/// Linux says it here; elsewhere it is the time since the start.
fn cpu_time(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let time = text.split(' ').next().and_then(|time| time.parse().ok());
    time.unwrap_or(start.elapsed().as_nanos() as f64)
}

/// Runs until the guest ends or the condition holds.
fn run_until(core: &mut Core, board: &mut Board, ends: impl Fn(&Board) -> bool) {
    while board.status.is_none() && !ends(board) {
        board.turn(core);
    }
}

/// Runs on until the condition holds. Returns millions of instructions per second.
fn speed(core: &mut Core, board: &mut Board, ends: impl Fn(&Board) -> bool) -> f64 {
    let now = Instant::now();
    let (start, before) = (cpu_time(now), board.ran);
    run_until(core, board, ends);
    (board.ran - before) as f64 / 4.0 / (cpu_time(now) - start) * 1e3
}

fn main() {
    let best = |measure: &dyn Fn() -> f64| (0..TURNS).map(|_| measure()).fold(0.0, f64::max);
    let of_loop = best(&|| {
        let (mut core, mut board) = Board::booted(&format!("bench={}", i32::MAX));
        run_until(&mut core, &mut board, |board| board.console.contains("boot is over"));
        let end = board.ran + LOOP;
        speed(&mut core, &mut board, |board| board.ran >= end)
    });
    println!("the loop of the benchmark: {of_loop:.0} million instructions a second");
    let of_programs = best(&|| {
        let (mut core, mut board) = Board::booted("user=40");
        let speed = speed(&mut core, &mut board, |_| false);
        assert_eq!(board.status, Some(0), "{}", board.console);
        speed
    });
    println!("the kernel's programs: {of_programs:.0} million instructions a second");
}
