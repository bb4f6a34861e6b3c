//! The tiny kernel for PA-RISC runs on the core alone, with the console, the timer and the power of its board: virtual
//! memory by its TLB miss handlers, interrupts, user programs, faults, system calls.

#[path = "parisc/board.rs"]
mod board;

use board::Board;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use trapline_core::parisc::number;

/// The checksums that its programs print. They are those of the tiny kernels for other ISAs.
const SUMS: [&str; 4] =
    ["pipe       45b271a1e74bdf94", "files      410d88f43df6e8b4", "fork       4ef2f532afe6dcc4", "fault      731d25655b18fbcb"];

/// KP-9: the kernel runs to its end, and its checksums are right.
fn the_tiny_kernel_runs_to_its_end() {
    let (mut core, mut board) = Board::booted("");
    for _ in 0..20_000 {
        board.turn(&mut core);
        if board.status.is_some() {
            break;
        }
    }
    assert_eq!(board.status, Some(0), "{} at {:x}", board.console, board.state.front.get());
    for sum in SUMS {
        assert!(board.console.contains(sum), "{sum} is not in {}", board.console);
    }
    let of = |number: u32| board.exceptions[number as usize];
    assert!(of(number::CODE_MISS) > 50 && of(number::DATA_MISS) > 100 && of(number::BREAK) > 1000 && of(number::DATA_RIGHTS) > 0);
}

fn main() -> ExitCode {
    let test = Trial::test("the_tiny_kernel_runs_to_its_end", || {
        the_tiny_kernel_runs_to_its_end();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}
