//! Disassembly in binutils' notation. Operands are hexadecimal without a prefix. Bit positions and lengths of shifts, extracts
//! and deposits are decimal, and branch targets have the prefix 0x.
//!
//! It knows the integer and system instructions of 32-bit PA-RISC. Floating point, coprocessors and 64-bit forms have no
//! text here.

use super::decode::{Transfer, decode, nullifies, word};
use super::fields::{bits, distance17, left21, opcode, signed5, signed11, signed14, space3};
use crate::insn::Insn;
use alloc::format;
use alloc::string::{String, ToString};

/// The text of an instruction; `None` if this disassembler does not know it.
pub fn of(insn: &Insn) -> Option<String> {
    text(insn.address, word(insn))
}

/// The text of the instruction in this word; `None` if this disassembler does not know it.
pub fn text(address: u64, word: u32) -> Option<String> {
    match opcode(word) {
        0x00 => system(word),
        0x01 => memory_management(word),
        0x02 => arithmetic(word),
        0x03 => short_access(word),
        0x05 => Some(format!("diag {:x}", word & 0x03ff_ffff)),
        0x08 => Some(format!("ldil L%{},{}", hex(left21(word) as i32), r(bits(word, 6, 10)))),
        0x0a => Some(format!("addil L%{},{},r1", hex(left21(word) as i32), r(bits(word, 6, 10)))),
        0x0d | 0x10..=0x13 | 0x18..=0x1b => long_access(word),
        0x24 | 0x25 | 0x2c | 0x2d => immediate(word),
        0x34 => extract(word),
        0x35 => deposit(word),
        _ => branch(address, word),
    }
}

const ADD: [&str; 16] =
    ["", ",=", ",<", ",<=", ",nuv", ",znv", ",sv", ",od", ",tr", ",<>", ",>=", ",>", ",uv", ",vnz", ",nsv", ",ev"];
const SUBTRACT: [&str; 16] =
    ["", ",=", ",<", ",<=", ",<<", ",<<=", ",sv", ",od", ",tr", ",<>", ",>=", ",>", ",>>=", ",>>", ",nsv", ",ev"];
/// `?` marks conditions that do not exist.
const LOGICAL: [&str; 16] = ["", ",=", ",<", ",<=", "?", "?", "?", ",od", ",tr", ",<>", ",>=", ",>", "?", "?", "?", ",ev"];
const UNIT: [&str; 16] =
    ["", "?", ",sbz", ",shz", ",sdc", "?", ",sbc", ",shc", ",tr", "?", ",nbz", ",nhz", ",ndc", "?", ",nbc", ",nhc"];
const SHIFT: [&str; 8] = ["", ",=", ",<", ",od", ",tr", ",<>", ",>=", ",ev"];
const CONTROL: [&str; 32] = [
    "rctr", "cr1", "cr2", "cr3", "cr4", "cr5", "cr6", "cr7", "pidr1", "pidr2", "ccr", "sar", "pidr3", "pidr4", "iva", "eiem",
    "itmr", "pcsq", "pcoq", "iir", "isr", "ior", "ipsw", "eirr", "tr0", "tr1", "tr2", "tr3", "tr4", "tr5", "tr6", "tr7",
];

/// The name of a general register.
fn r(number: u32) -> String {
    match number {
        2 => "rp".into(),
        27 => "dp".into(),
        28 => "ret0".into(),
        29 => "ret1".into(),
        30 => "sp".into(),
        other => format!("r{other}"),
    }
}

fn hex(value: i32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{:x}", value.unsigned_abs())
}

/// A base register as an operand, with the space register that the instruction's 2-bit field names. In a field of 0 the
/// address selects the space register, so the text has none.
fn base(word: u32) -> String {
    let base = r(bits(word, 6, 10));
    match bits(word, 16, 17) {
        0 => format!("({base})"),
        space => format!("(sr{space},{base})"),
    }
}

/// The name of the condition in the instruction's 4-bit field; `None` if the field has a reserved value.
fn condition(names: &[&'static str; 16], word: u32) -> Option<&'static str> {
    let name = names[(bits(word, 16, 18) | bits(word, 19, 19) << 3) as usize];
    (name != "?").then_some(name)
}

fn system(word: u32) -> Option<String> {
    let (upper, middle, target) = (bits(word, 6, 10), bits(word, 11, 15), bits(word, 27, 31));
    let has = |text: String, zeros: u32| (word & zeros == 0).then_some(text);
    // Register fields that must be zero in instructions without that operand: bits 6-10, 11-15, 16-18 and 27-31.
    const UPPER: u32 = 0x03e0_0000;
    const MIDDLE: u32 = 0x001f_0000;
    const SPACE: u32 = 0x0000_e000;
    const LOW: u32 = 0x1f;
    match bits(word, 19, 26) {
        0x00 => Some(format!("break {target:x},{:x}", bits(word, 6, 18))),
        0x20 if word == 0x0400 => Some("sync".into()),
        0x20 if word == 0x0010_0400 => Some("syncdma".into()),
        0x60 => has("rfi".into(), UPPER | MIDDLE | SPACE | LOW),
        0x65 => has("rfi,r".into(), UPPER | MIDDLE | SPACE | LOW),
        0xa5 => has(format!("mfia {}", r(target)), UPPER | MIDDLE | SPACE),
        0x45 => has(format!("mfctl {},{}", CONTROL[upper as usize], r(target)), MIDDLE | SPACE),
        0xc2 if upper == 11 => has(format!("mtsar {}", r(middle)), SPACE | LOW),
        0xc2 => has(format!("mtctl {},{}", r(middle), CONTROL[upper as usize]), SPACE | LOW),
        0xc6 if upper == 11 => has(format!("mtsarcm {}", r(middle)), SPACE | LOW),
        0x25 => has(format!("mfsp sr{},{}", space3(word), r(target)), UPPER | MIDDLE),
        0xc1 => has(format!("mtsp {},sr{}", r(middle), space3(word)), UPPER | LOW),
        0x6b => has(format!("ssm {:x},{}", bits(word, 6, 15), r(target)), SPACE),
        0x73 => has(format!("rsm {:x},{}", bits(word, 6, 15), r(target)), SPACE),
        0xc3 => has(format!("mtsm {}", r(middle)), UPPER | SPACE | LOW),
        0x85 => has(format!("ldsid {},{}", base(word), r(target)), MIDDLE | 0x2000),
        _ => None,
    }
}

fn memory_management(word: u32) -> Option<String> {
    let (index, target) = (bits(word, 11, 15), bits(word, 27, 31));
    let modified = if bits(word, 26, 26) != 0 { ",m" } else { "" };
    let by_space3 = || format!("(sr{},{})", space3(word), r(bits(word, 6, 10)));
    let plain = |name: &str, at: String| (target == 0).then(|| format!("{name}{modified} {}{at}", r(index)));
    let insert = |name: &str, at: String| (word & 0x3f == 0).then(|| format!("{name} {},{at}", r(index)));
    let probe = |name: &str, what: String| (modified.is_empty()).then(|| format!("{name} {},{what},{}", base(word), r(target)));
    match bits(word, 19, 25) {
        0x00 => return insert("iitlbp", by_space3()),
        0x01 => return insert("iitlba", by_space3()),
        0x08 => return plain("pitlb", by_space3()),
        0x09 => return plain("pitlbe", by_space3()),
        0x0a => return plain("fic", by_space3()),
        0x0b => return plain("fice", by_space3()),
        _ => {}
    }
    match bits(word, 18, 25) {
        0x40 => insert("idtlbp", base(word)),
        0x41 => insert("idtlba", base(word)),
        0x46 => probe("probe,r", r(index)),
        0x47 => probe("probe,w", r(index)),
        0x48 => plain("pdtlb", base(word)),
        0x49 => plain("pdtlbe", base(word)),
        0x4a => plain("fdc", base(word)),
        0x4b => plain("fdce", base(word)),
        0x4d => Some(format!("lpa{modified} {}{},{}", r(index), base(word), r(target))),
        0x4e => plain("pdc", base(word)),
        0x4f => plain("fic", base(word)),
        0xca if modified.is_empty() && target == 0 => Some(format!("fdc {}{}", hex(signed5(index)), base(word))),
        0xc6 => probe("probei,r", format!("{index:x}")),
        0xc7 => probe("probei,w", format!("{index:x}")),
        _ => None,
    }
}

fn arithmetic(word: u32) -> Option<String> {
    let [second, first, target] = [bits(word, 6, 10), bits(word, 11, 15), bits(word, 27, 31)];
    if bits(word, 26, 26) != 0 {
        return None;
    }
    let code = bits(word, 20, 25);
    let (name, names) = match code {
        0x09 if second == 0 && bits(word, 16, 19) == 0 => {
            return Some(match (first, target) {
                (0, 0) => "nop".to_string(),
                _ => format!("copy {},{}", r(first), r(target)),
            });
        }
        0x00 => ("andcm", &LOGICAL),
        0x08 => ("and", &LOGICAL),
        0x09 => ("or", &LOGICAL),
        0x0a => ("xor", &LOGICAL),
        0x0e => ("uxor", &UNIT),
        0x10 => ("sub", &SUBTRACT),
        0x11 => ("ds", &SUBTRACT),
        0x13 => ("sub,tc", &SUBTRACT),
        0x14 => ("sub,b", &SUBTRACT),
        0x18 => ("add", &ADD),
        0x19..=0x1b => ("shladd", &ADD),
        0x1c => ("add,c", &ADD),
        0x22 => ("cmpclr", &SUBTRACT),
        0x26 => ("uaddcm", &UNIT),
        0x27 => ("uaddcm,tc", &UNIT),
        0x28 => ("add,l", &ADD),
        0x29..=0x2b => ("shladd,l", &ADD),
        0x2e => ("dcor", &UNIT),
        0x2f => ("dcor,i", &UNIT),
        0x30 => ("sub,tsv", &SUBTRACT),
        0x33 => ("sub,tc,tsv", &SUBTRACT),
        0x34 => ("sub,b,tsv", &SUBTRACT),
        0x38 => ("add,tsv", &ADD),
        0x39..=0x3b => ("shladd,tsv", &ADD),
        0x3c => ("add,c,tsv", &ADD),
        _ => return None,
    };
    let condition = condition(names, word)?;
    let [first, second, target] = [first, second, target].map(r);
    match code {
        0x2e | 0x2f if bits(word, 11, 15) != 0 => None,
        0x2e | 0x2f => Some(format!("{name}{condition} {second},{target}")),
        _ if name.starts_with("shladd") => Some(format!("{name}{condition} {first},{},{second},{target}", code & 3)),
        _ => Some(format!("{name}{condition} {first},{second},{target}")),
    }
}

/// Accesses with an index register or a displacement of 5 bits. The only cache hint with a text is `,co` of `ldcw`.
fn short_access(word: u32) -> Option<String> {
    let code = bits(word, 22, 25);
    let (modifies, after, is_short) = (bits(word, 26, 26) != 0, bits(word, 18, 18) == 0, bits(word, 19, 19) != 0);
    let name = match code {
        0 => "ldb",
        1 => "ldh",
        2 => "ldw",
        6 => "ldwa",
        7 => "ldcw",
        8 => "stb",
        9 => "sth",
        10 => "stw",
        12 => "stby",
        14 => "stwa",
        _ => return None,
    };
    let hint = match (bits(word, 20, 21), code) {
        (0, _) => "",
        (1, 7) => ",co",
        _ => return None,
    };
    let is_store = code >= 8;
    if is_store && !is_short || matches!(code, 6 | 14) && bits(word, 16, 17) != 0 {
        return None;
    }
    let [index, target] = [bits(word, 11, 15), bits(word, 27, 31)];
    if !is_short {
        let how = match (after, modifies) {
            (true, false) => "",
            (true, true) => ",m",
            (false, false) => ",s",
            (false, true) => ",sm",
        };
        return Some(format!("{name}{how}{hint} {}{},{}", r(index), base(word), r(target)));
    }
    let distance = signed5(if is_store { target } else { index });
    let how = match (code, modifies, after) {
        (12, false, true) | (_, false, _) if code != 12 || after => "",
        (12, false, _) => ",e",
        (12, true, true) => ",b,m",
        (12, true, false) => ",e,m",
        (_, _, true) if distance == 0 && code != 7 => ",o",
        (_, _, true) => ",ma",
        (_, _, false) => ",mb",
    };
    let at = format!("{}{}", hex(distance), base(word));
    Some(match is_store {
        true => format!("{name}{how}{hint} {},{at}", r(index)),
        false => format!("{name}{how}{hint} {at},{}", r(target)),
    })
}

/// Accesses and `ldo` with a displacement of 14 bits.
fn long_access(word: u32) -> Option<String> {
    let (code, distance, other) = (opcode(word), signed14(word), r(bits(word, 11, 15)));
    if code == 0x0d {
        let has_base = bits(word, 6, 10) != 0;
        let text = if has_base {
            format!("ldo {}{},{other}", hex(distance), base(word))
        } else {
            format!("ldi {},{other}", hex(distance))
        };
        return (bits(word, 16, 17) == 0).then_some(text);
    }
    let (load, store) = match code & 3 {
        0 => ("ldb", "stb"),
        1 => ("ldh", "sth"),
        2 => ("ldw", "stw"),
        _ if distance < 0 => ("ldw,mb", "stw,mb"),
        _ => ("ldw,ma", "stw,ma"),
    };
    let at = format!("{}{}", hex(distance), base(word));
    Some(if code & 8 == 0 { format!("{load} {at},{other}") } else { format!("{store} {other},{at}") })
}

fn immediate(word: u32) -> Option<String> {
    let has_option = bits(word, 20, 20) != 0;
    let (name, option, names) = match opcode(word) {
        // The option bit makes `cmpiclr` a 64-bit instruction.
        0x24 if has_option => return None,
        0x24 => ("cmpiclr", "", &SUBTRACT),
        0x25 => ("subi", ",tsv", &SUBTRACT),
        0x2c => ("addi,tc", ",tsv", &ADD),
        _ => ("addi", ",tsv", &ADD),
    };
    let option = if has_option { option } else { "" };
    let [source, target] = [bits(word, 6, 10), bits(word, 11, 15)].map(r);
    Some(format!("{name}{option}{} {},{source},{target}", condition(names, word)?, hex(signed11(word))))
}

fn extract(word: u32) -> Option<String> {
    let condition = SHIFT[bits(word, 16, 18) as usize];
    let [second, first] = [bits(word, 6, 10), bits(word, 11, 15)].map(r);
    let (position, length) = (bits(word, 22, 26), 32 - bits(word, 27, 31));
    let code = bits(word, 19, 21);
    let sign = if code & 1 == 0 { "u" } else { "s" };
    match code {
        0 if position == 0 => Some(format!("shrpw{condition} {first},{second},sar,{}", r(bits(word, 27, 31)))),
        2 => Some(format!("shrpw{condition} {first},{second},{},{}", 31 - position, r(bits(word, 27, 31)))),
        4 | 5 if position == 0 => Some(format!("extrw,{sign}{condition} {second},sar,{length},{first}")),
        6 | 7 => Some(format!("extrw,{sign}{condition} {second},{position},{length},{first}")),
        _ => None,
    }
}

fn deposit(word: u32) -> Option<String> {
    let condition = SHIFT[bits(word, 16, 18) as usize];
    let code = bits(word, 19, 21);
    let name = match code & 5 {
        0 => "depw,z",
        1 => "depw",
        4 => "depwi,z",
        _ => "depwi",
    };
    let source = bits(word, 11, 15);
    let source = if code < 4 { r(source) } else { hex(signed5(source)) };
    let position = match (code & 2, bits(word, 22, 26)) {
        (0, 0) => "sar".to_string(),
        (0, _) => return None,
        (_, position) => (31 - position).to_string(),
    };
    Some(format!("{name}{condition} {source},{position},{},{}", 32 - bits(word, 27, 31), r(bits(word, 6, 10))))
}

fn branch(address: u64, word: u32) -> Option<String> {
    let transfer = Transfer::of(word)?;
    let [target, other] = [bits(word, 6, 10), bits(word, 11, 15)];
    let code = bits(word, 16, 18);
    let n = if nullifies(word) { ",n" } else { "" };
    let flow = decode(address, &word.to_be_bytes()).ok()?.flow;
    let to = flow.target().map(|to| format!("{to:#x}")).unwrap_or_default();
    let far = || format!("{}(sr{},{})", hex(distance17(word)), space3(word), r(target));
    Some(match transfer {
        Transfer::Conditional => return conditional(word, n, &to),
        Transfer::Near if code == 1 => format!("b,gate{n} {to},{}", r(target)),
        Transfer::Near => format!("b,l{n} {to},{}", r(target)),
        Transfer::Far if code == 4 => format!("b,l,push{n} {to},rp"),
        Transfer::Far => format!("b,l{n} {to},rp"),
        Transfer::ByPairs => format!("blr{n} {},{}", r(other), r(target)),
        Transfer::Vectored if word & 0x1ffd != 0 => return None,
        Transfer::Vectored => format!("bv{n} {}({})", r(other), r(target)),
        Transfer::Base if word & 0x001f_0ffd != 0 => return None,
        Transfer::Base if code == 7 => format!("bve,l{n} ({}),rp", r(target)),
        Transfer::Base => format!("bve{n} ({})", r(target)),
        Transfer::Space => format!("be{n} {}", far()),
        Transfer::SpaceAndLink => format!("be,l{n} {},sr0,r31", far()),
    })
}

fn conditional(word: u32, n: &str, to: &str) -> Option<String> {
    let code = opcode(word);
    let [target, other] = [bits(word, 6, 10), bits(word, 11, 15)];
    let number = bits(word, 16, 18);
    let negated = (number | (code & 2) << 2) as usize;
    let operand = if code & 1 == 0 { r(other) } else { hex(signed5(other)) };
    let immediate = if code & 1 == 0 { "" } else { "i" };
    let (name, condition) = match code {
        0x20..=0x23 => ("cmp", SUBTRACT[negated]),
        0x28..=0x2b => ("add", ADD[negated]),
        0x32 | 0x33 => ("mov", SHIFT[number as usize]),
        _ => {
            let is_whole = number & 3 == 2 && (code == 0x31 || target == 0);
            let position = if code == 0x30 { "sar".to_string() } else { format!("{target:x}") };
            let condition = if number & 4 == 0 { "<" } else { ">=" };
            return is_whole.then(|| format!("bb,{condition}{n} {},{position},{to}", r(other)));
        }
    };
    Some(format!("{name}{immediate}b{condition}{n} {operand},{},{to}", r(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-5: a few instructions of each kind. A test with binutils compares many more.
    #[test]
    fn instructions_have_binutils_text() {
        #[rustfmt::skip]
        let cases = [
            (0x6bc2_3fd9, "stw rp,-14(sp)"),
            (0x37de_0080, "ldo 40(sp),sp"),
            (0x0800_0240, "nop"),
            (0x081c_0255, "copy ret0,r21"),
            (0x8f40_4178, "cmpib,>= 0,r26,0x10c4"),
            (0xd396_1bfd, "extrw,u ret0,31,3,r22"),
            (0xd673_0842, "depw,z r19,29,30,r19"),
            (0xe840_c002, "bv,n r0(rp)"),
            (0xe3e0_0000, "be 0(sr0,r31)"),
            (0x0c80_11c5, "ldcw 0(r4),r5"),
            (0x03ff_801f, "break 1f,1ffc"),
            (0x0604_1040, "idtlba r4,(r16)"),
        ];
        for (word, expected) in cases {
            let found = text(0x1000, word);
            assert_eq!(found.as_deref(), Some(expected), "{word:08x}");
        }
        for word in [0x3a80_0000, 0xffff_ffff, 0x0800_0004 | 0x20, 0x0c80_01c5 | 0xc00] {
            assert_eq!(text(0x1000, word), None, "{word:08x}");
        }
    }
}
