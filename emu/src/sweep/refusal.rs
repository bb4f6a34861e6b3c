//! The rule behind a refusal, without the names and numbers of its place.

use std::borrow::Cow;
use trapline_isa::arch::Isa;
use trapline_isa::plan::Refusal;

/// The name of the ISA's rule. Otherwise the refusal's sentence with names and numbers of the place left out.
pub fn rule(isa: &Isa, refusal: &Refusal, function: &str) -> String {
    isa.rule_of(refusal).map_or_else(|| reason(refusal, function), |rule| rule.name.to_string())
}

/// A refusal's sentence with names and numbers of the place replaced by `...`, and without the advice behind it.
pub fn reason(refusal: &Refusal, function: &str) -> String {
    let clause = refusal.why.split([';', ':']).next().unwrap_or_default();
    match &refusal.why {
        Cow::Borrowed(_) => clause.trim().to_string(),
        Cow::Owned(_) => clause
            .split_whitespace()
            .map(|word| if is_particular(word, function) { "..." } else { word })
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn is_particular(word: &str, function: &str) -> bool {
    word == function || word.contains(|letter: char| letter.is_ascii_digit() || matches!(letter, '`' | '_' | '+'))
}
