//! The files of a sweep. A part holds the results of one shard: a header, a line of JSON for each wave in order, and a last
//! line with the number of waves. It is written under a temporary name and renamed, so a part is always complete. While
//! the shard runs, results are appended to a journal of the same form. Its lines may be in any order, and the last one may
//! be cut off.
//!
//! Each line begins with a checksum of the rest. Equal sweeps write equal bytes, whoever makes them and in whatever order.

use super::plan::Plan;
use super::shard::Shard;
use super::wave::Wave;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The name of the format, with its version.
const FORMAT: &str = "trapline sweep 1";
/// Hexadecimal digits of a line's checksum.
const SUM: usize = 16;
/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 30;

/// The header of a part: what was swept, by which program, and which part it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The name of the format, with its version.
    pub format: String,
    /// The version of trapline, with a hash of its sources.
    pub trapline: String,
    /// The name of the image.
    pub name: String,
    /// The hash of the image's file.
    pub image: String,
    /// The hash of everything else that the guest is given.
    pub guest: String,
    /// The kinds of probes.
    pub kinds: Vec<String>,
    /// The name of the policy that decides on registrations.
    pub policy: String,
    /// The largest number of probes of a wave.
    pub size: u64,
    /// The hash of the unprobed run.
    pub run: String,
    /// Executed instructions.
    pub instructions: u64,
    /// Executed functions.
    pub functions: u64,
    /// The number of waves of the whole sweep.
    pub waves: u64,
    /// The shard, such as `0/8`.
    pub shard: String,
}

impl Identity {
    /// The identity with the facts that the unprobed run has shown.
    pub fn of_run(self, plan: &Plan, run: &str, shard: Shard) -> Identity {
        Identity {
            format: FORMAT.into(),
            run: run.into(),
            instructions: plan.instructions as u64,
            functions: plan.functions as u64,
            waves: plan.waves.len() as u64,
            shard: shard.to_string(),
            ..self
        }
    }

    /// The identity of the whole sweep.
    pub fn whole(&self) -> Identity {
        Identity { shard: Shard::WHOLE.to_string(), ..self.clone() }
    }

    /// The first fact in which the identities of two parts of a sweep differ, with both values.
    pub fn differs(&self, other: &Identity) -> Option<(&'static str, String, String)> {
        let texts = |of: &Identity| {
            let kinds = of.kinds.join(",");
            let numbers = [of.size, of.instructions, of.functions, of.waves].map(|number| number.to_string());
            let [size, instructions, functions, waves] = numbers;
            [
                ("format", of.format.clone()),
                ("version of trapline", of.trapline.clone()),
                ("name of the image", of.name.clone()),
                ("image", of.image.clone()),
                ("guest", of.guest.clone()),
                ("kinds of probes", kinds),
                ("policy", of.policy.clone()),
                ("size of a wave", size),
                ("unprobed run", of.run.clone()),
                ("number of executed instructions", instructions),
                ("number of executed functions", functions),
                ("number of waves", waves),
            ]
        };
        let pairs = texts(self).into_iter().zip(texts(other));
        pairs.into_iter().find(|(one, two)| one.1 != two.1).map(|((what, one), (_, two))| (what, one, two))
    }
}

/// The last line of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    end: u64,
}

/// The results of a part or of a whole sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The header.
    pub identity: Identity,
    /// The results by wave.
    pub waves: BTreeMap<u64, Wave>,
}

/// The reason why a part cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartError {
    /// The system refused.
    #[error("`{}` cannot be {what}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The system's reason.
        why: io::Error,
    },
    /// It is no part, or it has been damaged.
    #[error("`{}` is no whole part of a sweep: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first defect.
        why: String,
    },
    /// There is a part of another sweep under this name.
    #[error("`{}` is of another sweep: its {what} is {there}, and this one's is {here}", path.display())]
    Another {
        /// The file.
        path: PathBuf,
        /// The fact that differs.
        what: &'static str,
        /// Its value there.
        there: String,
        /// Its value here.
        here: String,
    },
}

/// The first defect of a text that is no whole part.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct NotWhole(String);

impl PartError {
    /// Whether another try may help: the computer failed.
    pub fn may_pass(&self) -> bool {
        matches!(self, PartError::Io { .. })
    }
}

fn io_error(path: &Path, what: &'static str) -> impl Fn(io::Error) -> PartError {
    move |why| PartError::Io { path: path.into(), what, why }
}

/// A value as a line with its checksum.
fn line(value: &impl Serialize) -> String {
    // These values have no map with keys that are no text, so this cannot fail. An empty line would be refused.
    let text = serde_json::to_string(value).unwrap_or_default();
    let rest = text.strip_prefix('{').unwrap_or_default();
    let sum = &blake3::hash(rest.as_bytes()).to_hex()[..SUM];
    format!("{{\"sum\":\"{sum}\",{rest}\n")
}

/// The text of a line without its checksum. `None` if the line is damaged.
fn checked(line: &str) -> Option<String> {
    let (sum, rest) = line.strip_prefix("{\"sum\":\"")?.split_at_checked(SUM)?;
    let rest = rest.strip_prefix("\",")?;
    (blake3::hash(rest.as_bytes()).to_hex().get(..SUM) == Some(sum)).then(|| format!("{{{rest}"))
}

fn value<T: for<'a> Deserialize<'a>>(line: &str) -> Option<T> {
    serde_json::from_str(&checked(line)?).ok()
}

impl Summary {
    /// The bytes of the part's file.
    pub fn file(&self) -> String {
        let mut text = line(&self.identity);
        self.waves.values().for_each(|wave| text += &line(wave));
        text += &line(&End { end: self.waves.len() as u64 });
        text
    }

    /// Reads a part that is whole.
    pub fn read(path: &Path) -> Result<Summary, PartError> {
        let text = String::from_utf8(read(path)?).map_err(|_| damaged(path, "it is no text"))?;
        Summary::of(&text).map_err(|NotWhole(why)| damaged(path, &why))
    }

    /// The part in a text.
    pub fn of(text: &str) -> Result<Summary, NotWhole> {
        let mut lines = text.lines();
        let identity: Identity =
            lines.next().and_then(value).ok_or(NotWhole("its first line is damaged, or is none of a sweep".into()))?;
        if identity.format != FORMAT {
            return Err(NotWhole(format!("its format is `{}`, not `{FORMAT}`", identity.format)));
        }
        let shard: Shard = identity.shard.parse().map_err(|why: super::shard::NoShard| NotWhole(why.to_string()))?;
        let mut waves = BTreeMap::new();
        let mut end = None;
        for (number, line) in lines.enumerate() {
            let wave = match (end, value::<Wave>(line)) {
                (None, Some(wave)) => wave,
                (None, None) if value::<End>(line).is_some() => {
                    end = value::<End>(line).map(|end| end.end);
                    continue;
                }
                _ => return Err(NotWhole(format!("line {} is damaged", number + 2))),
            };
            if !shard.has(wave.wave) || wave.wave >= identity.waves || waves.insert(wave.wave, wave).is_some() {
                return Err(NotWhole(format!("line {} is not of this shard, or is doubled", number + 2)));
            }
        }
        let expected = (0..identity.waves.min(MOST_BYTES)).filter(|wave| shard.has(*wave)).count();
        if end != Some(waves.len() as u64) || waves.len() != expected {
            return Err(NotWhole(format!("it ends after {} of {expected} waves", waves.len())));
        }
        Ok(Summary { identity, waves })
    }

    /// Whether all runs are equal to the unprobed one.
    pub fn is_identical(&self) -> bool {
        self.waves.values().all(|wave| wave.differs.is_none())
    }
}

fn damaged(path: &Path, why: &str) -> PartError {
    PartError::Damaged { path: path.into(), why: why.into() }
}

fn read(path: &Path) -> Result<Vec<u8>, PartError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io_error(path, "read"))?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(io_error(path, "read"))?;
    Ok(bytes)
}

/// Writes a file under another name, and renames it. The name tells writers apart.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PartError> {
    let beside = with_suffix(path, &format!("tmp.{}", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|why| {
        let _ = fs::remove_file(&beside);
        PartError::Io { path: path.into(), what: "written", why }
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

/// The results of a shard that is not done.
pub struct Journal {
    summary: Summary,
    out: PathBuf,
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal beside `out`, with all results that are there already. Damaged lines are dropped. A journal that
    /// another process writes is read, and a journal of our own continues it.
    pub fn open(out: &Path, identity: &Identity) -> Result<Journal, PartError> {
        let mut waves = BTreeMap::new();
        if out.exists() {
            let there = Summary::read(out)?;
            refuse_another(out, &there.identity, identity)?;
            waves = there.waves;
        }
        let mut path = with_suffix(out, "journal");
        let (mut file, is_ours) = open_locked(&path)?;
        let mut text = Vec::new();
        Read::by_ref(&mut file).take(MOST_BYTES).read_to_end(&mut text).map_err(io_error(&path, "read"))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.lines();
        if let Some(there) = lines.next().and_then(value::<Identity>) {
            refuse_another(&path, &there, identity)?;
            let read: Vec<Wave> = lines.filter_map(value::<Wave>).filter(|wave| wave.wave < identity.waves).collect();
            waves.extend(read.into_iter().map(|wave| (wave.wave, wave)));
        }
        if !is_ours {
            path = with_suffix(out, &format!("journal.{}", std::process::id()));
            file = open_locked(&path)?.0;
        }
        let summary = Summary { identity: identity.clone(), waves };
        let mut journal = Journal { summary, out: out.into(), path, file };
        journal.start_over()?;
        Ok(journal)
    }

    /// Writes the journal anew, without damaged lines.
    fn start_over(&mut self) -> Result<(), PartError> {
        let mut text = line(&self.summary.identity);
        self.summary.waves.values().for_each(|wave| text += &line(wave));
        let file = &mut self.file;
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.set_len(0)).and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(io_error(&self.path, "written"))
    }

    /// Whether the result of a wave is known.
    pub fn has(&self, wave: u64) -> bool {
        self.summary.waves.contains_key(&wave)
    }

    /// Appends a result.
    pub fn add(&mut self, wave: Wave) -> Result<(), PartError> {
        self.file.write_all(line(&wave).as_bytes()).map_err(io_error(&self.path, "written"))?;
        self.summary.waves.insert(wave.wave, wave);
        Ok(())
    }

    /// Writes the part, and removes the journal.
    pub fn finish(self) -> Result<Summary, PartError> {
        write_whole(&self.out, self.summary.file().as_bytes())?;
        // A journal that stays would only be read again.
        let _ = fs::remove_file(&self.path);
        Ok(self.summary)
    }
}

fn refuse_another(path: &Path, there: &Identity, here: &Identity) -> Result<(), PartError> {
    let shards = (there.shard != here.shard).then(|| ("shard", there.shard.clone(), here.shard.clone()));
    match there.differs(here).or(shards) {
        None => Ok(()),
        Some((what, there, here)) => Err(PartError::Another { path: path.into(), what, there, here }),
    }
}

/// Opens a file for reading and appending. False if another process holds its lock.
fn open_locked(path: &Path) -> Result<(File, bool), PartError> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(io_error(path, "opened"))?;
    // A file system without locks has no second writer to tell apart.
    let is_ours = !matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock));
    Ok((file, is_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(shard: &str) -> Identity {
        let (format, run, shard) = (FORMAT.into(), "abc".into(), shard.into());
        Identity { format, run, shard, waves: 4, ..Identity::default() }
    }

    fn wave(number: u64) -> Wave {
        let refused = [("exclusive".to_string(), number)].into();
        Wave { wave: number, kind: "kprobe".into(), places: 10, armed: 9, refused, ..Wave::default() }
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("trapline-part-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// SW-2: a part has the same bytes in whatever order its results came; a damaged byte anywhere is seen.
    #[test]
    fn a_part_is_whole_or_refused() {
        let folder = folder("whole");
        let (one, other) = (folder.join("one"), folder.join("other"));
        for (path, order) in [(&one, [0, 1, 2, 3]), (&other, [3, 1, 0, 2])] {
            let mut journal = Journal::open(path, &identity("0/1")).expect("it opens");
            order.into_iter().for_each(|number| journal.add(wave(number)).expect("it is written"));
            journal.finish().expect("it is written");
        }
        let text = fs::read_to_string(&one).expect("it is there");
        assert_eq!(text, fs::read_to_string(&other).expect("it is there"));
        assert_eq!(Summary::of(&text).expect("it is whole").waves.len(), 4);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2, "no journal is left");
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'~' { b'}' } else { b'~' };
            let damaged = String::from_utf8(bytes).expect("ASCII");
            assert!(Summary::of(&damaged).is_err(), "byte {at}");
            assert!(Summary::of(&text[..at]).is_err() || at == text.len() - 1, "cut off at {at}");
        }
        let _ = fs::remove_dir_all(&folder);
    }

    /// SW-2: a journal that was cut off anywhere goes on with the lines that are whole.
    #[test]
    fn a_journal_that_was_cut_off_goes_on() {
        let folder = folder("cut");
        let out = folder.join("part");
        let path = with_suffix(&out, "journal");
        let whole = line(&identity("0/1")) + &line(&wave(2)) + &line(&wave(0));
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).expect("it is written");
            let mut journal = Journal::open(&out, &identity("0/1")).expect("it opens");
            let lines = whole[..cut].matches('\n').count();
            let known = (0..4).filter(|number| journal.has(*number)).count();
            // The last line may be whole but for its end.
            assert!(known + 1 == lines.max(1) || known == lines, "{cut}: {known} of {lines} lines");
            for number in 0..4 {
                if !journal.has(number) {
                    journal.add(wave(number)).expect("it is written");
                }
            }
            assert_eq!(journal.finish().expect("it is written").waves.len(), 4, "{cut}");
            fs::remove_file(&out).expect("it was there");
        }
        let _ = fs::remove_dir_all(&folder);
    }

    /// SW-2: a second writer of the same part has a journal of its own, and both end in the same file.
    #[test]
    fn two_writers_of_one_part_do_no_harm() {
        let folder = folder("two");
        let out = folder.join("part");
        let mut first = Journal::open(&out, &identity("1/2")).expect("it opens");
        first.add(wave(1)).expect("it is written");
        let mut second = Journal::open(&out, &identity("1/2")).expect("it opens");
        assert!(second.has(1) && second.path != first.path);
        second.add(wave(3)).expect("it is written");
        second.finish().expect("it is written");
        first.add(wave(3)).expect("it is written");
        let bytes = fs::read(&out).expect("it is there");
        first.finish().expect("it is written");
        assert_eq!(fs::read(&out).expect("it is there"), bytes);
        let another = Identity { run: "another".into(), ..identity("1/2") };
        assert!(matches!(Journal::open(&out, &another), Err(PartError::Another { what: "unprobed run", .. })));
        let _ = fs::remove_dir_all(&folder);
    }
}
