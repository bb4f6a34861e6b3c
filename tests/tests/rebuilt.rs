//! Rebuilt: the tiny kernel as this machine's compiler makes it does the same work as the prebuilt one.
//!
//! (Where the compiler is the recorded one, `images/tests/rebuild.rs` shows that the bytes are the same.)

use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_images::tally;
use trapline_tests::{checksum, run, session};

#[test]
fn a_kernel_built_here_does_the_same_work() {
    let into = std::env::temp_dir().join(format!("trapline-rebuilt-{}", std::process::id()));
    std::fs::create_dir_all(&into).expect("a folder for temporary files");
    let build = trapline_images::rebuild(&into).unwrap_or_else(|error| panic!("{error}"));
    for (name, tool) in &build.left_out {
        tally::lacks(&format!("{name} is not built again, as there is no {tool} here"));
    }
    let all = build.kernels.len() + build.left_out.len();
    assert_eq!(all, trapline_images::builtins().len(), "every kernel is built where its compiler is");
    for rebuilt in &build.kernels {
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
