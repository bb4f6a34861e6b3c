//! Tests of the interrupt controller through its registers.

use super::*;
use proptest::prelude::*;

const UART: u32 = 5;
const LINE: u32 = SHARED + UART;

/// The initialisation that Linux does: one priority for all, shared interrupts to the first CPU.
fn set_up(cpus: usize) -> Gic {
    let mut gic = Gic::new(cpus);
    gic.write(0, CONTROL, 4, 1, 0);
    for cpu in 0..cpus {
        for line in (0..64).step_by(4) {
            gic.write(cpu, PRIORITY + line, 4, 0xa0a0_a0a0, 0);
        }
        gic.interface_write(cpu, PRIORITY_MASK, 0xf0);
        gic.interface_write(cpu, INTERFACE_CONTROL, 1);
    }
    gic.write(0, TARGETS + u64::from(LINE), 1, 1, 0);
    gic.write(0, SET_ENABLE + 4, 4, 1 << UART, 0);
    gic
}

#[test]
fn a_line_interrupts_while_asserted_and_once_until_its_end() {
    let mut gic = set_up(1);
    assert_eq!((gic.asks(0), gic.interface_read(0, ACKNOWLEDGE)), (None, SPURIOUS));
    gic.set_shared(UART, true);
    assert_eq!((gic.asks(0), gic.interface_read(0, HIGHEST_PENDING)), (Some(0), LINE));
    assert_eq!((gic.interface_read(0, ACKNOWLEDGE), gic.asks(0)), (LINE, None));
    assert_eq!((gic.interface_read(0, RUNNING_PRIORITY), gic.read(0, SET_ACTIVE + 4, 4)), (0xa0, 1 << UART));
    gic.interface_write(0, END, LINE);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), LINE, "it is still held");
    gic.set_shared(UART, false);
    gic.interface_write(0, END, LINE);
    assert_eq!((gic.asks(0), gic.interface_read(0, RUNNING_PRIORITY)), (None, 0xff));
}

type Shut = fn(&mut Gic);

#[test]
fn a_masked_interrupt_is_not_delivered() {
    #[rustfmt::skip]
    let cases: [(&str, Shut); 6] = [
        ("the distributor",     |gic| gic.write(0, CONTROL, 4, 0, 0)),
        ("the interface",       |gic| gic.interface_write(0, INTERFACE_CONTROL, 0)),
        ("the priority mask",   |gic| gic.interface_write(0, PRIORITY_MASK, 0xa0)),
        ("the line",            |gic| gic.write(0, CLEAR_ENABLE + 4, 4, 1 << UART, 0)),
        ("another's line",      |gic| gic.write(0, TARGETS + u64::from(LINE), 1, 2, 0)),
        ("an active line",      |gic| gic.write(0, SET_ACTIVE + 4, 4, 1 << UART, 0)),
    ];
    for (what, shut) in cases {
        let mut gic = set_up(1);
        gic.set_shared(UART, true);
        assert!(gic.asks(0).is_some());
        shut(&mut gic);
        assert_eq!((gic.asks(0), gic.interface_read(0, ACKNOWLEDGE)), (None, SPURIOUS), "{what}");
    }
}

#[test]
fn a_higher_priority_preempts_a_lower_one() {
    let mut gic = set_up(1);
    gic.write(0, SET_ENABLE, 4, 1 << 27, 0);
    gic.write(0, PRIORITY + 27, 1, 0x20, 0);
    gic.set_shared(UART, true);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), LINE);
    gic.set_own(0, 27, true);
    assert_eq!((gic.interface_read(0, ACKNOWLEDGE), gic.asks(0)), (27, None));
    gic.interface_write(0, END, 27);
    assert_eq!(gic.interface_read(0, RUNNING_PRIORITY), 0xa0);
}

#[test]
fn an_ended_interrupt_can_stay_active_until_deactivated() {
    let mut gic = set_up(1);
    gic.interface_write(0, INTERFACE_CONTROL, ENABLE | END_DROPS_PRIORITY);
    gic.set_shared(UART, true);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), LINE);
    gic.interface_write(0, END, LINE);
    assert_eq!((gic.asks(0), gic.interface_read(0, RUNNING_PRIORITY)), (None, 0xff), "dropped, and still active");
    gic.interface_write(0, DEACTIVATE, LINE);
    assert!(gic.asks(0).is_some());
}

#[test]
fn sgis_reach_their_targets_and_name_their_sender() {
    #[rustfmt::skip]
    let cases = [
        // what              value written              asked on 0, on 1
        ("to a list",        0x0002_0003,               [false, true]),
        ("to the others",    0x0100_0003,               [false, true]),
        ("to oneself",       0x0200_0003,               [true, false]),
        ("to nobody",        0x0000_0003,               [false, false]),
    ];
    for (what, value, expected) in cases {
        let mut gic = set_up(2);
        gic.write(0, SOFTWARE_INTERRUPT, 4, value, 77);
        assert_eq!([0, 1].map(|cpu| gic.asks(cpu) == Some(77)), expected, "{what}");
    }
    let mut gic = set_up(2);
    gic.write(1, SOFTWARE_INTERRUPT, 4, 0x0001_0003, 5);
    gic.write(0, SOFTWARE_INTERRUPT, 4, 0x0001_0003, 6);
    assert_eq!(gic.read(0, SET_PENDING, 4), 8);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), 3);
    gic.interface_write(0, END, 3);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), 3 | 1 << 10, "from the second CPU");
    gic.interface_write(0, END, 3 | 1 << 10);
    assert_eq!(gic.asks(0), None);
}

/// An edge is latched, a level is not.
#[test]
fn a_line_may_be_triggered_by_edges() {
    let mut gic = set_up(1);
    gic.write(0, CONFIGURATION + 8, 4, 2 << (2 * UART), 0);
    assert_eq!(gic.read(0, CONFIGURATION + 8, 4), 2 << (2 * UART));
    gic.set_shared(UART, true);
    gic.set_shared(UART, false);
    assert_eq!(gic.interface_read(0, ACKNOWLEDGE), LINE);
    gic.interface_write(0, END, LINE);
    assert_eq!(gic.asks(0), None);
}

#[test]
fn identification_registers_can_be_read() {
    let gic = set_up(2);
    #[rustfmt::skip]
    let cases = [
        // register                     CPU  value
        ("lines and CPUs",      TYPE,               0, 0x23),
        ("who am I",            TARGETS,            1, 0x0202_0202),
        ("version",             PERIPHERAL_ID_2,    0, 0x2b),
        ("software lines",      CONFIGURATION,      0, 0xaaaa_aaaa),
        ("behind the last",     SET_ENABLE + 0x10,  0, 0),
    ];
    for (what, offset, cpu, value) in cases {
        assert_eq!(gic.read(cpu, offset, 4), value, "{what}");
    }
}

proptest! {
    #[test]
    fn bad_register_traffic_never_panics(
        accesses in proptest::collection::vec((0u8..7, 0usize..3, 0u64..0x1100, 1u32..9, any::<u32>()), 0..300),
    ) {
        let mut gic = set_up(2);
        for (what, cpu, offset, size, value) in accesses {
            match what {
                0 | 1 => gic.write(cpu, offset, size, value, value.into()),
                2 => { gic.read(cpu, offset, size); }
                3 => gic.interface_write(cpu, if value % 5 == 0 { END } else { offset }, value),
                4 => { gic.interface_read(cpu, if value % 3 == 0 { ACKNOWLEDGE } else { offset }); }
                5 => gic.set_shared(value, value & 1 != 0),
                _ => gic.set_own(cpu, value, value & 1 != 0),
            }
            prop_assert!(gic.cpus.iter().all(|cpu| cpu.running.len() <= 256));
            gic.asks(cpu);
        }
    }
}
