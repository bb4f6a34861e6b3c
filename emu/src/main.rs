//! The binary: everything is in [`trapline::cli`].

fn main() -> std::process::ExitCode {
    trapline::cli::main()
}
