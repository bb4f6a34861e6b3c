//! The threads of a sweep. Each takes a wave, runs it in a machine of its own, and sends the result, which the first thread
//! writes down.

use super::part::{Identity, Journal, PartError, Summary};
use super::plan::Plan;
use super::shard::Shard;
use super::wave::{self, Wave};
use super::{Guests, Settings};
use crate::verify::{self, Reference, Side};
use crossbeam_channel::bounded;
use crossbeam_deque::{Injector, Steal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// A reason to try the sweep again: the computer failed, not the guest.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Again {
    /// A machine cannot be made.
    #[error("{0}")]
    Machine(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    Part(#[from] PartError),
}

/// A report from a sweep in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News<'a> {
    /// The unprobed run is recorded, and the waves are known.
    Planned {
        /// The waves of the whole sweep.
        plan: &'a Plan,
        /// The number of this shard's waves.
        waves: u64,
        /// The number of waves whose results were there already.
        known: u64,
        /// The hash of the unprobed run.
        run: &'a str,
    },
    /// A wave is done.
    Done(&'a Wave),
}

/// Executes a shard of a sweep, and writes its part to the file `out`. Waves whose results are in that file or in the
/// journal are not run again. Returns the part's results.
pub fn run(
    guests: &dyn Guests,
    settings: &Settings,
    identity: &Identity,
    shard: Shard,
    out: &Path,
    tell: &mut dyn FnMut(News<'_>),
) -> Result<Summary, Again> {
    let verified = verify::Settings { limit: settings.limit, ..verify::Settings::default() };
    let mut unprobed = guests.start(Side::Unprobed, true).map_err(Again::Machine)?;
    let reference = Reference::record(&mut *unprobed, &verified);
    let blocks = unprobed.session().covered();
    drop(unprobed);
    let plan = Plan::of(guests.kernel(), &blocks, &settings.kinds, settings.wave);
    let mut journal = Journal::open(out, &identity.clone().of_run(&plan, reference.hash(), shard))?;
    let mine: Vec<u64> = (0..plan.waves.len() as u64).filter(|wave| shard.has(*wave)).collect();
    let waiting: Vec<u64> = mine.iter().copied().filter(|wave| !journal.has(*wave)).collect();
    let known = (mine.len() - waiting.len()) as u64;
    tell(News::Planned { plan: &plan, waves: mine.len() as u64, known, run: reference.hash() });

    let queue = Injector::new();
    waiting.iter().for_each(|wave| queue.push(*wave));
    let jobs = settings.jobs.clamp(1, waiting.len().max(1));
    let stops = AtomicBool::new(false);
    let (send, results) = bounded::<Result<Wave, String>>(jobs);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (send, queue, stops, plan, reference) = (send.clone(), &queue, &stops, &plan, &reference);
            scope.spawn(move || {
                while !stops.load(Ordering::Relaxed)
                    && let Some(number) = next(queue)
                {
                    let Some((kind, addresses)) = plan.waves.get(number as usize) else { continue };
                    if send.send(wave::run(guests, reference, number, *kind, addresses)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut outcome = Ok(());
        for result in results {
            let written = match result {
                Ok(wave) => {
                    tell(News::Done(&wave));
                    journal.add(wave).map_err(Again::from)
                }
                Err(why) => Err(Again::Machine(why)),
            };
            if written.is_err() && outcome.is_ok() {
                stops.store(true, Ordering::Relaxed);
                outcome = written;
            }
        }
        outcome
    })?;
    Ok(journal.finish()?)
}

fn next(queue: &Injector<u64>) -> Option<u64> {
    loop {
        match queue.steal() {
            Steal::Success(wave) => return Some(wave),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
