//! A name server (RFC 1035) that knows the names of the closed network. All others do not exist.

use super::{DOMAIN, GATEWAY, GUEST, NAME_SERVER};
use smoltcp::wire::Ipv4Address;

/// The names, with and without the domain.
const NAMES: [(&str, Ipv4Address); 4] = [("gateway", GATEWAY), ("www", GATEWAY), ("dns", NAME_SERVER), ("guest", GUEST)];

const HEADER_BYTES: usize = 12;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: u8 = 63;

// Bits of the second byte pair.
const ANSWER: u16 = 1 << 15;
const OPERATION: u16 = 0xf << 11;
const AUTHORITATIVE: u16 = 1 << 10;
const RECURSION_WANTED: u16 = 1 << 8;
const RECURSION: u16 = 1 << 7;

const NO_ERROR: u16 = 0;
const MALFORMED: u16 = 1;
const NO_SUCH_NAME: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;

const ADDRESS: u16 = 1;
const ANY: u16 = 255;
const INTERNET: u16 = 1;
const LIFETIME_SECONDS: u32 = 3600;
/// A reference to the name of the question.
const SAME_NAME: u16 = 0xc000 | HEADER_BYTES as u16;

/// Answers a query. `None` for a message that is no query.
pub fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = query.split_at_checked(HEADER_BYTES)?;
    let field = |at: usize| Some(u16::from_be_bytes(*header.get(at..at + 2)?.first_chunk()?));
    let (id, flags, questions) = (field(0)?, field(2)?, field(4)?);
    if flags & ANSWER != 0 {
        return None;
    }
    let question = question(rest).filter(|_| questions == 1);
    let (code, found) = match &question {
        _ if flags & OPERATION != 0 => (NOT_IMPLEMENTED, None),
        None => (MALFORMED, None),
        Some(question) => match address(&question.name) {
            None => (NO_SUCH_NAME, None),
            Some(address) => (NO_ERROR, Some(address).filter(|_| question.asks_for_address)),
        },
    };
    let flags = ANSWER | AUTHORITATIVE | RECURSION | flags & (OPERATION | RECURSION_WANTED) | code;
    let asked = question.as_ref().map_or(&[][..], |question| question.bytes);
    let mut answer = Vec::with_capacity(HEADER_BYTES + asked.len() + 16);
    for field in [id, flags, u16::from(question.is_some()), u16::from(found.is_some()), 0, 0] {
        answer.extend(field.to_be_bytes());
    }
    answer.extend(asked);
    if let Some(address) = found {
        for field in [SAME_NAME, ADDRESS, INTERNET] {
            answer.extend(field.to_be_bytes());
        }
        answer.extend(LIFETIME_SECONDS.to_be_bytes());
        answer.extend((address.octets().len() as u16).to_be_bytes());
        answer.extend(address.octets());
    }
    Some(answer)
}

struct Question<'a> {
    /// The name in lower case, with dots.
    name: String,
    asks_for_address: bool,
    bytes: &'a [u8],
}

/// The first question. `None` if it is malformed.
fn question(bytes: &[u8]) -> Option<Question<'_>> {
    let (mut labels, mut rest, mut length) = (Vec::new(), bytes, 1);
    loop {
        let (count, behind) = rest.split_first()?;
        if *count == 0 {
            rest = behind;
            break;
        }
        // Larger numbers are references, which a question needs none of.
        if *count > LONGEST_LABEL {
            return None;
        }
        let (label, behind) = behind.split_at_checked(usize::from(*count))?;
        length += label.len() + 1;
        if length > LONGEST_NAME {
            return None;
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        rest = behind;
    }
    let [t0, t1, c0, c1, behind @ ..] = rest else { return None };
    let (kind, class) = (u16::from_be_bytes([*t0, *t1]), u16::from_be_bytes([*c0, *c1]));
    let asks_for_address = [ADDRESS, ANY].contains(&kind) && [INTERNET, ANY].contains(&class);
    Some(Question { name: labels.join("."), asks_for_address, bytes: bytes.get(..bytes.len() - behind.len())? })
}

fn address(name: &str) -> Option<Ipv4Address> {
    let name = name.strip_suffix(DOMAIN).and_then(|name| name.strip_suffix('.')).unwrap_or(name);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, address)| *address)
}
