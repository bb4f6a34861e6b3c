//! The forms in which Linux stores symbol addresses.
//!
//! A form is accepted if the addresses rise, are plausible for the image and, for forms with a base, match that base.
//! So a table in one form is not mistaken for another.

use super::{ALIGNMENT, Fits, Names, Piece, Tokens, mask};
use trapline_probes::budget::Spent;

/// The form of the address table.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// 32-bit offsets from the base, which is the lowest address.
    Offset { table: usize, base: usize },
    /// 32-bit numbers. A non-negative number is the address itself; a negative one counts down from the base, the
    /// lowest such address (CONFIG_KALLSYMS_ABSOLUTE_PERCPU, up to 6.14).
    Signed { table: usize, base: usize },
    /// 32-bit offsets from their own place (64-bit and relocatable kernels in 7.2).
    Distance { table: usize },
    /// Whole addresses (CONFIG_KALLSYMS_BASE_RELATIVE off; 32-bit kernels that are not relocatable in 7.2).
    Word { table: usize },
}

impl Piece<'_> {
    /// The addresses. The flag says whether they are offsets from the segment's start because its address is unknown.
    pub fn addresses(&self, tokens: &Tokens<'_>, names: &Names<'_>, fits: Fits<'_>) -> Result<Option<(Vec<u64>, bool)>, Spent> {
        let count = names.compressed.len();
        let are_distances = |form: Form| matches!(form, Form::Distance { .. }) && self.start.is_none();
        let fitting = |form: Form| {
            let addresses = self.all(form, count)?;
            let fit = if are_distances(form) { self.are_inside(&addresses) } else { fits(&addresses) };
            (addresses.is_sorted() && fit).then(|| (addresses, are_distances(form)))
        };
        for form in self.forms(tokens, names) {
            self.budget.charge(count as u64)?;
            if let Some(found) = fitting(form) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// All candidates. Those that cannot be mistaken for another come first.
    fn forms(&self, tokens: &Tokens<'_>, names: &Names<'_>) -> Vec<Form> {
        let count = names.compressed.len();
        // The base is a word behind the table of offsets.
        let paired = |table: usize| (table, (table + 4 * count).next_multiple_of(self.word));
        let behind = || self.alignments().map(|to| tokens.end.next_multiple_of(to));
        let base_before = names.count_at.checked_sub(self.word);
        let before = base_before.and_then(|base| Some((base.checked_sub((4 * count).next_multiple_of(self.word))?, base)));
        let pairs = before.into_iter().chain(behind().map(paired));
        let relative = pairs.flat_map(|(table, base)| [Form::Offset { table, base }, Form::Signed { table, base }]);
        let distances = behind().map(|table| Form::Distance { table });
        let words_before = names.count_at.checked_sub(count * self.word);
        let words = words_before.into_iter().chain(behind()).map(|table| Form::Word { table });
        relative.chain(distances).chain(words).collect()
    }

    fn alignments(&self) -> impl Iterator<Item = usize> + use<> {
        [Some(ALIGNMENT), Some(self.word).filter(|word| *word != ALIGNMENT)].into_iter().flatten()
    }

    fn all(&self, form: Form, count: usize) -> Option<Vec<u64>> {
        let addresses: Vec<u64> = (0..count).map(|number| self.address(form, number)).collect::<Option<_>>()?;
        let has_base = match form {
            Form::Offset { table, .. } => self.u32(table)? == 0,
            Form::Signed { base, .. } => addresses.contains(&self.number(base, self.word)?),
            Form::Distance { .. } | Form::Word { .. } => true,
        };
        has_base.then_some(addresses)
    }

    /// Whether most of these offsets from the segment's start are inside it.
    fn are_inside(&self, distances: &[u64]) -> bool {
        let inside = |distance: &&u64| **distance < self.bytes.len() as u64;
        distances.iter().filter(inside).count() * 2 > distances.len()
    }

    fn address(&self, form: Form, number: usize) -> Option<u64> {
        let mask = mask(self.word);
        let based = |base: usize| self.number(base, self.word);
        Some(match form {
            Form::Word { table } => self.number(table + number * self.word, self.word)?,
            Form::Offset { table, base } => based(base)?.wrapping_add(self.u32(table + 4 * number)?.into()) & mask,
            Form::Signed { table, base } => match self.u32(table + 4 * number)? as i32 {
                value @ 0.. => value as u64,
                value => based(base)?.wrapping_sub(1).wrapping_sub(i64::from(value) as u64) & mask,
            },
            Form::Distance { table } => {
                let at = table + 4 * number;
                let from = self.start.unwrap_or(0).wrapping_add(at as u64);
                from.wrapping_add_signed((self.u32(at)? as i32).into()) & mask
            }
        })
    }
}
