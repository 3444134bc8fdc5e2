//! Progress points: those that the program registers, and those that the user places from outside, in a program that
//! knows nothing of them.

use crate::run::images::Images;
use crate::run::region;
use anyhow::{Context as _, Result, bail, ensure};
use perf::visits::{Counter, Instruction, Means};
use profile::{Point, PointKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use symbols::{Image, Scope, Svma};
use wire::SharedMemory;
use wire::stamps::Stamps;

/// More copies of one place than this are a mistake.
const MOST_COPIES: usize = 64;

/// A place in the code, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `FILE:LINE`: suffix of a path, and number.
    Line(String, u32),
    /// `fn:NAME`: name, suffix of a name, or glob.
    Function(String),
    /// `usdt:PROVIDER:NAME`: a probe that the program's authors have put there.
    Probe(String, String),
    /// `syscall:NAME`: completed system calls.
    SystemCall(String),
    /// `sampled:FILE:LINE` or `sampled:fn:NAME`: samples in code, or in what it calls.
    Sampled(region::Request),
}

const ADVICE: &str = "give FILE:LINE, as in -p server.rs:42, fn:NAME, sampled:FILE:LINE, sampled:fn:NAME, \
                      usdt:PROVIDER:NAME or syscall:NAME";

impl Place {
    /// Understands what [`ADVICE`] says.
    pub fn parse(text: &str) -> Result<Self> {
        let place = match text.split_once(':') {
            Some(("fn", name)) => Some(Self::Function(name.to_owned())).filter(|_| !name.trim().is_empty()),
            Some(("syscall", name)) => {
                Some(Self::SystemCall(name.to_owned())).filter(|_| !name.trim().is_empty())
            }
            Some(("usdt", probe)) => probe
                .split_once(':')
                .filter(|(provider, name)| !provider.is_empty() && !name.is_empty())
                .map(|(provider, name)| Self::Probe(provider.to_owned(), name.to_owned())),
            Some(("sampled", code)) => match Self::parse(code) {
                Ok(Self::Line(file, line)) => Some(Self::Sampled(region::Request::Line(file, line))),
                Ok(Self::Function(name)) => Some(Self::Sampled(region::Request::Function(name))),
                _ => None,
            },
            _ => text.rsplit_once(':').filter(|(file, _)| !file.is_empty()).and_then(|(file, line)| {
                let line = line.parse().ok().filter(|line| *line > 0)?;
                Some(Self::Line(file.to_owned(), line))
            }),
        };
        place.with_context(|| format!("-p {text}: {ADVICE}"))
    }

    /// Where it is entered in an image, and what must not be zero for that.
    fn entries(&self, image: &Image, scope: &Scope) -> Vec<(Svma, Option<Svma>)> {
        let unguarded = |entries: Vec<Svma>| entries.into_iter().map(|entry| (entry, None)).collect();
        match self {
            Self::Line(file, line) => unguarded(image.line_entries(file, *line, scope)),
            Self::Function(name) => unguarded(image.function_entries(name)),
            Self::Probe(provider, name) => {
                let ours = |probe: &symbols::Probe| probe.provider == *provider && probe.name == *name;
                image
                    .probes()
                    .into_iter()
                    .filter(ours)
                    .map(|probe| (probe.address, probe.semaphore))
                    .collect()
            }
            Self::SystemCall(_) | Self::Sampled(_) => Vec::new(),
        }
    }

    /// Whether it is an instruction of some image.
    fn is_in_image(&self) -> bool {
        !matches!(self, Self::SystemCall(_) | Self::Sampled(_))
    }

    /// What may have been meant, where an image has no such place.
    fn hint(&self, image: &Image) -> Option<String> {
        let list = |names: Vec<String>| (!names.is_empty()).then(|| crate::run::failure::list(&names, 5));
        match self {
            Self::Function(name) => Some(format!("there are {}", list(image.suggest(name))?)),
            Self::Line(file, line) => match image.has_line(file, *line) {
                symbols::LineLookup::Exact => None,
                symbols::LineLookup::NearestWithCode(line) => {
                    Some(format!("that line has no code; the nearest one that has is {file}:{line}"))
                }
                symbols::LineLookup::NoSuchFile { similar } => Some(format!("there are {}", list(similar)?)),
            },
            Self::Probe(..) => {
                let names =
                    image.probes().into_iter().map(|probe| format!("{}:{}", probe.provider, probe.name));
                let names: std::collections::BTreeSet<String> = names.collect();
                Some(format!("there are {}", list(names.into_iter().collect())?))
            }
            Self::SystemCall(_) | Self::Sampled(_) => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Function(name) => f.write_str(name),
            Self::Probe(provider, name) => write!(f, "{provider}:{name}"),
            Self::SystemCall(name) => write!(f, "syscall:{name}"),
            Self::Sampled(code) => write!(f, "sampled:{code}"),
        }
    }
}

/// A point to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub point: Point,
    pub place: Place,
}

impl Request {
    /// `-p PLACE`: visits to a place.
    pub fn throughput(text: &str) -> Result<Self> {
        let place = Place::parse(text)?;
        Ok(Self { point: Point { name: place.to_string(), kind: PointKind::Throughput }, place })
    }

    /// `--latency BEGIN..END`: the time from one to the other.
    pub fn latency(text: &str) -> Result<[Self; 2]> {
        let (begin, end) = text.split_once("..").with_context(|| {
            format!("--latency {text}: give two places, as in --latency fn:receive..fn:answer")
        })?;
        let (begin, end) = (Place::parse(begin)?, Place::parse(end)?);
        let name = format!("{begin}..{end}");
        let point = |kind| Point { name: name.clone(), kind };
        Ok([
            Self { point: point(PointKind::Begin), place: begin },
            Self { point: point(PointKind::End), place: end },
        ])
    }

    /// Fails if there is no such place in `image`, the only one that is looked into, or no such system call.
    pub fn check(&self, image: &Image, scope: &Scope) -> Result<()> {
        if let Place::SystemCall(name) = &self.place {
            system_call(std::process::id(), name)?;
        }
        if !self.place.is_in_image() || !self.place.entries(image, scope).is_empty() {
            return Ok(());
        }
        let hint = self.place.hint(image).unwrap_or_else(|| {
            "check the name, and that the program was compiled with -g; for a library, name it with --binary GLOB"
                .to_owned()
        });
        bail!("there is no code at the progress point {}; {hint}", self.place)
    }
}

/// A point that has been placed.
#[derive(Debug)]
struct Placed {
    point: Point,
    place: Place,
    counters: Vec<Counter>,
    /// Samples, of a point that is sampled.
    samples: Arc<AtomicU64>,
}

/// All progress points of a program: the placed ones first, then the registered ones in the order of their
/// registration, so that an index stays what it is.
#[derive(Debug)]
pub struct Points {
    memory: &'static SharedMemory,
    placed: Vec<Placed>,
}

/// How often all points have been visited, and when.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// One per point,
    pub visits: Vec<u64>,
    /// and what the runtime knows of the times; nothing of placed points.
    pub stamps: Vec<Option<Stamps>>,
}

impl Points {
    /// Places what was asked for in the program that has just been mapped.
    pub fn place(
        memory: &'static SharedMemory,
        requests: &[Request],
        images: &Images,
        pid: u32,
        scope: &Scope,
    ) -> Result<Self> {
        let mut placed = Vec::new();
        for request in requests {
            let samples = Arc::<AtomicU64>::default();
            if !request.place.is_in_image() {
                let counters = match &request.place {
                    Place::SystemCall(name) => vec![system_call(pid, name)?],
                    _ => Vec::new(),
                };
                placed.push(Placed {
                    point: request.point.clone(),
                    place: request.place.clone(),
                    counters,
                    samples,
                });
                continue;
            }
            let found = images.instructions(|image| request.place.entries(image, scope));
            ensure!(!found.is_empty(), "there is no code at the progress point {}", request.place);
            ensure!(
                found.len() <= MOST_COPIES,
                "the progress point {} has {} copies in the program; choose one that is less often inlined",
                request.place,
                found.len()
            );
            let counters = found.iter().map(|instruction| count(pid, instruction, &request.place));
            let counters = counters.collect::<Result<_>>()?;
            placed.push(Placed {
                point: request.point.clone(),
                place: request.place.clone(),
                counters,
                samples,
            });
        }
        Ok(Self { memory, placed })
    }

    /// The points so far.
    pub fn list(&self) -> Vec<Point> {
        let registered = self.memory.counters.registered().map(|counter| Point {
            name: String::from_utf8_lossy(&counter.name().collect::<Vec<u8>>()).into_owned(),
            kind: match counter.kind() {
                Some(wire::counter::Kind::Begin) => PointKind::Begin,
                Some(wire::counter::Kind::End) => PointKind::End,
                _ => PointKind::Throughput,
            },
        });
        self.placed.iter().map(|placed| placed.point.clone()).chain(registered).collect()
    }

    /// How often each has been visited.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for placed in &self.placed {
            let samples = placed.samples.load(Ordering::Relaxed);
            counts.visits.push(placed.counters.iter().map(Counter::count).fold(samples, u64::wrapping_add));
            counts.stamps.push(None);
        }
        for counter in self.memory.counters.registered() {
            counts.visits.push(counter.count.load(Ordering::Relaxed));
            counts.stamps.push(Some(counter.stamps.load()));
        }
        counts
    }

    /// Whether the kernel has to be asked for some.
    pub fn are_asked_for(&self) -> bool {
        self.placed.iter().any(|placed| !placed.counters.is_empty())
    }

    /// The code whose samples are visits, and where they are counted.
    pub fn sampled(&self) -> Vec<(region::Request, Arc<AtomicU64>)> {
        let sampled = |placed: &Placed| match &placed.place {
            Place::Sampled(code) => Some((code.clone(), Arc::clone(&placed.samples))),
            _ => None,
        };
        self.placed.iter().filter_map(sampled).collect()
    }

    /// How the placed points are watched, if there are any: for people.
    pub fn means(&self) -> Option<String> {
        let counters = || self.placed.iter().flat_map(|placed| &placed.counters);
        let by = |means| counters().filter(|counter| counter.means() == means).count();
        let several = |number: usize, what: &str, cost: Option<wire::Nanos>| {
            let plural = if number == 1 { "" } else { "s" };
            let cost =
                cost.map_or_else(String::new, |cost| format!(" ({:.1} µs a visit)", cost.0 as f64 / 1e3));
            (number > 0).then(|| format!("{number} {what}{plural}{cost}"))
        };
        let cost = |means| (by(means) > 0).then(|| perf::visits::cost(means)).flatten();
        let parts = [
            several(by(Means::Breakpoint), "hardware breakpoint", cost(Means::Breakpoint)),
            several(by(Means::Uprobe), "uprobe", cost(Means::Uprobe)),
            several(by(Means::Tracepoint), "tracepoint", None),
            several(self.sampled().len(), "sampled place", None),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

fn count(pid: u32, instruction: &Instruction, place: &Place) -> Result<Counter> {
    Counter::new(pid, instruction).with_context(|| {
        let why = "the CPU has four breakpoints, and further points need uprobes (root, or CAP_PERFMON)";
        format!("cannot count visits to {place}: {why}; place fewer points, or mark them in the source")
    })
}

fn system_call(pid: u32, name: &str) -> Result<Counter> {
    Counter::system_call(pid, name).with_context(|| {
        format!(
            "cannot count system calls {name}: this needs the tracepoint syscalls/sys_exit_{name} (root, or CAP_PERFMON \
             and a readable tracefs; mount -t tracefs nodev /sys/kernel/tracing); a name as in man 2 syscalls"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_understood() {
        let line = |file: &str, line| Place::Line(file.to_owned(), line);
        let function = |name: &str| Place::Function(name.to_owned());
        for (text, expected) in [
            ("hash.c:88", Some(line("hash.c", 88))),
            ("src/a b.rs:1", Some(line("src/a b.rs", 1))),
            ("fn:work", Some(function("work"))),
            ("fn:a::b<*>", Some(function("a::b<*>"))),
            ("usdt:shop:sold", Some(Place::Probe("shop".to_owned(), "sold".to_owned()))),
            ("syscall:write", Some(Place::SystemCall("write".to_owned()))),
            ("sampled:a.c:7", Some(Place::Sampled(region::Request::Line("a.c".to_owned(), 7)))),
            ("sampled:fn:work", Some(Place::Sampled(region::Request::Function("work".to_owned())))),
            ("sampled:syscall:write", None),
            ("usdt:shop", None),
            ("syscall:", None),
            ("fn:", None),
            ("work", None),
            (":3", None),
            ("hash.c:", None),
            ("hash.c:0", None),
            ("hash.c:x", None),
        ] {
            let place = Place::parse(text);
            if let Err(error) = &place {
                assert!(error.to_string().contains("-p server.rs:42"), "{error}");
            }
            assert_eq!(place.ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_latency_has_two_places() {
        let [begin, end] = Request::latency("fn:receive..main.c:7").unwrap();
        assert_eq!((begin.point.kind, end.point.kind), (PointKind::Begin, PointKind::End));
        assert_eq!((begin.point.name.as_str(), &begin.point.name), ("receive..main.c:7", &end.point.name));
        assert_eq!(end.place, Place::Line("main.c".to_owned(), 7));
        for bad in ["fn:a", "fn:a..", "..fn:a", "a..b"] {
            assert!(Request::latency(bad).is_err(), "{bad}");
        }
    }
}
