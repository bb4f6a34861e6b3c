//! Sessions without any probe, and the unprobed text of a session with probes: its memory with the original bytes in place
//! of breakpoints and jumps. `verify/` compares a probed run with an unprobed one by both.

use super::guest::Live;
use super::{Probes, Session};
use crate::boot::Kernel;
use crate::error::MachineError;
use crate::machine::{Config, Machine};
use crate::snapshot::Snapshot;
use std::ops::Range;
use trapline_isa::plan::Policy;

const PAGE: u64 = 4096;

/// Code in contiguous physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece {
    /// The physical address of its first byte.
    pub physical: u64,
    /// The virtual address of its first byte.
    pub address: u64,
    /// Its number of bytes.
    pub len: u64,
}

impl Session {
    /// A session at the kernel's entry without any probe, not even the internal ones. Without those it does not notice modules
    /// and freed init text, so the caller must not register probes in it.
    pub fn unprobed(kernel: Kernel, config: &Config) -> Result<Session, MachineError> {
        let machine = Machine::new(&kernel, config, |place| Probes::new(&kernel, config, Policy::Best, place))?;
        Ok(Session { machine, stops_at_modules: false })
    }

    /// Like [`Session::unprobed`], in the state of a snapshot.
    pub fn unprobed_from_snapshot(kernel: Kernel, config: &Config, snapshot: &Snapshot) -> Result<Session, MachineError> {
        let machine = Session::machine_from(&kernel, config, Policy::Best, snapshot)?;
        Ok(Session { machine, stops_at_modules: false })
    }

    /// The segments of the kernel and the code of its modules, by physical address.
    pub fn text_pieces(&self) -> Vec<TextPiece> {
        let kernel = self.kernel();
        // All segments are listed, because init text may lie in one that is not marked executable.
        let mut pieces: Vec<TextPiece> = kernel
            .segments
            .iter()
            .map(|segment| TextPiece { physical: segment.physical, address: segment.virtual_address, len: segment.size })
            .collect();
        let modules = self.machine.listener().facts.modules();
        let texts: Vec<Range<u64>> = modules
            .names()
            .filter_map(|name| modules.named(name))
            .flat_map(|module| module.text.iter().map(|text| text.range.clone()))
            .collect();
        for text in texts {
            let mut at = text.start;
            while at < text.end {
                let end = (at / PAGE + 1).saturating_mul(PAGE).min(text.end);
                if let Some((physical, _)) = modules.physical(at) {
                    pieces.push(TextPiece { physical, address: at, len: end - at });
                }
                at = end;
            }
        }
        pieces
    }

    /// Replaces breakpoints and jumps in a copy of the memory at a physical address by the original bytes. Returns the
    /// number of bytes that changed.
    pub fn put_originals(&mut self, pieces: &[TextPiece], physical: u64, copy: &mut [u8]) -> u64 {
        let end = physical + copy.len() as u64;
        let (probes, parts) = self.machine.parts();
        let guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        let mut changed = 0;
        for piece in pieces {
            let (from, to) = (piece.physical.max(physical), (piece.physical + piece.len).min(end));
            if from >= to {
                continue;
            }
            let mut original = vec![0; (to - from) as usize];
            let address = piece.address + (from - piece.physical);
            if probes.engine.read_guests_own(&guest, address, &mut original).is_err() {
                continue;
            }
            let place = &mut copy[(from - physical) as usize..(to - physical) as usize];
            changed += place.iter().zip(&original).filter(|(now, original)| now != original).count() as u64;
            place.copy_from_slice(&original);
        }
        changed
    }

    /// Up to `len` bytes of code at an address, with the original bytes at probes: as many as can be read. `None` if not even the
    /// first one can.
    pub fn original_code(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let (probes, parts) = self.machine.parts();
        let guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        let read = |len: usize| {
            let mut bytes = vec![0; len];
            probes.engine.read_original(&guest, address, &mut bytes).ok().map(|()| bytes)
        };
        (1..=len).rev().find_map(read)
    }

    /// The virtual addresses of the probe window, and the physical ones of the window and of the page tables for it.
    pub fn window(&self) -> [Range<u64>; 2] {
        let ram = self.machine.ram();
        let physical = ram.base() + self.machine.guest_ram_bytes()..ram.end();
        [self.machine.listener().window.range(), physical]
    }
}
