//! Phases: a region that runs only part of the time can only help in that part.

use super::{Estimate, Experiments, interval};
use crate::model::{RegionId, Rows, SessionId, Window, WindowFlags};
use std::collections::HashMap;

/// A phase of more than this share of the run is not told from noise, start-up and shutdown.
const MARGIN: f64 = 0.95;

/// The share of the run in which a region ran at all: (t_obs / s_obs) · (s / T) of
/// papers/coz-first-paper.txt, section 4.6.
///
/// Experiments choose code that is running, so they see a region only in its phase. The density of its
/// samples there (s_obs / t_obs, from baseline windows: delays would change it) against its density
/// over the whole run (s / T, as it would be without experiments) tells how much of the run the phase is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// CPU time of the region in its baseline windows (s_obs), in nanoseconds.
    pub weight: f64,
    /// The time of those windows (t_obs), in nanoseconds.
    pub time: f64,
    /// CPU time of the region in the whole sessions (s), in nanoseconds.
    pub run_weight: f64,
    /// The time that those sessions would have taken without experiments (T), in nanoseconds.
    pub run_time: f64,
    /// The standard error of the ratio of the two densities, as a share of it.
    pub relative_error: f64,
    /// What gains are scaled by: 1 where the two densities do not differ by more than their noise, or where
    /// there are no samples to tell. Windows that are whole runs have seen all phases.
    pub factor: f64,
}

impl Phase {
    /// Of a region that runs all the time.
    pub(crate) const ALWAYS: Phase =
        Phase { weight: 0.0, time: 0.0, run_weight: 0.0, run_time: 0.0, relative_error: 0.0, factor: 1.0 };

    /// A gain inside the phase as one of the whole run; the phase's own error is in its interval.
    pub(super) fn scale(&self, gain: Estimate) -> Estimate {
        let scaled = gain.scaled(self.factor);
        let error = if self.factor < 1.0 { scaled.value.abs() * self.relative_error } else { 0.0 };
        // One window has no known error, but then the gain has none either.
        if error.is_finite() { interval::widened(scaled, error) } else { scaled }
    }
}

/// What the treated windows of sessions, and of each region in them, add up to, in nanoseconds: once for all regions.
#[derive(Default)]
pub(crate) struct TreatedSums {
    required: HashMap<SessionId, f64>,
    own: HashMap<(SessionId, RegionId), Own>,
}

/// The treated windows of one region.
#[derive(Clone, Copy, Default)]
struct Own {
    required: f64,
    elapsed: f64,
    weight: f64,
}

impl TreatedSums {
    /// Windows that are whole runs have no place in a run.
    pub(crate) fn of(windows: &[Window]) -> TreatedSums {
        let mut sums = TreatedSums::default();
        let in_a_run = |window: &&Window| !window.flags.has(WindowFlags::WHOLE);
        for window in windows.iter().filter(|window| !window.speedup.is_zero()).filter(in_a_run) {
            let required = window.required.get() as f64;
            *sums.required.entry(window.session).or_default() += required;
            let own = sums.own.entry((window.session, window.region)).or_default();
            own.required += required;
            own.elapsed += window.elapsed.get() as f64;
            own.weight += window.region_weight.get() as f64;
        }
        sums
    }
}

/// The phase of a region.
pub(crate) fn of(experiments: &Experiments<'_>, rows: &Rows, treated: &TreatedSums) -> Phase {
    let in_a_run = |window: &&Window| !window.flags.has(WindowFlags::WHOLE);
    let windows: Vec<(f64, f64)> = experiments
        .baselines()
        .filter(in_a_run)
        .map(|window| (window.region_weight.get() as f64, window.elapsed.get() as f64))
        .collect();
    let (weight, time) = windows.iter().fold((0.0, 0.0), |(w, t), (dw, dt)| (w + dw, t + dt));
    let inside = weight / time;

    let sessions = experiments.sessions();
    let ours = |session| sessions.binary_search(&session).is_ok();
    let of_region = || rows.samples.iter().filter(|s| s.region == experiments.region && ours(s.session));
    let run_weight: f64 = of_region().map(|s| s.weight.get() as f64).sum();
    let mut run_time: f64 = 0.0;
    for session in rows.sessions.iter().filter(|session| ours(session.id)) {
        // Delays for others pass while the region does not run: they are taken off. Those for itself pass while it does,
        // more or less: its treated windows count for as much time as its samples in them take without.
        let own = treated.own.get(&(session.id, experiments.region)).copied().unwrap_or_default();
        let delays = treated.required.get(&session.id).copied().unwrap_or_default();
        let others = if delays > 0.0 { 1.0 - own.required / delays } else { 1.0 };
        let totals = session.samples;
        run_time += totals.until.get() as f64 - totals.delayed.get() as f64 * others - own.elapsed
            + own.weight / inside;
    }

    let n = windows.len() as f64;
    let residuals: f64 = windows.iter().map(|(w, t)| (w - inside * t).powi(2)).sum();
    // Windows do not differ much where all of them have one sample or none: of a region that hardly uses the CPU, such as one that sleeps.
    let seen: u64 = experiments.baselines().filter(in_a_run).map(|window| window.region_samples).sum();
    let chance = |samples: u64| 1.0 / (samples.max(1) as f64).sqrt();
    let of_windows = ((residuals * n / (n - 1.0)).sqrt() / weight).max(chance(seen));
    let relative_error = of_windows.hypot(chance(of_region().map(|s| s.count).sum()));
    let share = run_weight / run_time / inside;
    // Written so that anything that is not a number means 1.
    let below = share > 0.0 && share < MARGIN && share * (3.0 * relative_error).exp() < 1.0;
    Phase { weight, time, run_weight, run_time, relative_error, factor: if below { share } else { 1.0 } }
}
