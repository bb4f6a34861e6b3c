//! Finds and checks the address of a registration, in Linux's order of checks. Each refusal has Linux's errno and a
//! sentence for the user. [`Engine::resolve`] finds the address, [`Engine::check_place`] tests it, and
//! [`Engine::prepare`] decodes the instruction, plans it and writes its slot. "Row" numbers are those of the table in
//! docs/conformance.md.

use crate::breakpoint;
use crate::decoded::Data;
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, place, refused};
use crate::guest::{Guest, Site, Symbol};
use crate::jump::Jump;
use crate::members::Action;
use crate::point::Point;
use crate::probe::Kprobe;
use crate::slots::{self, Slot};
use alloc::format;
use alloc::string::String;
use trapline_isa::entry::{self, BEGINNING, Beginning, Callee, Pointers};
use trapline_isa::function::{self, Boundary};
use trapline_isa::insn::Insn;
use trapline_isa::mem::Fault;
use trapline_isa::plan::{Plan, Policy};
use trapline_isa::regs::Reg;

/// The resolved address of a probe.
pub(crate) struct Place {
    pub address: u64,
    pub symbol: Symbol,
    /// Whether it is the first instruction of its function.
    pub on_entry: bool,
}

impl Place {
    pub fn name(&self) -> String {
        place(&self.symbol, self.address)
    }
}

impl Engine {
    /// The address that was asked for. `follows` is true for a return probe, which needs the return
    /// address to be still in place.
    pub(crate) fn resolve(&self, guest: &dyn Guest, probe: &Kprobe, follows: bool) -> Result<Place, Refusal> {
        let base = match (probe.symbol_name(), probe.wanted_address()) {
            (Some(name), Some(address)) => {
                let why = format!("both the symbol `{name}` and the address {address:#x} are given; give one of them");
                return refused(Errno::EINVAL, why);
            }
            (None, None) => return refused(Errno::EINVAL, "neither a symbol nor an address is given".into()),
            (Some(name), None) => {
                let symbol = self.code_symbol(guest, name).or_else(|| guest.symbol(name));
                let start = self.code_of(guest, symbol.ok_or_else(|| unknown_symbol(guest, name))?.start);
                let alone = self.policy.is_linux() && probe.symbol_offset() == 0;
                start.wrapping_add(if alone { self.named_entry(guest, start, follows) } else { 0 })
            }
            (None, Some(address)) => self.code_of(guest, address),
        };
        let asked = (self.isa.named_by)(base.wrapping_add(u64::from(probe.symbol_offset())));
        let symbol = guest.symbol_at(asked).ok_or_else(|| {
            let why = format!("{asked:#x} lies in no function of the kernel or its modules; `trapline symbols` lists them");
            Refusal::because(Errno::ENOENT, why)
        })?;
        let (address, on_entry) = self.adjust(guest, &symbol, asked)?;
        Ok(Place { address, symbol, on_entry })
    }

    /// A function may begin with code in front of its real entry, such as `endbr64`. A probe at either address
    /// is placed at the entry.
    fn adjust(&self, guest: &dyn Guest, symbol: &Symbol, asked: u64) -> Result<(u64, bool), Refusal> {
        let offset = asked.wrapping_sub(symbol.start);
        if offset > BEGINNING as u64 {
            return Ok((asked, false));
        }
        let mut first = [0; BEGINNING];
        let readable = self.read_some(guest, symbol.start, &mut first);
        if readable == 0 {
            return refused(Errno::EINVAL, format!("the text of {} cannot be read", symbol.name));
        }
        let is_ftrace = |offset: u64| guest.site_at(symbol.start.wrapping_add(offset)) == Some(Site::Ftrace);
        let beginning = Beginning { bytes: &first[..readable], is_ftrace: &is_ftrace };
        let entry = (self.isa.entry)(&beginning, offset, self.policy);
        Ok((entry.map_or(asked, |entry| symbol.start.wrapping_add(entry)), entry.is_some()))
    }

    /// The offset where Linux puts a probe that names a function alone. Behind ftrace's call the return address may
    /// have moved. Linux lets ftrace handle that for return probes; here they stay in front of the call.
    fn named_entry(&self, guest: &dyn Guest, start: u64, follows: bool) -> u64 {
        let mut first = [0; BEGINNING];
        let readable = self.read_some(guest, start, &mut first);
        let is_ftrace = |offset: u64| !follows && guest.site_at(start.wrapping_add(offset)) == Some(Site::Ftrace);
        (self.isa.linux.named_entry)(&Beginning { bytes: &first[..readable], is_ftrace: &is_ftrace })
    }

    /// The symbol of a function's code on ISAs where the plain name is that of its descriptor.
    pub(crate) fn code_symbol(&self, guest: &dyn Guest, name: &str) -> Option<Symbol> {
        let prefix = self.isa.linux.code_prefix;
        if prefix.is_empty() {
            return None;
        }
        match name.split_once(':') {
            Some((module, name)) => guest.symbol(&format!("{module}:{prefix}{name}")),
            None => guest.symbol(&format!("{prefix}{name}")),
        }
    }

    /// Translates the address of a function descriptor to that of its code. Other addresses are returned unchanged.
    fn code_of(&self, guest: &dyn Guest, address: u64) -> u64 {
        if matches!(self.isa.abi.pointers, Pointers::Code(_)) || guest.text_kind(address).is_some() {
            return address;
        }
        let code = self.callee(guest, address).map(|callee| callee.code);
        code.filter(|code| guest.text_kind(*code).is_some()).unwrap_or(address)
    }

    /// The code address and registers of a call through a function pointer of the guest.
    pub(crate) fn callee(&self, guest: &dyn Guest, pointer: u64) -> Option<Callee> {
        let word = |at: u64| {
            let mut bytes = [0; 8];
            let bytes = &mut bytes[..self.isa.word.min(8)];
            guest.read_text(at, bytes).is_ok().then(|| self.isa.order.number(bytes))
        };
        entry::callee(self.isa, pointer, |code| guest.text_kind(code).is_some(), word)
    }

    /// Reads original text, as many bytes as are readable. Returns the number.
    fn read_some(&self, guest: &dyn Guest, address: u64, into: &mut [u8]) -> usize {
        match self.read_original(guest, address, into) {
            Ok(()) => into.len(),
            Err(fault) => {
                let before = (fault.address.wrapping_sub(address) as usize).min(into.len().saturating_sub(1));
                if self.read_original(guest, address, &mut into[..before]).is_ok() { before } else { 0 }
            }
        }
    }

    /// Calls `decide` with the policy. The policy is the user's, so a probe of the engine's own that it refuses is decided
    /// by [`Policy::Best`].
    pub(crate) fn by_policy<T>(
        &self,
        is_internal: bool,
        mut decide: impl FnMut(Policy) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let decided = decide(self.policy);
        if decided.is_err() && is_internal && self.policy.is_linux() { decide(Policy::Best) } else { decided }
    }

    /// Whether a probe may stand there. Returns true if Linux would use ftrace for it.
    pub(crate) fn check_place(&self, guest: &dyn Guest, place: &Place, action: Action, policy: Policy) -> Result<bool, Refusal> {
        let site = guest.site_at(place.address);
        if guest.text_kind(place.address).is_none() {
            let why =
                format!("{} is not in the text of the kernel or of a module: data, or text that has been freed", place.name());
            return refused(Errno::EINVAL, why);
        }
        if site == Some(Site::Gate) {
            return refused(Errno::EINVAL, format!("{} is on a page that user space executes", place.name()));
        }
        if site == Some(Site::Data) && !policy.is_linux() {
            let why = format!("{} is data among the code, which the kernel reads: it is never executed", place.name());
            return refused(Errno::EINVAL, why);
        }
        if !policy.is_linux() && self.isa.linux.in_other_modes.contains(&place.symbol.name.as_str()) {
            let why = format!(
                "{} begins in another mode of the CPU than the kernel's, where a trap is not the kernel's own",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        if let Some(listed) = self.blacklisted(guest, place) {
            let why = format!(
                "{} is blacklisted as part of {}: the delivery of traps itself depends on it; probe one of its callers",
                place.name(),
                listed.name
            );
            return refused(Errno::EINVAL, why);
        }
        let patched = match site {
            // A tracepoint is watched at its no-op. If the guest itself enables the tracepoint, the probe is removed.
            Some(Site::JumpLabel) if !matches!(action, Action::Record(_)) => {
                Some("is a static key's jump, which the kernel patches while it runs")
            }
            Some(Site::StaticCall) => Some("is a static call, which the kernel patches while it runs"),
            Some(Site::Ftrace) if policy.is_linux() && !self.isa.linux.ftrace_carries => {
                Some("is ftrace's, which carries no probes on this ISA")
            }
            Some(Site::Bug) => Some("is the trap of a BUG() or WARN(), which the kernel knows by its address"),
            _ => None,
        };
        if let Some(why) = patched {
            return refused(Errno::EINVAL, format!("{} {why}; probe the instruction behind it", place.name()));
        }
        if ["__cfi_", "__pfx_"].iter().any(|prefix| place.symbol.name.starts_with(prefix)) {
            return refused(Errno::EINVAL, format!("{} is padding in front of a function", place.name()));
        }
        Ok(site == Some(Site::Ftrace) && policy.is_linux())
    }

    /// Decodes the instruction, chooses its plan and writes its slot.
    pub(crate) fn prepare(&self, guest: &mut dyn Guest, place: &Place, policy: Policy) -> Result<(Insn, Plan, Slot), Refusal> {
        let (insn, plan) = self.decide(guest, place, policy)?;
        let (plan, slot) = slots::make(guest, self.isa, &insn, plan, self.optimizer.detours)?;
        Ok((insn, plan, slot))
    }

    /// Decodes the instruction and chooses its plan.
    pub(crate) fn decide(&self, guest: &dyn Guest, place: &Place, policy: Policy) -> Result<(Insn, Plan), Refusal> {
        if guest.site_at(place.address) == Some(Site::SmpLock) && !forgets_lock_prefixes(guest, policy) {
            let why = format!("{} is a LOCK prefix that the kernel patches with the number of CPUs", place.name());
            return refused(Errno::EINVAL, why);
        }
        let insn = self.instruction_at(guest, place, policy)?;
        let plan = match (self.isa.plan)(&insn, policy)? {
            Plan::Boost if !self.boosting => Plan::Step,
            plan => plan,
        };
        let function = place.symbol.start..place.symbol.start.wrapping_add(place.symbol.size);
        (self.isa.check_context)(&insn, policy, function, &mut self.text_around(guest))?;
        let plan = (self.isa.in_delay_slot)(&insn, &mut self.text_around(guest)).map_or(plan, Plan::Emulate);
        Ok((insn, plan))
    }

    /// The original instruction. Refuses an address that is not on an instruction boundary.
    fn instruction_at(&self, guest: &dyn Guest, place: &Place, policy: Policy) -> Result<Insn, Refusal> {
        let errno = self.isa.linux.boundary_errno;
        let mut read = |at: u64, into: &mut [u8]| self.read_original(guest, at, into);
        if !place.address.is_multiple_of(self.isa.alignment) {
            let why =
                format!("{:#x} is no multiple of {}, as the address of every instruction is", place.address, self.isa.alignment);
            return refused(errno, why);
        }
        let looks = !policy.is_linux() || self.isa.linux.finds_boundaries;
        let boundary = if self.isa.variable_length && looks {
            let is_code = |at: u64| guest.text_kind(at).is_some();
            let start = place.symbol.start;
            let function = start..start.saturating_add(place.symbol.size);
            let asks = start < place.address && place.address < function.end;
            let known = asks.then(|| self.decoded(guest, &function, Data::SteppedOver)).flatten();
            let boundary = known.and_then(|known| known.boundary(place.address));
            boundary.unwrap_or_else(|| function::boundary(self.isa, start, place.address, read, is_code))
        } else {
            function::decode_at(self.isa, place.address, &mut read).map_or_else(Boundary::Unknown, Boundary::On)
        };
        let offset = |address: u64| address.wrapping_sub(place.symbol.start);
        match boundary {
            Boundary::On(insn) => Ok(insn),
            Boundary::Inside(insn) => {
                let why = format!(
                    "{} is inside the instruction at {name}+{:#x}; instructions begin at {name}+{:#x} and {name}+{:#x}",
                    place.name(),
                    offset(insn.address),
                    offset(insn.address),
                    offset(insn.next()),
                    name = place.symbol.name,
                );
                refused(errno, why)
            }
            Boundary::Unknown(what) => {
                let why = format!(
                    "no instruction boundary is known at {}: the bytes at {}+{:#x} are no instruction",
                    place.name(),
                    place.symbol.name,
                    offset(what.address)
                );
                refused(errno, why)
            }
        }
    }

    /// Reads guest text with our breakpoints and jumps replaced by the original bytes.
    pub fn read_original(&self, guest: &dyn Guest, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.read_without(guest, address, into, |point| point.armed)
    }

    /// Like [`Engine::read_original`], with the breakpoints that the guest itself has put where a probe of ours stands, too.
    pub fn read_guests_own(&self, guest: &dyn Guest, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.read_without(guest, address, into, |point| point.armed && !point.shared)
    }

    /// Reads text, without the breakpoints and jumps of some points.
    fn read_without(
        &self,
        guest: &dyn Guest,
        address: u64,
        into: &mut [u8],
        which: impl Fn(&Point) -> bool,
    ) -> Result<(), Fault> {
        if let Some(in_group) = self.isa.in_group {
            return breakpoint::read_groups(guest, self.isa, in_group, (address, into), |start, see| {
                let points = self.points.within(start..start + self.isa.group).filter_map(|number| self.points.get(number));
                points.filter(|point| which(point)).for_each(|point| see(&point.insn));
            });
        }
        guest.read_text(address, into)?;
        let breakpoint = self.isa.longest as u64;
        let length = |far: Option<Reg>| self.isa.detour.map_or(0, |table| table.length_through(far));
        let longest = self.isa.detour.map_or(0, |table| table.far.map_or(table.jump_length, |far| far.jump_length));
        let end = address.saturating_add(into.len() as u64);
        for number in self.points.within(address.saturating_sub(breakpoint.max(longest) - 1)..end) {
            let Some(point) = self.points.get(number).filter(|point| which(point)) else { continue };
            let (bytes, len) = match point.jump {
                Jump::Optimised if !point.region.is_nothing() => (point.region.bytes(), length(point.region.through())),
                _ => (point.insn.bytes(), (self.isa.breakpoint_over)(&point.insn).len() as u64),
            };
            for (at, byte) in (point.address()..).zip(bytes).take(len as usize) {
                if let Some(place) = at.checked_sub(address).and_then(|offset| into.get_mut(offset as usize)) {
                    *place = *byte;
                }
            }
        }
        Ok(())
    }
}

fn unknown_symbol(guest: &dyn Guest, name: &str) -> Refusal {
    let near = guest.similar_names(name);
    let advice =
        if near.is_empty() { "`trapline symbols` lists them".into() } else { format!("did you mean `{}`?", near.join("`, `")) };
    Refusal::because(Errno::ENOENT, format!("no symbol is called `{name}`; {advice}"))
}

/// Whether Linux has discarded its list of patched LOCK prefixes, because no second CPU can ever come online.
pub(crate) fn forgets_lock_prefixes(guest: &dyn Guest, policy: Policy) -> bool {
    policy.is_linux() && guest.cpus() == 1
}
