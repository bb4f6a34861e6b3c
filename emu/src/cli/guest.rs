//! The guest that a command runs: the arguments that `run` and `trace` share, and the machine that they make.

use super::attached::DeviceArgs;
use super::cpu::CpuArg;
use super::guest_files::FilesArg;
use super::image::{self, SymbolsArg};
use super::output::Paint;
use super::pulled::Pull;
use super::stock_guest::{StockArgs, Typed};
use super::typist::Typist;
use super::until::{Limits, Until, guest_time};
use super::{Failure, file, from_boot};
use crate::boot::Kernel;
use crate::boot::guest_files::{GuestFiles, Sources};
use crate::boot::whole::Whole;
use crate::booted::{self, Recipe};
use crate::devices::virtio::Attached;
use crate::error::MachineError;
use crate::history::observer::Observer;
use crate::machine::{Config, Draws, Machine};
use crate::network::door::Door;
use crate::probed::Session;
use crate::snapshot::Snapshot;
use crate::snapshot::file::Key;
use crate::verify::Side;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use trapline_isa::plan::Policy;

/// The arguments of a command that runs a guest.
#[derive(Clone, clap::Args, Serialize, Deserialize)]
pub struct GuestArgs {
    #[command(flatten)]
    symbols: SymbolsArg,
    /// Text to append to the kernel's command line
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
    #[command(flatten)]
    stock: StockArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    files: FilesArg,
    #[command(flatten)]
    cpu: CpuArg,
    /// The number of CPUs, at most as many as the board has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    cpus: u8,
    /// Draws the order and the lengths of the CPUs' turns from this seed, to find races. The same seed is the same run,
    /// probed or not. LENGTH is the longest turn (100ns to 1ms)
    #[arg(long, value_name = "SEED[:LENGTH]", value_parser = turns)]
    turns: Option<Draws>,
    /// The guest's memory, such as 256M or 8G, instead of the board's usual size. The host needs memory only for what
    /// the guest touches
    #[arg(long = "mem", value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// Stops at a guest time (50ms, 2s) or when the console prints a text (console:TEXT)
    #[arg(long, value_name = "LIMIT", value_parser = Until::parse)]
    #[serde(skip)]
    until: Vec<Until>,
    /// Does not show the guest's console
    #[arg(short, long)]
    #[serde(skip)]
    pub quiet: bool,
}

impl GuestArgs {
    /// Loads the kernel of this name.
    pub fn kernel(&self, image: &str) -> Result<Kernel, Failure> {
        image::load(image, &self.symbols)
    }

    /// The guest's files, as far as the arguments give them.
    pub fn files(&self, image: &str, kernel: &Kernel) -> Result<GuestFiles, Failure> {
        let stock = self.stock.guest(image, kernel, &self.devices)?;
        Ok(GuestFiles::new(stock.map(|stock| stock.initrd), self.sources()))
    }

    /// The sources of the guest's files besides the initial file system.
    fn sources(&self) -> Sources {
        let given = self.files.sources();
        Sources { sysroot: given.sysroot.or_else(|| self.devices.root().map(Into::into)), ..given }
    }

    /// The files of the modules that the guest loads.
    pub fn module_files(&self, image: &str) -> Result<Vec<PathBuf>, Failure> {
        self.stock.module_files(image)
    }

    /// Whether the guest runs a script and then powers off.
    pub fn has_script(&self) -> bool {
        self.stock.has_script()
    }

    /// Whether the turns of the CPUs are drawn.
    pub fn has_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// The arguments with absolute paths, as a recording holds them.
    pub fn for_recording(&self) -> GuestArgs {
        let mut args = self.clone();
        args.symbols.file.iter_mut().for_each(file::make_absolute);
        args.stock = args.stock.for_recording();
        args
    }

    /// The guest of a command that runs it without an end of its own, or several times, and so writes none of its files.
    pub fn guest_to_compare(&self, image: &str, kernel: Kernel) -> Result<Guest, Failure> {
        let guest = self.guest(image, kernel)?;
        if guest.door.is_some() {
            return Err(Failure::usage("--net forward: only `trapline run` and `trapline trace` reach sockets of the host")
                .advise("record such a run with `trapline run --record FILE`: the recording has what came from them"));
        }
        match guest.pulled.is_empty() {
            true => Ok(guest),
            false => Err(Failure::usage("--pull: only `trapline run` and `trapline trace` take files out of a guest")),
        }
    }

    /// Checks the arguments and reads the files that they name.
    pub fn guest(&self, image: &str, kernel: Kernel) -> Result<Guest, Failure> {
        let cpu = self.cpu.of(kernel.arch)?;
        if self.turns.is_some() && self.cpus == 1 {
            return Err(Failure::usage("--turns: one CPU takes no turns").advise("give the guest several: --cpus 2"));
        }
        let limits = Limits::of(&self.until)?;
        let stock = self.stock.guest(image, &kernel, &self.devices)?;
        let own = match &stock {
            Some(stock) => stock.command_line,
            None => trapline_images::find(image).map_or("", |builtin| builtin.command_line),
        };
        let command_line = [own, &self.append].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ");
        let door = self.devices.door()?;
        let (initrd, whole, from_boot, pulled) = stock
            .map_or((None, None, None, Vec::new()), |stock| (Some(stock.initrd), stock.whole, stock.from_boot, stock.pulled));
        Ok(Guest {
            name: image.into(),
            kernel,
            cpus: self.cpus.into(),
            limits,
            quiet: self.quiet,
            command_line,
            initrd,
            whole,
            from_boot,
            pulled,
            cpu,
            attached: self.devices.attached(door.as_ref())?,
            door,
            memory: self.memory,
            turns: self.turns,
            files: self.sources(),
        })
    }
}

/// A size of memory: a number of mebibytes or gibibytes.
fn memory(text: &str) -> Result<u64, String> {
    let number = |digits: &str, shift: u32| {
        let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        number.checked_mul(1 << shift).filter(|bytes| *bytes <= MOST_MEMORY)
    };
    let bytes = match text.strip_suffix('M') {
        Some(digits) => number(digits, 20),
        None => text.strip_suffix('G').and_then(|digits| number(digits, 30)),
    };
    bytes.ok_or_else(|| "write a number and its unit: 256M, 2G".into())
}

/// The longest drawn turn, in nanoseconds, unless the user gives one.
pub const USUAL_LONGEST_TURN: u64 = 20_000;

/// A seed for turns, with the longest turn.
fn turns(text: &str) -> Result<Draws, String> {
    let (seed, longest) = match text.split_once(':') {
        Some((seed, longest)) => (seed, turn_length(longest)?),
        None => (text, USUAL_LONGEST_TURN),
    };
    let seed = seed.parse().map_err(|_| "write a number, or a number and the longest turn: 7, 7:50us")?;
    Ok(Draws { seed, longest })
}

/// The length of a turn, in nanoseconds.
pub fn turn_length(text: &str) -> Result<u64, String> {
    const LENGTHS: RangeInclusive<u64> = 100..=1_000_000;
    let length = guest_time(text).flatten().filter(|length| LENGTHS.contains(length));
    length.ok_or_else(|| format!("`{text}` is no length of a turn: 100ns to 1ms"))
}

/// The most memory that any board has.
const MOST_MEMORY: u64 = 1 << 40;

/// A guest to run. All errors that can be found without booting have been reported.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The image's name, for messages.
    pub name: String,
    /// The kernel to boot.
    pub kernel: Kernel,
    /// The number of CPUs.
    pub cpus: usize,
    /// When to stop before the guest does.
    pub limits: Limits,
    /// Whether to hide the console.
    pub quiet: bool,
    command_line: String,
    /// The initial file system.
    initrd: Option<Arc<[u8]>>,
    /// The self-extracting image, if the kernel shall unpack itself in the guest.
    whole: Option<Arc<Whole>>,
    /// If set, the run starts from a booted guest, at whose shell this is typed.
    from_boot: Option<Typed>,
    /// The files that come out of the guest.
    pub pulled: Vec<Pull>,
    /// The name of the CPU model.
    cpu: Option<String>,
    /// Bytes of memory. `None` means the board's usual size.
    memory: Option<u64>,
    /// Draws the CPUs' turns.
    turns: Option<Draws>,
    /// Disks and other devices.
    attached: Vec<Attached>,
    /// The door of its network to ports of the host.
    door: Option<Arc<Door>>,
    /// Sources of the guest's files besides the initial file system.
    files: Sources,
}

impl Guest {
    /// The kernel's command line.
    pub fn command_line(&self) -> &str {
        &self.command_line
    }

    /// The door of its network to ports of the host, if any port is forwarded.
    pub fn door(&self) -> Option<&Arc<Door>> {
        self.door.as_ref()
    }

    /// The guest's files, as far as they are known.
    pub fn known_files(&self) -> GuestFiles {
        GuestFiles::new(self.initrd.clone(), self.files.clone())
    }

    /// Whether the run starts at the shell of a booted guest.
    pub fn is_booted(&self) -> bool {
        self.from_boot.is_some()
    }

    fn config(&self, coverage: bool) -> Config {
        Config {
            cpus: self.cpus,
            command_line: self.command_line.clone(),
            initrd: self.initrd.clone(),
            cpu: self.cpu.clone(),
            whole: self.whole.clone(),
            coverage,
            attached: self.attached.clone(),
            ram: self.memory,
            turns: self.turns,
            files: self.files.clone(),
            ..Config::default()
        }
    }

    /// Identifies the guest's files and its machine, at the point where the run starts.
    pub fn key(&self) -> Result<Key, Failure> {
        let (image, config) = (image::bytes(&self.name)?, self.config(false));
        let moment = if self.is_booted() { booted::MOMENT } else { "the kernel's entry" };
        let key = Recipe { kernel: &self.kernel, image: &image, config: &config }.key_at(moment);
        key.map_err(|error| Failure::usage(format!("`{}`: {error}", self.name)))
    }

    /// The booted guest to start from, from the cache or by a boot; `None` for a guest that boots in the run itself.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, Failure> {
        // The boot takes the usual turns, so that one snapshot serves every seed.
        let config = Config { turns: None, ..self.config(false) };
        let fetch = |_: &Typed| from_boot::fetch(&self.name, &self.kernel, &config, !self.quiet);
        self.from_boot.as_ref().map(fetch).transpose()
    }

    /// The machine, with its probes' engine. `coverage` says whether it notes the blocks that run.
    pub fn session(&self, policy: Policy, coverage: bool, booted: Option<&Snapshot>) -> Result<Session, Failure> {
        if self.whole.is_some() && booted.is_none() {
            let note = Paint::for_errors().advice("note:");
            eprintln!("{note} the kernel unpacks itself in the guest; the first words come after that");
        }
        let (kernel, config) = (self.kernel.clone(), self.config(coverage));
        let session = match booted {
            None => Session::with_policy(kernel, &config, policy),
            Some(snapshot) => Session::from_snapshot(kernel, &config, policy, snapshot),
        };
        session.map_err(|error| cannot_be_made(&error))
    }

    /// The machine without probes, for a timeline.
    pub fn observed(&self, booted: Option<&Snapshot>) -> Result<Machine<Observer>, Failure> {
        let config = self.config(false);
        let machine = match booted {
            None => Machine::new(&self.kernel, &config, |_| Observer::default()),
            Some(snapshot) => Machine::from_snapshot(&self.kernel, &config, snapshot, |_| Observer::default()),
        };
        machine.map_err(|error| cannot_be_made(&error))
    }

    /// This guest with turns that are drawn.
    pub fn drawn(&self, turns: Draws) -> Guest {
        Guest { turns: Some(turns), ..self.clone() }
    }

    /// The machine of one side of a comparison, which logs all events. `coverage` says whether it notes the blocks that run.
    pub fn compared(&self, side: Side, policy: Policy, booted: Option<&Snapshot>, coverage: bool) -> Result<Session, Failure> {
        let (kernel, config) = (self.kernel.clone(), Config { record_events: true, ..self.config(coverage) });
        let session = match (side, booted) {
            (Side::Unprobed, None) => Session::unprobed(kernel, &config),
            (Side::Unprobed, Some(snapshot)) => Session::unprobed_from_snapshot(kernel, &config, snapshot),
            (Side::Probed, None) => Session::with_policy(kernel, &config, policy),
            (Side::Probed, Some(snapshot)) => Session::from_snapshot(kernel, &config, policy, snapshot),
        };
        session.map_err(|error| cannot_be_made(&error))
    }

    /// Everything that the guest is given besides its image, as a text that two equal guests share.
    pub fn fingerprint(&self) -> Result<String, Failure> {
        let initrd = self.initrd.as_deref().map(Key::hash);
        let whole = self.whole.as_ref().map(|whole| Key::hash(&whole.bytes));
        let (cpus, line, limits, typed, cpu) = (self.cpus, &self.command_line, &self.limits, &self.from_boot, &self.cpu);
        let devices = self.attached.iter().map(Attached::identity).collect::<Result<Vec<_>, _>>();
        let devices = devices.map_err(|why| Failure::again(why.to_string()))?;
        let memory = self.memory;
        let turns = self.turns.map(|turns| format!(" {turns:?}")).unwrap_or_default();
        Ok(format!("{cpus} {line:?} {initrd:?} {whole:?} {limits:?} {typed:?} {cpu:?} {memory:?} {devices:?}{turns}"))
    }

    /// Types at the shell of a booted guest.
    pub fn typist(&self) -> Option<Typist> {
        self.from_boot.as_ref().map(|typed| Typist::new(typed.load, typed.script.as_deref()))
    }
}

/// The failure of a machine that was not made. A machine that no board can be is an error of the command line.
fn cannot_be_made(error: &MachineError) -> Failure {
    let message = format!("the machine cannot be made: {error}");
    match error {
        MachineError::Config(_) => Failure::usage(message),
        _ => Failure::failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: sizes of memory are read, and other texts are refused.
    #[test]
    fn sizes_of_memory_are_read() {
        #[rustfmt::skip]
        let cases = [
            ("256M",                    Some(256 << 20)),
            ("2G",                      Some(2 << 30)),
            ("0M",                      Some(0)),
            ("512",                     None),
            ("M",                       None),
            ("+1G",                     None),
            ("-1G",                     None),
            ("1.5G",                    None),
            ("99999999999999999999G",   None),
            ("18014398509481984M",      None),
        ];
        for (text, expected) in cases {
            assert_eq!(memory(text).ok(), expected, "{text}");
        }
    }

    /// DV-4, CP-6: seeds with and without the longest turn are read, and other texts are refused.
    #[test]
    fn seeds_of_turns_are_read() {
        #[rustfmt::skip]
        let cases = [
            ("7",           Some((7, 20_000))),
            ("7:50us",      Some((7, 50_000))),
            ("0:100ns",     Some((0, 100))),
            ("7:",          None),
            (":5us",        None),
            ("7:99ns",      None),
            ("7:2ms",       None),
            ("7:50",        None),
            ("-1",          None),
            ("",            None),
        ];
        for (text, expected) in cases {
            assert_eq!(turns(text).ok(), expected.map(|(seed, longest)| Draws { seed, longest }), "{text}");
        }
    }
}
