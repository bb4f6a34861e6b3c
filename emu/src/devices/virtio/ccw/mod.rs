//! The transport by channel I/O (virtio 1.2, section 4.3), for z/Architecture: the interpreter of channel programs
//! ([`program`]), a virtio device as a control unit with its commands ([`mod@unit`]), and the subchannel by which a guest
//! reaches it ([`subchannel`]). The channel subsystem with all subchannels is `devices/channels.rs`.

pub mod program;
pub mod subchannel;
pub mod unit;

#[cfg(test)]
mod tests;
