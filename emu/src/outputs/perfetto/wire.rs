//! The wire format of protocol buffers: numbers of variable length, and byte strings with their length in front.

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message without fields.
    pub fn new() -> Message {
        Message::default()
    }

    /// Adds a number.
    pub fn number(mut self, field: u32, value: u64) -> Message {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds a signed number of the types int32 and int64.
    pub fn signed(self, field: u32, value: i64) -> Message {
        self.number(field, value as u64)
    }

    /// Adds a string or a byte string.
    pub fn text(mut self, field: u32, value: impl AsRef<[u8]>) -> Message {
        let value = value.as_ref();
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds a message.
    pub fn message(self, field: u32, value: Message) -> Message {
        self.text(field, value.bytes)
    }

    /// Adds all fields of another message.
    pub fn joined(mut self, other: Message) -> Message {
        self.bytes.extend_from_slice(&other.bytes);
        self
    }

    /// The encoded message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn fields_are_encoded_as_the_format_says() {
        let cases: [(Message, &[u8]); 5] = [
            (Message::new().number(1, 150), &[0x08, 0x96, 0x01]),
            (Message::new().number(60, 0), &[0xe0, 0x03, 0x00]),
            (Message::new().text(2, "testing"), b"\x12\x07testing"),
            (Message::new().message(3, Message::new().number(1, 150)), &[0x1a, 0x03, 0x08, 0x96, 0x01]),
            (Message::new().signed(4, -1), &[0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ];
        for (message, expected) in cases {
            assert_eq!(message.bytes(), expected);
        }
    }
}
