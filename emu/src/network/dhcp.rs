//! A DHCP server (RFC 2131) with a single address to give.

use super::frames::{self, Datagram};
use super::{DHCP, DOMAIN, GATEWAY, GUEST, NAME_SERVER, PREFIX};
use smoltcp::wire::{EthernetAddress, Ipv4Address, Ipv4Cidr};

/// Bytes of a message before its options, which begin with a magic number.
const FIXED_BYTES: usize = 236;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// The shortest message that every client takes.
const LEAST_BYTES: usize = 300;
const CLIENT_PORT: u16 = 68;
const LEASE_SECONDS: u32 = 86_400;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: [u8; 2] = [1, 6];
const BROADCAST: u8 = 0x80;

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const ASKS: u8 = 3;
const ACCEPTED: u8 = 5;
const REFUSED: u8 = 6;
const INFORM: u8 = 8;

// Numbers of options.
const PAD: u8 = 0;
const MASK: u8 = 1;
const ROUTER: u8 = 3;
const NAME_SERVERS: u8 = 6;
const DOMAIN_NAME: u8 = 15;
const ADDRESS: u8 = 50;
const LEASE: u8 = 51;
const KIND: u8 = 53;
const SERVER: u8 = 54;
const END: u8 = 255;

/// The frame that answers a message. `None` for a message that is damaged, for another server, or needs no answer.
pub fn answer(datagram: &Datagram<'_>) -> Option<Vec<u8>> {
    let (fixed, options) = datagram.payload.split_at_checked(FIXED_BYTES)?;
    let options = options.strip_prefix(&MAGIC)?;
    if fixed.first() != Some(&REQUEST) || fixed.get(1..3) != Some(&ETHERNET) {
        return None;
    }
    if option(options, SERVER).is_some_and(|server| server != GATEWAY.octets()) {
        return None;
    }
    let present = Ipv4Address::from_octets(*fixed.get(12..16)?.first_chunk()?);
    let wanted = option(options, ADDRESS).map_or(present.octets().to_vec(), <[u8]>::to_vec);
    let (kind, given) = match option(options, KIND)? {
        [DISCOVER] => (OFFER, GUEST),
        [ASKS] if wanted == GUEST.octets() => (ACCEPTED, GUEST),
        [ASKS] => (REFUSED, Ipv4Address::UNSPECIFIED),
        [INFORM] => (ACCEPTED, Ipv4Address::UNSPECIFIED),
        _ => return None,
    };
    let message = message(fixed, kind, given)?;
    let client = EthernetAddress(*fixed.get(28..34)?.first_chunk()?);
    let to = match fixed.get(10).is_some_and(|flags| flags & BROADCAST != 0) || kind == REFUSED {
        true => (EthernetAddress::BROADCAST, Ipv4Address::BROADCAST),
        false if given == GUEST => (client, GUEST),
        false => (client, present),
    };
    Some(frames::write(to.0, (GATEWAY, DHCP), (to.1, CLIENT_PORT), &message))
}

/// A message of this kind that gives this address, in answer to one with these fixed bytes.
fn message(fixed: &[u8], kind: u8, given: Ipv4Address) -> Option<Vec<u8>> {
    let mut message = vec![0; FIXED_BYTES];
    // The transaction, the flags, the relay and the client's Ethernet address come back.
    for range in [1..3, 4..8, 10..12, 24..28, 28..44] {
        message.get_mut(range.clone())?.copy_from_slice(fixed.get(range)?);
    }
    *message.first_mut()? = REPLY;
    message.get_mut(16..20)?.copy_from_slice(&given.octets());
    message.extend(MAGIC);
    let mut add = |number: u8, bytes: &[u8]| {
        message.extend([number, bytes.len() as u8]);
        message.extend(bytes);
    };
    add(KIND, &[kind]);
    add(SERVER, &GATEWAY.octets());
    if kind != REFUSED {
        if given == GUEST {
            add(LEASE, &LEASE_SECONDS.to_be_bytes());
        }
        add(MASK, &Ipv4Cidr::new(GUEST, PREFIX).netmask().octets());
        add(ROUTER, &GATEWAY.octets());
        add(NAME_SERVERS, &NAME_SERVER.octets());
        add(DOMAIN_NAME, DOMAIN.as_bytes());
    }
    message.push(END);
    message.resize(message.len().max(LEAST_BYTES), PAD);
    Some(message)
}

/// The bytes of an option. `None` if there is none of this number.
fn option(options: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = options;
    loop {
        match rest {
            [PAD, behind @ ..] => rest = behind,
            [END, ..] | [] | [_] => return None,
            [number, length, behind @ ..] => {
                let (bytes, behind) = behind.split_at_checked(usize::from(*length))?;
                if *number == wanted {
                    return Some(bytes);
                }
                rest = behind;
            }
        }
    }
}
