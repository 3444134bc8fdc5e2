//! Where records come from, and so what may be asked besides them.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine writes them now: `/proc` and the kernel say what records do not.
    Here,
    /// They were recorded, perhaps on another machine, and long ago: what records do not say about processes and files is unknown.
    Recorded {
        /// They are of this machine: processes may have left lists of the functions that they generated.
        same_machine: bool,
    },
}

impl Origin {
    /// Whether processes can be looked at that records speak of.
    pub fn is_here(self) -> bool {
        self == Self::Here
    }
}
