//! The program `trapline`. All code is in [`trapline::cli`].

fn main() -> std::process::ExitCode {
    trapline::cli::main()
}
