//! `trapline run`: the arguments, and the check of everything that can be checked before booting.

use super::commands::{Chosen, Command, Timed, View};
use super::console::Input;
use super::coverage::is_lcov;
use super::debug_files::DebugFiles;
use super::event_error::{Script, read_events};
use super::file::{self, Kind};
use super::guest::GuestArgs;
use super::on_panic::OnPanicArg;
use super::record::RecordArg;
use super::request::{Outputs, Request, SummaryFormat, Wanted};
use super::source_lines::LinesArg;
use super::terminal::Terminal;
use super::until::guest_time;
use super::{DetourName, Failure, PolicyName, dwarf, place};
use crate::boot::Kernel;
use crate::outputs::records::Format;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Boots a kernel, with probes
///
/// Probes are lines of Linux's kprobe_events. Without IMAGE and probes, the tiny kernel runs with its demo script. The
/// exit status is 1 if the guest or a probe fails.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A kernel file (vmlinux, vmlinuz, bzImage), a built-in kernel such as tiny/x86_64, or a stock kernel such as
    /// debian/amd64
    #[arg(default_value = DEFAULT_IMAGE)]
    image: String,
    /// A line of kprobe_events, such as 'p:open sys_open path=+0($arg1):ustring'
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// A file with lines of kprobe_events, or with shell commands on tracing files (echo TEXT > FILE, cat FILE, sleep
    /// SECONDS): filters, triggers, histograms; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    lines: LinesArg,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    record: RecordArg,
    #[command(flatten)]
    on_panic: OnPanicArg,
    /// Types this file on the console of a stock kernel, followed by Ctrl-D; `-` is standard input
    #[arg(long, value_name = "FILE")]
    console_input: Option<PathBuf>,
    /// A file for records, instead of standard output; may be repeated. The file's ending chooses the format: .dat
    /// (trace-cmd, KernelShark), .perfetto or .pftrace (ui.perfetto.dev), .csv, .folded and .svg (backtraces); for
    /// other files --format does
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// The format of the records
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Draws the backtraces of all records as a flame graph (SVG). Turns --stacktrace on
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// Writes which blocks of kernel code ran, in drcov's format (Lighthouse, Cutter). With the ending .info, writes
    /// which source lines ran, in lcov's format (genhtml); that needs debug information. Guest time stays the same; the
    /// run takes longer on the host
    #[arg(long, value_name = "FILE")]
    coverage: Option<PathBuf>,
    /// Writes one HTML page about the run: timeline, probes, misses, histograms, callers (with --stacktrace)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Writes the guest as a core dump (ELF vmcore) for drgn, crash and gdb, when the run ends: at --until, at a panic,
    /// or when the guest stops
    #[arg(long, value_name = "FILE")]
    vmcore: Option<PathBuf>,
    /// Writes the core dump at the first hit of this event instead. The run goes on
    #[arg(long, value_name = "[GROUP/]EVENT", requires = "vmcore")]
    vmcore_at: Option<String>,
    /// Adds a backtrace to each record, like ftrace's option `stacktrace`; entries that are only guesses are marked
    /// with `?`
    #[arg(long)]
    stacktrace: bool,
    /// The format of the summary
    #[arg(long, value_enum, default_value_t)]
    summary: SummaryFormat,
    /// Short for --format json --summary json
    #[arg(long)]
    json: bool,
    /// The rules that decide about probes
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyName,
    /// Carries out a command at a guest time: enable, disable (all probes, or [GROUP/]EVENT), knob on, knob off, list,
    /// profile, blacklist, or a line of kprobe_events. As in Linux, an event must be disabled before `-:EVENT` removes
    /// it
    #[arg(long, num_args = 2, value_names = ["TIME", "COMMAND"], allow_hyphen_values = true)]
    at: Vec<String>,
    /// Prints the list of probes at the end, in debugfs' format
    #[arg(long)]
    list: bool,
    /// Prints the hits and misses of events at the end, in kprobe_profile's format
    #[arg(long)]
    profile: bool,
    /// Prints the blacklist at the end, in debugfs' format
    #[arg(long)]
    list_blacklist: bool,
    /// Refuses probes in this function, as NOKPROBE_SYMBOL does
    #[arg(long, value_name = "SYMBOL")]
    blacklist: Vec<String>,
    /// Does not replace breakpoints by jumps (like 0 in the sysctl debug.kprobes-optimization)
    #[arg(long)]
    no_optimize: bool,
    /// The form of the detours of optimised probes
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    detour: DetourName,
}

pub(super) const DEFAULT_IMAGE: &str = "tiny/x86_64";

const EXAMPLES: &str = "\
Examples:
  trapline run                                          the tiny kernel with its demo script
  trapline run -e 'p:read vfs_read' -e 'r:done vfs_read n=$retval'
  trapline run vmlinux --dwarf vmlinux.debug -e 'p:vfs_read:12 count'
                                                        a source line and a variable, as perf probe has them
  trapline run debian/amd64                             Debian's kernel, with this terminal as its console
  trapline run debian/amd64 --script work.sh -e 'p:open do_sys_openat2 file=+0($arg2):ustring'
  trapline run debian/amd64 --from-boot --script 'cat /proc/interrupts'
                                                        a command instead of a script's file
  trapline run debian/amd64 --from-boot --script work.sh -e 'r:done vfs_read n=$retval'
  trapline run debian/amd64 --whole                     the kernel is unpacked by its own decompressor
  trapline run debian/amd64 --module dummy.ko -e 'p:up dummy:dummy_dev_init'
  trapline run debian/arm64 --disk disk.qcow2 --script work.sh
                                                        /dev/vda; the file is never written
  trapline run debian/amd64 --script work.sh --push tool:/bin/tool --mem 1G
  trapline run debian/arm64 --script work.sh --pull /tmp/log
  trapline run debian/amd64 --root ~/trees/bookworm --script work.sh
                                                        the script runs in a folder of the host, which stays as it is
  trapline run debian/amd64 --net www=results --script work.sh
                                                        the folder at http://10.0.2.2/, in a network without an outside
  trapline run tiny/i386 -f probes.events --out trace.txt --quiet
  trapline run -e 'p vfs_read' -e 'r:done vfs_read n=$retval' --out trace.dat --out trace.perfetto
                                                        for `trace-cmd report -i trace.dat` and ui.perfetto.dev
  trapline run -e 'p vfs_read' --flame reads.svg        who calls vfs_read, as a flame graph
  trapline run -e 'p vfs_read count=$arg3' --format csv --quiet
  trapline run --coverage tiny.drcov                    the blocks of code that ran
  trapline run -e 'p vfs_read count=$arg3' --stacktrace --report run.html
                                                        a page for a browser, complete in itself
  trapline run debian/amd64 --script work.sh --vmcore work.vmcore
                                                        for `drgn -c work.vmcore -s vmlinux`
  trapline run debian/amd64 --script work.sh -e 'p:open do_sys_openat2' --vmcore open.vmcore --vmcore-at open
  trapline run vmlinux --coverage run.info              the source lines that ran, for genhtml
  trapline run vmlinux -e 'p vfs_read' --stacktrace --lines
                                                        backtraces with source lines
  trapline run debian/amd64 --script work.sh -f script.events  with lines such as
                                                          echo 'p:open do_sys_openat2' >> kprobe_events
                                                          echo 'hist:keys=common_pid' > events/kprobes/open/trigger
                                                          cat events/kprobes/open/hist
  trapline run -e 'p:read vfs_read' --at 100us 'disable read' --at 300us profile --at 300us 'enable read'
  trapline run -e 'j:fork do_fork flags=$arg1'          a jprobe; the letter j is trapline's own
  trapline run debian/amd64 --from-boot --record monday.rec    then: trapline replay monday.rec -e 'kprobe:vfs_open {..}'
  trapline run debian/amd64 --script work.sh --module mine.ko --on-panic report
                                                        who last wrote the word that was wrong
  trapline run vmlinux --cpus 2 --until 50ms --until console:login: --json";

impl Args {
    /// Checks the arguments and makes the request.
    pub fn request(&self) -> Result<Request, Failure> {
        let builtin = trapline_images::find(&self.image);
        let kernel = self.guest.kernel(&self.image)?;
        if let Some(Err(refusal)) = kernel.arch.isa().detour.map(|table| table.room(self.detour.into())) {
            return Err(Failure::usage(format!("--detour: {refusal}")));
        }
        for name in &self.blacklist {
            place::find(&kernel.symbols, name)?;
        }
        let mut scripts = self.files.iter().map(|file| read_script(file)).collect::<Result<Vec<_>, _>>()?;
        scripts.extend(self.events.iter().map(|line| Script { source: "-e".into(), text: line.clone() }));
        if let (Some(builtin), true) = (builtin, scripts.is_empty()) {
            scripts.push(Script { source: format!("the demo script of {}", builtin.name), text: builtin.demo.into() });
        }
        let (events, script) = dwarf::read_scripts(&kernel, scripts, || {
            self.lines.dwarf.open(&self.image, &kernel, &self.guest.module_files(&self.image)?)
        })?;
        let input = self.input(kernel.is_stock())?;
        let lines = self.debug_file(&kernel, input == Input::Terminal)?;
        let guest = self.guest.guest(&self.image, kernel)?;
        if self.out.is_empty() && self.format.is_binary() {
            let why = "--format: this format is binary and cannot be printed among the console's text";
            return Err(Failure::usage(why).advise("name a file: --out trace.dat, --out trace.perfetto"));
        }
        Ok(Request {
            input,
            record: self.record.of(&self.image, &self.guest)?,
            on_panic: self.on_panic.clone(),
            guest,
            probes: Wanted {
                events,
                script,
                policy: self.policy,
                blacklist: self.blacklist.clone(),
                no_optimize: self.no_optimize,
                detour: self.detour,
            },
            commands: self.commands()?,
            outputs: Outputs {
                out: self.out.clone(),
                format: if self.json { Format::Json } else { self.format },
                stacktrace: self.stacktrace || self.needs_stacks(),
                flame: self.flame.clone(),
                coverage: self.coverage.clone(),
                report: self.report.clone(),
                vmcore: self.vmcore.clone(),
                vmcore_at: self.vmcore_at.as_deref().map(Chosen::parse),
                lines,
                shows_lines: self.lines.lines,
                summary: if self.json { SummaryFormat::Json } else { self.summary },
                views: self.views(),
            },
        })
    }
}

impl Args {
    /// The debug information for the run's outputs, and for the command line of Ctrl-A c.
    fn debug_file(&self, kernel: &Kernel, is_asked: bool) -> Result<Option<DebugFiles>, Failure> {
        let loaded = self.guest.module_files(&self.image)?;
        match self.coverage.as_deref().is_some_and(is_lcov) {
            true => self.lines.dwarf.needed(&self.image, kernel, &loaded).map(Some),
            false if is_asked && !self.lines.lines => self.lines.dwarf.open(&self.image, kernel, &loaded).map(Some),
            false => self.lines.open(&self.image, kernel, &loaded),
        }
    }

    fn needs_stacks(&self) -> bool {
        self.flame.is_some() || self.format.needs_stacks() || self.out.iter().any(|file| self.format.of_file(file).needs_stacks())
    }

    fn views(&self) -> Vec<View> {
        let wanted = [(self.list, View::List), (self.profile, View::Profile), (self.list_blacklist, View::Blacklist)];
        wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, view)| view).collect()
    }

    fn commands(&self) -> Result<VecDeque<Timed>, Failure> {
        let mut commands = Vec::new();
        for pair in self.at.chunks_exact(2) {
            let [time, text] = pair else { continue };
            let Some(Some(at)) = guest_time(time) else {
                let why = format!("--at: `{time}` is not a guest time");
                return Err(Failure::usage(why).advise("write a number and its unit: 300ns, 20us, 50ms, 2s"));
            };
            let script = || Script { source: format!("--at {time}"), text: text.clone() };
            let command = Command::parse(text, |_| Ok(read_events(script())?.pop()))?;
            commands.push(Timed { at, text: text.clone(), command });
        }
        commands.sort_by_key(|command| command.at);
        Ok(commands.into())
    }

    /// The console input. The terminal is used for a stock kernel without a script.
    fn input(&self, has_console: bool) -> Result<Input, Failure> {
        if let Some(file) = &self.console_input {
            return match has_console {
                true => Input::read(file),
                false => Err(Failure::usage(format!(
                    "`{}` reads nothing from its console: --console-input is for stock kernels",
                    self.image
                ))),
            };
        }
        let interactive = has_console && !self.guest.has_script() && !self.guest.quiet && Terminal::is_there();
        Ok(if interactive { Input::Terminal } else { Input::Nothing })
    }
}

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    super::session::run(args.request()?)
}

pub(super) fn read_script(path: &Path) -> Result<Script, Failure> {
    let (source, bytes) = if path.as_os_str() == "-" {
        ("standard input".to_string(), file::standard_input(Kind::SCRIPT))
    } else {
        (path.display().to_string(), file::bytes(path, Kind::SCRIPT))
    };
    let no_script = |why: String| Failure::usage(format!("`{source}` cannot be read as a script: {why}"));
    let bytes = bytes.map_err(|error| no_script(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| no_script(format!("it is no UTF-8 text: {}", error.utf8_error())))?;
    Ok(Script { source, text })
}
