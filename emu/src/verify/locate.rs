//! Finds the instruction at which two runs part.
//!
//! A round runs both guests again and compares them completely at points of guest time, until they differ. The next
//! round looks between the last two points. At last only one line of code is left: runs can stop only behind a branch
//! that was taken. Its instructions are recorded in both runs. The clock counts bytes of the guest's own code, so
//! instructions with equal times belong together, and those that ran in the probe window are simply missing.

use super::pair::Pair;
use super::registers::{self, Pad};
use super::{Instruction, News, Parted, Place, Run, Seen, Side, Word};
use crate::machine::Step;
use crate::probed::Session;
use std::ops::Range;
use trapline_isa::mem::Memory;

/// Comparisons in a round.
const PARTS: u64 = 32;

/// The place where the runs part in this range of guest time, in nanoseconds.
pub(super) fn place<E>(
    start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>,
    times: Range<u64>,
    tell: &mut dyn FnMut(News<'_>),
) -> Result<Parted, E> {
    let mut times = times;
    loop {
        tell(News::Searching { from: times.start, to: times.end });
        times = match round(start, &times)? {
            Round::Equal => return Ok(Parted::Nowhere),
            Round::AtStart(seen) => return Ok(Parted::AtStart(seen)),
            Round::Between(narrower) => narrower,
        };
        if times.end.saturating_sub(times.start) <= 1 {
            break;
        }
    }
    let words = different_words(start, &times)?;
    Ok(recorded(start, &times, words)?.map_or(Parted::Nowhere, |place| Parted::At(Box::new(place))))
}

/// The result of a round.
enum Round {
    /// The runs do not differ.
    Equal,
    /// They differ at the start of the range already.
    AtStart(Seen),
    /// They come to differ in this part of the range.
    Between(Range<u64>),
}

/// The words of memory that differ behind the line.
fn different_words<E>(start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>, times: &Range<u64>) -> Result<Vec<Word>, E> {
    let mut pair = Pair::new(start)?;
    // A difference here was found by the round before.
    let _ = pair.advance(times.start);
    let _ = pair.advance(times.end);
    Ok(pair.different_words(MOST_WORDS))
}

/// Runs both guests to the start of the range, and then compares them at points in it. Returns the part of the range in
/// which they come to differ.
fn round<E>(start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>, times: &Range<u64>) -> Result<Round, E> {
    let mut pair = Pair::new(start)?;
    let step = (times.end.saturating_sub(times.start) / PARTS).max(1);
    let mut last = times.start;
    if let Err(seen) = pair.advance(last).and_then(|()| pair.compare_all()) {
        return Ok(Round::AtStart(seen));
    }
    while last < times.end && !pair.has_ended() {
        let until = last.saturating_add(step).min(times.end);
        if pair.advance(until).and_then(|()| pair.compare_all()).is_err() {
            return Ok(Round::Between(last..until));
        }
        last = until;
    }
    Ok(Round::Equal)
}

/// Records the instructions in this range of guest time in both runs, and compares them.
fn recorded<E>(
    start: &mut dyn FnMut(Side) -> Result<Box<dyn Run>, E>,
    times: &Range<u64>,
    words: Vec<Word>,
) -> Result<Option<Place>, E> {
    let mut pair = Pair::new(start)?;
    let _ = pair.advance(times.start);
    let watched: Vec<u64> = words.iter().map(|word| word.physical).collect();
    let (unprobed, probed) = pair.sessions();
    unprobed.machine_mut().record_steps(watched.clone());
    probed.machine_mut().record_steps(watched);
    // The line ends with the taken branch at which the runs can stop: its effects are seen in front of the next line.
    let _ = pair.advance(times.end);
    let _ = pair.advance(times.end.saturating_add(BEHIND));
    let (unprobed, probed) = pair.sessions();
    let steps = [unprobed.machine_mut().take_steps(), probed.machine_mut().take_steps()];
    let names: Vec<&'static str> = unprobed.machine().registers().into_iter().map(|(name, _)| name).collect();
    let cpus = unprobed.machine_mut().pcs().len();
    let found = (0..cpus).filter_map(|cpu| fork(cpu, &steps, &names, &words, probed));
    let first = found.min_by_key(|fork| steps[0].get(fork.here).map_or(0, |step| step.time));
    Ok(first.map(|fork| fork.place(&steps, unprobed, probed)))
}

/// The largest number of words of memory that are watched while instructions are recorded.
const MOST_WORDS: usize = 16;
/// Nanoseconds of guest time that are recorded behind the line.
const BEHIND: u64 = 50;

/// The place where the records of one CPU part, as indexes into the records.
struct Fork {
    cpu: usize,
    /// The last instruction, of the unprobed record, in front of which both runs are equal.
    here: usize,
    next: [Option<usize>; 2],
    is_exact: bool,
    registers: Vec<(&'static str, u64, u64)>,
    memory: Option<Word>,
}

/// Compares the records of a CPU. Without a difference, the result names the first instruction and is not exact.
fn fork(cpu: usize, steps: &[Vec<Step>; 2], names: &[&'static str], words: &[Word], probed: &Session) -> Option<Fork> {
    let pad = Pad::of(probed);
    let of = |side: usize| (0..steps[side].len()).filter(|at| steps[side][*at].cpu == cpu).collect::<Vec<_>>();
    let (unprobed, other) = (of(0), of(1));
    let first = *unprobed.first()?;
    let (mut i, mut j, mut here) = (0, 0, None);
    while let (Some(one), Some(two)) = (unprobed.get(i), other.get(j)) {
        let (a, b) = (&steps[0][*one], &steps[1][*two]);
        match a.time.cmp(&b.time) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                let differ = registers::differing(names, [&a.registers, &b.registers], &pad, probed);
                let memory = differing_word(words, [a, b], &pad, probed);
                if a.pc != b.pc || !differ.is_empty() || memory.is_some() {
                    let next = [Some(*one), Some(*two)];
                    return Some(Fork {
                        cpu,
                        here: here.unwrap_or(first),
                        next,
                        is_exact: here.is_some(),
                        registers: differ,
                        memory,
                    });
                }
                here = Some(*one);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    // No more equal times: they part behind the last common instruction, if there is something behind it.
    let behind = |all: &[usize], side: usize| {
        let time = here.map_or(0, |here| steps[0][here].time);
        all.iter().copied().find(|at| steps[side][*at].time > time)
    };
    let next = [behind(&unprobed, 0), behind(&other, 1)];
    let has_parted = here.is_some() && (next[0].is_some() != next[1].is_some());
    let here = if has_parted { here.unwrap_or(first) } else { first };
    Some(Fork { cpu, here, next, is_exact: has_parted, registers: Vec::new(), memory: None })
}

/// The first watched word whose values differ.
fn differing_word(words: &[Word], steps: [&Step; 2], pad: &Pad, probed: &Session) -> Option<Word> {
    let isa = probed.kernel().arch.isa();
    let values = steps[0].watched.iter().zip(&steps[1].watched);
    words.iter().zip(values).find_map(|(word, (one, other))| {
        let [unprobed, value] = [one, other].map(|bytes| isa.order.number(&bytes[..isa.word]));
        let differs = unprobed != value && pad.explains(unprobed, value, probed).is_none();
        differs.then_some(Word { unprobed, probed: value, ..*word })
    })
}

impl Fork {
    fn place(self, steps: &[Vec<Step>; 2], unprobed: &mut Session, probed: &mut Session) -> Place {
        let [one, other] = steps;
        let instruction = |step: &Step, session: &mut Session| Instruction {
            address: step.pc,
            code: code(session, step.pc),
            is_probed: probed.engine().is_probed(step.pc),
        };
        let here = instruction(&one[self.here], unprobed);
        let line = match self.is_exact {
            true => Vec::new(),
            false => {
                one.iter().filter(|step| step.cpu == self.cpu).take(MOST_LINES).map(|step| instruction(step, unprobed)).collect()
            }
        };
        let next = [
            self.next[0].and_then(|at| one.get(at)).map(|step| instruction(step, unprobed)),
            self.next[1].and_then(|at| other.get(at)).map(|step| instruction(step, unprobed)),
        ];
        Place {
            cpu: self.cpu,
            time: one[self.here].time,
            here,
            next,
            is_exact: self.is_exact,
            line,
            registers: self.registers,
            memory: self.memory,
        }
    }
}

/// The largest number of instructions in [`Place::line`].
const MOST_LINES: usize = 40;

/// The code from which the instruction at an address is decoded: the kernel's, or what the running CPU sees there.
fn code(session: &mut Session, address: u64) -> Vec<u8> {
    let isa = session.kernel().arch.isa();
    let (address, longest) = (isa.group_start(address), isa.longest.max(isa.group as usize));
    if let Some(code) = session.original_code(address, longest) {
        return code;
    }
    session.machine_mut().look(|view| {
        let read = |len: usize| {
            let mut bytes = vec![0; len];
            view.read(address, &mut bytes).is_ok().then_some(bytes)
        };
        (1..=longest).rev().find_map(read).unwrap_or_default()
    })
}
