//! What the programs of [`crate::waits`] write.

use super::record::{KernelStack, Record, written};
use wire::Nanos;

/// Frames that are taken of the kernel's stack.
pub(crate) const KERNEL_FRAMES: usize = 32;
/// In front of a copied stack: how many bytes it has, instruction, frame pointer, stack pointer, when, bytes of the kernel's frames, and these.
pub(crate) const WAIT_HEADER: i32 = 48 + 8 * KERNEL_FRAMES as i32;
/// A record of a wait that has ended.
pub(crate) const WAIT_ENDS_BYTES: usize = 88 + 8 * KERNEL_FRAMES;

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitState {
    /// It could run, and has no CPU.
    Runnable,
    /// For something that a signal interrupts.
    Interruptible,
    /// For something that no signal interrupts.
    Uninterruptible,
    /// For a disk, or another device.
    Device,
    /// Until it is continued, or traced further.
    Stopped,
}

/// In the word of states: the thread waits for a device.
pub(crate) const FOR_DEVICE: u32 = 1 << 30;
const TASK_UNINTERRUPTIBLE: u32 = 2;
const TASK_STOPPED: u32 = 4 | 8;
pub(crate) const TASK_DEAD: i32 = 0x80;
const TASK_IDLE: u32 = 0x400;

impl WaitState {
    /// As the kernel has it, with [`FOR_DEVICE`].
    pub(crate) fn of(word: u32) -> Self {
        match word {
            _ if word & !FOR_DEVICE == 0 => Self::Runnable,
            _ if word & TASK_STOPPED != 0 => Self::Stopped,
            _ if word & TASK_UNINTERRUPTIBLE == 0 || word & TASK_IDLE != 0 => Self::Interruptible,
            _ if word & FOR_DEVICE != 0 => Self::Device,
            _ => Self::Uninterruptible,
        }
    }

    pub(crate) fn word(self) -> u32 {
        match self {
            Self::Runnable => 0,
            Self::Interruptible => 1,
            Self::Uninterruptible => TASK_UNINTERRUPTIBLE,
            Self::Device => TASK_UNINTERRUPTIBLE | FOR_DEVICE,
            Self::Stopped => TASK_STOPPED,
        }
    }
}

/// Another thread has woken it, or an interrupt: as the program writes it.
pub(crate) const BY_THREAD: i32 = 1;
pub(crate) const BY_INTERRUPT: i32 = 2;

/// A thread that waited runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEnds<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Since when it waited.
    pub since: Nanos,
    /// Until when.
    pub until: Nanos,
    /// In which state.
    pub state: WaitState,
    /// Who woke it, and when, if it has slept.
    pub woken: Option<(Waker, Nanos)>,
    /// The process's own instruction that it waits in, and the stack pointer; zeros if there are none.
    pub user: (u64, u64),
    /// A wait that is shorter stands for this long.
    pub period: Nanos,
    /// The kernel's frames, without those of the scheduler.
    pub kernel: KernelStack<'a>,
}

/// Who wakes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A thread of this process.
    Process(u32),
    /// A timer or a device.
    Interrupt,
}

pub(super) fn parse<'a>(words: &[u64], bytes: &'a [u8]) -> Option<Record<'a>> {
    let head: &[u64; 5] = words.first_chunk()?;
    // A length of 32 bits comes first.
    let raw = bytes.get(size_of_val(head) + 4..)?;
    let word = |at: usize| Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?));
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    let kernel = |at: usize| {
        let length = usize::try_from(word(at)?).ok()?.min(8 * KERNEL_FRAMES);
        Some(KernelStack(raw.get(at + 8..)?.get(..length)?))
    };
    if word(0)? != u64::MAX {
        let stack = written(raw, WAIT_HEADER as usize)?;
        let (pid, tid) = (low(head[3]), high(head[3]));
        return Some(Record::WaitBegins { pid, tid, since: Nanos(word(32)?), kernel: kernel(40)?, stack });
    }
    let waker = match high(word(40)?) as i32 {
        BY_THREAD => Some(Waker::Process(low(word(40)?))),
        BY_INTERRUPT => Some(Waker::Interrupt),
        _ => None,
    };
    let woken_at = Nanos(word(48)?);
    Some(Record::WaitEnds(WaitEnds {
        pid: high(word(8)?),
        tid: low(word(8)?),
        since: Nanos(word(16)?),
        until: Nanos(word(24)?),
        state: WaitState::of(low(word(32)?)),
        woken: waker.map(|waker| (waker, woken_at)),
        user: (word(56)?, word(64)?),
        period: Nanos(word(72)?),
        kernel: kernel(80)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::WaitState as State;

    #[test]
    fn states_are_told_apart() {
        for state in
            [State::Runnable, State::Interruptible, State::Uninterruptible, State::Device, State::Stopped]
        {
            assert_eq!(State::of(state.word()), state);
        }
        // A kernel thread without work; one that only a deadly signal wakes.
        assert_eq!((State::of(0x402), State::of(0x102)), (State::Interruptible, State::Uninterruptible));
    }
}
