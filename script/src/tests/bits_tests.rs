//! Bit fields of packed structures are read wherever their bits lie, from guest memory and from copies, in both byte orders.

use super::layout_tests::On;
use super::{options, settings};
use crate::compile::compile;
use crate::run::{ScriptContext, State};
use crate::show::Style;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;

/// A context whose guest has these bytes at 0x100 and no other memory.
struct Memory(Vec<u8>);

impl ScriptContext for Memory {
    fn argument(&mut self, _: usize) -> u64 {
        0
    }
    fn stack_word(&mut self, _: usize) -> u64 {
        0
    }
    fn result(&mut self) -> u64 {
        0
    }
    fn register(&mut self, _: Reg) -> u64 {
        0
    }
    fn pid(&mut self) -> u32 {
        1
    }
    fn process(&mut self) -> u32 {
        1
    }
    fn comm(&mut self) -> [u8; 16] {
        [0; 16]
    }
    fn task(&mut self) -> u64 {
        0
    }
    fn cpu(&mut self) -> usize {
        0
    }
    fn now(&self) -> u64 {
        0
    }
    fn address(&self) -> u64 {
        0
    }
    fn in_user(&mut self) -> bool {
        false
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let start = at.checked_sub(0x100).and_then(|start| usize::try_from(start).ok());
        let held = start.and_then(|start| self.0.get(start..)?.get(..into.len()));
        held.is_some_and(|held| {
            into.copy_from_slice(held);
            true
        })
    }
    fn stack(&mut self, _: bool, _: &mut [u64]) -> usize {
        0
    }
    fn skip(&mut self, _: u64) -> bool {
        false
    }
}

/// The bytes of bit fields, each given by its value and its width, one behind the other.
fn packed(fields: &[(u64, usize)], order: ByteOrder) -> Vec<u8> {
    let (mut bytes, mut start) = (std::vec![0; fields.iter().map(|(_, width)| width).sum::<usize>().div_ceil(8)], 0);
    for (value, width) in fields {
        for bit in (0..*width).filter(|bit| value >> bit & 1 != 0) {
            match order {
                ByteOrder::Little => bytes[(start + bit) / 8] |= 1 << ((start + bit) % 8),
                ByteOrder::Big => bytes[(start + width - 1 - bit) / 8] |= 0x80 >> ((start + width - 1 - bit) % 8),
            }
        }
        start += width;
    }
    bytes
}

const FIELDS: &[(u64, usize)] = &[(0x12345, 20), (0x6789a, 20), (0xff_fffe, 24), (5, 3), (0x123_4567_89ab_cdef, 58), (6, 3)];

/// BY-1: no bit of a field is lost, whether or not the field crosses the unit of its type or its structure ends in the unit.
#[test]
fn bit_fields_of_packed_structures_are_read() {
    assert_eq!(packed(FIELDS, ByteOrder::Little)[..8], [0x45, 0x23, 0xa1, 0x89, 0x67, 0xfe, 0xff, 0xff], "as GCC packs them");
    let text = "struct p { uint32 a : 20; uint32 b : 20; int c : 24; uint8 d : 3; uint64 e : 58; uint32 f : 3; } __attribute__((packed));
        struct q { uint32 a : 20; } __attribute__((packed));
        BEGIN { $p = (struct p *)0x100; printf(\"%x %x %d %x %lx %x\\n\", $p->a, $p->b, $p->c, $p->d, $p->e, $p->f);
            @p = *$p; printf(\"%x %x %d %x %lx %x\\n\", @p.a, @p.b, @p.c, @p.d, @p.e, @p.f);
            @q = *(struct q *)0x100; printf(\"%x %d %d\\n\", @q.a, sizeof(@p.b), sizeof(struct q)); }";
    let expected = "12345 6789a -2 5 123456789abcdef 6\n12345 6789a -2 5 123456789abcdef 6\n12345 4 3\n\n\n\
        @p: { .a = 74565, .b = 424090, .c = -2, .d = 5, .e = 81985529216486895, .f = 6 }\n@q: { .a = 74565 }\n";
    for arch in Arch::ALL {
        let program = compile(text, &On(*arch), &options(false)).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
        let mut state = State::new(&program, settings(Style::default()));
        let mut memory = Memory(packed(FIELDS, arch.isa().order));
        state.run(&program, &program.blocks[0], &program.blocks[0].points[0], &mut memory);
        state.print_maps(&program);
        assert_eq!(String::from_utf8_lossy(&state.take_output()), expected, "{}", arch.name());
    }
}

/// BY-1: a field with bits in nine bytes is refused.
#[test]
fn bit_fields_in_nine_bytes_are_refused() {
    let text = "struct p { uint8 a : 4; uint64 b : 61; } __attribute__((packed)); BEGIN { print(((struct p *)0x100)->b); }";
    let errors = compile(text, &On(Arch::X86_64), &options(false)).expect_err("nine bytes");
    assert!(errors[0].message.contains("lie in nine bytes"), "{errors:?}");
}
