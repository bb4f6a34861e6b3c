//! Parts of ELF files that are written here: a core dump, and a kernel's symbols for gdb.

/// The kind of ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether words have 64 bits.
    pub wide: bool,
    /// Whether numbers are big-endian.
    pub big_endian: bool,
    /// `e_machine`
    pub machine: u16,
}

/// The contents of a file's header, besides its shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// `e_type`
    pub kind: u16,
    /// `e_entry`
    pub entry: u64,
    /// `e_flags`
    pub flags: u32,
    /// The number of program headers, which follow the header.
    pub rows: usize,
    /// The place of the section headers, and their number. The last section has their names.
    pub sections: (u64, usize),
}

impl Shape {
    /// The bytes of a word.
    pub fn word(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// The size of the ELF header in bytes.
    pub fn header_bytes(self) -> usize {
        if self.wide { 64 } else { 52 }
    }

    /// The bytes of a program header.
    pub fn row_bytes(self) -> usize {
        if self.wide { 56 } else { 32 }
    }

    /// The bytes of a section header.
    fn section_bytes(self) -> usize {
        if self.wide { 64 } else { 40 }
    }
}

/// Writes numbers in the file's size and byte order.
pub struct Numbers {
    /// The kind of file.
    pub shape: Shape,
    /// The bytes so far.
    pub bytes: Vec<u8>,
}

impl Numbers {
    /// Begins with no bytes.
    pub fn new(shape: Shape) -> Numbers {
        Numbers { shape, bytes: Vec::new() }
    }

    fn put(&mut self, value: u64, size: usize) {
        let (little, big) = (value.to_le_bytes(), value.to_be_bytes());
        self.bytes.extend_from_slice(if self.shape.big_endian { &big[8 - size..] } else { &little[..size] });
    }

    /// Appends 2 bytes.
    pub fn put16(&mut self, value: u16) {
        self.put(value.into(), 2);
    }

    /// Appends 4 bytes.
    pub fn put32(&mut self, value: u32) {
        self.put(value.into(), 4);
    }

    /// Appends a word.
    pub fn put_word(&mut self, value: u64) {
        self.put(value, self.shape.word());
    }

    /// Appends the file's header.
    pub fn header(&mut self, header: &Header) {
        let Shape { wide, big_endian, machine } = self.shape;
        let (class, order) = (if wide { 2 } else { 1 }, if big_endian { 2 } else { 1 });
        self.bytes.extend_from_slice(&[0x7f, b'E', b'L', b'F', class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (sections_at, sections) = header.sections;
        let table = |count: usize, bytes: usize| if count == 0 { [0; 2] } else { [bytes as u16, count as u16] };
        let [row_bytes, rows] = table(header.rows, self.shape.row_bytes());
        let [section_bytes, sections] = table(sections, self.shape.section_bytes());
        self.put16(header.kind);
        self.put16(machine);
        self.put32(1);
        self.put_word(header.entry);
        self.put_word(if rows == 0 { 0 } else { self.shape.header_bytes() as u64 });
        self.put_word(sections_at);
        self.put32(header.flags);
        self.put16(self.shape.header_bytes() as u16);
        [row_bytes, rows, section_bytes, sections, sections.saturating_sub(1)].into_iter().for_each(|half| self.put16(half));
    }
}
