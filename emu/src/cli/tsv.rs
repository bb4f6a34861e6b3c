//! `check --tsv`: many questions at once, to compare with the decisions of real kernels.

use super::Failure;
use super::output::{packed_bytes, progress};
use super::verdict::{Checker, ProbeKind};
use std::io::{BufRead, BufWriter, Write};

const HEADER: &str = "address\tkind\tresult\tstatus\tplan\tbytes\twhy\n";

/// Answers each line, in order. If any line is wrong, it answers none.
pub fn answer(checker: &mut Checker<'_>, from: impl BufRead, to: impl Write) -> Result<(), Failure> {
    let questions = questions(from)?;
    let bar = progress(questions.len() as u64, "places");
    let mut to = BufWriter::new(to);
    let mut write = |text: &str| to.write_all(text.as_bytes()).map_err(|error| Failure::output(&error));
    write(HEADER)?;
    for (address, kind) in questions {
        write(&line(checker, address, kind))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    to.flush().map_err(|error| Failure::output(&error))
}

fn line(checker: &mut Checker<'_>, address: u64, kind: ProbeKind) -> String {
    let verdict = checker.at(kind, address);
    let bytes = packed_bytes(&checker.bytes(address));
    let (result, status, plan, why) = match &verdict.answer {
        Ok(accepted) => {
            let why = accepted.obstacle.as_ref().map_or("-".to_string(), |obstacle| obstacle.why.replace(['\t', '\n'], " "));
            ("ok", accepted.status.word(), accepted.plan.word(), why)
        }
        Err(refusal) => (refusal.errno.name(), "-", "-", refusal.why.replace(['\t', '\n'], " ")),
    };
    let bytes = if bytes.is_empty() { "-" } else { &bytes };
    format!("{address:#x}\t{}\t{result}\t{status}\t{plan}\t{bytes}\t{why}\n", kind.letter())
}

fn questions(from: impl BufRead) -> Result<Vec<(u64, ProbeKind)>, Failure> {
    let mut questions = Vec::new();
    for (number, line) in from.lines().enumerate() {
        let wrong = |why: String| {
            Failure::usage(format!("standard input, line {}: {why}", number + 1))
                .advise("a line is `address<TAB>kind`: a hexadecimal address and p, r or q")
        };
        let line = line.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        let Some((address, kind)) = line.split_once('\t') else {
            return Err(wrong(format!("`{}` has no tab", shortened(&line))));
        };
        let digits = address.strip_prefix("0x").unwrap_or(address);
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let address = u64::from_str_radix(digits, 16)
            .ok()
            .filter(|_| plain)
            .ok_or_else(|| wrong(format!("`{}` is not a hexadecimal address", shortened(address))))?;
        let kind = ProbeKind::from_letter(kind).ok_or_else(|| wrong(format!("`{}` is no kind of probe", shortened(kind))))?;
        questions.push((address, kind));
    }
    Ok(questions)
}

fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.chars().count() > MOST {
        true => text.chars().take(MOST).chain("...".chars()).collect(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Paint;

    /// KP-5
    #[test]
    fn questions_are_an_address_and_a_kind() {
        let asked = questions("0xffffffff81000000\tp\nc0100000\tr\n0x10\tq\n".as_bytes()).unwrap();
        assert_eq!(asked, [(0xffff_ffff_8100_0000, ProbeKind::Probe), (0xc010_0000, ProbeKind::Return), (0x10, ProbeKind::Post)]);
        assert_eq!(questions("".as_bytes()).unwrap(), []);
    }

    /// KP-5
    #[test]
    fn a_malformed_question_is_named_by_its_line() {
        #[rustfmt::skip]
        let cases = [
            ("no tab",              "0x10 p\n",             1, "has no tab"),
            ("an empty line",       "0x10\tp\n\n0x20\tp\n", 2, "has no tab"),
            ("no address",          "0x10\tp\nvfs\tp\n",    2, "is not a hexadecimal address"),
            ("an empty address",    "\tp\n",                1, "is not a hexadecimal address"),
            ("a sign",              "+10\tp\n",             1, "is not a hexadecimal address"),
            ("too long an address", "0x11112222333344445\tp\n", 1, "is not a hexadecimal address"),
            ("no such kind",        "0x10\tx\n",            1, "is no kind of probe"),
            ("a third word",        "0x10\tp\tmore\n",      1, "is no kind of probe"),
        ];
        for (what, text, line, why) in cases {
            let failure = questions(text.as_bytes()).unwrap_err();
            let said = failure.render(Paint::none());
            assert!(said.contains(&format!("line {line}:")) && said.contains(why), "{what}: {said}");
            assert_eq!(failure.status(), 2, "{what}");
        }
    }
}
