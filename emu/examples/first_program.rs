//! The program of the README: counts the reads of a guest with a kprobe, and prints each. Run it by `cargo run --example
//! first_program`.

use trapline::{Config, Flow, Kernel, Kprobe, Session, images};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kernel = Kernel::from_bytes(images::find("tiny/x86_64").ok_or("not built in")?.bytes)?;
    let mut session = Session::new(kernel, &Config::default())?;
    let reads = Kprobe::at("vfs_read").pre(|hit| {
        println!("task {} reads {} bytes", hit.pid(), hit.arg(2));
        Flow::Continue
    });
    session.register_kprobe(&reads)?;
    session.run_until(2_000_000_000); // nanoseconds of guest time
    println!("{} reads", reads.hits());
    Ok(())
}
