//! The tiny kernel, built with this computer's compiler, must compute the same as the prebuilt one.
//!
//! (If the compiler is the recorded one, `images/tests/rebuild.rs` checks that the bytes are equal.)

use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness as harness;
use trapline_tests::{checksum, run, session};

fn a_kernel_built_here_does_the_same_work(toolchain: [&'static str; 2]) {
    let into = std::env::temp_dir().join(format!("trapline-rebuilt-{}-{}", toolchain[0], std::process::id()));
    std::fs::create_dir_all(&into).expect("a folder for temporary files");
    for rebuilt in trapline_images::rebuild(toolchain, &into).unwrap_or_else(|error| panic!("{error}")) {
        let name = rebuilt.name;
        let bytes = std::fs::read(&rebuilt.file).expect("it was just built");
        let kernel = Kernel::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut here = Session::new(kernel, &Config::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (here, prebuilt) = (run(&mut here), run(&mut session(name, 1)));
        assert_eq!(here.stop, Stop::PowerOff(0), "{name}: {}", here.console);
        assert!(checksum(&here.console).starts_with("checksum: "), "{name}: {}", here.console);
        assert_eq!(checksum(&here.console), checksum(&prebuilt.console), "{name}, built with {}", rebuilt.tools.compiler);
    }
    std::fs::remove_dir_all(&into).expect("the folder is ours");
}

fn main() -> ExitCode {
    harness::run([harness::each_toolchain("a_kernel_built_here_does_the_same_work", a_kernel_built_here_does_the_same_work)])
}
