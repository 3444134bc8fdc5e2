//! Runs that last until something has been recorded.

use crate::Sandbox;
use crate::ended::{Ended, run};
use profile::{Recording, Rows};
use std::panic::resume_unwind;
use std::process::Command;
use std::time::Duration;

/// The environment variable that names a file: as soon as it exists, programs that look for it (`programs/enough.h`) end.
pub const ENOUGH: &str = "ENOUGH";

/// Time between two looks into a recording.
const LOOK: Duration = Duration::from_millis(50);

impl Sandbox {
    /// The file at which programs end: see [`ENOUGH`].
    #[must_use]
    pub fn enough(&self) -> std::path::PathBuf {
        self.path("enough")
    }

    /// Runs a command that profiles into [`recording`](Self::recording). `look` sees what has been recorded so far, again and again, and the
    /// program goes on until it returns true.
    ///
    /// # Panics
    ///
    /// When the command ends before, or hangs.
    #[track_caller]
    pub fn run_until(&self, mut command: Command, mut look: impl FnMut(&Rows) -> bool) -> Ended {
        command.env(ENOUGH, self.enough());
        let text = format!("{command:?}");
        let mut was_seen = false;
        let ended = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(command));
            while !running.is_finished() && !was_seen {
                // In the beginning there is no recording, or nothing in it.
                let rows = Recording::open(&self.recording()).and_then(|recording| recording.rows());
                was_seen = rows.is_ok_and(|rows| look(&rows));
                if was_seen {
                    std::fs::write(self.enough(), "").unwrap();
                }
                std::thread::sleep(LOOK);
            }
            running.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        // What was recorded last may have been written after the last look.
        let is_enough = was_seen || look(&Recording::open(&self.recording()).unwrap().rows().unwrap());
        assert!(is_enough, "{text} ended before what was looked for was recorded: {ended:#?}");
        ended
    }
}

/// Samples of a region in all sessions, whether experiments were about it or not.
#[must_use]
pub fn samples_of(rows: &Rows, region: &str) -> u64 {
    let samples = rows.samples.iter().filter(|samples| rows.regions[&samples.region].name == region);
    samples.map(|samples| samples.count).sum()
}

/// Visits of a progress point in all windows.
#[must_use]
pub fn visits_of(rows: &Rows, point: &str) -> u64 {
    let visits = rows.windows.iter().flat_map(|window| &window.visits);
    visits.filter(|visits| rows.points[&visits.point].name == point).map(|visits| visits.count).sum()
}
