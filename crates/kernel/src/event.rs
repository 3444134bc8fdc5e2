//! Opening an event: perf_event_open(2).

use crate::visits::Instruction;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use wire::Address;

/// `struct perf_event_attr` as of `PERF_ATTR_SIZE_VER7`, as far as it is used here. Older kernels take it as long as what they do not know is zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_registers: u64,
    pub(crate) sample_stack: u32,
    pub(crate) clock: i32,
    pub(crate) rest: [u64; 3],
    /// Comes with the signal.
    pub(crate) signal_data: u64,
}

/// Threads that are started inherit the event, and a program that is executed in place of this one does not; visits by
/// the kernel are none.
const FLAGS: u64 = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC;
pub(crate) const INHERIT: u64 = 1 << 1;
pub(crate) const REMOVE_ON_EXEC: u64 = 1 << 36;
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

impl Attributes {
    pub(crate) fn new(kind: u32) -> Self {
        Self { kind, size: size_of::<Self>() as u32, flags: FLAGS, ..Self::default() }
    }

    pub(crate) fn breakpoint(address: Address) -> Self {
        const PERF_TYPE_BREAKPOINT: u32 = 5;
        const HW_BREAKPOINT_X: u32 = 4;
        let length = size_of::<libc::c_long>() as u64;
        Self {
            breakpoint_type: HW_BREAKPOINT_X,
            config1: address.0,
            config2: length,
            ..Self::new(PERF_TYPE_BREAKPOINT)
        }
    }

    /// A breakpoint of which every visit raises `SIGTRAP` in the thread with `data` in `si_perf_data` (Linux 5.13).
    pub(crate) fn trap(address: Address, data: u64) -> Self {
        const SIGTRAP: u64 = 1 << 37;
        let breakpoint = Self::breakpoint(address);
        Self { flags: breakpoint.flags | SIGTRAP, sample_period: 1, signal_data: data, ..breakpoint }
    }

    /// `path` must live until the event has been opened.
    pub(crate) fn uprobe(kind: u32, path: &CString, instruction: &Instruction) -> Self {
        const SEMAPHORE_SHIFT: u32 = 32;
        Self {
            flags: FLAGS & !(INHERIT | REMOVE_ON_EXEC),
            config: instruction.guard.map_or(0, |guard| guard.in_file) << SEMAPHORE_SHIFT,
            config1: path.as_ptr() as u64,
            config2: instruction.file.1,
            ..Self::new(kind)
        }
    }

    /// The CPU time of a thread, as samples of it need it.
    pub(crate) fn task_clock(kernel: bool) -> Self {
        const PERF_TYPE_SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        const SELDOM: u64 = 1_000_000_000;
        let flags = EXCLUDE_HYPERVISOR | if kernel { 0 } else { EXCLUDE_KERNEL };
        Self { config: TASK_CLOCK, sample_period: SELDOM, flags, ..Self::new(PERF_TYPE_SOFTWARE) }
    }

    pub(crate) fn tracepoint(number: u64) -> Self {
        const PERF_TYPE_TRACEPOINT: u32 = 2;
        // It is the kernel that passes it.
        Self { config: number, flags: FLAGS & !EXCLUDE_KERNEL, ..Self::new(PERF_TYPE_TRACEPOINT) }
    }
}

/// What an event belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    Thread(u32),
    Cpu(u32),
    /// While it runs on this CPU.
    ThreadOnCpu(u32, u32),
}

pub(crate) fn open(attributes: &Attributes, place: Where) -> io::Result<OwnedFd> {
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    const ANY: i32 = -1;
    let (thread, cpu) = match place {
        Where::Thread(thread) => (thread as i32, ANY),
        Where::Cpu(cpu) => (ANY, cpu as i32),
        Where::ThreadOnCpu(thread, cpu) => (thread as i32, cpu as i32),
    };
    let no_group = -1_i32;
    // SAFETY: the kernel reads `size` bytes of the attributes, which are that long, and the path that they point to,
    // which the caller keeps.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub(crate) fn read(event: &OwnedFd) -> Option<u64> {
    let mut count = 0_u64;
    // SAFETY: the kernel writes at most eight bytes to a variable of eight bytes.
    let length = unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    (length == 8).then_some(count)
}
