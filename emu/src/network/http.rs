//! A web server for a folder of the host: GET and HEAD, one request for each connection. Nothing is written, and a path that
//! leads out of the folder is refused. Listings are sorted, and all dates are fixed, so that a run repeats.

use crate::devices::virtio::ninep::{FILE, FOLDER, TYPE, Tree, errors};
use std::fmt::Write as _;

/// The longest request without its body, in bytes.
const LONGEST_REQUEST: usize = 8 << 10;
/// The date of all answers and all files.
const DATE: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
const PERMISSION_DENIED: u32 = 13;

/// A request and its answer.
#[derive(Debug, Default)]
pub struct Exchange {
    request: Vec<u8>,
    answer: Option<Answer>,
}

/// An answer that is being sent: bytes, then a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    bytes: Vec<u8>,
    sent: usize,
    file: Option<Part>,
}

/// The part of a file that is still to be sent.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    path: Vec<Vec<u8>>,
    at: u64,
    end: u64,
}

/// A file is shorter than it was.
#[derive(Debug, PartialEq, Eq)]
pub struct Shorter;

impl Exchange {
    /// Takes bytes of the request.
    pub fn take(&mut self, bytes: &[u8], tree: Option<&dyn Tree>) {
        if self.answer.is_some() {
            return;
        }
        let room = (LONGEST_REQUEST + 1).saturating_sub(self.request.len());
        self.request.extend(&bytes[..bytes.len().min(room)]);
        let ends = [&b"\r\n\r\n"[..], b"\n\n"];
        if ends.iter().any(|end| memchr::memmem::find(&self.request, end).is_some()) {
            self.answer = Some(answer(&self.request, tree));
        } else if self.request.len() > LONGEST_REQUEST {
            self.answer = Some(message("431 Request Header Fields Too Large", "the request is too long\n", "", true));
        }
    }

    /// Whether the request has come to its end.
    pub fn has_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether the whole answer was taken.
    pub fn is_done(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.sent == answer.bytes.len() && answer.file.is_none())
    }

    /// Fills `into` with the next bytes of the answer. Returns how many there were.
    pub fn fill(&mut self, into: &mut [u8], tree: Option<&dyn Tree>) -> Result<usize, Shorter> {
        let Some(answer) = &mut self.answer else { return Ok(0) };
        let rest = answer.bytes.get(answer.sent..).unwrap_or_default();
        let held = rest.len().min(into.len());
        let (start, behind) = into.split_at_mut(held);
        start.copy_from_slice(&rest[..held]);
        answer.sent += held;
        let Some(part) = answer.file.as_mut().filter(|_| !behind.is_empty()) else { return Ok(held) };
        let wanted = usize::try_from(part.end - part.at).unwrap_or(usize::MAX).min(behind.len());
        let read = tree.and_then(|tree| tree.read(&part.path, part.at, &mut behind[..wanted]).ok());
        if read != Some(wanted) {
            return Err(Shorter);
        }
        part.at += wanted as u64;
        if part.at == part.end {
            answer.file = None;
        }
        Ok(held + wanted)
    }
}

/// The answer to a request.
fn answer(request: &[u8], tree: Option<&dyn Tree>) -> Answer {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return malformed(true) };
    let has_body = match method {
        b"GET" => true,
        b"HEAD" => false,
        _ => return message("405 Method Not Allowed", "only GET and HEAD are answered\n", "Allow: GET, HEAD\r\n", true),
    };
    if !version.starts_with(b"HTTP/1.") {
        return malformed(has_body);
    }
    let Some((path, is_folder)) = path(target) else { return malformed(has_body) };
    let Some(tree) = tree else {
        return message("404 Not Found", "no folder is shown here: give one by --net www=DIR\n", "", has_body);
    };
    let result = tree.attributes(&path).and_then(|seen| match seen.mode & TYPE {
        FILE if !is_folder => Ok(file(path, seen.bytes, has_body)),
        FOLDER if !is_folder => Ok(elsewhere(&path, has_body)),
        FOLDER => Ok(listing(&path, &tree.list(&path)?, has_body)),
        _ => Err(errors::IO),
    });
    result.unwrap_or_else(|error| match error {
        PERMISSION_DENIED => message("403 Forbidden", "this file cannot be read\n", "", has_body),
        _ => message("404 Not Found", "there is no such file\n", "", has_body),
    })
}

/// The names of a path, and whether it names a folder. `None` if it is malformed or leads upwards.
fn path(target: &[u8]) -> Option<(Vec<Vec<u8>>, bool)> {
    let target = target.split(|byte| [b'?', b'#'].contains(byte)).next()?;
    let inside = target.strip_prefix(b"/")?;
    let mut names = Vec::new();
    for name in inside.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let name = decoded(name)?;
        if name == b"." || name == b".." || name.iter().any(|byte| [b'/', 0].contains(byte)) {
            return None;
        }
        names.push(name);
    }
    Some((names, target.ends_with(b"/")))
}

/// Replaces `%` and two digits by the byte of that number. `None` if the digits are missing.
fn decoded(name: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name);
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, behind @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = behind;
    }
    Some(bytes)
}

fn encoded(name: &[u8]) -> String {
    name.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

/// A name as text of an HTML page.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn head(status: &str, kind: &str, bytes: u64, more: &str) -> Vec<u8> {
    let fields = format!("Server: trapline\r\nDate: {DATE}\r\nConnection: close\r\n{more}");
    format!("HTTP/1.1 {status}\r\n{fields}Content-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n").into_bytes()
}

fn page(status: &str, kind: &str, text: &str, more: &str, has_body: bool) -> Answer {
    let mut bytes = head(status, kind, text.len() as u64, more);
    bytes.extend(text.bytes().filter(|_| has_body));
    Answer { bytes, ..Answer::default() }
}

fn message(status: &str, text: &str, more: &str, has_body: bool) -> Answer {
    page(status, "text/plain; charset=utf-8", text, more, has_body)
}

fn malformed(has_body: bool) -> Answer {
    message("400 Bad Request", "this is no request, or its path leads out of the folder\n", "", has_body)
}

fn file(path: Vec<Vec<u8>>, bytes: u64, has_body: bool) -> Answer {
    let file = (has_body && bytes > 0).then_some(Part { path, at: 0, end: bytes });
    let dated = format!("Last-Modified: {DATE}\r\n");
    Answer { bytes: head("200 OK", "application/octet-stream", bytes, &dated), sent: 0, file }
}

/// The answer to a folder's path without its last slash, from which links would lead to a wrong place.
fn elsewhere(path: &[Vec<u8>], has_body: bool) -> Answer {
    let target: String = path.iter().map(|name| format!("/{}", encoded(name))).collect();
    message("301 Moved Permanently", "this is a folder\n", &format!("Location: {target}/\r\n"), has_body)
}

fn listing(path: &[Vec<u8>], names: &[(Vec<u8>, u32)], has_body: bool) -> Answer {
    let title: String = path.iter().map(|name| format!("{}/", shown(name))).collect();
    let mut text = format!("<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>/{title}</title>\n<ul>\n");
    for (name, kind) in names.iter().filter(|(_, kind)| [FILE, FOLDER].contains(kind)) {
        let slash = if *kind == FOLDER { "/" } else { "" };
        let _ = writeln!(text, "<li><a href=\"{}{slash}\">{}{slash}</a>", encoded(name), shown(name));
    }
    text.push_str("</ul>\n");
    page("200 OK", "text/html; charset=utf-8", &text, "", has_body)
}

#[cfg(test)]
mod tests;
