//! Kernel stacks as texts: those that the guest prints, and those that a script prints.

/// Name and offset of each frame that the guest prints: `[<0>] vfs_read+0x9b/0x300`.
pub fn named_by_guest(console: &str) -> Vec<(String, u64)> {
    let call = |line: &str| {
        let (_, call) = line.split_once("[<0>] ")?;
        let (name, rest) = call.trim().split_once("+0x")?;
        Some((name.to_string(), u64::from_str_radix(rest.split('/').next()?, 16).ok()?))
    };
    console.lines().filter_map(call).collect()
}

/// Name and offset of each frame that a script prints: `vfs_read+155`.
pub fn named_by_script(printed: &str) -> Vec<(String, u64)> {
    let call = |line: &str| {
        let (name, offset) = line.trim().split_once('+')?;
        Some((name.to_string(), offset.parse().ok()?))
    };
    printed.lines().filter_map(call).collect()
}
