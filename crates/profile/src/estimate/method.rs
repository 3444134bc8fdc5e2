//! How exact virtual speedup is where nothing is known to be wrong.
//!
//! What a thread is credited with for its own work was measured, and what it has paid, too. What it is credited with for waiting was inferred: who waited for whom, and from when to when.
//! So inserted delay is less exact where threads wait for one another. Measured as the standard error of delay, as a share of it, at which errors are
//! likeliest to be what they are, given the noise of truth and prediction: 3 to 6 % over all targets (`bench -- truth`), most of which are made of two threads and one kind of wait, and
//! 8 % over random programs (`bench -- mosaic`), in all of which threads wait.

use super::METHOD_ERROR;
use crate::model::Window;

/// The same where a tenth of what threads made good, by pauses or credit, or more was credited for waiting.
const WAITING: f64 = 2.0 * METHOD_ERROR;
/// See there.
const MUCH: f64 = 0.1;

/// The standard error of inserted delay, as a share of it, by the windows with a speedup; `least` where threads never wait for each other.
pub(super) fn error<'a>(treated: impl Iterator<Item = &'a Window>, least: f64) -> f64 {
    let (mut owed, mut waiting) = (0.0, 0.0);
    for window in treated {
        let Some(audit) = window.audit else { continue };
        owed += (window.books.paid + window.books.credited).get() as f64;
        waiting += window.books.credited.saturating_sub(audit.given).get() as f64;
    }
    let much = if owed > 0.0 { (waiting / owed / MUCH).min(1.0) } else { 0.0 };
    least * (1.0 + much * (WAITING / METHOD_ERROR - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{Audit, Books};
    use crate::units::{Nanos, Speedup};

    #[test]
    fn waits_are_known_less_exactly_than_work() {
        let with = |paid, credited, given| {
            let nanos = Nanos::from_millis;
            let books = Books { paid: nanos(paid), credited: nanos(credited), ..Books::default() };
            let audit = Some(Audit { given: nanos(given), ..Audit::default() });
            Window { books, audit, ..window(0, 0, Speedup::ZERO) }
        };
        let of = |windows: &[Window]| error(windows.iter(), METHOD_ERROR);
        assert_eq!(of(&[]), METHOD_ERROR);
        assert_eq!(of(&[Window { audit: None, ..with(10, 90, 0) }]), METHOD_ERROR);
        assert_eq!(of(&[with(50, 50, 50)]), METHOD_ERROR, "the others have paid");
        assert_eq!(of(&[with(10, 90, 50)]), WAITING);
        assert!((of(&[with(45, 55, 50)]) - 1.5 * METHOD_ERROR).abs() < 1e-9);
    }
}
