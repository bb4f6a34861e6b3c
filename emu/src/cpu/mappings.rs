//! The file that a program has mapped at an address, found in Linux's own structures. Their offsets are in the kernel's
//! type information (BTF).
//!
//! task -> mm -> the tree of mappings -> vm_area_struct -> file -> path. Linux 6.1 and later keep the mappings in a
//! maple tree (Documentation/core-api/maple_tree.rst), earlier releases in a red-black tree.

use super::View;
use crate::boot::btf::Btf;
use trapline_isa::mem::Memory;

/// Offsets of fields in Linux's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingPlace {
    mm: u64,
    tree: Tree,
    start: u64,
    end: u64,
    page_offset: u64,
    file: u64,
    file_mount: u64,
    file_entry: u64,
    entry_parent: u64,
    entry_name: u64,
    mount_root: u64,
    mount_itself: u64,
    mount_parent: u64,
    mount_point: u64,
}

/// The tree of a program's mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    /// The offset of its root in `mm_struct`.
    Maple(u64),
    /// The offset of its root in `mm_struct`, of the node in the mapping, and of the two children in a node.
    RedBlack { root: u64, node: u64, left: u64, right: u64 },
}

impl MappingPlace {
    /// Finds the offsets. `None` if a structure or field is missing.
    pub fn of(types: &Btf<'_>) -> Option<MappingPlace> {
        let at = |structure: &str, member: &str| types.offset_of(structure, member);
        let maple = || Some(Tree::Maple(at("mm_struct", "mm_mt")?.checked_add(at("maple_tree", "ma_root")?)?));
        let red_black = || {
            Some(Tree::RedBlack {
                root: at("mm_struct", "mm_rb")?.checked_add(at("rb_root", "rb_node")?)?,
                node: at("vm_area_struct", "vm_rb")?,
                left: at("rb_node", "rb_left")?,
                right: at("rb_node", "rb_right")?,
            })
        };
        let path = at("file", "f_path")?;
        Some(MappingPlace {
            mm: at("task_struct", "mm")?,
            tree: maple().or_else(red_black)?,
            start: at("vm_area_struct", "vm_start")?,
            end: at("vm_area_struct", "vm_end")?,
            page_offset: at("vm_area_struct", "vm_pgoff")?,
            file: at("vm_area_struct", "vm_file")?,
            file_mount: path.checked_add(at("path", "mnt")?)?,
            file_entry: path.checked_add(at("path", "dentry")?)?,
            entry_parent: at("dentry", "d_parent")?,
            entry_name: at("dentry", "d_name")?.checked_add(at("qstr", "name")?)?,
            mount_root: at("vfsmount", "mnt_root")?,
            mount_itself: at("mount", "mnt")?,
            mount_parent: at("mount", "mnt_parent")?,
            mount_point: at("mount", "mnt_mountpoint")?,
        })
    }
}

/// The longest path that Linux knows.
const LONGEST_PATH: usize = 4096;
/// The longest name of a file.
const LONGEST_NAME: usize = 256;
/// Levels of a tree that are followed. The largest real trees have fewer.
const DEEPEST: usize = 64;
/// The largest number of files and mounts that are followed up to the root.
const LONGEST_WALK: usize = 512;

/// A path, written from its end.
pub struct Path {
    bytes: Box<[u8; LONGEST_PATH]>,
    start: usize,
}

impl Default for Path {
    fn default() -> Path {
        Path { bytes: Box::new([0; LONGEST_PATH]), start: LONGEST_PATH }
    }
}

impl Path {
    /// The path as text; empty if it is not UTF-8.
    pub fn text(&self) -> &str {
        self.bytes.get(self.start..).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Puts a name and a slash in front. `None` if there is no room.
    fn prepend(&mut self, name: &[u8]) -> Option<()> {
        let start = self.start.checked_sub(name.len() + 1)?;
        let (slash, rest) = self.bytes.get_mut(start..self.start)?.split_first_mut()?;
        *slash = b'/';
        rest.copy_from_slice(name);
        self.start = start;
        Some(())
    }
}

/// The walk through a guest's structures.
struct Walk<'a> {
    view: &'a mut View,
    place: &'a MappingPlace,
}

impl Walk<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        self.view.read_number(at, self.view.isa.word).ok()
    }

    fn field(&mut self, of: u64, offset: u64) -> Option<u64> {
        self.word(of.wrapping_add(offset))
    }

    /// The mapping that holds an address.
    fn area(&mut self, mm: u64, address: u64) -> Option<u64> {
        let area = match self.place.tree {
            Tree::Maple(root) => self.in_maple_tree(mm.wrapping_add(root), address),
            Tree::RedBlack { root, node, left, right } => {
                self.in_red_black_tree(mm.wrapping_add(root), (node, left, right), address)
            }
        }?;
        let (start, end) = (self.field(area, self.place.start)?, self.field(area, self.place.end)?);
        (start..end).contains(&address).then_some(area)
    }

    /// A node begins with its parent. The upper ends of its ranges follow, one less than its slots, then its slots. The
    /// lowest byte of a pointer to a node contains its kind.
    fn in_maple_tree(&mut self, root: u64, address: u64) -> Option<u64> {
        const LEAF: u64 = 1;
        const WITH_GAPS: u64 = 3;
        const ROOT_IS_NODE: u64 = 2;
        let bytes = self.view.isa.word as u64;
        let mut entry = self.word(root)?;
        if entry & 3 != ROOT_IS_NODE || entry < 4096 {
            // A tree of one entry is that entry.
            return (entry != 0).then_some(entry);
        }
        for _ in 0..DEEPEST {
            let (node, kind) = (entry & !0xff, entry >> 3 & 0xf);
            let slots = match (kind, bytes) {
                (WITH_GAPS, 8) => 10,
                (_, 8) => 16,
                (WITH_GAPS, _) => 21,
                _ => 32,
            };
            let mut slot = slots - 1;
            for number in 0..slots - 1 {
                let end = self.field(node, bytes * (1 + number))?;
                if address <= end || end == 0 && number > 0 {
                    slot = number;
                    break;
                }
            }
            entry = self.field(node, bytes * (slots + slot))?;
            if kind == LEAF || entry == 0 {
                return (entry != 0).then_some(entry);
            }
        }
        None
    }

    fn in_red_black_tree(&mut self, root: u64, (offset, left, right): (u64, u64, u64), address: u64) -> Option<u64> {
        let mut node = self.word(root)?;
        for _ in 0..DEEPEST {
            if node == 0 {
                return None;
            }
            let area = node.wrapping_sub(offset);
            if self.field(area, self.place.end)? <= address {
                node = self.field(node, right)?;
            } else if self.field(area, self.place.start)? > address {
                node = self.field(node, left)?;
            } else {
                return Some(area);
            }
        }
        None
    }

    fn name(&mut self, entry: u64, into: &mut [u8; LONGEST_NAME]) -> Option<usize> {
        let at = self.field(entry, self.place.entry_name)?;
        // Names are short, and lie in the entry itself.
        for (number, part) in into.chunks_mut(32).enumerate() {
            self.view.read(at.wrapping_add(32 * number as u64), part).ok()?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                return Some(32 * number + end);
            }
        }
        None
    }

    /// The path from the root of all mounts.
    fn path(&mut self, file: u64, into: &mut Path) -> Option<()> {
        into.start = LONGEST_PATH;
        let place = self.place;
        let mut entry = self.field(file, place.file_entry)?;
        let mut mount = self.field(file, place.file_mount)?.wrapping_sub(place.mount_itself);
        for _ in 0..LONGEST_WALK {
            let root = self.field(mount, place.mount_itself.wrapping_add(place.mount_root))?;
            let parent = self.field(entry, place.entry_parent)?;
            if entry == root || entry == parent {
                let above = self.field(mount, place.mount_parent)?;
                if above == mount || above == 0 {
                    return Some(());
                }
                entry = self.field(mount, place.mount_point)?;
                mount = above;
                continue;
            }
            let mut name = [0; LONGEST_NAME];
            let length = self.name(entry, &mut name)?;
            into.prepend(name.get(..length)?)?;
            entry = parent;
        }
        None
    }
}

/// Finds the file that a task has mapped at an address. Returns the offset in the file and puts the file's
/// path into `path`. `None` if no file is mapped there.
pub fn file_at(view: &mut View, place: &MappingPlace, task: u64, address: u64, path: &mut Path) -> Option<u64> {
    let page_bits = (view.model.tasks.page_bits)(&view.trap.handle());
    let mut walk = Walk { view, place };
    let mm = walk.field(task, place.mm).filter(|mm| *mm != 0)?;
    let area = walk.area(mm, address)?;
    let file = walk.field(area, place.file).filter(|file| *file != 0)?;
    let offset = (walk.field(area, place.page_offset)? << page_bits).wrapping_add(address - walk.field(area, place.start)?);
    walk.path(file, path)?;
    Some(offset)
}
