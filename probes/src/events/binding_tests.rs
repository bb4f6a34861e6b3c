//! Tests of name resolution for one kernel, and of fetching values at a hit from memory with unmapped holes.

use super::error::EventError;
use super::fetch::{Programs, Scope};
use super::format::{Reader, Value};
use super::parse::{Definition, EventCommand, line};
use super::testing::{FakeCpu, FakeKernel, JIFFIES, marked};
use super::types::Stored;
use crate::records::{EventId, Flags, Header, Record, Ring};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use trapline_isa::arch::Arch;

const AT_ENTRY: Scope = Scope { returns: false, entry: true, by_symbol: true, watches: false, file_offset: None, waits: false };
const AT_RETURN: Scope = Scope { returns: true, entry: true, by_symbol: true, watches: false, file_offset: None, waits: false };
const INSIDE: Scope = Scope { returns: false, entry: false, by_symbol: true, watches: false, file_offset: None, waits: false };
const BY_ADDRESS: Scope =
    Scope { returns: false, entry: true, by_symbol: false, watches: false, file_offset: None, waits: false };

fn definition(text: &str) -> Definition {
    match line(text) {
        Ok(Some(EventCommand::Add(definition))) => definition,
        other => panic!("{text:?} gives {other:?}"),
    }
}

fn bind(text: &str, scope: Scope, arch: Arch) -> Result<Programs, EventError> {
    Programs::bind(&definition(text).arguments, scope, &FakeKernel { arch })
}

/// DV-4: an unknown name is refused at its column.
#[test]
fn unknown_names_are_refused_at_their_column() {
    let (long, short) = (Arch::X86_64, Arch::I386);
    #[rustfmt::skip]
    let cases = [
        // the line                           where       on     the rule         errno
        ("p do_open a=^%eax",                 AT_ENTRY,   long,  "BAD_REG_NAME",  "EINVAL"),
        ("p do_open +8(^%r8)",                AT_ENTRY,   short, "BAD_REG_NAME",  "EINVAL"),
        ("p do_open ^%",                      AT_ENTRY,   long,  "BAD_REG_NAME",  "EINVAL"),
        ("p do_open ^$stack2049",             AT_ENTRY,   long,  "BAD_STACK_NUM", "EINVAL"),
        ("p do_open ^$stack2049",             AT_ENTRY,   short, "BAD_STACK_NUM", "EINVAL"),
        ("p do_open ^$arg0",                  AT_ENTRY,   long,  "BAD_ARG_NUM",   "EINVAL"),
        ("p do_open %di ^$arg2049",           AT_ENTRY,   long,  "BAD_ARG_NUM",   "EINVAL"),
        ("p do_open+8 ^$arg1",                INSIDE,     long,  "BAD_VAR",       "EINVAL"),
        ("p 0x81000000 ^$arg1",               BY_ADDRESS, long,  "BAD_VAR",       "EINVAL"),
        ("r do_open ^$arg1",                  AT_RETURN,  long,  "BAD_VAR",       "EINVAL"),
        ("p do_open ^@jifies",                AT_ENTRY,   long,  "BAD_MEM_ADDR",  "ENOENT"),
        ("p do_open +0(^@jifies+8)",          AT_ENTRY,   long,  "BAD_MEM_ADDR",  "ENOENT"),
        ("p do_open ^@0x100000000",           AT_ENTRY,   short, "BAD_MEM_ADDR",  "EINVAL"),
        ("p do_open a=^\\0x100000000",        AT_ENTRY,   short, "BAD_IMM",       "EINVAL"),
        ("p do_open a=^\\-0x80000001",        AT_ENTRY,   short, "BAD_IMM",       "EINVAL"),
    ];
    for (case, scope, arch, rule, errno) in cases {
        let (text, column) = marked(case);
        let error = bind(&text, scope, arch).err().unwrap_or_else(|| panic!("{case} is accepted"));
        assert_eq!((error.code.name(), error.column, error.errno.name()), (rule, column, errno), "{case}");
    }
    let message = bind("p do_open @jifies", AT_ENTRY, long).map_err(|error| error.message);
    assert!(message.is_err_and(|message| message.contains("jiffies")), "the message names a symbol that is nearly the same");
}

/// DV-4: an event's values may take at most 3072 bytes.
#[test]
fn an_oversized_event_is_refused_at_the_first_excess_argument() {
    let six = " +0(%di):x64[64]".repeat(6);
    assert!(bind(&format!("p do_open{six}"), AT_ENTRY, Arch::X86_64).is_ok());
    let (text, column) = marked(&format!("p do_open{six} ^%di:u8"));
    let error = bind(&text, AT_ENTRY, Arch::X86_64).expect_err("one byte is too much");
    assert_eq!((error.code.name(), error.column), ("EVENT_TOO_BIG", column));
}

/// A CPU with its stack at 0x5000, tables at 0x1000, texts at 0x3000, and user memory at 0x9000.
fn cpu(arch: Arch) -> FakeCpu {
    let mut cpu = FakeCpu::default();
    let abi = arch.isa().abi;
    let values = [("sp", 0x5ff0), ("di", 0x1000), ("si", 0x3000), ("dx", u64::MAX), ("ax", 0xffff_fff2), ("bx", 0x1020)];
    for (name, value) in values {
        let reg = abi.register(name).expect("both ISAs have these");
        cpu.registers.insert(reg, value & if arch == Arch::I386 { 0xffff_ffff } else { u64::MAX });
    }
    let mut stack = vec![0; 0x1000];
    stack[0xff0..].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    cpu.kernel.insert(0x5000, stack);
    // Another stack follows.
    cpu.kernel.insert(0x6000, vec![0xee; 0x1000]);
    let mut tables = vec![0; 0x100];
    tables[..8].copy_from_slice(&[0x20, 0x10, 0, 0, 0, 0, 0, 0]);
    tables[0x10..0x18].copy_from_slice(&[0xfe, 0xff, 0x85, 0x80, 4, 5, 6, 7]);
    // Pointers of four and of eight bytes: to "vmlinux", to an unmapped address, to "init".
    for (index, pointer) in [0x3000_u32, 0xdead_0000, 0x3010].into_iter().enumerate() {
        tables[0x20 + index * 4..][..4].copy_from_slice(&pointer.to_le_bytes());
        tables[0x40 + index * 8..][..4].copy_from_slice(&pointer.to_le_bytes());
    }
    cpu.kernel.insert(0x1000, tables);
    let mut texts = vec![b'.'; 0x100];
    texts[..8].copy_from_slice(b"vmlinux\0");
    texts[0x10..0x15].copy_from_slice(b"init\0");
    cpu.kernel.insert(0x3000, texts);
    cpu.kernel.insert(JIFFIES, vec![0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    let mut user = vec![0; 0x1000];
    user[..10].copy_from_slice(b"/bin/true\0");
    user[0x80..0x88].copy_from_slice(&[0, 0x90, 0, 0, 0, 0, 0, 0]);
    cpu.user.insert(0x9000, user);
    cpu
}

fn fetch(text: &str, scope: Scope, cpu: &mut FakeCpu, arch: Arch) -> (Record, Vec<Stored>) {
    let programs = bind(text, scope, arch).unwrap_or_else(|error| panic!("{text}: {error}"));
    let definition = definition(text);
    let fields = definition.arguments.iter().flat_map(|argument| {
        let count = usize::from(argument.count.unwrap_or(1));
        vec![argument.kind.stored(arch.isa().word); count]
    });
    let mut ring = Ring::with_capacity(8192);
    let header = Header { event: EventId(0), cpu: 0, flags: Flags::NONE, pid: 0, comm: [0; 16], time: 0, ip: 0, return_ip: 0 };
    assert!(ring.push(&header, |payload| programs.run(cpu, None, payload)));
    (ring.pop().expect("it was just pushed"), fields.collect())
}

/// DV-4: every kind of fetch and every type. An unreadable number is 0, an unreadable string is a fault.
#[test]
fn values_are_fetched() {
    use Value::{Hex, Signed, String, Symbol, SymbolString, Unsigned};
    let (long, short) = (Arch::X86_64, Arch::I386);
    #[rustfmt::skip]
    let cases: &[(&str, Scope, Arch, &[Value<'static>])] = &[
        // what is fetched                 where      on     the values
        ("%di",                            AT_ENTRY,  long,  &[Hex(0x1000)]),
        ("%dx",                            AT_ENTRY,  long,  &[Hex(u64::MAX)]),
        ("%dx",                            AT_ENTRY,  short, &[Hex(0xffff_ffff)]),
        ("%dx:u16",                        AT_ENTRY,  long,  &[Unsigned(0xffff)]),
        ("%dx:s8",                         AT_ENTRY,  long,  &[Signed(-1)]),
        ("%dx:s64",                        AT_ENTRY,  long,  &[Signed(-1)]),
        ("%di:b4@12/16",                   AT_ENTRY,  long,  &[Unsigned(1)]),
        ("%dx:b64@0/64",                   AT_ENTRY,  long,  &[Unsigned(u64::MAX)]),
        ("%si:symbol",                     AT_ENTRY,  long,  &[Symbol(0x3000)]),
        ("%si:symstr",                     AT_ENTRY,  short, &[SymbolString(0x3000)]),
        ("+0(%di):symbol",                 AT_ENTRY,  short, &[Symbol(0x1020)]),
        ("$retval",                        AT_RETURN, long,  &[Hex(0xffff_fff2)]),
        ("$retval:s32",                    AT_RETURN, short, &[Signed(-14)]),
        ("$arg1",                          AT_ENTRY,  long,  &[Hex(0x1000)]),
        ("$arg1",                          AT_ENTRY,  short, &[Hex(0xffff_fff2)]),
        ("$arg7",                          AT_ENTRY,  long,  &[Hex(0x4_0000_0003)]),
        ("$arg4",                          AT_ENTRY,  short, &[Hex(2)]),
        ("$arg5",                          AT_ENTRY,  short, &[Hex(3)]),
        ("$stack",                         AT_RETURN, long,  &[Hex(0x5ff0)]),
        ("$stack0",                        AT_ENTRY,  long,  &[Hex(0x2_0000_0001)]),
        ("$stack3",                        AT_ENTRY,  short, &[Hex(4)]),
        ("$stack4",                        AT_ENTRY,  short, &[Hex(0)]), // on the stack behind it
        ("\\7 \\-1 \\-1:s8",               AT_ENTRY,  long,  &[Hex(7), Hex(u64::MAX), Signed(-1)]),
        ("\\-1",                           AT_ENTRY,  short, &[Hex(0xffff_ffff)]),
        ("\\\"text\"",                     AT_ENTRY,  long,  &[String(Some(b"text"))]),
        ("$comm",                          AT_ENTRY,  long,  &[String(Some(b"cat"))]),
        ("@jiffies",                       AT_ENTRY,  long,  &[Hex(0x8877_6655_4433_2211)]),
        ("@jiffies",                       AT_ENTRY,  short, &[Hex(0x4433_2211)]),
        ("@jiffies+2:u8",                  AT_ENTRY,  long,  &[Unsigned(0x33)]),
        ("@0x1010:u16",                    AT_ENTRY,  long,  &[Unsigned(0xfffe)]),
        ("+0x10(%di):s16",                 AT_ENTRY,  long,  &[Signed(-2)]),
        ("-0x10(+0(%di)):b1@7/8",          AT_ENTRY,  long,  &[Unsigned(1)]),
        ("+0x10(%di):x8[4]",               AT_ENTRY,  long,  &[Hex(0xfe), Hex(0xff), Hex(0x85), Hex(0x80)]),
        ("+0x12(%di):b4@4/8[2]",           AT_ENTRY,  long,  &[Unsigned(8), Unsigned(8)]),
        ("+0xff(%di):u8[3]",               AT_ENTRY,  long,  &[Unsigned(0), Unsigned(0), Unsigned(0)]),
        ("+0(%dx)",                        AT_ENTRY,  long,  &[Hex(0)]),
        ("+8(+0(%dx)):s32",                AT_ENTRY,  long,  &[Signed(0)]),
        ("+0(%si):string",                 AT_ENTRY,  long,  &[String(Some(b"vmlinux"))]),
        ("+7(%si):string",                 AT_ENTRY,  long,  &[String(Some(b""))]),
        ("\\0x3010:string",                AT_ENTRY,  long,  &[String(Some(b"init"))]),
        ("@0x3002:string",                 AT_ENTRY,  long,  &[String(Some(b"linux"))]),
        ("+0(+0x40(%di)):string",          AT_ENTRY,  long,  &[String(Some(b"vmlinux"))]),
        ("+0x20(%di):string[3]",           AT_ENTRY,  short, &[String(Some(b"vmlinux")), String(None), String(Some(b"init"))]),
        ("+0x40(%di):string[3]",           AT_ENTRY,  long,  &[String(Some(b"vmlinux")), String(None), String(Some(b"init"))]),
        ("+0x30(%si):string %di",          AT_ENTRY,  long,  &[String(None), Hex(0x1000)]), // has no end before the hole
        ("+0(%dx):string",                 AT_ENTRY,  long,  &[String(None)]),
        ("+u0(\\0x9000):string",           AT_ENTRY,  long,  &[String(Some(b"/bin/true"))]),
        ("+0(\\0x9000):ustring",           AT_ENTRY,  long,  &[String(Some(b"/bin/true"))]),
        ("+0(\\0x9000):string",            AT_ENTRY,  long,  &[String(None)]),
        ("+u0(+u0x80(\\0x9000)):ustring",  AT_ENTRY,  long,  &[String(Some(b"/bin/true"))]),
        ("+u0x80(\\0x9000):ustring[2]",    AT_ENTRY,  long,  &[String(Some(b"/bin/true")), String(None)]),
        ("+u5(\\0x9000):x8[2]",            AT_ENTRY,  long,  &[Hex(0x74), Hex(0x72)]),
        ("+u0(%si)",                       AT_ENTRY,  long,  &[Hex(0)]),
    ];
    for (body, scope, arch, expected) in cases {
        let (record, stored) =
            fetch(&format!("{} do_open {body}", if scope.returns { "r" } else { "p" }), *scope, &mut cpu(*arch), *arch);
        let mut values = Reader::new(&record.payload);
        let values: Vec<Value<'_>> = stored.iter().map(|stored| values.next(*stored)).collect();
        assert_eq!(&values, expected, "{body} on {}", arch.name());
        assert_eq!(record.header.flags, Flags::NONE, "{body}");
    }
}

/// DV-4: a string gets the room that later values leave free. A cut string marks the record.
#[test]
fn a_string_that_is_too_long_is_cut_and_marked() {
    let mut cpu = cpu(Arch::X86_64);
    cpu.kernel.insert(0x3000, vec![b'a'; 0x2000]);
    let (record, stored) = fetch("p do_open +1(%si):string +0(%si):string %di:u32", AT_ENTRY, &mut cpu, Arch::X86_64);
    let mut values = Reader::new(&record.payload);
    let values: Vec<Value<'_>> = stored.iter().map(|stored| values.next(*stored)).collect();
    assert_eq!(record.payload.len(), 3072);
    assert_eq!(values[0], Value::String(Some(&[b'a'; 3072 - 2 - 2 - 4])));
    assert_eq!(values[1..], [Value::String(Some(b"")), Value::Unsigned(0x1000)]);
    assert!(record.header.flags.contains(Flags::TRUNCATED));
}

/// DV-4: a string that fits exactly is not cut.
#[test]
fn a_string_that_just_fits_is_not_marked() {
    let mut cpu = cpu(Arch::X86_64);
    let mut text = vec![b'a'; 0x1000];
    text[3070] = 0;
    cpu.kernel.insert(0x3000, text);
    let (record, _) = fetch("p do_open +0(%si):string", AT_ENTRY, &mut cpu, Arch::X86_64);
    assert_eq!((record.payload.len(), record.header.flags), (3072, Flags::NONE));
}
