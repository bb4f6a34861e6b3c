//! `trapline vars`: the variables in scope at a place, and where each lies.

use super::Failure;
use super::debug_files::Subject;
use super::dwarf::{self, DwarfArg};
use super::image::ImageArgs;
use super::output::{self, Align, Cell, Paint, Table};
use crate::boot::btf::Btf;
use crate::boot::btf::types::GuestTypes;
use crate::lines::chains::Chain;
use crate::lines::places::Wanted;
use crate::lines::variables::Variable;
use serde::Serialize;
use trapline_script::types::Types;

/// Shows the variables that may be fetched at a place
///
/// With debug information (DWARF) these are all variables in scope. Without it, if the image has type information (BTF),
/// these are the parameters at a function's entry.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trapline vars vmlinux vfs_read\n  trapline vars vmlinux vfs_read:12\n  trapline vars debian/amd64 vfs_read --json"
)]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// FUNCTION[:LINE] or FILE:LINE, with MODULE: in front for a module whose file is given by --dwarf
    #[arg(value_name = "PLACE")]
    place: String,
    #[command(flatten)]
    dwarf: DwarfArg,
    /// Prints a line of JSON for each variable
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    function: String,
    parameter: bool,
    /// The fetch argument of kprobe_events.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch: Option<String>,
    /// The reason why it cannot be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let subject = Subject::open(&args.image, &args.dwarf)?;
    let infos = subject.files.infos()?;
    let (known, place) = subject.known(&infos, &args.place)?;
    let wanted = Wanted::parse(place).map_err(|error| Failure::usage(error.to_string()))?;
    let failed = |error: crate::lines::LinesError| Failure::failed(error.to_string());
    let isa = known.isa;
    let mut lines = Vec::new();
    if let Some(info) = known.lines {
        for spot in info.spots(&wanted).map_err(failed)? {
            let place = known.place(spot.address);
            for variable in info.variables(&spot).map_err(failed)? {
                let (fetch, why) = of(&variable, info, isa);
                lines.push(Line {
                    place: place.clone(),
                    address: Some(format!("{:#x}", spot.address)),
                    name: variable.name,
                    kind: variable.type_name,
                    function: variable.function.to_string(),
                    parameter: variable.is_parameter,
                    fetch,
                    why,
                });
            }
        }
    } else if wanted.line.is_some() || wanted.offset != 0 {
        return Err(dwarf::none_in(&args.image.image));
    } else {
        let types = subject.kernel.as_ref().and_then(Btf::of).map(GuestTypes::new).ok_or_else(|| {
            Failure::failed(format!("`{}` has neither debug information nor type information (BTF)", args.image.image))
                .advise("give a vmlinux with DWARF of the same build: --dwarf FILE")
        })?;
        let prototype = types.function(&wanted.function).ok_or_else(|| {
            Failure::failed(format!("the image's type information (BTF) has no function `{}`", wanted.function))
                .perhaps(&known.symbols.similar(&wanted.function))
        })?;
        for (at, (name, kind)) in prototype.parameters.into_iter().enumerate() {
            lines.push(Line {
                place: wanted.function.clone(),
                address: None,
                kind: kind.name(),
                fetch: Some(format!("$arg{}", at + 1)),
                name,
                function: wanted.function.clone(),
                parameter: true,
                why: None,
            });
        }
    }
    if args.json {
        return output::emit(&lines.iter().map(output::json_line).collect::<Result<String, _>>()?);
    }
    output::emit(&people(&lines))
}

fn of(variable: &Variable, types: &dyn Types, isa: &'static trapline_isa::arch::Isa) -> (Option<String>, Option<String>) {
    let place = match &variable.place {
        Ok(place) => place.clone(),
        Err(missing) => return (None, Some(variable.why(missing))),
    };
    match Chain::parse(&variable.name).and_then(|chain| chain.fetch(types, isa, place, variable.kind.clone())) {
        Ok(fetch) => (Some(fetch), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn people(lines: &[Line]) -> String {
    let (mut text, paint) = (String::new(), Paint::for_output());
    for place in lines.chunk_by(|one, other| one.place == other.place) {
        text += &format!("{}\n", paint.name(&format!("<{}>", place.first().map_or("", |line| &line.place))));
        let mut table = Table::new(&[
            ("", Align::Left),
            ("name", Align::Left),
            ("type", Align::Left),
            ("fetch", Align::Left),
            ("", Align::Left),
        ]);
        for line in place {
            let fetch = match &line.fetch {
                Some(fetch) => Cell::plain(fetch.clone()),
                None => Cell::styled(line.why.clone().unwrap_or_default(), Paint::faint),
            };
            table.row(vec![
                Cell::plain(if line.parameter { "parameter" } else { "variable" }),
                Cell::styled(line.name.clone(), Paint::name),
                Cell::plain(line.kind.clone()),
                fetch,
                Cell::styled(format!("in {}", line.function), Paint::faint),
            ]);
        }
        text += &table.render(paint);
    }
    text
}
