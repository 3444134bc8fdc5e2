//! How much stack is left for the frame of another signal, in our own handler.
//!
//! The program's handlers wait for the end of ours and of a pause in it, but to wait they must be entered. On a stack that has no room for two frames, signals
//! are blocked instead: other threads may get them then.

use crate::context::Context;
use core::sync::atomic::Ordering::Relaxed;
use wire::slot::Slot;

/// What handling a sample takes, without a pause, and entering a handler on top.
const SAMPLE: usize = 3072;

/// The same for a pause.
const PAUSE: usize = 1536;

/// For what there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For the frame of another signal at any time.
    Everywhere,
    /// In a pause.
    InPauses,
    /// For none.
    None,
    /// It is not known which stack this is.
    Unknown,
}

impl Room {
    /// The room that the handler has which was entered with `context`.
    pub fn of(slot: &Slot, context: &Context) -> Self {
        let here = core::ptr::from_ref(&slot).addr();
        let (low, size) = context.other_stack();
        let other = low..low.saturating_add(size);
        let own = slot.stack_low.load(Relaxed)..slot.stack_high.load(Relaxed);
        let Some(stack) = [other, own].into_iter().find(|stack| stack.contains(&here)) else {
            return Self::Unknown;
        };
        let left = (here - stack.start).saturating_sub(context.size_on_stack());
        match left {
            SAMPLE.. => Self::Everywhere,
            PAUSE.. => Self::InPauses,
            _ => Self::None,
        }
    }
}
