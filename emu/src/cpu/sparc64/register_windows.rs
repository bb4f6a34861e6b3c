//! Access to many registers at once, for the save and restore of a jprobe. The registers of all windows are contiguous
//! in the core's state, so they are copied and compared as a whole.

use super::state::{CWP, GLOBALS, WINDOW, get, set};
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi::{WINDOW_REGISTERS, WINDOWS, in_windows};

/// The values of the registers that instructions can name in the current window.
struct Now([u64; 32]);

impl Now {
    fn of(handle: &Handle) -> Now {
        const GLOBAL: usize = GLOBALS as usize;
        let mut all = [0; 32];
        all[..GLOBAL].copy_from_slice(&handle.live_words::<GLOBAL>(0));
        let at = WINDOW + 8 * 16 * handle.live32(CWP) as usize;
        all[GLOBAL..].copy_from_slice(&handle.live_words::<{ 32 - GLOBAL }>(at));
        Now(all)
    }

    #[inline]
    fn get(&self, handle: &Handle, reg: Reg, pc: u64) -> u64 {
        match self.0.get(usize::from(reg.0)) {
            Some(value) => *value,
            None => get(handle, reg, pc),
        }
    }
}

/// The registers of all windows, in order. While the last window is current, the first eight are stored behind all
/// others.
fn of_all_windows(handle: &Handle) -> [u64; WINDOW_REGISTERS] {
    let mut all = handle.live_words(WINDOW);
    if u64::from(handle.live32(CWP)) == WINDOWS - 1 {
        all[..8].copy_from_slice(&handle.live_words::<8>(WINDOW + 8 * WINDOW_REGISTERS));
    }
    all
}

/// The number of names before those of all windows' registers, if the list ends with these.
fn in_front_of_windows(names: &[(&str, Reg)]) -> usize {
    let start = names.len().saturating_sub(WINDOW_REGISTERS);
    let ends = names.get(start).zip(names.last()).is_some_and(|((_, first), (_, last))| {
        names.len() - start == WINDOW_REGISTERS && *first == in_windows(0) && *last == in_windows(WINDOW_REGISTERS as u8 - 1)
    });
    if ends { start } else { names.len() }
}

/// Reads as many registers as there are values.
pub fn get_many(handle: &Handle, names: &[(&str, Reg)], pc: u64, values: &mut [u64]) {
    let front = in_front_of_windows(names).min(values.len());
    let now = Now::of(handle);
    let (values, windows) = values.split_at_mut(front);
    for (value, (_, reg)) in values.iter_mut().zip(names) {
        *value = now.get(handle, *reg, pc);
    }
    if !windows.is_empty() {
        windows.iter_mut().zip(&of_all_windows(handle)).for_each(|(value, now)| *value = *now);
    }
}

/// Writes the registers whose value differs. The first ones may switch the register window.
pub fn put_back(cpu: &TrapContext, names: &[(&str, Reg)], pc: u64, values: &[u64]) {
    let handle = cpu.handle();
    let front = in_front_of_windows(names).min(values.len());
    let (values, windows) = values.split_at(front);
    let mut now = Now::of(&handle);
    for (value, (_, reg)) in values.iter().zip(names) {
        if now.get(&handle, *reg, pc) != *value {
            set(cpu, *reg, *value);
            now = Now::of(&handle);
        }
    }
    if !windows.is_empty() && of_all_windows(&handle)[..] != *windows {
        windows.iter().zip(names.iter().skip(front)).for_each(|(value, (_, reg))| set(cpu, *reg, *value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Kernel;
    use crate::machine::Config;
    use crate::probed::Session;
    use trapline_isa::regs::{Registers, get_each};
    use trapline_isa::sparc64::abi::{CWP, ELF};

    /// JP-1: bulk reads equal single reads in every window, and all registers are restored.
    #[test]
    fn many_registers_at_once_are_those_that_are_read_one_by_one() {
        let tiny = trapline_images::find("tiny/sparc64").expect("it is built in");
        let kernel = Kernel::from_bytes(tiny.bytes).expect("it is a kernel");
        let mut session = Session::new(kernel, &Config::default()).expect("a machine");
        session.machine_mut().look(|view| {
            for window in 0..WINDOWS {
                view.set(CWP, window);
                for (number, (_, reg)) in (1..).zip(ELF.names.iter().chain(ELF.hidden)) {
                    let is_control = (32..64).contains(&reg.0);
                    (!is_control).then(|| view.set(*reg, number * 0x0101_0101 + window));
                }
                for names in [ELF.names, ELF.hidden, &ELF.hidden[..7]] {
                    let (mut one_by_one, mut at_once) = (vec![0; names.len()], vec![0; names.len()]);
                    get_each(view, names, &mut one_by_one);
                    view.get_all(names, &mut at_once);
                    assert_eq!(one_by_one, at_once, "{} in window {window}", names.len());
                }
                let mut before = vec![0; ELF.hidden.len()];
                view.get_all(ELF.hidden, &mut before);
                view.set(CWP, window + 3);
                ELF.names[1..].iter().filter(|(_, reg)| reg.0 < 32).for_each(|(_, reg)| view.set(*reg, 5));
                view.put_back(ELF.hidden, &before);
                let mut after = vec![0; ELF.hidden.len()];
                get_each(view, ELF.hidden, &mut after);
                assert_eq!(before, after, "window {window}");
            }
        });
    }
}
