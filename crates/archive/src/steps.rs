//! Steps: the moments at which a writer can be interrupted.

use std::fmt;
use std::io;

/// Called before each thing that is done to the folder, with its name; an error is what the file system would say.
pub type Watcher = Box<dyn FnMut(&'static str) -> io::Result<()> + Send>;

/// Who watches; tests do, to take a copy of the folder as a crash would leave it, or to make a step fail.
#[derive(Default)]
pub(super) struct Steps(Option<Watcher>);

impl Steps {
    pub(super) fn watched_by(watcher: Watcher) -> Steps {
        Steps(Some(watcher))
    }

    pub(super) fn next(&mut self, step: &'static str) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), |watcher| watcher(step))
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}
