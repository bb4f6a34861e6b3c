//! PSCI 0.2, the firmware interface of the `virt` board. It is called by SMC or HVC with a function number (ARM DEN
//! 0022).

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue with this signed value in the first register, extended to the register's width.
    Value(i32),
    /// Power the machine off.
    Off,
    /// Reset the machine. Here this ends the machine, too.
    Reset,
    /// Switch the calling CPU off.
    CpuOff,
    /// Start this CPU, which is off.
    CpuOn(usize),
}

const VERSION: u32 = 0x8400_0000;
const SUSPEND: u32 = 0x8400_0001;
const CPU_OFF: u32 = 0x8400_0002;
const CPU_ON: u32 = 0x8400_0003;
const AFFINITY: u32 = 0x8400_0004;
const MIGRATE_TYPE: u32 = 0x8400_0006;
const SYSTEM_OFF: u32 = 0x8400_0008;
const SYSTEM_RESET: u32 = 0x8400_0009;
/// Set in the numbers of functions with 64-bit arguments.
const WIDE: u32 = 1 << 30;

const VERSION_0_2: i32 = 2;
/// The migration type: there is no trusted OS that would have to migrate.
const NOTHING_TO_MIGRATE: i32 = 2;
const IS_ON: i32 = 0;
const IS_OFF: i32 = 1;
/// The bits of a CPU's number (MPIDR) that tell CPUs apart.
const AFFINITY_BITS: u64 = 0xff_00ff_ffff;

const NOT_SUPPORTED: i32 = -1;
const INVALID_PARAMETERS: i32 = -2;
const DENIED: i32 = -3;
const ALREADY_ON: i32 = -4;

/// Answers a call of one of these CPUs. `on` says which of them run.
pub fn call(function: u32, argument: u64, on: &[bool]) -> Answer {
    let target = usize::try_from(argument & AFFINITY_BITS).ok().and_then(|cpu| on.get(cpu).map(|is_on| (cpu, *is_on)));
    let value = match function {
        VERSION => VERSION_0_2,
        MIGRATE_TYPE => NOTHING_TO_MIGRATE,
        SYSTEM_OFF => return Answer::Off,
        SYSTEM_RESET => return Answer::Reset,
        CPU_OFF if on.iter().filter(|is_on| **is_on).count() > 1 => return Answer::CpuOff,
        // The last CPU that runs stays on.
        CPU_OFF => DENIED,
        _ => match function & !WIDE {
            CPU_ON => match target {
                Some((cpu, false)) => return Answer::CpuOn(cpu),
                Some((_, true)) => ALREADY_ON,
                None => INVALID_PARAMETERS,
            },
            AFFINITY => target.map_or(INVALID_PARAMETERS, |(_, is_on)| if is_on { IS_ON } else { IS_OFF }),
            // CPU_SUSPEND would do no more than WFI, so it is not offered.
            SUSPEND => INVALID_PARAMETERS,
            _ => NOT_SUPPORTED,
        },
    };
    Answer::Value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_result() {
        #[rustfmt::skip]
        let cases = [
            // what                     function        argument    answer
            ("version",                 0x8400_0000,    0,          Answer::Value(2)),
            ("migration",               0x8400_0006,    0,          Answer::Value(2)),
            ("off",                     0x8400_0008,    0,          Answer::Off),
            ("reset",                   0x8400_0009,    0,          Answer::Reset),
            ("a CPU that runs",         0xc400_0003,    0,          Answer::Value(-4)),
            ("a CPU that is not there", 0x8400_0003,    1,          Answer::Value(-2)),
            ("is it on",                0xc400_0004,    0,          Answer::Value(0)),
            ("this CPU off",            0x8400_0002,    0,          Answer::Value(-3)),
            ("features, from 1.0 on",   0x8400_000a,    0,          Answer::Value(-1)),
            ("wide where there is none", 0xc400_0008,   0,          Answer::Value(-1)),
            ("another's call",          0x8000_0000,    0,          Answer::Value(-1)),
        ];
        for (what, function, argument, answer) in cases {
            assert_eq!(call(function, argument, &[true]), answer, "{what}");
        }
    }

    #[test]
    fn a_cpu_is_started_once_and_the_last_one_stays_on() {
        let on = [true, false, true];
        assert_eq!(call(0xc400_0003, 1, &on), Answer::CpuOn(1));
        assert_eq!(call(0xc400_0003, 1 << 31 | 1, &on), Answer::CpuOn(1), "the constant bit of MPIDR names no CPU");
        assert_eq!([0, 2, 3].map(|cpu| call(0x8400_0003, cpu, &on)), [-4, -4, -2].map(Answer::Value));
        assert_eq!([0, 1, 3].map(|cpu| call(0xc400_0004, cpu, &on)), [0, 1, -2].map(Answer::Value));
        assert_eq!(call(0x8400_0002, 0, &on), Answer::CpuOff);
        assert_eq!(call(0x8400_0002, 0, &[false, true]), Answer::Value(-3));
    }
}
