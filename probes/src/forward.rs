//! Macros that forward methods of a view of a CPU to the CPU itself. A view ([`Cpu`](crate::guest::Cpu)) has registers or a
//! time of its own. Most methods of the trait have defaults, so a method that is missing here would silently give the
//! default in every view.

/// The methods of `Memory`, of a view with a field `cpu`.
macro_rules! memory_of_the_cpu {
    () => {
        fn order(&self) -> trapline_isa::mem::ByteOrder {
            self.cpu.order()
        }
        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), trapline_isa::mem::Fault> {
            self.cpu.read(address, into)
        }
        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), trapline_isa::mem::Fault> {
            self.cpu.write(address, bytes)
        }
        fn read_number(&mut self, address: u64, size: usize) -> Result<u64, trapline_isa::mem::Fault> {
            self.cpu.read_number(address, size)
        }
        fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), trapline_isa::mem::Fault> {
            self.cpu.write_number(address, value, size)
        }
    };
}

/// The methods of [`crate::guest::Cpu`] that handlers need, of a view with a field `cpu`, without the time and those that
/// change code.
macro_rules! rest_of_the_cpu {
    () => {
        fn number(&self) -> usize {
            self.cpu.number()
        }
        fn task(&mut self) -> u64 {
            self.cpu.task()
        }
        fn pid(&mut self) -> u32 {
            self.cpu.pid()
        }
        fn process(&mut self) -> u32 {
            self.cpu.process()
        }
        fn comm(&mut self) -> [u8; 16] {
            self.cpu.comm()
        }
        fn interrupts_off(&self) -> bool {
            self.cpu.interrupts_off()
        }
        fn trace_flags(&mut self) -> crate::records::Flags {
            self.cpu.trace_flags()
        }
        fn stack_word(&mut self, address: u64, size: usize) -> Option<u64> {
            self.cpu.stack_word(address, size)
        }
        fn read_user(&mut self, address: u64, into: &mut [u8]) -> Result<(), trapline_isa::mem::Fault> {
            self.cpu.read_user(address, into)
        }
        fn narrow_word(&self) -> Option<usize> {
            self.cpu.narrow_word()
        }
        fn runs_program(&self) -> bool {
            self.cpu.runs_program()
        }
        fn mapping_at(&mut self, address: u64) -> Option<u16> {
            self.cpu.mapping_at(address)
        }
        fn preemptions(&mut self) -> Option<(u64, usize)> {
            self.cpu.preemptions()
        }
        fn per_cpu(&mut self) -> Option<u64> {
            self.cpu.per_cpu()
        }
        fn physical_of(&mut self, address: u64) -> Option<u64> {
            self.cpu.physical_of(address)
        }
        fn look_soon(&mut self) {
            self.cpu.look_soon();
        }
    };
}

pub(crate) use {memory_of_the_cpu, rest_of_the_cpu};
