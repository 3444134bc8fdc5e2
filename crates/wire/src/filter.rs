//! A seccomp filter of the program: whether it allows the system calls that sampling and pauses make, and those with which the runtime is put into a program.
//!
//! A filter is a program in classic BPF that the kernel runs before every system call. Here it is run on the calls of the
//! runtime, with those arguments that are the same every time. Where the answer depends on an argument that is not, or on the
//! address of the instruction, the filter counts as one that does not allow the call.
//!
//! A pure function: makes no system call, reads nothing but the filter.

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Instruction {
    /// What it does (`BPF_LD`, `BPF_JMP`, …).
    pub code: u16,
    /// How many instructions a jump skips whose condition holds.
    pub then: u8,
    /// The same of one whose condition does not.
    pub otherwise: u8,
    /// Its operand.
    pub constant: u32,
}

/// The most instructions that the kernel takes (`BPF_MAXINSNS`).
pub const LONGEST: usize = 4096;

/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Bytes of `struct seccomp_data`.
const DATA: u32 = 64;

const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERRNO: u32 = 0x0005_0000;
const ACTION: u32 = 0xffff_0000;

/// A value that may not be known.
type Value = Option<u32>;

/// A system call that the runtime makes: its number and its first three arguments, as far as they are always the same.
struct Call(u32, [Option<u64>; 3]);

const fn any(number: u32) -> Call {
    Call(number, [None; 3])
}

const fn first(number: u32, argument: u64) -> Call {
    Call(number, [Some(argument), None, None])
}

const fn second(number: u32, argument: u64) -> Call {
    Call(number, [None, Some(argument), None])
}

/// How signal handlers return. A filter that lets it fail makes the thread go on behind its handler, wherever that is.
const SIGRETURN: u32 = 15;

/// What the runtime (`sys.rs`) asks of the kernel while threads are sampled and pause, and when they begin and end.
const CALLS: [Call; 46] = [
    any(0),                  // read
    any(2),                  // open
    any(3),                  // close
    any(5),                  // fstat
    any(7),                  // poll
    first(9, 0),             // mmap
    any(11),                 // munmap
    any(13),                 // rt_sigaction
    first(14, 0),            // rt_sigprocmask: SIG_BLOCK
    first(14, 1),            // SIG_UNBLOCK
    first(14, 2),            // SIG_SETMASK
    any(SIGRETURN),          // rt_sigreturn
    second(16, 0x2400),      // ioctl: PERF_EVENT_IOC_ENABLE
    second(16, 0x2401),      // PERF_EVENT_IOC_DISABLE
    second(16, 0x4008_2404), // PERF_EVENT_IOC_PERIOD
    second(16, 0x541b),      // FIONREAD
    second(16, 0x8907),      // SIOCGSTAMPNS
    any(24),                 // sched_yield
    any(39),                 // getpid
    any(51),                 // getsockname
    any(52),                 // getpeername
    second(55, 1),           // getsockopt: SOL_SOCKET
    second(55, 6),           // IPPROTO_TCP
    second(72, 4),           // fcntl: F_SETFL
    second(72, 10),          // F_SETSIG
    second(72, 15),          // F_SETOWN_EX
    second(72, 1030),        // F_DUPFD_CLOEXEC
    any(127),                // rt_sigpending
    any(128),                // rt_sigtimedwait
    first(157, 29),          // prctl: PR_SET_TIMERSLACK
    first(157, 30),          // PR_GET_TIMERSLACK
    any(186),                // gettid
    second(202, 9),          // futex: FUTEX_WAIT_BITSET
    second(202, 1),          // FUTEX_WAKE
    first(222, 3),           // timer_create: CLOCK_THREAD_CPUTIME_ID
    any(223),                // timer_settime
    any(226),                // timer_delete
    first(228, 1),           // clock_gettime: CLOCK_MONOTONIC
    first(228, 3),           // CLOCK_THREAD_CPUTIME_ID
    any(232),                // epoll_wait
    second(233, 3),          // epoll_ctl: EPOLL_CTL_MOD
    any(234),                // tgkill
    any(297),                // rt_tgsigqueueinfo
    any(298),                // perf_event_open
    first(302, 0),           // prlimit64
    any(310),                // process_vm_readv
];

/// What is asked of the kernel when a program that runs is attached to, and let go: none of these may fail.
const ATTACHING: [Call; 10] = [
    any(3),   // close
    any(9),   // mmap
    any(10),  // mprotect
    any(11),  // munmap
    any(13),  // rt_sigaction
    any(25),  // mremap
    any(28),  // madvise
    any(34),  // pause
    any(47),  // recvmsg
    any(319), // memfd_create
];
/// `socketpair`, by which a process gets the memory of another one's session.
const JOINING: Call = first(53, 1);

/// Whether all system calls of the runtime either pass the filter or fail with an error, with which it goes on.
#[must_use]
pub fn lets_us(filter: &[Instruction]) -> bool {
    CALLS.iter().all(|call| {
        let action = run(filter, call).map(|value| value & ACTION);
        matches!(action, Some(ALLOW | LOG)) || action == Some(ERRNO) && call.0 != SIGRETURN
    })
}

/// Whether a program under this filter can be attached to, and profiled.
#[must_use]
pub fn lets_us_attach(filter: &[Instruction]) -> bool {
    let passes = |call: &Call| matches!(run(filter, call).map(|value| value & ACTION), Some(ALLOW | LOG));
    lets_us(filter) && ATTACHING.iter().chain([&JOINING]).all(passes)
}

/// What the filter returns for a call; `None` if that cannot be known, or if the kernel would refuse the filter. Ends, for all
/// jumps lead forward.
fn run(filter: &[Instruction], call: &Call) -> Value {
    let (mut a, mut x): (Value, Value) = (Some(0), Some(0));
    let mut memory: [Value; 16] = [Some(0); 16];
    let mut at = 0;
    loop {
        let Instruction { code, then, otherwise, constant } = *filter.get(at)?;
        at += 1;
        let cell = constant as usize;
        match code {
            0x20 => a = load(call, constant)?,    // BPF_LD | BPF_W | BPF_ABS
            0x80 => a = Some(DATA),               // BPF_LD | BPF_W | BPF_LEN
            0x81 => x = Some(DATA),               // BPF_LDX | BPF_W | BPF_LEN
            0x00 => a = Some(constant),           // BPF_LD | BPF_IMM
            0x01 => x = Some(constant),           // BPF_LDX | BPF_IMM
            0x60 => a = *memory.get(cell)?,       // BPF_LD | BPF_MEM
            0x61 => x = *memory.get(cell)?,       // BPF_LDX | BPF_MEM
            0x02 => *memory.get_mut(cell)? = a,   // BPF_ST
            0x03 => *memory.get_mut(cell)? = x,   // BPF_STX
            0x07 => x = a,                        // BPF_MISC | BPF_TAX
            0x87 => a = x,                        // BPF_MISC | BPF_TXA
            0x06 => return Some(constant),        // BPF_RET | BPF_K
            0x16 => return a,                     // BPF_RET | BPF_A
            0x05 => at = at.checked_add(cell)?,   // BPF_JMP | BPF_JA
            0x84 => a = a.map(u32::wrapping_neg), // BPF_ALU | BPF_NEG
            _ => {
                let operand = if code & 8 == 0 { Some(constant) } else { x };
                match code & 7 {
                    4 => a = calculate(code & 0xf0, a, operand)?,
                    5 => at += usize::from(if holds(code & 0xf0, a?, operand?)? { then } else { otherwise }),
                    _ => return None,
                }
            }
        }
    }
}

/// A word of `struct seccomp_data`; the outer `None` if there is none.
fn load(call: &Call, offset: u32) -> Option<Value> {
    let argument = |index: usize| call.1.get(index).copied().flatten();
    match offset {
        _ if !offset.is_multiple_of(4) || offset >= DATA => None,
        0 => Some(Some(call.0)),
        4 => Some(Some(ARCHITECTURE)),
        8 | 12 => Some(None),
        _ => {
            let value = argument((offset as usize - 16) / 8);
            Some(
                value.map(|value| if offset.is_multiple_of(8) { value as u32 } else { (value >> 32) as u32 }),
            )
        }
    }
}

fn calculate(operation: u16, a: Value, operand: Value) -> Option<Value> {
    let (Some(a), Some(operand)) = (a, operand) else { return Some(None) };
    let value = match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand)?,
        0x70 => a.checked_shr(operand)?,
        0xa0 => a ^ operand,
        _ => return None,
    };
    Some(Some(value))
}

fn holds(comparison: u16, a: u32, operand: u32) -> Option<bool> {
    match comparison {
        0x10 => Some(a == operand),
        0x20 => Some(a > operand),
        0x30 => Some(a >= operand),
        0x40 => Some(a & operand != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    const KILL: u32 = 0x8000_0000;
    const TRAP: u32 = 0x0003_0000;

    fn step(code: u16, then: u8, otherwise: u8, constant: u32) -> Instruction {
        Instruction { code, then, otherwise, constant }
    }

    /// Every number of `numbers` gets `action`, all others `rest`.
    fn list(numbers: &[u32], action: u32, rest: u32) -> Vec<Instruction> {
        let mut filter = vec![step(0x20, 0, 0, 0)];
        for number in numbers {
            filter.extend([step(0x15, 0, 1, *number), step(0x06, 0, 0, action)]);
        }
        filter.push(step(0x06, 0, 0, rest));
        filter
    }

    #[test]
    fn lists_of_calls() {
        let ours: Vec<u32> = CALLS.iter().map(|call| call.0).collect();
        let without = |number| ours.iter().copied().filter(|own| *own != number).collect::<Vec<_>>();
        assert!(lets_us(&list(&ours, ALLOW, KILL)));
        assert!(lets_us(&list(&ours, LOG, TRAP)));
        for number in &ours {
            assert!(!lets_us(&list(&without(*number), ALLOW, KILL)), "{number} is missing");
            assert!(!lets_us(&list(&[*number], TRAP, ALLOW)), "{number} is trapped");
            let fails = list(&[*number], ERRNO | 1, ALLOW);
            assert_eq!(lets_us(&fails), *number != SIGRETURN, "{number} fails");
        }
        // ptrace, bpf
        assert!(lets_us(&list(&[101, 321], KILL, ALLOW)));
    }

    #[test]
    fn attaching_takes_calls_that_may_not_fail() {
        let most = |missing: u32, action| {
            let all = CALLS.iter().chain(&ATTACHING).chain([&JOINING]).map(|call| call.0);
            let numbers: Vec<u32> = all.filter(|number| *number != missing).collect();
            list(&numbers, ALLOW, action)
        };
        assert!(lets_us_attach(&most(0x7fff, KILL)));
        for call in ATTACHING.iter().chain([&JOINING]) {
            assert!(!lets_us_attach(&most(call.0, ERRNO | 1)), "{} fails", call.0);
        }
        // As containers have it: no perf events.
        let container = list(&[298], ERRNO | 1, ALLOW);
        assert!(lets_us_attach(&container));
    }

    #[test]
    fn arguments_that_are_always_the_same_are_known() {
        // Of `prctl` only the slack of timers, as wide as the argument is.
        let slack = |high| {
            vec![
                step(0x20, 0, 0, 0),
                step(0x15, 0, 6, 157),
                step(0x20, 0, 0, 20),
                step(0x15, 0, 3, high),
                step(0x20, 0, 0, 16),
                step(0x25, 0, 1, 28),
                step(0x35, 0, 1, 31),
                step(0x06, 0, 0, KILL),
                step(0x06, 0, 0, ALLOW),
            ]
        };
        assert!(lets_us(&slack(0)));
        assert!(!lets_us(&slack(1)));
    }

    #[test]
    fn what_cannot_be_known_does_not_count_as_allowed() {
        // Whether the address of the instruction is even.
        let filter = [
            step(0x20, 0, 0, 8),
            step(0x54, 0, 0, 1),
            step(0x15, 0, 1, 0),
            step(0x06, 0, 0, ALLOW),
            step(0x06, 0, 0, ALLOW),
        ];
        assert!(!lets_us(&filter));
        // It is looked at, and makes no difference.
        let filter = [step(0x20, 0, 0, 8), step(0x06, 0, 0, ALLOW)];
        assert!(lets_us(&filter));
    }

    #[test]
    fn calculations_and_memory() {
        // ((number * 2 + 64) / 2 - 32) ^ number, by way of both registers and the memory, is zero.
        let filter = [
            step(0x20, 0, 0, 0),
            step(0x02, 0, 0, 3),
            step(0x61, 0, 0, 3),
            step(0x24, 0, 0, 2),
            step(0x04, 0, 0, 64),
            step(0x34, 0, 0, 2),
            step(0x14, 0, 0, 32),
            step(0xac, 0, 0, 0),
            step(0x15, 0, 1, 0),
            step(0x06, 0, 0, ALLOW),
            step(0x06, 0, 0, KILL),
        ];
        assert!(lets_us(&filter));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_not_allowed() {
        for filter in [
            &[][..],
            &[step(0x20, 0, 0, 0)],                                 // does not return
            &[step(0x20, 0, 0, 64), step(0x06, 0, 0, ALLOW)],       // behind the data
            &[step(0x20, 0, 0, 2), step(0x06, 0, 0, ALLOW)],        // not a word
            &[step(0x05, 0, 0, u32::MAX), step(0x06, 0, 0, ALLOW)], // too far
            &[step(0x02, 0, 0, 16), step(0x06, 0, 0, ALLOW)],       // no such cell
            &[step(0x34, 0, 0, 0), step(0x06, 0, 0, ALLOW)],        // divides by zero
            &[step(0x30, 0, 0, 0), step(0x06, 0, 0, ALLOW)],        // loads a byte
        ] {
            assert!(!lets_us(filter), "{filter:?}");
        }
    }
}
