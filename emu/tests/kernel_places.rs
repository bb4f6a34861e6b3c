//! Raw images of stock kernels: the link address and the symbols are read from the image.
//!
//! The test knows the addresses of fixed releases. If a release is not on this computer, its test is skipped.

use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline_harness::{self as harness, Test};

/// A release, with addresses from its System.map.
struct Place {
    name: &'static str,
    /// The address of the image's first byte.
    start: u64,
    do_sys_openat2: u64,
    /// A lower limit for the number of symbols.
    symbols: usize,
}

#[rustfmt::skip]
const PLACES: [Place; 2] = [
    Place { name: "debian/arm64@6.1.0-50", start: 0xffff_8000_0800_0000, do_sys_openat2: 0xffff_8000_083a_5bf0, symbols: 50_000 },
    Place { name: "debian/armhf@6.1.0-50", start: 0xc020_8000,           do_sys_openat2: 0xc05c_9008,           symbols: 45_000 },
];

/// KP-4: a kernel is loaded at its link address.
fn a_stock_kernel_says_where_it_belongs(place: &Place) {
    let name = place.name;
    let file = harness::stock(name).local.kernel;
    let kernel =
        Kernel::from_bytes(&std::fs::read(&file).expect("the kernel's file")).unwrap_or_else(|error| panic!("{name}: {error}"));
    let first = kernel.segments.iter().map(|segment| segment.virtual_address).min();
    assert_eq!(first, Some(place.start), "{name}");
    assert_eq!(kernel.symbols.address_of("do_sys_openat2"), Some(place.do_sys_openat2), "{name}");
    assert!(kernel.symbols.len() > place.symbols, "{name}: {}", kernel.symbols.len());
}

fn main() -> ExitCode {
    let test = |place: &'static Place| {
        let name = harness::member("a_stock_kernel_says_where_it_belongs", place.name);
        Test::new(name, move || a_stock_kernel_says_where_it_belongs(place)).needs(harness::kernel(place.name))
    };
    harness::run([PLACES.iter().map(test).collect()])
}
