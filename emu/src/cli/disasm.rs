//! `trapline disasm`: shows a function, with the engine's verdict on each instruction.

use super::assembly::{Syntax, Writer};
use super::image::ImageArgs;
use super::output::{self, Align, Cell, Paint, Table};
use super::place::{self, Where};
use super::source_lines::{LinesArg, SourceLines};
use super::verdict::{self, Checker, ProbeKind, Verdict};
use super::{Failure, PolicyName};
use crate::boot::Kernel;
use serde::Serialize;
use std::ops::Range;
use trapline_isa::insn::Insn;

/// Shows a function, with the verdict on each instruction
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trapline disasm tiny/x86_64 vfs_read\n  trapline disasm vmlinux 0xffffffff81234567 --syntax intel\n  trapline disasm vmlinux vfs_read --lines\n  trapline disasm tiny/i386 schedule --policy linux-6.1 --json"
)]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// SYMBOL, or 0xADDRESS of an instruction in the function
    #[arg(value_name = "WHERE")]
    place: String,
    #[command(flatten)]
    lines: LinesArg,
    /// The assembly syntax
    #[arg(long, value_enum, default_value_t)]
    syntax: Syntax,
    /// The rules that decide about probes
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Prints a line of JSON for each instruction
    #[arg(long)]
    json: bool,
}

/// An instruction with its verdict.
#[derive(Serialize)]
struct Line {
    address: String,
    offset: u64,
    bytes: String,
    instruction: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.image.load()?;
    verdict::can_be_asked(&kernel, &args.image.image)?;
    let (name, range) = function(&kernel, &args.place)?;
    let mut checker = Checker::new(&kernel, args.policy.on(kernel.arch)?);
    let insns: Vec<Insn> = checker.instructions(range.clone()).collect();
    let verdicts: Vec<Verdict> = insns.iter().map(|insn| checker.at(ProbeKind::Probe, insn.address)).collect();
    let writer = Writer::new(kernel.arch, args.syntax, &kernel.symbols)?;
    let file = args.lines.open(&args.image.image, &kernel, &[])?;
    let sources = file.as_ref().map(SourceLines::new).transpose()?;
    let lines: Vec<Line> = insns
        .iter()
        .zip(&verdicts)
        .map(|(insn, verdict)| Line {
            source: sources.as_ref().map(|sources| sources.text(insn.address)),
            ..line(&writer, &range, insn, verdict)
        })
        .collect();
    if args.json {
        return output::emit(&lines.iter().map(output::json_line).collect::<Result<String, _>>()?);
    }
    let decoded_to = insns.last().map_or(range.start, Insn::next);
    let paint = Paint::for_output();
    let mut text =
        format!("{} {}\n", output::hex_address(range.start, kernel.arch.isa().word), paint.name(&format!("<{name}>:")));
    text += &table(&insns, &lines, &range, paint);
    if decoded_to < range.end {
        text += &format!("{} bytes from {decoded_to:#x} on cannot be decoded\n", range.end - decoded_to);
    }
    output::emit(&text)
}

/// The function with this name or around this address.
fn function(kernel: &Kernel, place: &str) -> Result<(String, Range<u64>), Failure> {
    let symbols = &kernel.symbols;
    let symbol = match Where::parse(place)? {
        Where::Symbol { name, .. } | Where::Every(name) => place::find(symbols, &name)?,
        Where::Address(address) => symbols.containing(address).ok_or_else(|| {
            Failure::failed(format!("ENOENT: no symbol covers {address:#x}"))
                .advise("`trapline symbols IMAGE --text` lists the functions")
        })?,
        Where::Pattern(pattern) => {
            return Err(Failure::usage(format!("`{pattern}` is a pattern; one function can be shown at a time"))
                .advise(format!("`trapline symbols IMAGE '{pattern}' --text` lists those that match")));
        }
    };
    if !kernel.tables.is_text(symbol.start) {
        return Err(Failure::failed(format!("EINVAL: `{}` is not code", symbol.name))
            .advise("`trapline symbols IMAGE --text` lists the functions"));
    }
    Ok((symbol.name, symbol.start..symbol.start + symbol.size))
}

fn line(writer: &Writer<'_>, range: &Range<u64>, insn: &Insn, verdict: &Verdict) -> Line {
    Line {
        address: format!("{:#x}", insn.address),
        offset: insn.address - range.start,
        bytes: output::packed_bytes(insn.bytes()),
        instruction: writer.text(insn),
        result: verdict.answer.as_ref().map_or_else(|refusal| refusal.errno.name(), |_| "ok"),
        plan: verdict.answer.as_ref().ok().map(|accepted| accepted.plan.word()),
        why: verdict.answer.as_ref().err().map(|refusal| refusal.why.to_string()),
        source: None,
    }
}

fn table(insns: &[Insn], lines: &[Line], range: &Range<u64>, paint: Paint) -> String {
    let columns: &[(&str, Align)] =
        &[("", Align::Right), ("", Align::Left), ("", Align::Left), ("", Align::Left), ("", Align::Left), ("", Align::Left)];
    let mut table = Table::new(columns);
    let mut last = None;
    for (insn, line) in insns.iter().zip(lines) {
        let verdict = match line.plan {
            Some(plan) => Cell::styled(plan, Paint::good),
            None => Cell::styled(line.result, Paint::bad),
        };
        table.row(vec![
            Cell::styled(format!("+{:#x}", insn.address - range.start), Paint::faint),
            Cell::styled(output::spaced_bytes(insn.bytes()), Paint::faint),
            Cell::plain(line.instruction.clone()),
            verdict,
            // A line is shown where it begins.
            Cell::styled(line.source.clone().filter(|_| last != line.source.as_ref()).unwrap_or_default(), Paint::name),
            Cell::plain(line.why.clone().unwrap_or_default()),
        ]);
        last = line.source.as_ref();
    }
    table.render(paint)
}
