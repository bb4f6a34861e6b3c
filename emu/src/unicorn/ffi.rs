//! Numbers that Unicorn's header builds with macros.

use unicorn_engine_sys::ControlType;

/// A `uc_ctl` request that writes, with this many arguments (`UC_CTL_WRITE` of the header).
pub const fn write_request(what: ControlType, arguments: u32) -> ControlType {
    ControlType(what.0 | arguments << 26 | 1 << 30)
}
