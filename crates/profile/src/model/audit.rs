//! The audit of a window: what the rules of virtual time did, by readings that do not use them.

use crate::units::Nanos;

/// A number of an audit, as the database has it.
pub(crate) trait Amount: Copy {
    /// What its column's name ends in.
    const UNIT: &'static str;
    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Amount for Nanos {
    const UNIT: &'static str = "_ns";
    fn of(number: u64) -> Self {
        Nanos::new(number)
    }
    fn number(self) -> u64 {
        self.get()
    }
}

impl Amount for u64 {
    const UNIT: &'static str = "";
    fn of(number: u64) -> Self {
        number
    }
    fn number(self) -> u64 {
        self
    }
}

/// Declares the amounts of an audit, which are columns of the table `audits` in the same order.
macro_rules! amounts {
    ($(#[$of_all:meta])* $name:ident { $($(#[$doc:meta])* $amount:ident : $type:ty,)* }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $amount: $type,)*
        }

        /// How many amounts there are.
        pub(crate) const AMOUNTS: usize = [$(stringify!($amount)),*].len();

        /// The columns of the table `audits`.
        pub(crate) fn columns() -> [String; AMOUNTS] {
            [$(format!("{}{}", stringify!($amount), <$type as Amount>::UNIT)),*]
        }

        impl $name {
            /// All amounts, in the order of the columns.
            pub fn amounts(&self) -> [u64; AMOUNTS] {
                [$(self.$amount.number()),*]
            }

            /// From [`amounts`](Self::amounts) that were kept elsewhere, by an earlier version perhaps, which had fewer: the others are zero.
            pub fn of_slice(amounts: &[u64]) -> Self {
                Self::of_amounts(std::array::from_fn(|nth| amounts.get(nth).copied().unwrap_or(0)))
            }

            /// From [`amounts`](Self::amounts).
            pub(crate) fn of_amounts([$($amount),*]: [u64; AMOUNTS]) -> Self {
                Self { $($amount: Amount::of($amount)),* }
            }
        }
    };
}

amounts! {
/// What a window's audit has counted, summed over threads. Delay is in nanoseconds of delay, everything else in nanoseconds of
/// CPU time or of waiting. [`audit`](mod@crate::audit) judges it.
Audit {
    /// Delay that the runtime credited for samples in the region (rule 1).
    given: Nanos,
    /// Delay whose credit still waited for the end of a call.
    deferred: Nanos,
    /// CPU time of samples in the region for which nothing was credited because the thread seemed to wait by spinning.
    spinning: Nanos,
    /// CPU time of samples in the region for which nothing was credited because they came after the experiment's deadline.
    late: Nanos,
    /// CPU time of samples in the region for which nothing was credited because the runtime did not know yet that this code belongs to the region.
    unknown_code: Nanos,
    /// CPU time of samples outside the region that the runtime took for samples in it.
    extra: Nanos,
    /// CPU time of samples whose stack was deeper than there is room for.
    cut: Nanos,
    /// CPU time of threads that are profiled, by the kernel.
    cpu: Nanos,
    /// The part of `cpu` that pauses used.
    pausing: Nanos,
    /// CPU time of the program's threads that are not profiled.
    unprofiled: Nanos,
    /// Wall-clock time that was looked at: the length of the window for each thread that ran in it.
    watched: Nanos,
    /// How long those threads were off the CPU without wanting one, by the kernel.
    blocked: Nanos,
    /// How long they were in calls that another thread ended (rule 5).
    in_waits: Nanos,
    /// How long they were in calls that the world or a timeout ended (rule 6).
    in_world: Nanos,
    /// How long they were in waits that no function announced, as context switches show.
    in_hidden: Nanos,
    /// How long they were in pauses asleep.
    in_pauses: Nanos,
    /// How long they waited for a CPU (rule 7), by the kernel.
    queued: Nanos,
    /// The part of `blocked` that none of these explains.
    unexplained: Nanos,
    /// Delay that threads were credited with for waits that functions announce.
    inherited: Nanos,
    /// What the required delay grew during waits that another thread ended.
    grown: Nanos,
    /// How often another thread ended a wait: locks and items that were handed over to a thread that waited.
    handovers: u64,
    /// How many of these handed over a lock under which the thread then mostly ran the region.
    sections: u64,
    /// How long CPUs that slept may have taken until those threads ran: as long as waking a thread takes on the machine that has waited for as long as these
    /// did in the mean, for each, but no longer than threads waited, or CPUs were idle.
    waking: Nanos,
    /// Credit that was taken back because something let a thread go that comes at a time of its own: a deadline, a tick.
    taken_back: Nanos,
    /// How long threads served arrivals from outside that come at times of their own (an open loop): from one arrival to the next, for each thread.
    serving: Nanos,
    /// The part of `serving` for which the threads waited for the next arrival.
    idle: Nanos,
    /// How long threads waited for arrivals of which it is not known whether they answer what the program sent.
    doubtful: Nanos,
    /// CPU time of threads that hardly ever blocked while others wanted their CPUs, so that only the end of a time slice took it from
    /// them, by the kernel.
    sliced: Nanos,
    /// `sliced` in virtual time: without pauses, and without what the threads were credited with for their samples.
    sliced_virtual: Nanos,
    /// How long those threads waited for a CPU, by the kernel.
    sliced_queued: Nanos,
    /// How many requests were put off for longer than the time between two of their connection, by clients that seem to wait for an answer
    /// before the next.
    crowded: u64,
    /// CPU time that noting visits at breakpoints took.
    noting: Nanos,
    /// Delay that threads were credited with for waits that ended with what a client sent when another thread had answered it.
    answered: Nanos,
    /// CPU time that programs which were executed and threads which were started needed more to begin and to end because they were profiled.
    executing: Nanos,
    /// CPU time that the control group's limit allows in the length of the window, less what whatif itself used of it; nothing where there is no limit.
    allowed: Nanos,
    /// How much of the window's length was in periods in which the limit held threads up. The kernel counts a period at its end, so only sums over windows mean something.
    throttled: Nanos,
    /// For how long the limit held CPUs up at least, as part of the window's length: the kernel counts it for each CPU, and a group that uses one at a time holds one up.
    held_up: Nanos,
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_order() {
        let numbers = std::array::from_fn(|nth| nth as u64);
        let audit = Audit::of_amounts(numbers);
        assert_eq!((audit.given, audit.grown, audit.handovers), (Nanos::new(0), Nanos::new(19), 20));
        assert_eq!(audit.amounts(), numbers);
        assert_eq!(Audit::of_slice(&numbers), audit);
        assert_eq!(Audit::of_slice(&numbers[..3]).amounts()[..5], [0, 1, 2, 0, 0]);
    }
}
