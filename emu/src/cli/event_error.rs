//! Parses lines of kprobe_events, and shows errors with a caret under the wrong word. All wrong lines are reported at
//! once.

use super::Failure;
use super::paint::Paint;
use super::shell;
use super::tracing_script::{self, Placed};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;
use std::sync::Arc;
use trapline_probes::events::error::EventError;
use trapline_probes::events::parse::{self, EventCommand};

/// A text with one or more lines of kprobe_events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its origin: `-e` or the name of a file.
    pub source: String,
    /// The contents, byte for byte.
    pub text: String,
}

/// Draws an error in the line that begins at byte `line_start` of the script.
pub fn draw(script: &Script, line_start: usize, error: &EventError, paint: Paint) -> String {
    let start = boundary(&script.text, line_start.saturating_add(error.column));
    let end = boundary(&script.text, line_start.saturating_add(error.column).saturating_add(error.length));
    let title = format!("{}: {}", error.errno.name(), error.code.name());
    let annotation = AnnotationKind::Primary.span(start..end.max(start)).label(error.message.as_ref());
    let snippet = Snippet::source(script.text.as_str()).path(script.source.as_str()).annotation(annotation);
    let report = &[Level::ERROR.primary_title(title).element(snippet)];
    let renderer = if paint.has_colours() { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(report) + "\n"
}

/// Draws an error in a part of a script in bpftrace's language.
pub fn draw_part(script: &Script, level: Level<'static>, title: &str, part: Range<usize>, paint: Paint) -> String {
    let (start, end) = (boundary(&script.text, part.start), boundary(&script.text, part.end));
    let annotation = AnnotationKind::Primary.span(start..end.max(start));
    let snippet = Snippet::source(script.text.as_str()).path(script.source.as_str()).annotation(annotation);
    let report = &[level.primary_title(title).element(snippet)];
    let renderer = if paint.has_colours() { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(report) + "\n"
}

/// Draws an error at these bytes of a script: its position and length, its title and the reason.
pub fn draw_text(script: &Script, place: (usize, usize), (title, why): (&str, &str), paint: Paint) -> String {
    let (start, end) = (boundary(&script.text, place.0), boundary(&script.text, place.0.saturating_add(place.1)));
    let annotation = AnnotationKind::Primary.span(start..end.max(start)).label(why);
    let snippet = Snippet::source(script.text.as_str()).path(script.source.as_str()).annotation(annotation);
    let report = &[Level::ERROR.primary_title(title).element(snippet)];
    let renderer = if paint.has_colours() { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).render(report) + "\n"
}

/// A parsed line, with its place in the script in case the engine refuses it.
#[derive(Clone, Debug)]
pub struct Event {
    /// The parsed line.
    pub line: EventCommand,
    /// The script that the line comes from.
    script: Arc<Script>,
    offset: usize,
}

impl Event {
    /// Makes a failure that shows this line with the error.
    pub fn failed(&self, error: &EventError) -> Failure {
        Failure::probe_drawn(draw(&self.script, self.offset, error, Paint::for_errors()))
    }
}

/// Parses all lines of a script. Fails with a drawing of every wrong line.
pub(super) fn read_events(script: Script) -> Result<Vec<Event>, Failure> {
    let (events, commands) = read_lines(script, &mut |_| None)?;
    match commands.is_empty() {
        true => Ok(events),
        false => Err(Failure::usage("shell commands such as `echo TEXT > FILE` belong into a file for `trapline run -f`")),
    }
}

/// Turns a line into the lines of kprobe_events that it means, or an error; `None` if it is such a line already.
pub(super) type Expand<'a> = &'a mut dyn FnMut(&str) -> Option<Result<Vec<String>, String>>;

/// Parses all lines of a script that may have shell commands on tracing files, after `expand` has turned the other lines into
/// lines of kprobe_events.
pub(super) fn read_lines(script: Script, expand: Expand<'_>) -> Result<(Vec<Event>, Vec<Placed>), Failure> {
    let (events, commands, drawn) = read_drawn(script, expand);
    if drawn.is_empty() { Ok((events, commands)) } else { Err(Failure::drawn(drawn)) }
}

/// Like [`read_lines`], with a drawing of every wrong line.
fn read_drawn(script: Script, expand: Expand<'_>) -> (Vec<Event>, Vec<Placed>, String) {
    let script = Arc::new(script);
    let (mut events, mut commands, mut drawn) = (Vec::new(), Vec::new(), String::new());
    for line in parse::script(&script.text) {
        if shell::is_command(&line.text) {
            match Placed::parse(&script, line.offset, &line.text) {
                Ok(command) => commands.push(command),
                Err(error) => drawn += &error,
            }
            continue;
        }
        match expand(&line.text) {
            None => {}
            Some(Ok(lines)) => {
                let origin = format!("{}, written out", script.source);
                for text in lines {
                    let (found, _, refused) = read_drawn(Script { source: origin.clone(), text }, &mut |_| None);
                    events.extend(found);
                    drawn += &refused;
                }
                continue;
            }
            Some(Err(why)) => {
                let part = line.offset..line.offset + line.text.trim_end().len();
                drawn += &draw_part(&script, Level::ERROR, &why, part, Paint::for_errors());
                continue;
            }
        }
        match parse::line(&line.text) {
            Ok(Some(parsed)) => events.push(Event { line: parsed, script: Arc::clone(&script), offset: line.offset }),
            Ok(None) => {}
            Err(error) => drawn += &draw(&script, line.offset, &error, Paint::for_errors()),
        }
    }
    tracing_script::settle(&mut commands);
    (events, commands, drawn)
}

/// The start of the character that contains the byte; the end of the text for bytes behind it.
fn boundary(text: &str, byte: usize) -> usize {
    (0..=byte.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_probes::events::parse;

    fn drawn(text: &str) -> String {
        let script = Script { source: "probes.events".into(), text: text.into() };
        parse::script(text)
            .find_map(|line| parse::line(&line.text).err().map(|error| draw(&script, line.offset, &error, Paint::none())))
            .unwrap_or_default()
    }

    /// DV-4
    #[test]
    fn the_caret_stands_under_the_wrong_word() {
        #[rustfmt::skip]
        let cases = [
            ("an unknown type",         "p:read vfs_read n=%di:u7\n",                       "probes.events:1:23"),
            ("the third line",          "# reads\np vfs_read\nr0:x vfs_read\n",             "probes.events:3:2"),
            ("a line that goes on",     "p:read vfs_read \\\n  n=%di:u7\n",                "probes.events:2:9"),
            ("letters of two bytes",    "p:read vfs_read n=\\\"ä\" m=+0(\n",               "probes.events:1:"),
        ];
        for (what, text, place) in cases {
            let said = drawn(text);
            assert!(said.starts_with("error: EINVAL: ") && said.contains(place) && said.contains('^'), "{what}:\n{said}");
        }
    }

    /// DV-4
    #[test]
    fn the_caret_may_stand_behind_the_end() {
        let script = Script { source: "-e".into(), text: "p".into() };
        let error = parse::line("p").unwrap_err();
        assert!(draw(&script, 0, &error, Paint::none()).contains('^'));
        // A position outside the line is drawn somewhere, too.
        let astray = EventError { column: usize::MAX, length: usize::MAX, ..error };
        assert!(draw(&script, 7, &astray, Paint::none()).contains('^'));
    }
}
