//! What tests wait for.

use std::time::{Duration, Instant};

/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(100);

/// Does something again and again until its answer is yes.
#[track_caller]
pub fn until(mut is_done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_done() {
        assert!(begin.elapsed() < HANG, "what is waited for does not come");
    }
}
