//! Progress points: those that the program registers, and those that the user places from outside, in a program that
//! knows nothing of them.

mod known;
mod place;
mod rate;

pub use place::Request;
pub use rate::{CallRate, name_of};

use crate::run::images::Images;
use crate::run::region;
use anyhow::{Result, bail};
use perf::visits::{self, Counter, Instruction, Means};
use place::Place;
use profile::{Point, PointKind};
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use symbols::Scope;
use wire::stamps::Stamps;
use wire::{Address, Nanos, SharedMemory};

/// A point that has been placed.
#[derive(Debug)]
struct Placed {
    point: Point,
    place: Place,
    counters: Vec<Arc<Counter>>,
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

/// Whether visits can be counted here at all: better said before the program runs. What a breakpoint costs, where
/// there are any.
pub fn check(requests: &[Request]) -> Result<Option<Nanos>> {
    if !requests.iter().any(|request| request.place.is_in_image()) {
        return Ok(None);
    }
    match visits::cost(Means::Breakpoint) {
        Ok(cost) => Ok(Some(cost)),
        Err(error) => match visits::cost(Means::Uprobe) {
            Ok(_) => Ok(None),
            Err(_) => Err(refused(error)),
        },
    }
}

/// Why visits cannot be counted, and what to do.
fn refused(error: std::io::Error) -> anyhow::Error {
    let advice = match error.raw_os_error() {
        Some(code) if code == Errno::NOSPC.raw_os_error() => {
            "cannot count visits: the CPU has four breakpoints, and further points need uprobes (root, or CAP_PERFMON); \
             place fewer points, mark some in the source, or let samples be visits: -p sampled:PLACE"
        }
        _ => {
            "cannot count visits: this needs perf events; allow them with sudo sysctl kernel.perf_event_paranoid=2 (in a \
             container also the seccomp profile), mark points in the source, or let samples be visits: -p sampled:PLACE"
        }
    };
    anyhow::Error::from(error).context(advice)
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
        // Two points at one place share what counts there.
        let mut known: Vec<(Address, Arc<Counter>)> = Vec::new();
        let mut count = |instruction: &Instruction| -> Result<Arc<Counter>> {
            if let Some((_, counter)) = known.iter().find(|(address, _)| *address == instruction.address) {
                return Ok(Arc::clone(counter));
            }
            let counter = Arc::new(Counter::new(pid, instruction).map_err(refused)?);
            known.push((instruction.address, Arc::clone(&counter)));
            Ok(counter)
        };
        for request in requests {
            let counters = match &request.place {
                Place::SystemCall(name) => vec![Arc::new(place::system_call(pid, name)?)],
                Place::Sampled(_) => Vec::new(),
                _ => {
                    let found = images.instructions(|image| request.entries(image, scope));
                    request.check_copies(found.len())?;
                    if found.is_empty() {
                        bail!(request.missing(None));
                    }
                    found.iter().map(&mut count).collect::<Result<_>>()?
                }
            };
            let (point, place) = (request.point.clone(), request.place.clone());
            placed.push(Placed { point, place, counters, samples: Arc::default() });
        }
        Ok(Self { memory, placed })
    }

    /// The points so far. One that the program registers under the name of a placed one is told apart.
    pub fn list(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self.placed.iter().map(|placed| placed.point.clone()).collect();
        for counter in self.memory.counters.registered() {
            let kind = match counter.kind() {
                Some(wire::counter::Kind::Begin) => PointKind::Begin,
                Some(wire::counter::Kind::End) => PointKind::End,
                _ => PointKind::Throughput,
            };
            let mut name = String::from_utf8_lossy(&counter.name().collect::<Vec<u8>>()).into_owned();
            if self.placed.iter().any(|placed| placed.point.name == name && placed.point.kind == kind) {
                name.push_str(" (in the source)");
            }
            points.push(Point { name, kind });
        }
        points
    }

    /// How often each has been visited.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for placed in &self.placed {
            let samples = placed.samples.load(Ordering::Relaxed);
            let visits = placed.counters.iter().map(|counter| counter.count());
            counts.visits.push(visits.fold(samples, u64::wrapping_add));
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

    /// What visits to each point that is counted by breakpoints cost, as a share of `elapsed`. `cost`: of one.
    pub fn costs(&self, cost: Option<Nanos>, elapsed: profile::Nanos) -> Vec<(String, f64)> {
        let Some(cost) = cost else { return Vec::new() };
        let share = |placed: &Placed| {
            let trapped = placed.counters.iter().filter(|counter| counter.means() != Means::Tracepoint);
            let visits: u64 = trapped.map(|counter| counter.count()).sum();
            (placed.point.name.clone(), visits as f64 * cost.0 as f64 / elapsed.get().max(1) as f64)
        };
        self.placed.iter().map(share).collect()
    }

    /// How the placed points are watched, if there are any: for people. `cost`: of a breakpoint.
    pub fn means(&self, cost: Option<Nanos>) -> Option<String> {
        let mut seen = HashSet::new();
        let counters = self.placed.iter().flat_map(|placed| &placed.counters);
        let different: Vec<_> = counters.filter(|counter| seen.insert(Arc::as_ptr(counter))).collect();
        let by = |means| different.iter().filter(|counter| counter.means() == means).count();
        let several = |number: usize, what: &str| {
            (number > 0).then(|| format!("{number} {what}{}", if number == 1 { "" } else { "s" }))
        };
        let cost = cost.map_or_else(String::new, |cost| format!(" ({:.1} µs a visit)", cost.0 as f64 / 1e3));
        let parts = [
            several(by(Means::Breakpoint), "hardware breakpoint").map(|text| text + &cost),
            several(by(Means::Uprobe), "uprobe").map(|text| text + " (which count in all processes)"),
            several(by(Means::Tracepoint), "tracepoint"),
            several(self.sampled().len(), "sampled place"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}
