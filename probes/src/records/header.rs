//! The fields that every record has ([`Header`]), with the context flags of ftrace ([`Flags`]).
//!
//! The ring stores a header in a frame of fixed size in front of each payload. [`encode`] and [`decode`] convert it.

/// Identifies an event. An id is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(pub u32);

/// The fields that every record has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The number of the event that the record belongs to.
    pub event: EventId,
    /// The CPU that was stopped.
    pub cpu: u16,
    /// Context flags, as ftrace shows them.
    pub flags: Flags,
    /// The task's pid.
    pub pid: u32,
    /// The task's name, zero-padded.
    pub comm: [u8; 16],
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// The probed address.
    pub ip: u64,
    /// The return address. 0 unless the record is of a function's return.
    pub return_ip: u64,
}

/// Context flags of a record. The low byte holds flags, the second byte two 4-bit depths (preemption, migration), the third
/// byte more flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No flag set.
    pub const NONE: Flags = Flags(0);
    /// The probed code ran with interrupts off.
    pub const INTERRUPTS_OFF: Flags = Flags(1);
    /// A string did not fit and was cut.
    pub const TRUNCATED: Flags = Flags(2);
    /// The task was to be rescheduled (TIF_NEED_RESCHED).
    pub const NEED_RESCHED: Flags = Flags(4);
    /// The CPU was in a hardware interrupt handler.
    pub const HARD_INTERRUPT: Flags = Flags(8);
    /// The CPU was running softirqs.
    pub const SOFT_INTERRUPT: Flags = Flags(16);
    /// The CPU had a pending preemption (PREEMPT_NEED_RESCHED).
    pub const PREEMPT_RESCHED: Flags = Flags(32);
    /// The CPU was in an NMI handler.
    pub const NMI: Flags = Flags(64);
    /// Softirqs (bottom halves) were disabled.
    pub const BOTTOM_HALVES_OFF: Flags = Flags(128);
    /// The task was to be rescheduled when it returns to its program (TIF_NEED_RESCHED_LAZY).
    pub const LAZY_RESCHED: Flags = Flags(1 << 16);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Sets `other` if `is_so` is true.
    #[must_use]
    pub const fn with_if(self, is_so: bool, other: Flags) -> Flags {
        if is_so { self.with(other) } else { self }
    }

    /// Sets the depths of disabled preemption and disabled migration, each capped at 15.
    pub fn depths(preemption: u64, migration: u64) -> Flags {
        let depth = |count: u64| count.min(15) as u32;
        Flags(depth(preemption) << 8 | depth(migration) << 12)
    }

    /// The flags as the field `common_flags` has them.
    pub(crate) fn of_linux(self) -> u8 {
        /// Linux gives this flag the bit that is [`Flags::TRUNCATED`] here.
        const LAZY: u8 = 2;
        let flags = self.0 as u8 & !(Flags::TRUNCATED.0 as u8);
        if self.contains(Flags::LAZY_RESCHED) { flags | LAZY } else { flags }
    }

    /// Both depths in a byte, as the field `common_preempt_count` has them.
    pub(crate) fn depth_byte(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The depths of disabled preemption and of disabled migration.
    pub fn depths_of(self) -> [u8; 2] {
        [(self.0 >> 8 & 15) as u8, (self.0 >> 12 & 15) as u8]
    }
}

/// Bytes in front of a payload: its length and the header.
pub(super) const FRAME: usize = 60;

/// The frame of a record with a payload of `len` bytes.
pub(super) fn encode(header: &Header, len: usize) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&(len as u32).to_le_bytes());
    put(&header.event.0.to_le_bytes());
    put(&header.cpu.to_le_bytes());
    put(&(header.flags.0 as u16).to_le_bytes());
    put(&header.pid.to_le_bytes());
    put(&header.comm);
    put(&header.time.to_le_bytes());
    put(&header.ip.to_le_bytes());
    put(&header.return_ip.to_le_bytes());
    put(&(header.flags.0 >> 16).to_le_bytes());
    frame
}

/// The header in a frame, and the length of its payload in bytes.
pub(super) fn decode(frame: &[u8; FRAME]) -> (Header, usize) {
    let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let mut comm = [0; 16];
    comm.copy_from_slice(&frame[16..32]);
    let header = Header {
        event: EventId(word(4)),
        cpu: word(8) as u16,
        flags: Flags(word(8) >> 16 | word(56) << 16),
        pid: word(12),
        comm,
        time: long(32),
        ip: long(40),
        return_ip: long(48),
    };
    (header, word(0) as usize)
}
