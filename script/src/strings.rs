//! Evaluates byte expressions at a hit: strings, map keys, tuples, stacks, paths. Each expression appends its result to the
//! scratch buffer of the runner's state. The caller remembers the buffer's length before as `mark`, and truncates the buffer to
//! that length when it has used the result. So a hit allocates no memory once the buffer has grown.

use super::acts::TOO_MUCH_WORK;
use super::program::{Any, Bytes, Key, PathPlaces};
use super::run::{MOST_WORKED, Runner, State};
use super::show::{in_mapping, part};
use super::stored::Stored;
use super::types::Type;

/// The largest number of components of a path. The components next to the root are left out beyond that.
pub(super) const DEEPEST_PATH: usize = 128;

/// The longest name of a file, in bytes (NAME_MAX).
pub(super) const LONGEST_NAME: usize = 255;

/// The largest number of frames of a stack.
pub(super) const DEEPEST_STACK: usize = 1024;

/// The largest size of the scratch buffer, in bytes.
pub(super) const MOST_SCRATCH: usize = 16 << 20;

impl Runner<'_> {
    /// Appends the value of a byte expression to the scratch buffer and charges its size to the hit's budget.
    pub(super) fn bytes(&mut self, bytes: &Bytes) {
        let mark = self.state.scratch.len();
        self.append(bytes, mark);
        self.charge_from(mark);
    }

    /// Charges the bytes from `mark` on to the hit's budget.
    #[inline]
    fn charge_from(&mut self, mark: usize) {
        let end = self.state.scratch.len();
        self.state.worked += (end - mark) as u64;
        if end > MOST_SCRATCH || self.state.worked > MOST_WORKED {
            self.too_much(end, mark);
        }
    }

    /// Removes the value from `mark` on and ends the script, because the scratch buffer or the hit's budget is exhausted.
    #[cold]
    fn too_much(&mut self, end: usize, mark: usize) {
        self.state.scratch.truncate(mark);
        self.fail(match end > MOST_SCRATCH {
            true => "one hit put together more than 16 MiB of strings: the script was ended",
            false => TOO_MUCH_WORK,
        });
    }

    /// Appends the value of an expression. `mark` is the length of the scratch buffer, so the value is the bytes from there on.
    #[expect(clippy::too_many_lines, reason = "one arm per operation: a table in the form of a match")]
    fn append(&mut self, bytes: &Bytes, mark: usize) {
        match bytes {
            Bytes::Literal(literal) => self.state.scratch.extend_from_slice(literal),
            Bytes::Variable(variable) => {
                let State { variables, scratch, .. } = &mut *self.state;
                if let Some(variable) = variables.get(usize::from(*variable)) {
                    scratch.extend_from_slice(&variable.bytes);
                }
            }
            Bytes::Comm => {
                let comm = self.context.comm();
                self.state.scratch.extend_from_slice(&comm[..length(&comm)]);
            }
            Bytes::Probe => self.state.scratch.extend_from_slice(self.probe.as_bytes()),
            Bytes::Text { at, limit, capacity } => {
                let at = self.num(at);
                let limit = limit.as_ref().map_or(u64::from(*capacity), |limit| self.num(limit)).min((*capacity).into());
                self.text(at, (limit as usize).saturating_sub(1));
            }
            Bytes::Raw { at, length } => {
                let (at, length) = (self.num(at), self.num(length).min(65_536) as usize);
                self.state.scratch.resize(mark + length, 0);
                let State { scratch, .. } = &mut *self.state;
                if !self.context.read(at, &mut scratch[mark..]) {
                    scratch[mark..].fill(0);
                    self.unread(at);
                }
            }
            Bytes::Front(of, length) => {
                let length = self.num(length) as usize;
                self.bytes(of);
                let end = self.state.scratch.len().min(mark.saturating_add(length));
                self.state.scratch.truncate(end);
            }
            Bytes::Map(map, key) => {
                self.key(key);
                let State { maps, scratch, .. } = &mut *self.state;
                let found = maps.get_mut(usize::from(*map)).and_then(|map| map.get(&scratch[mark..]));
                scratch.truncate(mark);
                if let Some(Stored::Bytes(bytes)) = found {
                    scratch.extend_from_slice(bytes);
                }
            }
            Bytes::Tuple(parts) => parts.iter().for_each(|part| self.encode(part)),
            Bytes::Part { of, behind } => {
                self.bytes(of);
                let scratch = &mut self.state.scratch;
                let whole = &scratch[mark..];
                let rest = skip(whole, behind);
                let at = mark + (whole.len() - rest.len());
                let (value, behind) = part(&Type::Buffer, rest);
                let (start, end) = (at + rest.len() - behind.len() - value.bytes().len(), scratch.len() - behind.len());
                scratch.copy_within(start..end, mark);
                scratch.truncate(mark + end - start);
            }
            Bytes::Choice(condition, both) => {
                let chosen = if self.num(condition) != 0 { &both[0] } else { &both[1] };
                self.bytes(chosen);
            }
            Bytes::Number(of, size) => {
                // The bytes are in the guest's order.
                let (number, size) = (self.num(of), usize::from(*size).min(8));
                let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
                let bytes = if self.program.big_endian { &big[8 - size..] } else { &little[..size] };
                self.state.scratch.extend_from_slice(bytes);
            }
            Bytes::Stack { user, limit, .. } => {
                // Most scripts use the default length, which needs a smaller array.
                if *limit > 128 { self.stack::<DEEPEST_STACK>(*user, *limit) } else { self.stack::<128>(*user, *limit) }
            }
            Bytes::Error(of) => {
                let number = self.num(of) as i64;
                let text = super::facts::error_text(number.unsigned_abs());
                match text {
                    Some(text) => self.state.scratch.extend_from_slice(text.as_bytes()),
                    None => super::show::put(&mut self.state.scratch, format_args!("Unknown error {number}")),
                }
            }
            Bytes::Name { of, names } => {
                let number = self.num(of);
                let name = usize::try_from(number).ok().and_then(|number| names.get(number)).filter(|name| !name.is_empty());
                match name {
                    Some(name) => self.state.scratch.extend_from_slice(name.as_bytes()),
                    None => super::show::put(&mut self.state.scratch, format_args!("{number}")),
                }
            }
            Bytes::Path { start, places, limit } => {
                let start = self.num(start);
                self.path(start, places, *limit as usize);
            }
            Bytes::Piece { of, at, length, is_text } => {
                let at = usize::try_from(self.num(at)).unwrap_or(usize::MAX);
                self.bytes(of);
                let whole = self.state.scratch.get(mark..).unwrap_or_default();
                let rest = whole.get(at..).unwrap_or_default();
                let piece = &rest[..rest.len().min(usize::try_from(*length).unwrap_or(usize::MAX))];
                let piece = if *is_text { super::shape::text(piece) } else { piece };
                let (from, length) = (mark + at.min(whole.len()), piece.len());
                self.state.scratch.copy_within(from..from + length, mark);
                self.state.scratch.truncate(mark + length);
            }
            Bytes::Join(both) => {
                self.bytes(&both[0]);
                self.bytes(&both[1]);
            }
            Bytes::LastWrite(address, length) => self.line_on_last_write(address, *length),
            // A block expression: statements, then a value. A `return` among the statements skips the value.
            Bytes::Behind(acts, value) => {
                if self.leads_on(acts) {
                    self.bytes(value);
                }
            }
        }
    }

    /// Appends the addresses of a stack, 8 bytes each: the kernel's, or the program's if `user` is set. At most `limit` frames.
    /// An address in a program is packed with the number of its mapping, so that a symbol can be found later. Not inlined,
    /// because the array would enlarge the stack frame of every byte expression.
    #[inline(never)]
    fn stack<const MOST: usize>(&mut self, user: bool, limit: u16) {
        let mut frames = [0; MOST];
        let most = usize::from(limit).min(MOST);
        let found = self.context.stack(user, &mut frames[..most]).min(most);
        for frame in frames[..found].iter_mut().filter(|_| user) {
            *frame = in_mapping(*frame, self.context.mapping_at(*frame));
        }
        frames[..found].iter().for_each(|frame| self.state.scratch.extend_from_slice(&frame.to_le_bytes()));
    }

    /// Appends the path of a `struct path` at the address `start`, as `d_path` does. It follows the parents of the
    /// directory entry. At the root of a mount it continues at the mount point. The result has at most `limit` bytes.
    /// Unreadable memory ends the walk.
    pub(super) fn path(&mut self, start: u64, places: &PathPlaces, limit: usize) {
        let (mark, word) = (self.state.scratch.len(), self.program.word);
        let (mut mount, mut entry) =
            (self.load(start.wrapping_add(places.mount), word), self.load(start.wrapping_add(places.entry), word));
        // The walk finds the last name first. The names are reversed at the end.
        let mut ends = [(0_usize, 0_usize); DEEPEST_PATH];
        let mut found = 0;
        for _ in 0..2 * DEEPEST_PATH {
            let parent = self.load(entry.wrapping_add(places.parent), word);
            if entry == self.load(mount.wrapping_add(places.root), word) {
                let whole = mount.wrapping_sub(places.inside);
                let outer = self.load(whole.wrapping_add(places.mounted_in), word);
                if outer == whole || outer == 0 {
                    break;
                }
                entry = self.load(whole.wrapping_add(places.mounted_at), word);
                mount = outer.wrapping_add(places.inside);
                continue;
            }
            if parent == entry || parent == 0 || found == DEEPEST_PATH {
                break;
            }
            let name = self.load(entry.wrapping_add(places.name), word);
            let from = self.state.scratch.len();
            self.state.scratch.push(b'/');
            self.text(name, LONGEST_NAME);
            ends[found] = (from, self.state.scratch.len());
            found += 1;
            entry = parent;
        }
        let written = self.state.scratch.len();
        for (from, to) in ends[..found].iter().rev() {
            self.state.scratch.extend_from_within(*from..*to);
        }
        if found == 0 {
            self.state.scratch.push(b'/');
        }
        let length = (self.state.scratch.len() - written).min(limit);
        self.state.scratch.copy_within(written..written + length, mark);
        self.state.scratch.truncate(mark + length);
    }

    /// Appends a string from guest memory up to its terminating 0, at most `most` bytes. Stops where memory cannot be read.
    pub(super) fn text(&mut self, at: u64, most: usize) {
        let start = self.state.scratch.len();
        let most = most.min(MOST_SCRATCH.saturating_sub(start));
        let mut at = at;
        let mut chunk = [0; 64];
        while self.state.scratch.len() - start < most {
            // No read crosses a 64-byte boundary, so none touches a page that the string does not reach.
            let length = (64 - (at % 64) as usize).min(most - (self.state.scratch.len() - start));
            if !self.context.read(at, &mut chunk[..length]) {
                self.unread(at);
                return;
            }
            let end = chunk[..length].iter().position(|byte| *byte == 0);
            self.state.scratch.extend_from_slice(&chunk[..end.unwrap_or(length)]);
            if end.is_some() {
                return;
            }
            at = at.wrapping_add(length as u64);
        }
    }

    /// Evaluates an expression. Returns a number, or `None` if it appended bytes to the scratch buffer.
    pub(super) fn any(&mut self, any: &Any) -> Option<u64> {
        match any {
            Any::Num(num) => Some(self.num(num)),
            Any::Bytes(bytes) => {
                self.bytes(bytes);
                None
            }
        }
    }

    /// Appends an encoded part of a key or tuple: a number in 8 bytes, or bytes after their 4-byte length.
    pub(super) fn encode(&mut self, any: &Any) {
        match any {
            Any::Num(num) => {
                let number = self.num(num);
                self.state.scratch.extend_from_slice(&number.to_le_bytes());
            }
            // The most frequent part of a key, so it has a fast path: the length is computed first and needs no second write.
            Any::Bytes(Bytes::Comm) => {
                let comm = self.context.comm();
                let (at, length) = (self.state.scratch.len(), length(&comm));
                let mut part = [0; 4 + 16];
                part[..4].copy_from_slice(&(length as u32).to_le_bytes());
                part[4..].copy_from_slice(&comm);
                // Appending a constant number of bytes needs no call of memcpy.
                self.state.scratch.extend_from_slice(&part);
                self.state.scratch.truncate(at + 4 + length);
                self.charge_from(at + 4);
            }
            Any::Bytes(bytes) => {
                let at = self.state.scratch.len();
                self.state.scratch.extend_from_slice(&[0; 4]);
                self.bytes(bytes);
                let length = (self.state.scratch.len() - at - 4) as u32;
                self.state.scratch[at..at + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    /// Appends an encoded map key.
    pub(super) fn key(&mut self, key: &Key) {
        for part in key {
            self.encode(part);
        }
    }
}

/// The length of a name up to its first 0 byte, or 16. All bytes are tested at once.
#[inline]
fn length(name: &[u8; 16]) -> usize {
    const ONES: u128 = u128::MAX / 0xff;
    let name = u128::from_le_bytes(*name);
    // The lowest set bit is the highest bit of the first byte that is 0.
    let zeros = name.wrapping_sub(ONES) & !name & ONES << 7;
    zeros.trailing_zeros() as usize / 8
}

/// The rest of an encoded tuple after parts of these kinds (true: a number).
pub(super) fn skip<'a>(mut bytes: &'a [u8], behind: &[bool]) -> &'a [u8] {
    for is_number in behind {
        bytes = part(if *is_number { &Type::U64 } else { &Type::Buffer }, bytes).1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// BY-1: a name ends at its first 0.
        #[test]
        fn a_name_ends_at_its_first_zero(bytes in proptest::array::uniform16(prop_oneof![Just(0_u8), Just(1), Just(0x80), any::<u8>()])) {
            prop_assert_eq!(length(&bytes), bytes.iter().position(|byte| *byte == 0).unwrap_or(16));
        }
    }
}
