//! The past of a replay, for its scripts: `last_write` ([`Past`]).
//!
//! A script asks at a hit, in the middle of a run that must not change. So a second machine, on a thread of its own, repeats
//! the recording up to the place of the hit and searches there. It keeps its checkpoints for the next question.

use super::timeline::{Seen, Timeline};
use crate::machine::Place;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use trapline_probes::guest::Instant;
use trapline_probes::watch::{Area, By};
use trapline_script::past::{self, Question, Unanswered, Write};

/// The number of questions that are answered in a run, unless [`Past::answer_at_most`] says otherwise.
pub const MOST_QUESTIONS: u64 = 1000;
/// The least page of any ISA. The bytes of one are together in physical memory.
const PAGE: u64 = 4096;

/// The past of a recorded run. A clone is the same one.
#[derive(Clone)]
pub struct Past(Arc<Mutex<Asker>>);

/// The memory that a question is about: its address space, its address and its length.
type AskedBytes = (Option<u64>, u64, u64);

/// Keeps the answers, and asks the thread that has the timeline.
struct Asker {
    thread: Thread,
    left: u64,
    /// The last question about some bytes, and its answer.
    known: HashMap<AskedBytes, (Place, Option<Seen>)>,
}

struct Thread {
    questions: Sender<(Area, Option<Place>, Place)>,
    answers: Receiver<Result<Option<Seen>, String>>,
}

impl Past {
    /// The past of the run of this timeline, which is made on the thread that asks it, at the first question.
    pub fn of<E: Display>(make: impl FnOnce() -> Result<Timeline, E> + Send + 'static) -> Past {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        // The thread ends when the sender of questions is dropped.
        std::thread::spawn(move || {
            let Ok(mut question) = asked.recv() else { return };
            let mut timeline = make().map_err(|error| error.to_string());
            loop {
                let (area, since, before) = question;
                let found = timeline.as_mut().map_err(|error| error.clone()).and_then(|timeline| {
                    let found = timeline.last_writes_since(area, since, before, 1);
                    found.map(|mut found| found.pop()).map_err(|error| error.to_string())
                });
                if answer.send(found).is_err() {
                    return;
                }
                match asked.recv() {
                    Ok(next) => question = next,
                    Err(_) => return,
                }
            }
        });
        let thread = Thread { questions, answers };
        Past(Arc::new(Mutex::new(Asker { thread, left: MOST_QUESTIONS, known: HashMap::new() })))
    }

    /// Limits the number of questions that are still answered. Those beyond it are counted as unanswered.
    pub fn answer_at_most(&self, most: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).left = most;
    }
}

impl past::Past for Past {
    fn last_write(&mut self, question: &Question) -> Result<Option<Write>, Unanswered> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).ask(question)?;
        Ok(found.map(|Seen { place, access, pid, comm, .. }| Write {
            pc: place.pc,
            time: access.time,
            cpu: place.cpu,
            pid,
            comm,
            old: access.old,
            value: access.value,
            by: (access.by != By::Instruction).then(|| access.by.name()),
        }))
    }
}

impl Asker {
    fn ask(&mut self, question: &Question) -> Result<Option<Seen>, Unanswered> {
        let Question { address, length, before: Instant { turn, cpu, ticks, pc }, .. } = *question;
        let before = Place { turn, cpu, ticks, pc };
        let key = (question.physical, address, length);
        let known = self.known.get(&key).copied();
        if let Some((at, answer)) = known
            && at == before
        {
            return Ok(answer);
        }
        self.left = self.left.checked_sub(1).ok_or(Unanswered::TooMany)?;
        let is_in_page = address % PAGE + length <= PAGE;
        let area = match question.physical.filter(|_| is_in_page) {
            Some(start) => Area { start, len: length, physical: true, writes: true, ..Area::default() },
            None => Area { start: address, len: length, writes: true, ..Area::default() },
        };
        // A question that was answered once only needs to look from there on.
        let known = known.filter(|(at, _)| before.is_behind(at));
        let gone = || Unanswered::Failed("the thread that repeats the run has ended".into());
        let Thread { questions, answers } = &self.thread;
        questions.send((area, known.map(|(at, _)| at), before)).map_err(|_| gone())?;
        let found = answers.recv().map_err(|_| gone())?.map_err(Unanswered::Failed)?;
        let answer = found.or(known.and_then(|(_, answer)| answer));
        self.known.insert(key, (before, answer));
        Ok(answer)
    }
}
