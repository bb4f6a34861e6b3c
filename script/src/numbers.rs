//! Evaluates numeric expressions at a hit. All arithmetic is in 64 bits and wraps. Division is unsigned.
//! Operands that are strings are built in the scratch buffer and removed again.

use super::acts::Goes;
use super::program::{Act, Bytes, Key, Num, Op};
use super::run::{Runner, State};
use super::show::{in_mapping, part};
use super::stored::Stored;
use super::strings::skip;
use super::types::Type;
use alloc::vec;

/// The largest size of warnings about unreadable memory that wait to be printed, in bytes.
pub(super) const MOST_WARNINGS: usize = 1 << 20;

impl Runner<'_> {
    /// The value of a numeric expression. Constants take a short cut.
    #[inline]
    pub(super) fn num(&mut self, num: &Num) -> u64 {
        if let Num::Const(number) = num { *number } else { self.work_out(num) }
    }

    /// The value of a numeric expression. Memory that cannot be read, missing keys and missing bytes count as 0.
    #[expect(clippy::too_many_lines, reason = "one arm per operation: a table in the form of a match")]
    pub(super) fn work_out(&mut self, num: &Num) -> u64 {
        match num {
            Num::Const(number) => *number,
            Num::Variable(variable) => self.state.variables.get(usize::from(*variable)).map_or(0, |variable| variable.number),
            Num::Argument(number) => self.context.argument((*number).into()),
            Num::StackWord(number) => self.context.stack_word((*number).into()),
            Num::Result => self.context.result(),
            Num::Register(register) => self.context.register(*register),
            Num::Tgid => self.context.process().into(),
            Num::Pid => self.context.pid().into(),
            Num::Cpu => self.context.cpu() as u64,
            Num::Now => self.context.now(),
            Num::Elapsed => self.context.now().wrapping_sub(self.state.started),
            Num::Random => self.random(),
            Num::Function => self.context.address(),
            Num::InProgram(of) => {
                let address = self.num(of);
                in_mapping(address, self.context.mapping_at(address))
            }
            Num::Task => self.context.task(),
            Num::Cpus => self.state.cpus,
            Num::InUser => self.context.in_user().into(),
            Num::Load { at, size, signed } => {
                let at = self.num(at);
                extend(self.load(at, *size), *size, *signed)
            }
            Num::Bits { of, shift, width, signed } => {
                let value = self.num(of) >> shift;
                let unused = 64 - u32::from((*width).clamp(1, 64));
                if *signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
            }
            Num::Cut { of, size, signed } => extend(self.num(of), *size, *signed),
            Num::Map(map, key) => {
                let aggregate = match self.program.maps.get(usize::from(*map)).map(|facts| &facts.value) {
                    Some(Type::Aggregate(aggregate)) => Some(*aggregate),
                    _ => None,
                };
                self.look(*map, key).map_or(0, |stored| stored.number(aggregate))
            }
            Num::Part { of, behind } => {
                let mark = self.state.scratch.len();
                self.bytes(of);
                let at = skip(&self.state.scratch[mark..], behind);
                let (value, _) = part(&Type::U64, at);
                let number = value.number();
                self.state.scratch.truncate(mark);
                number
            }
            Num::Inside { of, at, size } => {
                let mark = self.state.scratch.len();
                let at = usize::try_from(self.num(at)).unwrap_or(usize::MAX);
                self.bytes(of);
                let size = usize::from(*size);
                let held = self.state.scratch[mark..].get(at..).and_then(|rest| rest.get(..size));
                let number = held.map_or(0, |held| self.program.number(held));
                self.state.scratch.truncate(mark);
                number
            }
            Num::OneLess(of) => self.num(of).saturating_sub(1),
            Num::Negate(of) => self.num(of).wrapping_neg(),
            Num::Not(of) => u64::from(self.num(of) == 0),
            Num::Complement(of) => !self.num(of),
            Num::Binary(op, both) => {
                let (one, other) = (self.num(&both[0]), self.num(&both[1]));
                self.binary(*op, one, other)
            }
            Num::And(both) => u64::from(self.num(&both[0]) != 0 && self.num(&both[1]) != 0),
            Num::Or(both) => u64::from(self.num(&both[0]) != 0 || self.num(&both[1]) != 0),
            Num::Choice(three) => {
                let chosen = if self.num(&three[0]) != 0 { &three[1] } else { &three[2] };
                self.num(chosen)
            }
            Num::Either(both) => match self.num(&both[0]) {
                0 => self.num(&both[1]),
                value => value,
            },
            Num::SameText(both, limit) => {
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                self.two(both, |one, other| u64::from(one[..one.len().min(most)] == other[..other.len().min(most)]))
            }
            Num::Find(both) => self.two(both, |one, other| find(one, other).map_or(u64::MAX, |at| at as u64)),
            Num::Length(of) => {
                let mark = self.state.scratch.len();
                self.bytes(of);
                let length = self.state.scratch.len() - mark;
                self.state.scratch.truncate(mark);
                length as u64
            }
            Num::Compare(both, most) => self.two(both, |one, other| {
                let end = |bytes: &[u8]| bytes.len().min(*most as usize);
                one[..end(one)].cmp(&other[..end(other)]) as i64 as u64
            }),
            Num::StepVariable { variable, by, before } => {
                if self.leaving != Goes::On {
                    return 0;
                }
                let Some(variable) = self.state.variables.get_mut(usize::from(*variable)) else { return 0 };
                let was = variable.number;
                variable.number = was.wrapping_add(*by);
                if *before { was } else { variable.number }
            }
            Num::StepMap { map, key, by, before } => {
                let mark = self.state.scratch.len();
                self.key(key);
                if self.leaving != Goes::On {
                    return 0;
                }
                let State { maps, scratch, .. } = &mut *self.state;
                let place = maps.get_mut(usize::from(*map)).and_then(|map| map.place(&scratch[mark..], || Stored::Number(0)));
                let mut was = 0;
                if let Some(stored) = place {
                    was = stored.number(None);
                    *stored = Stored::Number(was.wrapping_add(*by));
                }
                scratch.truncate(mark);
                if *before { was } else { was.wrapping_add(*by) }
            }
            Num::HasKey(map, key) => u64::from(self.look(*map, key).is_some()),
            Num::Delete(map, key) => {
                let mark = self.state.scratch.len();
                self.key(key);
                if self.leaving != Goes::On {
                    return 0;
                }
                let State { maps, scratch, .. } = &mut *self.state;
                let was = maps.get_mut(usize::from(*map)).is_some_and(|map| map.remove(&scratch[mark..]));
                scratch.truncate(mark);
                was.into()
            }
            Num::Keys(map) => self.state.maps.get(usize::from(*map)).map_or(0, |map| map.len() as u64),
            Num::Frames(stack) => {
                let mark = self.state.scratch.len();
                self.bytes(stack);
                let frames = (self.state.scratch.len() - mark) / 8;
                self.state.scratch.truncate(mark);
                frames as u64
            }
            Num::Swap(of, size) => {
                let value = self.num(of);
                value.swap_bytes() >> (64 - 8 * u32::from((*size).clamp(1, 8)))
            }
            Num::LastWriter(address, length) => self.last_writer(address, *length),
            Num::Behind(acts, value) => {
                if self.leads_on(acts) {
                    self.num(value)
                } else {
                    0
                }
            }
        }
    }

    /// Executes the statements of a block expression. If one of them leaves the block (`return`, `break`, `continue`), notes
    /// that in `leaving` and returns false: the value is not needed then. Does nothing if an earlier block of the same
    /// statement has left it.
    pub(super) fn leads_on(&mut self, acts: &[Act]) -> bool {
        if self.leaving != Goes::On {
            return false;
        }
        let goes = self.acts(acts);
        if goes != Goes::On {
            self.leaving = goes;
        }
        goes == Goes::On
    }

    /// The next random number, of 32 bits.
    pub(super) fn random(&mut self) -> u64 {
        // SplitMix64.
        self.state.random = self.state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) >> 32
    }

    #[inline]
    pub(super) fn binary(&mut self, op: Op, one: u64, other: u64) -> u64 {
        match op {
            Op::Add => one.wrapping_add(other),
            Op::Subtract => one.wrapping_sub(other),
            Op::Multiply => one.wrapping_mul(other),
            Op::Divide | Op::Modulo if other == 0 => {
                if !self.state.divided_by_zero {
                    self.state.divided_by_zero = true;
                    self.warn("WARNING: a division by zero gave 0 (said once)");
                }
                0
            }
            Op::Divide => one / other,
            Op::Modulo => one % other,
            Op::BitAnd => one & other,
            Op::BitOr => one | other,
            Op::BitXor => one ^ other,
            Op::ShiftLeft => one << (other & 63),
            Op::ShiftRight => one >> (other & 63),
            Op::Equal => u64::from(one == other),
            Op::Unequal => u64::from(one != other),
            Op::Less => u64::from(one < other),
            Op::LessEqual => u64::from(one <= other),
            Op::LessSigned => u64::from((one as i64) < other as i64),
            Op::LessEqualSigned => u64::from(one as i64 <= other as i64),
        }
    }

    /// The value at a map's key. The key is built in the scratch buffer and removed again.
    pub(super) fn look(&mut self, map: u16, key: &Key) -> Option<&Stored> {
        let mark = self.state.scratch.len();
        self.key(key);
        let State { maps, scratch, .. } = &mut *self.state;
        let found = maps.get_mut(usize::from(map)).and_then(|map| map.get(&scratch[mark..]));
        scratch.truncate(mark);
        found
    }

    /// A number of `size` bytes in guest memory, in the guest's byte order. 0 if the memory cannot be read.
    pub(super) fn load(&mut self, at: u64, size: u8) -> u64 {
        let mut bytes = [0; 8];
        let size = usize::from(size.min(8));
        if !self.context.read(at, &mut bytes[..size]) {
            self.unread(at);
            return 0;
        }
        self.program.number(&bytes[..size])
    }

    /// Warns about unreadable memory, if the script asks for that. Unreadable memory reads as zeros.
    #[cold]
    pub(super) fn unread(&mut self, at: u64) {
        if self.program.warns_of_reads && self.state.warned.len() < MOST_WARNINGS {
            let probe = self.probe;
            super::show::put(
                &mut self.state.warned,
                format_args!("WARNING: {probe}: the memory at {at:#x} cannot be read: Bad address (-14)\n"),
            );
        }
    }

    /// Evaluates two byte expressions and passes both to `with`.
    pub(super) fn two<T>(&mut self, both: &[Bytes; 2], with: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let mark = self.state.scratch.len();
        self.bytes(&both[0]);
        let split = self.state.scratch.len();
        self.bytes(&both[1]);
        let result = with(&self.state.scratch[mark..split], &self.state.scratch[split..]);
        self.state.scratch.truncate(mark);
        result
    }
}

/// Truncates a number to `size` bytes and extends it to 64 bits, by its sign or by zeros.
pub(super) fn extend(value: u64, size: u8, signed: bool) -> u64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    if signed { ((value << unused) as i64 >> unused) as u64 } else { value << unused >> unused }
}

/// Substring search. Needles above 64 bytes use KMP.
fn find(within: &[u8], wanted: &[u8]) -> Option<usize> {
    const SHORT: usize = 64;
    if wanted.is_empty() {
        return Some(0);
    }
    if wanted.len() <= SHORT {
        return within.windows(wanted.len()).position(|window| window == wanted);
    }
    // The KMP failure function: for each prefix, the length of its longest proper suffix that is also a prefix.
    let mut common = vec![0_usize; wanted.len()];
    let step = |common: &[usize], mut same: usize, byte: u8| {
        while same > 0 && wanted.get(same) != Some(&byte) {
            same = common[same - 1];
        }
        if wanted.get(same) == Some(&byte) { same + 1 } else { same }
    };
    for at in 1..wanted.len() {
        common[at] = step(&common, common[at - 1], wanted[at]);
    }
    let mut same = 0;
    for (at, byte) in within.iter().enumerate() {
        same = step(&common, same, *byte);
        if same == wanted.len() {
            return Some(at + 1 - same);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// BY-1: the search finds the first match, also of repetitive strings.
        #[test]
        fn a_string_is_found_where_it_first_stands(
            within in proptest::collection::vec(0_u8..2, 0..400),
            wanted in proptest::collection::vec(0_u8..2, 60..70),
            from in 0_usize..400,
        ) {
            let slow = |wanted: &[u8]| within.windows(wanted.len()).position(|window| window == wanted);
            prop_assert_eq!(find(&within, &wanted), slow(&wanted));
            if let Some(inside) = within.get(from..).and_then(|rest| rest.get(..wanted.len())) {
                prop_assert_eq!(find(&within, inside), slow(inside));
            }
        }
    }
}
