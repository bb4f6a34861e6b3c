//! What the benches share: a guest that has booted and is about to call its benchmark function.

use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;

/// Far more virtual time than a run takes.
const LONG: u64 = 10_000_000_000;

/// A tiny kernel that will call `bench_target` so often, stopped when its boot is over.
pub fn about_to_bench(name: &str, calls: u32) -> Result<Session, String> {
    let builtin = trapline_images::find(name).ok_or(format!("{name} is not built in"))?;
    let kernel = Kernel::from_bytes(builtin.bytes).map_err(|error| error.to_string())?;
    let config = Config { command_line: format!("bench={calls}"), ..Config::default() };
    let mut session = Session::new(kernel, &config).map_err(|error| error.to_string())?;
    run_to(&mut session, "text is read-only")?;
    Ok(session)
}

/// Runs until the guest says how long its calls took.
pub fn bench(session: &mut Session) -> Result<(), String> {
    run_to(session, "bench: ")
}

fn run_to(session: &mut Session, text: &str) -> Result<(), String> {
    session.machine_mut().stop_at_console_text(Some(text));
    match session.run_until(LONG) {
        Stop::ConsoleText => Ok(()),
        other => Err(format!("the guest did not say {text:?}: {other:?}")),
    }
}
