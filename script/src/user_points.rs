//! Attach points in user programs: `uprobe:/bin/busybox:main`, `uretprobe:/lib/libc.so.6:mal*`,
//! `usdt:/lib/libc.so.6:libc:setjmp`.

use super::compile::{Compiler, NAMES_A_STEP};
use super::error::{ScriptError, Span};
use super::points::point_at;
use super::program::{Any, Num, Point, PointKind};
use super::types::Type;
use super::values::Typed;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_probes::user::{Place, Usdt};

impl Compiler<'_> {
    /// Resolves an attach point in a file: a function, one with an offset, an address that the file was linked for, or a
    /// pattern. The result is empty if no function has the name.
    pub(super) fn in_program(
        &self,
        provider: &str,
        path: &str,
        wanted: &str,
        at: Span,
        returns: bool,
    ) -> Result<Vec<Point>, ScriptError> {
        let path = &self.whole_path(provider, path, wanted, at)?;
        let of_pattern = wanted.contains('*');
        let point = |place: Place, shown: String| {
            let kind = PointKind::User(path.to_owned(), place, returns);
            Point { of_pattern, ..point_at(kind, format!("{provider}:{path}:{shown}"), at) }
        };
        if let Some(address) = wanted.bytes().next().filter(u8::is_ascii_digit).and_then(|_| super::lex::time(wanted)) {
            let Some(offset) = self.knowledge.program_offset(path, address) else {
                return Err(at.error(format!("{path} has nothing at {wanted}, or its copy is not known")));
            };
            return Ok(alloc::vec![point(Place::Offset(offset), wanted.to_owned())]);
        }
        let (function, distance) = match wanted.split_once('+') {
            None => (wanted, 0),
            Some((function, distance)) => match super::lex::time(distance) {
                Some(distance) if !returns && !of_pattern => (function, distance),
                _ => {
                    return Err(at.error(format!(
                        "behind the + stands an offset in bytes, and only uprobes of one function have one: uprobe:{path}:{function}+4"
                    )));
                }
            },
        };
        // The whole file is read for one name, so its size is charged.
        self.charge(self.knowledge.program_size(path) / NAMES_A_STEP, at)?;
        let names = self.knowledge.program_functions(path, function).map_err(|why| at.error(why))?;
        self.charge(names.len() as u64, at)?;
        let named = names.into_iter().map(|name| {
            let place = Place::Symbol(name, distance);
            let shown = format!("{place}");
            point(place, shown)
        });
        Ok(named.collect())
    }

    /// The path of a file that may be named without its folders.
    fn whole_path(&self, provider: &str, path: &str, wanted: &str, at: Span) -> Result<String, ScriptError> {
        if path.starts_with('/') {
            return Ok(path.to_owned());
        }
        self.knowledge.program_path(path).ok_or_else(|| {
            at.error(format!(
                "{path} is no program or library of the guest: if it is in none of the usual folders, write its whole path, \
                 {provider}:/bin/{path}:{wanted}; if it is not in the initial file system, name a copy on the host, \
                 --guest-file PATH=COPY, or a directory with the guest's files, --sysroot DIR"
            ))
        })
    }

    /// Resolves an attach point at a USDT probe: a file, a provider or none, and a name. Several places may have the name.
    pub(super) fn usdt(&mut self, path: &str, provider: &str, name: &str, at: Span) -> Result<Vec<Point>, ScriptError> {
        let path = &self.whole_path("usdt", path, name, at)?;
        if name.is_empty() {
            return Err(at.error(format!("usdt is followed by a file, a provider and a name: usdt:{path}:provider:name")));
        }
        self.charge(self.knowledge.program_size(path) / NAMES_A_STEP, at)?;
        let found = self.knowledge.usdt(path, if provider.is_empty() { "*" } else { provider }, name);
        let found = found.map_err(|why| at.error(why))?;
        self.charge(found.len() as u64, at)?;
        if let Some(guarded) = found.iter().find(|usdt| usdt.has_semaphore) {
            self.warnings.push(at.error(format!(
                "{path} counts the tracers of {}:{} in its own memory, which stays as it is: if the program asks the counter first, this probe has no hits",
                guarded.provider, guarded.name
            )));
        }
        let of_pattern = provider.contains('*') || name.contains('*');
        let points = found.into_iter().map(|usdt| {
            let shown = format!("usdt:{path}:{}:{}", usdt.provider, usdt.name);
            Point { of_pattern, ..point_at(PointKind::Usdt(path.to_owned(), Arc::new(usdt)), shown, at) }
        });
        Ok(points.collect())
    }

    /// Checks that the USDT probes of the block have this argument, and that it can be read. Those of a pattern may have
    /// fewer: their missing arguments are 0.
    pub(super) fn check_usdt_argument(&self, number: u8, at: Span) -> Result<(), ScriptError> {
        let of = |usdt: &Usdt| usdt.arguments.get(usize::from(number)).copied();
        let Some((name, first)) = self.block.usdt.first() else { return Ok(()) };
        if self.block.usdt.iter().any(|(_, usdt)| of(usdt).flatten().is_some()) {
            return Ok(());
        }
        Err(at.error(match of(first) {
            Some(_) => format!("arg{number} of {name} cannot be read: it is in no general register, constant or memory"),
            None => format!("{name} has no arg{number}: it has {} arguments", first.arguments.len()),
        }))
    }

    /// An address of the running program as a value that is shown by its function's name.
    pub(super) fn in_program_named(&mut self, address: Num) -> Typed {
        self.names_programs = true;
        (Any::Num(Num::InProgram(Box::new(address))), Type::UserSymbol)
    }

    /// The address that a function was linked for, in the file of the block's probes (`uaddr`).
    pub(super) fn address_in_program(&self, name: &str, at: Span) -> Result<u64, ScriptError> {
        let Some(path) = &self.block.program else {
            return Err(at.error("uaddr() looks in the file of the block's uprobe, and this block has none"));
        };
        let address = self.knowledge.program_address(path, name);
        address.ok_or_else(|| at.error(format!("{path} has no function {name}")))
    }
}
