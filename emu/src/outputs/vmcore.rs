//! A kernel core dump (ELF vmcore), which drgn, crash and gdb open: notes with the registers of each CPU and the kernel's
//! own VMCOREINFO, then all memory. Pages of zeros are holes in the file.

use super::elf::{Header, Numbers, Shape};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

/// Bytes in a page of the file.
const PAGE: usize = 4096;
/// Bytes that are read at a time.
const CHUNK: usize = 64 * PAGE;
/// The type of ELF files that hold a core dump (`ET_CORE`).
const CORE: u16 = 4;
/// The program header of loadable memory (`PT_LOAD`), and that of notes (`PT_NOTE`).
const LOAD: u32 = 1;
const NOTE: u32 = 4;
/// The note with the registers of a CPU.
const PRSTATUS: u32 = 1;
/// The name in front of the kernel's own note.
const VMCOREINFO: &[u8] = b"VMCOREINFO\0";
/// The first line of every VMCOREINFO.
const FIRST_LINE: &[u8] = b"OSRELEASE=";

/// A piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its physical addresses.
    pub physical: Range<u64>,
    /// Its first virtual address. 0 if the kernel has none.
    pub address: u64,
}

/// A guest at one moment, without its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The kind of ELF file.
    pub shape: Shape,
    /// The registers of each CPU, in the order of the kernel's `elf_gregset_t`.
    pub cpus: Vec<Vec<u8>>,
    /// The text of the kernel's VMCOREINFO, if it has made it already.
    pub info: Option<Vec<u8>>,
    /// All memory.
    pub pieces: Vec<Piece>,
    /// A part of the memory that the kernel also has at another address: its image.
    pub image: Option<Piece>,
}

/// The length of the VMCOREINFO text in a page that begins with this note. `None` if it does not.
fn info_length(page: &[u8], big_endian: bool) -> Option<usize> {
    let number = |at: usize| {
        let bytes: [u8; 4] = page.get(at..at + 4)?.try_into().ok()?;
        Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
    };
    let text = 12 + VMCOREINFO.len().next_multiple_of(4);
    let is_one = number(0)? == VMCOREINFO.len() && number(8)? == 0 && page.get(12..12 + VMCOREINFO.len())? == VMCOREINFO;
    let length = number(4)?;
    (is_one && page.get(text..text.checked_add(length)?)?.starts_with(FIRST_LINE)).then_some(length)
}

/// Whether a page may begin with a VMCOREINFO note, by its first 32 bytes.
pub fn begins_info(page: &[u8]) -> bool {
    page.get(12..12 + VMCOREINFO.len()).is_some_and(|name| name == VMCOREINFO)
}

/// The text of the VMCOREINFO note in a page, if it has one.
pub fn info(page: &[u8], big_endian: bool) -> Option<Vec<u8>> {
    let start = 12 + VMCOREINFO.len().next_multiple_of(4);
    Some(page.get(start..start + info_length(page, big_endian)?)?.to_vec())
}

/// Writes the file. `read` reads memory by its physical address. Returns the bytes of memory that are not holes.
pub fn write(to: &mut (impl Write + Seek), core: &Core, read: &mut dyn FnMut(u64, &mut [u8])) -> io::Result<u64> {
    let notes = core.notes();
    let shape = core.shape;
    let rows = 1 + core.pieces.len() + usize::from(core.image.is_some());
    let notes_at = (shape.header_bytes() + shape.row_bytes() * rows) as u64;
    let memory_at = (notes_at + notes.len() as u64).next_multiple_of(PAGE as u64);
    let mut out = Numbers::new(shape);
    out.header(&Header { kind: CORE, rows, ..Header::default() });
    out.row(NOTE, &(0..0), 0, notes_at..notes_at + notes.len() as u64);
    let mut at = memory_at;
    for piece in &core.pieces {
        let end = at + (piece.physical.end - piece.physical.start);
        out.row(LOAD, &piece.physical, piece.address, at..end);
        if let Some(image) = core.image.as_ref().filter(|image| piece.physical.contains(&image.physical.start)) {
            let from = at + (image.physical.start - piece.physical.start);
            let len = image.physical.end.min(piece.physical.end) - image.physical.start;
            out.row(LOAD, &image.physical, image.address, from..from + len);
        }
        at = end;
    }
    if !shape.wide && u32::try_from(at).is_err() {
        let why = "a core dump of a 32-bit guest holds less than 4 GiB: give the guest less memory (--mem)";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    to.write_all(&out.bytes)?;
    to.write_all(&notes)?;
    write_memory(to, core, memory_at, read)
}

fn write_memory(
    to: &mut (impl Write + Seek),
    core: &Core,
    memory_at: u64,
    read: &mut dyn FnMut(u64, &mut [u8]),
) -> io::Result<u64> {
    let (mut chunk, zeros) = (vec![0; CHUNK], [0; PAGE]);
    // The file's position in memory's part, and the end of the last hole.
    let (mut at, mut written, mut is_at) = (memory_at, 0, false);
    for Piece { physical, .. } in &core.pieces {
        let mut from = physical.start;
        while from < physical.end {
            let len = chunk.len().min((physical.end - from) as usize);
            read(from, &mut chunk[..len]);
            for page in chunk[..len].chunks(PAGE) {
                if *page == zeros[..page.len()] {
                    is_at = false;
                } else {
                    if !is_at {
                        to.seek(SeekFrom::Start(at))?;
                        is_at = true;
                    }
                    to.write_all(page)?;
                    written += page.len() as u64;
                }
                at += page.len() as u64;
            }
            from += len as u64;
        }
    }
    // A hole at the end would make the file too short.
    if !is_at && at > memory_at {
        to.seek(SeekFrom::Start(at - 1))?;
        to.write_all(&[0])?;
    }
    Ok(written)
}

impl Core {
    fn notes(&self) -> Vec<u8> {
        let mut out = Numbers::new(self.shape);
        for (number, registers) in self.cpus.iter().enumerate() {
            out.note(b"CORE\0", PRSTATUS, &self.status(number, registers));
        }
        if let Some(info) = &self.info {
            out.note(VMCOREINFO, 0, info);
        }
        out.bytes
    }

    /// A `struct elf_prstatus`: a signal, process numbers and times, then the registers.
    fn status(&self, cpu: usize, registers: &[u8]) -> Vec<u8> {
        let word = self.shape.word();
        let mut out = Numbers { shape: self.shape, bytes: vec![0; 16 + 2 * word] };
        // The CPU's number in place of the process's, as other machines write it; 0 would be no process.
        out.put32(cpu as u32 + 1);
        out.bytes.resize(16 + 2 * word + 16 + 8 * word, 0);
        out.bytes.extend_from_slice(registers);
        out.put32(0);
        out.bytes.resize(out.bytes.len().next_multiple_of(word), 0);
        out.bytes
    }
}

impl Numbers {
    /// A program header.
    fn row(&mut self, kind: u32, physical: &Range<u64>, address: u64, file: Range<u64>) {
        // Memory may be read, written and executed.
        let flags = if kind == LOAD { 7 } else { 0 };
        let length = file.end - file.start;
        self.put32(kind);
        if self.shape.wide {
            self.put32(flags);
        }
        self.put_word(file.start);
        self.put_word(address);
        self.put_word(physical.start);
        self.put_word(length);
        self.put_word(if kind == LOAD { length } else { 0 });
        if !self.shape.wide {
            self.put32(flags);
        }
        self.put_word(0);
    }

    fn note(&mut self, name: &[u8], kind: u32, content: &[u8]) {
        self.put32(name.len() as u32);
        self.put32(content.len() as u32);
        self.put32(kind);
        for bytes in [name, content] {
            self.bytes.extend_from_slice(bytes);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf::Elf;
    use std::io::Cursor;

    const SHAPES: [Shape; 3] = [
        Shape { wide: true, big_endian: false, machine: 62 },
        Shape { wide: true, big_endian: true, machine: 22 },
        Shape { wide: false, big_endian: true, machine: 8 },
    ];

    fn core(shape: Shape) -> Core {
        let pieces = [(0x1000..0x20_3000, 0xc000_1000), (0x40_0000..0x40_1800, 0)];
        Core {
            shape,
            cpus: vec![vec![1; 8 * shape.word()], vec![2; 8 * shape.word()]],
            info: Some(b"OSRELEASE=6.1\nPAGESIZE=4096\n".to_vec()),
            pieces: pieces.map(|(physical, address)| Piece { physical, address }).to_vec(),
            image: Some(Piece { physical: 0x20_2000..0x20_3000, address: 0xffff_0000 }),
        }
    }

    /// AN-1: another reader of ELF files finds the notes and all memory.
    #[test]
    fn a_reader_of_elf_files_finds_notes_and_memory() {
        let content = |at: u64| if matches!(at >> 12, 1 | 0x202 | 0x400) { (at ^ at >> 7) as u8 } else { 0 };
        for shape in SHAPES {
            let core = core(shape);
            let mut file = Cursor::new(Vec::new());
            let written = write(&mut file, &core, &mut |at, into| {
                into.iter_mut().enumerate().for_each(|(offset, byte)| *byte = content(at + offset as u64));
            });
            assert_eq!(written.expect("it is written"), 0x1000 + 0x1000 + 0x1000, "holes are not written");
            let bytes = file.into_inner();
            let elf = Elf::parse(&bytes).expect("it is an ELF file");
            assert_eq!((elf.header.e_type, elf.header.e_machine), (CORE, shape.machine));
            assert_eq!((elf.is_64, elf.little_endian), (shape.wide, !shape.big_endian));
            let notes: Vec<_> = elf.iter_note_headers(&bytes).expect("notes").map(|note| note.expect("a note")).collect();
            let names: Vec<(&str, u32)> = notes.iter().map(|note| (note.name, note.n_type)).collect();
            assert_eq!(names, [("CORE", PRSTATUS), ("CORE", PRSTATUS), ("VMCOREINFO", 0)]);
            assert_eq!(notes[2].desc, core.info.as_deref().expect("it has one"));
            let registers = if shape.wide { 112 } else { 72 };
            assert_eq!(notes[1].desc[registers..registers + 4], [2; 4]);
            let loads: Vec<_> = elf.program_headers.iter().filter(|row| row.p_type == LOAD).collect();
            let places = [&core.pieces[0], core.image.as_ref().expect("it has one"), &core.pieces[1]];
            assert_eq!(loads.len(), places.len());
            for (load, piece) in loads.iter().zip(places) {
                assert_eq!((load.p_paddr, load.p_vaddr), (piece.physical.start, piece.address));
                let memory = &bytes[load.file_range()];
                assert_eq!(memory.len() as u64, piece.physical.end - piece.physical.start);
                assert!(memory.iter().zip(piece.physical.clone()).all(|(byte, at)| *byte == content(at)));
            }
        }
    }

    /// AN-1: a hole at the end does not shorten the file, and a guest without VMCOREINFO has no such note.
    #[test]
    fn a_hole_at_the_end_does_not_shorten_the_file() {
        let core = Core { info: None, image: None, ..core(SHAPES[0]) };
        let mut file = Cursor::new(Vec::new());
        assert_eq!(write(&mut file, &core, &mut |_, into| into.fill(0)).expect("it is written"), 0);
        let bytes = file.into_inner();
        let elf = Elf::parse(&bytes).expect("it is an ELF file");
        let end = elf.program_headers.iter().map(|row| row.p_offset + row.p_filesz).max();
        assert_eq!((bytes.len() as u64, elf.iter_note_headers(&bytes).expect("notes").count()), (end.expect("rows"), 2));
    }

    /// AN-1: only a whole note at the start of a page counts.
    #[test]
    fn the_note_is_found_at_the_start_of_a_page() {
        let text = b"OSRELEASE=6.1.0\nBUILD-ID=00\n";
        let page = |length: u32, name: &[u8], text: &[u8], big: bool| {
            let mut page = Vec::new();
            for number in [11, length, 0] {
                page.extend_from_slice(&if big { number.to_be_bytes() } else { number.to_le_bytes() });
            }
            page.extend_from_slice(name);
            page.push(0);
            page.extend_from_slice(text);
            page.resize(PAGE, 0);
            page
        };
        let length = text.len() as u32;
        for big in [false, true] {
            assert_eq!(info(&page(length, VMCOREINFO, text, big), big).as_deref(), Some(&text[..]));
            assert_eq!(info(&page(length, VMCOREINFO, text, big), !big), None);
            assert_eq!(info(&page(length, b"VMCOREINFA\0", text, big), big), None);
            assert_eq!(info(&page(length, VMCOREINFO, b"something else", big), big), None);
            for length in [4096, u32::MAX, 4] {
                assert_eq!(info(&page(length, VMCOREINFO, text, big), big), None, "{length}");
            }
        }
        assert_eq!(info(&[], false), None);
    }
}
