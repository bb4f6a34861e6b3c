//! Parses C definitions: types, structures and enums.

use super::ast::{Member, MemberKind, Structure, Tag, TypeName};
use super::error::ScriptError;
use super::lex::{LONGEST_NAME, Word};
use super::parse::Parser;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Parser<'_> {
    /// Parses a type: `uint64`, `struct task_struct *`, `uint8[4]`, `char *`, `unsigned long`.
    pub(super) fn type_name(&mut self) -> Result<TypeName, ScriptError> {
        let start = self.place()?;
        while self.take_name("const")? || self.take_name("volatile")? {}
        let tag = match self.peek()? {
            Word::Name(name) if name == "struct" => Some(Tag::Struct),
            Word::Name(name) if name == "union" => Some(Tag::Union),
            Word::Name(name) if name == "enum" => Some(Tag::Enum),
            _ => None,
        };
        if tag.is_some() {
            self.next()?;
        }
        let (mut name, _) = self.expect_name("the name of a type")?;
        // C types of several words.
        let begins_with_c_word = tag.is_none() && is_c_word(&name);
        while begins_with_c_word && matches!(self.peek()?, Word::Name(more) if is_c_word(more)) {
            let (more, _) = self.expect_name("the name of a type")?;
            if name.len() + more.len() >= LONGEST_NAME {
                return Err(self.last.error(format!("a type's name has at most {LONGEST_NAME} bytes: write fewer words")));
            }
            name = format!("{name} {more}");
        }
        let mut pointers = 0_u8;
        loop {
            if self.take("*")? {
                pointers = pointers.saturating_add(1);
            } else if !self.take_name("const")? {
                break;
            }
        }
        let mut array = None;
        if self.is("[")?
            && (matches!(self.peek_at(1)?, Word::Number(_)) && matches!(self.peek_at(2)?, Word::Sign("]"))
                || matches!(self.peek_at(1)?, Word::Sign("]")))
        {
            self.next()?;
            array = Some(match self.next()?.word {
                Word::Number(count) => {
                    self.demand("]", "it ends an array's length")?;
                    count
                }
                _ => 0,
            });
        }
        Ok(TypeName { tag, name, pointers, array, at: start.to(self.last) })
    }

    /// Parses `struct name { ... }`, with its attributes.
    pub(super) fn structure(&mut self) -> Result<Structure, ScriptError> {
        self.deeper(|parser| {
            let token = parser.next()?;
            let is_union = matches!(&token.word, Word::Name(name) if name == "union");
            let name = match parser.peek()?.clone() {
                Word::Name(name) => {
                    parser.next()?;
                    name
                }
                _ => String::new(),
            };
            parser.demand("{", "the members of a structure stand in braces")?;
            let mut members = Vec::new();
            while !parser.take("}")? {
                parser.member(&mut members)?;
            }
            let packed = parser.attributes()?;
            Ok(Structure { name, is_union, packed, members })
        })
    }

    /// Parses `__attribute__((...))` and returns whether it contains `packed`.
    pub(super) fn attributes(&mut self) -> Result<bool, ScriptError> {
        let mut packed = false;
        while self.take_name("__attribute__")? {
            let mut open = 0_usize;
            loop {
                let token = self.next()?;
                match token.word {
                    Word::Sign("(") => open += 1,
                    Word::Sign(")") => open = open.saturating_sub(1),
                    Word::Name(name) => packed |= matches!(name.as_str(), "packed" | "__packed__"),
                    Word::End => return Err(token.at.error("an attribute stands in double brackets: __attribute__((packed))")),
                    _ => {}
                }
                if open == 0 {
                    break;
                }
            }
        }
        Ok(packed)
    }

    /// Parses the declaration of one or more members, up to its semicolon.
    pub(super) fn member(&mut self, members: &mut Vec<Member>) -> Result<(), ScriptError> {
        let opens = |word: &Word| matches!(word, Word::Sign("{"));
        let has_tag = self.is_name("struct")? || self.is_name("union")?;
        if has_tag && (opens(self.peek_at(1)?) || opens(self.peek_at(2)?)) {
            let inside = self.structure()?;
            let (mut name, mut count) = (String::new(), None);
            if let Word::Name(found) = self.peek()?.clone() {
                self.next()?;
                name = found;
                count = self.array_length()?;
            }
            self.demand(";", "it ends a member")?;
            members.push(Member { name, kind: MemberKind::Inside(inside, count), bits: None });
            return Ok(());
        }
        let mut kind = self.type_name()?;
        loop {
            let mut this = kind.clone();
            if self.take("(")? {
                // A function pointer.
                self.demand("*", "a pointer to a function is written (*name)(...)")?;
                let (name, _) = self.expect_name("the member's name")?;
                self.demand(")", "a pointer to a function is written (*name)(...)")?;
                let mut open = 0_usize;
                while !(open == 0 && self.is(";")?) {
                    let token = self.next()?;
                    match token.word {
                        Word::Sign("(") => open += 1,
                        Word::Sign(")") => open = open.saturating_sub(1),
                        Word::End => return Err(token.at.error("a member ends with ;")),
                        _ => {}
                    }
                }
                members.push(Member { name, kind: MemberKind::Word, bits: None });
                break;
            }
            while self.take("*")? {
                this.pointers = this.pointers.saturating_add(1);
            }
            // A bit field without a name only takes up bits, or ends a number if its width is 0.
            let name = if self.is(":")? { String::new() } else { self.expect_name("the member's name")?.0 };
            let mut bits = None;
            if self.take(":")? {
                bits = Some(self.expect_number("the number of bits")?);
            } else {
                this.array = self.array_length()?.or(this.array);
            }
            members.push(Member { name, kind: MemberKind::Named(this), bits });
            kind.array = None;
            if !self.take(",")? {
                break;
            }
            kind.pointers = 0;
        }
        self.attributes()?;
        self.demand(";", "it ends a member")?;
        Ok(())
    }

    /// Parses `[n]` or `[n][m]`. Returns the number of elements of all dimensions together; `None` if there is no bracket.
    pub(super) fn array_length(&mut self) -> Result<Option<u64>, ScriptError> {
        let mut length = None;
        while self.take("[")? {
            let count = if self.is("]")? { 0 } else { self.expect_number("an array's length")? };
            self.demand("]", "it ends an array's length")?;
            length = Some(length.unwrap_or(1_u64).saturating_mul(count));
        }
        Ok(length)
    }

    /// Parses `enum name { A, B = 3 };`.
    pub(super) fn enumeration(&mut self, into: &mut Vec<(String, Vec<(String, u64)>)>) -> Result<(), ScriptError> {
        self.next()?;
        let mut own = String::new();
        if let Word::Name(name) = self.peek()?.clone() {
            self.next()?;
            own = name;
        }
        let mut names = Vec::new();
        self.demand("{", "enumerators stand in braces")?;
        let mut value = 0_u64;
        while !self.is("}")? {
            let (name, _) = self.expect_name("an enumerator")?;
            if self.take("=")? {
                let negative = self.take("-")?;
                let number = self.expect_number("an enumerator's value")?;
                value = if negative { number.wrapping_neg() } else { number };
            }
            names.push((name, value));
            value = value.wrapping_add(1);
            if !self.take(",")? {
                break;
            }
        }
        self.demand("}", "it ends the enumerators")?;
        self.demand(";", "it ends a definition")?;
        into.push((own, names));
        Ok(())
    }
}

pub(super) fn is_c_word(name: &str) -> bool {
    matches!(name, "unsigned" | "signed" | "long" | "short" | "int" | "char")
}
