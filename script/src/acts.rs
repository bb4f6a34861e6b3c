//! Executes the statements of a compiled block, one [`Act`] after the other, and charges them to the hit's budget.
//!
//! A block expression (`{ ...; value }`) may contain `return`, `break` or `continue`. Its statement then stops: the
//! evaluation of the expression notes the jump in [`Runner::leaving`], an act does nothing once that is set, and
//! [`Runner::act`] makes the jump.

use super::map::Keys;
use super::program::{Act, Any};
use super::run::{BYTES_A_KEY, BYTES_A_STEP, MOST_HELD, MOST_TURNS, MOST_WAITING, MOST_WORKED, Runner, State};
use super::stored::Stored;
use super::types::Type;
use alloc::sync::Arc;

/// The message for a hit that has spent its budget.
pub(super) const TOO_MUCH_WORK: &str = "one hit took more work than to put together 1 GiB of strings: the script was ended";

impl Runner<'_> {
    /// Executes statements in order, until one leaves the block.
    pub(super) fn acts(&mut self, acts: &[Act]) -> Goes {
        for act in acts {
            let goes = self.act(act);
            if goes != Goes::On {
                return goes;
            }
        }
        Goes::On
    }

    /// Executes a statement and removes from the scratch buffer all that it put there.
    pub(super) fn act(&mut self, act: &Act) -> Goes {
        let mark = self.state.scratch.len();
        let goes = self.do_act(act, mark);
        self.state.scratch.truncate(mark);
        if self.leaving == Goes::On { goes } else { self.left(goes) }
    }

    /// Returns how a block inside an expression ended, and forgets it.
    #[cold]
    fn left(&mut self, goes: Goes) -> Goes {
        let leaving = core::mem::replace(&mut self.leaving, Goes::On);
        if goes == Goes::On { leaving } else { goes }
    }

    /// Executes a statement. `mark` is the length of the scratch buffer: the statement's keys and strings are appended there.
    #[expect(clippy::too_many_lines, reason = "one arm per operation: a table in the form of a match")]
    pub(super) fn do_act(&mut self, act: &Act, mark: usize) -> Goes {
        match act {
            Act::Collect(map, key, aggregate, value) => {
                let value = self.num(value);
                self.key(key);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map))
                    && let Some(stored) = map.place(&scratch[mark..], || Stored::of(*aggregate))
                {
                    stored.add(*aggregate, value);
                }
            }
            Act::Number(variable, value) => {
                let number = self.num(value);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                if let Some(variable) = self.state.variables.get_mut(usize::from(*variable)) {
                    variable.number = number;
                }
            }
            Act::Bytes(variable, value) => {
                self.bytes(value);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { variables, scratch, held, .. } = &mut *self.state;
                if let Some(variable) = variables.get_mut(usize::from(*variable)) {
                    let before = variable.bytes.capacity();
                    variable.bytes.clear();
                    variable.bytes.extend_from_slice(&scratch[mark..]);
                    *held = held.saturating_add(variable.bytes.capacity()).saturating_sub(before);
                    self.check_held();
                }
            }
            Act::Map(map, key, Any::Num(value)) => {
                let number = self.num(value);
                self.key(key);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map))
                    && let Some(stored) = map.place(&scratch[mark..], || Stored::Number(0))
                {
                    *stored = Stored::Number(number);
                }
            }
            Act::Map(map, key, Any::Bytes(value)) => {
                self.bytes(value);
                let split = self.state.scratch.len();
                self.key(key);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                let State { maps, scratch, .. } = &mut *self.state;
                if let Some(map) = maps.get_mut(usize::from(*map)) {
                    map.put_bytes(&scratch[split..], &scratch[mark..split]);
                }
            }
            Act::Eval(value) => {
                self.num(value);
            }
            Act::Drop(value) => self.bytes(value),
            Act::If(condition, then, otherwise) => {
                let chosen = if self.num(condition) != 0 { then } else { otherwise };
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                return self.acts(chosen);
            }
            Act::While(condition, body, behind, steps) => {
                while self.num(condition) != 0 && self.leaving == Goes::On {
                    if !self.may_turn(*steps) {
                        return Goes::Return;
                    }
                    match self.acts(body) {
                        Goes::Break => break,
                        Goes::Return => return Goes::Return,
                        Goes::On | Goes::Continue => {}
                    }
                    self.acts(behind);
                }
            }
            Act::ForMap(map, variable, body, steps) => return self.for_map(*map, *variable, body, *steps),
            Act::Block(acts) => return self.acts(acts),
            Act::Return => return Goes::Return,
            Act::Break => return Goes::Break,
            Act::Continue => return Goes::Continue,
            Act::Printf(..)
            | Act::PrintValue(_)
            | Act::PrintMap { .. }
            | Act::PrintEntry { .. }
            | Act::Time(_)
            | Act::Join { .. } => return self.print(act, mark),
            Act::Clear(map) => {
                if let Some(map) = self.state.maps.get_mut(usize::from(*map)) {
                    map.clear();
                }
            }
            Act::Zero(map) => {
                let keys = self.state.maps.get(usize::from(*map)).map_or(0, |map| map.len() as u64);
                if self.may_handle(keys)
                    && let Some(map) = self.state.maps.get_mut(usize::from(*map))
                {
                    map.zero();
                }
            }
            Act::Exit(status) => {
                let status = self.num(status);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                self.state.exit = Some(status);
                return Goes::Return;
            }
            Act::Unwatch(address) => {
                let address = self.num(address);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                for (watchpoint, offset) in &self.state.objects {
                    self.context.unwatch(watchpoint, address.wrapping_add(*offset));
                }
            }
            Act::Override(value) => {
                let value = self.num(value);
                if self.leaving != Goes::On {
                    return Goes::On;
                }
                if !self.context.skip(value) {
                    self.warn("override() did nothing here: the function is not at its first instruction");
                }
            }
        }
        Goes::On
    }

    /// Charges one iteration of a loop to this hit. If that is too much, ends the script and returns false.
    pub(super) fn may_turn(&mut self, steps: u32) -> bool {
        self.state.worked += u64::from(steps) * BYTES_A_STEP;
        self.state.turns += 1;
        if self.state.turns > MOST_TURNS {
            self.fail("a loop took more than 1,000,000 turns in one hit: the script was ended");
            return false;
        }
        if self.state.failure.is_some() {
            return false;
        }
        if self.state.worked > MOST_WORKED {
            self.fail(TOO_MUCH_WORK);
            return false;
        }
        self.check_waiting()
    }

    /// Ends the script and returns false if too much output waits to be written.
    pub(super) fn check_waiting(&mut self) -> bool {
        let may_go_on = self.state.out.len().max(self.state.warned.len()) <= MOST_WAITING;
        if !may_go_on {
            self.fail("more than 256 MiB of output wait to be written: the script was ended");
        }
        may_go_on
    }

    /// Ends the script if its variables hold too much.
    fn check_held(&mut self) {
        if self.state.held > MOST_HELD {
            self.fail("the script has put more than 256 MiB of strings in variables: it was ended");
        }
    }

    /// Ends the script with a message. No later act of this hit runs.
    pub(super) fn fail(&mut self, why: &'static str) {
        self.leaving = Goes::Return;
        self.state.failure.get_or_insert(why);
        self.state.exit = Some(1);
    }

    /// Appends a line to the warnings.
    pub(super) fn warn(&mut self, what: &str) {
        self.state.warned.extend_from_slice(what.as_bytes());
        self.state.warned.push(b'\n');
    }

    /// Charges work on this many map keys to this hit. If that is too much, ends the script and returns false.
    pub(super) fn may_handle(&mut self, keys: u64) -> bool {
        self.state.worked = self.state.worked.saturating_add(keys.saturating_mul(BYTES_A_KEY));
        if self.state.worked > MOST_WORKED {
            self.fail("one hit sorted, printed or changed more than 8,000,000 keys of maps: the script was ended");
            return false;
        }
        true
    }

    /// The sorted keys of a map. `None` if the hit's budget does not allow sorting; the script is then ended.
    fn sorted_keys(&mut self, map: u16) -> Option<Arc<Keys>> {
        let mut asked = 0;
        let left = MOST_WORKED.saturating_sub(self.state.worked) / BYTES_A_KEY;
        let keys = self.state.maps.get_mut(usize::from(map))?.keys(|keys| {
            asked = keys;
            keys <= left
        });
        self.may_handle(asked).then_some(keys).flatten()
    }

    /// Executes a loop over a map. In each turn the variable is an encoded tuple of key and value. A key that the body has
    /// removed in the meantime is skipped.
    pub(super) fn for_map(&mut self, map: u16, variable: u16, body: &[Act], steps: u32) -> Goes {
        let Some(facts) = self.program.maps.get(usize::from(map)) else { return Goes::On };
        let key_is_number = facts.keys.len() == 1 && facts.keys[0].is_number();
        let several = facts.keys.len() > 1;
        let value_is_number = facts.value.is_number() || matches!(facts.value, Type::Aggregate(_));
        let aggregate = if let Type::Aggregate(aggregate) = facts.value { Some(aggregate) } else { None };
        // The body may change the map, so the loop uses the keys that the map had at the start.
        let Some(keys) = self.sorted_keys(map) else { return Goes::Return };
        for key in (0..keys.len()).map_while(|number| keys.get(number)) {
            if !self.may_turn(steps) {
                return Goes::Return;
            }
            let State { maps, variables, held, .. } = &mut *self.state;
            let Some(stored) = maps.get_mut(usize::from(map)).and_then(|map| map.get(key)) else { continue };
            let Some(variable) = variables.get_mut(usize::from(variable)) else { return Goes::On };
            let before = variable.bytes.capacity();
            variable.bytes.clear();
            if several {
                variable.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            }
            // A key with one part has the encoding of a part. Several parts become an inner tuple, after their length.
            debug_assert!(!key_is_number || key.len() == 8);
            variable.bytes.extend_from_slice(key);
            match stored {
                Stored::Bytes(bytes) => {
                    variable.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                    variable.bytes.extend_from_slice(bytes);
                }
                stored if value_is_number => variable.bytes.extend_from_slice(&stored.number(aggregate).to_le_bytes()),
                _ => {}
            }
            *held = held.saturating_add(variable.bytes.capacity()).saturating_sub(before);
            self.check_held();
            if self.leaving != Goes::On {
                return Goes::Return;
            }
            match self.acts(body) {
                Goes::Break => break,
                Goes::Return => return Goes::Return,
                Goes::On | Goes::Continue => {}
            }
        }
        Goes::On
    }
}

/// The way in which the execution of a statement ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    /// The next statement follows.
    On,
    /// The innermost loop ends.
    Break,
    /// The next iteration of the innermost loop follows.
    Continue,
    /// The block of the script ends.
    Return,
}
