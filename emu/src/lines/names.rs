//! The index of names: which units have a function of some name, a structure, or lines of a source file. It is made by a
//! look at the top level of every unit, and can be kept as bytes.

use super::error::Answer;
use super::units::{Info, Place};
use gimli::constants as c;

/// Bytes of a row of the index, and of its header.
const ROW: usize = 12;
const STRUCTURE: usize = 20;
const HEADER: usize = 16;

/// The index. Rows are sorted by the hash of the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The hash of each function's name with a unit that defines it.
    functions: Vec<(u64, u32)>,
    /// The hash of each source file's name without folders, with a unit that has lines of it.
    files: Vec<(u64, u32)>,
    /// The hash of each structure's name with its first definition.
    structures: Vec<(u64, Place)>,
}

impl Names {
    fn sorted(mut self) -> Names {
        for rows in [&mut self.functions, &mut self.files] {
            rows.sort_unstable();
            rows.dedup();
        }
        self.structures.sort_unstable();
        self.structures.dedup_by_key(|(hash, _)| *hash);
        self
    }
}

impl Info<'_> {
    /// The units with a function of that name, which is not only declared there.
    pub(super) fn units_with(&self, function: &str) -> Answer<Vec<u32>> {
        Ok(units(&self.names()?.functions, function))
    }

    /// The units whose lines may be of that source file.
    pub(super) fn units_of_file(&self, file: &str) -> Answer<Vec<u32>> {
        Ok(units(&self.names()?.files, base(file)))
    }

    /// The definition of a structure of that name in any unit.
    pub(super) fn structure(&self, name: &str) -> Answer<Option<Place>> {
        let (structures, wanted) = (&self.names()?.structures, hash(name.as_bytes()));
        Ok(structures.binary_search_by_key(&wanted, |(hash, _)| *hash).ok().map(|at| structures[at].1))
    }

    fn names(&self) -> Answer<&Names> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let found = self.find_names()?;
        Ok(self.names.get_or_init(|| found))
    }

    /// Looks at the top level of every unit.
    fn find_names(&self) -> Answer<Names> {
        let mut names = Names::default();
        for number in 0..self.units() as u32 {
            let unit = self.unit(number)?;
            if let Some(program) = &unit.unit.line_program {
                for file in program.header().file_names() {
                    self.charge(1)?;
                    let name = self.reference(&unit).attr_string(file.path_name())?;
                    let name = name.slice();
                    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
                    names.files.push((hash(name), number));
                }
                if let Some(name) = unit.unit.name {
                    names.files.push((hash(base(&name.to_string_lossy()).as_bytes()), number));
                }
            }
            let mut entries = unit.unit.entries();
            if entries.next_dfs()?.is_none() || entries.next_dfs()?.is_none() {
                continue;
            }
            while let Some(entry) = entries.current() {
                self.charge(1)?;
                let is_function = entry.tag() == c::DW_TAG_subprogram;
                let is_structure = matches!(entry.tag(), c::DW_TAG_structure_type | c::DW_TAG_union_type);
                if (is_function || is_structure)
                    && !entry.has_attr(c::DW_AT_declaration)
                    && let Some(name) = entry.attr_value(c::DW_AT_name)
                {
                    let name = hash(self.reference(&unit).attr_string(name)?.slice());
                    match is_function {
                        true => names.functions.push((name, number)),
                        false => names.structures.push((name, Place { unit: number, at: entry.offset().0 })),
                    }
                }
                if entries.next_sibling()?.is_none() {
                    break;
                }
            }
        }
        Ok(names.sorted())
    }

    /// The index as bytes for a cache; it is made if it is not there.
    pub fn index(&self) -> Answer<Vec<u8>> {
        self.begin();
        let names = self.names()?;
        let mut bytes =
            Vec::with_capacity(HEADER + (names.functions.len() + names.files.len()) * ROW + names.structures.len() * STRUCTURE);
        bytes.extend((names.functions.len() as u64).to_le_bytes());
        bytes.extend((names.files.len() as u64).to_le_bytes());
        for (hash, unit) in names.functions.iter().chain(&names.files) {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(unit.to_le_bytes());
        }
        for (hash, place) in &names.structures {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(place.unit.to_le_bytes());
            bytes.extend((place.at as u64).to_le_bytes());
        }
        Ok(bytes)
    }

    /// Uses an index in serialized form. Returns false if the bytes are not an index.
    pub fn use_index(&self, bytes: &[u8]) -> bool {
        read(bytes).is_some_and(|names| self.names.set(names.sorted()).is_ok())
    }
}

fn read(bytes: &[u8]) -> Option<Names> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let long = |count: u64| usize::try_from(count).ok()?.checked_mul(ROW);
    let (functions, rest) = rest.split_at_checked(long(number(&header[..8]))?)?;
    let (files, structures) = rest.split_at_checked(long(number(&header[8..]))?)?;
    if !structures.len().is_multiple_of(STRUCTURE) {
        return None;
    }
    let rows = |bytes: &[u8]| bytes.chunks_exact(ROW).map(|row| (number(&row[..8]), number(&row[8..]) as u32)).collect();
    let place = |row: &[u8]| Place { unit: number(&row[8..12]) as u32, at: number(&row[12..]) as usize };
    Some(Names {
        functions: rows(functions),
        files: rows(files),
        structures: structures.chunks_exact(STRUCTURE).map(|row| (number(&row[..8]), place(row))).collect(),
    })
}

fn units(rows: &[(u64, u32)], name: &str) -> Vec<u32> {
    let hash = hash(name.as_bytes());
    let from = rows.partition_point(|(known, _)| *known < hash);
    rows[from..].iter().take_while(|(known, _)| *known == hash).map(|(_, unit)| *unit).collect()
}

/// The name of a file without its folders.
fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// FNV-1a. Two names with one hash cost a look into a unit that has none of them.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
