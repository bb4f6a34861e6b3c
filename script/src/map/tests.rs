//! Tests of the maps: collisions, order, limits.

use super::*;
use crate::types::Aggregate;
use alloc::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECRET: Secret = Secret(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);

/// BY-1: keys that were chosen to collide without a secret, or that differ in few bits, take about as many steps to
/// find as others do, and twice as many keys twice as many steps.
#[test]
fn chosen_keys_do_not_collide() {
    /// The inverse of 2^64 / golden ratio, modulo 2^64. With it keys can be chosen for the product's bits.
    const UNMIX: u64 = 0xf1de_83e1_9937_733d;
    const MOST: u64 = 1 << 14;
    type Make = fn(u64) -> Vec<u8>;
    let families: [(&str, Make); 8] = [
        ("rising", |number| number.to_le_bytes().into()),
        ("high bits", |number| (number << 50).to_le_bytes().into()),
        ("middle bits", |number| (number << 40).to_le_bytes().into()),
        ("pages", |number| (0xffff_8880_0000_0000 + (number << 12)).to_le_bytes().into()),
        ("equal low bits of a product", |number| (number << 50).wrapping_mul(UNMIX).to_le_bytes().into()),
        ("equal middle bits of a product", |number| (number << 50 | number).wrapping_mul(UNMIX).to_le_bytes().into()),
        ("a bit of one word and one of the next", |number| {
            let words = (0..14).flat_map(|bit| {
                let flips = number >> bit & 1;
                [flips << 63, flips << 4].map(u64::to_le_bytes).concat()
            });
            words.collect()
        }),
        ("short texts", |number| number.to_be_bytes()[2..].into()),
    ];
    let others = [Secret(0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89), Secret(0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c)];
    for secret in [SECRET].into_iter().chain(others) {
        for (what, make) in families {
            let steps = |keys: u64| {
                let mut map = Map::new(0, false, secret);
                (0..keys).for_each(|number| {
                    let _ = map.place(&make(number), || Stored::Number(number));
                });
                assert_eq!(map.len() as u64, keys, "{what}: all differ");
                map.steps_to_all()
            };
            let (one, two) = (steps(MOST / 2), steps(MOST));
            assert!(two < 2 * MOST, "{what}, {secret:?}: {two} steps to {MOST} keys");
            assert!(5 * two <= 11 * one, "{what}, {secret:?}: {one} steps, twice the keys {two}");
        }
    }
}

impl Map {
    /// The number of places that are probed if each key is looked up once.
    fn steps_to_all(&self) -> u64 {
        let mask = self.places.len() - 1;
        let taken = self.places.iter().enumerate().filter(|(_, number)| **number != 0);
        taken.map(|(at, number)| (at.wrapping_sub(self.entries[*number as usize - 1].hash as usize) & mask) as u64 + 1).sum()
    }
}

proptest! {
    /// BY-1: after any sequence of insertions, removals and clears, a map equals a BTreeMap.
    #[test]
    fn a_map_is_a_map(steps in prop::collection::vec((0_u8..8, 0_u8..40, any::<u16>()), 0..400)) {
        let (mut map, mut plain) = (Map::new(0, false, SECRET), BTreeMap::<Vec<u8>, u64>::new());
        for (what, key, value) in steps {
            let key = vec![key; usize::from(key % 11) + 1];
            match what {
                0..=3 => {
                    *map.place(&key, || Stored::Number(0)).expect("room") = Stored::Number(value.into());
                    plain.insert(key, value.into());
                }
                4 | 5 => prop_assert_eq!(map.remove(&key), plain.remove(&key).is_some()),
                6 => prop_assert_eq!(map.get(&key).cloned(), plain.get(&key).map(|value| Stored::Number(*value))),
                _ if value == 0 => {
                    map.clear();
                    plain.clear();
                }
                _ => {}
            }
        }
        let held: Vec<(Vec<u8>, Stored)> = map.iter().map(|(key, stored)| (key.to_vec(), stored.clone())).collect();
        let expected: Vec<(Vec<u8>, Stored)> = plain.into_iter().map(|(key, value)| (key, Stored::Number(value))).collect();
        prop_assert_eq!(held, expected);
    }
}

/// A step of the test of evicting maps.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u8),
    Get(u8),
    Remove(u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..24;
    let step = prop_oneof![
        6 => key.clone().prop_map(Step::Put),
        3 => key.clone().prop_map(Step::Get),
        2 => key.prop_map(Step::Remove),
        1 => Just(Step::Clear),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    /// BY-1: an evicting map always drops the least recently used key.
    #[test]
    fn the_least_recently_used_key_makes_room(steps in steps(), limit in 1_usize..12) {
        let (mut map, mut plain) = (Map::new(limit as u64, true, SECRET), Vec::<u8>::new());
        for step in steps {
            match step {
                Step::Put(key) => {
                    *map.place(&[key], || Stored::Number(0)).expect("room") = Stored::Number(key.into());
                    plain.retain(|known| *known != key);
                    plain.drain(..(plain.len() + 1).saturating_sub(limit));
                    plain.push(key);
                }
                Step::Get(key) => {
                    let was = plain.iter().position(|known| *known == key);
                    prop_assert_eq!(map.get(&[key]).is_some(), was.is_some());
                    if let Some(at) = was {
                        plain.remove(at);
                        plain.push(key);
                    }
                }
                Step::Remove(key) => {
                    prop_assert_eq!(map.remove(&[key]), plain.contains(&key));
                    plain.retain(|known| *known != key);
                }
                Step::Clear => {
                    map.clear();
                    plain.clear();
                }
            }
            let mut expected: Vec<Vec<u8>> = plain.iter().map(|key| vec![*key]).collect();
            expected.sort();
            let keys = map.keys(|_| true).expect("keys");
            let held: Vec<Vec<u8>> = (0..keys.len()).filter_map(|number| keys.get(number)).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(held, expected);
        }
    }
}

/// BY-1: keys are sorted again only after one was added or removed.
#[test]
fn keys_are_sorted_once() {
    let mut map = Map::new(0, false, SECRET);
    let charged = |map: &mut Map| {
        let mut charged = 0;
        let _ = map.keys(|steps| {
            charged = steps;
            true
        });
        charged
    };
    (0..100_u8).for_each(|key| {
        let _ = map.place(&[key], || Stored::Number(1));
    });
    assert_eq!((charged(&mut map), charged(&mut map)), (100, 0));
    let _ = map.place(&[5], || Stored::Number(2));
    assert_eq!(charged(&mut map), 0, "a value has changed");
    map.remove(&[5]);
    assert_eq!((charged(&mut map), charged(&mut map)), (99, 0), "a key has gone");
    assert!(map.keys(|_| false).is_some());
    let _ = map.place(&[200], || Stored::Number(2));
    assert!(map.keys(|_| false).is_none(), "a key has come, and there is no budget");
    map.clear();
    assert_eq!((charged(&mut map), map.places.len()), (0, map.places.len()));
}

/// BY-1: clearing a small map is cheap even if it was large before.
#[test]
fn clearing_costs_what_the_keys_did() {
    let mut map = Map::new(0, false, SECRET);
    (0..100_000_u32).for_each(|key| {
        let _ = map.place(&key.to_le_bytes(), || Stored::Number(1));
    });
    let large = map.places.len();
    map.clear();
    let _ = map.place(b"one", || Stored::Number(1));
    map.clear();
    let _ = map.place(b"one", || Stored::Number(1));
    assert!(map.places.len() < 100 && large > 100_000, "{} places for a key, {large} once", map.places.len());
    assert_eq!(map.len(), 1);
}

/// The `number`th key of a kind.
type Kind = fn(u32) -> Vec<u8>;

/// BY-1: both kinds of maps respect their limits of keys and bytes and count what they drop, with all kinds of keys
/// and values.
#[test]
fn maps_of_every_kind_are_bounded() {
    let kinds: [(&str, Kind); 5] = [
        ("numbers", |number| u64::from(number).to_le_bytes().to_vec()),
        ("two numbers", |number| [u64::from(number).to_le_bytes(), [7; 8]].concat()),
        ("strings", |number| std::format!("key {number}").into_bytes()),
        ("long strings", |number| [&vec![b'x'; 4096][..], &number.to_le_bytes()].concat()),
        ("stacks", |number| number.to_le_bytes().repeat(254)),
    ];
    let values = [
        Stored::Number(7),
        Stored::of(Aggregate::Count),
        Stored::of(Aggregate::Stats(true)),
        Stored::of(Aggregate::Histogram(0)),
        Stored::of(Aggregate::Histogram(5)),
        Stored::of(Aggregate::Linear { min: 0, max: 1000, step: 1 }),
        Stored::Bytes(vec![b'y'; 10_000]),
    ];
    for (kind, key) in kinds {
        for value in &values {
            for (limit, evicts) in [(1, false), (1, true), (100, false), (100, true), (u64::MAX, false), (u64::MAX, true)] {
                let what = std::format!("{kind}, {limit} keys, evicts {evicts}");
                let mut map = Map::new(limit, evicts, SECRET);
                let one = key(0).len() as u64 + ENTRY_BYTES + value.bytes();
                let room = (MOST_BYTES / one).min(limit);
                // If memory is the limit, a few keys beyond it are enough.
                let tries = (room + 50).min(40_000);
                for number in 0..tries as u32 {
                    let _ = map.place(&key(number), || value.clone());
                }
                let held: u64 = map.entries.iter().map(|entry| entry.key.len() as u64 + ENTRY_BYTES + entry.stored.bytes()).sum();
                assert!(map.bytes <= MOST_BYTES && map.bytes == held && map.len() as u64 <= limit, "{what}: {held} bytes");
                let lost = if evicts { 0 } else { tries - map.len() as u64 };
                assert_eq!(map.lost, lost, "{what}");
                let newest = map.get(&key(tries as u32 - 1)).is_some();
                assert_eq!(newest, evicts || lost == 0, "{what}");
                assert_eq!(map.get(&key(0)).is_some(), !evicts || tries == map.len() as u64, "{what}");
            }
        }
    }
}

/// BY-1: values beyond the limits of keys and bytes are counted, whatever limit the script sets.
#[test]
fn byte_values_are_counted_as_long_as_they_are_held() {
    let mut map = Map::new(0, false, SECRET);
    for _ in 0..300 {
        map.put_bytes(b"k", &[1; 1 << 20]);
        map.zero();
    }
    map.put_bytes(b"k", &[1; 1 << 20]);
    assert_eq!(map.lost, 0, "zero() has given the bytes back");
    map.put_bytes(b"k", b"short");
    let held = |map: &mut Map| match map.get(b"k") {
        Some(Stored::Bytes(bytes)) => bytes.capacity(),
        other => panic!("{other:?}"),
    };
    assert!(held(&mut map) < 1 << 16, "memory of the longer value is given back: {}", held(&mut map));
}

#[test]
fn all_maps_of_a_script_share_a_limit() {
    let total = Total::of(10_000);
    let [mut one, mut other] = [0, 1].map(|_| Map::new(0, false, SECRET).within(&total));
    let value = [7; 1000];
    let put = |map: &mut Map, from: u8, to: u8| (from..to).for_each(|key| map.put_bytes(&[key], &value));
    put(&mut one, 0, 5);
    put(&mut other, 0, 20);
    assert_eq!((one.len(), one.lost, other.len(), other.lost), (5, 0, 4, 16));
    other.put_bytes(&[1], &[7; 5000]);
    assert_eq!(other.lost, 17, "a longer value has no room");
    other.put_bytes(&[], &[7; 5000]);
    assert_eq!((other.len(), other.lost), (4, 18), "nor has that of a map without keys");
    one.remove(&[0]);
    put(&mut other, 100, 101);
    assert_eq!((other.len(), other.lost), (5, 18), "removing makes room");
    one.clear();
    put(&mut other, 101, 105);
    assert_eq!((other.len(), other.lost), (9, 18), "so does clearing");
    drop(other);
    put(&mut one, 0, 9);
    assert_eq!((one.len(), one.lost), (9, 0), "and so does the end of a map");
    let mut newest = Map::new(0, true, SECRET).within(&total);
    put(&mut newest, 0, 3);
    assert_eq!((newest.len(), newest.lost), (0, 3), "a map evicts only its own keys");
}

#[test]
fn maps_are_bounded() {
    let mut few = Map::new(2, false, SECRET);
    for key in 0..5_u8 {
        let _ = few.place(&[key], || Stored::Number(1));
    }
    assert_eq!((few.len(), few.lost), (2, 3));
    let mut newest = Map::new(2, true, SECRET);
    for key in 0..5_u8 {
        let _ = newest.place(&[key], || Stored::Number(1));
    }
    assert_eq!((newest.len(), newest.lost, newest.get(&[4]).is_some()), (2, 0, true));
    // Histograms with 2048 parts, and long strings.
    let mut wide = Map::new(u64::MAX, false, SECRET);
    for key in 0..40_000_u32 {
        let _ = wide.place(&key.to_le_bytes(), || Stored::of(Aggregate::Histogram(5)));
    }
    assert!(wide.lost > 10_000 && wide.bytes <= MOST_BYTES, "{} lost, {} bytes", wide.lost, wide.bytes);
    wide.clear();
    let (text, before) = (vec![b'x'; 65_536], wide.lost);
    for key in 0..5000_u32 {
        wide.put_bytes(&key.to_le_bytes(), &text);
    }
    assert!(wide.lost > before && wide.bytes <= MOST_BYTES, "{} lost, {} bytes", wide.lost, wide.bytes);
    let held = wide.bytes;
    assert!(wide.get(&4999_u32.to_le_bytes()).is_none(), "a value without room leaves no key");
    assert_eq!((5000 - wide.len()) as u64, wide.lost - before);
    wide.put_bytes(&0_u32.to_le_bytes(), b"y");
    assert_eq!(wide.bytes, held - 65_535);
    let mut newest = Map::new(u64::MAX, true, SECRET);
    for key in 0..5000_u32 {
        newest.put_bytes(&key.to_le_bytes(), &text);
    }
    assert_eq!(newest.get(&4999_u32.to_le_bytes()), Some(&Stored::Bytes(text)));
    assert!(newest.lost == 0 && newest.bytes <= MOST_BYTES && newest.len() < 5000, "{} bytes", newest.bytes);
}
