//! A log shared by a test and its handlers. Each handler adds a line, so that tests can check which handlers ran and in
//! which order.

use crate::context::Hit;
use crate::probe::{Flow, Kprobe};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::sync::{Arc, Mutex};

/// The log. Clones share its lines.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Adds a line.
    pub fn add(&self, line: impl ToString) {
        self.0.lock().expect("no handler panics").push(line.to_string());
    }

    /// Takes the lines since the last call.
    pub fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.0.lock().expect("no handler panics"))
    }

    /// A pre-handler that adds a fixed line.
    pub fn pre(&self, what: &'static str) -> impl Fn(&mut Hit<'_>) -> Flow + Send + Sync + 'static {
        let notes = self.clone();
        move |_| {
            notes.add(what);
            Flow::Continue
        }
    }

    /// A post-handler that adds a fixed line.
    pub fn post(&self, what: &'static str) -> impl Fn(&mut Hit<'_>) + Send + Sync + 'static {
        let notes = self.clone();
        move |_| notes.add(what)
    }

    /// A probe that notes `pre NAME` and `post NAME`.
    pub fn probe(&self, name: &'static str, symbol: &str, offset: u32) -> Kprobe {
        let (pre, post) = (self.clone(), self.clone());
        Kprobe::at(symbol)
            .offset(offset)
            .pre(move |_| {
                pre.add(format!("pre {name}"));
                Flow::Continue
            })
            .post(move |_| post.add(format!("post {name}")))
    }
}
