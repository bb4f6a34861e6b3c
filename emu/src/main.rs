//! The program `trapline`. All code is in [`trapline::cli`].

// No panic is reachable from a guest, a file or a command line (SECURITY.md).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo))]

fn main() -> std::process::ExitCode {
    trapline::cli::main()
}
