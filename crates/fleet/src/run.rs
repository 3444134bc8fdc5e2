//! Run: one run of a program under causal profiling, as the fleet knows it.
//!
//! A recording holds runs (its sessions), and may be given more, or be added to another one. So it is runs that are sent, each by a uid that follows from
//! when, where and with which seed it began: the same in whatever recording it is.

use crate::error::Error;
use crate::ran::Ran;
use crate::stack_hash::StackHash;
use archive::{Label, Setting, UnixSeconds};
use profile::{
    Image, Point, PointId, Recording, Region, RegionId, Rows, Session, SessionId, SessionStart, Window,
};
use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher24};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::path::Path;

/// The key of the only session in the rows of a run.
pub const SESSION: SessionId = SessionId::new(1);

/// What a user calls those who ran, where recordings do not say or are not to be believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The service.
    pub service: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called everywhere.
    pub uid: String,
    /// What tells its machine from all others.
    pub machine: String,
    /// Its machine's name.
    pub host: String,
    /// The service.
    pub service: String,
    /// Its version.
    pub version: String,
    /// Its only session, which is [`SESSION`]; its regions, points, windows, and samples of regions. Nothing else.
    pub rows: Rows,
}

/// What a recording holds for the fleet.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The runs that are over, by uid.
    pub runs: Vec<Run>,
    /// How many go on, or were never ended.
    pub unfinished: usize,
    /// How many are of another tool, and do not say where they were recorded.
    pub foreign: usize,
}

/// The uid of a run; `None` of one that does not say where it was recorded.
pub fn uid_of(start: &SessionStart) -> Option<String> {
    let (started, host, seed) = start.run();
    if host.is_empty() || started.get() == 0 {
        return None;
    }
    let mut hasher = SipHasher24::new();
    hasher.write(&started.get().to_le_bytes());
    hasher.write(&seed.to_le_bytes());
    hasher.write(host.as_bytes());
    Some(format!("{:032x}", u128::from_le_bytes(hasher.finish128().as_bytes())))
}

impl Held {
    /// Reads a recording, but for the runs in `known`.
    pub fn read(path: &Path, named: &Named, known: &BTreeSet<String>) -> Result<Held, Error> {
        let recording = Recording::open(path)?;
        let mut held = Held::default();
        let mut wanted: BTreeMap<SessionId, String> = BTreeMap::new();
        for session in recording.sessions()? {
            match uid_of(&session.start) {
                None => held.foreign += 1,
                Some(_) if session.end.is_none() => held.unfinished += 1,
                Some(uid) if known.contains(&uid) => {}
                Some(uid) => drop(wanted.insert(session.id, uid)),
            }
        }
        if wanted.is_empty() {
            return Ok(held);
        }
        let rows = recording.rows()?;
        for session in &rows.sessions {
            // Those that have ended since then are for the next time.
            if let Some(uid) = wanted.remove(&session.id) {
                held.runs.push(Run::of(uid, &rows, session, named));
            }
        }
        held.runs.sort_by(|a, b| a.uid.cmp(&b.uid));
        Ok(held)
    }
}

impl Run {
    fn of(uid: String, all: &Rows, session: &Session, named: &Named) -> Run {
        let ran = ran_as(&session.start);
        let given = |name: &Option<String>, else_: String| name.clone().unwrap_or(else_);
        let mut rows = Rows::default();
        let is_ours = |window: &&Window| window.session == session.id;
        let windows = all.windows.iter().filter(is_ours).cloned();
        rows.windows = windows.map(|window| Window { session: SESSION, ..window }).collect();
        let of_session = all.samples.iter().filter(|samples| samples.session == session.id);
        rows.samples = of_session.map(|of| profile::RegionSamples { session: SESSION, ..*of }).collect();
        let seen = rows.samples.iter().map(|of| of.region).chain(rows.windows.iter().map(|of| of.region));
        let seen: BTreeSet<RegionId> = seen.collect();
        rows.regions = all
            .regions
            .iter()
            .filter(|(id, _)| seen.contains(id))
            .map(|(id, of)| (*id, of.clone()))
            .collect();
        rows.points.clone_from(&all.points);
        rows.sessions = vec![Session {
            id: SESSION,
            start: SessionStart {
                // What is typed and where stays on the machine.
                arguments: Vec::new(),
                directory: String::new(),
                options: String::new(),
                ..session.start.clone()
            },
            images: Vec::new(),
            arrivals: Vec::new(),
            programs: Vec::new(),
            threads: Vec::new(),
            overhead: Vec::new(),
            ..session.clone()
        }];
        let host = session.start.host.clone();
        Run {
            uid,
            machine: archive::machine_key(&host),
            host,
            service: given(&named.service, ran.service),
            version: given(&named.version, ran.version),
            rows: in_order(rows),
        }
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        // `Run::of` and `crate::remote` give it one.
        &self.rows.sessions[0]
    }

    /// When it began.
    pub fn started(&self) -> UnixSeconds {
        UnixSeconds((self.session().start.started.get() / 1_000_000_000) as i64)
    }

    /// Who ran, for conditions.
    pub fn ran(&self) -> Ran {
        Ran { service: self.service.clone(), version: self.version.clone(), ..Ran::default() }
    }
}

/// Who ran, by what the run has noted of its process: its labels and its cgroup, or else the name of the program.
fn ran_as(start: &SessionStart) -> Ran {
    let options: Value = serde_json::from_str(&start.options).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = options["labels"].as_object().into_iter().flatten();
    let label = Label {
        process: start.program_name().to_owned(),
        cgroup: text(&options["cgroup"]),
        user_labels: labels.map(|(name, value)| (name.clone(), text(value))).collect(),
        ..Label::default()
    };
    let mut ran = Ran::of(&label, &Setting::default());
    if ran.service.is_empty() {
        ran.service.clone_from(&ran.process);
    }
    ran
}

/// The same rows with keys and an order that follow from what they say, so that a run is the same wherever it comes from.
fn in_order(mut rows: Rows) -> Rows {
    let mut regions: Vec<(StackHash, RegionId)> =
        rows.regions.iter().map(|(id, region)| (region_hash(region), *id)).collect();
    regions.sort_unstable();
    let regions: BTreeMap<RegionId, RegionId> =
        regions.into_iter().zip(1..).map(|((_, old), new)| (old, RegionId::new(new))).collect();
    // Those that a window has something of.
    let seen: BTreeSet<PointId> = rows
        .windows
        .iter()
        .flat_map(|window| {
            let visited = window.visits.iter().map(|of| of.point);
            let begun = window.in_flight.iter().map(|of| of.begin);
            visited.chain(begun).chain(window.latencies.iter().map(|of| of.begin)).collect::<Vec<_>>()
        })
        .collect();
    rows.points.retain(|id, _| seen.contains(id));
    let mut points: Vec<(&Point, PointId)> = rows.points.iter().map(|(id, point)| (point, *id)).collect();
    points.sort_unstable_by_key(|(point, _)| (point.kind, &point.name));
    let points: BTreeMap<PointId, PointId> =
        points.into_iter().zip(1..).map(|((_, old), new)| (old, PointId::new(new))).collect();
    for window in &mut rows.windows {
        window.region = regions[&window.region];
        window.visits.iter_mut().for_each(|of| of.point = points[&of.point]);
        window.in_flight.iter_mut().for_each(|of| of.begin = points[&of.begin]);
        window.latencies.iter_mut().for_each(|of| of.begin = points[&of.begin]);
        window.visits.sort_unstable_by_key(|of| of.point);
        window.in_flight.sort_unstable_by_key(|of| of.begin);
    }
    rows.windows.sort_unstable_by_key(|window| (window.block, window.index));
    rows.samples.iter_mut().for_each(|of| of.region = regions[&of.region]);
    rows.samples.sort_unstable_by_key(|of| of.region);
    rows.regions = rows.regions.into_iter().map(|(id, region)| (regions[&id], region)).collect();
    rows.points = rows.points.into_iter().map(|(id, point)| (points[&id], point)).collect();
    rows
}

/// What a region is called in every database: 128 bits of all that is known of it.
pub fn region_hash(region: &Region) -> StackHash {
    let Region { kind, inclusive, name, function, file, line, image: Image { path, build_id } } = region;
    let mut hasher = SipHasher24::new();
    let texts = [
        kind.name(),
        name,
        function.as_deref().unwrap_or(""),
        file.as_deref().unwrap_or(""),
        path,
        build_id.as_deref().unwrap_or(""),
    ];
    for text in texts {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    }
    hasher.write(&[u8::from(*inclusive)]);
    hasher.write(&line.unwrap_or(0).to_le_bytes());
    hasher.finish128().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Nanos, RegionKind};

    fn start(options: &str) -> SessionStart {
        SessionStart {
            started: Nanos::new(1_790_000_000_000_000_000),
            program: "/srv/bin/shop".into(),
            host: "web-1".into(),
            seed: 7,
            options: options.into(),
            ..SessionStart::default()
        }
    }

    #[test]
    fn a_run_is_known_by_when_where_and_its_seed() {
        let uid = |start: SessionStart| uid_of(&start).unwrap();
        let one = uid(start("{}"));
        // Whatever else is told of it.
        assert_eq!((uid(start("{\"seed\":1}")), one.len()), (one.clone(), 32));
        for other in [
            SessionStart { seed: 8, ..start("{}") },
            SessionStart { host: "web-2".into(), ..start("{}") },
            SessionStart { started: Nanos::new(1_790_000_000_000_000_001), ..start("{}") },
        ] {
            assert_ne!(uid(other), one);
        }
        // What is stored today has to be found tomorrow. (This is what the algorithm, written down in another language, makes of it.)
        assert_eq!(one, "6bf031d0dca2e0e641c6fd87f5e912b5");
        assert_eq!(uid_of(&SessionStart { host: String::new(), ..start("{}") }), None);
    }

    #[test]
    fn who_ran_is_what_labels_say_or_the_unit_or_the_program() {
        let of = |options: &str| {
            let ran = ran_as(&start(options));
            (ran.service, ran.version)
        };
        let pair = |service: &str, version: &str| (service.to_owned(), version.to_owned());
        let cgroup = r#""cgroup":"/system.slice/cart.service""#;
        assert_eq!(
            of(&format!(r#"{{"labels":{{"service":"shop","version":"1.2"}},{cgroup}}}"#)),
            pair("shop", "1.2")
        );
        assert_eq!(of(&format!("{{{cgroup}}}")), pair("cart.service", ""));
        assert_eq!(of("{}"), pair("shop", ""));
        assert_eq!(of(r#"{"labels":"none","cgroup":3}"#), pair("shop", ""), "whatever stands there");
    }

    #[test]
    fn regions_are_told_apart_by_all_that_is_known() {
        let region = Region {
            kind: RegionKind::Function,
            inclusive: false,
            name: "work".into(),
            function: Some("shop::work".into()),
            file: Some("src/shop.rs".into()),
            line: Some(7),
            image: Image { path: "/srv/bin/shop".into(), build_id: Some("0a".into()) },
        };
        let others = [
            Region { kind: RegionKind::Line, ..region.clone() },
            Region { inclusive: true, ..region.clone() },
            Region { name: "workshop::work".into(), function: None, ..region.clone() },
            Region { line: None, ..region.clone() },
            Region { image: Image { build_id: None, ..region.image.clone() }, ..region.clone() },
        ];
        assert!(others.iter().all(|other| region_hash(other) != region_hash(&region)));
    }
}
