//! Fuzzes the readers of DWARF with arbitrary files. Every question must end within its budget of work, in an answer or
//! an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::lines::chains::Chain;
use trapline::lines::places::Wanted;
use trapline::lines::{DebugFile, Info};

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Wanted::parse(text);
        let _ = Chain::parse(text);
    }
    let Ok(file) = DebugFile::from_bytes(data) else { return };
    let Ok(info) = Info::new(&file) else { return };
    for place in ["read_file", "read_file:8", "add", "places.c:40"] {
        let Ok(place) = Wanted::parse(place) else { continue };
        let _ = info.sources(&place);
        for spot in info.spots(&place).unwrap_or_default().iter().take(4) {
            let _ = info.variables(spot);
            let _ = info.frames(spot.address);
        }
    }
});
