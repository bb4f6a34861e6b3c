//! Compiles each probe of a script: its attach points, its filter and its body.
//!
//! [`Compiler::probe`] resolves the attach points in this guest and makes a [`Block`] for those that can share one. The
//! points themselves are compiled in `points`, `user_points` and other files, and statements in `statements`.

use super::settings::Missing;
use super::{Compiler, MOST_ERRORS, NAMES_A_STEP, Scope};
use crate::ast;
use crate::operators::fold;
use crate::program::{Block, Num, Op, Point, PointKind};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_probes::user::Place;

/// Largest number of `interval` and `profile` points, all of which are checked whenever one is due.
const MOST_CLOCKS: usize = 1024;

impl Compiler<'_> {
    /// Compiles a probe: one block for all its functions, and one for each of its tracepoints, because their fields
    /// have different offsets.
    pub(super) fn probe(&mut self, number: usize, probe: &ast::Probe) -> Vec<Block> {
        let points = match self.points[number].clone() {
            Some(points) => points,
            None => {
                let (errors, warnings) = (self.errors.len(), self.warnings.len());
                let points = self.all_points(probe);
                self.point_errors.extend_from_slice(&self.errors[errors..]);
                self.point_warnings.extend_from_slice(&self.warnings[warnings..]);
                self.points[number] = Some(points.clone());
                points
            }
        };
        if points.is_empty() && self.errors.is_empty() && self.missing == Missing::Error {
            self.wrong(probe.points[0].at.error("none of these attach points exists in this guest"));
        }
        let (events, functions): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|point| {
            point.event.is_some() || matches!(point.kind, PointKind::Tracepoint(_) | PointKind::RawTracepoint(_))
        });
        // The process filter holds for a whole block, so points of no process get a block of their own beside others.
        let (functions, of_nobody): (Vec<Point>, Vec<Point>) =
            functions.into_iter().partition(|point| self.options.process.is_none() || point.is_somebodys());
        let has_others = !events.is_empty() || !of_nobody.is_empty();
        let groups = core::iter::once(functions).filter(|functions| !functions.is_empty() || !has_others);
        let groups = groups.chain(core::iter::once(of_nobody).filter(|points| !points.is_empty()));
        let groups: Vec<Vec<Point>> = groups.chain(events.iter().map(|event| alloc::vec![event.clone()])).collect();
        groups.into_iter().map(|points| self.block(points, probe)).collect()
    }

    /// Resolves the attach points of a probe in this guest.
    fn all_points(&mut self, probe: &ast::Probe) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for point in &probe.points {
            let is_pattern = point.parts.iter().any(|(part, _)| part.contains('*'));
            let names = if is_pattern { self.knowledge.names() / NAMES_A_STEP } else { 0 };
            let points_of = |compiler: &mut Self| {
                compiler.charge(names, point.at)?;
                compiler.points(point)
            };
            match points_of(self) {
                Ok(found) if found.is_empty() => self.is_missing(point, probe.points.len() == 1),
                Ok(found) => {
                    self.found_points = self.found_points.saturating_add(found.len() as u64);
                    if self.found_points > self.most_points {
                        let most = self.most_points;
                        self.wrong(point.at.error(format!(
                            "this script has more than {most} probes, which is its max_probes: write narrower patterns, or a greater max_probes"
                        )));
                        return points;
                    }
                    let is_clock = |point: &&Point| matches!(point.kind, PointKind::Interval(_) | PointKind::Profile(_));
                    self.clocks += found.iter().filter(is_clock).count();
                    if self.clocks > MOST_CLOCKS {
                        self.wrong(point.at.error("a script has at most 1,024 clocks (interval and profile): take some away"));
                        return points;
                    }
                    for mut point in found {
                        if point.counts_hits() {
                            point.counter = self.counters;
                            self.counters += 1;
                        }
                        points.push(point);
                    }
                }
                Err(error) => self.wrong(error),
            }
            if self.is_hopeless() {
                break;
            }
        }
        points
    }

    /// Notes an error or a warning for an attach point that this guest does not have. `is_alone`: it is the only attach point
    /// of its probe.
    fn is_missing(&mut self, point: &ast::Point, is_alone: bool) {
        let name = point.parts.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>().join(":");
        let is_event = matches!(point.parts[0].0.as_str(), "tracepoint" | "t" | "rawtracepoint" | "rt");
        let no = match is_event {
            true => format!(
                "tracepoint not found: {}: `trapline trace IMAGE -l 'tracepoint:*'` lists those of a guest",
                name.split_once(':').map_or("", |(_, name)| name)
            ),
            false => format!("No matches for {name}: no function of the guest that may be probed has that name"),
        };
        let no = point.at.error(no);
        match self.missing {
            // A pattern without a match, or a system call that this architecture lacks, is an error only if it stands
            // alone.
            Missing::Error if is_alone || !name.contains('*') && !is_event && !self.options.old => self.wrong(no),
            Missing::Ignore => {}
            _ if self.warnings.len() < MOST_ERRORS => self.warnings.push(no),
            _ => {}
        }
    }

    /// Compiles the filter and the body of a probe for these attach points, which share the resulting block.
    fn block(&mut self, points: Vec<Point>, probe: &ast::Probe) -> Block {
        self.begin_block(&points);
        let filter = self.filter(&points, probe);
        let body = self.acts(&probe.body);
        self.most_variables = self.most_variables.max(self.block.count);
        let counts_hits = points.iter().any(Point::counts_hits);
        let emptied = core::mem::take(&mut self.block.emptied).into();
        Block { points, filter, counts_hits, body, emptied, overrides: self.block.overrides }
    }

    /// Starts the state of a block with these attach points: their kinds, and the function, file or record that `args` and
    /// other builtins refer to.
    fn begin_block(&mut self, points: &[Point]) {
        self.block = Scope::default();
        self.frames.clear();
        for point in points {
            let kinds = &mut self.block.kinds;
            match &point.kind {
                PointKind::Kprobe(name, _) => {
                    kinds.entries = true;
                    self.block.function.get_or_insert_with(|| name.clone());
                }
                PointKind::Address(_) => kinds.entries = true,
                PointKind::Kretprobe(name) => {
                    kinds.returns = true;
                    self.block.function.get_or_insert_with(|| name.clone());
                }
                PointKind::User(path, place, returns) => {
                    (kinds.entries, kinds.returns) = (kinds.entries || !returns, kinds.returns || *returns);
                    self.block.program.get_or_insert_with(|| path.clone());
                    if let Place::Symbol(name, _) = place {
                        self.block.function.get_or_insert_with(|| name.clone());
                    }
                }
                PointKind::Usdt(path, usdt) => {
                    kinds.entries = true;
                    self.block.program.get_or_insert_with(|| path.clone());
                    self.block.usdt.push((point.name.clone(), Arc::clone(usdt)));
                }
                PointKind::Tracepoint(event) => {
                    kinds.others = true;
                    let record = format!("trace_event_raw_{}", event.class);
                    self.block.record = self.known.named(Some(ast::Tag::Struct), &record);
                }
                PointKind::RawTracepoint(event) => {
                    kinds.entries = true;
                    kinds.typed = true;
                    self.block.is_raw = true;
                    self.block.function = Some(format!("__traceiter_{}", event.name));
                }
                PointKind::Begin
                | PointKind::End
                | PointKind::Interval(_)
                | PointKind::Profile(_)
                | PointKind::Watchpoint(_)
                | PointKind::WatchObject { .. } => kinds.others = true,
            }
            self.block.kinds.typed |= point.is_typed;
            self.block.event = point.event.clone();
        }
    }

    /// Compiles the filter of a probe. If only one process is wanted, the filter asks for it first, unless some of the
    /// points belong to no process.
    fn filter(&mut self, points: &[Point], probe: &ast::Probe) -> Option<Num> {
        let filter = match &probe.filter {
            None => None,
            Some(filter) => match self.passed_over(|compiler| compiler.number(filter)) {
                Ok((num, _)) => Some(num),
                Err(error) => {
                    self.wrong(error);
                    None
                }
            },
        };
        let is_somebodys = points.iter().all(Point::is_somebodys);
        match (self.options.process.filter(|_| is_somebodys), filter) {
            (None, filter) => filter,
            (Some(process), filter) => {
                let is_its = fold(Op::Equal, Num::Tgid, Num::Const(process.into()));
                Some(match filter {
                    None => is_its,
                    Some(filter) => Num::And(Box::new([is_its, filter])),
                })
            }
        }
    }
}
