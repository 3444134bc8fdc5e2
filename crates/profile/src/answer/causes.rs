//! Causes: what explains an answer, in words that a person would use. Only what the recording shows is told.

use super::Piece;
use super::words::{gain_at, percent, percent_range};
use crate::estimate::{REFERENCE, Target, Verdict};
use crate::load::Load;
use crate::mark::Mark;
use crate::model::Window;
use crate::ranking::{PointSummary, Profile};
use crate::sentence::{limited, per_visit, subject};

/// Pieces that are told of.
const TOLD: usize = 3;
/// More than so many CPUs are used at once where threads run beside each other.
const BESIDE: f64 = 1.2;
/// Less than so much of a CPU is used where a program mostly waits.
const WAITS: f64 = 0.6;
/// A curve that bends there ends before it is seen to bend.
const PARTLY: f64 = 0.95;
/// A curve that certainly rises by no more than this is flat.
const FLAT: f64 = 0.02;

/// What explains the answer for a point, one sentence each.
pub(super) fn of(profile: &Profile, point: &PointSummary, pieces: &[Piece]) -> Vec<String> {
    let with = |verdict| pieces.iter().filter(move |piece| piece.verdict() == Some(verdict));
    let cpus = cpus(&profile.rows.windows);
    let best = with(Verdict::Helps).next();
    let mut causes: Vec<String> =
        pieces.iter().filter_map(|piece| piece.note.clone()).take(TOLD).map(ended).collect();
    if let Some(best) = best {
        causes.extend(bend(point, best));
    }
    causes.extend(with(Verdict::Hurts).take(TOLD).map(|piece| {
        format!(
            "Less time in {} makes {} longer: threads that leave it sooner get into each other's way, at a lock or in a cache.",
            piece.name,
            each(point)
        )
    }));
    let idle_hot = pieces.iter().filter(|piece| piece.mark == Some(Mark::HotButDoesNotMatter));
    causes.extend(idle_hot.take(TOLD).map(|piece| hot(piece, best, cpus)));
    let hidden = pieces.iter().filter(|piece| piece.mark == Some(Mark::MattersButIsNotHot));
    causes.extend(
        hidden.take(TOLD).map(|piece| {
            format!("{} uses little CPU time, but other threads wait while it runs.", piece.name)
        }),
    );
    causes.extend(pieces.iter().take(TOLD).filter_map(|piece| {
        let phase = piece.nth.map(|nth| profile.regions[nth].phase).filter(|phase| *phase < 1.0)?;
        Some(format!(
            "{} was active in only {:.0} % of the run; the gains that are given for it are those of the whole run.",
            piece.name,
            phase * 100.0
        ))
    }));
    causes.extend(Load::of(&profile.rows.windows).map(|load| format!("{}.", limited(load))));
    if best.is_none()
        && let Some(cpus) = cpus.filter(|cpus| *cpus < WAITS)
    {
        causes.push(format!(
            "The program uses {:.0} % of one CPU and waits for the rest of the time: for input and output, timers, or other programs.",
            cpus * 100.0
        ));
    }
    causes
}

/// Where something else begins to limit the point as well, if that is known well enough.
fn bend(point: &PointSummary, best: &Piece) -> Option<String> {
    let estimate = best.estimate.as_ref()?;
    let bend = estimate.known_bend().filter(|bend| bend.value > 0.0 && bend.value < PARTLY)?;
    // By the ends of both intervals that are furthest apart.
    let at_bend = gain_at(&estimate.curve, bend.hi.min(1.0));
    let is_flat = at_bend.zip(estimate.most).is_some_and(|(at, most)| most.hi - at.lo <= FLAT);
    let what = if is_flat {
        format!(
            "brings hardly anything more for {}: something else is the bottleneck from there on",
            each(point)
        )
    } else {
        format!(
            "brings less for {} with each further per cent: something else begins to limit it",
            each(point)
        )
    };
    Some(format!(
        "More than about {} less time in {} ({}) {what}.",
        percent(&bend),
        best.name,
        percent_range(&bend)
    ))
}

/// Why code that uses much CPU time does not matter.
fn hot(piece: &Piece, best: Option<&Piece>, cpus: Option<f64>) -> String {
    let share =
        piece.share.map_or_else(String::new, |share| format!(" with {:.0} % of the CPU time", share * 100.0));
    let why = match (best, cpus) {
        (Some(best), Some(cpus)) if cpus > BESIDE => {
            format!("it runs beside {}, which finishes later", best.name)
        }
        (None, Some(cpus)) if cpus > BESIDE => "it runs beside other code, which finishes later".into(),
        _ => format!("nothing waits for it, so {REFERENCE} less time there changes nothing"),
    };
    format!("{} is hot{share}, but does not matter: {why}.", piece.name)
}

/// How many CPUs the program uses at once without experiments; `None` where nothing tells.
fn cpus(windows: &[Window]) -> Option<f64> {
    let at_rest = windows.iter().filter(|window| window.speedup.is_zero());
    let (cpu, time) = at_rest.fold((0.0, 0.0), |(cpu, time), window| {
        (cpu + window.total_weight.get() as f64, time + window.elapsed.get() as f64)
    });
    (time > 0.0 && cpu > 0.0).then(|| cpu / time)
}

fn each(point: &PointSummary) -> String {
    match point.target {
        Target::Throughput(_) if point.whole => subject(point),
        Target::Throughput(_) => format!("each {}", per_visit(point)),
        Target::Latency { .. } => subject(point),
    }
}

/// With a full stop.
fn ended(mut text: String) -> String {
    text.push('.');
    text
}
