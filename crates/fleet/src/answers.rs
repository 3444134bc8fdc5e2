//! Answers: the questions of `top`, `diff` and `hosts`, put to a source; shares, intervals and order are made by `cycles`, as for a local database.

use crate::arguments;
use crate::code::{self, NameRow};
use crate::error::Error;
use crate::question::{Only, Pattern, Question, Who};
use crate::ran::label_in;
use crate::source::{CountedAt, EpochAt, Source};
use archive::{
    Books, CodeImage, CollectorEpoch, EpochId, ImageId, ImageKind, KnownPositions, MachineId, MachineInfo,
    OFF_CPU, Offset, Position, Symbol, UnixSeconds,
};
use cycles::counted::{self, Counted, CountedRow};
use cycles::{CodeKey, Difference, Heading, Names, Top};
use jiff::Zoned;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// All time.
pub(crate) const ALWAYS: Range<UnixSeconds> = UnixSeconds(i64::MIN)..UnixSeconds(i64::MAX);
/// No span of time is shorter than a minute.
const MINUTE: i64 = 60;

/// `whatif fleet top`.
pub fn top(source: &mut dyn Source, args: &arguments::Top) -> Result<Top, Error> {
    let mut question = question(&args.which, ALWAYS)?;
    question.who.clone_from(&args.by.who);
    let (_, heading) = headed(source, &mut question, args.which.event.as_deref())?;
    let has_names = matches!(args.by.code, Some(CodeKey::Function | CodeKey::Line));
    let mut counted = counted(source, &question, heading, has_names)?;
    counted::set_inlined(&mut counted.heading, &mut counted.names, !args.which.no_inlined);
    let by: Vec<String> = args.by.who.iter().map(Who::to_string).collect();
    Ok(counted::top(counted, &by, args.by.code, args.top))
}

/// `whatif fleet diff`, with what became of the conditions of `--fail-if`, if there are any.
pub fn diff(source: &mut dyn Source, args: &arguments::Diff) -> Result<Difference, Error> {
    let (before, after) = (args.before.as_str(), args.after.as_str());
    // Conditions may be about functions whatever is shown.
    let has_names = args.by == cycles::arguments::Compared::Function || !args.fail_if.is_empty();
    let mut side = |question: Question| {
        let (mut counted, width) = spread(source, question, args.which.event.as_deref(), has_names)?;
        counted::set_inlined(&mut counted.heading, &mut counted.names, !args.which.no_inlined);
        Ok::<_, Error>((counted, width))
    };
    let (a, b) =
        (Rc::new(side(side_of(before, &args.which)?)?), Rc::new(side(side_of(after, &args.which)?)?));
    let mut difference = counted::difference((before, &a.0, a.1), (after, &b.0, b.1), args.by, args.top);
    if !args.fail_if.is_empty() {
        let mut known = HashMap::from([(Some(before.to_owned()), a), (Some(after.to_owned()), b)]);
        difference.conditions = Some(cycles::judge_counted(&args.fail_if, (before, after), |text| {
            let text = text.map(str::to_owned);
            if let Some(known) = known.get(&text) {
                return Ok(Rc::clone(known));
            }
            let question = match &text {
                Some(text) => side_of(text, &args.which)?,
                None => question(&args.which, ALWAYS)?,
            };
            let measured = Rc::new(side(question)?);
            known.insert(text, Rc::clone(&measured));
            Ok(measured)
        }));
    }
    Ok(difference)
}

/// Reads the samples of a question in spans of time that there are many of; also returns their width in seconds.
fn spread(
    source: &mut dyn Source,
    mut question: Question,
    event: Option<&str>,
    has_names: bool,
) -> Result<(Counted, i64), Error> {
    let (bucket, heading) = headed(source, &mut question, event)?;
    let length = heading.until.unwrap_or(0) - heading.since.unwrap_or(0);
    question.width = counted::span_for(length, bucket);
    Ok((counted(source, &question, heading, has_names)?, question.width))
}

/// One side of a difference: a span of time, or a version.
fn side_of(text: &str, which: &arguments::Which) -> Result<Question, Error> {
    let wrong = |what: &str| Error::Usage(format!("{}: {what}", profile::printable(text)));
    match text.split_once("..") {
        Some((since, until)) => {
            if which.of.since.is_some() || which.of.until.is_some() {
                return Err(wrong("leave --since and --until out: A and B say which times"));
            }
            let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            let of = arguments::Of { since: given(since), until: given(until), ..which.of.clone() };
            question(&arguments::Which { of, ..which.clone() }, ALWAYS)
        }
        None => {
            if which.of.version.is_some() {
                return Err(wrong("leave --version out: A and B say which versions"));
            }
            let version: Pattern = text.parse().map_err(|why: String| wrong(&why))?;
            let of = arguments::Of { version: Some(version), ..which.of.clone() };
            question(&arguments::Which { of, ..which.clone() }, ALWAYS)
        }
    }
}

/// What was typed, without the event.
pub(crate) fn question(which: &arguments::Which, always: Range<UnixSeconds>) -> Result<Question, Error> {
    let now = Zoned::now();
    let at = |text: &Option<String>, name: &str| {
        let at = text.as_deref().map(|text| cycles::time::parse(text, &now)).transpose();
        at.map_err(|why| Error::Usage(format!("{name}: {why}")))
    };
    let since = at(&which.of.since, "--since")?.unwrap_or(always.start);
    let until = at(&which.of.until, "--until")?.unwrap_or(always.end);
    if since >= until {
        return Err(Error::Usage("--since is not before --until; give an earlier time".to_owned()));
    }
    Ok(Question {
        time: since..until,
        event: String::new(),
        only: which.only(),
        who: Vec::new(),
        width: 0,
        idle: which.idle,
    })
}

/// Finds out which event is meant, and reads the books. Also returns the longest time bucket, in seconds.
pub(crate) fn headed(
    source: &dyn Source,
    question: &mut Question,
    event: Option<&str>,
) -> Result<(i64, Heading), Error> {
    let events = source.events(question)?;
    let nothing = |asked: String| Error::Nothing { place: source.place(), asked };
    let first = events.iter().find(|name| *name != OFF_CPU).or(events.first());
    question.event = match event {
        Some(name) if events.iter().any(|known| known == name) => name.to_owned(),
        Some(name) => {
            return Err(nothing(format!(
                "of the event {}; there are: {}",
                profile::printable(name),
                profile::printable(&events.join(", "))
            )));
        }
        None => first.cloned().ok_or_else(|| nothing(asked(question)))?,
    };
    let sums = source.books(question)?;
    let (epochs, machines) = numbered(source.epochs()?);
    let used: Vec<(EpochId, Books)> =
        sums.iter().filter_map(|(uid, books)| Some((epochs.get(uid)?.id, *books))).collect();
    let bucket = sums.iter().filter_map(|(uid, _)| epochs.get(uid));
    let bucket = bucket.map(|epoch| (epoch.setting.resolution.get() / 1_000_000_000) as i64).max();
    let all: Vec<CollectorEpoch> = epochs.into_values().collect();
    let mut heading = counted::heading_of(&question.event, &used, &all, &machines);
    heading.database = source.place();
    heading.selection = question.only.said();
    heading.with_idle = question.idle;
    Ok((bucket.unwrap_or(MINUTE).max(MINUTE), heading))
}

/// What was asked for, in words.
pub(crate) fn asked(question: &Question) -> String {
    let said = question.only.said();
    let time = if question.time == ALWAYS { "" } else { " in this time" };
    match said.as_slice() {
        [] => format!("that are sent{time}"),
        said => format!("of {}{time}", said.join(", ")),
    }
}

/// Epochs and machines with numbers that are the same wherever they come from.
fn numbered(mut all: Vec<EpochAt>) -> (BTreeMap<String, CollectorEpoch>, BTreeMap<MachineId, MachineInfo>) {
    all.sort_by(|a, b| a.uid.cmp(&b.uid));
    let keys: BTreeSet<String> = all.iter().map(|epoch| epoch.machine.key.clone()).collect();
    let number: HashMap<String, MachineId> = keys.into_iter().zip((1..).map(MachineId::new)).collect();
    let mut machines = BTreeMap::new();
    // What the newest epoch says of its machine.
    let mut by_time: Vec<&EpochAt> = all.iter().collect();
    by_time.sort_by_key(|epoch| epoch.started);
    for epoch in by_time {
        machines.insert(number[&epoch.machine.key], epoch.machine.clone());
    }
    let epochs = all.into_iter().zip((1..).map(EpochId::new)).map(|(of, id)| {
        let machine = number[&of.machine.key];
        let epoch =
            CollectorEpoch { id, machine, name: None, setting: of.setting, started: of.started, ended: None };
        (of.uid, epoch)
    });
    (epochs.collect(), machines)
}

/// Reads the samples, and what is known of their code.
pub(crate) fn counted(
    source: &mut dyn Source,
    question: &Question,
    heading: Heading,
    has_names: bool,
) -> Result<Counted, Error> {
    let mut counts = source.counts(question)?;
    if counts.is_empty() {
        return Err(Error::Nothing { place: source.place(), asked: asked(question) });
    }
    counts.sort_unstable();
    let places: BTreeSet<(&str, u64)> = counts.iter().map(|(at, _)| (&*at.build, at.offset)).collect();
    let order: Vec<(&str, u64)> = places.into_iter().collect();
    let (names, positions) = code_of(source, &order, has_names)?;
    let index: HashMap<(&str, u64), u32> = order.iter().copied().zip(0..).collect();
    let row = |(at, count): &(CountedAt, u64)| CountedRow {
        groups: question.who.iter().map(|who| text_of(who, at)).collect(),
        span: at.span,
        position: index[&(&*at.build, at.offset)],
        count: *count,
    };
    let rows = counts.iter().map(row).collect();
    Ok(Counted { heading, names, positions, rows })
}

/// What is known of places, which are in order: the images and, if `has_names`, the names; and their positions, in the same order.
pub(crate) fn code_of(
    source: &mut dyn Source,
    order: &[(&str, u64)],
    has_names: bool,
) -> Result<(Names, Vec<Position>), Error> {
    let mut builds: Vec<&str> = order.iter().map(|(build, _)| *build).collect();
    builds.dedup();
    let numbers: HashMap<&str, ImageId> = builds.iter().copied().zip((1..).map(ImageId::new)).collect();
    let mut paths: BTreeMap<&str, (String, String)> = BTreeMap::new();
    let of_builds = source.images(&builds)?;
    for image in &of_builds {
        // Of several paths the first, so that all machines agree.
        let this = (image.path.clone(), image.kind.clone());
        paths
            .entry(&image.build)
            .and_modify(|known| *known = this.clone().min(known.clone()))
            .or_insert(this);
    }
    let image = |(build, id): (&&str, &ImageId)| {
        let (path, kind) = paths.get(*build).cloned().unwrap_or_else(|| ((*build).to_owned(), String::new()));
        let build_id = if path == **build { String::new() } else { (*build).to_owned() };
        (*id, CodeImage { path, build_id, kind: ImageKind::from_name(&kind) })
    };
    let images: BTreeMap<ImageId, CodeImage> = numbers.iter().map(image).collect();
    let known = if has_names { known(source, order, &numbers)? } else { HashMap::new() };
    let positions = order.iter().map(|(build, offset)| (numbers[build], Offset(*offset))).collect();
    Ok((Names::of_known(images, known), positions))
}

/// What one who ran is called.
pub(crate) fn text_of(who: &Who, at: &CountedAt) -> String {
    match who {
        Who::Service => at.service.clone(),
        Who::Version => at.version.clone(),
        Who::Host => at.host.clone(),
        Who::Process => at.process.clone(),
        Who::Label(name) => label_in(&at.labels, name),
    }
}

/// The names of positions, those that say most.
fn known(
    source: &mut dyn Source,
    order: &[(&str, u64)],
    numbers: &HashMap<&str, ImageId>,
) -> Result<HashMap<ImageId, KnownPositions>, Error> {
    let mut best: HashMap<(String, u64), Vec<NameRow>> = HashMap::new();
    for found in source.names(order)? {
        let known = best.entry((found.build, found.offset)).or_default();
        if (code::detail(&found.names), &found.names) > (code::detail(known), known) {
            *known = found.names;
        }
    }
    let mut known: HashMap<ImageId, KnownPositions> =
        numbers.values().map(|image| (*image, KnownPositions::default())).collect();
    for ((build, offset), names) in best {
        let Some(of) = numbers.get(&*build).and_then(|image| known.get_mut(image)) else { continue };
        let symbol =
            |(function, file, line): NameRow| Symbol { function: function.into(), file: file.into(), line };
        of.named.insert(Offset(offset), names.into_iter().map(symbol).collect());
    }
    Ok(known)
}

/// The machines of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hosts {
    /// What was sampled.
    pub event: String,
    /// The machines, by name.
    pub hosts: Vec<Host>,
}

/// A machine, with its books in the time that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// What tells it from all others.
    pub machine: String,
    /// Release of its kernel.
    pub kernel: String,
    /// CPUs that are sampled.
    pub cpus: u32,
    /// The version of its collector.
    pub whatif: String,
    /// When the first books begin, in seconds since 1970.
    pub since: i64,
    /// When the last ones end.
    pub until: i64,
    /// Samples that the clock called for.
    pub expected: u64,
    /// Samples with a known image.
    pub stored: u64,
    /// Samples without.
    pub unknown: u64,
    /// Samples that were not kept.
    pub lost: u64,
    /// Samples of idle CPUs, which are among the stored.
    pub idle: u64,
    /// CPU time that they stand for, in nanoseconds.
    pub covered_ns: u64,
}

/// `whatif fleet hosts`.
pub fn hosts(source: &dyn Source, which: &arguments::Which) -> Result<Hosts, Error> {
    let mut question = question(which, ALWAYS)?;
    question.only = Only { host: which.of.host.clone(), ..Only::default() };
    headed(source, &mut question, which.event.as_deref())?;
    let epochs: HashMap<String, EpochAt> =
        source.epochs()?.into_iter().map(|epoch| (epoch.uid.clone(), epoch)).collect();
    let mut newest: HashMap<String, UnixSeconds> = HashMap::new();
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    for (uid, books) in source.books(&question)? {
        let Some(EpochAt { machine, setting, started, .. }) = epochs.get(&uid) else { continue };
        let host = hosts.entry(machine.key.clone()).or_insert_with(|| Host {
            machine: machine.key.clone(),
            since: books.start.0,
            ..Host::default()
        });
        if newest.get(&machine.key).is_none_or(|known| known < started) {
            newest.insert(machine.key.clone(), *started);
            host.host.clone_from(&machine.host);
            host.kernel.clone_from(&machine.kernel);
            host.whatif.clone_from(&setting.version);
            host.cpus = machine.cpus;
        }
        host.since = host.since.min(books.start.0);
        host.until = host.until.max(books.end().0);
        host.expected += books.expected;
        host.stored += books.stored;
        host.unknown += books.unknown;
        host.lost += books.lost;
        host.idle += books.idle;
        host.covered_ns += books.covered.get();
    }
    let mut hosts: Vec<Host> = hosts.into_values().collect();
    hosts.sort_by(|a, b| (&a.host, &a.machine).cmp(&(&b.host, &b.machine)));
    Ok(Hosts { event: question.event, hosts })
}

impl Hosts {
    /// For a terminal: a line for each.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}, samples of {}\n\n  {:<24} {:>5} {:>14} {:>9} {:>9}  {:<20} collector\n",
            profile::counted(self.hosts.len() as u64, "machine"),
            profile::printable(&self.event),
            "host",
            "CPUs",
            "samples",
            "lost",
            "idle",
            "last (UTC)"
        );
        for host in &self.hosts {
            let share = |part: u64| 100.0 * part as f64 / host.expected.max(1) as f64;
            let last = jiff::Timestamp::from_second(host.until).map(|at| at.to_string()).unwrap_or_default();
            out += &format!(
                "  {:<24} {:>5} {:>14} {:>7.2} % {:>7.2} %  {:<20} {}\n",
                profile::printable(&host.host),
                host.cpus,
                host.stored + host.unknown,
                share(host.lost),
                share(host.idle),
                last,
                profile::printable(&host.whatif)
            );
        }
        out
    }
}
