//! Groups refusals by their rule. A sweep counts how often each rule refused a probe, so the names and numbers of a
//! single place are removed from the sentences.

use std::borrow::Cow;
use trapline_isa::arch::Isa;
use trapline_isa::plan::Refusal;

/// The name of the ISA's rule that refused, or [`reason`] if it was no rule of the ISA.
pub fn rule(isa: &Isa, refusal: &Refusal, function: &str) -> String {
    isa.rule_of(refusal).map_or_else(|| reason(refusal, function), |rule| rule.name.to_string())
}

/// The first clause of a refusal's sentence, with names and numbers of the place replaced by `...`. A borrowed sentence is
/// a constant, which has none. Advice behind `;` or `:` is left out.
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

/// Whether a word of a sentence is specific to a place: the function's name, a number, or a symbol.
fn is_particular(word: &str, function: &str) -> bool {
    word == function || word.contains(|letter: char| letter.is_ascii_digit() || matches!(letter, '`' | '_' | '+'))
}
