//! `--pull PATH[:FILE]`: files that come out of the guest when its script has ended.
//!
//! They come over the console, which every board has: a wrapper around the script packs each file (gzip) and prints it as
//! text (base64) between two marks. The text is taken out of the console's output. The checksum in gzip's format finds
//! damage, for example by a message of the kernel in the middle of a file.

use super::Failure;
use super::out_file::OutFile;
use crate::base64;
use flate2::write::GzDecoder;
use std::io::Write;
use std::path::PathBuf;

/// The start of a line of ours on the console. The number of the file and a word follow.
const MARK: &[u8] = b"trapline-pull ";
const BEGIN: &str = "begin";
const END: &str = "end";
const MISSING: &str = "missing";
/// Longest line that can be ours, in bytes.
const LONGEST: usize = 200;
/// Limit of a file's size, in bytes.
const MOST: u64 = 1 << 30;

/// A file to take out of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Its path in the guest.
    pub path: String,
    /// The file of the host to write.
    pub file: PathBuf,
}

impl Pull {
    /// Reads `PATH[:FILE]`. Without FILE, it is the last name of the path.
    pub fn parse(text: &str) -> Result<Pull, Failure> {
        let (path, file) = match text.rsplit_once(':') {
            Some((path, file)) => (path, file),
            None => (text, text.rsplit('/').next().unwrap_or_default()),
        };
        if path.is_empty() || file.is_empty() || path.contains(char::is_control) {
            let why = format!("--pull: `{text}` is not the path of a file in the guest, or a path and a file of this computer");
            return Err(Failure::usage(why).advise("write --pull /tmp/log, or --pull /tmp/log:results/log.txt"));
        }
        Ok(Pull { path: path.into(), file: file.into() })
    }
}

/// The script with a wrapper in front that runs it and then prints the files. The script's status stays the status.
pub fn wrap(script: &[u8], pulled: &[Pull]) -> Vec<u8> {
    let mut wrapper =
        String::from("sed '1,/^: end of the wrapper$/d' \"$0\" >\"$0.own\"\nsh \"$0.own\"\nstatus=$?\ndmesg -n 1 2>/dev/null\n");
    for (number, pull) in pulled.iter().enumerate() {
        let path = pull.path.replace('\'', "'\\''");
        // The script's last line may have no end.
        let ends = if number == 0 { "echo; " } else { "" };
        let mark = |word: &str| format!("echo trapline-pull {number} {word}\n");
        wrapper += &format!(
            "{ends}if [ -f '{path}' ]; then\n{}gzip -c <'{path}' | base64\n{}else\n{}fi\n",
            mark(BEGIN),
            mark(END),
            mark(MISSING)
        );
    }
    wrapper += "exit $status\n: end of the wrapper\n";
    [wrapper.as_bytes(), script].concat()
}

/// The reader of a guest's console that takes files out of it.
#[derive(Default)]
pub struct Parcels {
    files: Vec<Parcel>,
    /// The number of the file that is coming.
    coming: Option<usize>,
    /// The unfinished line, if it can become one of ours.
    line: Vec<u8>,
    /// Whether the unfinished line was passed on.
    passed: bool,
}

struct Parcel {
    pull: Pull,
    /// `None` if the file is not to be written.
    decoder: Option<GzDecoder<Bounded>>,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Its end has not come yet.
    Awaited,
    /// It came whole.
    Came,
    /// The guest does not have it.
    Missing,
    /// It could not be unpacked or written, for this reason.
    Damaged(String),
}

/// A file that takes no more than [`MOST`] bytes.
struct Bounded {
    out: OutFile,
    written: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.written + bytes.len() as u64 > MOST {
            return Err(std::io::Error::other(format!("it is larger than {} MiB", MOST >> 20)));
        }
        let written = self.out.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.file.flush()
    }
}

impl Parcels {
    /// The reader that takes these files out and does not keep them.
    pub fn to_nowhere(pulled: &[Pull]) -> Parcels {
        let files = pulled.iter().map(|pull| Parcel { pull: pull.clone(), decoder: None, state: State::Awaited });
        Parcels { files: files.collect(), ..Parcels::default() }
    }

    /// The reader that writes these files. They are opened now, so that a wrong name fails at once.
    pub fn to_files(pulled: &[Pull]) -> Result<Parcels, Failure> {
        let mut parcels = Parcels::to_nowhere(pulled);
        for parcel in &mut parcels.files {
            let out = OutFile::new(&parcel.pull.file)?;
            parcel.decoder = Some(GzDecoder::new(Bounded { out, written: 0 }));
        }
        Ok(parcels)
    }

    /// Takes the files' text out of console output. Returns what is left for the user.
    pub fn take_from(&mut self, console: Vec<u8>) -> Vec<u8> {
        if self.files.is_empty() {
            return console;
        }
        let mut left = Vec::new();
        for byte in console {
            if self.passed {
                left.push(byte);
                self.passed = byte != b'\n';
                continue;
            }
            self.line.push(byte);
            let ended = byte == b'\n';
            let known = self.line.len().min(MARK.len());
            let may_be_ours = self.line[..known] == MARK[..known] || self.coming.is_some();
            if ended {
                let line = std::mem::take(&mut self.line);
                if !may_be_ours || !self.is_ours(&line) {
                    left.extend(line);
                }
            } else if !may_be_ours || self.line.len() > LONGEST {
                left.append(&mut self.line);
                self.passed = true;
            }
        }
        left
    }

    /// The unfinished line for the user, when no more comes.
    pub fn rest(&mut self) -> Vec<u8> {
        let line = std::mem::take(&mut self.line);
        if self.coming.is_some() { Vec::new() } else { line }
    }

    /// Reads a whole line. Returns false if it is for the user.
    fn is_ours(&mut self, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        let Some(words) = text.strip_prefix("trapline-pull ") else { return self.content(text) };
        let Some((number, word)) = words.split_once(' ') else { return false };
        let Some((number, parcel)) = number.parse().ok().and_then(|at: usize| Some((at, self.files.get_mut(at)?))) else {
            return false;
        };
        match word {
            BEGIN if parcel.state == State::Awaited => self.coming = Some(number),
            MISSING if parcel.state == State::Awaited => parcel.state = State::Missing,
            END if self.coming == Some(number) => {
                self.coming = None;
                if parcel.state == State::Awaited {
                    let ended = parcel.decoder.take().map_or(Ok(()), |decoder| decoder.finish().map(|_| ()));
                    parcel.state = ended.map_or_else(|why| State::Damaged(why.to_string()), |()| State::Came);
                }
            }
            _ => return false,
        }
        true
    }

    /// Takes a line of the file that is coming.
    fn content(&mut self, text: &str) -> bool {
        let Some(parcel) = self.coming.and_then(|number| self.files.get_mut(number)) else { return false };
        let Some(bytes) = base64::from_text(text) else { return false };
        let written = parcel.decoder.as_mut().map_or(Ok(()), |decoder| decoder.write_all(&bytes));
        if let (Err(why), State::Awaited) = (written, &parcel.state) {
            parcel.state = State::Damaged(why.to_string());
        }
        true
    }

    /// Fails if a file did not come, and says which and why.
    pub fn all_came(&self) -> Result<(), Failure> {
        let why = |parcel: &Parcel| {
            let (path, file) = (&parcel.pull.path, parcel.pull.file.display());
            match &parcel.state {
                State::Came => None,
                State::Missing => Some(format!("--pull: the guest has no file `{path}`; `{file}` is empty")),
                State::Damaged(why) => Some(format!("--pull: `{path}` came damaged: {why}; `{file}` has its beginning at most")),
                State::Awaited => Some(format!("--pull: the guest ended before `{path}` came; `{file}` is not whole")),
            }
        };
        let failures: Vec<String> = self.files.iter().filter_map(why).collect();
        if failures.is_empty() { Ok(()) } else { Err(Failure::failed(failures.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn packed(bytes: &[u8]) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        let packed = encoder.finish().expect("memory");
        packed.chunks(57).map(|line| base64::text(line) + "\r\n").collect()
    }

    #[test]
    fn paths_and_files_are_told_apart() {
        #[rustfmt::skip]
        let cases = [
            ("/tmp/log",          Some(("/tmp/log", "log"))),
            ("/tmp/log:out/l",    Some(("/tmp/log", "out/l"))),
            ("log",               Some(("log", "log"))),
            ("/a:b:c",            Some(("/a:b", "c"))),
            ("/tmp/",             None),
            ("",                  None),
            (":x",                None),
            ("/x:",               None),
            ("/a\nb",             None),
        ];
        for (text, expected) in cases {
            let seen = Pull::parse(text).ok();
            assert_eq!(seen, expected.map(|(path, file)| Pull { path: path.into(), file: file.into() }), "{text}");
        }
    }

    /// MM-2: a file comes whole through a console that is cut anywhere; other text stays. What is missing, cut off or damaged
    /// is said.
    #[test]
    fn files_come_out_of_the_console() {
        let folder = std::env::temp_dir().join(format!("trapline-pulled-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let bytes: Vec<u8> = (0..20_000u32).flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        let text = packed(&bytes);
        let whole = format!("a\r\n\r\ntrapline-pull 0 begin\r\n{text}\r\ntrapline-pull 0 end\r\ntrap\r\nend");
        let damaged = whole.replacen(&text[200..204], "AAAA", 1);
        let message = whole.replacen("\r\ntrapline-pull 0 end", "[1] a message\r\ntrapline-pull 0 end", 1);
        let cut = &whole[..whole.len() / 2];
        #[rustfmt::skip]
        let cases = [
            (whole.as_str(),                            "a\r\n\r\ntrap\r\nend", None),
            ("x\r\ntrapline-pull 0 missing\r\n",        "x\r\n",                    Some("has no file `/f`")),
            (&damaged,                                  "a\r\n\r\ntrap\r\nend", Some("came damaged")),
            (&message,                                  "a\r\n\r\n[1] a message\r\ntrap\r\nend", None),
            (cut,                                       "a\r\n\r\n",                Some("the guest ended before `/f` came")),
            ("trapline-pull 1 begin\r\ntrapline-pull",  "trapline-pull 1 begin\r\ntrapline-pull", Some("the guest ended")),
        ];
        for (console, expected, failure) in cases {
            for piece in [1, 7, 4096] {
                let file = folder.join("file");
                let mut parcels = Parcels::to_files(&[Pull { path: "/f".into(), file: file.clone() }]).expect("a file");
                let parts = console.as_bytes().chunks(piece);
                let mut left: Vec<u8> = parts.flat_map(|part| parcels.take_from(part.to_vec())).collect();
                left.extend(parcels.rest());
                assert_eq!(String::from_utf8_lossy(&left), expected, "{piece}");
                let said = parcels.all_came().err().map(|why| format!("{why:?}"));
                assert_eq!(said.is_some(), failure.is_some(), "{said:?}");
                assert!(failure.is_none_or(|why| said.as_ref().is_some_and(|said| said.contains(why))), "{said:?}");
                drop(parcels);
                assert!(failure.is_some() || std::fs::read(&file).expect("written") == bytes);
            }
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
