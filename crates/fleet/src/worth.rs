//! Worth: what making code faster brings, over all hosts, beside what the code costs.
//!
//! Runs come from a server or from recordings, and samples from a server or a local database; everything after that is the same code, in an order that follows from
//! what the rows say. So all of them give the same numbers to the last digit.

use crate::answers::{ALWAYS, asked, question};
use crate::arguments;
use crate::cost::Costs;
use crate::error::Error;
use crate::question::Question;
use crate::run::Run;
use crate::run_source::RunSource;
use crate::source::Source;
use crate::tried::{Code, Group, Service, program_of, services};
use profile::meta_analysis::{
    Basis, Fleet, HostSlope, Recorded, Variances, VersionId, Weights, Worth, audited, verdicts,
};
use profile::{Audited, Estimate, EstimateOptions, Mark, Nanos, REFERENCE, RegionId, Target, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

/// Half of an interval that is narrow enough, as a slope: 2 points.
pub const GOAL: f64 = 0.02;

/// The runs that were asked for.
pub struct Asked {
    question: Question,
    place: String,
    runs: Vec<Run>,
    broken: usize,
}

/// What making code faster is worth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Worths {
    /// The server, or what was read.
    pub database: String,
    /// What was asked for.
    pub selection: Vec<String>,
    /// When the first run began, in seconds since 1970.
    pub since: i64,
    /// When the last one ended.
    pub until: i64,
    /// Hosts that have made experiments.
    pub hosts: usize,
    /// Their runs.
    pub runs: usize,
    /// Windows of these.
    pub windows: usize,
    /// Runs of which windows are missing, which do not count.
    pub broken: usize,
    /// By how much less time gains are told.
    pub speedup: f64,
    /// Half of an interval of the slope that is narrow enough.
    pub goal: f64,
    /// What costs are from; `None` where there are no samples.
    pub cost: Option<CostOf>,
    /// Whether versions were asked for; they are there all the same.
    #[serde(skip)]
    pub by_version: bool,
    /// What was tried, with what to do first as the first.
    pub rows: Vec<CodeRow>,
    /// How many are not among them.
    pub more: usize,
}

/// What costs are from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostOf {
    /// What was sampled.
    pub event: String,
    /// Start of the span that samples are from, in seconds since 1970.
    pub since: Option<i64>,
    /// End of it.
    pub until: Option<i64>,
    /// Machines that were sampled.
    pub machines: usize,
    /// Samples of all that was asked for, idle CPUs left out.
    pub samples: u64,
    /// How many CPUs they stand for, on average; `None` where the event is no clock.
    pub cores: Option<f64>,
}

/// A piece of code, and something that becomes faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodeRow {
    /// The service.
    pub service: String,
    /// The progress point, or the latency.
    pub point: String,
    /// `throughput` or `latency`.
    pub kind: &'static str,
    /// The code.
    pub code: CodeAt,
    /// By name; in words: [`Verdict::words`].
    #[serde(serialize_with = "verdict_name")]
    pub verdict: Verdict,
    /// Why it is not trusted, if it is not.
    pub doubt: Option<String>,
    /// What to do about that.
    pub advice: Option<String>,
    /// What it is worth over all versions; `None` where no host has made five experiments.
    pub numbers: Option<Numbers>,
    /// What it costs; `None` where there are no samples of the service.
    pub cores: Option<Cores>,
    /// What to think of a cost and a worth that do not go together.
    #[serde(serialize_with = "mark_name")]
    pub mark: Option<Mark>,
    /// The same for each version with enough experiments, in the order in which they first ran.
    pub versions: Vec<VersionRow>,
    /// What changed from each of them to the next.
    pub changes: Vec<ChangeRow>,
}

/// A piece of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CodeAt {
    /// `function` or `line`.
    pub kind: &'static str,
    /// The function's base name, or `file:line`.
    pub name: String,
    /// The full name of the function.
    pub function: Option<String>,
    /// Its file.
    pub file: Option<String>,
    /// The line, or the function's first line.
    pub line: Option<u32>,
    /// Whether callees count.
    pub inclusive: bool,
    /// The file name of the program or library.
    pub program: String,
    /// In which builds it was tried.
    pub builds: Vec<String>,
    /// For people.
    #[serde(skip)]
    pub label: String,
}

/// What code is worth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Numbers {
    /// Gain per speedup, the mean of hosts.
    pub slope: f64,
    /// Its standard error.
    pub slope_se: f64,
    /// Where its 95 % interval begins.
    pub slope_lo: f64,
    /// Where it ends.
    pub slope_hi: f64,
    /// The part of the standard error that neither more hosts nor more time make smaller.
    pub method_error: f64,
    /// The share of the time per visit, or of the latency, that disappears at 20 % less time in the code: by the slope.
    pub less_time: f64,
    /// Where its 95 % interval begins.
    pub less_time_lo: f64,
    /// Where it ends.
    pub less_time_hi: f64,
    /// Hosts that it rests on.
    pub hosts: usize,
    /// Hosts with fewer than five experiments, which do not count.
    pub left_out: usize,
    /// Experiments.
    pub blocks: usize,
    /// For how long these hosts have taken part, together: each from the beginning of its first run to the end of its last one.
    pub host_days: f64,
    /// Whether all hosts count the same, because those with many experiments are worth more or less than others.
    pub even_weights: bool,
    /// τ: the standard deviation of the true slopes of hosts; `None` of a single host, as the next three.
    pub tau: Option<f64>,
    /// Which share of what hosts differ by is not noise.
    pub i_squared: Option<f64>,
    /// Cochran's Q.
    pub q: Option<f64>,
    /// How often noise alone would make so large a Q.
    pub q_chance: Option<f64>,
    /// Where the slope of a host lies that was not measured, for 95 % of such hosts; `None` of fewer than three, as the next two.
    pub new_host: Option<f64>,
    /// Where that interval begins.
    pub new_host_lo: Option<f64>,
    /// Where it ends.
    pub new_host_hi: Option<f64>,
    /// How many more hosts make the interval of the slope [`goal`](Worths::goal) narrow, the method's error left out; `None` of a single host, or where it is never.
    pub more_hosts: Option<usize>,
    /// How many host-days these take.
    pub more_hosts_days: Option<f64>,
    /// How many more host-days of the same hosts do; `None` where they differ too much.
    pub more_days: Option<f64>,
    /// How narrow the half interval would be if the same hosts were measured forever.
    pub floor: f64,
}

/// What code costs, and what making it faster would leave free, in CPUs on average over the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cores {
    /// Samples in the code; `None` where that cannot be told: of code with its callees, or by its caller.
    pub samples: Option<u64>,
    /// The CPUs that the fleet spends in it.
    pub cores: Option<f64>,
    /// Their share in what the service takes.
    pub share: Option<f64>,
    /// The CPUs that the service takes.
    pub service_cores: Option<f64>,
    /// Cost × worth: how many of these the same work would not take any more, at 20 % less time in the code. Of throughput only.
    pub won: Option<f64>,
    /// Where its 95 % interval begins.
    pub won_lo: Option<f64>,
    /// Where it ends.
    pub won_hi: Option<f64>,
}

/// One version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VersionRow {
    /// Its name; empty where none is known.
    pub version: String,
    /// What the code is worth with it.
    pub numbers: Numbers,
    /// What it costs.
    pub cores: Option<Cores>,
}

/// From one version to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeRow {
    /// The version before.
    pub before: String,
    /// The version after.
    pub after: String,
    /// The slope after less the slope before.
    pub difference: f64,
    /// Its standard error.
    pub difference_se: f64,
    /// Where its 95 % interval begins.
    pub difference_lo: f64,
    /// Where it ends.
    pub difference_hi: f64,
    /// How often hosts and noise alone would make so large a difference.
    pub chance: f64,
    /// How many hosts are compared with themselves; `None` where the hosts of one version are compared with those of the other.
    pub same_hosts: Option<usize>,
}

fn verdict_name<S: serde::Serializer>(verdict: &Verdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(verdict.name())
}

fn mark_name<S: serde::Serializer>(mark: &Option<Mark>, to: S) -> Result<S::Ok, S::Error> {
    mark.map(Mark::name).serialize(to)
}

impl Asked {
    /// Reads the runs.
    pub fn of(source: &dyn RunSource, which: &arguments::Which) -> Result<Asked, Error> {
        let question = question(which, ALWAYS)?;
        let found = source.runs(&question)?;
        if found.runs.is_empty() {
            return Err(Error::NoRuns { place: source.place(), asked: asked(&question) });
        }
        Ok(Asked { question, place: source.place(), runs: found.runs, broken: found.broken })
    }
}

/// `whatif fleet worth`.
pub fn worth(
    asked: Asked,
    samples: Option<&mut dyn Source>,
    args: &arguments::Worth,
) -> Result<Worths, Error> {
    let Asked { question, place, runs, broken } = asked;
    let costs = match samples {
        Some(source) => Costs::read(source, &args.which())?,
        None => None,
    };
    let mut selection = question.only.said();
    selection.extend(args.point.as_ref().map(|point| format!("point {}", point.0)));
    let ends = runs.iter().map(|run| {
        let session = run.session();
        let length = session.end.map_or(session.samples.until, |end| end.duration);
        ((session.start.started + length).get() / 1_000_000_000) as i64
    });
    let mut worths = Worths {
        database: place,
        selection,
        since: runs.iter().map(|run| run.started().0).min().unwrap_or(0),
        until: ends.max().unwrap_or(0),
        hosts: runs.iter().map(|run| &run.host).collect::<BTreeSet<_>>().len(),
        runs: runs.len(),
        windows: runs.iter().map(|run| run.rows.windows.len()).sum(),
        broken,
        speedup: REFERENCE.fraction(),
        goal: GOAL,
        cost: costs.as_ref().map(cost_of),
        by_version: args.by == Some(arguments::WorthBy::Version),
        ..Worths::default()
    };
    let is_meant = match &args.point {
        None => None,
        Some(pattern) => Some(pattern.matcher()?),
    };
    let mut tried: Vec<Tried> = Vec::new();
    for service in services(runs) {
        tried.extend(of_service(&service, &|point| is_meant.as_ref().is_none_or(|is| is(point))));
    }
    if tried.is_empty() {
        return Err(Error::Usage(
            "no progress point that was asked for was visited in any of these runs; leave --point out to see which there are".to_owned(),
        ));
    }
    let known: Vec<(usize, (&Worth, f64))> = tried
        .iter()
        .enumerate()
        .filter_map(|(nth, tried)| {
            Some((nth, (&tried.known.as_ref()?.worth, tried.known.as_ref()?.of_doubts)))
        })
        .collect();
    let judged = verdicts(&known.iter().map(|(_, of)| *of).collect::<Vec<_>>());
    let mut verdict = vec![Verdict::NotEnoughData; tried.len()];
    known.iter().zip(judged).for_each(|((nth, _), of)| verdict[*nth] = of);
    let rows = tried.into_iter().zip(verdict).map(|(tried, verdict)| row(tried, verdict, costs.as_ref()));
    worths.rows = rows.collect();
    worths.rows.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    Ok(worths)
}

impl Worths {
    /// Leaves the first `top` rows, and counts the others.
    pub fn shorten(&mut self, top: usize) {
        self.more = self.rows.len().saturating_sub(top);
        self.rows.truncate(top);
    }
}

fn cost_of(costs: &Costs) -> CostOf {
    let heading = &costs.counted.heading;
    CostOf {
        event: heading.event.clone(),
        since: heading.since,
        until: heading.until,
        machines: heading.machines.len(),
        samples: costs.all(),
        cores: costs.cores(costs.all()),
    }
}

/// A piece of code of a service, and a point, with what hosts say.
struct Tried {
    service: String,
    versions: Vec<String>,
    code: Code,
    target: Target,
    point: String,
    known: Option<Known>,
    audit: Option<Audited>,
}

/// What hosts say, where some have made enough experiments.
struct Known {
    worth: Worth,
    of_doubts: f64,
    versions: Vec<(VersionId, Worth)>,
    changes: Vec<profile::meta_analysis::VersionChange>,
}

fn of_service(service: &Service, is_meant: &dyn Fn(&str) -> bool) -> Vec<Tried> {
    let targets: Vec<(Target, &String)> = service
        .targets
        .iter()
        .filter(|(_, name)| is_meant(name))
        .map(|(target, name)| (*target, name))
        .collect();
    let only: Vec<Target> = targets.iter().map(|(target, _)| *target).collect();
    let recorded: Vec<Recorded<'_>> =
        service.groups.iter().map(|group| Recorded::new(&group.rows, &only)).collect();
    let mut all = Vec::new();
    for (region, code) in &service.codes {
        let audit = audited(service.groups.iter().map(|group| &group.rows), *region);
        for (target, point) in &targets {
            let tries = |group: &Group| {
                let of_region = group.rows.windows.iter().filter(|window| window.region == *region);
                of_region.fold((false, false), |(tried, seen), window| {
                    (tried || !window.speedup.is_zero(), seen || window.visits(target.counted()) > 0)
                })
            };
            let tries: Vec<(bool, bool)> = service.groups.iter().map(tries).collect();
            // Other programs of the service have it, or no visit to it was recorded.
            if !tries.iter().any(|(tried, seen)| *tried && *seen) {
                continue;
            }
            let of: Vec<(&Group, &Recorded<'_>)> = service
                .groups
                .iter()
                .zip(&recorded)
                .zip(&tries)
                .filter(|(_, (tried, _))| *tried)
                .map(|(of, _)| of)
                .collect();
            all.push(Tried {
                service: service.name.clone(),
                versions: service.versions.clone(),
                code: code.clone(),
                target: *target,
                point: (*point).clone(),
                known: known(&of, *region, *target),
                audit: audit.clone(),
            });
        }
    }
    all
}

/// What hosts say about a region and a target; `None` where none has made enough experiments.
fn known(groups: &[(&Group, &Recorded<'_>)], region: RegionId, target: Target) -> Option<Known> {
    let slope = |(group, recorded): &(&Group, &Recorded<'_>)| {
        recorded.slope((group.host, group.version), region, target, group.observed)
    };
    let mut rows: Vec<HostSlope> = groups.iter().map(slope).collect();
    // Refused are only numbers that are none, which slopes of windows never are; and fleets without enough of them.
    let about = Fleet::new(&rows, Variances::Pooled).ok()?.worth().of_noise.value;
    // What the method may get wrong depends on what the region is worth, of which one host knows least.
    let options = EstimateOptions::default();
    let (mut doubts, mut limited, mut blocks) = (0.0, 0, 0);
    for (row, (_, recorded)) in rows.iter_mut().zip(groups) {
        if row.blocks < profile::ENOUGH_BLOCKS {
            continue;
        }
        let Some(in_doubt) = recorded.in_doubt(region, target, about, &options) else {
            row.blocks = 0;
            continue;
        };
        row.method_error = in_doubt.method_error;
        doubts += in_doubt.of_doubts * row.blocks as f64;
        limited += if in_doubt.has_limit { row.blocks } else { 0 };
        blocks += row.blocks;
    }
    let fleet = Fleet::new(&rows, Variances::Pooled).ok()?;
    let has_limit = 2 * limited > blocks;
    let of = |worth: Worth| if has_limit { worth.limited() } else { worth };
    Some(Known {
        worth: of(fleet.worth()),
        of_doubts: doubts / blocks as f64,
        versions: fleet
            .versions()
            .into_iter()
            .map(|of_version| (of_version.version, of(of_version.worth)))
            .collect(),
        changes: fleet.drift(),
    })
}

fn row(tried: Tried, verdict: Verdict, costs: Option<&Costs>) -> CodeRow {
    let Tried { service, versions, code, target, point, known, audit } = tried;
    let doubt = audit.as_ref().and_then(Audited::doubt);
    let verdict = if doubt.is_some() { Verdict::NotTrusted } else { verdict };
    let version = |id: VersionId| versions.get(id.get() as usize - 1).cloned().unwrap_or_default();
    let cores = |version: Option<&str>, worth: Option<&Worth>| {
        let costs = costs?;
        // What one host shows says nothing of the CPUs of others.
        let is_about_all =
            |worth: &&Worth| worth.basis == Basis::Hosts || costs.counted.heading.machines.len() == 1;
        let is_work = matches!(target, Target::Throughput(_));
        let gain = worth.filter(is_about_all).map(|worth| worth.estimate).filter(|_| is_work);
        cores(costs, &service, version, &code, gain)
    };
    let all = cores(None, known.as_ref().map(|known| &known.worth));
    let slope = known.as_ref().map(|known| (known.worth.estimate.lo, known.worth.estimate.hi));
    let mark = all.and_then(|all| Mark::of_slope(all.share?, verdict, slope));
    let versions_of = |known: &Known| {
        let of = |(id, worth): &(VersionId, Worth)| VersionRow {
            cores: cores(Some(&version(*id)), Some(worth)),
            version: version(*id),
            numbers: Numbers::of(worth),
        };
        known.versions.iter().map(of).collect()
    };
    let changes_of = |known: &Known| {
        let of = |change: &profile::meta_analysis::VersionChange| ChangeRow {
            before: version(change.before),
            after: version(change.after),
            difference: change.difference.value,
            difference_se: change.difference.se,
            difference_lo: change.difference.lo,
            difference_hi: change.difference.hi,
            chance: change.chance,
            same_hosts: change.same_hosts,
        };
        known.changes.iter().map(of).collect()
    };
    CodeRow {
        point,
        kind: target.kind(),
        verdict,
        doubt: doubt.map(|doubt| doubt.to_string()),
        advice: doubt.map(|doubt| doubt.advice().to_owned()),
        numbers: known.as_ref().map(|known| Numbers::of(&known.worth)),
        cores: all,
        mark,
        versions: known.as_ref().map(versions_of).unwrap_or_default(),
        changes: known.as_ref().map(changes_of).unwrap_or_default(),
        code: CodeAt::of(&code),
        service,
    }
}

fn cores(
    costs: &Costs,
    service: &str,
    version: Option<&str>,
    code: &Code,
    slope: Option<Estimate>,
) -> Option<Cores> {
    let all = costs.of_service(service, version)?;
    let samples = costs.of_code(service, version, code);
    let service_cores = costs.cores(all);
    let won = |slope: f64| Some(service_cores? * REFERENCE.fraction() * slope);
    Some(Cores {
        samples,
        cores: samples.and_then(|samples| costs.cores(samples)),
        share: samples.map(|samples| samples as f64 / all as f64),
        service_cores,
        won: slope.and_then(|slope| won(slope.value)),
        won_lo: slope.and_then(|slope| won(slope.lo)),
        won_hi: slope.and_then(|slope| won(slope.hi)),
    })
}

impl CodeAt {
    fn of(code: &Code) -> CodeAt {
        let region = &code.region;
        let builds: BTreeSet<&str> = code.images.iter().map(profile::Image::key).collect();
        CodeAt {
            kind: region.kind.name(),
            name: region.name.clone(),
            function: region.function.clone(),
            file: region.file.clone(),
            line: region.line,
            inclusive: region.inclusive,
            program: program_of(region),
            builds: builds.into_iter().map(str::to_owned).collect(),
            label: region.label(),
        }
    }
}

impl Numbers {
    fn of(worth: &Worth) -> Numbers {
        let (slope, needed) = (worth.estimate, worth.needed(GOAL));
        let at = |slope: f64| REFERENCE.fraction() * slope;
        Numbers {
            slope: slope.value,
            slope_se: slope.se,
            slope_lo: slope.lo,
            slope_hi: slope.hi,
            method_error: worth.method_error,
            less_time: at(slope.value),
            less_time_lo: at(slope.lo),
            less_time_hi: at(slope.hi),
            hosts: worth.hosts,
            left_out: worth.left_out,
            blocks: worth.blocks,
            host_days: worth.observed.get(),
            even_weights: worth.weights == Weights::Even,
            tau: worth.heterogeneity.map(|of| of.tau),
            i_squared: worth.heterogeneity.map(|of| of.i_squared),
            q: worth.heterogeneity.map(|of| of.q),
            q_chance: worth.heterogeneity.map(|of| of.chance),
            new_host: worth.new_host.map(|of| of.value),
            new_host_lo: worth.new_host.map(|of| of.lo),
            new_host_hi: worth.new_host.map(|of| of.hi),
            more_hosts: needed.hosts.map(|more| more.hosts),
            more_hosts_days: needed.hosts.map(|more| more.time.get()),
            more_days: needed.time.map(profile::meta_analysis::HostDays::get),
            floor: needed.floor,
        }
    }

    /// The gain at 20 %.
    pub fn gain(&self) -> Estimate {
        let at = REFERENCE.fraction();
        Estimate {
            value: self.less_time,
            se: at * self.slope_se,
            lo: self.less_time_lo,
            hi: self.less_time_hi,
        }
    }
}

/// Where a row stands: what helps, by what it certainly brings in the whole fleet; what may; what hurts; what nothing is known of. Smaller is better.
fn rank(row: &CodeRow) -> (u8, bool, f64, f64, (&str, &CodeAt, &str)) {
    let place = (&*row.service, &row.code, &*row.point);
    let Some(numbers) = &row.numbers else { return (4, true, 0.0, 0.0, place) };
    let (class, end) = match row.verdict {
        Verdict::Helps => (0, -numbers.slope_lo),
        Verdict::Hurts => (2, numbers.slope_hi),
        Verdict::NotTrusted => (3, -numbers.slope_lo),
        _ => (1, -numbers.slope_lo),
    };
    // A latency is no work that is saved, but it matters more in a service that is large.
    let size = row.cores.and_then(|cores| cores.service_cores);
    (class, size.is_none(), size.unwrap_or(1.0) * end, end, place)
}

/// How long hosts have taken part, for people.
pub fn duration(days: f64) -> Nanos {
    Nanos::new((days * 86_400e9) as u64)
}
