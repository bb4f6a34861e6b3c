//! Fuzzes the script language with arbitrary text. An error must point into the script. A script that compiles runs its
//! BEGIN block, its hits and its END block on arbitrary registers and memory, in bounded time. It must print text, or
//! valid JSON lines.
//!
//! Input: a byte that selects the ISA, the types, the dialect and the output format, then the script.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::regs::Reg;
use trapline_script::run::{ScriptContext, Secret, Settings, State};
use trapline_script::show::{Names, Style};
use trapline_script::types::{CType, Enumeration, Field, Prototype, Tag, Types};
use trapline_script::{Knowledge, Options, PointKind, budget, compile_within};

/// A guest with one self-referential structure and one function that takes it.
struct Toy {
    isa: &'static Isa,
    has_types: bool,
}

const NODE: u32 = 1;

fn node() -> CType {
    CType::Struct(NODE, "node".into())
}

impl Types for Toy {
    fn named(&self, tag: Option<Tag>, name: &str) -> Option<CType> {
        match (tag, name) {
            (Some(Tag::Struct), "node" | "task_struct" | "dentry" | "vfsmount" | "mount") => Some(node()),
            (Some(Tag::Struct), "path") => Some(CType::Struct(NODE, "path".into())),
            _ => None,
        }
    }
    fn field(&self, structure: u32, name: &str) -> Option<Field> {
        let field = |kind, byte: u64, width| Some(Field { kind, bit: byte * 8, width });
        match (structure, name) {
            (NODE, "next" | "real_parent" | "cred" | "mnt_parent" | "d_parent") => {
                field(CType::Pointer(Box::new(node())), 0, None)
            }
            (NODE, "tgid" | "uid" | "pid") => field(CType::Int(4, true), 8, None),
            (NODE, "name" | "comm") => field(CType::Array(Box::new(CType::Char(true)), 16), 12, None),
            (NODE, "state") => field(CType::Enum(4, true, NODE), 28, None),
            (NODE, "bits") => field(CType::Int(4, false), 28, Some(3)),
            (NODE, "list") => field(CType::Array(Box::new(CType::Int(2, false)), 4), 32, None),
            (NODE, "self" | "d_name" | "mnt" | "dentry" | "mnt_root" | "mnt_mountpoint") => field(node(), 40, None),
            _ => None,
        }
    }
    fn fields(&self, structure: u32) -> Vec<(String, Field)> {
        let names = ["next", "tgid", "name", "bits", "state", "list"];
        names.iter().filter_map(|name| Some((name.to_string(), self.field(structure, name)?))).collect()
    }
    fn size(&self, structure: u32) -> Option<u64> {
        (structure == NODE).then_some(48)
    }
    fn enumerator(&self, name: &str) -> Option<u64> {
        (name == "NODE_MAX").then_some(u64::MAX)
    }
    fn enum_of(&self, _: &str) -> Option<u32> {
        Some(NODE)
    }
    fn enumeration(&self, _: u32) -> Option<Enumeration> {
        Some(Enumeration { name: "most".into(), size: 4, signed: true, names: vec![(u64::MAX, "NODE_MAX".into())] })
    }
    fn function(&self, name: &str) -> Option<Prototype> {
        let parameters = vec![("node".into(), CType::Pointer(Box::new(node()))), ("count".into(), CType::Int(8, false))];
        (name == "vfs_read").then_some(Prototype { parameters, result: CType::Int(8, true) })
    }
}

impl Knowledge for Toy {
    fn isa(&self) -> &'static Isa {
        self.isa
    }
    fn types(&self) -> Option<&dyn Types> {
        self.has_types.then_some(self)
    }
    fn address(&self, name: &str) -> Option<u64> {
        (name == "vfs_read" || name.ends_with("sys_openat")).then_some(0x1000)
    }
    fn system_call_names(&self) -> std::sync::Arc<[String]> {
        ["read".to_string(), String::new(), "open".to_string()].into()
    }
    fn functions(&self, _: &str, _: bool) -> Vec<String> {
        vec!["vfs_read".into(), "vfs_write".into()]
    }
}

struct ToyNames;

impl Names for ToyNames {
    fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        (0x1000..0x2000).contains(&address).then(|| ("vfs_read", address - 0x1000))
    }
}

/// Memory with holes in which each byte depends on its address, and registers that point there.
struct Somewhere;

impl ScriptContext for Somewhere {
    fn argument(&mut self, number: usize) -> u64 {
        (number as u64) << 12 | 0x123
    }
    fn stack_word(&mut self, number: usize) -> u64 {
        number as u64
    }
    fn result(&mut self) -> u64 {
        u64::MAX - 1
    }
    fn register(&mut self, register: Reg) -> u64 {
        register.0.into()
    }
    fn pid(&mut self) -> u32 {
        7
    }
    fn process(&mut self) -> u32 {
        1
    }
    fn comm(&mut self) -> [u8; 16] {
        *b"a \"task\"\\\n\xff\0\0\0\0\0"
    }
    fn task(&mut self) -> u64 {
        0x5000
    }
    fn cpu(&mut self) -> usize {
        1
    }
    fn now(&self) -> u64 {
        1_234_567_891
    }
    fn address(&self) -> u64 {
        0x1000
    }
    fn in_user(&mut self) -> bool {
        false
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let end = at.wrapping_add(into.len() as u64);
        into.iter_mut().enumerate().for_each(|(number, byte)| *byte = (at as u8).wrapping_add(number as u8));
        at & 0xf000 != 0x3000 && end >= at
    }
    fn stack(&mut self, _: bool, into: &mut [u64]) -> usize {
        into.iter_mut().enumerate().for_each(|(number, frame)| *frame = 0x0ffe + number as u64);
        into.len()
    }
    fn skip(&mut self, _: u64) -> bool {
        true
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let Ok(text) = core::str::from_utf8(text) else { return };
    let arches = [Arch::X86_64, Arch::I386, Arch::Arm64, Arch::Arm];
    let guest = Toy { isa: arches[usize::from(choice & 3)].isa(), has_types: choice & 4 == 0 };
    let options = Options {
        parameters: vec!["7".into(), "a word".into()],
        named: vec![("name".into(), "5".into())],
        allows_unsafe: true,
        old: choice & 8 != 0,
        process: (choice & 32 != 0).then_some(5),
        warns_of_reads: choice & 64 != 0,
        ..Options::default()
    };
    let budget = budget(text);
    let compiled = compile_within(text, &guest, &options, &budget);
    assert!(budget.spent() <= 2 * budget.most(), "{budget:?}: it went on when its budget was spent");
    let program = match compiled {
        Ok(program) => program,
        Err(errors) => {
            assert!(!errors.is_empty(), "the script was refused without an error");
            for error in errors {
                assert!(
                    error.at.end <= text.len().max(1) && error.at.start <= error.at.end,
                    "{error:?} is outside of the script"
                );
                assert!(!error.message.is_empty());
            }
            return;
        }
    };
    let style = Style { json: choice & 16 != 0, old: options.old };
    let settings = Settings { style, started: 5, epoch: 0, seed: 1, secret: Secret(3, 5), cpus: 2, names: Box::new(ToyNames) };
    let mut state = State::new(&program, settings);
    state.announce(program.blocks.len());
    let is_end = |kind: &PointKind| matches!(kind, PointKind::End);
    for end in [false, true] {
        for _ in 0..3 {
            for block in &program.blocks {
                for point in block.points.iter().filter(|point| is_end(&point.kind) == end) {
                    state.run(&program, block, point, &mut Somewhere);
                }
            }
        }
        state.forget_exit();
    }
    state.print_maps(&program);
    let output = state.take_output();
    if style.json && !style.old {
        for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(1000) {
            let line = String::from_utf8_lossy(line);
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&line);
            assert!(parsed.is_ok(), "not JSON: {line}: {parsed:?}");
        }
    }
});
