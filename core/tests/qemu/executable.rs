//! A random program of PA-RISC as an executable file for Linux, and its run under qemu-hppa-static.

use crate::program::{POINTER, Random, body};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Debian's package is qemu-user-static.
pub const QEMU: &str = "qemu-hppa-static";

/// The address of the code, of the copies and detours, and of the data page.
pub const TEXT: u32 = 0x0100_0000;
pub const WINDOW: u32 = TEXT + 0x1_0000;
pub const DATA: u32 = TEXT + 0x4_0000;
/// The bytes of all of it.
pub const BYTES: usize = 0x4_1000;

/// The program in memory: registers from the data page, the body, registers to the data page, the system calls.
pub struct Program {
    pub memory: Vec<u8>,
    pub body: std::ops::Range<u32>,
}

impl Program {
    /// A random program of this many instructions.
    pub fn of(seed: u64, len: usize) -> Program {
        Program::with_body(seed, &body(seed, len))
    }

    /// The program with this body. The seed decides about the registers and the data.
    pub fn with_body(seed: u64, body: &[u32]) -> Program {
        let load = |register: u32, offset: i32| 0x12 << 26 | POINTER << 21 | register << 16 | low14(offset);
        let store = |register: u32, offset: i32| 0x1a << 26 | POINTER << 21 | register << 16 | low14(offset);
        let set = |register: u32, value: i32| 0x0d << 26 | register << 16 | low14(value);
        let registers: Vec<u32> = (1..32).filter(|register| ![POINTER, 27, 30].contains(register)).collect();
        // ldil of the data page's address.
        let at = DATA >> 11;
        let left = at >> 20 & 1 | (at >> 9 & 0x7ff) << 1 | (at >> 7 & 3) << 14 | (at >> 2 & 31) << 16 | (at & 3) << 12;
        let mut words = vec![0x08 << 26 | POINTER << 21 | left];
        words.extend(registers.iter().map(|register| load(*register, 512 + 4 * *register as i32)));
        // mtsar r5; add r6,r7,r0 sets the carry.
        words.extend([11 << 21 | 5 << 16 | 0xc2 << 5, 2 << 26 | 7 << 21 | 6 << 16 | 0x18 << 6]);
        let start = TEXT + 4 * words.len() as u32;
        words.extend(body);
        let end = TEXT + 4 * words.len() as u32;
        words.extend(registers.iter().map(|register| store(*register, 512 + 4 * *register as i32)));
        // The carry and the shift amount: addc r0,r0,r3; mfctl sar,r4.
        words.extend([2 << 26 | 0x1c << 6 | 3, 11 << 21 | 0x45 << 5 | 4, store(3, 512), store(4, 640)]);
        // write(1, DATA, 1024); exit(0). `or POINTER,r0,r25` passes the address of the data.
        // be,l 0x100(sr2,r0)
        let enter = 0xe400_8200;
        words.extend([2 << 26 | POINTER << 16 | 9 << 6 | 25, set(26, 1), set(24, 1024), enter, set(20, 4)]);
        words.extend([set(26, 0), enter, set(20, 1)]);
        let mut memory: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(memory.len() < (WINDOW - TEXT) as usize);
        memory.resize((DATA - TEXT) as usize, 0);
        let mut random = Random(!seed.wrapping_mul(0x1234_5678_9abc_def1) | 1);
        let special = [0, 1, 0xffff_ffff, 0x7fff_ffff, 0x8000_0000, 0x0000_8000, 0x0101_0101];
        for _ in 0..1024 {
            let value = if random.below(3) == 0 { special[random.below(7) as usize] } else { random.next() };
            memory.extend(value.to_be_bytes());
        }
        assert_eq!(memory.len(), BYTES);
        Program { memory, body: start..end }
    }

    /// The program as an ELF executable for Linux.
    fn executable(&self) -> Vec<u8> {
        let mut file = b"\x7fELF\x01\x02\x01\x03".to_vec();
        file.resize(16, 0);
        file.extend([0, 2, 0, 15, 0, 0, 0, 1]);
        file.extend([TEXT, 52, 0, 0x0210].iter().flat_map(|value| value.to_be_bytes()));
        file.extend([0, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0]);
        let bytes = BYTES as u32;
        file.extend([1, 0x1000, TEXT, TEXT, bytes, bytes, 7, 0x1000].iter().flat_map(|value| value.to_be_bytes()));
        file.resize(0x1000, 0);
        file.extend(&self.memory);
        file
    }

    /// Runs the program under QEMU and returns its output.
    pub fn under_qemu(&self, name: &str) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("trapline-core-{}-{name}", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(&self.executable()).expect("written");
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).expect("executable");
        drop(file);
        let output = Command::new(QEMU).arg(&path).stdin(Stdio::null()).output().expect(QEMU);
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{name}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// The 14-bit field of a number, whose sign is in the lowest bit.
pub fn low14(value: i32) -> u32 {
    let value = value as u32 & 0x3fff;
    value << 1 & 0x3fff | value >> 13
}
