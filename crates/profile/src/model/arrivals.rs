//! Arrivals: what a program got from outside, and what a run found out about the clock of that.

/// No more than so many say nothing.
const HARDLY_ANY: u64 = 40;

/// Arrivals of one kind at one port, over a whole session.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// What they came by.
    pub kind: ArrivalKind,
    /// The port at which the program listens, or to which it connected; 0 where there is none.
    pub port: u16,
    /// Which clock they have.
    pub clock: ArrivalClock,
    /// How much of the time for which arrivals were held up showed in the time until the next one, with its standard error: 1 in a closed loop,
    /// 0 in an open one. `None` where too few were held up.
    pub slope: Option<(f64, f64)>,
    /// How many arrivals that is from; where there is no slope, how many came without delays.
    pub count: u64,
}

impl Arrivals {
    /// Whether all of these were treated right from the beginning: it is known that they waited for the program's answers, as which they were treated before, or all that is known is what the user has said. Listeners
    /// that hardly had new connections say nothing.
    pub fn were_treated_right(all: &[Arrivals]) -> bool {
        let mut used = all.iter().filter(|one| one.is_used()).peekable();
        let is_right =
            |clock| matches!(clock, ArrivalClock::Closed | ArrivalClock::SaidClosed | ArrivalClock::SaidOpen);
        used.peek().is_some() && used.all(|one| is_right(one.clock))
    }

    /// Whether they say anything.
    fn is_used(&self) -> bool {
        match self.kind {
            ArrivalKind::Listener => self.count > HARDLY_ANY,
            ArrivalKind::Own => false,
            _ => true,
        }
    }

    /// Whether other programs have asked, or been asked, again and again.
    pub(crate) fn are_of_others(&self) -> bool {
        let is_of_others = !matches!(self.kind, ArrivalKind::Own | ArrivalKind::Pipe);
        is_of_others && self.count > HARDLY_ANY
    }
}

/// Declares an enum whose variants have names in recordings.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// As recordings and reports have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The one that is called `name`.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

named! {
    /// What arrivals come by.
    ArrivalKind {
        /// Connections that clients made.
        Accepted = "accepted",
        /// Connections that the program made.
        Connected = "connected",
        /// Datagrams.
        Datagrams = "datagrams",
        /// Pipes.
        Pipe = "pipe",
        /// New connections that carry one request each.
        Listener = "listener",
        /// New connections that the program itself has made: not from outside. Their clock is the program's, so it is closed.
        Own = "own",
    }
}

named! {
    /// Which clock arrivals have.
    ArrivalClock {
        /// It could not be told.
        Undecided = "undecided",
        /// They answer what the program sent.
        Closed = "closed",
        /// They come at times of their own.
        Open = "open",
        /// Not all connections have the same clock.
        Mixed = "mixed",
        /// They answer what the program sent, as the user says: it could not be told.
        SaidClosed = "said closed",
        /// They come at times of their own, as the user says: it could not be told.
        SaidOpen = "said open",
    }
}
