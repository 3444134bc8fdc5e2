//! Small programs for the kernel: bpf(2). They are written here instruction by instruction, so that neither a compiler nor a
//! library is needed to have them.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROGRAM_LOAD: libc::c_int = 5;
const TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_LOOKUP_BATCH: libc::c_int = 24;

/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    /// Of perf events, by CPU.
    Events = 4,
    /// A hash that forgets what was not used for longest when it is full.
    Recent = 9,
}

/// A table that programs and processes share.
#[derive(Debug)]
pub(crate) struct Map {
    descriptor: OwnedFd,
    key: usize,
    value: usize,
}

impl Map {
    /// For `entries` values of `value` bytes, with keys of `key` bytes.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` without `CAP_BPF` and where it is switched off, `ENOSYS` where the kernel has none.
    pub(crate) fn new(kind: MapKind, key: usize, value: usize, entries: usize) -> io::Result<Self> {
        let attributes = [kind as u32, key as u32, value as u32, entries as u32];
        Ok(Self { descriptor: descriptor(bpf(MAP_CREATE, &attributes)?), key, value })
    }

    /// Puts `value` in the place of `key`.
    ///
    /// # Errors
    /// `E2BIG` when the map is full.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key && value.len() == self.value, "{self:?}");
        self.change(MAP_UPDATE, key, value.as_ptr()).map(drop)
    }

    /// Puts `value` in the place of `key`, if nothing is there.
    pub(crate) fn add(&self, key: &[u8], value: &[u8]) {
        const NOT_THERE: u64 = 1;
        assert!(key.len() == self.key && value.len() == self.value, "{self:?}");
        let attributes = [self.descriptor() as u64, key.as_ptr() as u64, value.as_ptr() as u64, NOT_THERE];
        let _ = bpf(MAP_UPDATE, &attributes);
    }

    /// Writes what is there for `key` to `value`; false if nothing is.
    pub(crate) fn get(&self, key: &[u8], value: &mut [u8]) -> bool {
        assert!(key.len() == self.key && value.len() == self.value, "{self:?}");
        let mut attributes = [self.descriptor() as u64, key.as_ptr() as u64, value.as_mut_ptr() as u64, 0];
        bpf_mut(MAP_LOOKUP, &mut attributes).is_ok()
    }

    /// All keys and values of a hash; what is put there meanwhile may be missing.
    pub(crate) fn entries(&self, mut take: impl FnMut(&[u8], &[u8])) {
        const AT_ONCE: usize = 1 << 12;
        let (mut keys, mut values) = (vec![0_u8; AT_ONCE * self.key], vec![0_u8; AT_ONCE * self.value]);
        let mut place = 0_u64;
        let mut before = 0_u64;
        loop {
            let from = if before == 0 { 0 } else { &raw const place as u64 };
            let count_and_map = AT_ONCE as u64 | (self.descriptor() as u64) << 32;
            let mut attributes = [
                from,
                &raw mut place as u64,
                keys.as_mut_ptr() as u64,
                values.as_mut_ptr() as u64,
                count_and_map,
                0,
            ];
            let read = bpf_mut(MAP_LOOKUP_BATCH, &mut attributes);
            let count = (attributes[4] as u32 as usize).min(AT_ONCE);
            match &read {
                // That was all.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(_) => return,
                Ok(_) => {}
            }
            let entries = keys.chunks(self.key).zip(values.chunks(self.value));
            entries.take(count).for_each(|(key, value)| take(key, value));
            if read.is_err() || count == 0 {
                return;
            }
            before = 1;
        }
    }

    /// Removes what is there for `key`, if anything.
    pub(crate) fn remove(&self, key: &[u8]) {
        assert!(key.len() == self.key, "{self:?}");
        let _ = self.change(MAP_DELETE, key, std::ptr::null());
    }

    /// Its number, as programs and other maps know it.
    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// The kernel reads a key and perhaps a value of the lengths that the map has: callers have compared them.
    fn change(&self, command: libc::c_int, key: &[u8], value: *const u8) -> io::Result<libc::c_long> {
        let attributes = [self.descriptor() as u64, key.as_ptr() as u64, value as u64, 0];
        bpf(command, &attributes)
    }
}

/// A program of a perf event or a tracepoint.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Has the kernel check and translate it.
    ///
    /// # Errors
    /// As for [`Map::new`]; `EINVAL` and `EACCES` where the kernel does not know what it uses.
    pub(crate) fn load(code: &Code<'_>) -> io::Result<Self> {
        const PERF_EVENT: u32 = 7;
        Self::load_as(PERF_EVENT, code, |_| ())
    }

    fn load_as(kind: u32, code: &Code<'_>, change: impl FnOnce(&mut [u64; 16])) -> io::Result<Self> {
        /// Functions that read memory are for programs that are compatible with the kernel's licence.
        const LICENCE: &[u8] = b"Dual MIT/GPL\0";
        let words = code.finished();
        let first = u64::from(kind) | (words.len() as u64) << 32;
        let mut attributes = [0_u64; 16];
        attributes[..3].copy_from_slice(&[first, words.as_ptr() as u64, LICENCE.as_ptr() as u64]);
        change(&mut attributes);
        bpf(PROGRAM_LOAD, &attributes).map(|number| Self(descriptor(number)))
    }

    /// The same of a program for a tracepoint, by the number of its type.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub(crate) fn load_for_tracepoint(code: &Code<'_>, number: u32) -> io::Result<Self> {
        const TRACING: u32 = 26;
        const TRACEPOINT: u64 = 23;
        Self::load_as(TRACING, code, |attributes| {
            attributes[8] = TRACEPOINT << 32;
            attributes[13] = u64::from(number) << 32;
        })
    }

    /// Runs it at every visit of its tracepoint, until what is returned is closed.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn attach_to_tracepoint(&self) -> io::Result<OwnedFd> {
        let attributes = [0, self.0.as_raw_fd() as u64, 0];
        bpf(TRACEPOINT_OPEN, &attributes).map(descriptor)
    }

    /// Runs it before every sample of an event.
    ///
    /// # Errors
    /// The kernel's error: `EEXIST` where another program is.
    pub(crate) fn attach(&self, event: &OwnedFd) -> io::Result<()> {
        const SET_BPF: libc::c_ulong = 0x4004_2408;
        // SAFETY: the argument is a descriptor, which the kernel only looks up.
        let result = unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, self.0.as_raw_fd()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// The same of a command that writes to what the attributes point to, or to them.
fn bpf_mut<T>(command: libc::c_int, attributes: &mut [T]) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes as many bytes of the attributes as they have, and as many of what they point to as callers have
    // room for there.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(attributes) as libc::c_uint,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn bpf<T>(command: libc::c_int, attributes: &[T]) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads as many bytes of the attributes as they have. What they point to lives in the callers, which
    // have written all of it; the commands used here write nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes) as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor(number: libc::c_long) -> OwnedFd {
    // SAFETY: a new descriptor that nothing else knows.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}

/// A register of the kernel's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Register {
    /// What functions return.
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    /// The first that functions leave alone.
    R6,
    R7,
    R8,
    R9,
    /// The end of 512 bytes of stack.
    R10,
}

/// Something that is done to a register with a number or with another register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftRight = 0x70,
    Set = 0xb0,
}

/// When to go to a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    /// They have a bit in common.
    Common = 0x40,
    NotEqual = 0x50,
}

/// A place in a program that is jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(usize);

/// A program that is being written. The maps that it names outlive it.
#[derive(Debug, Default)]
pub(crate) struct Code<'a> {
    words: Vec<u64>,
    labels: Vec<Option<usize>>,
    /// Jumps, and where to.
    jumps: Vec<(usize, Label)>,
    maps: std::marker::PhantomData<&'a Map>,
}

impl<'a> Code<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn word(&mut self, code: u8, to: Register, from: u8, offset: i16, number: i32) {
        let registers = to as u8 | from << 4;
        let low = u32::from(code) | u32::from(registers) << 8 | u32::from(offset as u16) << 16;
        self.words.push(u64::from(low) | u64::from(number as u32) << 32);
    }

    /// `to = to operation number`, in 64 bits.
    pub(crate) fn number(&mut self, operation: Operation, to: Register, number: i32) {
        self.word(0x07 | operation as u8, to, 0, 0, number);
    }

    /// `to = to operation from`, in 64 bits.
    pub(crate) fn register(&mut self, operation: Operation, to: Register, from: Register) {
        self.word(0x0f | operation as u8, to, from as u8, 0, 0);
    }

    /// The eight bytes at `from` + `offset`.
    pub(crate) fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.word(0x79, to, from as u8, offset, 0);
    }

    /// The four bytes at `from` + `offset`.
    pub(crate) fn load_half(&mut self, to: Register, from: Register, offset: i16) {
        self.word(0x61, to, from as u8, offset, 0);
    }

    /// Writes eight bytes to `to` + `offset`.
    pub(crate) fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.word(0x7b, to, from as u8, offset, 0);
    }

    /// Writes the lower four bytes to `to` + `offset`.
    pub(crate) fn store_half(&mut self, to: Register, offset: i16, from: Register) {
        self.word(0x63, to, from as u8, offset, 0);
    }

    /// Adds to the eight bytes at `to` + `offset`, at once.
    pub(crate) fn add_at(&mut self, to: Register, offset: i16, from: Register) {
        self.word(0xdb, to, from as u8, offset, 0);
    }

    /// A number of 64 bits.
    pub(crate) fn wide(&mut self, to: Register, number: u64) {
        self.word(0x18, to, 0, 0, number as i32);
        self.words.push(number >> 32 << 32);
    }

    /// A map.
    pub(crate) fn map(&mut self, to: Register, map: &'a Map) {
        const MAP: u8 = 1;
        self.word(0x18, to, MAP, 0, map.descriptor());
        self.words.push(0);
    }

    /// Calls a function of the kernel, by its number.
    pub(crate) fn call(&mut self, function: i32) {
        self.word(0x85, Register::R0, 0, 0, function);
    }

    /// A place that is given by [`here`](Self::here).
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(crate) fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.words.len());
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.words.len(), label));
        self.word(0x05, Register::R0, 0, 0, 0);
    }

    /// Goes to `label` if `left` and a number are so.
    pub(crate) fn jump_if(&mut self, left: Register, condition: Condition, number: i32, label: Label) {
        self.jumps.push((self.words.len(), label));
        self.word(0x05 | condition as u8, left, 0, 0, number);
    }

    /// Goes to `label` if two registers are so.
    pub(crate) fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        label: Label,
    ) {
        self.jumps.push((self.words.len(), label));
        self.word(0x0d | condition as u8, left, right as u8, 0, 0);
    }

    pub(crate) fn exit(&mut self) {
        self.word(0x95, Register::R0, 0, 0, 0);
    }

    /// The instructions, with the distances that jumps go.
    fn finished(&self) -> Vec<u64> {
        let mut words = self.words.clone();
        for &(at, Label(label)) in &self.jumps {
            let to = self.labels[label].expect("every label has a place");
            let distance = to as i64 - at as i64 - 1;
            words[at] |= u64::from(distance as i16 as u16) << 16;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_written_as_the_kernel_reads_them() {
        let mut code = Code::new();
        let end = code.label();
        code.number(Operation::Set, Register::R0, 1);
        code.jump_if(Register::R1, Condition::Equal, 0, end);
        code.load(Register::R7, Register::R6, 152);
        code.register(Operation::Add, Register::R7, Register::R8);
        code.store_half(Register::R10, -4, Register::R7);
        code.wide(Register::R3, 0xffff_ffff);
        code.here(end);
        code.exit();
        let expected = [
            0x0000_0001_0000_00b7,
            0x0000_0000_0005_0115,
            0x0000_0000_0098_6779,
            0x0000_0000_0000_870f,
            0x0000_0000_fffc_7a63,
            0xffff_ffff_0000_0318,
            0,
            0x0000_0000_0000_0095_u64,
        ];
        assert_eq!(code.finished(), expected, "{:x?}", code.finished());
    }

    #[test]
    fn values_are_put_into_maps() {
        let map = match Map::new(MapKind::Hash, 4, 4, 2) {
            Ok(map) => map,
            Err(error) => return eprintln!("skipped: BPF is not to be had here: {error}"),
        };
        let set = |key: u32| map.set(&key.to_ne_bytes(), &7_u32.to_ne_bytes());
        assert!(set(1).is_ok() && set(2).is_ok() && set(1).is_ok());
        assert_eq!(set(3).unwrap_err().raw_os_error(), Some(libc::E2BIG));
        map.remove(&1_u32.to_ne_bytes());
        map.remove(&1_u32.to_ne_bytes());
        assert!(set(3).is_ok());
    }

    #[test]
    fn the_kernel_refuses_what_it_does_not_understand() {
        let mut code = Code::new();
        code.load(Register::R0, Register::R3, 0);
        code.exit();
        match Program::load(&code) {
            Err(error) => println!("{error}"),
            Ok(_) => panic!("it reads from a register that nothing was put into"),
        }
    }
}
