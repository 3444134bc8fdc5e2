//! What stands for time that threads wait: the name of its event, and the frames outside of all others that say how they waited.

/// Name of the event whose samples are of waiting time.
pub const OFF_CPU: &str = "off-cpu";

/// How all names of the outermost frames begin.
pub const OFF_CPU_FRAME: &str = "[off-CPU: ";
/// It could run and has no CPU.
pub const WAITS_FOR_CPU: &str = "[off-CPU: waits for a CPU]";
/// For something that a signal interrupts: time, a lock, a pipe, a connection.
pub const WAITS: &str = "[off-CPU: waits]";
/// For a disk or another device.
pub const WAITS_FOR_DEVICE: &str = "[off-CPU: waits for a device]";
/// For something else that no signal interrupts.
pub const WAITS_UNINTERRUPTIBLE: &str = "[off-CPU: waits, uninterruptible]";
/// Until it is continued.
pub const STOPPED: &str = "[off-CPU: stopped]";

/// How the names of the frames within begin that say who has woken the thread.
pub const WOKEN_BY: &str = "[woken by ";
