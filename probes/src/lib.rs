//! The probe engine: registration, hits, return probes, jprobes, views. Knows no emulator and no ISA by name.
//!
//! [`Engine`] holds the probes; a [`guest::Guest`] is where it registers them; a [`guest::Cpu`] is what a hit happens on.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod guest;
