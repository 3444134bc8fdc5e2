//! Phases: a region that runs only part of the time can only help in that part.

use super::Experiments;
use crate::model::{Rows, WindowFlags};

/// A phase of more than this share of the run is not told from noise, start-up and shutdown.
const MARGIN: f64 = 0.95;

/// The share of the run in which the region ran at all, 0 to 1: (t_obs / s_obs) · (s / T) of
/// papers/coz-first-paper.txt, section 4.6.
///
/// Experiments choose code that is running, so they see a region only in its phase. The density of its
/// samples there (s_obs / t_obs, from baseline windows: delays would dilute it) against its density
/// over the whole run (s / T, inserted delay taken off) tells how much of the run the phase is.
///
/// 1 where the two do not differ by more than their noise, or where there are no samples to tell. Windows that
/// are whole runs have seen all phases.
pub(crate) fn factor(experiments: &Experiments<'_>, rows: &Rows) -> f64 {
    let windows: Vec<(f64, f64)> = experiments
        .baselines()
        .filter(|window| !window.flags.has(WindowFlags::WHOLE))
        .map(|window| (window.region_weight.get() as f64, window.elapsed.get() as f64))
        .collect();
    let (weight, time) = windows.iter().fold((0.0, 0.0), |(w, t), (dw, dt)| (w + dw, t + dt));
    let inside = weight / time;

    let mut sessions: Vec<_> = experiments.baselines().map(|window| window.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let ours = |session| sessions.binary_search(&session).is_ok();
    let of_region = rows.samples.iter().filter(|s| s.region == experiments.region && ours(s.session));
    let weight_of_run: f64 = of_region.map(|s| s.weight.get() as f64).sum();
    let totals = rows.sessions.iter().filter(|s| ours(s.id)).map(|s| s.samples);
    let undelayed = totals.map(|t| t.until.saturating_sub(t.delayed).get() as f64);
    let overall = weight_of_run / undelayed.sum::<f64>();

    let n = windows.len() as f64;
    let residuals: f64 = windows.iter().map(|(w, t)| (w - inside * t).powi(2)).sum();
    let relative_error = (residuals * n / (n - 1.0)).sqrt() / weight;
    let factor = overall / inside;
    // Written so that anything that is not a number means 1.
    if factor > 0.0 && factor < MARGIN && factor * (1.0 + 3.0 * relative_error) < 1.0 { factor } else { 1.0 }
}
