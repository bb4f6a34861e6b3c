//! trace.dat, version 6: the file of `trace-cmd record`. trace-cmd, KernelShark and libtracecmd read it.
//!
//! The file begins with texts that are known at the end only, such as the names of all tasks. So each CPU's pages of
//! records are written to a temporary file as the run goes, and copied behind the texts at the end. In memory are one
//! page for each CPU and the names of the tasks.

mod formats;
mod pages;

use super::{About, End, Seen, Sink};
use formats::{KERNEL_STACK, Layout};
use pages::{Cpu, PAGE};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom, Write};
use trapline_probes::events::format::{Format, Reader};
use trapline_probes::events::places::Places;
use trapline_probes::events::watch;
use trapline_probes::guest::Symbol;
use trapline_probes::records::{EventId, Flags, Header};

/// The number of the first event. Numbers below belong to the kernel's own events.
const FIRST_ID: u16 = 100;

/// Options of the file: a number for each kind.
const OPTION_CPUSTAT: u16 = 2;
const OPTION_TRACECLOCK: u16 = 4;
const OPTION_UNAME: u16 = 5;
const OPTION_CPUCOUNT: u16 = 8;
const OPTION_VERSION: u16 = 9;

/// Writes trace.dat.
pub struct TraceDat<W> {
    to: W,
    about: About,
    order: Order,
    cpus: Vec<Cpu>,
    /// The events seen so far, by their id in the engine.
    events: HashMap<EventId, Layout>,
    /// The format texts of these events, by group.
    groups: BTreeMap<String, Vec<String>>,
    /// The last known name of each task.
    names: BTreeMap<u32, [u8; 16]>,
    places: Places,
    /// The number of dropped records that no page counts yet.
    lost: u64,
    entry: Vec<u8>,
}

/// The guest's byte order and word size, in which the whole file is written.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Big-endian.
    pub big: bool,
    /// Bytes in a word.
    pub word: usize,
}

impl Order {
    /// Appends a number of `size` bytes.
    pub fn put(self, out: &mut Vec<u8>, value: u64, size: usize) {
        match self.big {
            true => out.extend_from_slice(&value.to_be_bytes()[8 - size.min(8)..]),
            false => out.extend_from_slice(&value.to_le_bytes()[..size.min(8)]),
        }
    }

    /// Overwrites a number of four bytes.
    fn amend(self, out: &mut [u8], at: usize, value: u32) {
        let bytes = if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        if let Some(into) = out.get_mut(at..at + 4) {
            into.copy_from_slice(&bytes);
        }
    }
}

/// The text of an event's file `format`.
pub fn format_text(id: u16, format: &Format, big: bool, word: usize) -> String {
    Layout::new(id, format, Order { big, word }).text
}

impl<W: Write> TraceDat<W> {
    /// A sink that writes to `to`.
    pub fn new(to: W, about: About) -> TraceDat<W> {
        let order = Order { big: about.big_endian, word: about.word };
        TraceDat {
            to,
            order,
            about,
            cpus: Vec::new(),
            events: HashMap::new(),
            groups: BTreeMap::new(),
            names: BTreeMap::new(),
            places: Places::default(),
            lost: 0,
            entry: Vec::new(),
        }
    }

    fn cpu(&mut self, number: usize) -> io::Result<&mut Cpu> {
        while self.cpus.len() <= number {
            self.cpus.push(Cpu::new(self.order)?);
        }
        self.cpus.get_mut(number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The layout of the event's entries. `None` if the file has no numbers left.
    fn layout(&mut self, seen: &Seen<'_>) -> Option<u16> {
        let id = seen.record.header.event;
        if let Some(layout) = self.events.get(&id) {
            return Some(layout.id);
        }
        let number = u16::try_from(self.events.len()).ok()?.checked_add(FIRST_ID)?;
        let layout = Layout::new(number, seen.format, self.order);
        self.groups.entry(seen.format.group.clone()).or_default().push(layout.text.clone());
        self.events.insert(id, layout);
        Some(number)
    }

    /// Writes an entry with the call chain that the reader is at.
    fn stack(&mut self, header: &Header, values: Reader<'_>) -> io::Result<()> {
        let mut entry = std::mem::take(&mut self.entry);
        entry.clear();
        put_common(&mut entry, self.order, KERNEL_STACK, header);
        formats::put_stack(&mut entry, self.order, values.stack());
        let lost = std::mem::take(&mut self.lost);
        let cpu = self.cpu(header.cpu.into())?;
        cpu.lost_before_next(lost);
        cpu.add(header.time, &entry)?;
        self.entry = entry;
        Ok(())
    }

    fn texts(&self, end: &End<'_>, cpus: usize) -> Vec<u8> {
        let order = self.order;
        let mut out = b"\x17\x08\x44tracing6\0".to_vec();
        out.push(order.big.into());
        out.push(order.word as u8);
        order.put(&mut out, PAGE as u64, 4);
        for (name, text) in [("header_page", pages::header_page(order)), ("header_event", pages::HEADER_EVENT.to_string())] {
            out.extend_from_slice(name.as_bytes());
            out.push(0);
            put_sized(&mut out, order, text.as_bytes());
        }
        order.put(&mut out, 1, 4);
        put_sized(&mut out, order, formats::kernel_stack(order).as_bytes());
        order.put(&mut out, self.groups.len() as u64, 4);
        for (group, texts) in &self.groups {
            out.extend_from_slice(group.as_bytes());
            out.push(0);
            order.put(&mut out, texts.len() as u64, 4);
            texts.iter().for_each(|text| put_sized(&mut out, order, text.as_bytes()));
        }
        let symbols = kallsyms(&(end.symbols)(), order.word);
        order.put(&mut out, symbols.len() as u64, 4);
        out.extend_from_slice(symbols.as_bytes());
        order.put(&mut out, 0, 4);
        put_sized(&mut out, order, &self.command_lines());
        order.put(&mut out, cpus as u64, 4);

        out.extend_from_slice(b"options  \0");
        let option = |out: &mut Vec<u8>, id: u16, data: &[u8]| {
            order.put(out, id.into(), 2);
            order.put(out, data.len() as u64, 4);
            out.extend_from_slice(data);
        };
        let mut count = Vec::new();
        order.put(&mut count, cpus as u64, 4);
        option(&mut out, OPTION_CPUCOUNT, &count);
        option(&mut out, OPTION_TRACECLOCK, b"[local] global\0");
        option(&mut out, OPTION_UNAME, format!("Linux guest {}\0", self.about.isa).as_bytes());
        option(&mut out, OPTION_VERSION, concat!("trapline ", env!("CARGO_PKG_VERSION"), "\0").as_bytes());
        for (number, cpu) in self.cpus.iter().enumerate() {
            // No page counts records that were lost behind the last one.
            let overrun = cpu.lost() + if number == 0 { self.lost } else { 0 };
            let text = format!("CPU: {number}\nentries: {}\noverrun: {overrun}\ncommit overrun: 0\n\0", cpu.entries());
            option(&mut out, OPTION_CPUSTAT, text.as_bytes());
        }
        order.put(&mut out, 0, 2);
        out
    }

    fn command_lines(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (pid, name) in self.names.iter().filter(|(pid, _)| **pid != 0) {
            let name = name.split(|byte| *byte == 0 || *byte == b'\n').next().unwrap_or_default();
            if !name.is_empty() {
                text.extend_from_slice(format!("{pid} ").as_bytes());
                text.extend_from_slice(name);
                text.push(b'\n');
            }
        }
        text
    }
}

impl<W: Write> Sink for TraceDat<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let header = &seen.record.header;
        if header.comm[0] != 0 {
            self.names.insert(header.pid, header.comm);
        }
        if header.event == watch::KERNEL_STACK {
            return self.stack(header, Reader::new(&seen.record.payload));
        }
        let Some(id) = self.layout(seen) else {
            self.lost += 1;
            return Ok(());
        };
        let order = self.order;
        let mut entry = std::mem::take(&mut self.entry);
        entry.clear();
        put_common(&mut entry, order, id, header);
        let mut values = Reader::new(&seen.record.payload);
        formats::put_values(&mut entry, order, seen, &mut values, &mut self.places);
        let lost = std::mem::take(&mut self.lost);
        let cpu = self.cpu(header.cpu.into())?;
        cpu.lost_before_next(lost);
        cpu.add(header.time, &entry)?;
        self.entry = entry;
        if seen.format.stack.is_some() {
            self.stack(header, values)?;
        }
        Ok(())
    }

    fn lost(&mut self, count: u64) -> io::Result<()> {
        self.lost += count;
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> io::Result<()> {
        let cpus = self.about.cpus.max(self.cpus.len()).max(1);
        self.cpu(cpus - 1)?;
        for cpu in &mut self.cpus {
            cpu.close()?;
        }
        let mut head = self.texts(end, cpus);
        head.extend_from_slice(b"flyrecord\0");
        let aligned = |at: usize| at.next_multiple_of(PAGE);
        let start = aligned(head.len() + 16 * cpus);
        let mut at = start as u64;
        for cpu in &self.cpus {
            self.order.put(&mut head, at, 8);
            self.order.put(&mut head, cpu.bytes(), 8);
            at += cpu.bytes();
        }
        head.resize(start, 0);
        self.to.write_all(&head)?;
        for cpu in &mut self.cpus {
            let bytes = cpu.bytes();
            let spool = cpu.spool();
            spool.seek(SeekFrom::Start(0))?;
            let copied = io::copy(&mut spool.take(bytes), &mut self.to)?;
            if copied < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.to.flush()
    }
}

/// The fields that every entry begins with.
fn put_common(out: &mut Vec<u8>, order: Order, id: u16, header: &Header) {
    let [preemption, migration] = header.flags.depths_of();
    order.put(out, id.into(), 2);
    out.push(header.flags.trace_byte());
    out.push(preemption & 15 | migration << 4);
    order.put(out, header.pid.into(), 4);
}

/// Flags as the kernel's trace entries have them.
trait TraceByte {
    fn trace_byte(self) -> u8;
}

impl TraceByte for Flags {
    fn trace_byte(self) -> u8 {
        #[rustfmt::skip]
        let flags = [
            (Flags::INTERRUPTS_OFF, 0x01), (Flags::NEED_RESCHED, 0x04), (Flags::HARD_INTERRUPT, 0x08), (Flags::SOFT_INTERRUPT, 0x10),
            (Flags::PREEMPT_RESCHED, 0x20), (Flags::NMI, 0x40), (Flags::BOTTOM_HALVES_OFF, 0x80), (Flags::LAZY_RESCHED, 0x02),
        ];
        flags.into_iter().filter(|(flag, _)| self.contains(*flag)).fold(0, |byte, (_, bit)| byte | bit)
    }
}

fn put_sized(out: &mut Vec<u8>, order: Order, bytes: &[u8]) {
    order.put(out, bytes.len() as u64, 8);
    out.extend_from_slice(bytes);
}

/// Lines of kallsyms. Readers give the last symbol no size, so an end mark follows the last function.
fn kallsyms(functions: &[Symbol], word: usize) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let width = 2 * word;
    for symbol in functions {
        let _ = write!(text, "{:0width$x} T {}", symbol.start, symbol.name);
        if let Some(module) = &symbol.module {
            let _ = write!(text, "\t[{module}]");
        }
        text.push('\n');
    }
    if let Some(last) = functions.iter().map(|symbol| symbol.start.saturating_add(symbol.size)).max() {
        let _ = writeln!(text, "{last:0width$x} T _etext");
    }
    text
}
