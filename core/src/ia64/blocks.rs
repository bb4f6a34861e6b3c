//! Blocks: straight runs of instructions in one page, by the physical address and the slot at which they start. A block is
//! counted as a whole before it runs, so its end depends on the code alone: it ends behind an instruction that may lead
//! elsewhere or change how the next one is fetched.

use super::Host;
use super::bundles::Decoded;
use super::quick::{Quick, distance};
use super::run::Core;
use super::state::SLOT_STEP;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::{Op, System};

/// The maximum number of instructions in a block.
const LONGEST: u32 = 64;
/// The limit of instructions in all blocks. Above it, all blocks are dropped.
const MOST_INSTRUCTIONS: usize = 1 << 18;
/// The smallest page.
pub(super) const PAGE: u64 = 1 << 12;
/// Places in a page at which a block may start.
const PLACES: usize = PAGE as usize / 16 * 3;

/// A block. Its size in bytes is 0 if it is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// The index of its first instruction in [`Blocks::quick`].
    pub first: u32,
    pub size: u16,
    /// The number of instructions in [`Blocks::quick`].
    pub len: u8,
    /// The number of instructions, with those that do nothing.
    pub total: u8,
    /// Whether [`Host::block`] is called at each run, whatever the count is.
    pub always: bool,
}

impl Block {
    /// Whether the other block is counted alike.
    pub fn counts_like(&self, other: &Block) -> bool {
        self.size == other.size && self.always == other.always
    }
}

/// The known blocks of each page of RAM.
#[derive(Debug)]
pub(super) struct Blocks {
    base: u64,
    pages: Vec<Option<Box<[Block; PLACES]>>>,
    /// Whether each page has decoded code: blocks, or bundles that have run without them.
    marks: Vec<bool>,
    /// The instructions of all blocks, but for those that do nothing. Those of dropped blocks stay until all are dropped.
    pub quick: Vec<Quick>,
    /// The full forms of the instructions; `None` is no instruction.
    pub full: Vec<Option<Instruction>>,
    /// Incremented when a block may have gone.
    pub changes: u64,
}

impl Blocks {
    pub fn new(base: u64, len: u64) -> Blocks {
        let pages = (len / PAGE) as usize;
        Blocks { base, pages: vec![None; pages], marks: vec![false; pages], quick: Vec::new(), full: Vec::new(), changes: 0 }
    }

    #[inline(always)]
    fn page(&self, physical: u64) -> usize {
        (physical.wrapping_sub(self.base) / PAGE) as usize
    }

    /// Whether code may have been decoded from this page.
    #[inline(always)]
    pub fn is_marked(&self, physical: u64) -> bool {
        self.marks.get(self.page(physical)).copied().unwrap_or(true)
    }

    /// Marks a page from which code was decoded.
    pub fn mark(&mut self, physical: u64) {
        let page = self.page(physical);
        if let Some(mark) = self.marks.get_mut(page) {
            *mark = true;
        }
    }

    /// Whether a block starts in this page.
    #[inline(always)]
    pub fn has_code(&self, physical: u64) -> bool {
        self.pages.get(self.page(physical)).is_some_and(Option::is_some)
    }

    /// The number of pages in which blocks start.
    pub fn pages_with_code(&self) -> usize {
        self.pages.iter().flatten().count()
    }

    /// Drops the blocks of a page. The caller forgets its bundles.
    pub fn drop_page(&mut self, physical: u64) {
        let page = self.page(physical);
        if let (Some(table), Some(mark)) = (self.pages.get_mut(page), self.marks.get_mut(page)) {
            *table = None;
            *mark = false;
        }
        self.changes += 1;
    }

    /// Drops all blocks. Bundles may be kept.
    pub fn drop_all(&mut self) {
        self.pages.iter_mut().for_each(|page| *page = None);
        self.quick.clear();
        self.full.clear();
        self.changes += 1;
    }

    /// The place of a pc at this physical address in its page's table.
    fn place(physical: u64, slot: u32) -> usize {
        (physical % PAGE / 16 * 3) as usize + slot as usize
    }

    fn find(&self, physical: u64, slot: u32) -> Option<Block> {
        let block = self.pages.get(self.page(physical))?.as_ref()?.get(Blocks::place(physical, slot)).copied();
        block.filter(|block| block.size != 0)
    }

    /// Remembers a block, if it is in RAM.
    fn keep(&mut self, physical: u64, slot: u32, block: Block) {
        let page = self.page(physical);
        if let Some(page) = self.pages.get_mut(page) {
            let table = page.get_or_insert_with(|| Box::new([Block::default(); PLACES]));
            if let Some(place) = table.get_mut(Blocks::place(physical, slot)) {
                *place = block;
            }
        }
    }
}

/// The bytes of the instruction in a slot, as the pc counts them.
fn bytes(bundle: &Decoded, slot: u32) -> u64 {
    match slot {
        0 => SLOT_STEP.into(),
        1 if bundle.is_long => 16 - u64::from(SLOT_STEP),
        1 => SLOT_STEP.into(),
        _ => 16 - u64::from(2 * SLOT_STEP),
    }
}

/// Whether a block ends behind an instruction, whatever its predicate is.
fn ends_block(instruction: &Instruction) -> bool {
    match instruction.op {
        Op::Branch { .. }
        | Op::BranchCall { .. }
        | Op::BranchIndirect { .. }
        | Op::BranchForeign { .. }
        | Op::BranchReturn { .. }
        | Op::BranchCallIndirect { .. }
        | Op::CheckSpeculation { .. }
        | Op::CheckAdvanced { .. }
        | Op::FloatCheck { .. }
        | Op::Break { .. }
        | Op::Mask { .. }
        | Op::MoveToPsr { .. }
        | Op::MoveToCr { .. }
        | Op::MoveToFile { .. }
        | Op::Tlb { .. }
        | Op::InsertCache { .. }
        | Op::PurgeAll { .. } => true,
        Op::System(what) => matches!(
            what,
            System::SrlzD
                | System::SrlzI
                | System::Cover
                | System::Rfi
                | System::Bsw0
                | System::Bsw1
                | System::Epc
                | System::Vmsw0
                | System::Vmsw1
        ),
        _ => false,
    }
}

impl Core {
    /// The block at the pc, whose bundle is at this physical address. `None` where no RAM is.
    pub(super) fn block(&mut self, host: &mut impl Host, physical: u64, alone: bool) -> Option<Block> {
        let slot = self.state().slot();
        match self.blocks.find(physical, slot) {
            Some(block) if !alone => Some(block),
            _ => self.new_block(host, physical, alone),
        }
    }

    fn new_block(&mut self, host: &mut impl Host, physical: u64, alone: bool) -> Option<Block> {
        if self.blocks.quick.len() > MOST_INSTRUCTIONS {
            self.blocks.drop_all();
        }
        let (pc, slot) = (self.state().pc.get(), self.state().slot());
        let most = if alone || self.one_by_one { 1 } else { LONGEST };
        let first = self.blocks.quick.len();
        let (mut at, mut place, mut size, mut total) = (physical, slot, 0, 0);
        for number in 0..most {
            if number > 0 && host.breaks_at(pc.wrapping_add(size)) {
                break;
            }
            let Some(bundle) = self.decoded(host, at) else { break };
            size += bytes(&bundle, place);
            let number = if bundle.is_long && place == 1 { 2 } else { place };
            let found = bundle.slots.get(number as usize).copied().flatten();
            // The pc of a long instruction is that of slot 1.
            let named = if bundle.is_long && number == 2 { 1 } else { number };
            let offset = distance((at - physical) / 16, named) - distance(0, slot);
            let quick = Quick::of(&bundle, number, total, offset);
            total += 1;
            if !quick.does_nothing() {
                self.blocks.quick.push(quick);
                self.blocks.full.push(found);
            }
            place = (number + 1) % 3;
            if place == 0 {
                at += 16;
            }
            let ends = found.is_none_or(|instruction| ends_block(&instruction));
            if ends || place == 0 && at.is_multiple_of(PAGE) {
                break;
            }
        }
        if size == 0 {
            return None;
        }
        let len = (self.blocks.quick.len() - first) as u8;
        let block = Block { first: first as u32, size: size as u16, len, total, always: host.always_wants(pc) };
        host.has_code(physical & !(PAGE - 1));
        if !alone {
            self.blocks.keep(physical, slot, block);
        }
        Some(block)
    }
}
