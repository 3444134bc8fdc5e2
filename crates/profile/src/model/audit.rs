//! The audit of a window: what the rules of virtual time did, by readings that do not use them.

use crate::units::Nanos;

/// Declares the amounts of an audit, which are columns of the table `audits` in the same order.
macro_rules! amounts {
    ($(#[$of_all:meta])* $name:ident { $($(#[$doc:meta])* $amount:ident,)* }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $amount: Nanos,)*
        }

        /// The columns of the table `audits`.
        pub(crate) const COLUMNS: &[&str] = &[$(concat!(stringify!($amount), "_ns")),*];

        impl $name {
            /// All amounts, in the order of the columns.
            pub(crate) fn amounts(&self) -> [Nanos; COLUMNS.len()] {
                [$(self.$amount),*]
            }

            /// From [`amounts`](Self::amounts).
            pub(crate) fn of_amounts([$($amount),*]: [Nanos; COLUMNS.len()]) -> Self {
                Self { $($amount),* }
            }
        }
    };
}

amounts! {
/// What a window's audit has counted, summed over threads. Delay is in nanoseconds of delay, everything else in nanoseconds of
/// CPU time or of waiting. [`audit`](mod@crate::audit) judges it.
Audit {
    /// Delay that the runtime credited for samples in the region (rule 1).
    given,
    /// Delay whose credit still waited for the end of a call.
    deferred,
    /// CPU time of samples in the region for which nothing was credited, because the thread seemed to wait by spinning;
    spinning,
    /// because they came after the experiment's deadline;
    late,
    /// and because the runtime did not know yet that this code belongs to the region.
    unknown_code,
    /// CPU time of samples outside the region that the runtime took for samples in it.
    extra,
    /// CPU time of samples whose stack was deeper than there is room for.
    cut,
    /// CPU time of threads that are profiled, by the kernel,
    cpu,
    /// of it what pauses used,
    pausing,
    /// and CPU time of the program's threads that are not profiled.
    unprofiled,
    /// Wall-clock time that was looked at: the length of the window for each thread that ran in it.
    watched,
    /// How long those threads were off the CPU without wanting one, by the kernel.
    blocked,
    /// How long they were in calls that another thread ended (rule 5),
    in_waits,
    /// in calls that the world or a timeout ended (rule 6),
    in_world,
    /// in waits that no function announced, as context switches told,
    in_hidden,
    /// in pauses asleep,
    in_pauses,
    /// and waiting for a CPU (rule 7), by the kernel.
    queued,
    /// The part of `blocked` that none of these explains.
    unexplained,
    /// Delay that threads were credited with for waits that functions announce,
    inherited,
    /// and what the required delay grew during waits that another thread ended.
    grown,
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_order() {
        let numbers = std::array::from_fn(|nth| Nanos::new(nth as u64));
        let audit = Audit::of_amounts(numbers);
        assert_eq!((audit.given, audit.grown), (numbers[0], numbers[19]));
        assert_eq!(audit.amounts(), numbers);
    }
}
