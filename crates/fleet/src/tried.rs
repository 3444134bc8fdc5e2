//! Tried: runs put together by service, with one number for each piece of code and point, whatever build and recording they are in.

use crate::run::Run;
use profile::meta_analysis::{HostId, VersionId};
use profile::{
    Image, Nanos, Point, PointId, PointKind, Region, RegionId, RegionKind, RegionSamples, Rows, Session,
    SessionId, Target, Window,
};
use std::collections::{BTreeMap, BTreeSet};

/// What makes two regions of one service the same piece of code, in whatever build. Line numbers move from build to build, so a line is one of its build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CodeKey {
    kind: RegionKind,
    inclusive: bool,
    name: String,
    file: Option<String>,
    program: String,
    build: String,
}

impl CodeKey {
    fn of(region: &Region) -> CodeKey {
        let is_line = region.kind == RegionKind::Line;
        CodeKey {
            kind: region.kind,
            inclusive: region.inclusive,
            name: region.name.clone(),
            file: region.file.clone(),
            program: program_of(region),
            build: if is_line { region.image_key().to_owned() } else { String::new() },
        }
    }
}

/// The file name of the program or library that a region is in.
pub fn program_of(region: &Region) -> String {
    region.image.path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A piece of code that was tried.
#[derive(Clone, Debug)]
pub struct Code {
    /// As the newest run describes it.
    pub region: Region,
    /// In which files it was tried.
    pub images: BTreeSet<Image>,
}

/// What one host has recorded with one version of a service.
#[derive(Clone, Debug)]
pub struct Group {
    /// The host.
    pub host: HostId,
    /// The version.
    pub version: VersionId,
    /// All of its runs; keys of regions and points are those of the service.
    pub rows: Rows,
    /// The time that its runs stand for: from the beginning of the first one to the end of the last one, and as long again as one waits for the next. Of a single run it is not known, and
    /// its own length stands here.
    pub observed: Nanos,
}

/// A service that experiments were made on.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its versions, in the order in which they first ran: those of [`VersionId`] from 1 on.
    pub versions: Vec<String>,
    /// What was tried.
    pub codes: BTreeMap<RegionId, Code>,
    /// What may become faster, by name.
    pub targets: Vec<(Target, String)>,
    /// By host and version.
    pub groups: Vec<Group>,
}

/// All services, by name.
pub fn services(runs: Vec<Run>) -> Vec<Service> {
    let mut by_service: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs {
        by_service.entry(run.service.clone()).or_default().push(run);
    }
    by_service.into_iter().map(|(name, runs)| service(name, runs)).collect()
}

fn service(name: String, mut runs: Vec<Run>) -> Service {
    runs.sort_by(|a, b| (a.session().start.started, &a.uid).cmp(&(b.session().start.started, &b.uid)));
    let mut versions: Vec<String> = Vec::new();
    for run in &runs {
        if !versions.contains(&run.version) {
            versions.push(run.version.clone());
        }
    }
    let hosts: BTreeSet<&str> = runs.iter().map(|run| &*run.host).collect();
    let hosts: BTreeMap<String, HostId> =
        hosts.into_iter().map(str::to_owned).zip((1..).map(HostId::new)).collect();
    let keys: BTreeSet<CodeKey> =
        runs.iter().flat_map(|run| run.rows.regions.values().map(CodeKey::of)).collect();
    let regions: BTreeMap<CodeKey, RegionId> = keys.into_iter().zip((1..).map(RegionId::new)).collect();
    let points: BTreeSet<(PointKind, String)> = runs
        .iter()
        .flat_map(|run| run.rows.points.values().map(|point| (point.kind, point.name.clone())))
        .collect();
    let points: BTreeMap<(PointKind, String), PointId> =
        points.into_iter().zip((1..).map(PointId::new)).collect();
    let mut codes: BTreeMap<RegionId, Code> = BTreeMap::new();
    let mut groups: BTreeMap<(HostId, VersionId), Gathered> = BTreeMap::new();
    for run in runs {
        let version = versions.iter().position(|version| *version == run.version).unwrap_or(0);
        let key = (hosts[&run.host], VersionId::new(version as i64 + 1));
        for region in run.rows.regions.values() {
            let code = codes
                .entry(regions[&CodeKey::of(region)])
                .or_insert_with(|| Code { region: region.clone(), images: BTreeSet::new() });
            // Runs come in the order of time.
            code.region.clone_from(region);
            code.images.insert(region.image.clone());
        }
        groups.entry(key).or_default().add(run.rows, &regions, &points);
    }
    let groups = groups.into_iter().map(|((host, version), of)| {
        let (span, runs) = (of.end.saturating_sub(of.begin).get(), of.rows.sessions.len() as u64);
        // Between so many runs there is one time of waiting fewer.
        let observed = Nanos::new(if runs < 2 { span } else { span + span / (runs - 1) });
        Group { host, version, rows: of.rows, observed }
    });
    Service { name, versions, codes, targets: targets(&points), groups: groups.collect() }
}

/// Runs of one host with one version.
#[derive(Default)]
struct Gathered {
    rows: Rows,
    begin: Nanos,
    end: Nanos,
}

impl Gathered {
    fn add(
        &mut self,
        rows: Rows,
        regions: &BTreeMap<CodeKey, RegionId>,
        points: &BTreeMap<(PointKind, String), PointId>,
    ) {
        let id = SessionId::new(self.rows.sessions.len() as i64 + 1);
        let region: BTreeMap<RegionId, RegionId> =
            rows.regions.iter().map(|(old, region)| (*old, regions[&CodeKey::of(region)])).collect();
        let point: BTreeMap<PointId, PointId> =
            rows.points.iter().map(|(old, of)| (*old, points[&(of.kind, of.name.clone())])).collect();
        for session in rows.sessions {
            let begin = session.start.started;
            let end = begin + session.end.map_or(session.samples.until, |end| end.duration);
            self.begin = if self.rows.sessions.is_empty() { begin } else { self.begin.min(begin) };
            self.end = self.end.max(end);
            self.rows.sessions.push(Session { id, ..session });
        }
        self.rows.windows.extend(rows.windows.into_iter().map(|mut window: Window| {
            (window.session, window.region) = (id, region[&window.region]);
            window.visits.iter_mut().for_each(|of| of.point = point[&of.point]);
            window.in_flight.iter_mut().for_each(|of| of.begin = point[&of.begin]);
            // Of single pieces of work nothing is asked.
            window.latencies.clear();
            window
        }));
        let samples = rows.samples.into_iter();
        self.rows.samples.extend(samples.map(|of| RegionSamples {
            session: id,
            region: region[&of.region],
            ..of
        }));
        for (old, of) in rows.regions {
            self.rows.regions.insert(region[&old], of);
        }
        for (old, of) in rows.points {
            self.rows.points.insert(point[&old], of);
        }
    }
}

/// Throughput points, and latencies, of which a begin and an end are known.
fn targets(points: &BTreeMap<(PointKind, String), PointId>) -> Vec<(Target, String)> {
    let target = |((kind, name), id): (&(PointKind, String), &PointId)| {
        let target = match kind {
            PointKind::Throughput => Target::Throughput(*id),
            PointKind::Begin => return None,
            PointKind::End => {
                let begin = *points.get(&(PointKind::Begin, name.clone()))?;
                Target::Latency { begin, end: *id }
            }
        };
        Some((target, name.clone()))
    };
    points.iter().filter_map(target).collect()
}

/// A point as reports name it, for words about it.
pub fn is_whole(name: &str) -> bool {
    name == Point::WHOLE
}
