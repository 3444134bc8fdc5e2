//! The largest file that this process may make (`ulimit -f`), out of the way for a moment.
//!
//! The shared memory is a file, if only in memory, and larger than what a limit that is meant for files on disk may allow. The limit
//! is lifted while that file gets its size and put back at once: the program is started with the limit that was there.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit is lifted while this lives, as far as the kernel allows: up to the hard limit, and beyond it for root.
#[derive(Debug)]
pub(crate) struct Lifted {
    before: Option<Rlimit>,
}

impl Lifted {
    /// Makes way for a file of so many bytes. Does nothing if there is no need.
    pub fn for_size(bytes: u64) -> Lifted {
        let before = getrlimit(Resource::Fsize);
        let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= bytes);
        if is_enough(before.current) {
            return Lifted { before: None };
        }
        let maximum = if is_enough(before.maximum) { before.maximum } else { Some(bytes) };
        // Refused to users who are beyond the hard limit: then the file is refused, too.
        let lifted = setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum });
        Lifted { before: lifted.is_ok().then_some(before) }
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            let _ = setrlimit(Resource::Fsize, before);
        }
    }
}
