//! Runs the built program on kernels, scripts and events that once ran for ever. Each ends with its message, soon and
//! in bounded memory. The budgets are tested beside their code (SECURITY.md).
#![cfg(feature = "cpu")]

mod program;

use program::{Ended, start};
use std::time::Duration;
use trapline_harness::Folder;

/// The limit of a run. It is much longer than a run takes, even on a busy computer.
const MOST: Duration = Duration::from_secs(240);
const MOST_MEMORY_KIB: u64 = 1 << 20;

/// The tiny kernel for x86-64 with another segment behind its own.
fn with_segment(bytes: &[u8]) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut file = trapline_images::find("tiny/x86_64").expect("built in").bytes.to_vec();
    let number = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let (at, count) = (number(&file, 32) as usize, u16::from_le_bytes([file[56], file[57]]));
    let mut headers = file[at..at + 56 * usize::from(count)].to_vec();
    let end = |field: usize| headers.chunks(56).map(|row| number(row, field) + number(row, 40)).max().unwrap_or(0);
    let (seen, loaded) = (end(16).next_multiple_of(1 << 21), end(24).next_multiple_of(1 << 21));
    file.resize(file.len().next_multiple_of(PAGE), 0);
    let (start, size) = (file.len() as u64, bytes.len() as u64);
    file.extend_from_slice(bytes);
    headers.extend([1_u32, 6].iter().flat_map(|word| word.to_le_bytes()));
    headers.extend([start, seen, loaded, size, size, PAGE as u64].iter().flat_map(|word| word.to_le_bytes()));
    file.resize(file.len().next_multiple_of(8), 0);
    let table = file.len() as u64;
    file.extend_from_slice(&headers);
    file[32..40].copy_from_slice(&table.to_le_bytes());
    file[56..58].copy_from_slice(&(count + 1).to_le_bytes());
    file
}

/// Data of this size in which every row looks like the start of a kallsyms table.
fn beginnings_of_kallsyms(size: usize) -> Vec<u8> {
    let count = (size / 32) as u64;
    let row = [&count.to_le_bytes()[..], &[15], &[1; 7]].concat();
    let mut text = Vec::new();
    let mut places = Vec::new();
    for token in 0..=255_u8 {
        places.extend((text.len() as u16).to_le_bytes());
        text.extend([if token.is_ascii_digit() { token } else { b'a' }, 0]);
    }
    text.resize(text.len().next_multiple_of(8), 0);
    [row.repeat(size / 16), text, places].concat()
}

/// Headers of type information (BTF), each of which claims half of the image.
fn beginnings_of_types(size: usize) -> Vec<u8> {
    let length = (12 * (size / 24) + 4) as u32;
    let words = [24, 0, length, 16, 8].iter().flat_map(|word: &u32| word.to_le_bytes()).collect::<Vec<u8>>();
    [&[0x9f, 0xeb, 1, 0][..], &words].concat().repeat(size / 24)
}

/// An ELF file with many symbol tables that share one large string table.
fn symbol_tables(count: u16) -> Vec<u8> {
    const STRINGS: u64 = 4 << 20;
    let mut file = trapline_images::find("tiny/x86_64").expect("built in").bytes.to_vec();
    let strings = file.len() as u64;
    file.resize(file.len() + STRINGS as usize, 0);
    let table = file.len() as u64;
    let section = |kind: u32, size: u64| {
        let words: Vec<u8> = [0, kind].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let rest: Vec<u8> = [0, 0, strings, size, 1, 8, 24].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        [words, rest].concat()
    };
    file.extend(section(0, 0));
    file.extend(section(3, STRINGS));
    (2..count).for_each(|_| file.extend(section(2, 24)));
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[58..64].copy_from_slice(&[64_u16, count, 1].map(u16::to_le_bytes).concat());
    file
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// KP-4, DV-4, BY-1
#[test]
fn hostile_inputs_end_soon_with_a_sentence() {
    let folder = Folder::new("hostile");
    const RUN: &[&str] = &["run", "--quiet"];
    const EVENTS: &[&str] = &["run", "tiny/x86_64", "--quiet", "--until", "1ms", "--out", "/dev/null", "-f"];
    const TRACE: &[&str] = &["trace", "tiny/x86_64", "--quiet"];
    // The arguments, the file, and words of the end; no words: the guest runs as usual.
    let inputs: [(&str, &[&str], Vec<u8>, &str); 15] = [
        ("kallsyms, again and again", RUN, with_segment(&beginnings_of_kallsyms(4 << 20)), ""),
        ("types, again and again", RUN, with_segment(&beginnings_of_types(4 << 20)), ""),
        ("many symbol tables", RUN, symbol_tables(60_000), ""),
        ("a define in a define", TRACE, "#define X ".repeat(200_000).into(), "error"),
        ("a define that grows", TRACE, format!("#define X \"{}\"\nBEGIN {{ {} }}", "x".repeat(1 << 20), "$x = X; ".repeat(4000)).into(), "error"),
        ("nested #if", TRACE, "#if 1\n".repeat(100_000).into(), "error"),
        ("attach points", TRACE, format!("{} {{ @ = count(); }}", ["kprobe:vfs_read"; 100_000].join(",")).into(), "probes already"),
        ("an evicting map", TRACE, b"let @m = lruhash(300000); BEGIN { $i = 0; while ($i < 900000) { @m[$i] = 1; $i++ } clear(@m); exit() }".into(), ""),
        ("loops over a map in loops", TRACE, b"BEGIN { $i = 0; while ($i < 900000) { @m[$i] = 1; $i++ } } kprobe:vfs_read { for ($a : @m) { for ($b : @m) { break; } } } END { clear(@m) }".into(), "1,000,000 turns"),
        ("keys that once collided", TRACE, b"BEGIN { $i = 0; while ($i < 300000) { @m[$i << 44] = 1; $i++ } clear(@m); exit() }".into(), ""),
        ("the fastest clock", TRACE, b"interval:ns:1 { @ticks++; } interval:ms:2 { exit() }".into(), "no clock is faster"),
        ("events at one place", EVENTS, lines(20_000, |number| format!("p:e{number} vfs_read a=+0($arg2):string\n")).into(), "probes already"),
        ("events that come and go", EVENTS, (lines(65_000, |number| format!("p:e{number} m:f\n")) + &lines(65_000, |number| format!("-:e{number}\n"))).into(), ""),
        ("probes of one event", EVENTS, (lines(65_000, |number| format!("p:e m:f{number}\n")) + &lines(65_000, |number| format!("-:e m:f{number}\n"))).into(), ""),
        ("an argument in an argument", EVENTS, format!("p vfs_read a={}%di{}\n", "+0(".repeat(100_000), ")".repeat(100_000)).into(), "error"),
    ];
    for (number, (what, before, bytes, words)) in inputs.into_iter().enumerate() {
        let file = folder.write(&number.to_string(), &bytes);
        let ended = start(what.into(), before, &file, &[]).end(MOST);
        let expected: &[i32] = if words.is_empty() || words == "no clock is faster" { &[0] } else { &[1, 2] };
        let Ended { what, status, said, memory } = ended;
        assert!(status.is_some_and(|status| expected.contains(&status)), "{what}: {status:?}\n{said}");
        assert!(said.contains(words), "{what}:\n{said}");
        assert!(memory < MOST_MEMORY_KIB, "{what}: {memory} KiB");
    }
}
