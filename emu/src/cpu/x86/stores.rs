//! Tests `unicorn/stores.rs` by guest programs for i386: which stores take the fast path, and which code is translated
//! again.

use super::core::CORE;
use super::state;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::RecordingEvents;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x30_0000;
/// Another virtual address of the page of DATA, once paging is on.
const ALIAS: u64 = 0x20_0000;

/// Runs a program for i386 up to its HLT; the first 4 MiB are mapped one to one, except ALIAS.
fn run(program: &[u8]) -> Core<RecordingEvents> {
    const DIRECTORY: u64 = 0x1000;
    const TABLE: u64 = 0x2000;
    let ram = Ram::at(0, 4 << 20, ByteOrder::Little).unwrap();
    ram.set_word32(DIRECTORY, TABLE as u32 | 7);
    (0..1024).for_each(|page| assert!(ram.set_word32(TABLE + 4 * page, (page << 12) as u32 | 7)));
    ram.set_word32(TABLE + 4 * (ALIAS >> 12), DATA as u32 | 7);
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
    state::enter_flat_32(&core.stopped(), CODE);
    ram.write(CODE, program);
    for (register, value) in [
        (RegisterX86::RAX, 0),
        (RegisterX86::RBX, 0),
        (RegisterX86::RCX, 0),
        (RegisterX86::RSI, ALIAS),
        (RegisterX86::RDI, DATA),
        (RegisterX86::RSP, CODE),
        (RegisterX86::CR3, DIRECTORY),
    ] {
        core.stopped().write(register, value);
    }
    assert_eq!(core.run(&mut RecordingEvents::default()), Ended::Stopped);
    core
}

/// mov eax, cr0; or eax, 0x80000000; mov cr0, eax; xor eax, eax
const PAGING: &[u8] = b"\x0f\x20\xc0\x0d\0\0\0\x80\x0f\x22\xc0\x31\xc0";
/// mov word [esi], "inc eax; ret"
const PLACE: &[u8] = b"\x66\xc7\x06\x40\xc3";
/// mov byte [esi], "inc ebx"
const REPLACE: &[u8] = b"\xc6\x06\x43";
const CALL_ALIAS: &[u8] = b"\xff\xd6";
const CALL_DATA: &[u8] = b"\xff\xd7";
const HLT: &[u8] = b"\xf4";

fn sums(core: &Core<RecordingEvents>) -> (u64, u64) {
    (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX))
}

#[test]
fn code_that_is_overwritten_is_translated_anew_by_whatever_address_the_store_goes() {
    for (name, call) in [("the same", CALL_ALIAS), ("another", CALL_DATA)] {
        let core = run(&[PAGING, PLACE, call, REPLACE, call, HLT].concat());
        assert_eq!(sums(&core), (1, 1), "stored to by {name} address");
    }
}

#[test]
fn only_pages_with_code_keep_stores_on_the_long_way() {
    // The first store comes before the page has code.
    let core = run(&[PAGING, PLACE, HLT].concat());
    assert!(core.stores_quickly(ALIAS), "data, though it may be executed");
    let core = run(&[PAGING, PLACE, CALL_DATA, HLT].concat());
    assert!(!core.stores_quickly(ALIAS) && !core.stores_quickly(DATA), "translated code");
    // mov [esp - 4], eax: to the page below the program.
    let core = run(&[PAGING, PLACE, CALL_DATA, b"\x89\x44\x24\xfc", HLT].concat());
    assert!(core.stores_quickly(CODE - 4) && !core.stores_quickly(CODE));
}

#[test]
fn stores_are_fast_while_a_page_has_no_code() {
    const FORGET: &[u8] = b"\x0f\x20\xda\x0f\x22\xda"; // mov edx, cr3; mov cr3, edx
    const PLACE_IN_DATA: &[u8] = b"\x66\xc7\x07\x40\xc3"; // as PLACE, by [edi]
    let once = [PAGING, PLACE, FORGET, CALL_DATA].concat();
    // The last store finds no TLB entry of ALIAS, while there is one of DATA, by which the code was fetched.
    let overwritten = [&once, PLACE_IN_DATA, PLACE].concat();
    let core = run(&[&overwritten, HLT].concat());
    assert!(core.stores_quickly(ALIAS));
    let core = run(&[&overwritten, CALL_DATA, HLT].concat());
    assert_eq!(sums(&core), (2, 0));
    assert!(!core.stores_quickly(ALIAS));
    let core = run(&[&overwritten, CALL_DATA, REPLACE, CALL_DATA, HLT].concat());
    assert_eq!(sums(&core), (2, 1));
}

#[test]
fn engines_of_one_thread_do_not_mix_and_go_in_any_order() {
    let (one, two, three) = (run(PLACE_AND_HALT), run(PLACE_AND_HALT), run(&[PAGING, PLACE, CALL_DATA, HLT].concat()));
    assert!(one.stores_quickly(ALIAS) && two.stores_quickly(ALIAS) && !three.stores_quickly(ALIAS));
    drop(two);
    drop(three);
    drop(run(PLACE_AND_HALT));
    drop(one);
}

/// Without paging: the store goes to ALIAS itself.
const PLACE_AND_HALT: &[u8] = b"\x66\xc7\x06\x40\xc3\xf4";
