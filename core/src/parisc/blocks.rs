//! Decoded blocks, found by physical address.
//!
//! Each page of RAM with code has a table with an entry for each word at which a block may start. A block also
//! remembers the last two blocks that followed it, so that most blocks are found without a translation of the pc.

use super::decode::{Op, decode};
use super::quick::Quick;
use crate::Host;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The maximum number of instructions in a block.
const LONGEST: u32 = 64;
/// The limit of decoded instructions in all blocks. Above it, [`Code::at`] drops all blocks.
const MOST_OPS: usize = 1 << 21;
/// Instructions in a page.
const IN_PAGE: u32 = 1024;

/// A block: its decoded instructions, and the blocks that followed it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// The index of its first instruction in [`Code::ops`].
    pub first: u32,
    /// The number of instructions.
    pub len: u32,
    /// Whether [`Host::block`] is called at each run, whatever the count is.
    pub always: bool,
    links: [Link; 2],
}

/// A block that followed another one, and the place at which it did. Valid only in its generation.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    at: Place,
    to: Run,
}

/// The place at which a block starts, and all that decides which block it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The pc, and its space above it.
    at: u64,
    /// The mode and the generation. The mode is the privilege level, and the PSW bits C (code is translated) and P (protection
    /// identifiers are checked).
    tag: u64,
}

impl Place {
    /// A place at which no block starts.
    pub const NOWHERE: Place = Place { at: 0, tag: u64::MAX };

    /// The place at another pc.
    #[inline(always)]
    pub fn moved(self, pc: u32) -> Place {
        Place { at: self.at >> 32 << 32 | u64::from(pc), ..self }
    }
}

/// A block that is about to run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// Its number.
    pub block: u32,
    /// The index of its first instruction in [`Code::ops`].
    pub first: u32,
    /// The number of instructions that run.
    pub len: u32,
}

/// The number of the block that [`Code::alone_at`] makes: one instruction, which runs once.
pub(super) const ALONE: u32 = 1;

/// All decoded blocks. Number 0 means no block, and [`ALONE`] belongs to no address.
#[derive(Debug)]
pub(super) struct Code {
    pub ops: Vec<Op>,
    /// The short forms of the same instructions.
    pub quick: Vec<Quick>,
    pub blocks: Vec<Block>,
    /// For each page of RAM, the number of its table, or 0.
    pages: Vec<u32>,
    /// For each word of a page, the number of the block that starts there, or 0. Table 0 belongs to no page.
    tables: Vec<Box<[u32; IN_PAGE as usize]>>,
    /// Tables whose pages were dropped. They may be used for other pages.
    free: Vec<u32>,
    /// The physical address of the first byte of RAM.
    base: u64,
    /// Incremented when a link may lead to the wrong block.
    pub generation: u32,
}

impl Code {
    pub fn new(base: u64, len: u64) -> Code {
        Code {
            ops: vec![decode(0)],
            quick: vec![Quick::of(&decode(0))],
            blocks: vec![Block::default(); 2],
            pages: vec![0; (len >> 12) as usize + 1],
            tables: vec![Box::new([0; IN_PAGE as usize])],
            free: Vec::new(),
            base,
            generation: 1,
        }
    }

    fn page(&self, physical: u64) -> usize {
        (physical.wrapping_sub(self.base) >> 12) as usize
    }

    /// Whether the page has decoded code.
    #[inline(always)]
    pub fn has_code(&self, physical: u64) -> bool {
        self.pages.get(self.page(physical)).is_some_and(|table| *table != 0)
    }

    /// The number of pages with decoded code.
    pub fn pages_with_code(&self) -> usize {
        self.pages.iter().filter(|table| **table != 0).count()
    }

    /// Drops the blocks of a page. Their numbers and instructions stay taken until [`Code::drop_all`].
    pub fn drop_page(&mut self, physical: u64) {
        let page = self.page(physical);
        let Some(number) = self.pages.get_mut(page).map(core::mem::take).filter(|number| *number != 0) else { return };
        self.free.push(number);
        self.generation = self.generation.wrapping_add(1);
    }

    /// Drops all blocks.
    pub fn drop_all(&mut self) {
        self.ops.truncate(1);
        self.quick.truncate(1);
        self.blocks.truncate(ALONE as usize + 1);
        self.pages.iter_mut().for_each(|table| *table = 0);
        self.tables.truncate(1);
        self.free.clear();
        self.generation = self.generation.wrapping_add(1);
    }

    /// A place in this generation.
    #[inline(always)]
    pub fn place(&self, pc: u32, space: u32, mode: u32) -> Place {
        Place { at: u64::from(space) << 32 | u64::from(pc), tag: u64::from(self.generation) << 32 | u64::from(mode) }
    }

    /// The block that has followed `from` at this place. `None` if it must be looked up by [`Code::at`].
    #[inline(always)]
    pub fn linked(&self, from: u32, at: Place) -> Option<Run> {
        let [one, other] = &self.blocks.get(from as usize)?.links;
        if one.at == at {
            return Some(one.to);
        }
        (other.at == at).then_some(other.to)
    }

    /// Notes that a block has followed `from` at this place. Replaces the older of the two links. A block that calls the host at
    /// each run is never linked.
    pub fn link(&mut self, from: u32, at: Place, number: u32) {
        let Some(block) = self.blocks.get(number as usize).filter(|block| !block.always) else { return };
        let to = Run { block: number, first: block.first, len: block.len };
        if let Some(from) = self.blocks.get_mut(from as usize).filter(|_| from > ALONE) {
            from.links[1] = from.links[0];
            from.links[0] = Link { at, to };
        }
    }

    /// The number of an empty table.
    fn table(&mut self) -> u32 {
        if let Some(number) = self.free.pop()
            && let Some(table) = self.tables.get_mut(number as usize)
        {
            **table = [0; IN_PAGE as usize];
            return number;
        }
        self.tables.push(Box::new([0; IN_PAGE as usize]));
        self.tables.len() as u32 - 1
    }

    /// Makes block [`ALONE`] of the instruction at a physical address. `None` where no RAM is.
    pub fn alone_at(&mut self, host: &mut impl Host, physical: u64, pc: u64) -> Option<u32> {
        let op = decode(host.load(physical, 4)?);
        *self.ops.first_mut()? = op;
        *self.quick.first_mut()? = Quick::of(&op);
        *self.blocks.get_mut(ALONE as usize)? = Block { len: 1, always: host.always_wants(pc), ..Block::default() };
        Some(ALONE)
    }

    /// The block at a physical address. Decodes it if it is not known. `None` where no RAM is.
    ///
    /// A block has at most [`LONGEST`] instructions of one page, or one if `one_by_one` is set. It ends earlier behind a
    /// branch and its delay slot, or if the host or an instruction demands it. A delay slot is left out if it is beyond
    /// that limit or holds a branch: it then is a block of its own.
    pub fn at(&mut self, host: &mut impl Host, physical: u64, pc: u64, one_by_one: bool) -> Option<u32> {
        let page = self.page(physical);
        let place = (physical >> 2) as usize % IN_PAGE as usize;
        let number = *self.pages.get(page)?;
        let known = self.tables.get(number as usize).map_or(0, |table| table[place]);
        if number != 0 && known != 0 {
            return Some(known);
        }
        if self.ops.len() > MOST_OPS {
            self.drop_all();
        }
        let first = self.ops.len();
        let most = if one_by_one { 1 } else { LONGEST.min(IN_PAGE - place as u32) };
        let mut at = physical;
        let mut slot = false;
        for number in 0..most {
            if number > 0 && !slot && host.breaks_at(pc.wrapping_add(4 * u64::from(number))) {
                break;
            }
            let Some(word) = host.load(at, 4) else { break };
            let op = decode(word);
            // A branch in a delay slot runs by itself.
            if slot && op.is_branch() {
                break;
            }
            self.ops.push(op);
            self.quick.push(Quick::of(&op));
            at += 4;
            // Two breakpoints end the copy of a stepped instruction, because the copy may nullify the first one. The
            // block includes both.
            let is_second = op.is_break() && self.ops[first..].iter().rev().nth(1).is_some_and(Op::is_break);
            if slot || is_second || op.ends_block() || op.is_branch() && !op.has_slot() {
                break;
            }
            slot = op.is_branch();
        }
        let len = (self.ops.len() - first) as u32;
        if len == 0 {
            return None;
        }
        host.has_code(physical & !0xfff);
        let block = self.blocks.len() as u32;
        let always = host.always_wants(pc);
        self.blocks.push(Block { first: first as u32, len, always, ..Block::default() });
        let number = match self.pages.get(page).copied() {
            Some(0) | None => self.table(),
            Some(number) => number,
        };
        *self.pages.get_mut(page)? = number;
        self.tables.get_mut(number as usize)?[place] = block;
        Some(block)
    }
}
