//! Fuzzes the kernel loader with arbitrary files. The result must be a kernel whose parts can all be read, or an error
//! message.
//!
//! Input: a byte that selects the format of the rest. 0: a file, compressed or not. 1 or 2: changes to the built-in
//! kernel for x86_64 or i386, eight bytes each (see [`patched`]). 3: the text of a System.map.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::borrow::Cow;
use trapline::boot::{Kernel, payload};
use trapline::still::StillGuest;
use trapline::symbols::{Symbols, system_map};
use trapline_probes::guest::Guest;

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    match choice % 4 {
        0 => look_inside(rest),
        1 => look_at(&patched("tiny/x86_64", rest)),
        2 => look_at(&patched("tiny/i386", rest)),
        _ => {
            if let Ok(symbols) = system_map::parse(&String::from_utf8_lossy(rest)) {
                look_up(&symbols);
            }
        }
    }
});

/// A limit for the unpacked size, smaller than the loader's gigabyte, so that the fuzzer stays fast.
const MOST_BYTES: u64 = 4 << 20;

fn look_inside(file: &[u8]) {
    let Ok(inner) = payload::unpack_at_most(file, MOST_BYTES) else { return };
    assert!(inner.len() as u64 <= MOST_BYTES.max(file.len() as u64), "more was unpacked than asked for");
    // A file that is compressed twice would be unpacked again by the loader, with the loader's own limit.
    if matches!(payload::unpack_at_most(&inner, MOST_BYTES), Ok(Cow::Borrowed(_))) {
        look_at(&inner);
    }
}

/// A complete kernel with a few fields changed. A change has eight bytes. The first selects the area (low two bits: ELF
/// header, program headers, section headers, anywhere) and the size (next two bits: 1, 2 or 4 bytes, or truncation of
/// the file). Three bytes are the offset, four the value.
fn patched(name: &str, changes: &[u8]) -> Vec<u8> {
    let mut file = trapline_images::find(name).expect("it is built in").bytes.to_vec();
    let (wide, start) = (file[4] == 2, file.len());
    let headers = if wide {
        [(0, 64), (64, 56 * 8), (start - 64 * 24, 64 * 24)]
    } else {
        [(0, 52), (52, 32 * 8), (start - 40 * 24, 40 * 24)]
    };
    for change in changes.chunks_exact(8).take(16) {
        let offset = usize::from(change[1]) | usize::from(change[2]) << 8 | usize::from(change[3]) << 16;
        let (from, len) = headers.get(usize::from(change[0] & 3)).copied().unwrap_or((0, start));
        let at = from + offset % len;
        let width = [1, 2, 4, 0][usize::from(change[0] >> 2 & 3)];
        match file.get_mut(at..at + width) {
            Some([]) => file.truncate(at),
            Some(field) => field.copy_from_slice(&change[4..4 + width]),
            None => {}
        }
    }
    file
}

fn look_at(file: &[u8]) {
    let kernel = match Kernel::from_bytes(file) {
        Ok(kernel) => kernel,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut byte = [0; 1];
    for segment in kernel.segments.iter() {
        assert!(segment.bytes.len() as u64 <= segment.size, "more bytes than room: {:#x?}", segment.range());
        assert!(segment.size == 0 || kernel.read(segment.virtual_address, &mut byte).is_ok());
        let _ = kernel.read(segment.range().end.wrapping_sub(1), &mut [0; 16]);
    }
    look_up(&kernel.symbols);
    let guest = StillGuest::new(&kernel);
    for address in [kernel.entry, kernel.tables.text.start, kernel.tables.text.end, 0, u64::MAX] {
        let _ =
            (guest.symbol_at(address), guest.text_kind(address), guest.site_at(address), guest.read_text(address, &mut [0; 16]));
    }
    assert!(guest.blacklist().iter().all(|entry| entry.range.start <= entry.range.end), "a range that ends before it begins");
}

fn look_up(symbols: &Symbols) {
    for place in symbols.places().iter().take(8) {
        // `None` if the address lies outside of the kernel's own addresses.
        if let Some(symbol) = symbols.containing(place.address) {
            assert_eq!(symbol.start, place.address, "{place:?} is not where it is");
        }
        let _ = (symbols.describe(place.address), symbols.count(&place.name), symbols.matching(&place.name).count());
    }
    let extents = symbols.extents(0..u64::MAX);
    assert!(extents.windows(2).all(|pair| pair[0].start < pair[1].start), "extents out of order");
    let _ = (symbols.similar("vfs_raed"), symbols.describe(u64::MAX));
}
