//! The debugfs files of kprobes (`list`, `blacklist`, `enabled`), byte for byte as Linux prints them, and a summary of
//! our own.

use crate::engine::Engine;
use crate::guest::Guest;
use crate::jump::Jump;
use crate::members::Action;
use crate::point::{Mode, Point};
use crate::probe::{Kind, Kprobe};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use trapline_isa::plan::Refusal;

/// Linux's table of probes has 2^6 hash buckets, and its list is in bucket order.
const BUCKET_BITS: u32 = 6;

/// The state of a probe at the end of a run. It accounts for every miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSummary {
    /// The type of the probe.
    pub kind: Kind,
    /// Its place: `vfs_read+0x4`.
    pub name: String,
    /// The probed address.
    pub address: u64,
    /// The number of times that its handlers ran. For a return probe: the number of entries of its function.
    pub hits: u64,
    /// The numbers of hits at which its handlers did not run, by cause.
    pub misses: Misses,
    /// The way the probed instruction runs.
    pub mode: Mode,
    /// Whether its handlers are disabled.
    pub disabled: bool,
    /// Whether its text has been freed.
    pub gone: bool,
    /// Whether Linux would use ftrace for it.
    pub uses_ftrace: bool,
    /// Whether it is optimised or queued for that.
    pub optimized: bool,
    /// The reason why it is not optimised.
    pub obstacle: Option<Refusal>,
    /// The reason why it cannot be armed on the present text.
    pub waits: Option<Refusal>,
    /// Whether it shares a breakpoint of the guest's own.
    pub shared: bool,
}

/// Missed hits, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Another probe was being processed on that CPU.
    pub reentered: u64,
    /// A newer probe at the same address ended the hit.
    pub skipped: u64,
    /// All of a return probe's instances were in use.
    pub no_instance: u64,
    /// It was reached while the guest read or changed its own text, while no probe was in it.
    pub passed: u64,
}

impl Engine {
    /// debugfs `kprobes/list`.
    pub fn list(&self, guest: &dyn Guest) -> String {
        let mut points: Vec<&Point> = self.points.iter().map(|(_, point)| point).collect();
        points.sort_by_key(|point| (bucket(point.address(), self.isa.word), core::cmp::Reverse(point.born)));
        let mut text = String::new();
        for point in points {
            for member in point.members.iter().filter(|member| !member.probe.is_internal()) {
                self.list_line(guest, point, &member.probe, &mut text);
            }
        }
        text
    }

    fn list_line(&self, guest: &dyn Guest, point: &Point, probe: &Kprobe, text: &mut String) {
        let (address, digits, kind) = (point.address(), 2 * self.isa.word, probe.kind().letter());
        // Writing to a String cannot fail.
        let _ = match guest.symbol_at(address) {
            Some(symbol) => {
                let offset = address.wrapping_sub(symbol.start);
                let module = symbol.module.as_deref().unwrap_or(" ");
                write!(text, "{address:0digits$x}  {kind}  {}+{offset:#x}  {module} ", symbol.name)
            }
            None => write!(text, "{address:0digits$x}  {kind}  {address:#x} "),
        };
        for (shown, word) in [
            (probe.is_gone(), "[GONE]"),
            (probe.is_disabled() && !probe.is_gone(), "[DISABLED]"),
            (point.jump != Jump::Plain, "[OPTIMIZED]"),
            (point.uses_ftrace, "[FTRACE]"),
        ] {
            text.push_str(if shown { word } else { "" });
        }
        text.push('\n');
    }

    /// debugfs `kprobes/blacklist`.
    pub fn blacklist_view(&self, guest: &dyn Guest) -> String {
        let digits = 2 * self.isa.word;
        let listed = self.entries(guest).filter(|entry| entry.listed);
        listed
            .map(|entry| format!("0x{:0digits$x}-0x{:0digits$x}\t{}\n", entry.range.start, entry.range.end, entry.name))
            .collect()
    }

    /// debugfs `kprobes/enabled`.
    pub fn enabled_view(&self) -> &'static str {
        if self.enabled() { "1\n" } else { "0\n" }
    }

    /// One summary per probe that is not internal, by address, then in the order in which their handlers run.
    pub fn summary(&self, guest: &dyn Guest) -> Vec<ProbeSummary> {
        let mut lines = Vec::new();
        for (_, point) in self.points.iter() {
            let members = point.members.iter().filter(|member| !member.probe.is_internal());
            lines.extend(members.map(|member| {
                let probe = &member.probe;
                let name = match guest.symbol_at(point.address()) {
                    Some(symbol) => crate::errno::place(&symbol, point.address()),
                    None => format!("{:#x}", point.address()),
                };
                let no_instance = match &member.action {
                    Action::Return(pool) => self.returns.missed(*pool),
                    _ => 0,
                };
                ProbeSummary {
                    kind: probe.kind(),
                    name,
                    address: point.address(),
                    hits: probe.hits(),
                    misses: Misses { reentered: probe.nmissed(), skipped: probe.skipped(), no_instance, passed: probe.passed() },
                    mode: point.mode(),
                    disabled: probe.is_disabled(),
                    gone: probe.is_gone(),
                    uses_ftrace: point.uses_ftrace,
                    optimized: point.jump != Jump::Plain,
                    obstacle: point.obstacle(),
                    waits: point.waits().cloned(),
                    shared: point.shared,
                }
            }));
        }
        lines
    }
}

/// Linux's hash of an address (`include/linux/hash.h`).
fn bucket(address: u64, word: usize) -> u64 {
    match word {
        8 => address.wrapping_mul(0x61c8_8646_80b5_83eb) >> (64 - BUCKET_BITS),
        _ => u64::from((address as u32).wrapping_mul(0x61c8_8647) >> (32 - BUCKET_BITS)),
    }
}

#[cfg(test)]
mod tests;
