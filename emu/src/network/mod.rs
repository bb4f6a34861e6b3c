//! The network behind a guest's card: a closed world that runs on virtual time, with nothing of the host's but a folder and the
//! ports that the user forwards.
//!
//! ```text
//!   10.0.2.15  the guest, by DHCP
//!   10.0.2.2   gateway and DHCP server; port 80 shows a folder of the host; port 7 (UDP) echoes;
//!              forwarded ports are those of the host's loopback
//!   10.0.2.3   name server
//! ```
//!
//! Datagrams to a service are answered one by one (`dhcp`, `dns`). ARP, ping and TCP are smoltcp's (`stack`), whose
//! clock is the guest's time. Its random numbers have a fixed seed. Packets to other places are answered as unreachable.

mod dhcp;
mod dns;
pub mod door;
mod forwarded;
mod frames;
mod http;
mod stack;
mod wire;

use crate::devices::virtio::net::{Network, World};
use crate::devices::virtio::ninep::Tree;
use door::Door;
use forwarded::Forwarded;
use frames::Datagram;
use smoltcp::wire::{EthernetAddress, Ipv4Address};
use stack::Stack;
use std::io;
use std::sync::Arc;

/// The addresses of QEMU's user network.
const GUEST: Ipv4Address = Ipv4Address::new(10, 0, 2, 15);
const GATEWAY: Ipv4Address = Ipv4Address::new(10, 0, 2, 2);
const NAME_SERVER: Ipv4Address = Ipv4Address::new(10, 0, 2, 3);
const PREFIX: u8 = 24;
/// The Ethernet address of all servers.
const ETHERNET: EthernetAddress = EthernetAddress([0x52, 0x55, 0x0a, 0x00, 0x02, 0x02]);
/// The domain of all names. It is reserved for private use.
const DOMAIN: &str = "trapline.internal";

/// Ports of UDP services.
const ECHO: u16 = 7;
const DNS: u16 = 53;
const DHCP: u16 = 67;

/// The port of the web server, which cannot be forwarded.
pub const HTTP: u16 = stack::HTTP;

/// A closed network whose web server shows this folder.
pub fn closed(www: Option<Arc<dyn Tree>>) -> Arc<dyn Network> {
    Arc::new(Closed { www, forwarded: None })
}

/// Like [`closed`], but these ports of the gateway are those of the host, behind the door.
pub fn forwarding(www: Option<Arc<dyn Tree>>, ports: &[u16], door: Arc<Door>) -> Arc<dyn Network> {
    Arc::new(Closed { www, forwarded: Some((ports.into(), door)) })
}

#[derive(Clone, Debug)]
struct Closed {
    www: Option<Arc<dyn Tree>>,
    forwarded: Option<(Arc<[u16]>, Arc<Door>)>,
}

impl Network for Closed {
    fn world(&self) -> Box<dyn World> {
        let forwarded = self.forwarded.as_ref().map(|(ports, door)| Forwarded::new(door.clone(), ports.clone()));
        Box::new(Servers { stack: Stack::new(self.www.clone(), forwarded), www: self.www.clone() })
    }

    fn identity(&self) -> io::Result<String> {
        let www = self.www.as_ref().map(|tree| tree.checksum()).transpose()?;
        let www = www.map_or_else(String::new, |checksum| format!(",www={checksum}"));
        let ports = self.forwarded.iter().flat_map(|(ports, _)| ports.iter()).map(|port| format!(",forward={port}"));
        Ok(format!("closed{www}{}", ports.collect::<String>()))
    }

    fn is_tied(&self) -> bool {
        self.forwarded.as_ref().is_some_and(|(_, door)| door.is_tied())
    }
}

/// The servers of a closed network.
#[derive(Debug)]
struct Servers {
    stack: Stack,
    www: Option<Arc<dyn Tree>>,
}

impl World for Servers {
    fn step(&mut self, now: u64, frame: Option<&[u8]>) -> Vec<Vec<u8>> {
        let answers = frame.and_then(|frame| {
            let served = frames::datagram(frame).and_then(|datagram| serve(&datagram));
            served.or_else(|| frames::unreachable(frame).map(|answer| vec![answer]))
        });
        answers.unwrap_or_else(|| self.stack.step(now, frame))
    }

    fn next(&self) -> Option<u64> {
        self.stack.next()
    }

    fn is_at_rest(&self) -> bool {
        self.stack.is_at_rest()
    }

    fn begin_anew(&mut self) {
        self.stack = Stack::new(self.www.clone(), self.stack.ports());
    }

    fn was_reached(&self) -> bool {
        self.stack.forwarded().is_some_and(Forwarded::was_reached)
    }

    fn repeats(&mut self, is_repeated: bool) {
        self.stack.repeats(is_repeated);
    }
}

/// The frames that answer a datagram. `None` if it is for no service.
fn serve(datagram: &Datagram<'_>) -> Option<Vec<Vec<u8>>> {
    let (address, port) = datagram.to;
    let is_at = |server: Ipv4Address| address == server || address == Ipv4Address::BROADCAST;
    let answer = match port {
        DHCP if is_at(GATEWAY) => dhcp::answer(datagram),
        DNS if address == NAME_SERVER || address == GATEWAY => {
            dns::answer(datagram.payload).map(|answer| datagram.reply(&answer))
        }
        ECHO if address == GATEWAY => Some(datagram.reply(datagram.payload)),
        _ => return None,
    };
    Some(answer.into_iter().collect())
}

#[cfg(test)]
mod tests;
