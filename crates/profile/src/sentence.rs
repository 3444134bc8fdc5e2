//! The sentence: what a person should take away, if only one thing.

use crate::audit::Audited;
use crate::estimate::{Estimate, PointEstimate, REFERENCE, Target, Verdict};
use crate::load::Load;
use crate::model::{Region, RegionKind, Warning};
use crate::printable;
use crate::ranking::{PointSummary, Profile, RegionEstimate};

/// What takes less of the busy time does not limit anything.
const LITTLE: f64 = 0.1;

/// Code with at least this share of the CPU time may well matter: where it is not judged yet, that is told.
pub(crate) const HOT: f64 = 0.05;

impl Profile {
    /// The profile in one sentence, such as "20 % less time in `hash.c:88` makes `requests` 11 % ± 2 %
    /// shorter; nothing else you could change is worth more."
    ///
    /// The number after "±" is half the 95 % interval. Where nothing helps, or it is not clear yet, the
    /// sentence states that and what to do. Throughput comes before latency.
    pub fn sentence(&self) -> String {
        if let Some(failure) = self.failure() {
            return format!(
                "Nothing was measured: {}; {}.",
                printable(&failure.message),
                printable(&failure.advice)
            );
        }
        if self.rows.windows.is_empty() {
            return "No experiment was completed: let the program run longer, or give it more work.".into();
        }
        if self.points.is_empty() {
            return "There is no progress point to measure: mark one in the program with \
                    whatif::progress!() or WHATIF_PROGRESS."
                .into();
        }
        if self.points.iter().all(|point| point.idle) {
            return "No progress point was visited in most windows: put one where a unit of work ends, or \
                    give the program more work."
                .into();
        }
        if self.regions.is_empty() {
            return "Not enough data yet: no region was tried at enough speedups; let the program run \
                    longer, or choose regions and speedups yourself."
                .into();
        }
        if let Some(changed) = self.rows.warned(Warning::SLOW_BESIDE_POINT).next() {
            let point = self.points.iter().find(|point| !point.idle).unwrap_or(&self.points[0]);
            let (message, advice) = (printable(&changed.message), printable(&changed.advice));
            return format!("{}: {message}; {advice}.", no_answer(point));
        }
        let by_verdict = |verdict, say: fn(&Profile, &PointSummary) -> String| {
            let shown = self.points.iter().find(|p| self.of(p).iter().any(|(_, e)| e.verdict == verdict));
            shown.map(|point| say(self, point))
        };
        let sentence = by_verdict(Verdict::Helps, Self::helps)
            .or_else(|| by_verdict(Verdict::Hurts, Self::hurts))
            .or_else(|| by_verdict(Verdict::NotTrusted, Self::distrusted))
            .or_else(|| by_verdict(Verdict::NotEnoughData, Self::open))
            .unwrap_or_else(|| self.nothing());
        match Load::of(&self.rows.windows) {
            Some(load) if !self.helps_throughput() => {
                format!("{}{}. {sentence}", limited(load), self.at_full_load(load))
            }
            _ => sentence,
        }
    }

    /// Why there is nothing to judge by, where the last run knew it: no experiments, or no progress point.
    pub fn failure(&self) -> Option<&Warning> {
        let session = self.rows.sessions.last()?.id;
        let is_empty = self.rows.windows.is_empty() || self.points.is_empty();
        let of_last = self.rows.warnings.iter().filter(|(of, _)| *of == session).map(|(_, warning)| warning);
        of_last.filter(|_| is_empty).find(|warning| warning.is_failure())
    }

    /// What would matter most if there were as much load as the program can take; nothing where it has that already.
    fn at_full_load(&self, load: Load) -> String {
        let shares = self.regions.iter().filter_map(|region| Some((region, region.share_of_busy?)));
        let most = shares.filter(|_| !load.is_full()).max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, share)| *share >= LITTLE).map_or_else(String::new, |(region, share)| {
            let room = 100.0 * (1.0 / (1.0 - REFERENCE.fraction() * share) - 1.0);
            format!(
                "; at full load {} would matter most: {REFERENCE} less time there makes room for {room:.0} % more",
                self.name(region)
            )
        })
    }

    fn name(&self, of_region: &RegionEstimate) -> String {
        let region = self.region(of_region);
        name(region, self.program(region))
    }

    fn helps_throughput(&self) -> bool {
        let throughput = |point: &&PointSummary| matches!(point.target, Target::Throughput(_));
        let helps = |point: &PointSummary| self.of(point).iter().any(|(_, e)| e.verdict == Verdict::Helps);
        self.points.iter().filter(throughput).any(helps)
    }

    fn of(&self, point: &PointSummary) -> Vec<(&RegionEstimate, &PointEstimate)> {
        self.ranked(point.target)
    }

    fn helps(&self, point: &PointSummary) -> String {
        let (region, best) = self.of(point)[0];
        format!("{}; {}.", self.claim(region, best, point), self.others(point, self.has_untried(region)))
    }

    /// Whether anything else may be worth as much as the best region, as a sentence.
    pub(crate) fn others_in_words(&self, point: &PointSummary, untried: bool) -> String {
        format!("{}.", capitalized(&self.others(point, untried)))
    }

    /// Whether other code than that of a region has much of the CPU time, and is not judged yet.
    fn has_untried(&self, best: &RegionEstimate) -> bool {
        let region = |id| &self.rows.regions[&id];
        self.candidates.iter().any(|one| {
            let of_best = region(one.region).function.is_some()
                && region(one.region).function == self.region(best).function
                && region(one.region).file == self.region(best).file;
            one.share.is_some_and(|share| share >= HOT) && !of_best
        })
    }

    /// The same without a full stop. `untried`: whether there is code that matters, perhaps, and is not judged yet.
    fn others(&self, point: &PointSummary, untried: bool) -> String {
        let ranked = self.of(point);
        let (region, best) = ranked[0];
        // Over all speedups, or at the one that people are shown.
        let beats = |e: &PointEstimate| {
            let by_slope = e.slope.zip(best.slope).is_some_and(|(other, best)| other.overlaps(&best));
            let by_effect = e.effect.zip(best.effect).is_some_and(|(other, best)| other.hi >= best.value);
            by_slope || by_effect
        };
        // A line of the best function, or the function of the best line, is no rival.
        let others = || ranked[1..].iter().filter(|(r, _)| !nested(self.region(region), self.region(r)));
        let rival = others().find(|(_, e)| e.verdict == Verdict::Helps && beats(e));
        let with = |verdict| {
            let found = others().filter(move |(_, e)| e.verdict == verdict && beats(e));
            match &found.map(|(region, _)| self.name(region)).collect::<Vec<_>>()[..] {
                [] => None,
                [one] => Some(one.clone()),
                [one, other] => Some(format!("{one} and {other}")),
                [one, other, third] => Some(format!("{one}, {other} and {third}")),
                [one, other, more @ ..] => {
                    Some(format!("{one}, {other} and {} more pieces of code", more.len()))
                }
            }
        };
        if let Some(doubted) = with(Verdict::NotTrusted) {
            return format!("the numbers of {doubted} are not to be trusted");
        }
        match (rival, with(Verdict::NotEnoughData)) {
            (Some((other, _)), _) => format!("{} may be worth as much", self.name(other)),
            (None, Some(open)) => format!("{open} may be worth as much: too little is known yet"),
            (None, None) if untried && others().next().is_none() => {
                "nothing else was tried often enough to be judged".into()
            }
            (None, None) if untried => "nothing else that was tried is worth more".into(),
            (None, None) => "nothing else you could change is worth more".into(),
        }
    }

    fn hurts(&self, point: &PointSummary) -> String {
        let ranked = self.of(point);
        let worst = ranked.iter().find(|(_, e)| e.verdict == Verdict::Hurts);
        let open = ranked.iter().any(|(_, e)| e.verdict == Verdict::NotEnoughData);
        let rest = if open { "nothing is known to help yet" } else { "nothing you could change helps" };
        match worst {
            Some((region, worst)) => {
                format!("{}: contention; {rest}.", self.claim(region, worst, point))
            }
            None => self.nothing(),
        }
    }

    /// The region that would be the best, if its numbers could be trusted.
    fn distrusted(&self, point: &PointSummary) -> String {
        if let Some(why) = self.held_up_latency(point) {
            return format!("{}: {why}.", no_answer(point));
        }
        let ranked = self.of(point);
        let doubt = |region: &RegionEstimate| region.audit.as_ref().and_then(Audited::doubt);
        let Some((region, doubt)) = ranked.iter().find_map(|(region, _)| Some((region, doubt(region)?)))
        else {
            return self.nothing();
        };
        format!("The numbers for {} are not to be trusted: {doubt}; {}.", self.name(region), doubt.advice())
    }

    fn open(&self, point: &PointSummary) -> String {
        let ranked = self.of(point);
        let Some((region, best)) = ranked.iter().find(|(_, e)| e.verdict == Verdict::NotEnoughData) else {
            return self.nothing();
        };
        if let Some(decided) = self.decided(point) {
            return decided;
        }
        let longer = self.advice_on(best).unwrap_or_else(|| "let the program run longer".into());
        let known = match best.effect {
            Some(effect) if effect.says_something() => {
                format!(" (now {} at {REFERENCE})", plus_minus(&effect, effect.value))
            }
            _ => String::new(),
        };
        format!(
            "Not enough data yet to say what makes {} faster; the best candidate is {}{known}: {longer}.",
            subject(point),
            self.name(region),
        )
    }

    fn nothing(&self) -> String {
        let point = self.points.iter().find(|point| !point.idle).unwrap_or(&self.points[0]);
        let is_latency = |point: &PointSummary| matches!(point.target, Target::Latency { .. });
        let load = Load::of(&self.rows.windows);
        if load.is_some_and(Load::is_full) {
            return format!("Nothing that was tried makes {} faster.", subject(point));
        }
        if load.is_some() && !self.points.iter().any(is_latency) {
            return format!(
                "Nothing that was tried makes {} faster; measure the latency of a request instead (mark its begin and its end, or --latency)",
                subject(point)
            ) + ".";
        }
        format!(
            "Nothing that was tried makes {} faster: it waits for something else; widen the scope, or look \
             at input, output and sleeps.",
            subject(point)
        )
    }

    /// "20 % less time in X makes P 11 % ± 2 % shorter", without a full stop.
    fn claim(&self, region: &RegionEstimate, estimate: &PointEstimate, point: &PointSummary) -> String {
        let (name, subject) = (self.name(region), subject(point));
        let word = |better: bool| if better { "shorter" } else { "longer" };
        // The verdict is about the slope, which is that of all speedups together.
        let better = estimate.verdict != Verdict::Hurts;
        let said = |effect: &Estimate, better: bool| {
            plus_minus(effect, if better { effect.value } else { -effect.value }) + " " + word(better)
        };
        match (&estimate.effect, &estimate.slope) {
            // A curve that goes up first and down later, or the other way round.
            (Some(effect), Some(slope)) if is_seen(effect) && (effect.value > 0.0) != better => format!(
                "Less time in {name} makes {subject} {} over all speedups (slope {}), though {} at {REFERENCE}",
                word(better),
                format!("{:.2} ± {:.2}", slope.value, slope.half_width()).replace('-', "−"),
                said(effect, !better),
            ),
            // All speedups together are certain, this one is not.
            (Some(effect), Some(slope)) if effect.lo <= 0.0 && effect.hi >= 0.0 => format!(
                "Less time in {name} makes {subject} {} over all speedups (slope {}), but how much at {REFERENCE} is not certain ({})",
                word(better),
                format!("{:.2} ± {:.2}", slope.value, slope.half_width()).replace('-', "−"),
                said(effect, better),
            ),
            (Some(effect), _) => {
                format!("{REFERENCE} less time in {name} makes {subject} {}", said(effect, better))
            }
            (None, _) => format!("{REFERENCE} less time in {name} makes {subject} {}", word(better)),
        }
    }
}

/// The headline where the run has changed what it measured.
pub(crate) fn no_answer(point: &PointSummary) -> String {
    format!("No answer for {}: counting it slowed the program down", subject(point))
}

/// What arrivals do to throughput, without a full stop.
pub(crate) fn limited(load: Load) -> String {
    if load.is_full() {
        return "Requests come at times of their own, and the program was busy all the time while it was profiled: if it keeps up with them without the \
                profiler, throughput is limited by arrivals; measure again with less load, or measure latency"
            .into();
    }
    let room = 1.0 / load.busy.max(0.01);
    let room = if room < 9.95 { format!("{room:.1}") } else { "10 or more".into() };
    format!(
        "Throughput is limited by arrivals: the threads that serve them are busy for {:.0} % of the time, which leaves room for {room} times the load",
        100.0 * load.busy
    )
}

/// Whether anything of it is left when it is rounded.
fn is_seen(effect: &Estimate) -> bool {
    effect.value.abs() >= 0.0005
}

/// Whether one is a line of the other, a function.
fn nested(a: &Region, b: &Region) -> bool {
    a.kind != b.kind && a.function.is_some() && a.function == b.function && a.file == b.file
}

/// The text with a capital letter in front.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

pub(crate) fn subject(point: &PointSummary) -> String {
    match point.target {
        Target::Throughput(_) if point.whole => "the whole program".into(),
        Target::Throughput(_) => per_visit(point),
        Target::Latency { .. } => format!("the latency of {}", per_visit(point)),
    }
}

/// What a visit of a point is called: `` `insert` ``.
pub(crate) fn per_visit(point: &PointSummary) -> String {
    format!("`{}`", printable(&point.name))
}

/// A region in a sentence: `hash.c:88`, `work` (hash.c:80), `work` with all it calls (hash.c:80); and with its program, where that has to be told:
/// `work` of `worker` (hash.c:80).
pub(crate) fn name(region: &Region, program: Option<&str>) -> String {
    let name = printable(&region.name);
    let program = program.map_or_else(String::new, |program| format!(" of `{}`", printable(program)));
    let callees = if region.inclusive { " with all it calls" } else { "" };
    match (region.kind, region.location()) {
        (RegionKind::Function, Some(location)) => {
            format!("`{name}`{program}{callees} ({})", printable(&location))
        }
        _ => format!("`{name}`{program}{callees}"),
    }
}

/// A fraction and half the interval of `estimate`, as `11 % ± 2 %`; with a decimal where whole per cents
/// would hide everything.
pub fn plus_minus(estimate: &Estimate, value: f64) -> String {
    let (value, half) = (value * 100.0, estimate.half_width() * 100.0);
    let decimals = usize::from(half < 0.95 || value.abs() < 0.95);
    let value = if value.abs() < 0.05 { 0.0 } else { value }; // never "−0"
    format!("{value:.decimals$} % ± {half:.decimals$} %").replace('-', "−")
}
