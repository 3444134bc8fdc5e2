//! Explanations: the windows behind the numbers of one region.
//!
//! **Does:** find the region that the user means, and lay out its blocks and the sums that its estimates are
//! made of, so that every number can be computed again by hand. **Does not:** estimate: the sums come from the
//! code that estimates. **Place:** sample → delay → experiment → record → **profile** → report.

use std::collections::BTreeMap;

use crate::audit::{self, Audited};
use crate::estimate::{
    self, About, Experiments, LeftOutReason, Pairs, Phase, Reading, Target, Trend, Working,
};
use crate::model::{Books, Region, RegionId, Session, SessionId, Window, WindowFlags};
use crate::ranking::{PointSummary, Profile, RegionEstimate};
use crate::units::Speedup;

/// Everything that the numbers of one region are made of.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// The profile it explains.
    pub profile: &'a Profile,
    /// The region.
    pub region: RegionId,
    /// What was estimated, or why nothing was.
    pub estimate: Result<&'a RegionEstimate, WithoutEstimate>,
    /// What the phase correction is made of; `None` without a usable window.
    pub phase: Option<Phase>,
    /// The delay accounts, summed over the windows at each speedup, ascending.
    pub books: Vec<(Speedup, Books)>,
    /// One for each of [`Profile::points`] that is not idle.
    pub points: Vec<PointExplanation>,
}

/// Why a region has windows, but no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutEstimate {
    /// No baseline window counts.
    WithoutBaseline,
    /// It was tried at fewer than five speedups, and the user did not ask for exactly those.
    FewSpeedups,
}

/// What one target's numbers are made of.
#[derive(Clone, Debug)]
pub struct PointExplanation {
    /// The target.
    pub target: Target,
    /// The blocks in the order of time, one row for each treated window.
    pub blocks: Vec<BlockRow>,
    /// The sums over the blocks that count; `None` where nothing was estimated.
    pub working: Option<Working>,
}

/// A treated window and its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockRow {
    /// The session.
    pub session: SessionId,
    /// The block in the session.
    pub block: i64,
    /// The baseline windows of the block together: those that count, or else all.
    pub baseline: Option<Reading>,
    /// Why none of the baseline windows counts, if so.
    pub baseline_left_out: Option<LeftOutReason>,
    /// The speedup of the treated window, and what it showed; `None` if there is none in the block.
    pub treated: Option<(Speedup, Reading)>,
    /// Why it is left out, if it is.
    pub left_out: Option<LeftOutReason>,
    /// The flags of all these windows.
    pub flags: WindowFlags,
    /// Whether the queue grew or shrank in one of them: a latency is not in a steady state.
    pub unsteady: bool,
    /// Which segment of the session the baseline lies in, from 0; see [`Drift`](crate::Drift).
    pub segment: usize,
}

impl BlockRow {
    /// What this block alone says: 1 − p / p₀. `None` where there is nothing to compare.
    pub fn gain(&self) -> Option<f64> {
        let (_, treated) = self.treated?;
        let gain = 1.0 - treated.period_ns()? / self.baseline?.period_ns()?;
        gain.is_finite().then_some(gain)
    }
}

/// Why a name is not a region's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// The recording has no windows at all.
    #[error("there is nothing to explain: no experiment was completed")]
    NoWindows,
    /// No region is called that.
    #[error("no region that was tried has `{wanted}` in its name; give one of:{}", list(.candidates))]
    None {
        /// What was asked for.
        wanted: String,
        /// What there is, the most tried first.
        candidates: Vec<String>,
    },
    /// Several are.
    #[error("{} regions have `{wanted}` in their name; give more of one of:{}", .candidates.len(), list(.candidates))]
    Several {
        /// What was asked for.
        wanted: String,
        /// Those.
        candidates: Vec<String>,
    },
}

/// How many candidates are listed.
const LISTED: usize = 20;

/// One candidate per line.
fn list(candidates: &[String]) -> String {
    let mut lines: String = candidates.iter().take(LISTED).map(|name| format!("\n  {name}")).collect();
    if candidates.len() > LISTED {
        lines.push_str(&format!("\n  … and {} more", candidates.len() - LISTED));
    }
    lines
}

impl Profile {
    /// Explains the region that `wanted` means: the one with exactly this name, or with exactly this name and
    /// place as reports show them (`work hash.c:80`), or else the only one that has it as a part of these, or of
    /// the full name of its function.
    ///
    /// # Errors
    ///
    /// [`Unexplained`] lists the candidates if there is not exactly one.
    pub fn explain(&self, wanted: &str) -> Result<Explanation<'_>, Unexplained> {
        let region = self.find(wanted)?;
        let (experiments, _) = estimate::experiments(&self.rows.windows);
        let of_region = experiments.iter().find(|experiments| experiments.region == region);
        let of_region = of_region.filter(|experiments| experiments.has_baseline());
        let estimated = self.regions.iter().find(|estimate| estimate.region == region);
        let without =
            if of_region.is_some() { WithoutEstimate::FewSpeedups } else { WithoutEstimate::WithoutBaseline };
        let points = self.points.iter().filter(|point| !point.idle);
        Ok(Explanation {
            profile: self,
            region,
            estimate: estimated.ok_or(without),
            phase: of_region.map(|experiments| {
                estimate::phase_of(experiments, &self.rows, &estimate::TreatedSums::of(&self.rows.windows))
            }),
            books: self.books(region),
            points: points.map(|point| self.explain_point(region, of_region, point.about_in(self))).collect(),
        })
    }

    fn explain_point(
        &self,
        region: RegionId,
        experiments: Option<&Experiments<'_>>,
        about: About<'_>,
    ) -> PointExplanation {
        let working = |experiments| estimate::working_of(experiments, about, &self.options);
        let pairs = experiments.map(|experiments| experiments.pairs(about));
        PointExplanation {
            target: about.target,
            blocks: self.blocks(region, about, pairs.as_ref()),
            working: experiments.and_then(working),
        }
    }

    fn windows_of(&self, region: RegionId) -> impl Iterator<Item = &Window> {
        self.rows.windows.iter().filter(move |window| window.region == region)
    }

    fn books(&self, region: RegionId) -> Vec<(Speedup, Books)> {
        let mut books: BTreeMap<Speedup, Books> = BTreeMap::new();
        for window in self.windows_of(region).filter(|window| LeftOutReason::of(window).is_none()) {
            let sum = books.entry(window.speedup).or_default();
            let more = window.books;
            *sum = Books {
                owed: sum.owed + more.owed,
                paid: sum.paid + more.paid,
                credited: sum.credited + more.credited,
                overslept: sum.overslept + more.overslept,
                unpaid: sum.unpaid + more.unpaid,
            };
        }
        books.into_iter().collect()
    }

    fn blocks(&self, region: RegionId, about: About<'_>, pairs: Option<&Pairs>) -> Vec<BlockRow> {
        let mut blocks = Blocks::new();
        for window in self.windows_of(region) {
            blocks.entry((window.session, window.block)).or_default().push(window);
        }
        all_rows(&blocks, about, pairs)
    }

    /// The blocks of every region that was tried, in the order of time, for each of [`Profile::points`]; none for a
    /// point that is idle.
    pub fn blocks_by_region(&self) -> BTreeMap<RegionId, Vec<Vec<BlockRow>>> {
        let mut by_region: BTreeMap<RegionId, Blocks<'_>> = BTreeMap::new();
        for window in &self.rows.windows {
            let blocks = by_region.entry(window.region).or_default();
            blocks.entry((window.session, window.block)).or_default().push(window);
        }
        let (experiments, _) = estimate::experiments(&self.rows.windows);
        let experiments: BTreeMap<RegionId, &Experiments<'_>> =
            experiments.iter().filter(|of| of.has_baseline()).map(|of| (of.region, of)).collect();
        let of_region = |(region, blocks): (RegionId, Blocks<'_>)| {
            let of_point = |point: &PointSummary| {
                if point.idle {
                    return Vec::new();
                }
                let about = point.about_in(self);
                let pairs = experiments.get(&region).map(|experiments| experiments.pairs(about));
                all_rows(&blocks, about, pairs.as_ref())
            };
            (region, self.points.iter().map(of_point).collect())
        };
        by_region.into_iter().map(of_region).collect()
    }

    /// The region that the user means.
    fn find(&self, wanted: &str) -> Result<RegionId, Unexplained> {
        let mut tried: BTreeMap<RegionId, usize> = BTreeMap::new();
        for window in &self.rows.windows {
            *tried.entry(window.region).or_default() += 1;
        }
        if tried.is_empty() {
            return Err(Unexplained::NoWindows);
        }
        let mut tried: Vec<(RegionId, usize)> = tried.into_iter().collect();
        tried.sort_by_key(|(region, windows)| (std::cmp::Reverse(*windows), *region));
        let having = |is_meant: &dyn Fn(RegionId) -> bool| -> Vec<RegionId> {
            tried.iter().map(|(id, _)| *id).filter(|id| is_meant(*id)).collect()
        };
        let region = |id| &self.rows.regions[&id];
        let found = [
            having(&|id| region(id).name == wanted),
            having(&|id| {
                region(id).label() == wanted
                    || self.label(region(id)) == wanted
                    || self.unique_label(id) == wanted
            }),
            having(&|id| self.label(region(id)).contains(wanted)),
            having(&|id| region(id).function.as_ref().is_some_and(|name| name.contains(wanted))),
        ];
        let found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        let labels = |ids: &[RegionId]| -> Vec<String> {
            let labels = ids.iter().map(|id| crate::printable(&self.unique_label(*id)).into_owned());
            labels.collect()
        };
        let wanted = crate::printable(wanted).into_owned();
        match found[..] {
            [only] => Ok(only),
            [] => Err(Unexplained::None {
                wanted,
                candidates: labels(&tried.iter().map(|(id, _)| *id).collect::<Vec<_>>()),
            }),
            _ => Err(Unexplained::Several { wanted, candidates: labels(&found) }),
        }
    }

    /// The label of a region, with its image where another region has the same one.
    fn unique_label(&self, id: RegionId) -> String {
        let region = &self.rows.regions[&id];
        let label = region.label();
        let same = |other: &&Region| other.label() == label;
        if self.rows.regions.values().filter(same).count() < 2 {
            return label;
        }
        let file = region.file.as_deref().unwrap_or("");
        format!("{label} ({file}, {})", region.image.path)
    }
}

/// Windows by block, in the order of time.
type Blocks<'a> = BTreeMap<(SessionId, i64), Vec<&'a Window>>;

fn all_rows(blocks: &Blocks<'_>, about: About<'_>, pairs: Option<&Pairs>) -> Vec<BlockRow> {
    blocks.values().flat_map(|windows| rows_of(windows, about, pairs)).collect()
}

/// The rows of one block.
fn rows_of(windows: &[&Window], about: About<'_>, pairs: Option<&Pairs>) -> Vec<BlockRow> {
    let target = about.target;
    let (baselines, treated): (Vec<&Window>, Vec<&Window>) =
        windows.iter().copied().partition(|window| window.speedup.is_zero());
    let counting: Vec<&Window> =
        baselines.iter().copied().filter(|window| LeftOutReason::of(window).is_none()).collect();
    let shown = if counting.is_empty() { &baselines } else { &counting };
    let block = (windows[0].session, windows[0].block);
    let short = counting.iter().any(|window| about.is_short(window)).then_some(LeftOutReason::Short);
    let all_disturbed = pairs.is_some_and(|pairs| pairs.is_all_disturbed(block));
    let left_out = |treated: &Window| {
        let disturbed = pairs.is_some_and(|pairs| pairs.is_disturbed(block, treated.speedup));
        LeftOutReason::of(treated)
            .or(counting.is_empty().then_some(LeftOutReason::Unpaired))
            .or(short)
            .or(counting
                .first()
                .is_some_and(|baseline| about.straddles(treated, baseline))
                .then_some(LeftOutReason::Straddling))
            .or(disturbed.then_some(LeftOutReason::Disturbed))
    };
    let row = |treated: Option<&Window>| {
        let beside = || shown.iter().copied().chain(treated);
        BlockRow {
            session: block.0,
            block: block.1,
            baseline: (!shown.is_empty())
                .then(|| shown.iter().map(|window| Reading::new(target, window)).sum()),
            baseline_left_out: shown
                .first()
                .and_then(|window| LeftOutReason::of(window))
                .or(short)
                .or(all_disturbed.then_some(LeftOutReason::Disturbed)),
            treated: treated.map(|window| (window.speedup, Reading::new(target, window))),
            left_out: treated.and_then(left_out),
            flags: beside().fold(WindowFlags::NONE, |flags, window| flags.with(window.flags)),
            unsteady: beside()
                .any(|window| Trend::of(target, window).is_some_and(|trend| trend != Trend::Steady)),
            segment: shown.first().map_or(0, |window| about.segment(window.session, window.start)),
        }
    };
    if treated.is_empty() {
        return vec![row(None)];
    }
    treated.into_iter().map(|window| row(Some(window))).collect()
}

impl Explanation<'_> {
    /// What its audit came to; `None` where there was none.
    pub fn audit(&self) -> Option<Audited> {
        let periods = self.sessions().map(|session| session.start.sample_period);
        audit::of(self.profile.rows.windows.iter(), self.region, periods.max().unwrap_or_default())
    }

    /// The sessions with windows of the region.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        let has = |session: &&Session| self.profile.windows_of(self.region).any(|w| w.session == session.id);
        self.profile.rows.sessions.iter().filter(has)
    }
}
