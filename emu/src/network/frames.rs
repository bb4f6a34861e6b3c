//! Ethernet frames with UDP datagrams, requests for TCP connections, and the answer to packets that lead out of the network.

use super::{ETHERNET, GATEWAY, GUEST, PREFIX};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, IpProtocol,
    Ipv4Address, Ipv4Cidr, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, UdpPacket, UdpRepr,
};

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HOP_LIMIT: u8 = 64;
/// Bytes of a packet's payload that the answer "unreachable" quotes.
const QUOTED: usize = 8;

/// A datagram from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender's Ethernet address.
    pub ethernet: EthernetAddress,
    /// The sender's address and port.
    pub from: (Ipv4Address, u16),
    /// The destination's address and port.
    pub to: (Ipv4Address, u16),
    /// The contents.
    pub payload: &'a [u8],
}

impl Datagram<'_> {
    /// The frame of an answer.
    pub fn reply(&self, payload: &[u8]) -> Vec<u8> {
        write(self.ethernet, self.to, self.from, payload)
    }
}

/// An IPv4 packet in a frame to the servers. `None` for other frames, and for packets in pieces or with wrong checksums.
fn packet(frame: &[u8]) -> Option<(EthernetRepr, Ipv4Repr, &[u8])> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let ethernet = EthernetRepr::parse(&frame).ok()?;
    let is_here = ethernet.dst_addr == ETHERNET || ethernet.dst_addr.is_broadcast();
    if !is_here || !ethernet.src_addr.is_unicast() || ethernet.ethertype != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    let ipv4 = Ipv4Repr::parse(&packet, &ChecksumCapabilities::default()).ok()?;
    Some((ethernet, ipv4, packet.payload()))
}

/// The datagram in a frame. `None` if there is none for the servers, or if it is damaged.
pub fn datagram(frame: &[u8]) -> Option<Datagram<'_>> {
    let (ethernet, ipv4, payload) = packet(frame)?;
    if ipv4.next_header != IpProtocol::Udp {
        return None;
    }
    let udp = UdpPacket::new_checked(payload).ok()?;
    let (from, to) = (ipv4.src_addr, ipv4.dst_addr);
    let ports = UdpRepr::parse(&udp, &from.into(), &to.into(), &ChecksumCapabilities::default()).ok()?;
    Some(Datagram { ethernet: ethernet.src_addr, from: (from, ports.src_port), to: (to, ports.dst_port), payload: udp.payload() })
}

/// The sender's address and port, and the gateway's port, of a guest's request for a TCP connection to the gateway. `None` for
/// other frames.
pub fn request(frame: &[u8]) -> Option<((Ipv4Address, u16), u16)> {
    let (_, ipv4, payload) = packet(frame)?;
    if ipv4.next_header != IpProtocol::Tcp || ipv4.dst_addr != GATEWAY || ipv4.src_addr != GUEST {
        return None;
    }
    let tcp = TcpPacket::new_checked(payload).ok()?;
    let (from, to) = (ipv4.src_addr.into(), ipv4.dst_addr.into());
    let tcp = TcpRepr::parse(&tcp, &from, &to, &ChecksumCapabilities::default()).ok()?;
    let is_request = tcp.control == TcpControl::Syn && tcp.ack_number.is_none();
    is_request.then_some(((ipv4.src_addr, tcp.src_port), tcp.dst_port))
}

/// A frame with a datagram to an Ethernet address. The payload must fit into a packet.
pub fn write(ethernet: EthernetAddress, from: (Ipv4Address, u16), to: (Ipv4Address, u16), payload: &[u8]) -> Vec<u8> {
    let udp = UdpRepr { src_port: from.1, dst_port: to.1 };
    with_packet(ethernet, (from.0, to.0), IpProtocol::Udp, UDP_BYTES + payload.len(), |into| {
        let fill = |into: &mut [u8]| into.copy_from_slice(payload);
        let (from, to) = (from.0.into(), to.0.into());
        udp.emit(&mut UdpPacket::new_unchecked(into), &from, &to, payload.len(), fill, &ChecksumCapabilities::default());
    })
}

/// The answer to a packet of the guest to an address outside of the network: it is unreachable.
pub fn unreachable(frame: &[u8]) -> Option<Vec<u8>> {
    let (ethernet, ipv4, payload) = packet(frame)?;
    let to = ipv4.dst_addr;
    let is_outside = !Ipv4Cidr::new(GATEWAY, PREFIX).contains_addr(&to) && !to.is_multicast() && !to.is_broadcast();
    let is_answered = matches!(ipv4.next_header, IpProtocol::Tcp | IpProtocol::Udp) || starts_as_ping(&ipv4, payload);
    if ipv4.src_addr != GUEST || !is_outside || !is_answered {
        return None;
    }
    let data = payload.get(..payload.len().min(QUOTED))?;
    let answer = Icmpv4Repr::DstUnreachable { reason: Icmpv4DstUnreachable::NetUnreachable, header: ipv4, data };
    Some(with_packet(ethernet.src_addr, (GATEWAY, ipv4.src_addr), IpProtocol::Icmp, answer.buffer_len(), |into| {
        answer.emit(&mut Icmpv4Packet::new_unchecked(into), &ChecksumCapabilities::default());
    }))
}

fn starts_as_ping(ipv4: &Ipv4Repr, payload: &[u8]) -> bool {
    const ECHO_REQUEST: u8 = 8;
    ipv4.next_header == IpProtocol::Icmp && payload.first() == Some(&ECHO_REQUEST)
}

/// A frame with a packet whose payload of `bytes` bytes `fill` writes.
fn with_packet(
    to: EthernetAddress,
    (from, destination): (Ipv4Address, Ipv4Address),
    next_header: IpProtocol,
    bytes: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET_BYTES + IPV4_BYTES + bytes];
    let ethernet = EthernetRepr { src_addr: ETHERNET, dst_addr: to, ethertype: EthernetProtocol::Ipv4 };
    let ipv4 = Ipv4Repr { src_addr: from, dst_addr: destination, next_header, payload_len: bytes, hop_limit: HOP_LIMIT };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    let (_, packet) = frame.split_at_mut(ETHERNET_BYTES);
    ipv4.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &ChecksumCapabilities::default());
    fill(packet.split_at_mut(IPV4_BYTES).1);
    frame
}
