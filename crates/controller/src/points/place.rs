//! Places in a program, as they are typed: understood, found, and missed with a hint.

use super::known;
use crate::failure;
use crate::region::{Presence, RegionSpec};
use anyhow::{Context as _, Result, bail, ensure};
use globset::{Glob, GlobMatcher};
use kernel::visits::Counter;
use profile::{Point, PointKind};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use symbols::{Image, Scope, Svma};

/// More copies of one place than this are a mistake.
const MOST_COPIES: usize = 64;

const ADVICE: &str = "give FILE:LINE, as in -p server.rs:42, fn:NAME (or just NAME), sampled:FILE:LINE, sampled:fn:NAME, \
                      usdt:PROVIDER:NAME, syscall:NAME or net:requests; in another program that is executed, its name first: -p 'worker:fn:NAME'";

/// A place in the code, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `FILE:LINE` or `fn:NAME`: where code is entered.
    Code(RegionSpec),
    /// `usdt:PROVIDER:NAME`: a probe that the program's authors have put there.
    Probe(String, String),
    /// `syscall:NAME`: completed system calls.
    SystemCall(String),
    /// `net:requests` or `net:requests:PORT`: requests of other programs that were answered.
    Requests(Option<u16>),
    /// `sampled:FILE:LINE` or `sampled:fn:NAME`: samples in code, or in what it calls.
    Sampled(RegionSpec),
}

/// An instruction of an image, and the word that must not be zero for it to be executed.
pub type Entry = (Svma, Option<Svma>);

impl Place {
    /// Understands what [`ADVICE`] says.
    pub fn parse(text: &str) -> Result<Self> {
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.trim().is_empty());
        let code = |text: &str| match text.strip_prefix("fn:") {
            Some(name) => named(name).map(RegionSpec::Function),
            None => Some(RegionSpec::parse_place(text)).filter(|spec| match spec {
                RegionSpec::Line(_, line) => *line > 0,
                // What else has a colon or a slash is a mistyped line, or something else with a prefix.
                _ => !text.trim().is_empty() && !text.replace("::", "").contains([':', '/']),
            }),
        };
        let place = match text.split_once(':') {
            Some(("syscall", name)) => named(name).map(Self::SystemCall),
            Some(("net", "requests")) => Some(Self::Requests(None)),
            Some(("net", what)) => what
                .strip_prefix("requests:")
                .and_then(|port| port.parse().ok())
                .filter(|port| *port > 0)
                .map(|port| Self::Requests(Some(port))),
            Some(("usdt", probe)) => probe
                .split_once(':')
                .filter(|(provider, name)| !provider.is_empty() && !name.is_empty())
                .map(|(provider, name)| Self::Probe(provider.to_owned(), name.to_owned())),
            Some(("sampled", sampled)) => code(sampled).map(Self::Sampled),
            _ => code(text).map(Self::Code),
        };
        place.with_context(|| format!("-p {text}: {ADVICE}"))
    }

    /// Whether its visits are those of instructions of some image.
    pub fn is_in_image(&self) -> bool {
        !matches!(self, Self::SystemCall(_) | Self::Requests(_) | Self::Sampled(_))
    }

    /// The place with samples of its code as visits.
    pub fn sampled(&self) -> Self {
        match self {
            Self::Code(code) => Self::Sampled(code.clone()),
            other => other.clone(),
        }
    }

    fn entries(&self, image: &Image, scope: &Scope) -> Vec<Entry> {
        let unguarded = |entries: Vec<Svma>| entries.into_iter().map(|entry| (entry, None)).collect();
        match self {
            Self::Code(RegionSpec::Line(file, line)) => unguarded(image.line_entries(file, *line, scope)),
            Self::Code(RegionSpec::Function(name)) => unguarded(image.function_entries(name)),
            // Points cannot ask for that.
            Self::Code(RegionSpec::CalledFrom(..)) => Vec::new(),
            Self::Probe(provider, name) => {
                let ours = |probe: &symbols::Probe| probe.provider == *provider && probe.name == *name;
                image
                    .probes()
                    .into_iter()
                    .filter(ours)
                    .map(|probe| (probe.address, probe.semaphore))
                    .collect()
            }
            Self::SystemCall(_) | Self::Requests(_) | Self::Sampled(_) => Vec::new(),
        }
    }

    /// What may have been meant, where an image has no such place.
    fn hint(&self, image: &Image, scope: &Scope) -> Option<String> {
        match self {
            Self::Code(code) | Self::Sampled(code) => match code.find_in(image) {
                Presence::Meant(hint) => Some(hint),
                Presence::Unknown => Some(code.unknown_in(image, scope)),
                Presence::There => None,
            },
            Self::Probe(..) => {
                let names =
                    image.probes().into_iter().map(|probe| format!("{}:{}", probe.provider, probe.name));
                let names: Vec<String> = names.collect::<BTreeSet<String>>().into_iter().collect();
                (!names.is_empty()).then(|| format!("there are {}", failure::list(&names, 5)))
            }
            Self::SystemCall(_) | Self::Requests(_) => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::Probe(provider, name) => write!(f, "{provider}:{name}"),
            Self::SystemCall(name) => write!(f, "syscall:{name}"),
            Self::Requests(None) => f.write_str(Point::REQUESTS),
            Self::Requests(Some(port)) => write!(f, "{}:{port}", Point::REQUESTS),
            Self::Sampled(code) => write!(f, "sampled:{code}"),
        }
    }
}

/// The path of an image, and its build ID.
type Build = (PathBuf, Option<String>);

/// A point to be placed.
#[derive(Debug)]
pub struct PointSpec {
    pub point: Point,
    pub place: Place,
    /// The programs that it is in; none for all.
    program: Option<GlobMatcher>,
    /// What was found in images so far, by their paths and builds: it takes its time, and the program waits for it.
    found: Mutex<HashMap<Build, Vec<Entry>>>,
}

impl PointSpec {
    fn new(Placed { program, place }: Placed, name: String, kind: PointKind) -> Self {
        let program = program.map(|program| program.compile_matcher());
        Self { point: Point { name, kind }, place, program, found: Mutex::default() }
    }

    /// Whether it may be in this program.
    fn is_in(&self, image: &Image) -> bool {
        let named = |glob: &GlobMatcher| image.path().file_name().is_some_and(|name| glob.is_match(name));
        self.program.as_ref().is_none_or(named)
    }

    /// Whether the user has said which program it is in, which may come later.
    pub fn is_in_named_program(&self) -> bool {
        self.program.is_some()
    }

    /// Whether it is a beginning or an end.
    pub fn is_of_latency(&self) -> bool {
        self.point.kind != PointKind::Throughput && self.is_in_image()
    }

    /// What `-p PLACE` asks for.
    pub fn throughput(text: &str) -> Result<Self> {
        let placed = Placed::parse(text)?;
        let name = placed.to_string();
        Ok(Self::new(placed, name, PointKind::Throughput))
    }

    /// What `-p PLACE` and `--latency BEGIN..END` ask for.
    pub fn all(points: &[String], latencies: &[String]) -> Result<Vec<Self>> {
        let mut specs = Vec::new();
        for text in points {
            specs.push(Self::throughput(text)?);
        }
        for text in latencies {
            let (begin, end) = both(text).with_context(|| {
                format!("--latency {text}: give two places, as in --latency fn:receive..fn:answer")
            })?;
            let name = format!("{begin}..{end}");
            specs.push(Self::new(begin, name.clone(), PointKind::Begin));
            specs.push(Self::new(end, name, PointKind::End));
        }
        for (nth, spec) in specs.iter().enumerate() {
            let again = specs[..nth].iter().any(|other| other.point == spec.point);
            ensure!(!again, "the progress point {} is asked for twice; leave one out", spec.point.name);
        }
        Ok(specs)
    }

    /// See [`Place::is_in_image`].
    pub fn is_in_image(&self) -> bool {
        self.place.is_in_image()
    }

    /// Whether a program may be able to count its visits itself.
    pub fn may_count_itself(&self) -> bool {
        matches!(self.place, Place::Code(RegionSpec::Function(_))) && self.point.kind == PointKind::Throughput
    }

    /// Whether samples can stand in for its visits, where those cannot be counted.
    pub fn can_be_sampled(&self) -> bool {
        matches!(self.place, Place::Code(_)) && self.point.kind == PointKind::Throughput
    }

    /// Lets samples stand in for its visits. It keeps its name.
    pub fn sample(&mut self) {
        self.place = self.place.sampled();
    }

    /// Where the place is entered in an image.
    pub fn entries(&self, image: &Image, scope: &Scope) -> Vec<Entry> {
        if !self.is_in(image) {
            return Vec::new();
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let find =
            || known::entries(image, &format!("{:?}", self.place), || self.place.entries(image, scope));
        found.entry((image.path().to_owned(), image.build_id())).or_insert_with(find).clone()
    }

    /// Fails if there is no such place in `image`, the only one that is looked into, or no such system call.
    pub fn check(&self, image: &Image, scope: &Scope) -> Result<()> {
        if !self.is_in(image) {
            return Ok(());
        }
        let is_there = match &self.place {
            Place::SystemCall(name) => system_call(std::process::id(), name).map(|_| true)?,
            Place::Requests(_) => true,
            Place::Sampled(code) => code.find_in(image) == Presence::There,
            _ => {
                let copies = self.entries(image, scope).len();
                self.check_copies(copies)?;
                copies > 0
            }
        };
        if !is_there {
            return Err(self.missing(self.place.hint(image, scope)));
        }
        Ok(())
    }

    pub fn check_copies(&self, copies: usize) -> Result<()> {
        ensure!(
            copies <= MOST_COPIES,
            "the progress point {} has {copies} copies in the program; choose one that is less often inlined",
            self.place
        );
        Ok(())
    }

    /// There is no code there.
    pub fn missing(&self, hint: Option<String>) -> anyhow::Error {
        let hint = hint.unwrap_or_else(|| {
            "check the name, and that the program was compiled with -g; for a library, name it with --binary GLOB"
                .to_owned()
        });
        anyhow::anyhow!("there is no code at the progress point {}; {hint}", self.place)
    }
}

/// A place, and the programs that it is in if they were named: `PROGRAM:PLACE`.
struct Placed {
    program: Option<Glob>,
    place: Place,
}

impl Placed {
    fn parse(text: &str) -> Result<Self> {
        let named = text.split_once(':').filter(|(program, rest)| {
            let is_kind = matches!(*program, "fn" | "usdt" | "syscall" | "net" | "sampled" | "");
            // What has no colon is the line of a file.
            !is_kind && !program.contains('/') && !rest.starts_with(':') && rest.contains(':')
        });
        if let Some((program, rest)) = named
            && let Ok(place @ (Place::Code(_) | Place::Probe(..))) = Place::parse(rest)
        {
            let advice = || {
                format!("-p {text}: '{program}' is not a glob; write the name of a program, e.g. 'worker*'")
            };
            return Ok(Self { program: Some(Glob::new(program).with_context(advice)?), place });
        }
        Ok(Self { program: None, place: Place::parse(text)? })
    }
}

impl std::fmt::Display for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{program}:{}", self.place),
            None => self.place.fmt(f),
        }
    }
}

/// The two places of `BEGIN..END`, which may have dots of their own.
fn both(text: &str) -> Result<(Placed, Placed)> {
    for (dots, _) in text.match_indices("..") {
        if let (Ok(begin), Ok(end)) = (Placed::parse(&text[..dots]), Placed::parse(&text[dots + 2..])) {
            return Ok((begin, end));
        }
    }
    bail!(ADVICE)
}

pub fn system_call(pid: u32, name: &str) -> Result<Counter> {
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
        let code_line = |file: &str, line| RegionSpec::Line(file.to_owned(), line);
        let line = |file: &str, line| Place::Code(code_line(file, line));
        let function = |name: &str| Place::Code(RegionSpec::Function(name.to_owned()));
        for (text, expected) in [
            ("hash.c:88", Some(line("hash.c", 88))),
            ("src/a b.rs:1", Some(line("src/a b.rs", 1))),
            ("fn:work", Some(function("work"))),
            ("fn:a::b<*>", Some(function("a::b<*>"))),
            ("usdt:shop:sold", Some(Place::Probe("shop".to_owned(), "sold".to_owned()))),
            ("syscall:write", Some(Place::SystemCall("write".to_owned()))),
            ("sampled:a.c:7", Some(Place::Sampled(code_line("a.c", 7)))),
            ("sampled:fn:work", Some(Place::Sampled(RegionSpec::Function("work".to_owned())))),
            ("sampled:syscall:write", None),
            ("usdt:shop", None),
            ("syscall:", None),
            ("net:requests", Some(Place::Requests(None))),
            ("net:requests:8080", Some(Place::Requests(Some(8080)))),
            ("net:requests:0", None),
            ("net:requests:http", None),
            ("net:answers", None),
            ("fn:", None),
            ("work", Some(function("work"))),
            ("shop::Cart::add", Some(function("shop::Cart::add"))),
            ("", None),
            ("src/main.c", None),
            ("usdt::x", None),
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
    fn a_place_may_be_in_a_program_that_is_named() {
        let function = |name: &str| Place::Code(RegionSpec::Function(name.to_owned()));
        let line = Place::Code(RegionSpec::Line("a.c".to_owned(), 7));
        for (text, program, place) in [
            ("worker:fn:work", Some("worker"), function("work")),
            ("worker*:a.c:7", Some("worker*"), line.clone()),
            ("postgres:usdt:a:b", Some("postgres"), Place::Probe("a".to_owned(), "b".to_owned())),
            ("fn:work", None, function("work")),
            ("a.c:7", None, line),
            ("net:requests:80", None, Place::Requests(Some(80))),
            ("shop::Cart::add", None, function("shop::Cart::add")),
        ] {
            let placed = Placed::parse(text).unwrap();
            assert_eq!((placed.program.as_ref().map(Glob::glob), placed.place), (program, place), "{text}");
        }
        assert!(Placed::parse("worker:syscall:write").is_err());
        let specs = latency("worker:fn:a..master:fn:b").unwrap();
        assert_eq!(specs[0].point.name, "worker:a..master:b");
        assert!(specs.iter().all(PointSpec::is_in_named_program));
    }

    fn latency(text: &str) -> Result<Vec<PointSpec>> {
        PointSpec::all(&[], &[text.to_owned()])
    }

    #[test]
    fn a_latency_has_two_places() {
        let both = latency("fn:receive..../src/main.c:7").unwrap();
        let [begin, end] = &both[..] else { panic!("{both:?}") };
        assert_eq!((begin.point.kind, end.point.kind), (PointKind::Begin, PointKind::End));
        assert_eq!(begin.point.name, end.point.name);
        assert_eq!(
            latency("../a.c:1..b.c:2").unwrap()[0].place,
            Place::Code(RegionSpec::Line("../a.c".to_owned(), 1))
        );
        assert_eq!(latency("a..b").unwrap()[1].place, Place::Code(RegionSpec::Function("b".to_owned())));
        for bad in ["fn:a", "fn:a..", "..fn:a", "a.."] {
            assert!(latency(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_point_is_asked_for_once() {
        let all = |points: &[&str]| {
            PointSpec::all(&points.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &[])
        };
        assert_eq!(all(&["fn:a", "fn:b", "a.c:7"]).unwrap().len(), 3);
        for again in ["fn:a", "a"] {
            assert!(all(&["fn:a", "fn:b", again]).unwrap_err().to_string().contains("twice"));
        }
    }
}
