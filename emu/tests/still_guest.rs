//! The engine on a kernel that does not run: its answers are right, and it changes nothing.

use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_isa::plan::Errno;
use trapline_probes::Engine;
use trapline_probes::guest::Guest;
use trapline_probes::probe::{Kprobe, Kretprobe};

fn kernel(name: &str) -> Kernel {
    Kernel::from_bytes(trapline_images::find(name).unwrap().bytes).unwrap()
}

/// KP-4, KP-5, KP-15, RP-10: the places of the tiny kernels at which probes are allowed.
#[test]
fn registration_answers_as_linux_does() {
    let kprobe = |name: &str, offset: u32| Kprobe::at(name).offset(offset);
    #[rustfmt::skip]
    let cases = [
        ("a function's entry",              kprobe("vfs_read", 0),                              Ok(())),
        ("a name that no symbol has",       kprobe("vfs_raed", 0),                              Err(Errno::ENOENT)),
        ("an absolute symbol",              kprobe("current_task", 0),                          Err(Errno::ENOENT)),
        ("no place",                        Kprobe::new(),                                      Err(Errno::EINVAL)),
        ("both a symbol and an address",    kprobe("vfs_read", 0).with_address(0xc010_0000),    Err(Errno::EINVAL)),
        ("a blacklisted function",          kprobe("do_int3", 0),                               Err(Errno::EINVAL)),
        ("a NOKPROBE_SYMBOL function",      kprobe("count_blacklisted_calls", 0),               Err(Errno::EINVAL)),
        ("entry text",                      kprobe("exception_common", 0),                      Err(Errno::EINVAL)),
        ("data inside the kernel",          kprobe("__start_rodata", 0),                        Err(Errno::EINVAL)),
        ("an address outside it",           Kprobe::at_address(0x1000),                         Err(Errno::ENOENT)),
        ("a program's text",                Kprobe::at_address(0x40_0000),                      Err(Errno::ENOENT)),
        ("init text",                       kprobe("start_kernel", 0),                          Ok(())),
    ];
    for name in ["tiny/x86_64", "tiny/i386"] {
        let kernel = kernel(name);
        for (what, probe, expected) in &cases {
            let mut guest = StillGuest::new(&kernel);
            let mut engine = Engine::new(kernel.arch.isa(), 1);
            let answer = engine.register_kprobe(&mut guest, probe);
            let errno = answer.clone().map_err(|refusal| refusal.errno);
            assert_eq!(errno, *expected, "{name}: {what}: {answer:?}");
            let changed = text(&guest, &kernel) != text(&StillGuest::new(&kernel), &kernel);
            assert_eq!(changed, expected.is_ok(), "{name}: {what}: the text after it");
            if answer.is_ok() {
                engine.unregister_kprobe(&mut guest, probe);
            }
            assert!(text(&guest, &kernel) == text(&StillGuest::new(&kernel), &kernel), "{name}: {what}: the text afterwards");
        }
    }
}

/// RP-10
#[test]
fn functions_that_switch_stacks_take_no_return_probe() {
    let kernel = kernel("tiny/x86_64");
    let mut guest = StillGuest::new(&kernel);
    let mut engine = Engine::new(kernel.arch.isa(), 1);
    let refusal = engine.register_kretprobe(&mut guest, &Kretprobe::at("__switch_to")).unwrap_err();
    assert_eq!(refusal.errno, Errno::EINVAL);
    assert!(engine.register_kretprobe(&mut guest, &Kretprobe::at("vfs_read")).is_ok());
}

/// KP-13: every instruction of the text gets a probe at the same time. Afterwards the text is unchanged.
#[test]
fn probes_everywhere_leave_the_text_as_it_was() {
    let kernel = kernel("tiny/x86_64");
    let mut guest = StillGuest::new(&kernel);
    let mut engine = Engine::new(kernel.arch.isa(), 1);
    let isa = kernel.arch.isa();
    let mut probes = Vec::new();
    for function in kernel.symbols.extents(kernel.tables.text.clone()) {
        let read = |at: u64, into: &mut [u8]| kernel.read(at, into);
        for insn in trapline_isa::function::walk(isa, function.start, function.start + function.size, read).map_while(Result::ok)
        {
            let probe = Kprobe::at_address(insn.address);
            if engine.register_kprobe(&mut guest, &probe).is_ok() {
                probes.push(probe);
            }
        }
    }
    assert!(probes.len() > 3000, "{} probes", probes.len());
    assert!(text(&guest, &kernel) != text(&StillGuest::new(&kernel), &kernel));
    engine.unregister_kprobes(&mut guest, &probes);
    assert!(text(&guest, &kernel) == text(&StillGuest::new(&kernel), &kernel));
}

fn text(guest: &StillGuest<'_>, kernel: &Kernel) -> Vec<u8> {
    let range = kernel.tables.text.clone();
    let init = kernel.tables.init_text.clone().unwrap_or(0..0);
    let mut bytes = Vec::new();
    for range in [range, init] {
        let start = bytes.len();
        bytes.resize(start + (range.end - range.start) as usize, 0);
        guest.read_text(range.start, &mut bytes[start..]).unwrap();
    }
    bytes
}
