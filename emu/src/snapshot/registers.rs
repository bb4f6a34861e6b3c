//! Named values: the contents of a CPU in a snapshot.
//!
//! A reader must consume every value and find every value that it needs. Unknown, missing and out-of-range values are
//! refused before anything is changed.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Values by name, in the order of the table that wrote them. On disk: `{"ax": "0x1f", ..}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    values: Vec<(String, u128)>,
}

/// A value that a table wants to read: its name, and its valid bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The register's name in the snapshot.
    pub name: &'a str,
    /// All other bits must be 0.
    pub bits: u128,
}

impl Values {
    /// Adds a value.
    pub fn put(&mut self, name: impl Into<String>, value: u128) {
        self.values.push((name.into(), value));
    }

    /// All values with their names.
    pub fn values(&self) -> impl Iterator<Item = (&str, u128)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The values without those of these names.
    pub fn without(mut self, names: &[&str]) -> Values {
        self.values.retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    /// The values in the order in which they are wanted. Fails unless the names are exactly these.
    #[cfg(feature = "cpu")]
    pub(crate) fn read<'a>(&self, wanted: impl Iterator<Item = Wanted<'a>>) -> Result<Vec<u128>, String> {
        let mut taken = vec![false; self.values.len()];
        let mut answer = Vec::with_capacity(self.values.len());
        for (number, Wanted { name, bits }) in wanted.enumerate() {
            // Usually they are in the table's order.
            let here = self.values.get(number).filter(|(known, _)| known == name).map(|_| number);
            let at = here.or_else(|| self.values.iter().position(|(known, _)| known == name));
            let at = at.ok_or_else(|| format!("the register `{name}` is missing"))?;
            let value = self.values[at].1;
            if value & !bits != 0 {
                return Err(format!("the register `{name}` cannot be {value:#x}: it has the bits {bits:#x}"));
            }
            taken[at] = true;
            answer.push(value);
        }
        match taken.iter().position(|taken| !taken) {
            Some(left) => Err(format!("the register `{}` is unknown or occurs twice", self.values[left].0)),
            None => Ok(answer),
        }
    }

    /// Replaces a value, for tests and repairs. Returns false if the name is unknown.
    pub fn set(&mut self, name: &str, value: u128) -> bool {
        let place = self.values.iter_mut().find(|(known, _)| known == name);
        place.map(|(_, old)| *old = value).is_some()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.values.len()))?;
        for (name, value) in &self.values {
            map.serialize_entry(name, &format!("{value:#x}"))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Values, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Values;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("registers by name")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Values, M::Error> {
                let mut registers = Values::default();
                while let Some((name, text)) = map.next_entry::<String, String>()? {
                    let digits = text.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                    let value = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
                    let value = value.ok_or_else(|| M::Error::custom(format!("`{name}` has no hexadecimal value")))?;
                    registers.put(name, value);
                }
                Ok(registers)
            }
        }
        from.deserialize_map(Names)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;

    fn registers(values: &[(&str, u128)]) -> Values {
        let mut registers = Values::default();
        for (name, value) in values {
            registers.put(*name, *value);
        }
        registers
    }

    type Given<'a> = &'a [(&'a str, u128)];
    type Answer = Result<Vec<u128>, &'static str>;

    #[test]
    fn unknown_missing_duplicate_and_bad_values_are_refused() {
        let table = [Wanted { name: "a", bits: 0xff }, Wanted { name: "b", bits: u128::MAX }];
        #[rustfmt::skip]
        let cases: &[(&str, Given<'_>, Answer)] = &[
            ("as it is",        &[("a", 0xff), ("b", 7)],           Ok(vec![0xff, 7])),
            ("another order",   &[("b", 7), ("a", 1)],              Ok(vec![1, 7])),
            ("missing",         &[("a", 1)],                        Err("`b` is missing")),
            ("unknown",         &[("a", 1), ("b", 1), ("c", 1)],    Err("`c` is unknown")),
            ("twice",           &[("a", 1), ("b", 1), ("a", 2)],    Err("occurs twice")),
            ("out of range",    &[("a", 0x100), ("b", 1)],          Err("`a` cannot be 0x100")),
        ];
        for (what, values, expected) in cases {
            match (registers(values).read(table.iter().cloned()), expected) {
                (Ok(seen), Ok(expected)) => assert_eq!(&seen, expected, "{what}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{what}: {why}"),
                (seen, _) => panic!("{what}: {seen:?}"),
            }
        }
    }

    #[test]
    fn values_are_written_by_name_and_read_back() {
        let registers = registers(&[("ax", 0x1f), ("xmm0", u128::MAX)]);
        let text = serde_json::to_string(&registers).expect("text");
        assert_eq!(text, r#"{"ax":"0x1f","xmm0":"0xffffffffffffffffffffffffffffffff"}"#);
        assert_eq!(serde_json::from_str::<Values>(&text).expect("registers"), registers);
        for wrong in [r#"{"ax":"1f"}"#, r#"{"ax":"0x"}"#, r#"{"ax":"0x+1"}"#, r#"{"ax":31}"#, r#"["ax"]"#] {
            assert!(serde_json::from_str::<Values>(wrong).is_err(), "{wrong}");
        }
    }
}
