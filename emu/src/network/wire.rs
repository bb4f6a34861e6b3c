//! An end of the wire between the guest and the servers, as smoltcp sees it.

use crate::devices::virtio::net::LONGEST_FRAME;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// The most frames that a step sends. The rest follows in the next one.
const MOST_FRAMES: usize = 1024;

/// One end of the wire.
#[derive(Default)]
pub struct Wire {
    /// Frames that come to this end.
    pub incoming: VecDeque<Vec<u8>>,
    /// Frames that this end has sent.
    pub outgoing: Vec<Vec<u8>>,
}

/// A frame that smoltcp takes.
pub struct Incoming(Vec<u8>);
/// The place for a frame that smoltcp sends.
pub struct Outgoing<'a>(&'a mut Vec<Vec<u8>>);

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        self.incoming.pop_front().map(|frame| (Incoming(frame), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        (self.outgoing.len() < MOST_FRAMES).then_some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = LONGEST_FRAME;
        capabilities
    }
}

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut frame = vec![0; length];
        let result = fill(&mut frame);
        self.0.push(frame);
        result
    }
}
