//! The guest's text around a probe, for ISA rules that need more than one instruction. [`Text`] implements
//! [`Surroundings`] on the original text, with a small read-ahead buffer.

use crate::decoded::Data;
use crate::engine::Engine;
use crate::guest::{Guest, Site};
use crate::place::forgets_lock_prefixes;
use crate::ready::Around;
use crate::retprobe::SPLIT_OFF;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::function::Decoded;
use trapline_isa::mem::Fault;
use trapline_isa::plan::Policy;
use trapline_isa::region::Surroundings;

/// The longest instruction, in bytes.
const LONGEST_INSN: u64 = trapline_isa::insn::LONGEST as u64;

/// The function's `.cold` part or, for a `.cold` part, its function.
pub(crate) fn other_parts(guest: &dyn Guest, name: &str) -> Vec<Range<u64>> {
    let other = name.strip_suffix(SPLIT_OFF).map_or_else(|| format!("{name}{SPLIT_OFF}"), ToString::to_string);
    guest.symbol(&other).map(|symbol| symbol.start..symbol.start + symbol.size).into_iter().collect()
}

/// Read-ahead size in bytes. A walk through a function asks for one instruction at a time.
const AHEAD: usize = 128;

/// The guest's original text and its facts, as an ISA's rules see them. It is made for one check of one place.
pub(crate) struct Text<'a> {
    engine: &'a Engine,
    guest: &'a dyn Guest,
    policy: Policy,
    parts: Vec<Range<u64>>,
    /// Callers do not ask for instructions that begin after this address.
    most: u64,
    /// The read-ahead buffer: its first `len` bytes are the text from this address on.
    at: u64,
    ahead: [u8; AHEAD],
    len: usize,
}

impl Engine {
    /// The text, with this engine's policy and without a function.
    pub(crate) fn text_around<'a>(&'a self, guest: &'a dyn Guest) -> Text<'a> {
        Text { engine: self, guest, policy: self.policy, parts: Vec::new(), most: u64::MAX, at: 0, ahead: [0; AHEAD], len: 0 }
    }
}

impl Text<'_> {
    /// The text for a walk through this function.
    pub(crate) fn of_function(self, around: &Around, policy: Policy) -> Self {
        Text { policy, parts: around.parts.clone(), most: around.function.end, ..self }
    }

    /// The bytes at an address, if all of them are in the read-ahead buffer.
    fn read_before(&self, address: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(self.at)?).ok()?;
        self.ahead[..self.len].get(from..from.checked_add(len)?)
    }

    /// Fills the read-ahead buffer from an address on. Leaves it empty if the range is not readable.
    fn read_ahead(&mut self, address: u64, len: usize) {
        let rest = self.most.checked_sub(address).and_then(|rest| usize::try_from(rest.saturating_add(LONGEST_INSN)).ok());
        let wanted = rest.map_or(AHEAD, |rest| rest.clamp(len.min(AHEAD), AHEAD));
        let is_read = self.engine.read_original(self.guest, address, &mut self.ahead[..wanted]).is_ok();
        (self.at, self.len) = (address, if is_read { wanted } else { 0 });
    }
}

impl Surroundings for Text<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if self.read_before(address, into.len()).is_none() {
            self.read_ahead(address, into.len());
        }
        match self.read_before(address, into.len()) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => self.engine.read_original(self.guest, address, into)?,
        }
        Ok(())
    }
    fn decoded(&mut self, range: &Range<u64>) -> Option<Arc<Decoded>> {
        self.engine.decoded(self.guest, range, Data::Decoded)
    }
    fn is_code(&self, address: u64) -> bool {
        self.guest.text_kind(address).is_some()
    }
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.guest.expected_fault(range)
    }
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.guest.fixup(range)
    }
    fn reserved(&self, mut range: Range<u64>) -> Option<(u64, &'static str)> {
        range.find_map(|at| {
            let what = match self.guest.site_at(at)? {
                // An unused ftrace site is a nop like any other. A used one is a call, which cannot be moved.
                Site::Ftrace if self.policy.is_linux() => "an ftrace site",
                Site::JumpLabel => "a static key's jump",
                Site::StaticCall => "a static call",
                Site::SmpLock if forgets_lock_prefixes(self.guest, self.policy) => return None,
                Site::SmpLock => "a LOCK prefix",
                Site::Data if !self.policy.is_linux() => "data among the code",
                Site::Ftrace | Site::Bug | Site::Gate | Site::Data => return None,
            };
            Some((at, what))
        })
    }
    fn indirect_thunks(&self) -> Range<u64> {
        self.guest.indirect_thunks()
    }
    fn other_parts(&self) -> &[Range<u64>] {
        &self.parts
    }
}
