//! Writing down: what was measured becomes rows of the recording.

use crate::run::observe::Observer;
use crate::run::window::{self, Measured};
use anyhow::Result;
use profile::{
    Books, Epoch, InFlight, Nanos, PointKind, Recorder, RegionId, RegionSamples, SampleTotals, SessionId,
    Snippet, Speedup, Visits, Window, WindowFlags,
};
use std::collections::{HashMap, HashSet};
use wire::SharedMemory;

/// Lines of source kept on either side of a region's first line.
const SNIPPET_RADIUS: u32 = 6;
/// Regions whose samples are kept although no experiment was about them: the most sampled ones.
const KEPT_REGIONS: usize = 500;
/// Debt per running thread that is still there at the end of a window without any doubt: what one or two
/// samples can have added since the thread last looked.
const NATURAL_DEBT: f64 = 2.0;

/// Samples of a region and of everything, at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    region: (u64, Nanos),
    all: (u64, Nanos),
}

impl Seen {
    pub fn of(observer: &Observer, region: usize) -> Self {
        let known = &observer.regions()[region];
        Self { region: (known.samples, known.weight), all: observer.totals() }
    }
}

/// Where a window belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub block: i64,
    pub index: u32,
    pub region: usize,
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
    regions: HashMap<usize, RegionId>,
    snippets: HashSet<RegionId>,
}

impl Session {
    pub fn begin(mut recorder: Recorder, start: Nanos, facts: &profile::SessionStart) -> Result<Self> {
        let id = recorder.begin_session(facts)?;
        Ok(Self {
            recorder,
            id,
            start,
            period: facts.sample_period,
            regions: HashMap::new(),
            snippets: HashSet::new(),
        })
    }

    /// The row of a window.
    pub fn window(
        &mut self,
        memory: &SharedMemory,
        observer: &Observer,
        place: Place,
        measured: &Measured,
        samples: (Seen, Seen),
        busy: Option<f64>,
    ) -> Result<Window> {
        let points = window::points(memory);
        let mut visits = Vec::new();
        let mut ids = Vec::new();
        for (point, count) in points.iter().zip(measured.visits.iter().copied()) {
            let id = self.recorder.intern_point(point)?;
            ids.push(id);
            visits.push(Visits { point: id, count });
        }
        let in_flight = measured
            .in_flight
            .iter()
            .filter(|((begin, _), _)| points.get(*begin).is_some_and(|point| point.kind == PointKind::Begin))
            .map(|((begin, _), integral)| InFlight { begin: ids[*begin], integral: *integral })
            .collect();
        let (before, after) = samples;
        let change = |field: fn(&wire::slot::Totals) -> wire::Nanos| {
            Nanos::new(field(&measured.after).0 - field(&measured.before).0)
        };
        let books = Books {
            owed: change(|t| t.paid) + change(|t| t.credited) + change(|t| t.inherited) + measured.unpaid,
            paid: change(|t| t.paid),
            credited: change(|t| t.credited) + change(|t| t.inherited),
            overslept: change(|t| t.overslept),
            unpaid: measured.unpaid,
        };
        let region = self.region(observer, place.region)?;
        Ok(Window {
            session: self.id,
            block: place.block,
            index: place.index,
            region,
            speedup: place.speedup,
            epoch: Epoch::new(u64::from(measured.epoch.0)),
            start: measured.start.saturating_sub(self.start),
            elapsed: measured.elapsed,
            required: measured.required,
            visits,
            in_flight,
            region_samples: after.region.0 - before.region.0,
            region_weight: after.region.1.saturating_sub(before.region.1),
            total_samples: after.all.0 - before.all.0,
            total_weight: after.all.1.saturating_sub(before.all.1),
            books,
            threads: measured.threads,
            busy,
            flags: self.doubts(measured, busy),
        })
    }

    /// Rule 11: do the books balance?
    fn doubts(&self, measured: &Measured, busy: Option<f64>) -> WindowFlags {
        let mut flags = WindowFlags::NONE;
        let per_thread = measured.unpaid.get() as f64 / f64::from(measured.running.max(1));
        let natural = NATURAL_DEBT * self.period.get() as f64;
        if per_thread > natural + 0.05 * measured.required.get() as f64 {
            flags = flags.with(WindowFlags::UNBALANCED);
        }
        if measured.after.lost > measured.before.lost {
            flags = flags.with(WindowFlags::LOST_SAMPLES);
        }
        if busy.is_some_and(|share| share > 0.1) {
            flags = flags.with(WindowFlags::BUSY);
        }
        flags
    }

    /// Writes the windows of one experiment.
    pub fn block(&mut self, windows: &[Window]) -> Result<()> {
        Ok(self.recorder.add_block(windows)?)
    }

    fn region(&mut self, observer: &Observer, index: usize) -> Result<RegionId> {
        if let Some(id) = self.regions.get(&index) {
            return Ok(*id);
        }
        let region = &observer.regions()[index].region;
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
    pub fn samples(&mut self, observer: &Observer, lost: u64, now: Nanos) -> Result<()> {
        let mut order: Vec<usize> =
            (0..observer.regions().len()).filter(|i| observer.regions()[*i].samples > 0).collect();
        order.sort_by_key(|i| std::cmp::Reverse(observer.regions()[*i].samples));
        let mut rows = Vec::new();
        for (rank, index) in order.into_iter().enumerate() {
            if rank >= KEPT_REGIONS && !self.regions.contains_key(&index) {
                continue;
            }
            let known = &observer.regions()[index];
            let (count, weight) = (known.samples, known.weight);
            rows.push(RegionSamples {
                session: self.id,
                region: self.region(observer, index)?,
                count,
                weight,
            });
        }
        let (count, weight) = observer.totals();
        let totals = SampleTotals { until: now.saturating_sub(self.start), count, weight, lost };
        Ok(self.recorder.set_samples(self.id, &totals, &rows)?)
    }

    pub fn warn(&mut self, warning: &profile::Warning) -> Result<()> {
        Ok(self.recorder.add_warning(self.id, warning)?)
    }

    /// Writes the end of the session and closes the file.
    pub fn finish(mut self, observer: &Observer, now: Nanos, exit: profile::Exit) -> Result<()> {
        for image in observer.images().named() {
            self.recorder.add_image(self.id, image)?;
        }
        let end = profile::SessionEnd { duration: now.saturating_sub(self.start), exit };
        self.recorder.finish_session(self.id, &end)?;
        Ok(self.recorder.close()?)
    }
}
