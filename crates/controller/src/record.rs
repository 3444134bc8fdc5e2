//! Writing down: what was measured becomes rows of the recording.

use crate::audit::Waits;
use crate::balance::Closing;
use crate::hint::Costs;
use crate::observe::{Observer, Seen};
use crate::region::RegionIndex;
use crate::window::Measured;
use anyhow::Result;
use profile::{
    Audit, Books, Epoch, InFlight, Latencies, Nanos, Point, PointId, PointKind, Production, Program,
    Recorder, Region, RegionId, RegionSamples, SampleTotals, SessionId, Snippet, Speedup, Visits, Window,
    WindowFlags,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Lines of source kept on either side of a region's first line.
const SNIPPET_RADIUS: u32 = 6;
/// Regions whose samples are kept although no experiment was about them: the most sampled ones.
const KEPT_REGIONS: usize = 500;

/// What the audit of a window counted.
fn audit(measured: &Measured, seen: &Seen, cpus: u32) -> Audit {
    let (before, after) = (&measured.before, &measured.after);
    let change = |field: fn(&wire::slot::Totals) -> wire::Nanos| {
        Nanos::new(field(after).saturating_sub(field(before)).0)
    };
    let waits = measured.waits.unwrap_or_default();
    let handovers = after.handovers.saturating_sub(before.handovers);
    Audit {
        given: change(|t| t.credited).saturating_sub(change(|t| t.asleep)),
        deferred: change(|t| t.deferred).saturating_sub(change(|t| t.caught_up)),
        spinning: seen.spinning,
        late: seen.late,
        unknown_code: seen.unknown_code,
        extra: seen.extra,
        cut: seen.deep,
        cpu: waits.cpu,
        pausing: waits.pausing,
        unprofiled: waits.unprofiled,
        watched: waits.watched,
        blocked: waits.blocked,
        in_waits: waits.in_waits,
        in_world: waits.in_world,
        in_hidden: waits.in_hidden,
        in_pauses: waits.in_pauses,
        queued: waits.queued,
        unexplained: waits.unexplained,
        inherited: change(|t| t.inherited),
        grown: change(|t| t.grown),
        taken_back: change(|t| t.taken_back),
        serving: change(|t| t.serving),
        idle: change(|t| t.idle),
        doubtful: change(|t| t.doubtful),
        handovers,
        sections: after.sections.saturating_sub(before.sections),
        waking: waking(handovers, &waits, measured.elapsed, cpus),
        sliced: waits.sliced,
        sliced_virtual: waits.sliced_virtual,
        sliced_queued: waits.sliced_queued,
        crowded: after.crowded.saturating_sub(before.crowded),
        noting: change(|t| t.noting),
        answered: change(|t| t.answered),
        executing: measured.executing,
        allowed: measured.budget.allowed,
        throttled: measured.budget.throttled,
        held_up: measured.budget.held_up,
    }
}

/// How long CPUs that slept may have taken until threads ran that were woken `handovers` times: see [`Audit::waking`].
fn waking(handovers: u64, waits: &Waits, elapsed: Nanos, cpus: u32) -> Nanos {
    let slept = Duration::from_nanos(waits.in_waits.get() / handovers.max(1));
    let each = kernel::wakeup::Cost::known().map_or(0, |cost| cost.after(slept).0);
    let idle = Nanos::new(elapsed.get().saturating_mul(cpus.into())).saturating_sub(waits.cpu);
    Nanos::new(each.saturating_mul(handovers)).min(waits.in_waits).min(idle)
}

/// The samples of the run so far, copied so that the observer can go on while they are written.
#[derive(Debug)]
pub struct Tallies {
    time: Nanos,
    all: (u64, Nanos),
    timed: u64,
    regions: Vec<(RegionIndex, Region, u64, Nanos)>,
    programs: Vec<Program>,
}

impl Tallies {
    /// The most sampled regions, and those that experiments were about.
    pub fn of(observer: &Observer, session: &Session, time: Nanos) -> Self {
        let known = observer.regions();
        let mut order: Vec<RegionIndex> =
            observer.numbered().filter(|(_, known)| known.samples > 0).map(|(index, _)| index).collect();
        order.sort_by_key(|index| std::cmp::Reverse(known[*index].samples));
        let kept = order
            .into_iter()
            .enumerate()
            .filter(|(rank, index)| *rank < KEPT_REGIONS || session.regions.contains_key(index));
        let regions = kept
            .map(|(_, index)| (index, known[index].region.clone(), known[index].samples, known[index].weight))
            .collect();
        let programs = observer.images().programs().so_far();
        Self { time, all: observer.totals(), timed: observer.timed(), regions, programs }
    }
}

/// What a window is to measure, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct Assignment {
    pub block: i64,
    pub index: u32,
    pub region: RegionIndex,
    pub speedup: Speedup,
}

/// A session that is being recorded.
#[derive(Debug)]
pub struct Session {
    recorder: Recorder,
    id: SessionId,
    /// Start of the session on the monotonic clock.
    start: Nanos,
    period: Nanos,
    /// CPUs that the program may use.
    cpus: u32,
    regions: HashMap<RegionIndex, RegionId>,
    points: BTreeMap<PointId, Point>,
    snippets: HashSet<RegionId>,
    /// Regions whose cost in production is written.
    in_production: HashSet<RegionId>,
}

impl Session {
    pub fn begin(mut recorder: Recorder, start: Nanos, facts: &profile::SessionStart) -> Result<Self> {
        let id = recorder.begin_session(facts)?;
        Ok(Self {
            recorder,
            id,
            start,
            period: facts.sample_period,
            cpus: facts.cpus,
            regions: HashMap::new(),
            points: BTreeMap::new(),
            snippets: HashSet::new(),
            in_production: HashSet::new(),
        })
    }

    /// The row of a window.
    pub fn window(
        &mut self,
        points: &[Point],
        observer: &Observer,
        assigned: Assignment,
        measured: &Measured,
        seen: Seen,
        busy: Option<f64>,
    ) -> Result<Window> {
        let mut visits = Vec::new();
        let mut ids = Vec::new();
        for ((point, count), span) in points.iter().zip(measured.visits.iter().copied()).zip(&measured.spans)
        {
            let id = self.point(point)?;
            ids.push(id);
            visits.push(Visits { point: id, count, span: *span });
        }
        let in_flight = measured
            .in_flight
            .iter()
            .filter(|of| points.get(of.pair.0).is_some_and(|point| point.kind == PointKind::Begin))
            .map(|of| InFlight { begin: ids[of.pair.0], integral: of.integral() })
            .collect();
        let latencies = measured
            .latencies
            .iter()
            .map(|(begin, counts)| Latencies { begin: ids[*begin], counts: counts.clone() })
            .collect();
        let change = |field: fn(&wire::slot::Totals) -> wire::Nanos| {
            Nanos::new(field(&measured.after).0 - field(&measured.before).0)
        };
        let books = Books {
            owed: Nanos::new(measured.required.get() * u64::from(measured.threads))
                + change(|t| t.taken_back),
            paid: change(|t| t.paid),
            credited: change(|t| t.credited)
                + change(|t| t.inherited)
                + change(|t| t.answered)
                + change(|t| t.spun)
                + change(|t| t.hidden)
                + change(|t| t.queued),
            overslept: change(|t| t.overslept),
            unpaid: measured.unpaid,
        };
        let region = self.region(assigned.region, &observer.regions()[assigned.region].region)?;
        Ok(Window {
            session: self.id,
            block: assigned.block,
            index: assigned.index,
            region,
            speedup: assigned.speedup,
            epoch: Epoch::new(u64::from(measured.epoch.0)),
            start: measured.start.saturating_sub(self.start),
            elapsed: measured.elapsed,
            required: measured.required,
            visits,
            in_flight,
            latencies,
            region_samples: seen.region.0,
            region_weight: seen.region.1,
            total_samples: seen.all.0,
            total_weight: seen.all.1,
            books,
            audit: Some(audit(measured, &seen, self.cpus)),
            threads: measured.threads,
            busy,
            flags: self.doubts(measured, &seen, busy),
        })
    }

    /// What is doubtful about a window.
    fn doubts(&self, measured: &Measured, seen: &Seen, busy: Option<f64>) -> WindowFlags {
        let mut flags = WindowFlags::NONE;
        let closing = Closing {
            period: profile::between_samples(seen.all, self.period),
            required: measured.required,
            unpaid: measured.unpaid,
            running: measured.running,
            ahead: measured.ahead,
        };
        if !closing.balances() {
            flags = flags.with(WindowFlags::UNBALANCED);
        }
        if measured.after.lost > measured.before.lost {
            flags = flags.with(WindowFlags::LOST_SAMPLES);
        }
        if busy.is_some_and(|share| share > WindowFlags::BUSY_ABOVE) {
            flags = flags.with(WindowFlags::BUSY);
        }
        if measured.in_flight.iter().any(|of| of.is_unmatched()) {
            flags = flags.with(WindowFlags::UNMATCHED);
        }
        flags
    }

    /// Writes the windows of one experiment.
    pub fn block(&mut self, windows: &[Window]) -> Result<()> {
        Ok(self.recorder.add_block(windows)?)
    }

    /// The progress points that windows have seen.
    pub fn points(&self) -> &BTreeMap<PointId, Point> {
        &self.points
    }

    /// The key of a progress point, which is written if it has not been.
    pub fn point(&mut self, point: &Point) -> Result<PointId> {
        let id = self.recorder.intern_point(point)?;
        self.points.entry(id).or_insert_with(|| point.clone());
        Ok(id)
    }

    /// The key of a region that has been written.
    pub fn region_id(&self, index: RegionIndex) -> Option<RegionId> {
        self.regions.get(&index).copied()
    }

    /// The key of a region, which is written if it has not been.
    pub fn region(&mut self, index: RegionIndex, region: &Region) -> Result<RegionId> {
        if let Some(id) = self.regions.get(&index) {
            return Ok(*id);
        }
        let id = self.recorder.intern_region(region)?;
        self.regions.insert(index, id);
        if self.snippets.insert(id)
            && let (Some(file), Some(line)) = (&region.file, region.line)
        {
            let lines = symbols::snippet(file, line, SNIPPET_RADIUS);
            if !lines.is_empty() {
                let first_line = lines[0].0;
                let text = lines.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n");
                self.recorder.add_snippet(id, &Snippet { first_line, text })?;
            }
        }
        Ok(id)
    }

    /// Writes the samples of the run so far.
    pub fn samples(&mut self, tallies: Tallies, delayed: Nanos, lost: u64) -> Result<()> {
        let mut rows = Vec::with_capacity(tallies.regions.len());
        for (index, region, count, weight) in tallies.regions {
            let region = self.region(index, &region)?;
            rows.push(RegionSamples { session: self.id, region, count, weight });
        }
        let until = tallies.time.saturating_sub(self.start);
        let (count, weight) = tallies.all;
        let totals = SampleTotals { until, delayed, count, weight, lost, timed: tallies.timed };
        self.recorder.set_programs(self.id, &tallies.programs)?;
        Ok(self.recorder.set_samples(self.id, &totals, &rows)?)
    }

    /// Writes what threads have done so far.
    pub fn threads(&mut self, threads: &[profile::Thread]) -> Result<()> {
        Ok(self.recorder.set_threads(self.id, threads)?)
    }

    /// Writes what sampling has been seen to cost so far.
    pub fn overhead(&mut self, pairs: &[profile::OverheadPair]) -> Result<()> {
        Ok(self.recorder.set_overhead(self.id, pairs)?)
    }

    /// Writes the stacks of the run.
    pub fn stacks(&mut self, stacks: &profile::Stacks) -> Result<()> {
        Ok(self.recorder.set_stacks(self.id, stacks)?)
    }

    /// Writes what is known of arrivals from outside by now.
    pub fn arrivals(&mut self, memory: &wire::SharedMemory) -> Result<()> {
        let known: Vec<_> = super::clocks::known(&memory.arrivals).collect();
        Ok(self.recorder.set_arrivals(self.id, &known)?)
    }

    /// Writes what the regions that have been written cost in production.
    pub fn production(&mut self, observer: &Observer, costs: &Costs) -> Result<()> {
        let mut rows = Vec::new();
        for (index, region) in &self.regions {
            let known = &observer.regions()[*index];
            let cost = costs.of(*index, &known.region, known.named);
            if let Some(cost) = cost.filter(|_| self.in_production.insert(*region)) {
                rows.push(Production {
                    session: self.id,
                    region: *region,
                    share: cost.share,
                    samples: cost.samples,
                    since: costs.span.since,
                    until: costs.span.until,
                    hosts: costs.span.hosts,
                });
            }
        }
        Ok(self.recorder.set_production(&rows)?)
    }

    /// Writes a doubt, or why there is no answer.
    pub fn warn(&mut self, warning: impl Into<profile::Warning>) -> Result<()> {
        Ok(self.recorder.add_warning(self.id, &warning.into())?)
    }

    /// Writes which images code was found in.
    pub fn images(&mut self, observer: &Observer) -> Result<()> {
        for image in observer.images().named() {
            self.recorder.add_image(self.id, image)?;
        }
        Ok(())
    }

    /// Writes the end of the session and closes the file.
    /// `stopped`: whether the program had been asked to end.
    pub fn finish(mut self, now: Nanos, exit: profile::Exit, stopped: bool) -> Result<()> {
        let end = profile::SessionEnd { duration: now.saturating_sub(self.start), exit, stopped };
        self.recorder.finish_session(self.id, &end)?;
        Ok(self.recorder.close()?)
    }
}
