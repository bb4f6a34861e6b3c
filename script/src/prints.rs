//! Executes the statements that write output.

use super::acts::Goes;
use super::format::Piece;
use super::program::{Act, Any, Num, Stream};
use super::run::{Runner, State};
use super::show::Value;
use super::stored::Stored;
use super::types::Type;
use alloc::vec::Vec;

/// The largest number of values in one printf.
pub(super) const MOST_VALUES: usize = 32;

impl Runner<'_> {
    /// Executes a statement that writes output, and ends the script if too much output waits to be written. `mark` is the
    /// length of the scratch buffer. Does nothing for other statements.
    pub(super) fn print(&mut self, act: &Act, mark: usize) -> Goes {
        let goes = self.write_out(act, mark);
        self.check_waiting();
        goes
    }

    fn write_out(&mut self, act: &Act, mark: usize) -> Goes {
        match act {
            Act::Printf(what, stream) => return self.printf(&what.format, &what.values, *stream),
            Act::PrintValue(what) => {
                let value = self.any(&what.0);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { scratch, out, view, .. } = &mut *self.state;
                let value = value.map_or(Value::Bytes(&scratch[mark..]), Value::Number);
                view.show().printed_value(out, &what.1, value);
            }
            Act::PrintMap { map, top, div } => {
                let (top, div) = (self.num(top), self.num(div));
                let keys = self.state.maps.get(usize::from(*map)).map_or(0, |map| map.len() as u64);
                if self.leaving != Goes::On || !self.may_handle(keys) || !self.may_turn(0) {
                    return Goes::On;
                }
                let State { maps, out, view, .. } = &mut *self.state;
                if let Some((facts, map)) = self.program.maps.get(usize::from(*map)).zip(maps.get(usize::from(*map))) {
                    view.show().map(out, facts, map, top, div.max(1));
                }
            }
            Act::PrintEntry { map, key } => {
                self.key(key);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { maps, scratch, out, view, .. } = &mut *self.state;
                let Some((facts, map)) = self.program.maps.get(usize::from(*map)).zip(maps.get_mut(usize::from(*map))) else {
                    return Goes::On;
                };
                let aggregate = if let Type::Aggregate(aggregate) = facts.value { Some(aggregate) } else { None };
                let value = match map.get(&scratch[mark..]) {
                    Some(Stored::Bytes(bytes)) => Value::Bytes(bytes),
                    Some(stored) if aggregate.is_some() => {
                        view.show().printed_entry(out, &facts.value, stored);
                        return Goes::On;
                    }
                    Some(stored) => Value::Number(stored.number(None)),
                    None => Value::Number(0),
                };
                view.show().printed_value(out, &facts.value, value);
            }
            Act::Time(format) => {
                let now = self.context.now().wrapping_add(self.state.view.epoch);
                let State { scratch, out, view, .. } = &mut *self.state;
                super::times::format_time(scratch, format, now);
                view.show().text(out, "time", &scratch[mark..]);
            }
            Act::Join { at, separator } => self.join(at, separator, mark),
            _ => {}
        }
        Goes::On
    }

    /// Writes a format with its values to a stream. With [`Stream::Failure`] the script ends.
    pub(super) fn printf(&mut self, format: &super::format::Format, values: &[(Any, Type)], stream: Stream) -> Goes {
        // Most formats have few values, which need a smaller array.
        match values.len() {
            0..=4 => self.printf_of::<4>(format, values, stream),
            _ => self.printf_of::<MOST_VALUES>(format, values, stream),
        }
    }

    fn printf_of<const MOST: usize>(&mut self, format: &super::format::Format, values: &[(Any, Type)], stream: Stream) -> Goes {
        let mark = self.state.scratch.len();
        // First all values are computed, in order: a number is kept here, bytes in the scratch buffer up to this offset.
        // Then the text is written.
        let mut ends = [(0_u64, 0_usize); MOST];
        for ((value, _), end) in values.iter().zip(&mut ends) {
            let number = self.any(value);
            *end = (number.unwrap_or(0), self.state.scratch.len());
        }
        if self.leaving != Goes::On {
            return Goes::On;
        }
        let State { scratch, out, warned, view, .. } = &mut *self.state;
        let show = view.show();
        let is_output = matches!(stream, Stream::Output | Stream::File);
        let mut text = core::mem::take(if is_output { out } else { warned });
        let json = view.style.json && is_output;
        let mut inner = if json { Vec::new() } else { core::mem::take(&mut text) };
        let (mut start, mut values) = (mark, values.iter().zip(&ends));
        for piece in &format.pieces {
            match piece {
                Piece::Text(plain) => inner.extend_from_slice(plain),
                Piece::Value(conversion) => {
                    let Some(((_, kind), (number, end))) = values.next() else { break };
                    let value = if start == *end && (kind.is_number() || matches!(kind, Type::Aggregate(_))) {
                        Value::Number(*number)
                    } else {
                        Value::Bytes(scratch.get(start..*end).unwrap_or_default())
                    };
                    start = *end;
                    conversion.write(&show, &mut inner, kind, value);
                }
            }
        }
        if json {
            show.text(&mut text, if stream == Stream::File { "cat" } else { "printf" }, &inner);
        } else {
            text = inner;
        }
        *(if is_output { out } else { warned }) = text;
        if stream == Stream::Failure {
            self.fail("the script ended itself by fail() or assert()");
            return Goes::Return;
        }
        Goes::On
    }

    /// Prints the strings of an array of pointers such as `argv`, up to a NULL pointer and at most 16 of them.
    pub(super) fn join(&mut self, at: &Num, separator: &[u8], mark: usize) {
        let mut at = self.num(at);
        if self.leaving != Goes::On {
            return;
        }
        let word = self.program.word;
        for number in 0..16 {
            let pointer = self.load(at, word);
            if pointer == 0 {
                break;
            }
            if number > 0 {
                self.state.scratch.extend_from_slice(separator);
            }
            self.text(pointer, 1024);
            at = at.wrapping_add(word.into());
        }
        let State { scratch, out, view, .. } = &mut *self.state;
        scratch.push(b'\n');
        view.show().text(out, "join", &scratch[mark..]);
    }
}
