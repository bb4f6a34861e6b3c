//! `--vmcore FILE`: the guest as a core dump, at the end of the run or at a hit of `--vmcore-at EVENT`.

use super::Failure;
use super::commands::Chosen;
use super::out_file::OutFile;
use super::output::{Paint, thousands};
use crate::boot::kernels;
use crate::outputs::elf::Shape;
use crate::outputs::vmcore::{self, Core, Piece};
use crate::probed::{Mapped, Session};
use std::io::{BufWriter, Write};
use std::path::Path;
use trapline_isa::mem::ByteOrder;
use trapline_probes::events::set::EventSet;

/// The alignment of the kernel's VMCOREINFO note.
const PAGE: u64 = 4096;
const KIBIBYTE: u64 = 1 << 10;

/// The file, and the moment when it is written.
pub struct VmcoreFile {
    out: OutFile,
    /// Whether it waits for a hit.
    waits: bool,
}

impl VmcoreFile {
    /// Opens the file.
    pub fn new(path: &Path) -> Result<VmcoreFile, Failure> {
        Ok(VmcoreFile { out: OutFile::new(path)?, waits: false })
    }

    /// Waits for the first hit of one of these events.
    pub fn wait_for(&mut self, chosen: &Chosen, session: &mut Session, events: &mut EventSet) -> Result<(), Failure> {
        let chosen = chosen.of(events);
        let is_known = session.with_engine(|engine, _| {
            let stops: Vec<bool> = chosen.iter().map(|event| events.stop_at_hit(engine, *event)).collect();
            stops.contains(&true)
        });
        self.waits = true;
        match is_known {
            true => Ok(()),
            false => {
                Err(Failure::usage("--vmcore-at: there is no such event").advise("name an event of -e or -f: [GROUP/]EVENT"))
            }
        }
    }

    /// Whether the awaited event was hit.
    pub fn is_due(&self, session: &mut Session, events: &mut EventSet) -> bool {
        self.waits && session.with_engine(|engine, _| events.take_stop(engine)).is_some()
    }

    /// Writes the guest as it is at the end of the run, unless the file waits for a hit that did not come.
    pub fn end(self, session: &mut Session) -> Result<(), Failure> {
        if self.waits {
            let note = Paint::for_errors().advice("note:");
            eprintln!("{note} the event of --vmcore-at was not hit, so `{}` is empty", self.out.name);
            return Ok(());
        }
        self.write(session)
    }

    /// Writes the guest as it is now.
    pub fn write(self, session: &mut Session) -> Result<(), Failure> {
        let isa = session.kernel().arch.isa();
        let big_endian = isa.order == ByteOrder::Big;
        let shape = Shape { wide: isa.word == 8, big_endian, machine: kernels::of(isa.arch).elf.machine };
        let piece = |mapped: Mapped| Piece { physical: mapped.physical, address: mapped.address };
        let pieces: Vec<Piece> = session.memory_map().into_iter().map(piece).collect();
        let is_apart = |image: &Piece| {
            let at = |piece: &Piece| piece.address.wrapping_add(image.physical.start.wrapping_sub(piece.physical.start));
            pieces.iter().any(|piece| piece.physical.contains(&image.physical.start) && at(piece) != image.address)
        };
        let image = session.image_map().map(piece).filter(is_apart);
        let (cpus, info) = (session.core_registers(), info(session, &pieces, big_endian));
        let core = Core { shape, cpus, info, pieces, image };
        let memory = session.true_memory();
        let mut to = BufWriter::new(&self.out.file);
        let failed = self.out.failed();
        let written = vmcore::write(&mut to, &core, &mut |at, into| session.read_true(&memory, at, into));
        let written = written.and_then(|written| to.flush().map(|()| written)).map_err(failed)?;
        let paint = Paint::for_errors();
        let (note, size) = (paint.advice("note:"), thousands(written / KIBIBYTE));
        let time = session.machine().now();
        eprintln!("{note} `{}` is the guest at {time} ns: {size} KiB of memory that is not zero", self.out.name);
        if core.info.is_none() && session.kernel().is_stock() {
            eprintln!("{note} the kernel has not made its VMCOREINFO yet: drgn wants --vmcoreinfo FILE, crash a System.map");
        }
        Ok(())
    }
}

/// The kernel's VMCOREINFO note, which is at the start of a page.
fn info(session: &Session, pieces: &[Piece], big_endian: bool) -> Option<Vec<u8>> {
    let ram = session.machine().ram();
    let mut page = vec![0; PAGE as usize];
    let mut head = [0; 32];
    pieces.iter().flat_map(|piece| piece.physical.clone().step_by(PAGE as usize)).find_map(|at| {
        // Most pages fail by their first words.
        if !ram.read(at, &mut head) || !vmcore::begins_info(&head) || !ram.read(at, &mut page) {
            return None;
        }
        vmcore::info(&page, big_endian)
    })
}
