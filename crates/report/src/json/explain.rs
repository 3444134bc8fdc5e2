//! The explanation of one region, for programs.

use profile::{
    Audited, BlockRow, Books, Explanation, LeftOutReason, Phase, PointExplanation, Reading, Speedup,
    SpeedupSum, WithoutEstimate, Working,
};
use serde::Serialize;

use super::{OfDrift, OfImage, OfRegion, OfRunDrift, OfSession, OfWarning, VERSION, finite, text_of};

/// The explanation as one JSON object, indented, with a newline at its end. As [`super::render`] does, it
/// escapes what could deceive readers.
pub fn render(explanation: &Explanation<'_>) -> String {
    let profile = explanation.profile;
    let warnings = profile.warnings();
    let region = &profile.rows.regions[&explanation.region];
    let options = &profile.options;
    text_of(&OfExplanation {
        version: VERSION,
        name: &region.name,
        kind: region.kind.name(),
        inclusive: region.inclusive,
        function: region.function.as_deref(),
        file: region.file.as_deref(),
        line: region.line,
        image: OfImage::new(&region.image),
        estimate: explanation.estimate.ok().map(|estimate| OfRegion::new(profile, estimate)),
        without_estimate: explanation.estimate.err().map(|why| match why {
            WithoutEstimate::WithoutBaseline => "without-baseline",
            WithoutEstimate::FewSpeedups => "few-speedups",
        }),
        explained: explanation.points.iter().map(|point| OfExplained::new(explanation, point)).collect(),
        phase_correction: explanation.phase.map(OfPhase::new),
        books: explanation.books.iter().map(|(speedup, books)| OfBooks::new(*speedup, books)).collect(),
        audit: explanation.audit().as_ref().map(OfAuditSums::new),
        bootstrap: OfBootstrap {
            seed: options.seed.to_string(),
            resamples: options.resamples,
            phase_correction: options.phase_correction,
            whatif_version: env!("CARGO_PKG_VERSION"),
        },
        drift: profile.drift.iter().map(|drift| OfDrift::new(profile, drift)).collect(),
        run_drift: profile.run_drift.iter().map(|drift| OfRunDrift::new(profile, drift)).collect(),
        sessions: explanation.sessions().map(OfSession::new).collect(),
        warnings: warnings.iter().map(|(id, w)| OfWarning::new(id.get(), w)).collect(),
    })
}

#[derive(Serialize)]
struct OfExplanation<'a> {
    version: u32,
    name: &'a str,
    kind: &'static str,
    inclusive: bool,
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    image: OfImage<'a>,
    estimate: Option<OfRegion<'a>>,
    without_estimate: Option<&'static str>,
    explained: Vec<OfExplained<'a>>,
    phase_correction: Option<OfPhase>,
    books: Vec<OfBooks>,
    audit: Option<OfAuditSums>,
    bootstrap: OfBootstrap,
    drift: Vec<OfDrift<'a>>,
    run_drift: Vec<OfRunDrift<'a>>,
    sessions: Vec<OfSession<'a>>,
    warnings: Vec<OfWarning<'a>>,
}

#[derive(Serialize)]
struct OfBootstrap {
    seed: String,
    resamples: usize,
    phase_correction: bool,
    whatif_version: &'static str,
}

#[derive(Serialize)]
struct OfExplained<'a> {
    point: &'a str,
    kind: &'static str,
    blocks: Vec<OfBlock>,
    working: Option<OfWorking>,
}

impl<'a> OfExplained<'a> {
    fn new(explanation: &Explanation<'a>, point: &PointExplanation) -> Self {
        let summary = explanation.profile.point(point.target);
        OfExplained {
            point: summary.map_or("", |summary| &summary.name),
            kind: point.target.kind(),
            blocks: point.blocks.iter().map(OfBlock::new).collect(),
            working: point.working.as_ref().map(OfWorking::new),
        }
    }
}

#[derive(Serialize)]
struct OfBlock {
    session: i64,
    block: i64,
    segment: usize,
    speedup: Option<f64>,
    baseline: Option<OfReading>,
    treated: Option<OfReading>,
    gain: Option<f64>,
    left_out: Option<&'static str>,
    baseline_left_out: Option<&'static str>,
    unsteady: bool,
    flags: String,
}

impl OfBlock {
    fn new(block: &BlockRow) -> Self {
        OfBlock {
            session: block.session.get(),
            block: block.block,
            segment: block.segment,
            speedup: block.treated.map(|(speedup, _)| speedup.fraction()),
            baseline: block.baseline.map(OfReading::new),
            treated: block.treated.map(|(_, reading)| OfReading::new(reading)),
            gain: block.gain(),
            left_out: block.left_out.map(LeftOutReason::name),
            baseline_left_out: block.baseline_left_out.map(LeftOutReason::name),
            unsteady: block.unsteady,
            flags: block.flags.names(),
        }
    }
}

#[derive(Serialize)]
struct OfReading {
    elapsed_ns: u64,
    inserted_ns: u64,
    effective_ns: f64,
    in_flight_visit_ns: f64,
    visits: u64,
    amount_ns: Option<f64>,
    period_ns: Option<f64>,
}

impl OfReading {
    fn new(reading: Reading) -> Self {
        OfReading {
            elapsed_ns: reading.elapsed.get(),
            inserted_ns: reading.inserted.get(),
            effective_ns: reading.effective_ns(),
            in_flight_visit_ns: reading.in_flight,
            visits: reading.visits,
            amount_ns: finite(reading.amount),
            period_ns: reading.period_ns().and_then(finite),
        }
    }
}

#[derive(Serialize)]
struct OfWorking {
    pairing: f64,
    level_per_s: Option<f64>,
    level_error: Option<f64>,
    sums: Vec<OfSum>,
    slope_over: Option<f64>,
    slope_under: Option<f64>,
    line_share: f64,
    bend_share: f64,
    smooth_share: f64,
    noise_freedom: usize,
    effect: Option<f64>,
    delay: Option<f64>,
    method_error: Option<f64>,
}

impl OfWorking {
    fn new(working: &Working) -> Self {
        OfWorking {
            pairing: working.pairing,
            level_per_s: finite(working.level * 1e9),
            level_error: finite(working.level_error),
            sums: working.speedups.iter().map(OfSum::new).collect(),
            slope_over: finite(working.slope_over),
            slope_under: finite(working.slope_under),
            line_share: working.shares.line,
            bend_share: working.shares.bent,
            smooth_share: working.shares.smooth,
            noise_freedom: working.freedom,
            effect: finite(working.effect),
            delay: finite(working.delay),
            method_error: finite(working.method_error),
        }
    }
}

#[derive(Serialize)]
struct OfSum {
    speedup: f64,
    blocks: usize,
    visits: f64,
    amount_ns: f64,
    expected_by_own: f64,
    expected_by_all: f64,
    gain: Option<f64>,
    gain_se: Option<f64>,
    curve: Option<f64>,
}

impl OfSum {
    fn new(sum: &SpeedupSum) -> Self {
        OfSum {
            speedup: sum.speedup.fraction(),
            blocks: sum.blocks,
            visits: sum.visits,
            amount_ns: sum.amount,
            expected_by_own: sum.own,
            expected_by_all: sum.all,
            gain: finite(sum.gain),
            gain_se: sum.gain_error.and_then(finite),
            curve: sum.curve.and_then(finite),
        }
    }
}

#[derive(Serialize)]
struct OfPhase {
    weight_ns: f64,
    time_ns: f64,
    run_weight_ns: f64,
    run_time_ns: f64,
    relative_error: Option<f64>,
    factor: f64,
}

impl OfPhase {
    fn new(phase: Phase) -> Self {
        OfPhase {
            weight_ns: phase.weight,
            time_ns: phase.time,
            run_weight_ns: phase.run_weight,
            run_time_ns: phase.run_time,
            relative_error: finite(phase.relative_error),
            factor: phase.factor,
        }
    }
}

/// Delay in the first part, CPU time and waits in the second; all in nanoseconds.
#[derive(Serialize)]
struct OfAuditSums {
    windows: usize,
    expected_ns: f64,
    given_ns: u64,
    withheld_spinning_ns: f64,
    withheld_late_ns: f64,
    withheld_unknown_code_ns: f64,
    withheld_deferred_ns: f64,
    extra_ns: f64,
    tolerance_ns: f64,
    inherited_ns: u64,
    grown_ns: u64,
    cpu_ns: u64,
    pausing_ns: u64,
    unprofiled_ns: u64,
    cut_ns: u64,
    watched_ns: u64,
    blocked_ns: u64,
    in_waits_ns: u64,
    in_world_ns: u64,
    in_hidden_ns: u64,
    in_pauses_ns: u64,
    queued_ns: u64,
    unexplained_ns: u64,
    handovers: u64,
    sections: u64,
    answered_ns: u64,
    doubts: Vec<String>,
}

impl OfAuditSums {
    fn new(audit: &Audited) -> Self {
        let (withheld, sums) = (&audit.withheld, &audit.sums);
        OfAuditSums {
            windows: audit.windows,
            expected_ns: audit.expected,
            given_ns: sums.given.get(),
            withheld_spinning_ns: withheld.spinning,
            withheld_late_ns: withheld.late,
            withheld_unknown_code_ns: withheld.unknown_code,
            withheld_deferred_ns: withheld.deferred,
            extra_ns: withheld.extra,
            tolerance_ns: audit.tolerance,
            inherited_ns: sums.inherited.get(),
            grown_ns: sums.grown.get(),
            cpu_ns: sums.cpu.get(),
            pausing_ns: sums.pausing.get(),
            unprofiled_ns: sums.unprofiled.get(),
            cut_ns: sums.cut.get(),
            watched_ns: sums.watched.get(),
            blocked_ns: sums.blocked.get(),
            in_waits_ns: sums.in_waits.get(),
            in_world_ns: sums.in_world.get(),
            in_hidden_ns: sums.in_hidden.get(),
            in_pauses_ns: sums.in_pauses.get(),
            queued_ns: sums.queued.get(),
            unexplained_ns: sums.unexplained.get(),
            handovers: sums.handovers,
            sections: sums.sections,
            answered_ns: sums.answered.get(),
            doubts: audit.doubts.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Serialize)]
struct OfBooks {
    speedup: f64,
    owed_ns: u64,
    paid_ns: u64,
    credited_ns: u64,
    overslept_ns: u64,
    unpaid_ns: u64,
}

impl OfBooks {
    fn new(speedup: Speedup, books: &Books) -> Self {
        OfBooks {
            speedup: speedup.fraction(),
            owed_ns: books.owed.get(),
            paid_ns: books.paid.get(),
            credited_ns: books.credited.get(),
            overslept_ns: books.overslept.get(),
            unpaid_ns: books.unpaid.get(),
        }
    }
}
