//! Symbol names for the output of scripts (`ksym`, `usym`, stacks): functions of the kernel and of user programs.

use super::Session;
use crate::boot::guest_files::GuestFiles;
use crate::cpu::program_names::MappedFiles;
use crate::symbols::Symbols;
use std::sync::{Arc, PoisonError};
use trapline_script::Program;
use trapline_script::show::Names;

/// The symbols of the kernel and of the guest's programs.
pub(super) struct ScriptNames {
    kernel: Symbols,
    files: Arc<GuestFiles>,
    /// The mapped files of programs, by number. `None` if the script prints no symbols of programs.
    mapped: Option<MappedFiles>,
}

impl Names for ScriptNames {
    fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let places = self.kernel.places();
        let at = places.partition_point(|entry| entry.address <= address).checked_sub(1)?;
        let start = places[at].address;
        // Addresses outside the kernel have no name, although a symbol precedes them.
        self.kernel.containing(address)?;
        let first = places.partition_point(|entry| entry.address < start);
        Some((&places[first].name, address - start))
    }

    fn program_symbol(&self, mapping: u16, address: u64) -> Option<(String, u64)> {
        let mapped = self.mapped.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).get(usize::from(mapping))?.clone();
        let program = self.files.program(&mapped.path).ok()?;
        let (function, distance) = program.function_at(address.wrapping_sub(mapped.start))?;
        Some((function.name.clone(), distance))
    }
}

impl Session {
    /// The names for a script's output. The machine notes the mappings of programs only for scripts that name addresses
    /// in them.
    pub(super) fn names_for(&mut self, program: &Program) -> ScriptNames {
        let kernel = self.kernel().symbols.clone();
        let (probes, mut parts) = self.machine_mut().parts();
        let mapped = program.names_programs.then(|| parts.user_places().name_addresses());
        ScriptNames { kernel, files: Arc::clone(probes.facts.files()), mapped }
    }
}
