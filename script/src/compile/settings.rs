//! The settings of a script: its `config` block, and those of the user's options, which override it.
//!
//! A setting is a name with a number or a text ([`Setting`]). The compiler keeps each in a field of its own. A wrong
//! setting is an error at its place in the script.

use super::Compiler;
use crate::ast::Setting;
use crate::error::{ScriptError, Span};
use crate::types::StackForm;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Largest limit that a script can set with `max_probes`.
const MOST_POINTS_EVER: u64 = 1 << 20;

/// The setting `missing_probes`: the treatment of attach points that do not exist in this guest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// An error. A pattern or tracepoint without a match gets a warning instead, unless it stands alone.
    Error,
    /// A warning is printed and the other attach points are used.
    Warn,
    /// The other attach points are used without a word.
    Ignore,
}

impl Compiler<'_> {
    /// Applies the script's `config` block and then the settings of the options, which override it. Fails with all settings
    /// that are wrong.
    pub(super) fn settings(&mut self) -> Result<(), Vec<ScriptError>> {
        let mut errors = Vec::new();
        let ast = self.ast;
        for (name, at, value) in &ast.settings {
            if let Err(why) = self.setting(name, value) {
                errors.push(at.error(why));
            }
        }
        for (name, value) in &self.options.settings {
            let value = match (value.as_str(), crate::lex::time(value)) {
                ("true", _) => Setting::Number(1),
                ("false", _) => Setting::Number(0),
                (_, Some(number)) => Setting::Number(number),
                (text, None) => Setting::Text(text.into()),
            };
            if let Err(why) = self.setting(name, &value) {
                errors.push(Span::default().error(format!("{why} (BPFTRACE_{} of the environment)", name.to_uppercase())));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Applies one setting. Settings of bpftrace that have no effect here are accepted. Fails with a sentence.
    fn setting(&mut self, name: &str, value: &Setting) -> Result<(), String> {
        match (name, value) {
            ("max_strlen", Setting::Number(number)) => self.longest_text = (*number).clamp(1, 65_536) as u32,
            ("max_map_keys", Setting::Number(number)) => self.limit = *number,
            ("max_probes", Setting::Number(number)) => self.most_points = (*number).min(MOST_POINTS_EVER),
            ("print_maps_on_exit", Setting::Number(number)) => self.prints_maps = *number != 0,
            ("str_trunc_trailer", Setting::Text(text)) => self.trailer = text.clone(),
            ("str_trunc_trailer", Setting::Number(number)) => self.trailer = format!("{number}"),
            ("stack_mode", Setting::Text(mode)) => {
                self.stack_form = StackForm::named(mode).ok_or("stack_mode is bpftrace, perf, raw or build_id")?;
            }
            ("missing_probes", Setting::Text(what)) => {
                self.missing = match what.as_str() {
                    "warn" => Missing::Warn,
                    "ignore" => Missing::Ignore,
                    "error" => Missing::Error,
                    _ => return Err("missing_probes is warn, ignore or error".into()),
                }
            }
            (
                "license" | "log_size" | "perf_rb_pages" | "on_stack_limit" | "cache_user_symbols" | "lazy_symbolication"
                | "show_debug_info" | "cpp_demangle",
                _,
            ) => {}
            (name, _) if name.starts_with("unstable_") => {}
            (name, _) => {
                return Err(format!(
                    "there is no setting '{name}' with such a value: max_strlen, max_map_keys, max_probes, missing_probes, print_maps_on_exit, stack_mode and str_trunc_trailer are honoured"
                ));
            }
        }
        Ok(())
    }
}
