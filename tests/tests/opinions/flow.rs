//! The control flow of an instruction in a form that can be compared: ours, and that of a mnemonic of another decoder.

use trapline_isa::insn::{Flow, Insn};

/// Control flow, as far as the text of an instruction tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// To the next instruction only.
    Sequential,
    /// To a fixed address, possibly under a condition.
    Direct(u64),
    /// To an address from a register or memory, as a return does too.
    Indirect,
    /// To an exception handler or another privilege level.
    Trap,
}

/// The control flow that we decode.
pub fn of(insn: &Insn) -> Control {
    match insn.flow {
        Flow::Next => Control::Sequential,
        Flow::Jump(to) | Flow::Branch(to) | Flow::Call(to) => Control::Direct(to),
        Flow::IndirectJump | Flow::IndirectBranch | Flow::IndirectCall | Flow::Return => Control::Indirect,
        Flow::Trap => Control::Trap,
    }
}

/// The name of the control flow that we decode, without its target.
pub fn name(insn: &Insn) -> &'static str {
    match insn.flow {
        Flow::Next => "next",
        Flow::Jump(_) => "jump",
        Flow::Branch(_) => "branch",
        Flow::Call(_) => "call",
        Flow::IndirectJump => "indirect jump",
        Flow::IndirectBranch => "indirect branch",
        Flow::IndirectCall => "indirect call",
        Flow::Return => "return",
        Flow::Trap => "trap",
    }
}

/// The control flow of the instructions of an ISA family, by mnemonic.
pub struct Mnemonics {
    /// Whether an instruction with this mnemonic and these operands goes to a fixed address, which is the last operand.
    pub is_direct: fn(&str, &str) -> bool,
    /// Whether it goes to an address from a register or memory.
    pub is_indirect: fn(&str, &str) -> bool,
    /// Whether it goes to an exception handler or another privilege level.
    pub is_trap: fn(&str, &str) -> bool,
}

impl Mnemonics {
    /// The control flow. `base` is added to a target that is printed as a distance.
    pub fn control(&self, mnemonic: &str, operands: &str, base: u64, mask: u64) -> Control {
        if (self.is_trap)(mnemonic, operands) {
            return Control::Trap;
        }
        if (self.is_indirect)(mnemonic, operands) {
            return Control::Indirect;
        }
        match (self.is_direct)(mnemonic, operands).then(|| number(operands)).flatten() {
            Some(to) => Control::Direct(base.wrapping_add(to) & mask),
            None => Control::Sequential,
        }
    }
}

/// The last operand, if it is a number.
fn number(operands: &str) -> Option<u64> {
    let last = operands.rsplit([' ', ',', '\t']).next()?.trim_start_matches(['#', '$', '.']);
    let (is_negative, digits) = match last.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, last.trim_start_matches('+')),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if is_negative { value.wrapping_neg() } else { value })
}

fn one_of(name: &str, names: &[&str]) -> bool {
    names.contains(&name)
}

/// x86 in AT&T's syntax: an indirect target has a star. yaxpeax has Intel's: a fixed target is a number.
pub const X86: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let jumps = name.starts_with('j') || name.starts_with("loop") || name.starts_with("call") || name == "xbegin";
        jumps && !operands.contains(['*', '[']) && number(operands.trim_start_matches("$+")).is_some()
    },
    is_indirect: |name, operands| {
        let jumps = name.starts_with("jmp") || name.starts_with("call");
        ["ret", "lret", "lcall", "ljmp"].iter().any(|start| name.starts_with(start))
            || jumps && number(operands.trim_start_matches('$')).is_none()
    },
    is_trap: |name, _| {
        let starts = ["int", "iret", "syscall", "sysenter", "sysexit", "sysret", "ud", "vmcall", "vmmcall", "vmgexit"];
        starts.iter().any(|start| name.starts_with(start))
    },
};

/// AArch64.
pub const ARM64: Mnemonics = Mnemonics {
    is_direct: |name, _| {
        name == "b"
            || name == "bl"
            || name.starts_with("b.")
            || name.starts_with("bc.")
            || one_of(name, &["cbz", "cbnz", "tbz", "tbnz"])
    },
    is_indirect: |name, _| name.starts_with("br") && name != "brk" || name.starts_with("blr") || name.starts_with("ret"),
    is_trap: |name, _| {
        name.starts_with("eret")
            || one_of(name, &["drps", "svc", "hvc", "smc", "brk", "hlt", "udf", "dcps1", "dcps2", "dcps3", "tcancel"])
    },
};

/// A32.
pub const ARM: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let is_branch = ["b", "bl"].iter().any(|stem| name.strip_prefix(stem).is_some_and(is_condition));
        (is_branch || name == "blx") && number(operands).is_some()
    },
    is_indirect: |name, operands| {
        let by_register = ["bx", "blx", "bxj"].iter().any(|stem| name.strip_prefix(stem).is_some_and(is_condition));
        let into_pc =
            operands.starts_with("pc,") || operands.contains("pc}") && (name.starts_with("pop") || name.starts_with("ldm"));
        by_register && number(operands).is_none() || into_pc && !name.starts_with("cmp") && !name.starts_with("str")
    },
    is_trap: |name, operands| {
        // Arithmetic that sets the flags and writes the pc returns from an exception.
        let arithmetic =
            ["adc", "add", "and", "bic", "eor", "mov", "mvn", "orr", "rsb", "rsc", "sbc", "sub", "asr", "lsl", "lsr", "ror"];
        let sets_flags = |stem: &str| name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('s')).is_some_and(is_condition);
        let returns = operands.starts_with("pc,") && arithmetic.iter().any(|stem| sets_flags(stem));
        returns
            || name.starts_with("ldm") && operands.contains("pc}") && operands.ends_with('^')
            || ["eret", "svc", "hvc", "smc", "bkpt", "udf", "rfe", "swi"].iter().any(|start| name.starts_with(start))
    },
};

fn is_condition(text: &str) -> bool {
    let text = text.strip_suffix(".w").unwrap_or(text);
    text.is_empty()
        || one_of(text, &["eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al"])
}

/// PowerPC. Conditional traps go on.
pub const PPC: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let branches = name.starts_with('b')
            && !name.contains("lr")
            && !name.contains("ctr")
            && !one_of(name, &["bpermd", "brh", "brw", "brd"]);
        branches && number(operands).is_some()
    },
    is_indirect: |name, _| name.starts_with('b') && (name.contains("lr") || name.contains("ctr") || name.contains("tar")),
    is_trap: |name, _| {
        one_of(
            name,
            &["sc", "scv", "rfi", "rfid", "hrfid", "rfscv", "urfid", "rfebb", "attn", "trap", "twui", "tdui", "twu", "tdu"],
        )
    },
};

/// MIPS. Conditional traps go on.
pub const MIPS: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let stem = name.strip_suffix('l').unwrap_or(name);
        let branches = [
            "b", "ba", "beq", "bne", "beqz", "bnez", "bgez", "bgtz", "blez", "bltz", "bgeza", "bltza", "bgezal", "bltzal", "j",
            "ja", "bc1t", "bc1f", "bc2t", "bc2f", "bal",
        ];
        one_of(stem, &branches) && number(operands).is_some() || name == "jal" && number(operands).is_some()
    },
    is_indirect: |name, _| one_of(name, &["jr", "jalr", "jr.hb", "jalr.hb"]),
    is_trap: |name, _| one_of(name, &["syscall", "break", "sdbbp", "eret", "deret", "eretnc", "hypcall"]),
};

/// z/Architecture. A branch under mask 0, or to the address in register 0, is none. `exrl` executes the instruction at a
/// fixed address, `ex` that at any.
pub const S390: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let relative = name.starts_with('j') && !name.ends_with("nop")
            || one_of(
                name,
                &["bras", "brasl", "brc", "brcl", "brct", "brctg", "brcth", "brxh", "brxle", "brxhg", "brxlg", "exrl"],
            );
        let compares = (name.starts_with("cr") || name.starts_with("cl") || name.starts_with("cg") || name.starts_with("ci"))
            && name.contains('j');
        (relative || compares) && !is_never(name, operands) && number(operands).is_some()
    },
    is_indirect: |name, operands| {
        let by_register = one_of(name, &["br", "bcr", "balr", "basr", "bctr", "bctgr", "bassm", "bsm"]);
        let conditional = name.len() >= 3 && name.starts_with('b') && name.ends_with('r');
        let by_address =
            one_of(name, &["bc", "b", "bal", "bas", "bct", "bctg", "bxh", "bxle", "bxhg", "bxleg", "bi", "bic", "ex"]);
        let is_none = operands.ends_with("%r0") || is_never(name, operands);
        ((by_register || conditional) || by_address) && !is_none
    },
    is_trap: |name, _| {
        one_of(name, &["svc", "lpsw", "lpswe", "lpswey", "pc", "pr", "pt", "pti", "mc", "rp", "trap2", "trap4", "tend", "tabort"])
    },
};

/// Whether a branch's mask is 0.
fn is_never(name: &str, operands: &str) -> bool {
    one_of(name, &["bc", "bcr", "brc", "brcl"]) && operands.starts_with("0,") || name.starts_with("nop") || name.ends_with("nop")
}

/// RISC-V.
pub const RISCV: Mnemonics = Mnemonics {
    is_direct: |name, operands| {
        let name = name.strip_prefix("c.").unwrap_or(name);
        let branches = [
            "beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez", "blez", "bgez", "bltz", "bgtz", "bgt", "ble", "bgtu",
            "bleu", "j", "jal",
        ];
        one_of(name, &branches) && number(operands).is_some()
    },
    is_indirect: |name, _| one_of(name.strip_prefix("c.").unwrap_or(name), &["jr", "jalr", "ret"]),
    is_trap: |name, _| {
        one_of(name.strip_prefix("c.").unwrap_or(name), &["ecall", "ebreak", "sret", "mret", "uret", "dret", "unimp", "mnret"])
    },
};
