//! Assembles a machine: the core, RAM, the loaded kernel, the board, and each CPU in its entry state.

use super::coverage::Coverage;
use super::fetched::Fetched;
use super::gate::Gate;
use super::turns::Turns;
use super::watchdog::Watchdog;
use super::{Inner, Listener, Machine, SleepingCpu, between_runs};
use crate::arches;
use crate::boards::{Board, Boot, Spec};
use crate::boot::btf::Btf;
use crate::boot::kernels;
use crate::boot::whole::Whole;
use crate::boot::{Kernel, Starter};
use crate::clock::{Stopped, Ticks};
use crate::config::Config;
use crate::cpu::mappings::MappingPlace;
use crate::cpu::moment::MomentPlace;
use crate::cpu::{Model, TaskPlace, View, WindowPlace};
use crate::error::MachineError;
use crate::snapshot::Counts;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::Core;
use crate::unicorn::ram::Ram;

const LARGE_PAGE: u64 = 2 << 20;

impl<L: Listener> Machine<L> {
    /// Assembles the kernel's board, loads the kernel, and runs every CPU up to the first function at its link address.
    /// `listener` gets the place of the probe window.
    pub fn new(kernel: &Kernel, config: &Config, listener: impl FnOnce(WindowPlace) -> L) -> Result<Machine<L>, MachineError> {
        let mut machine = Machine::assemble(kernel, config, listener, true)?;
        if let Some(address) = kernel.first_function() {
            machine.arrive(kernel, address, config.whole.is_some())?;
            let inner = &machine.inner;
            (inner.view.model.window.clear)(&machine.core.stopped(), &inner.view.ram, &inner.window);
            machine.core.flush_tlb();
        }
        Ok(machine)
    }

    /// Assembles the board and its CPUs. Loads the kernel only if `loaded`.
    pub(super) fn assemble(
        kernel: &Kernel,
        config: &Config,
        listener: impl FnOnce(WindowPlace) -> L,
        loaded: bool,
    ) -> Result<Machine<L>, MachineError> {
        let machine = arches::of(kernel.arch).machine()?;
        let (model, spec) = (machine.model, machine.board(kernel)?);
        let cpu = model.choice(config.cpu.as_deref(), kernel)?;
        (model.self_check)().map_err(MachineError::Core)?;
        let guest_ram_bytes = checked_ram(spec, config)?;
        let window_bytes = config.window.next_multiple_of(LARGE_PAGE).min((model.window.most)(kernel));
        // Behind the guest's RAM lie the window, its page tables, and the page tables at the kernel's entry.
        let hidden = spec.ram_start + guest_ram_bytes;
        let tables = hidden + window_bytes;
        let entry_tables = tables + (model.window.table_bytes)(window_bytes);
        let total = (entry_tables + model.entry.table_bytes - spec.ram_start).next_multiple_of(LARGE_PAGE);
        let ram = Ram::around(spec.hole, spec.ram_start, total as usize, kernel.arch.isa().order)
            .ok_or_else(|| MachineError::Config(format!("the host has no {total} bytes of memory for the guest")))?;
        let boot = if loaded { load_all(kernel, spec, config, &ram, guest_ram_bytes)? } else { Boot::default() };
        let start = (model.window.start)(kernel, hidden);
        let window = WindowPlace { start, len: window_bytes, physical: hidden, tables };
        (model.window.prepare)(&ram, &window);

        // One core runs all CPUs in turn. Each CPU starts as a saved state, and that of CPU 0 is loaded at the end.
        let core = Core::new(cpu.core, &ram).map_err(MachineError::Core)?;
        let scratch = CoreState::new(core.handle()).map_err(MachineError::Core)?;
        let board = board(spec, config, guest_ram_bytes)?;
        let parks = board.parks_cpus();
        let mut cpus = Vec::new();
        let reset = between_runs::image(core.handle())?;
        let entry = config.whole.as_ref().map_or(kernel.entry, |whole| whole.entry);
        for number in 0..config.cpus {
            reset.restore(core.handle());
            (model.entry.enter)(&core.stopped(), &ram, entry_tables, entry, number as u64, boot.info);
            for (register, value) in kernel.arch.isa().abi.arguments.iter().zip(&boot.arguments) {
                (model.registers.set)(&core.stopped(), *register, *value);
            }
            let state = between_runs::image(core.handle())?;
            let (clock, parked) = (Stopped::default(), parks && number != 0);
            cpus.push(SleepingCpu { state, clock, fault_address: 0, halted: false, frozen: false, parked });
        }
        let start = state_at_start(&core, model, &ram, entry_tables, &reset, parks)?;
        cpus[0].state.restore(core.handle());
        core.flush_tlb();

        let view = view(kernel, &core, model, ram);
        let inner = Inner {
            view,
            board,
            has_masters: !config.attached.is_empty(),
            turns: Turns::new(parks, start, config.turns),
            board_name: spec.name,
            cpu,
            guest_ram_bytes,
            entry_tables,
            reset,
            listener: listener(window),
            window,
            gate: Gate::default(),
            at_gate: Inner::odd_block,
            was_busy: false,
            shown: None,
            fetched: Fetched::of(&window),
            scratch,
            cpus,
            fault_address: 0,
            frozen: false,
            frozen_blocks: 0,
            next_look: 0,
            every_block: config.every_block || config.coverage,
            coverage: config.coverage.then(|| Box::new(Coverage::new())),
            steps: None,
            exact: None,
            reports_every_block: true,
            stop_reason: None,
            waiting: None,
            limit: Ticks::MAX,
            slice_end: 0,
            console: Vec::new(),
            console_watch: None,
            happenings: config.record_events.then(Vec::new),
            counts: Counts::default(),
            watchdog: Watchdog::new(config.patience),
            arrival: None,
            early_accesses: 0,
            watched: Vec::new(),
            ties: config.ties(),
        };
        Ok(Machine { core, inner, crashed: None })
    }
}

/// The handlers' view of the guest, with the kernel's offsets for the running task, the trace header (interrupt state,
/// preemption count) and memory mappings, as far as its BTF types give them.
fn view<L: Listener>(kernel: &Kernel, core: &Core<Inner<L>>, model: &'static Model, ram: Ram) -> View {
    let types = Btf::of(kernel);
    let places = (TaskPlace::of(kernel, types.as_ref(), model), MomentPlace::of(kernel, types.as_ref(), model));
    let mut view = View::new(core.stopped(), core.line(), model, ram, places);
    if kernel.is_stock() {
        view.is_user = model.is_user;
    }
    view.mapping = types.as_ref().and_then(MappingPlace::of);
    view
}

/// The board with its devices.
fn board(spec: &Spec, config: &Config, guest_ram_bytes: u64) -> Result<Box<dyn Board>, MachineError> {
    let mut board = (spec.devices)(config.cpus, guest_ram_bytes);
    for device in &config.attached {
        board.attach(device).map_err(|error| MachineError::Config(format!("the {} board: {error}", spec.name)))?;
    }
    Ok(board)
}

/// The state of a secondary CPU before another CPU starts it and sets its start address.
fn state_at_start<L: Listener>(
    core: &Core<Inner<L>>,
    model: &Model,
    ram: &Ram,
    tables: u64,
    reset: &CoreState,
    parks: bool,
) -> Result<CoreState, MachineError> {
    reset.restore(core.handle());
    if parks && model.entry.start.is_entered {
        (model.entry.enter)(&core.stopped(), ram, tables, 0, 0, 0);
    }
    between_runs::image(core.handle())
}

/// The span of the RAM that the guest may use: the configured size or the board's default, in whole large pages, and the
/// board's hole. Fails if the board does not support this size or the number of CPUs.
fn checked_ram(spec: &Spec, config: &Config) -> Result<u64, MachineError> {
    let (name, most) = (spec.name, spec.cpus);
    if !(1..=most).contains(&config.cpus) {
        let plural = if most == 1 { "1 CPU".to_string() } else { format!("1 to {most} CPUs") };
        return Err(MachineError::Config(format!("{} CPUs were asked for: the {name} board has {plural}", config.cpus)));
    }
    let ram = config.ram.unwrap_or(spec.ram).next_multiple_of(LARGE_PAGE);
    if !(spec.least_ram..=spec.most_ram).contains(&ram) {
        let mib = |bytes: u64| bytes >> 20;
        let (asked, least, most) = (mib(ram), mib(spec.least_ram), mib(spec.most_ram));
        return Err(MachineError::Config(format!(
            "{asked} MiB of RAM were asked for: the {name} board has {least} to {most} MiB"
        )));
    }
    Ok(spec.span(ram))
}

/// Loads the kernel and the board's boot data into the RAM that the guest may use.
fn load_all(kernel: &Kernel, spec: &Spec, config: &Config, ram: &Ram, guest_ram_bytes: u64) -> Result<Boot, MachineError> {
    let most = spec.ram_start + guest_ram_bytes;
    let kernel_end = match (&config.whole, &kernel.starter) {
        (None, None) => {
            starts_alone(kernel)?;
            load(kernel, 0, ram, spec.name, most)?
        }
        (None, Some(starter)) => load_started(starter, kernel, ram, spec.name, most)?,
        (Some(whole), _) => load_whole(whole, kernel, ram, spec.name, most)?,
    };
    let boot = (spec.boot)(config, guest_ram_bytes, kernel_end)?;
    for (physical, bytes) in &boot.pieces {
        ram.write(*physical, bytes);
    }
    Ok(boot)
}

/// Refuses the vmlinux of a stock kernel on ISAs where only the bootable file (bzImage, vmlinuz) has the startup code.
fn starts_alone(kernel: &Kernel) -> Result<(), MachineError> {
    let start = kernels::of(kernel.arch).raw_image.and_then(|format| format.start);
    match start.filter(|start| kernel.is_stock() && kernel.symbols.address_of(start).is_none()) {
        None => Ok(()),
        Some(start) => Err(MachineError::Config(format!(
            "this vmlinux has no `{start}`, the code that starts it: give the file to boot that is made of it (bzImage, vmlinuz) instead"
        ))),
    }
}

/// Loads the kernel's segments `behind` bytes above their own physical addresses. Returns the highest end of a segment.
fn load(kernel: &Kernel, behind: u64, ram: &Ram, board: &str, most: u64) -> Result<u64, MachineError> {
    let mut last = 0;
    for segment in kernel.segments.iter() {
        let start = segment.physical.saturating_add(behind);
        let end = start.saturating_add(segment.size);
        if end > most || !ram.write(start, &segment.bytes) {
            return Err(no_room(end, board, most));
        }
        last = last.max(end);
    }
    Ok(last)
}

/// Loads a boot stub, and the kernel at the address where the stub expects it. Returns the kernel's end.
fn load_started(starter: &Starter, kernel: &Kernel, ram: &Ram, board: &str, most: u64) -> Result<u64, MachineError> {
    let first = kernel.segments.iter().map(|segment| segment.physical).min().unwrap_or(0);
    let end = load(kernel, starter.kernel_at.saturating_sub(first), ram, board, most)?;
    if ram.write(starter.at, &starter.bytes) { Ok(end) } else { Err(no_room(starter.at, board, most)) }
}

/// Loads a self-extracting image. Returns the end of the kernel or of the memory for unpacking, whichever is higher.
fn load_whole(whole: &Whole, kernel: &Kernel, ram: &Ram, board: &str, most: u64) -> Result<u64, MachineError> {
    let ends = kernel.segments.iter().map(|segment| segment.physical.saturating_add(segment.size));
    let end = ends.fold(whole.at.saturating_add(whole.room), u64::max);
    if end > most || !ram.write(whole.at, &whole.bytes) {
        return Err(no_room(end, board, most));
    }
    Ok(end)
}

fn no_room(end: u64, board: &str, most: u64) -> MachineError {
    MachineError::Config(format!("the kernel wants memory up to {end:#x}, the {board} board has it up to {most:#x}"))
}
