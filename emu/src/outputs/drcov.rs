//! Block coverage in the format of DynamoRIO's drcov, version 2, which Lighthouse, Cutter and bncov read: a text header
//! with the modules, then eight bytes for each block.

use std::io::{self, Write};
use std::ops::Range;

/// A piece of code: the kernel's image or a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeModule {
    /// The name in the module table.
    pub name: String,
    /// The virtual addresses of the code.
    pub range: Range<u64>,
}

/// A block of code that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Its first address.
    pub start: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// The number of blocks in the file, and of those that are not in it because they lie in no module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Blocks in the file.
    pub blocks: usize,
    /// Blocks in no module.
    pub elsewhere: usize,
}

/// Writes the file.
pub fn write(to: &mut impl Write, modules: &[CodeModule], blocks: &[Block]) -> io::Result<Written> {
    let place = |block: &Block| {
        let id = modules.iter().position(|module| module.range.contains(&block.start))?;
        let offset = u32::try_from(block.start - modules.get(id)?.range.start).ok()?;
        Some((offset, u16::try_from(block.len).unwrap_or(u16::MAX), u16::try_from(id).ok()?))
    };
    let entries: Vec<(u32, u16, u16)> = blocks.iter().filter_map(place).collect();
    writeln!(to, "DRCOV VERSION: 2\nDRCOV FLAVOR: trapline")?;
    writeln!(to, "Module Table: version 2, count {}", modules.len())?;
    writeln!(to, "Columns: id, base, end, entry, path")?;
    for (id, CodeModule { name, range }) in modules.iter().enumerate() {
        writeln!(to, "{id:3}, {:#018x}, {:#018x}, {:#018x}, {name}", range.start, range.end, 0)?;
    }
    writeln!(to, "BB Table: {} bbs", entries.len())?;
    for (offset, len, id) in &entries {
        to.write_all(&offset.to_le_bytes())?;
        to.write_all(&len.to_le_bytes())?;
        to.write_all(&id.to_le_bytes())?;
    }
    Ok(Written { blocks: entries.len(), elsewhere: blocks.len() - entries.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: blocks are relative to their module, long ones are cut, and those of no module are counted.
    #[test]
    fn blocks_are_relative_to_their_module() {
        let module = |name: &str, range: Range<u64>| CodeModule { name: name.into(), range };
        let modules = [module("vmlinux", 0xffff_ffff_8100_0000..0xffff_ffff_8200_0000), module("dummy.ko", 0x4000..0x5000)];
        let block = |start, len| Block { start, len };
        let blocks = [block(0xffff_ffff_8100_0010, 5), block(0x4fff, 0x1_0000), block(0x5000, 1), block(0, 1)];
        let mut out = Vec::new();
        let written = write(&mut out, &modules, &blocks).expect("it is written");
        assert_eq!(written, Written { blocks: 2, elsewhere: 2 });
        let header = "DRCOV VERSION: 2\nDRCOV FLAVOR: trapline\nModule Table: version 2, count 2\n\
                      Columns: id, base, end, entry, path\n\
                      \x20 0, 0xffffffff81000000, 0xffffffff82000000, 0x0000000000000000, vmlinux\n\
                      \x20 1, 0x0000000000004000, 0x0000000000005000, 0x0000000000000000, dummy.ko\nBB Table: 2 bbs\n";
        assert_eq!(String::from_utf8_lossy(&out[..header.len()]), header);
        assert_eq!(out[header.len()..], [0x10, 0, 0, 0, 5, 0, 0, 0, 0xff, 0x0f, 0, 0, 0xff, 0xff, 1, 0]);
    }
}
