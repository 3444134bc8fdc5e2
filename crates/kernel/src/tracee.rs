//! Tracee: a thread of another process, stopped for a moment to make system calls and to call functions in its stead: ptrace(2).
//!
//! **Does:** stop one thread, use it, and let it go as it was: all its registers, its signal mask, and the system call that it was in, which goes on.
//!
//! **Does not:** insert breakpoints, or raise signals: a program may ignore or block any of them, and the kernel would change what it has installed. That a call
//! is over is seen in the process's memory.
//!
//! **Constraints:** all requests for a thread come from the thread of ours that has stopped it. If this process ends in the middle of a call, the thread stays in
//! it: so the process that makes calls is one that nothing ends (`controller/src/attach/guardian.rs`). Threads that are only stopped go on.

use crate::cpu::status_field;
use crate::process_memory::TraceeMemory;
use libc::{c_int, c_long, c_void, pid_t, user_regs_struct};
use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::filter::Instruction;

/// What a system call returns that was interrupted.
const EINTR: i64 = -4;
/// The same where the kernel begins the call again unless a handler of a signal runs: `ERESTARTNOHAND`, which a program never sees.
const RESTART_WITHOUT_HANDLER: i64 = -514;
/// The stop that `PTRACE_INTERRUPT` asks for; `libc` has no name for the number in a status.
const EVENT_STOP: c_int = 128;
/// The signal that a thread stops with before and after a system call, by `PTRACE_O_TRACESYSGOOD`.
const AT_CALL: c_int = libc::SIGTRAP | 0x80;
/// The kernel's signal masks have so many bytes.
const MASK_SIZE: usize = 8;
/// The processor state beside the general registers, `elf.h`.
const NT_X86_XSTATE: usize = 0x202;
/// More than any processor saves.
const MOST_STATE: usize = 1 << 14;

/// System calls that fail with `EINTR` where a thread is stopped in them, though no handler has run, and that can begin again: the kernel does not see to it for these.
/// See signal(7).
const BEGIN_AGAIN: [libc::c_long; 23] = [
    // Sockets with a time limit.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    // Events.
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_rt_sigtimedwait,
    // System V.
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
];

/// The flags of a program but for the second, which is always set.
const FLAGS: u64 = 0x25_4fd5;
/// The segment of code in 64 bits.
const USER: u64 = 0x33;
/// How far a stack is looked through for an interrupted handler's way back: processors save less, and handlers need little.
const STACK: usize = 32 << 10;

/// No call of ours takes as long; a program may see to it that one never ends.
const LONGEST_CALL: Duration = Duration::from_secs(60);

/// Why a thread cannot be used.
#[derive(Debug)]
pub enum Trouble {
    /// It has ended.
    Gone,
    /// It does not stop: it waits for a device, or for a child that has its memory.
    Stuck,
    /// It is stopped by a signal (Ctrl-Z, `kill -STOP`).
    Suspended,
    /// The kernel refuses.
    Refused(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        if error.raw_os_error() == Some(libc::ESRCH) { Self::Gone } else { Self::Refused(error) }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("it has ended"),
            Self::Stuck => {
                f.write_str("it does not stop: it waits for a device, or for a child that has its memory")
            }
            Self::Suspended => f.write_str("it is stopped by a signal; continue it (kill -CONT)"),
            Self::Refused(error) => write!(f, "the kernel refuses ({error})"),
        }
    }
}

impl std::error::Error for Trouble {}

/// What has become of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Where it was interrupted: whatever its registers are now, the kernel looks after the system call that it was in when it goes on.
    Interrupted,
    /// After a system call that it was made to make.
    AtCall,
    /// It runs, with registers that are not its own.
    Not,
}

/// A stopped thread. It goes on as it was when this is dropped.
#[derive(Debug)]
pub struct Tracee {
    thread: pid_t,
    stop: Stop,
    /// What is given back in the end.
    registers: user_regs_struct,
    state: Vec<u8>,
    mask: u64,
    since: Instant,
}

/// A word in the process that says that a function has returned, and where what it has returned is.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// The code that it returns to, which sets the word and waits.
    pub code: u64,
    /// Four bytes.
    pub done: u64,
    /// Eight bytes.
    pub result: u64,
    /// The end of the stack that it is called on.
    pub stack: u64,
}

/// Where a thread is, which is stopped for a moment to find that out; none if it cannot be.
#[must_use]
pub fn instruction_pointer(thread: u32) -> Option<u64> {
    const PATIENCE: Duration = Duration::from_secs(1);
    match Tracee::stop(thread, PATIENCE) {
        Ok(tracee) => Some(tracee.instruction_pointer()),
        Err(Trouble::Stuck) => {
            release_late(thread);
            None
        }
        Err(_) => None,
    }
}

/// Whether the kernel sends signals of the whole process to this thread: `SIGCHLD` to one that has children, what `kill` sends to the first thread. While such a thread is traced
/// the kernel queues signals that are ignored as well. If it is stopped then, the kernel wakes another thread for them, whose wait may fail with `EINTR`.
#[must_use]
pub fn gets_signals_of_process(pid: u32, thread: u32) -> bool {
    let children = || std::fs::read(format!("/proc/{pid}/task/{thread}/children"));
    thread == pid || children().is_ok_and(|children| !children.is_empty())
}

/// Lets a thread go that was not stopped in time, when it stops; waits for that, but not for ever.
pub fn release_late(thread: u32) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE && release_if_stopped(thread) == Late::Runs {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The calling process is traced by its parent, and stops when it has executed a program. For a child that was just forked.
pub(crate) fn be_traced() {
    // Also by what our parent has started, where the kernel asks who may (Yama).
    // SAFETY: numbers only.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::getppid()) };
    // Where that is refused the parent sees it.
    let _ = request(libc::PTRACE_TRACEME, 0, 0, number(0));
}

/// Waits until a child has stopped because it has executed its program.
pub(crate) fn wait_for_program(child: u32) -> io::Result<()> {
    loop {
        let mut status = 0;
        // SAFETY: a place for the status.
        let waited = unsafe { libc::waitpid(child.cast_signed(), &raw mut status, 0) };
        match waited {
            -1 => return Err(io::Error::last_os_error()),
            _ if !libc::WIFSTOPPED(status) => {
                return Err(io::Error::other("the program has ended before its first instruction"));
            }
            _ if libc::WSTOPSIG(status) == libc::SIGTRAP => return Ok(()),
            _ => resume(child.cast_signed(), libc::PTRACE_CONT, status)?,
        }
    }
}

/// Lets a stopped child go on, untraced.
pub(crate) fn detach(child: u32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, child.cast_signed(), 0, number(0)).map(drop)
}

/// One request; what there is to be known about `address` and `data` is in ptrace(2).
fn request(what: u32, thread: pid_t, address: usize, data: *mut c_void) -> io::Result<c_long> {
    // SAFETY: callers pass what the request asks for; requests that write get memory that is large enough.
    let result = unsafe { libc::ptrace(what, thread, address as *mut c_void, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number(value: usize) -> *mut c_void {
    value as *mut c_void
}

impl Tracee {
    /// Stops a thread, for which it has `patience`.
    ///
    /// # Errors
    /// Why it could not be stopped; it goes on then.
    pub fn stop(thread: u32, patience: Duration) -> Result<Self, Trouble> {
        seize(thread)?;
        interrupt(thread)?;
        Self::when_stopped(thread, Instant::now(), patience)
    }

    /// Stops several threads of a process at once, those that have not ended. Those that [`gets_signals_of_process`] come first: they are to go on first, which they do if all are dropped in
    /// their order.
    ///
    /// # Errors
    /// Which of them could not be stopped, and why; all go on then.
    pub fn stop_all(pid: u32, threads: &[u32], patience: Duration) -> Result<Vec<Self>, Vec<(u32, Trouble)>> {
        let since = Instant::now();
        let gets_signals = |thread: u32| gets_signals_of_process(pid, thread);
        let (last, mut threads): (Vec<u32>, Vec<u32>) =
            threads.iter().partition(|thread| gets_signals(**thread));
        threads.extend(last);
        // A thread that is woken while it is traced stops before its wait fails: so all are traced before one is stopped.
        let mut seized: Vec<Result<(), Trouble>> = threads.iter().map(|thread| seize(*thread)).collect();
        for (thread, seized) in threads.iter().zip(&mut seized) {
            if seized.is_ok() {
                *seized = interrupt(*thread);
            }
        }
        let (mut stopped, mut troubles) = (Vec::with_capacity(threads.len()), Vec::new());
        for (thread, seized) in threads.into_iter().zip(seized) {
            match seized.and_then(|()| Self::when_stopped(thread, since, patience)) {
                Ok(tracee) => stopped.push(tracee),
                Err(Trouble::Gone) => {}
                Err(trouble) => troubles.push((thread, trouble)),
            }
        }
        // Some may have had a child only now.
        stopped.sort_by_cached_key(|tracee| !gets_signals(tracee.thread()));
        if troubles.is_empty() { Ok(stopped) } else { Err(troubles) }
    }

    /// Stops all threads of a process, and those that they create meanwhile. `alive`: those that have not ended.
    ///
    /// # Errors
    /// Which of them could not be stopped, and why; all go on then, except one that is [stuck](Trouble::Stuck), for which [`release_if_stopped`] is to look.
    pub fn stop_process(
        pid: u32,
        alive: impl Fn() -> Vec<u32>,
        patience: Duration,
    ) -> Result<Vec<Self>, Vec<(u32, Trouble)>> {
        let (mut stopped, mut known) = (Vec::new(), HashSet::new());
        loop {
            let mut new = alive();
            new.retain(|thread| known.insert(*thread));
            if new.is_empty() {
                return Ok(stopped);
            }
            stopped.extend(Self::stop_all(pid, &new, patience)?);
        }
    }

    /// Whether a word on its stack is such an address, where the handler of a signal may lead it back to; and on the stacks that handlers have interrupted to run on another one.
    #[must_use]
    pub fn may_return_to(&self, memory: &TraceeMemory, is_it: impl Fn(u64) -> bool) -> bool {
        /// Handlers that interrupt one another.
        const MOST: usize = 4;
        let mut stacks = vec![self.stack_pointer() & !7];
        let mut nth = 0;
        while let Some(&begin) = stacks.get(nth) {
            nth += 1;
            let stack = memory.read_up_to(begin, STACK).unwrap_or_default();
            let words: Vec<u64> =
                stack.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            if words.iter().any(|word| is_it(*word)) {
                return true;
            }
            // A frame of the kernel's has the stack pointer before that, and the flags and the segment behind it.
            let interrupted =
                words.windows(4).filter(|frame| frame[2] & !FLAGS == 2 && frame[3] & 0xffff == USER);
            let is_elsewhere = |stack: &u64| !(begin..begin + STACK as u64).contains(stack);
            let others = interrupted.map(|frame| frame[0] & !7).filter(is_elsewhere);
            stacks.extend(others.take(MOST.saturating_sub(nth)));
        }
        false
    }

    /// A thread that is about to stop.
    fn when_stopped(thread: u32, since: Instant, patience: Duration) -> Result<Self, Trouble> {
        let thread = thread.cast_signed();
        let stopped = wait_until_stopped(thread, patience).and_then(|()| {
            let (mut registers, state) = (registers(thread)?, processor_state(thread)?);
            if let Some(abort) = abort_of_section(thread, registers.rip) {
                registers.rip = abort;
            }
            Ok((registers, state, mask(thread)?))
        });
        match stopped {
            Ok((registers, state, mask)) => {
                Ok(Self { thread, stop: Stop::Interrupted, registers, state, mask, since })
            }
            Err(trouble) => {
                // One that has not stopped may do so at any moment: [`release_if_stopped`] looks for that.
                if !matches!(trouble, Trouble::Stuck) {
                    let_go(thread);
                }
                Err(trouble)
            }
        }
    }

    /// Whether it was stopped in a system call.
    #[must_use]
    pub fn was_in_call(&self) -> bool {
        self.registers.orig_rax.cast_signed() >= 0
    }

    /// Its number.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.thread.cast_unsigned()
    }

    /// Its stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.registers.rsp
    }

    /// Where it goes on.
    #[must_use]
    pub fn instruction_pointer(&self) -> u64 {
        self.registers.rip
    }

    /// It is to go on there, from now on, whatever becomes of this process. A system call that it was in, and that is begun again, is made by the two bytes before.
    ///
    /// # Errors
    /// It has ended.
    pub fn set_instruction_pointer(&mut self, address: u64) -> Result<(), Trouble> {
        self.registers.rip = address;
        Ok(set_registers(self.thread, &self.registers)?)
    }

    /// Where the C library has what it knows of the thread.
    #[must_use]
    pub fn thread_pointer(&self) -> u64 {
        self.registers.fs_base
    }

    /// The signals that it has blocked.
    #[must_use]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// It is to have these blocked when it goes on.
    pub fn set_mask(&mut self, mask: u64) {
        self.mask = mask;
    }

    /// How long it has been stopped.
    #[must_use]
    pub fn stopped_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// The seccomp filters that it is under. Takes `CAP_SYS_ADMIN`, and a kernel with `CONFIG_CHECKPOINT_RESTORE`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn filters(&self) -> io::Result<Vec<Vec<Instruction>>> {
        /// `PTRACE_SECCOMP_GET_FILTER`.
        const GET_FILTER: u32 = 0x420c;
        const NOTHING: Instruction = Instruction { code: 0, then: 0, otherwise: 0, constant: 0 };
        let mut filters = Vec::new();
        loop {
            let place = std::ptr::null_mut();
            let length = match request(GET_FILTER, self.thread, filters.len(), place) {
                Ok(length) => length as usize,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(filters),
                Err(error) => return Err(error),
            };
            let mut filter = vec![NOTHING; length];
            // Filters are never changed: it has as many instructions as before.
            request(GET_FILTER, self.thread, filters.len(), filter.as_mut_ptr().cast())?;
            filters.push(filter);
        }
    }

    /// Has it make a system call, by the `syscall` instruction at an address; what the kernel returns.
    ///
    /// # Errors
    /// That of the call; or the thread has ended.
    pub fn system_call(&mut self, instruction: u64, call: i64, arguments: [u64; 6]) -> Result<u64, Trouble> {
        self.prepare(instruction, call.cast_unsigned(), self.registers.rsp.wrapping_sub(256) & !15)?;
        let mut now = registers(self.thread)?;
        [now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9] = arguments;
        set_registers(self.thread, &now)?;
        self.stop = Stop::Not;
        for _ in 0..2 {
            request(libc::PTRACE_SYSCALL, self.thread, 0, number(0))?;
            let is_at_call = |status| libc::WSTOPSIG(status) == AT_CALL;
            wait_for(self.thread, libc::PTRACE_SYSCALL, Some(LONGEST_CALL), is_at_call)?;
        }
        self.stop = Stop::AtCall;
        let result = registers(self.thread)?.rax.cast_signed();
        if (-4095..0).contains(&result) {
            return Err(Trouble::Refused(io::Error::from_raw_os_error(-result as i32)));
        }
        Ok(result.cast_unsigned())
    }

    /// Has it call a function, with all signals blocked and on a stack of its own; what that returns.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn call(
        &mut self,
        memory: &TraceeMemory,
        to: Return,
        function: u64,
        arguments: [u64; 3],
    ) -> Result<i64, Trouble> {
        memory.write(to.done, &[0; 4])?;
        let top = (to.stack & !15) - 8;
        memory.write(top, &to.code.to_ne_bytes())?;
        self.prepare(function, 0, top)?;
        let mut now = registers(self.thread)?;
        [now.rdi, now.rsi, now.rdx] = arguments;
        set_registers(self.thread, &now)?;
        self.stop = Stop::Not;
        request(libc::PTRACE_CONT, self.thread, 0, number(0))?;
        let (mut pause, begin) = (Pause::default(), Instant::now());
        loop {
            let mut done = [0; 4];
            memory.read(to.done, &mut done)?;
            if done != [0; 4] {
                break;
            }
            // A stop of the whole process, which has to wait: the kernel resumes it when the thread is let go.
            if let Some(status) = status(self.thread)? {
                resume(self.thread, libc::PTRACE_CONT, status)?;
            }
            if begin.elapsed() > LONGEST_CALL {
                return Err(Trouble::Stuck);
            }
            pause.once();
        }
        self.interrupt()?;
        let mut result = [0; 8];
        memory.read(to.result, &mut result)?;
        Ok(i64::from_ne_bytes(result))
    }

    /// Has it go on at an instruction, in no system call, with all signals blocked.
    fn prepare(&mut self, instruction: u64, rax: u64, stack: u64) -> Result<(), Trouble> {
        const DIRECTION_AND_TRAP: u64 = 1 << 10 | 1 << 8;
        set_mask(self.thread, u64::MAX)?;
        let mut now = self.registers;
        now.rip = instruction;
        now.rax = rax;
        now.orig_rax = u64::MAX;
        now.rsp = stack;
        now.eflags &= !DIRECTION_AND_TRAP;
        Ok(set_registers(self.thread, &now)?)
    }

    /// Gives everything back.
    fn give_back(&mut self) -> Result<(), Trouble> {
        if self.stop != Stop::Interrupted {
            // The kernel only looks after a system call that was interrupted where it looks for signals.
            self.interrupt()?;
        }
        set_mask(self.thread, self.mask)?;
        set_processor_state(self.thread, &mut self.state)?;
        Ok(set_registers(self.thread, &self.registers)?)
    }

    /// Has it stop where it was interrupted, from wherever it is. It has registers that are not its own, so this waits until it does, or has ended.
    fn interrupt(&mut self) -> Result<(), Trouble> {
        request(libc::PTRACE_INTERRUPT, self.thread, 0, number(0))?;
        if self.stop == Stop::AtCall {
            request(libc::PTRACE_CONT, self.thread, 0, number(0))?;
        }
        wait_for(self.thread, libc::PTRACE_CONT, None, |status| status >> 16 == EVENT_STOP)?;
        self.stop = Stop::Interrupted;
        Ok(())
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.give_back();
        let_go(self.thread);
    }
}

/// Lets a thread go on, untraced, that has stopped where it was interrupted and whose registers are its own. The system call that it was in goes on: neither the stop ends it,
/// nor a sample that the stop has made the thread look at.
fn let_go(thread: pid_t) {
    if registers(thread).is_ok_and(|registers| registers.orig_rax.cast_signed() >= 0) {
        begin_again(thread);
        let _ = drop_sample(thread);
    }
    if request(libc::PTRACE_DETACH, thread, 0, number(0)).is_err() {
        bury(thread);
    }
}

/// Threads that could not be let go, and have not ended yet.
static ENDING: Mutex<Vec<pid_t>> = Mutex::new(Vec::new());

/// A thread that cannot be let go has ended, or is about to, which may take long: its memory is to be given back, or to be written down. It is there until its tracer has asked
/// what became of it, and until then its process has not ended for its parent. A thread of ours asks until all have ended: the first thread of a process has ended only when all
/// others have.
fn bury(thread: pid_t) {
    /// Time between two questions.
    const MOMENT: Duration = Duration::from_millis(1);
    let ending = || ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut now = ending();
    now.push(thread);
    if now.len() > 1 {
        return;
    }
    let ask = move || {
        loop {
            let mut left = ending();
            left.retain(|thread| status(*thread).is_ok());
            if left.is_empty() {
                return;
            }
            drop(left);
            std::thread::sleep(MOMENT);
        }
    };
    // Without a thread there is one question, and the next one to be buried tries again.
    if std::thread::Builder::new().name("endings".into()).spawn(ask).is_err() {
        let _ = status(thread);
        now.clear();
    }
}

/// Whether a thread that has ended is the first one of a child of ours, as far as the kernel tells it.
fn is_child_of_ours(thread: pid_t) -> bool {
    let number = |word: &str| status_field(thread.cast_unsigned(), word)?.parse().ok();
    number("Tgid:").is_none_or(|process: pid_t| process == thread)
        && number("PPid:").is_none_or(|parent| parent.cast_unsigned() == std::process::id())
}

/// Whether a stopped thread is about to get a signal that carries a sample of an event or of a timer: one that came in due on the way into a system call, and that nothing but the stop has made it
/// look at. Its handler would have the call fail.
fn has_sample(thread: pid_t) -> bool {
    /// `PTRACE_PEEKSIGINFO`, and what it takes: where to begin, flags, and how many there is room for.
    const PEEK: u32 = 0x4209;
    const MOST: usize = 8;
    /// Of a `siginfo_t`, in words of four bytes.
    const LENGTH: usize = 32;
    const CODE: usize = 2;
    const BY_EVENT: i32 = 6;
    /// With an address that the timer was given: that of a slot, which is a page's.
    const BY_TIMER: i32 = -2;
    const VALUE: usize = 6;
    const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
    if mask(thread).is_ok_and(|mask| mask & TRAP != 0) {
        return false; // not now
    }
    let from = [0_u64, (MOST as u64) << 32];
    let mut pending = [[0_i32; LENGTH]; MOST];
    let place = pending.as_mut_ptr().cast();
    let count = request(PEEK, thread, from.as_ptr().addr(), place).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(0).min(MOST);
    let is_page = |one: &[i32; LENGTH]| one[VALUE] & 0xfff == 0 && one[VALUE..VALUE + 2] != [0, 0];
    pending[..count].iter().any(|one| match (one[0], one[CODE]) {
        (libc::SIGTRAP, BY_EVENT) => true,
        (libc::SIGTRAP, BY_TIMER) => is_page(one),
        _ => false,
    })
}

/// Has it get on as far as such a signal, if there is one, which does not reach it then.
fn drop_sample(thread: pid_t) -> Result<(), Trouble> {
    const PATIENCE: Duration = Duration::from_secs(1);
    while has_sample(thread) {
        request(libc::PTRACE_CONT, thread, 0, number(0))?;
        let is_it = |status: c_int| status >> 16 == 0 && libc::WSTOPSIG(status) == libc::SIGTRAP;
        match wait_for(thread, libc::PTRACE_CONT, Some(PATIENCE), is_it) {
            Err(Trouble::Stuck) => {
                // It has no CPU, or goes on already, and is to be let go.
                request(libc::PTRACE_INTERRUPT, thread, 0, number(0))?;
                wait_for(thread, libc::PTRACE_CONT, None, |status| status >> 16 == EVENT_STOP)?;
                begin_again(thread);
            }
            stopped => return stopped.map(drop),
        }
    }
    Ok(())
}

/// Sees to it that a thread begins its system call again that fails because the thread was stopped. If a signal has interrupted it as well, that one's handler runs when the
/// thread goes on, and the kernel has the call fail.
fn begin_again(thread: pid_t) {
    let Ok(mut registers) = registers(thread) else { return };
    if registers.rax.cast_signed() == EINTR && BEGIN_AGAIN.contains(&registers.orig_rax.cast_signed()) {
        registers.rax = RESTART_WITHOUT_HANDLER.cast_unsigned();
        let _ = set_registers(thread, &registers);
    }
}

/// Where a thread is to go on that was stopped in a restartable sequence (rseq(2)), which must not go on after others have run on its CPU: the kernel
/// cannot see that any more once the thread has been elsewhere.
fn abort_of_section(thread: pid_t, instruction: u64) -> Option<u64> {
    /// `PTRACE_GET_RSEQ_CONFIGURATION`, and what it fills: address and size of the thread's area, and more.
    const GET_CONFIGURATION: u32 = 0x420f;
    /// Where in the area the address of the sequence is.
    const SECTION: u64 = 8;
    let mut configuration = [0_u64; 3];
    let size = size_of_val(&configuration);
    request(GET_CONFIGURATION, thread, size, configuration.as_mut_ptr().cast()).ok()?;
    let area = Some(configuration[0]).filter(|area| *area != 0)?;
    let section = Some(word(thread, area + SECTION)?).filter(|section| *section != 0)?;
    let [start, length, abort] = [8, 16, 24].map(|field| word(thread, section.wrapping_add(field)));
    (instruction.wrapping_sub(start?) < length?).then_some(abort?)
}

/// A word of the thread's memory.
fn word(thread: pid_t, address: u64) -> Option<u64> {
    let mut word = 0_u64;
    let ours = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<u64>() };
    let theirs = libc::iovec { iov_base: address as *mut c_void, iov_len: size_of::<u64>() };
    // SAFETY: one place of ours for one word of the other's.
    let read = unsafe { libc::process_vm_readv(thread, &raw const ours, 1, &raw const theirs, 1, 0) };
    (read == size_of::<u64>() as isize).then_some(word)
}

/// Traces a thread.
fn seize(thread: u32) -> Result<(), Trouble> {
    let options = number(libc::PTRACE_O_TRACESYSGOOD as usize);
    Ok(request(libc::PTRACE_SEIZE, thread.cast_signed(), 0, options).map(drop)?)
}

/// Asks a thread that is traced to stop. One that cannot be asked has ended, or is about to.
fn interrupt(thread: u32) -> Result<(), Trouble> {
    let thread = thread.cast_signed();
    let asked = request(libc::PTRACE_INTERRUPT, thread, 0, number(0));
    if asked.is_err() {
        bury(thread);
    }
    Ok(asked.map(drop)?)
}

/// Waits until a thread has stopped that was asked to.
fn wait_until_stopped(thread: pid_t, patience: Duration) -> Result<(), Trouble> {
    let status = wait_for(thread, libc::PTRACE_CONT, Some(patience), |status| status >> 16 == EVENT_STOP)?;
    if libc::WSTOPSIG(status) != libc::SIGTRAP {
        return Err(Trouble::Suspended);
    }
    Ok(())
}

/// Waits for a stop, for ever without `patience`; a thread that stops for something else, like a signal, is resumed by the request `how`.
fn wait_for(
    thread: pid_t,
    how: u32,
    patience: Option<Duration>,
    is_it: impl Fn(c_int) -> bool,
) -> Result<c_int, Trouble> {
    let begin = Instant::now();
    let mut pause = Pause::default();
    loop {
        match status(thread)? {
            Some(status) if is_it(status) => return Ok(status),
            Some(status) => resume(thread, how, status)?,
            None if patience.is_some_and(|patience| begin.elapsed() > patience) => {
                return Err(Trouble::Stuck);
            }
            None => pause.once(),
        }
    }
}

/// Pauses between two looks, longer and longer.
#[derive(Default)]
struct Pause {
    times: u32,
}

impl Pause {
    fn once(&mut self) {
        const SHORTEST: Duration = Duration::from_micros(10);
        const LONGEST: Duration = Duration::from_millis(1);
        self.times += 1;
        std::thread::sleep((SHORTEST * (self.times / 100 + 1)).min(LONGEST));
    }
}

/// Resumes a thread that has stopped for something that nothing was asked of; a signal is delivered.
fn resume(thread: pid_t, how: u32, status: c_int) -> io::Result<()> {
    request(how, thread, 0, number(signal_of(status) as usize)).map(drop)
}

/// The signal that is about to be delivered to a thread that has stopped, or zero.
fn signal_of(status: c_int) -> c_int {
    let signal = libc::WSTOPSIG(status);
    if status >> 16 == 0 && signal != AT_CALL { signal } else { 0 }
}

/// What has become of a thread, if there is something new: that it has stopped, as `waitpid` tells it. How a child of ours has ended is left for those who want to know.
fn status(thread: pid_t) -> Result<Option<c_int>, Trouble> {
    /// What a status of `waitpid` ends with that tells of a stop.
    const STOPPED: c_int = 0x7f;
    match asked(thread, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)? {
        None => Ok(None),
        Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _)) => {
            if !is_child_of_ours(thread) {
                asked(thread, libc::WEXITED)?;
            }
            Err(Trouble::Gone)
        }
        // It may have ended meanwhile, which the next look finds.
        Some(_) => match asked(thread, libc::WSTOPPED) {
            Ok(stopped) => Ok(stopped.map(|(_, stop)| stop << 8 | STOPPED)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            Err(error) => Err(error.into()),
        },
    }
}

/// What the kernel says, without waiting, about what of these kinds has become of a thread, by its code and its status: waitid(2).
fn asked(thread: pid_t, kinds: c_int) -> io::Result<Option<(c_int, c_int)>> {
    // SAFETY: numbers, for which zeros are a value.
    let mut answer: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let kinds = kinds | libc::WNOHANG | libc::__WALL;
    // SAFETY: a place for the answer.
    let result = unsafe { libc::waitid(libc::P_PID, thread.cast_unsigned(), &raw mut answer, kinds) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled these in, or left zeros where there is nothing.
    let (of, status) = unsafe { (answer.si_pid(), answer.si_status()) };
    Ok((of != 0).then_some((answer.si_code, status)))
}

fn registers(thread: pid_t) -> io::Result<user_regs_struct> {
    // SAFETY: numbers, for which zeros are a value.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, thread, 0, (&raw mut registers).cast())?;
    Ok(registers)
}

fn set_registers(thread: pid_t, registers: &user_regs_struct) -> io::Result<()> {
    request(libc::PTRACE_SETREGS, thread, 0, std::ptr::from_ref(registers).cast_mut().cast()).map(drop)
}

fn processor_state(thread: pid_t) -> io::Result<Vec<u8>> {
    let mut state = vec![0_u8; MOST_STATE];
    let mut place = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    request(libc::PTRACE_GETREGSET, thread, NT_X86_XSTATE, (&raw mut place).cast())?;
    state.truncate(place.iov_len);
    Ok(state)
}

fn set_processor_state(thread: pid_t, state: &mut [u8]) -> io::Result<()> {
    let mut place = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    request(libc::PTRACE_SETREGSET, thread, NT_X86_XSTATE, (&raw mut place).cast()).map(drop)
}

fn mask(thread: pid_t) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(libc::PTRACE_GETSIGMASK, thread, MASK_SIZE, (&raw mut mask).cast())?;
    Ok(mask)
}

fn set_mask(thread: pid_t, mut mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, thread, MASK_SIZE, (&raw mut mask).cast()).map(drop)
}

/// What has become of a thread that did not stop in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It has not stopped yet.
    Runs,
    /// It had stopped, and goes on.
    LetGo,
    /// It has ended.
    Ended,
}

/// Lets a thread go that was not stopped in time, if it has stopped by now.
#[must_use]
pub fn release_if_stopped(thread: u32) -> Late {
    let thread = thread.cast_signed();
    match status(thread) {
        // Another thread of ours may have seen the stop.
        Ok(None) if registers(thread).is_ok() => {
            let_go(thread);
            Late::LetGo
        }
        Ok(None) => Late::Runs,
        Ok(Some(status)) => {
            match status >> 16 {
                EVENT_STOP => let_go(thread),
                _ if resume(thread, libc::PTRACE_DETACH, status).is_err() => bury(thread),
                _ => {}
            }
            Late::LetGo
        }
        Err(_) => Late::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::threads_alive;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Child, Command, Stdio};

    const PATIENCE: Duration = Duration::from_secs(10);
    const THREADS: usize = 4;

    /// What the tests below stop.
    #[test]
    #[ignore = "does not end"]
    fn a_program_whose_threads_wait() {
        for _ in 1..THREADS {
            // Cut within a character.
            std::thread::Builder::new().name("größenrechnerüb".into()).spawn(std::thread::park).unwrap();
        }
        loop {
            std::thread::park();
        }
    }

    fn program() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "tracee::tests::a_program_whose_threads_wait"]);
        command
    }

    /// Stops all threads of a process as soon as it has so many, and kills it while they are stopped.
    fn kill_stopped(pid: u32) {
        let alive = || threads_alive(pid).into_iter().map(|(thread, _)| thread).collect::<Vec<u32>>();
        // The harness has a thread of its own.
        while alive().len() <= THREADS {
            std::thread::yield_now();
        }
        let stopped = Tracee::stop_process(pid, alive, PATIENCE).unwrap();
        assert!(stopped.len() > THREADS);
        // SAFETY: numbers only.
        assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) }, 0);
    }

    /// Whether it ends; the time only ends a test that hangs.
    fn ends(mut child: Child) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    #[test]
    fn a_process_that_is_killed_while_its_threads_are_stopped_has_ended_for_its_parent() {
        let child = program().stdout(Stdio::null()).spawn().unwrap();
        kill_stopped(child.id());
        assert!(ends(child), "its threads are still traced");
    }

    #[test]
    fn how_a_child_has_ended_is_left_for_its_parent() {
        let mut child = program().stdout(Stdio::null()).spawn().unwrap();
        seize(child.id()).unwrap();
        child.kill().unwrap();
        let stopped = Tracee::when_stopped(child.id(), Instant::now(), PATIENCE);
        assert!(matches!(stopped, Err(Trouble::Gone)), "{stopped:?}");
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn such_a_process_has_ended_for_a_parent_that_does_not_trace_it() {
        let mut between = Command::new("sh");
        between
            .args(["-c", "\"$@\" & echo $!; wait", "sh"])
            .arg(program().get_program())
            .args(program().get_args());
        let mut child = between.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
        while line.trim().parse::<u32>().is_err() {
            line.clear();
            std::io::BufRead::read_line(&mut told, &mut line).unwrap();
        }
        kill_stopped(line.trim().parse().unwrap());
        assert!(ends(child), "its threads are still traced");
    }
}
