//! `trapline check`: says whether places may be probed, how the probe would run, or why it is refused.

use super::assembly::{Syntax, Writer};
use super::attached::DeviceArgs;
use super::cpu::CpuArg;
use super::image::ImageArgs;
use super::output::{self, Align, Cell, Paint, Table};
use super::place::{self, Where};
use super::source_lines::{LinesArg, SourceLines};
use super::stock_guest::StockArgs;
use super::verdict::{self, Checker, ProbeKind, Verdict};
use super::{Failure, PolicyName, from_boot, totals, tsv};
use crate::boot::Kernel;
use crate::machine::Config;
use serde::Serialize;

/// Says whether places in a kernel may be probed, and how the probe would run
///
/// Each answer comes from the probe engine itself: it registers a probe in a copy of the kernel's text and removes it
/// again. Without WHERE, the answer covers the whole text, with the reasons for refusals. The exit status is 1 if a
/// place that was named exactly is refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Checks the text of a stock kernel as it is after booting to its shell, with the kernel's own patches. The first
    /// boot is saved as a snapshot in the user's cache, except on CPUs whose state cannot be saved
    #[arg(long)]
    booted: bool,
    #[command(flatten)]
    cpu: CpuArg,
    #[command(flatten)]
    lines: LinesArg,
    /// SYMBOL, SYMBOL+0x10, SYMBOL+* (every instruction), 0xADDRESS, or a pattern such as 'vfs_*' (function entries)
    #[arg(value_name = "WHERE")]
    places: Vec<String>,
    /// The kind of probe to check
    #[arg(long, value_enum, default_value_t)]
    kind: ProbeKind,
    /// The rules that decide about probes
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Prints a line of JSON for each answer
    #[arg(long, conflicts_with = "tsv")]
    json: bool,
    /// Reads `address<TAB>kind` lines from standard input (kinds p, r, q) and prints a table row for each
    #[arg(long, conflicts_with_all = ["places", "kind"])]
    tsv: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline check tiny/x86_64                        how much of the text, and why not the rest
  trapline check tiny/x86_64 vfs_read 'sys_*'       some functions' entries
  trapline check vmlinux vfs_read+* --lines         the same with source lines
  trapline check vmlinux vfs_read+* --kind q        every instruction, for probes with a post-handler
  trapline check debian/amd64 --booted vfs_read+*     the same on the text that the booted guest has made of itself
  trapline check vmlinux --tsv --policy linux-6.1 < places.tsv";

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let kernel = args.kernel()?;
    verdict::can_be_asked(&kernel, &args.image.image)?;
    let policy = args.policy.on(kernel.arch)?;
    let mut checker = match args.booted {
        true => Checker::booted(&kernel, policy),
        false => Checker::new(&kernel, policy),
    };
    if args.tsv {
        return tsv::answer(&mut checker, std::io::stdin().lock(), std::io::stdout().lock());
    }
    if args.places.is_empty() {
        let totals = totals::of(&kernel, &mut checker, args.kind);
        return output::emit(&if args.json {
            output::json_line(&totals)?
        } else {
            totals.for_people(&args.image.image, args.policy, args.kind, Paint::for_output())
        });
    }
    let places = args.places.iter().map(|text| Where::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let asked = answers(&kernel, &mut checker, args.kind, &places)?;
    let writer = Writer::new(kernel.arch, Syntax::default(), &kernel.symbols)?;
    let file = args.lines.open(&args.image.image, &kernel, &[])?;
    let sources = file.as_ref().map(SourceLines::new).transpose()?;
    let lines: Vec<Line> = asked
        .iter()
        .map(|asked| Line {
            source: asked.verdict.address.zip(sources.as_ref()).map(|(address, sources)| sources.text(address)),
            ..line(&kernel, &checker, &writer, asked)
        })
        .collect();
    let text =
        if args.json { lines.iter().map(output::json_line).collect::<Result<String, _>>()? } else { table(&kernel, &lines) };
    output::emit(&text)?;
    let refused = asked.iter().filter(|asked| asked.exactly && asked.verdict.answer.is_err()).count();
    let named = asked.iter().filter(|asked| asked.exactly).count();
    match (refused, named) {
        (0, _) => Ok(()),
        (1, 1) => Err(Failure::failed("the place may not be probed")),
        (refused, named) => Err(Failure::failed(format!("{refused} of {named} places may not be probed"))),
    }
}

impl Args {
    /// The kernel as in its file, or with its text after booting.
    fn kernel(&self) -> Result<Kernel, Failure> {
        let kernel = self.image.load()?;
        if !self.booted && self.cpu.is_given() {
            return Err(Failure::usage("--cpu asks about the text that a guest makes of itself on that CPU: give --booted too"));
        }
        if !self.booted {
            return Ok(kernel);
        }
        let name = &self.image.image;
        let stock = StockArgs::default().guest(name, &kernel, &DeviceArgs::default())?.ok_or_else(|| {
            Failure::usage(format!("`{name}` is no stock kernel: nothing in its text changes while it boots"))
                .advise("leave out --booted")
        })?;
        let cpu = self.cpu.of(kernel.arch)?;
        let config = Config { command_line: stock.command_line.into(), initrd: Some(stock.initrd), cpu, ..Config::default() };
        from_boot::live(name, &kernel, &config)
    }
}

/// A place to check, with its answer.
struct Asked {
    verdict: Verdict,
    /// The place as the user named it, or `name+0x4`.
    place: String,
    /// Whether the user named this one place. Places found by a pattern do not count as failures.
    exactly: bool,
}

fn answers(kernel: &Kernel, checker: &mut Checker<'_>, kind: ProbeKind, places: &[Where]) -> Result<Vec<Asked>, Failure> {
    let symbols = &kernel.symbols;
    let mut asked = Vec::new();
    for place in places {
        match place {
            Where::Symbol { name, offset } => {
                let place = if *offset == 0 { name.clone() } else { format!("{name}+{offset:#x}") };
                asked.push(Asked { verdict: checker.named(kind, name, *offset), place, exactly: true });
            }
            Where::Address(address) => {
                asked.push(Asked { verdict: checker.at(kind, *address), place: symbols.describe(*address), exactly: true });
            }
            Where::Every(name) => {
                let symbol = place::find(symbols, name)?;
                let addresses: Vec<u64> =
                    checker.instructions(symbol.start..symbol.start + symbol.size).map(|insn| insn.address).collect();
                asked.extend(addresses.into_iter().map(|address| Asked {
                    verdict: checker.at(kind, address),
                    place: symbols.describe(address),
                    exactly: false,
                }));
            }
            Where::Pattern(pattern) => {
                let before = asked.len();
                // Aliases of a function have the same address and get one answer.
                let mut addresses: Vec<u64> = symbols
                    .matching(pattern)
                    .filter(|entry| kernel.tables.is_text(entry.address))
                    .map(|entry| entry.address)
                    .collect();
                addresses.dedup();
                asked.extend(addresses.into_iter().map(|address| Asked {
                    verdict: checker.at(kind, address),
                    place: symbols.describe(address),
                    exactly: false,
                }));
                if asked.len() == before {
                    return Err(Failure::failed(format!("no function matches `{pattern}`"))
                        .advise("`trapline symbols IMAGE --text` lists the functions"));
                }
            }
        }
    }
    Ok(asked)
}

/// A row of the answer about one place.
#[derive(Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    place: String,
    kind: &'static str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    bytes: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    instruction: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip)]
    at: Option<u64>,
}

fn line(kernel: &Kernel, checker: &Checker<'_>, writer: &Writer<'_>, asked: &Asked) -> Line {
    let at = asked.verdict.address;
    let insn = at.filter(|address| kernel.tables.is_text(*address)).and_then(|address| checker.insn(address));
    let answer = &asked.verdict.answer;
    // A place inside an instruction has no instruction of its own to show.
    let boundary = kernel.arch.isa().linux.boundary_errno;
    let insn = insn.filter(|_| answer.as_ref().err().is_none_or(|refusal| refusal.errno != boundary));
    Line {
        address: at.map(|address| format!("{address:#x}")),
        place: asked.place.clone(),
        kind: asked.verdict.kind.letter(),
        result: answer.as_ref().map_or_else(|refusal| refusal.errno.name(), |_| "ok"),
        plan: answer.as_ref().ok().map(|accepted| accepted.plan.word()),
        status: answer.as_ref().ok().map(|accepted| accepted.status.word()),
        why: match answer {
            Ok(accepted) => accepted.obstacle.as_ref().map(|obstacle| format!("not optimized: {}", obstacle.why)),
            Err(refusal) => Some(refusal.why.to_string()),
        },
        bytes: insn.map(|insn| output::packed_bytes(insn.bytes())).unwrap_or_default(),
        instruction: insn.map(|insn| writer.text(&insn)).unwrap_or_default(),
        source: None,
        at,
    }
}

fn table(kernel: &Kernel, lines: &[Line]) -> String {
    let word = kernel.arch.isa().word;
    let has_sources = lines.iter().any(|line| line.source.is_some());
    let columns: &[(&str, Align)] = match has_sources {
        true => &[
            ("address", Align::Left),
            ("place", Align::Left),
            ("source", Align::Left),
            ("instruction", Align::Left),
            ("answer", Align::Left),
            ("why", Align::Left),
        ],
        false => &[
            ("address", Align::Left),
            ("place", Align::Left),
            ("instruction", Align::Left),
            ("answer", Align::Left),
            ("why", Align::Left),
        ],
    };
    let mut table = Table::new(columns);
    for line in lines {
        let address = line.at.map_or("-".into(), |address| output::hex_address(address, word));
        let answer = match (line.plan, line.status) {
            (Some(plan), Some(status @ ("ftrace" | "optimized"))) => Cell::styled(format!("{plan}, {status}"), Paint::good),
            (Some(plan), _) => Cell::styled(plan, Paint::good),
            (None, _) => Cell::styled(line.result, Paint::bad),
        };
        let instruction = if line.instruction.is_empty() { "-".into() } else { line.instruction.clone() };
        let why = line.why.clone().unwrap_or_default();
        let mut row = vec![
            Cell::styled(address, Paint::faint),
            Cell::styled(line.place.clone(), Paint::name),
            Cell::plain(instruction),
            answer,
            Cell::plain(why),
        ];
        if has_sources {
            row.insert(2, Cell::plain(line.source.clone().unwrap_or_default()));
        }
        table.row(row);
    }
    table.render(Paint::for_output())
}
