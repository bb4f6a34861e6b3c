//! The names of application and control registers.

use alloc::format;
use alloc::string::String;

/// The name of an application register.
pub fn application(number: u8) -> String {
    let name = match number {
        0..=7 => return format!("ar.k{number}"),
        16 => "rsc",
        17 => "bsp",
        18 => "bspstore",
        19 => "rnat",
        21 => "fcr",
        24 => "eflag",
        25 => "csd",
        26 => "ssd",
        27 => "cflg",
        28 => "fsr",
        29 => "fir",
        30 => "fdr",
        32 => "ccv",
        36 => "unat",
        40 => "fpsr",
        44 => "itc",
        45 => "ruc",
        64 => "pfs",
        65 => "lc",
        66 => "ec",
        _ => return format!("ar{number}"),
    };
    format!("ar.{name}")
}

/// The name of a control register.
pub fn control(number: u8) -> String {
    let name = match number {
        0 => "dcr",
        1 => "itm",
        2 => "iva",
        8 => "pta",
        16 => "ipsr",
        17 => "isr",
        19 => "iip",
        20 => "ifa",
        21 => "itir",
        22 => "iipa",
        23 => "ifs",
        24 => "iim",
        25 => "iha",
        26 | 27 => return format!("cr.iib{}", number - 26),
        64 => "lid",
        65 => "ivr",
        66 => "tpr",
        67 => "eoi",
        68..=71 => return format!("cr.irr{}", number - 68),
        72 => "itv",
        73 => "pmv",
        74 => "cmcv",
        80 | 81 => return format!("cr.lrr{}", number - 80),
        _ => return format!("cr{number}"),
    };
    format!("cr.{name}")
}
