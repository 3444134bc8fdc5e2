//! What is known to be wrong with latencies, as far as it goes.
//!
//! *Breakpoints.* A thread that notes a visit at a breakpoint is interrupted for 10 to 20 µs. What a request needs for its own beginning and end is taken off; what other requests that are
//! under way need for theirs is in its latency, with and without the selected code, so that its share of the latency is too small. How long noting took is counted.
//!
//! *Few connections.* Experiments put off what comes at times of its own, in the end by as much as they delay the program (rule 6). A client with a pool of connections that waits for
//! an answer before it uses a connection again cannot be put off for longer than the time between two requests of a connection: requests wait on its side, and come all at
//! once. (redis with 16 connections and 4000 requests a second: each comes on a connection that is needed again after 4 ms; at 100 % it is put off for 50 ms. Latencies of 0.2 ms become 0.1 to 4.)
//! Where that is much, intervals hold what was measured, no gain and the whole latency.

use super::Target;
use super::interval::NORMAL;
use super::reading::Reading;
use crate::model::{PointId, Window};

/// Of the own beginning and end, this part may be left or too much.
const OWN: f64 = 0.3;
/// A smaller share of requests that were put off for too long changes nothing.
const LITTLE: f64 = 0.05;

/// The standard error that this adds to a slope of `slope`, from windows without and with a speedup.
pub(super) fn error<'a>(
    baselines: impl Iterator<Item = &'a Window>,
    treated: impl Iterator<Item = &'a Window>,
    target: Target,
    slope: f64,
) -> f64 {
    let Target::Latency { end, .. } = target else { return 0.0 };
    let reach = if is_crowded(treated, end) { slope.abs().max((1.0 - slope).abs()) } else { 0.0 };
    (reach / NORMAL).hypot(slope.abs() * noted(baselines, target) / NORMAL)
}

/// The share of the latency in which others noted their visits, 0 to 1.
fn noted<'a>(baselines: impl Iterator<Item = &'a Window>, target: Target) -> f64 {
    let (mut noting, mut reading) = (0.0, Reading::default());
    for window in baselines {
        let Some(audit) = window.audit else { continue };
        noting += audit.noting.get() as f64;
        reading = [reading, Reading::new(target, window)].into_iter().sum();
    }
    let Some(latency) = reading.period_ns().filter(|latency| *latency > 0.0) else { return 0.0 };
    let others = reading.in_flight / reading.elapsed.get().max(1) as f64;
    (noting / reading.visits as f64 * (OWN + others) / latency).min(1.0)
}

fn is_crowded<'a>(treated: impl Iterator<Item = &'a Window>, end: PointId) -> bool {
    let (mut crowded, mut visits) = (0.0, 0.0);
    for window in treated {
        let Some(audit) = window.audit else { continue };
        crowded += audit.crowded as f64;
        visits += window.visits(end) as f64;
    }
    crowded > LITTLE * visits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{Audit, InFlight, Visits};
    use crate::units::{Nanos, Speedup, VisitNanos};

    const BEGIN: PointId = PointId::new(7);
    const END: PointId = PointId::new(8);
    const TARGET: Target = Target::Latency { begin: BEGIN, end: END };

    /// 100 requests in 100 ms, of which `in_flight` are under way on the average, with `noting` µs for each.
    fn requests(in_flight: f64, noting: u64, crowded: u64) -> Window {
        let integral = VisitNanos::new((in_flight * 1e8) as i64);
        Window {
            elapsed: Nanos::from_millis(100),
            required: Nanos::ZERO,
            visits: vec![Visits { point: END, count: 100, span: None }],
            in_flight: vec![InFlight { begin: BEGIN, integral }],
            audit: Some(Audit { noting: Nanos::new(noting * 100_000), crowded, ..Audit::default() }),
            ..window(0, 0, Speedup::ZERO)
        }
    }

    fn reach(window: &Window, slope: f64) -> f64 {
        error([window].into_iter(), [window].into_iter(), TARGET, slope) * NORMAL
    }

    #[test]
    fn what_others_note_is_in_a_short_latency() {
        // One at a time, for 1 ms: only what was taken off wrongly.
        assert!((reach(&requests(1.0, 20, 0), 0.5) - 0.5 * 0.02 * 1.3).abs() < 1e-9);
        // 0.1 ms.
        assert!((reach(&requests(0.1, 20, 0), 0.5) - 0.5 * 0.2 * 0.4).abs() < 1e-9);
        assert_eq!(reach(&requests(1.0, 0, 0), 0.5), 0.0, "points in the source");
        assert_eq!(reach(&Window { audit: None, ..requests(1.0, 20, 90) }, 0.5), 0.0);
        assert_eq!(error([].into_iter(), [].into_iter(), Target::Throughput(END), 0.5), 0.0);
    }

    #[test]
    fn clients_without_free_connections_leave_everything_open() {
        assert_eq!(reach(&requests(1.0, 0, 3), 0.2), 0.0);
        assert!((reach(&requests(1.0, 0, 50), 0.2) - 0.8).abs() < 1e-9);
        assert!((reach(&requests(1.0, 0, 50), -2.5) - 3.5).abs() < 1e-9, "up to the whole latency");
    }
}
