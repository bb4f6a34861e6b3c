//! The snapshot file format: a human-readable JSON header, the compressed memory, and a checksum over both.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `trapsnap` |
//! | 4 | number of the format |
//! | 4 | length of the header in bytes |
//! | .. | the header, as JSON: the [`Key`], the state of the machine, and the address ranges of the memory |
//! | .. | the memory, a zstd frame for each 2 MiB |
//! | 32 | BLAKE3 of everything before |
//!
//! Numbers are little-endian. For any input, reading returns the snapshot that was written or an error message.

use super::memory::{Memory, PAGE, Run};
use super::{Snapshot, SnapshotError, State};
use crate::frames;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"trapsnap";
/// The format number. It must be increased whenever the meaning of the header or the data changes.
const FORMAT: u32 = 2;
const HEAD_AT: usize = 16;
const CHECKSUM: usize = 32;
/// Largest header in bytes.
const LONGEST_HEAD: usize = 512 << 20;

/// Identifies what a snapshot was made from, and by which program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The version of trapline that made it, with the hash of its sources.
    pub trapline: String,
    /// BLAKE3 of the kernel's file.
    pub image: String,
    /// BLAKE3 of the initramfs. Empty without one.
    pub initrd: String,
    /// The kernel's command line.
    pub command_line: String,
    /// The selected CPU model. Empty for the default.
    #[serde(default)]
    pub cpu: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Size of RAM in bytes, if it was configured.
    pub ram: Option<u64>,
    /// Size of the probe window in bytes.
    pub window: u64,
    /// The disks and other devices that were attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<String>,
    /// The point of the guest's run at which it was taken, such as the shell prompt.
    pub moment: String,
}

impl Key {
    /// A hash for a key, in hexadecimal.
    pub fn hash(bytes: &[u8]) -> String {
        blake3::hash(bytes).to_hex().to_string()
    }

    /// A file name that depends on everything except the program, so that a new build replaces the old build's
    /// snapshot.
    pub fn name(&self) -> String {
        let text = serde_json::to_string(&Key { trapline: String::new(), ..self.clone() });
        Key::hash(text.unwrap_or_default().as_bytes())[..32].to_string()
    }

    /// The first difference from another key.
    pub fn differs(&self, other: &Key) -> Option<&'static str> {
        match () {
            () if self.image != other.image => Some("another kernel"),
            () if self.initrd != other.initrd => Some("another initial file system"),
            () if self.command_line != other.command_line => Some("another command line"),
            () if self.cpu != other.cpu => Some("another CPU"),
            () if (self.cpus, self.ram, self.window) != (other.cpus, other.ram, other.window) => Some("another machine"),
            () if self.attached != other.attached => Some("other disks or folders"),
            () if self.moment != other.moment => Some("another point of the run"),
            () if self.trapline != other.trapline => Some("another trapline"),
            () => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    key: Key,
    state: State,
    /// Start address and number of pages of each run.
    runs: Vec<(u64, u32)>,
}

/// The bytes of a snapshot file.
pub fn write(key: &Key, snapshot: &Snapshot) -> Result<Vec<u8>, SnapshotError> {
    let cannot = |why: String| SnapshotError::NotNow(format!("it cannot be written: {why}"));
    let runs = snapshot.memory.runs().iter().map(|run| (run.start, run.pages)).collect();
    let head = serde_json::to_vec(&Head { key: key.clone(), state: snapshot.state.clone(), runs });
    let head = head.map_err(|error| cannot(error.to_string()))?;
    let too_long = || cannot("its head is too long, as with very much data written to disks".into());
    let head_len = u32::try_from(head.len()).ok().filter(|_| head.len() <= LONGEST_HEAD).ok_or_else(too_long)?;
    let memory = pack(&snapshot.memory.contents);
    let mut file = Vec::with_capacity(HEAD_AT + head.len() + memory.len() + CHECKSUM);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&FORMAT.to_le_bytes());
    file.extend_from_slice(&head_len.to_le_bytes());
    file.extend_from_slice(&head);
    file.extend_from_slice(&memory);
    Ok(seal(file))
}

/// Compresses memory as in a file.
pub fn pack(memory: &[u8]) -> Vec<u8> {
    // zstd cannot fail on bytes in memory. A reader would refuse an empty result, because frames are missing.
    frames::pack(memory).unwrap_or_default()
}

/// Appends the checksum to a file.
pub fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&file);
    file.extend_from_slice(checksum.as_bytes());
    file
}

/// The key of a file.
pub fn key(file: &[u8]) -> Result<Key, SnapshotError> {
    open(file).map(|(head, _)| head.key)
}

/// Reads a snapshot, if it has the given key and at most `most` bytes of memory.
pub fn read(file: &[u8], key: &Key, most: u64) -> Result<Snapshot, SnapshotError> {
    let (head, memory) = open(file)?;
    if let Some(what) = head.key.differs(key) {
        return Err(SnapshotError::Stale { what });
    }
    head.state.check()?;
    let runs = runs(&head.runs, most)?;
    let contents = unpack(memory, &runs)?;
    Ok(Snapshot { state: head.state, memory: Memory { runs, contents, ..Memory::default() } })
}

fn damaged<T>(why: &str) -> Result<T, SnapshotError> {
    Err(SnapshotError::Damaged(why.into()))
}

/// The header, and the compressed memory.
fn open(file: &[u8]) -> Result<(Head, &[u8]), SnapshotError> {
    let Some((body, checksum)) = file.split_last_chunk::<CHECKSUM>() else { return damaged("it is cut off") };
    let (Some(magic), Some(numbers)) = (body.get(..8), body.get(8..HEAD_AT)) else { return damaged("it is cut off") };
    if magic != MAGIC {
        return damaged("it does not begin as a snapshot does");
    }
    let number = |at: usize| numbers[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if number(0) != FORMAT {
        return Err(SnapshotError::Stale { what: "another format" });
    }
    if blake3::hash(body) != *checksum {
        return damaged("its checksum is wrong: bytes have changed, or are missing");
    }
    let head_len = number(4) as usize;
    let Some((head, memory)) = body[HEAD_AT..].split_at_checked(head_len).filter(|_| head_len <= LONGEST_HEAD) else {
        return damaged("its head is longer than the file");
    };
    let head = serde_json::from_slice(head).map_err(|error| SnapshotError::Damaged(format!("its head: {error}")))?;
    Ok((head, memory))
}

/// Checks the runs: ordered, disjoint, whole pages, at most `most` bytes in total.
fn runs(written: &[(u64, u32)], most: u64) -> Result<Vec<Run>, SnapshotError> {
    let (mut behind, mut bytes) = (None, 0u64);
    let mut runs = Vec::with_capacity(written.len());
    for (start, pages) in written {
        let (len, aligned) = (u64::from(*pages) * PAGE as u64, start % PAGE as u64 == 0);
        let Some(end) = start.checked_add(len).filter(|_| aligned && *pages > 0 && behind.is_none_or(|end| end < *start)) else {
            return damaged("its runs of memory overlap or are in no order");
        };
        bytes = bytes.saturating_add(len);
        behind = Some(end);
        runs.push(Run { start: *start, pages: *pages });
    }
    if bytes > most {
        return damaged("it has more memory than the machine");
    }
    Ok(runs)
}

/// Unpacks the memory of these runs.
fn unpack(packed: &[u8], runs: &[Run]) -> Result<Vec<u8>, SnapshotError> {
    let len = runs.iter().map(|run| run.pages as usize * PAGE).sum();
    frames::unpack(packed, len).map_err(|why| SnapshotError::Damaged(format!("its memory cannot be unpacked: {why}")))
}

#[cfg(test)]
mod tests {
    use super::super::registers::Values;
    use super::super::{Build, Counts, Cpu};
    use super::*;
    use crate::clock::Stopped;
    use crate::frames::PIECE;
    use proptest::prelude::*;

    const MOST: u64 = 1 << 20;

    fn key() -> Key {
        Key {
            trapline: "1".into(),
            image: Key::hash(b"kernel"),
            initrd: String::new(),
            command_line: "quiet".into(),
            cpu: "z".into(),
            cpus: 1,
            ram: None,
            window: 0,
            attached: Vec::new(),
            moment: "the shell".into(),
        }
    }

    fn snapshot() -> Snapshot {
        let mut registers = Values::default();
        registers.put("ax", u128::MAX);
        let cpu = Cpu { registers, clock: Stopped::default(), fault_address: 7, halted: true, parked: true };
        let shape =
            Build { arch: "x".into(), cpu: "z".into(), board: "y".into(), cpus: 1, ram_start: 0, ram: 1 << 20, window: 0 };
        let state = State {
            shape,
            cpus: vec![cpu],
            shared: Values::default(),
            current: 0,
            slice_end: u64::MAX,
            latest: 77,
            counts: Counts::default(),
            console: b"/ # \xff".to_vec(),
            console_watch: None,
            devices: serde_json::json!({"a": 1}),
            init_freed: true,
        };
        let mut memory = Memory::default();
        memory.gather(0x4000, 0x9000, |at, into| {
            into.iter_mut().enumerate().for_each(|(i, byte)| {
                let at = at as usize + i;
                *byte = if at / PAGE == 6 { 0 } else { (at / 3) as u8 };
            })
        });
        Snapshot { state, memory }
    }

    fn rewritten(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
        let file = write(&key(), &snapshot()).expect("a file");
        let body = &file[..file.len() - CHECKSUM];
        let len = u32::from_le_bytes(body[12..16].try_into().expect("4 bytes")) as usize;
        let mut head: serde_json::Value = serde_json::from_slice(&body[HEAD_AT..HEAD_AT + len]).expect("a head");
        change(&mut head);
        let head = serde_json::to_vec(&head).expect("a head");
        let mut new = body[..12].to_vec();
        new.extend((head.len() as u32).to_le_bytes());
        new.extend(head);
        new.extend(&body[HEAD_AT + len..]);
        seal(new)
    }

    #[test]
    fn a_written_snapshot_can_be_read() {
        let file = write(&key(), &snapshot()).expect("a file");
        assert_eq!(read(&file, &key(), MOST).expect("a snapshot"), snapshot());
    }

    /// Frames do not begin where runs begin, and the last one is shorter.
    #[test]
    fn memory_of_several_frames_can_be_read() {
        let mut snapshot = snapshot();
        let pages = 2 * PIECE / PAGE + 100;
        snapshot.memory.gather(0x1_0000, 0x1_0000 + (pages * PAGE) as u64, |at, into| {
            let page = |number: usize| if number % 700 == 3 { 0 } else { number as u32 ^ 0x5a5a_0000 };
            for (at, word) in (at as usize..).step_by(4).zip(into.chunks_exact_mut(4)) {
                word.copy_from_slice(&page(at / PAGE).to_le_bytes());
            }
        });
        assert_eq!(snapshot.memory.contents.len().div_ceil(PIECE), 3);
        let file = write(&key(), &snapshot).expect("a file");
        let most = (4 * PIECE) as u64;
        let read = super::read(&file, &key(), most).expect("a snapshot");
        assert!(read == snapshot);
        let mut words = vec![0; 300 * PAGE];
        for first in [0x4000, 0x1_0000, 0x1_0000 + 400 * PAGE as u64, 0x1_0000 + 900 * PAGE as u64] {
            read.memory.read(first, &mut words);
            for (number, page) in words.chunks(PAGE).enumerate() {
                let at = first as usize / PAGE + number;
                let is_there = at >= 0x10 && at < 0x10 + pages && at % 700 != 3;
                let first = u32::from_le_bytes([page[0], page[1], page[2], page[3]]);
                assert!(at < 0x10 || first == if is_there { at as u32 ^ 0x5a5a_0000 } else { 0 }, "page {at:#x}: {first:#x}");
            }
        }
    }

    #[test]
    fn a_snapshot_with_another_key_is_stale() {
        let file = write(&key(), &snapshot()).expect("a file");
        type Change = fn(&mut Key);
        #[rustfmt::skip]
        let cases: &[(Change, &str)] = &[
            (|key| key.image = Key::hash(b"other"),     "another kernel"),
            (|key| key.initrd = Key::hash(b""),         "another initial file system"),
            (|key| key.command_line.push('x'),          "another command line"),
            (|key| key.cpu.push('x'),                   "another CPU"),
            (|key| key.cpus = 2,                        "another machine"),
            (|key| key.ram = Some(1),                   "another machine"),
            (|key| key.attached.push("x".into()),      "other disks or folders"),
            (|key| key.moment.clear(),                  "another point of the run"),
            (|key| key.trapline = "2".into(),           "another trapline"),
        ];
        for (change, what) in cases {
            let mut wanted = key();
            change(&mut wanted);
            assert_eq!(read(&file, &wanted, MOST), Err(SnapshotError::Stale { what }));
            assert_eq!(wanted.name() == key().name(), *what == "another trapline", "{what}: a name of its own");
        }
    }

    #[test]
    fn a_truncated_or_corrupted_file_is_damaged() {
        let file = write(&key(), &snapshot()).expect("a file");
        for len in 0..file.len() {
            assert!(read(&file[..len], &key(), MOST).is_err(), "cut off at {len}");
        }
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 1 << (at % 8);
            assert!(read(&file, &key(), MOST).is_err(), "a bit in byte {at}");
        }
    }

    /// These headers have a valid checksum.
    #[test]
    fn an_invalid_header_is_refused() {
        type Change = fn(&mut serde_json::Value);
        #[rustfmt::skip]
        let cases: &[(&str, Change, &str)] = &[
            ("overlap",         |head| head["runs"][1] = serde_json::json!([0x5000, 2]),    "overlap"),
            ("no order",        |head| head["runs"][0] = serde_json::json!([0xf000, 2]),    "overlap"),
            ("no pages",        |head| head["runs"][1] = serde_json::json!([0x7000, 0]),    "overlap"),
            ("half a page",     |head| head["runs"][1] = serde_json::json!([0x7800, 2]),    "overlap"),
            ("the end",         |head| head["runs"][1] = serde_json::json!([u64::MAX - 0xfff, 2]), "overlap"),
            ("too little",      |head| head["runs"][1] = serde_json::json!([0x7000, 3]),    "cannot be unpacked"),
            ("too much",        |head| head["runs"][1] = serde_json::json!([0x7000, 1]),    "cannot be unpacked"),
            ("no machine's",    |head| head["runs"][1] = serde_json::json!([0x7000, u32::MAX]), "more memory"),
            ("a stranger",      |head| head["x"] = 1.into(),                                "unknown field"),
            ("in the state",    |head| head["state"]["x"] = 1.into(),                       "unknown field"),
            ("two CPUs",        |head| head["state"]["shape"]["cpus"] = 2.into(),           "1 CPUs of 2"),
        ];
        for (what, change, why) in cases {
            let refused = read(&rewritten(change), &key(), MOST).expect_err(what);
            assert!(refused.to_string().contains(why), "{what}: {refused}");
        }
        assert!(read(&rewritten(|_| ()), &key(), MOST).is_ok(), "the test itself");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_snapshot_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut file = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
            file.extend(&bytes);
            prop_assert!(read(&seal(file), &key(), MOST).is_err());
            prop_assert!(read(&bytes, &key(), MOST).is_err());
        }
    }
}
