//! The explanation of one region: every number with what it was computed from.

use profile::{
    ArrivalClock, ArrivalKind, Arrivals, Audited, BlockRow, Estimate, Explanation, Nanos, Phase,
    PointEstimate, PointExplanation, PointSummary, Reach, Reading, Session, Shares, SpeedupSum, Target,
    WithoutEstimate, Working, counted, printable,
};

use super::paint::{Colour, paint};
use super::{Style, grid, line_of, note, warnings_of};

/// Everything behind the numbers of one region. Ends with a newline. Tables may be wider than the terminal.
pub fn render(explanation: &Explanation<'_>, style: Style) -> String {
    let style = Style { width: style.width.max(60), ..style };
    let mut out = String::new();
    let region = &explanation.profile.rows.regions[&explanation.region];
    let title = format!("What is known about {}", printable(&explanation.profile.label(region)));
    line_of(&mut out, &paint(style, Colour::Bold, &title));
    note(&mut out, &image(explanation), style);
    note(&mut out, &samples(explanation), style);
    for point in &explanation.points {
        line_of(&mut out, "");
        of_point(&mut out, explanation, point, style);
    }
    line_of(&mut out, "\nPhase");
    note(&mut out, &phase(explanation), style);
    line_of(&mut out, "\nBooks: delay in ms, summed over threads and measurements that count");
    table(&mut out, &books(explanation), style);
    if let Some(audit) = explanation.audit() {
        line_of(
            &mut out,
            "\nAudit: by readings that the rules do not use, over the measurements with a speedup",
        );
        of_audit(&mut out, &audit, style);
    }
    // What never sent anything is not worth a line.
    let is_used = |one: &&Arrivals| one.count > 0 || one.clock != ArrivalClock::Undecided;
    let arrivals: Vec<_> =
        explanation.sessions().flat_map(|session| &session.arrivals).filter(is_used).collect();
    if !arrivals.is_empty() {
        line_of(&mut out, "\nArrivals from outside");
        arrivals.into_iter().for_each(|arrivals| note(&mut out, &of_arrivals(arrivals), style));
        let settled = explanation.profile.doubts.settled as u64;
        if settled > 0 {
            let known = format!(
                "{} before that was known had treated them so: not in doubt",
                counted(settled, "measurement")
            );
            note(&mut out, &known, style);
        }
    }
    line_of(&mut out, "\nMeasured by");
    for session in explanation.sessions() {
        note(&mut out, &provenance(session), style);
    }
    let options = &explanation.profile.options;
    let estimated = format!(
        "estimated by whatif {} with {} resamples, seed {}",
        env!("CARGO_PKG_VERSION"),
        options.resamples,
        options.seed
    );
    note(&mut out, &estimated, style);
    warnings_of(&mut out, explanation.profile, style);
    out
}

fn image(explanation: &Explanation<'_>) -> String {
    let image = &explanation.profile.rows.regions[&explanation.region].image;
    let build = image.build_id.as_deref().map_or("without build ID".into(), |id| format!("build ID {id}"));
    printable(&format!("in {}, {build}", image.path)).into_owned()
}

fn samples(explanation: &Explanation<'_>) -> String {
    match explanation.estimate {
        Ok(estimate) => {
            let share = estimate.share.map_or(String::new(), |share| {
                format!(", {:.2} % of all CPU time in the sessions that saw it", share * 100.0)
            });
            format!("{} samples{share}; {} measurements count", estimate.samples, estimate.windows)
        }
        Err(WithoutEstimate::WithoutBaseline) => "nothing is estimated: no baseline of it counts".to_owned(),
        Err(WithoutEstimate::FewSpeedups) => {
            "nothing is estimated in the report: it was tried at fewer than five speedups, and they were not \
             asked for"
                .to_owned()
        }
    }
}

fn of_point(out: &mut String, explanation: &Explanation<'_>, point: &PointExplanation, style: Style) {
    let Some(summary) = explanation.profile.point(point.target) else {
        return;
    };
    let latency = matches!(point.target, Target::Latency { .. });
    let kind = if latency { "latency" } else { "throughput" };
    line_of(out, &paint(style, Colour::Bold, &format!("{} ({kind})", printable(&summary.name))));
    if latency {
        table(out, &latency_blocks(&point.blocks), style);
    } else {
        table(out, &throughput_blocks(&point.blocks), style);
    }
    note(out, if latency { LATENCY_LEGEND } else { THROUGHPUT_LEGEND }, style);
    let Some(working) = &point.working else {
        note(out, "Nothing is estimated: there is nothing to compare.", style);
        return;
    };
    line_of(out, "");
    table(out, &sums(working, explanation), style);
    for line in formulas(working, explanation, summary) {
        note(out, &line, style);
    }
}

const THROUGHPUT_LEGEND: &str = "elapsed, delay (inserted) and effective = elapsed − delay in ms, from visit to visit \
     where that is known; period = effective / visits, in µs. gain: of this experiment alone, 1 − period / period₀. \
     part: of the run, between changes of its speed. Subscript ₀: the baseline, whose delay is nothing.";

const LATENCY_LEGEND: &str = "elapsed, delay (inserted) and effective = elapsed − delay in ms; open: the mean number \
     in flight; ends: visits of the end; latency = open · effective / ends (Little's law), in µs. gain: of this \
     experiment alone, 1 − latency / latency₀. part: of the run, between changes of its speed. Subscript ₀: the \
     baseline, whose delay is nothing.";

fn throughput_blocks(blocks: &[BlockRow]) -> Vec<[String; 14]> {
    let head = [
        "run",
        "experiment",
        "part",
        "elapsed₀",
        "visits₀",
        "period₀",
        "speedup",
        "elapsed",
        "delay",
        "effective",
        "visits",
        "period",
        "gain",
        "notes",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(blocks.iter().map(|block| {
        let [run, number_of, part, speedup, gain, notes] = common(block);
        let [elapsed0, _, _, visits0, period0, _] = cells(block.baseline);
        let [elapsed, delay, effective, visits, period, _] = cells(block.treated.map(|(_, reading)| reading));
        [
            run, number_of, part, elapsed0, visits0, period0, speedup, elapsed, delay, effective, visits,
            period, gain, notes,
        ]
    }));
    rows
}

fn latency_blocks(blocks: &[BlockRow]) -> Vec<[String; 16]> {
    let head = [
        "run",
        "experiment",
        "part",
        "elapsed₀",
        "open₀",
        "ends₀",
        "latency₀",
        "speedup",
        "elapsed",
        "delay",
        "effective",
        "open",
        "ends",
        "latency",
        "gain",
        "notes",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(blocks.iter().map(|block| {
        let [run, number_of, part, speedup, gain, notes] = common(block);
        let [elapsed0, _, _, ends0, latency0, open0] = cells(block.baseline);
        let [elapsed, delay, effective, ends, latency, open] =
            cells(block.treated.map(|(_, reading)| reading));
        [
            run, number_of, part, elapsed0, open0, ends0, latency0, speedup, elapsed, delay, effective, open,
            ends, latency, gain, notes,
        ]
    }));
    rows
}

/// Run, block, part, speedup, gain and notes.
fn common(block: &BlockRow) -> [String; 6] {
    [
        block.session.get().to_string(),
        block.block.to_string(),
        (block.segment + 1).to_string(),
        block.treated.map_or("–".into(), |(speedup, _)| speedup.to_string()),
        block.gain().map_or("–".into(), fraction),
        notes(block),
    ]
}

/// Elapsed, delay, effective, visits, period and mean in flight.
fn cells(reading: Option<Reading>) -> [String; 6] {
    let Some(reading) = reading else { return std::array::from_fn(|_| "–".to_owned()) };
    let elapsed = reading.elapsed.get() as f64;
    [
        millis(elapsed),
        millis(reading.inserted.get() as f64),
        millis(reading.effective_ns()),
        reading.visits.to_string(),
        reading.period_ns().map_or("–".into(), |period| number(format!("{:.3}", period / 1e3))),
        format!("{:.4}", reading.in_flight / elapsed),
    ]
}

fn notes(block: &BlockRow) -> String {
    let mut notes: Vec<String> = Vec::new();
    if let Some(reason) = block.left_out {
        notes.push(format!("left out: {}", reason.name()));
    }
    match (block.baseline_left_out, block.treated) {
        (Some(reason), _) => notes.push(format!("baseline left out: {}", reason.name())),
        (None, None) => notes.push("baseline only".to_owned()),
        (None, Some(_)) => {}
    }
    if block.unsteady {
        notes.push("unsteady".to_owned());
    }
    let flags = block.flags.names();
    if !flags.is_empty() {
        notes.push(format!("[{flags}]"));
    }
    notes.join("; ")
}

fn sums(working: &Working, explanation: &Explanation<'_>) -> Vec<[String; 11]> {
    let head = [
        "speedup",
        "experiments",
        "Σ v",
        "Σ e ms",
        "own",
        "all",
        "u",
        "1 − u/Σ v",
        "error",
        "curve",
        "× phase",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let factor = factor(explanation);
    rows.extend(working.speedups.iter().map(|at: &SpeedupSum| {
        let known = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or("–".into(), fraction);
        [
            at.speedup.to_string(),
            at.blocks.to_string(),
            format!("{:.0}", at.visits),
            millis(at.amount),
            number(format!("{:.3}", at.own)),
            number(format!("{:.3}", at.all)),
            number(format!("{:.3}", at.own + at.all)),
            known(Some(at.gain)),
            known(at.gain_error),
            known(at.curve),
            known(at.curve.map(|gain| gain * factor)),
        ]
    }));
    rows
}

fn formulas(working: &Working, explanation: &Explanation<'_>, summary: &PointSummary) -> Vec<String> {
    let estimate = explanation.estimate.ok().and_then(|region| {
        let index = region.points.iter().position(|point| point.target == summary.target)?;
        region.points.get(index)
    });
    let apart = match estimate {
        Some(estimate) if estimate.kept_apart => {
            ": 1 because the program's speed changed, and the parts of the run are kept apart"
        }
        _ => "",
    };
    let interval = |estimate: Option<&Estimate>| match estimate {
        Some(e) if e.half_width().is_finite() => {
            format!(" (standard error {}, 95 % {} … {})", fraction(e.se), fraction(e.lo), fraction(e.hi))
        }
        _ => String::new(),
    };
    let factor = factor(explanation);
    let level_error = match working.level_error {
        error if error.is_finite() => format!("{} %", fraction(error * 100.0)),
        _ => "unknown".into(),
    };
    let Shares { line, bent, smooth } = working.shares;
    [
        format!("β = {:.4}{apart}; ρ = {:.6} visits per ms over all baselines", working.pairing, working.level * 1e6),
        "u = own + all: visits expected if nothing were faster; own = β·Σ e·v₀/e₀ over the experiments, all = (1 − β)·ρ·Σ e; e: \
         effective, or open · effective; v: visits"
            .to_owned(),
        format!(
            "slope = Σ s·(v − u) / Σ s²·v = {:.4} / {:.4} = {}; × phase {factor:.4} = {}{}",
            working.slope_over,
            working.slope_under,
            fraction(working.slope()),
            fraction(working.slope() * factor),
            interval(estimate.and_then(|estimate| estimate.slope.as_ref()))
        )
        .replace('-', "−"),
        format!(
            "effect at {} = {} by the curve; × phase {factor:.4} = {}{}",
            profile::REFERENCE,
            fraction(working.effect),
            fraction(working.effect * factor),
            interval(estimate.and_then(|estimate| estimate.effect.as_ref()))
        ),
        format!(
            "curve: through all gains 1 − u/Σ v, by their error (standard, without that of ρ, which is {level_error}; \
             degrees of freedom: {}): {line:.4} of a line, {bent:.4} of lines that bend once, {smooth:.4} of smooth \
             curves",
            working.freedom
        ),
    ]
    .into_iter()
    .chain(estimate.map(|estimate| verdict(estimate, factor)).into_iter().flatten())
    .collect()
}

/// What the report says of a region beyond slope and effect.
fn verdict(estimate: &PointEstimate, factor: f64) -> Vec<String> {
    let interval =
        |e: &Estimate| format!("{} (95 % {} … {})", fraction(e.value), fraction(e.lo), fraction(e.hi));
    let mut lines = vec![format!(
        "method: inserted delays are not quite exact either, so the slope may be off by {} (standard error) however many \
         experiments there are; this is in all intervals",
        fraction(estimate.method_error)
    )];
    if estimate.handover_error > 0.005 {
        lines.push(format!(
            "hand-overs: of that, {} stands for locks and items that were handed over to threads that waited: what one costs beyond the \
             work that is waited for may be gained, or lost, besides",
            fraction(estimate.handover_error)
        ));
        if estimate.in_sections > 0.005 {
            lines.push(format!(
                "locks: {:.0} % of these hand-overs were of locks under which threads mostly run this code, so they, and waking CPUs for \
                 them, may only be gained: faster code lets fewer threads find such a lock taken",
                100.0 * estimate.in_sections
            ));
        }
    }
    if estimate.slice_error > 0.005 {
        lines.push(format!(
            "CPUs: of that, {} stands for threads that never block while others want their CPUs (really faster, they would use their \
             time slices for more work; in virtual time the slices are shorter)",
            fraction(estimate.slice_error)
        ));
    }
    let Reach { below, above } = estimate.crowding;
    if estimate.crowding_shift.abs() > 0.005 {
        lines.push(format!(
            "clients: they run on the same machine, and what they use of the CPUs belongs to each request; {} was added to the slope, towards the region's share of \
             all CPU time that is used, as far as the CPUs are busy",
            fraction(estimate.crowding_shift)
        ));
    }
    if estimate.limit_shift.abs() > 0.005 {
        lines.push(format!(
            "limit on CPU time: while it is used up, a gain is the region's share of the CPU time that is allowed; {} was added to the slope for that",
            fraction(estimate.limit_shift)
        ));
    }
    if below.max(above) > 0.005 {
        lines.push(format!(
            "other programs used the same CPUs, or a limit on CPU time was used up now and then, so that the slope may be {} less, or {} more: threads that wake up may wait less for a CPU where code is \
             really faster, what clients use on the same machine belongs to each request, and a gain is a share of the CPU time while there is no more of it",
            fraction(below),
            fraction(above)
        ));
    }
    if estimate.waking_error > 0.005 {
        lines.push(format!(
            "waking: of that, {} stands for CPUs that slept when a thread was woken: where waits are really shorter, they hardly fall \
             asleep; in virtual time they sleep as before",
            fraction(estimate.waking_error)
        ));
    }
    if estimate.clock_error() > 0.005 {
        lines.push(format!(
            "arrivals: of that, {} stands for requests that threads wait for, and of which it could not be found out whether they wait for \
             the program (a closed loop) or come at times of their own (an open loop), where nothing makes them come sooner",
            fraction(estimate.clock_error())
        ));
    }
    if estimate.latency_error > 0.005 {
        lines.push(format!(
            "latency: of that, {} stands for breakpoints, at which other requests are noted while one is under way, and for clients that \
             have too few connections for requests to be put off",
            fraction(estimate.latency_error)
        ));
    }
    if estimate.executing > 0.0 {
        lines.push(format!(
            "executing: programs that were executed and threads that were started needed {} of the time because they were profiled; gains are divided by the rest, and their \
             intervals hold the gains that were measured as well",
            fraction(estimate.executing)
        ));
    }
    if let Some(chance) = estimate.chance {
        lines.push(format!(
            "verdict: {}; a region that is worth nothing would show such a slope by chance with probability {chance:.2e} \
             (t distribution; compared among all regions and points)",
            estimate.verdict.name()
        ));
    }
    if let Some(most) = estimate.most.as_ref().filter(|most| most.half_width().is_finite()) {
        lines.push(format!(
            "most: {} by the curve at the speedups tried, × phase {factor:.4}; those within a standard error of the best share \
             what they say",
            interval(most)
        ));
    }
    lines.push(match &estimate.bend {
        Some(bend) => format!("bend: at a speedup of {}, by the lines that bend down once", interval(bend)),
        None => "bend: none that is clear".to_owned(),
    });
    lines
}

/// What the gains of the report are scaled by.
fn factor(explanation: &Explanation<'_>) -> f64 {
    explanation.estimate.map_or(1.0, |estimate| estimate.phase)
}

fn phase(explanation: &Explanation<'_>) -> String {
    let Some(phase) = explanation.phase else {
        return "no measurement of the region counts".to_owned();
    };
    let Phase { weight, time, run_weight, run_time, relative_error, factor } = phase;
    let (inside, overall) = (weight / time, run_weight / run_time);
    let (inside, overall) = (finite(inside), finite(overall));
    let used = if !explanation.profile.options.phase_correction {
        "the correction is switched off".to_owned()
    } else if factor < 1.0 {
        format!("gains are scaled by their ratio, {factor:.4}")
    } else {
        "not less beyond noise, so gains are not scaled".to_owned()
    };
    format!(
        "CPU time of the region per time: {} ms / {} ms = {inside} in its baselines, {} ms / {} ms \
         = {overall} in the whole run (their ratio ± {} %); {used}",
        millis(weight),
        millis(time),
        millis(run_weight),
        millis(run_time),
        finite(relative_error * 100.0)
    )
}

fn books(explanation: &Explanation<'_>) -> Vec<[String; 6]> {
    let head = ["speedup", "owed", "paid", "credited", "overslept", "unpaid"];
    let mut rows = vec![head.map(str::to_owned)];
    let ms = |span: Nanos| millis(span.get() as f64);
    rows.extend(explanation.books.iter().map(|(speedup, books)| {
        [
            speedup.to_string(),
            ms(books.owed),
            ms(books.paid),
            ms(books.credited),
            ms(books.overslept),
            ms(books.unpaid),
        ]
    }));
    rows
}

fn of_audit(out: &mut String, audit: &Audited, style: Style) {
    let ms = |span: Nanos| millis(span.get() as f64);
    let (withheld, sums) = (&audit.withheld, &audit.sums);
    let missing = audit.expected
        - sums.given.get() as f64
        - (withheld.spinning + withheld.late + withheld.unknown_code + withheld.deferred - withheld.extra);
    for line in [
        format!(
            "credit, in ms of delay: expected {} = given {} + withheld for spinning {}, after the deadline {}, code not known {}, in \
             the middle of a call {} − for other code {}, and {} more (± {} is tolerated)",
            millis(audit.expected),
            ms(sums.given),
            millis(withheld.spinning),
            millis(withheld.late),
            millis(withheld.unknown_code),
            millis(withheld.deferred),
            millis(withheld.extra),
            millis(missing),
            millis(audit.tolerance),
        ),
        format!(
            "waits for other threads: {}, {} of them for locks under which the region mostly runs; in ms of delay, credited {}, accrued \
             meanwhile {}",
            sums.handovers,
            sums.sections,
            ms(sums.inherited),
            ms(sums.grown)
        ),
        format!(
            "CPU time in ms: {} by the kernel, {} of it in pauses; {} of threads that are not profiled; {} with stacks that were cut",
            ms(sums.cpu),
            ms(sums.pausing),
            ms(sums.unprofiled),
            ms(sums.cut)
        ),
        format!(
            "waits in ms, of {} that threads were there: blocked {} and queued for a CPU {} by the kernel; in calls that another thread \
             ended {}, that the world ended {}, unannounced {}, in pauses {}; not explained {}",
            ms(sums.watched),
            ms(sums.blocked),
            ms(sums.queued),
            ms(sums.in_waits),
            ms(sums.in_world),
            ms(sums.in_hidden),
            ms(sums.in_pauses),
            ms(sums.unexplained)
        ),
    ] {
        note(out, &line, style);
    }
    if audit.is_trusted() {
        note(out, "it balances: the numbers are to be trusted", style);
    }
    for doubt in &audit.doubts {
        note(out, &format!("not trusted: {doubt}; {}", doubt.advice()), style);
    }
}

fn of_arrivals(arrivals: &Arrivals) -> String {
    let what = match arrivals.kind {
        ArrivalKind::Accepted => format!("connections to port {}", arrivals.port),
        ArrivalKind::Connected => format!("connections that the program made to port {}", arrivals.port),
        ArrivalKind::Datagrams => format!("datagrams at port {}", arrivals.port),
        ArrivalKind::Listener => format!("new connections to port {}", arrivals.port),
        ArrivalKind::Pipe => "pipes".to_owned(),
        ArrivalKind::Own => {
            return format!(
                "{} that the program has made itself: not from outside",
                counted(arrivals.count, "new connection")
            );
        }
    };
    let clock = match arrivals.clock {
        ArrivalClock::Closed => "closed loop, clients wait for their answers",
        ArrivalClock::Open => "open loop, requests come at times of their own",
        ArrivalClock::Mixed => "some in a closed loop, some in an open one",
        ArrivalClock::Undecided => "not known whether clients wait for their answers",
        ArrivalClock::SaidClosed => "closed loop, as --clients says: it could not be told",
        ArrivalClock::SaidOpen => "open loop, as --clients says: it could not be told",
    };
    let held = arrivals.slope.map_or(String::new(), |(slope, error)| {
        format!(
            "; {slope:.2} (standard error {error:.2}) of the time for which arrivals were held up showed in the time until the next ({} \
             arrivals)",
            arrivals.count
        )
    });
    format!("{what}: {clock}{}", number(held))
}

fn provenance(session: &Session) -> String {
    let start = &session.start;
    // An imported profile says nothing of the machine.
    let machine = match start.cpus {
        0 => "on an unknown machine".to_owned(),
        cpus => format!(
            "on {} (Linux {}, {cpus} CPUs), seed {}",
            printable(&start.host),
            printable(&start.kernel),
            start.seed
        ),
    };
    format!(
        "run {}: whatif {} {machine}, options {}; {}",
        session.id.get(),
        printable(&start.version),
        printable(&start.options),
        super::run(session)
    )
}

/// A table whose first row is its head.
fn table<const N: usize>(out: &mut String, rows: &[[String; N]], style: Style) {
    for (nth, line) in grid::lines(rows).iter().enumerate() {
        line_of(out, &paint(style, if nth == 0 { Colour::Dim } else { Colour::Plain }, line));
    }
}

/// With a real minus.
fn number(digits: String) -> String {
    digits.replace('-', "−")
}

fn millis(nanos: f64) -> String {
    number(format!("{:.3}", nanos / 1e6))
}

fn fraction(value: f64) -> String {
    number(format!("{value:.4}"))
}

fn finite(value: f64) -> String {
    if value.is_finite() { fraction(value) } else { "?".into() }
}
