//! Guard: a condition on the program or its machine under which no experiment may be made. Pure: what was seen is handed in.
//!
//! A number is that of the last `over` (a second by default). Where it is compared with a part of what it was, that is what it was before the first experiment of the session.

use profile::Nanos;
use profile::relation::{Relation, number, percent};
use std::collections::VecDeque;
use std::str::FromStr;

/// The right syntax, for messages.
const RIGHT: &str = "write 'throughput < 80%', 'throughput(POINT) < 500/s', 'latency(POINT) > 150%', 'latency > 20ms' or 'cpu > 90%', \
                     with 'over 5s' behind it where that is to be looked at for longer than a second";
/// The time that a number is of by default.
const USUAL: Nanos = Nanos::from_millis(1_000);
/// No number is that of less: counts are looked at every 20 ms.
const SHORTEST: Nanos = Nanos::from_millis(50);
/// And of no more: before it is known, there are no experiments.
const LONGEST: Nanos = Nanos::from_millis(60_000);
/// A drop that chance alone may be is none: so many standard deviations of a count.
const CHANCE: f64 = 3.0;
/// Fewer visits say nothing of what was before the first experiment.
const ENOUGH: f64 = 20.0;
/// It is looked at for so many times as long then.
const LONGER: [u64; 4] = [1, 2, 4, 8];

/// A condition, such as `throughput < 80%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// As it was typed.
    pub text: String,
    quantity: Quantity,
    relation: Relation,
    limit: Limit,
    over: Nanos,
}

/// A number that is looked at.
#[derive(Clone, Debug, PartialEq)]
enum Quantity {
    /// Visits a second to a progress point: the one of this name, or the first one.
    Throughput(Option<String>),
    /// How long pieces of work take on average, in nanoseconds: of this name, or the first ones.
    Latency(Option<String>),
    /// The part of the machine's CPU time that is used.
    Cpu,
}

/// What it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// So large a part of what it was before the first experiment.
    OfBefore(f64),
    /// This.
    Absolute(f64),
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what}: {RIGHT}");
        let (condition, over) = match text.rsplit_once(" over ") {
            None => (text, USUAL),
            Some((condition, over)) => {
                (condition, time(over).ok_or_else(|| wrong(&format!("'{}' is no time", over.trim())))?)
            }
        };
        if !(SHORTEST..=LONGEST).contains(&over) {
            return Err(wrong("the time behind 'over' is from 50ms to 60s"));
        }
        let condition = condition.trim();
        // A name may have any of these characters.
        let (word, name, rest) = match condition.split_once('(') {
            Some((word, rest)) if !word.contains(['<', '>']) => {
                let (name, rest) = rest.rsplit_once(')').ok_or_else(|| wrong("a ')' is missing"))?;
                let name = name.trim();
                if name.is_empty() {
                    return Err(wrong("the parentheses are empty"));
                }
                (word, Some(name.to_owned()), rest)
            }
            _ => {
                let end =
                    condition.find(['<', '>']).ok_or_else(|| wrong("there is nothing to compare with"))?;
                (&condition[..end], None, &condition[end..])
            }
        };
        let (relation, limit) = Relation::first_of(rest.trim_start()).map_err(|what| wrong(&what))?;
        let limit = limit.trim();
        let part = |what| percent(limit, what).map(Limit::OfBefore).map_err(|what| wrong(&what));
        let (quantity, limit) = match word.trim() {
            "throughput" if limit.ends_with('%') => (Quantity::Throughput(name), part("throughput")?),
            "throughput" => {
                let rate = number(limit.trim_end_matches("/s")).map_err(|what| wrong(&what))?;
                (Quantity::Throughput(name), Limit::Absolute(rate))
            }
            "latency" if limit.ends_with('%') => (Quantity::Latency(name), part("a latency")?),
            "latency" => {
                let time = time(limit).ok_or_else(|| wrong(&format!("'{limit}' is no time")))?;
                (Quantity::Latency(name), Limit::Absolute(time.get() as f64))
            }
            "cpu" if name.is_none() => {
                (Quantity::Cpu, Limit::Absolute(percent(limit, "cpu").map_err(|what| wrong(&what))?))
            }
            other => return Err(wrong(&format!("'{other}' is neither throughput nor latency nor cpu"))),
        };
        let is_upwards = !matches!(quantity, Quantity::Throughput(_));
        if relation.is_upwards() != is_upwards {
            return Err(wrong("throughput has to be below something, latency and cpu above"));
        }
        Ok(Self { text: text.trim().to_owned(), quantity, relation, limit, over })
    }
}

/// `20ms`, `1.5s`, `250us`.
fn time(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        _ => return None,
    };
    let nanos = number.parse::<f64>().ok()? * unit;
    (1.0..1e15).contains(&nanos).then(|| Nanos::new(nanos as u64))
}

/// What is looked at, at one moment. Counts only grow.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// On the monotonic clock.
    pub time: Nanos,
    /// For how long threads have been delayed, each of them.
    pub required: Nanos,
    /// Visits to each progress point.
    pub visits: Vec<u64>,
    /// Of each progress point that is an end: how many pieces of work are known by themselves, and how long they took together by their threads' own clocks.
    pub paired: Vec<(u64, u64)>,
    /// CPU time that the machine has used, and all that has passed on its CPUs.
    pub cpu: Option<(u64, u64)>,
}

/// A progress point, as far as guards need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub name: String,
    pub kind: profile::PointKind,
}

/// The last readings.
#[derive(Debug, Default)]
pub struct Past(VecDeque<Reading>);

impl Past {
    /// Adds the newest; forgets what is older than `longest` before it.
    pub fn add(&mut self, reading: Reading, longest: Nanos) {
        let begin = reading.time.saturating_sub(longest);
        self.0.push_back(reading);
        // One that is as old as that is needed.
        while self.0.get(1).is_some_and(|second| second.time <= begin) {
            self.0.pop_front();
        }
    }

    /// The last reading, and that of so long before it; none if there is none so old.
    fn ends(&self, over: Nanos) -> Option<(usize, &Reading)> {
        let last = self.0.back()?;
        let begin = Nanos::new(last.time.get().checked_sub(over.get())?);
        let nth = self.0.partition_point(|reading| reading.time <= begin);
        Some((nth.checked_sub(1)?, last))
    }
}

/// A number as it is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    value: f64,
    /// Of a rate: the visits that it is made of.
    count: Option<f64>,
}

/// Looks whether a guard holds.
#[derive(Debug)]
pub struct Judge {
    guard: Guard,
    /// What the number was before the first experiment.
    before: Option<Value>,
}

impl Judge {
    pub fn new(guard: Guard) -> Self {
        Self { guard, before: None }
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Whether the number was seen before the first experiment.
    pub fn is_ready(&self) -> bool {
        self.before.is_some()
    }

    /// The condition holds: what was seen, in words.
    pub fn look(&mut self, past: &Past, spots: &[Spot]) -> Option<String> {
        let over = self.guard.over;
        let now = self.value(past, spots, over)?;
        if self.before.is_none() {
            // Until enough was seen there are no experiments, so nothing is left unguarded.
            let is_relative = matches!(self.guard.limit, Limit::OfBefore(_));
            self.before = (!is_relative || now.count.is_some_and(|count| count >= ENOUGH)).then_some(now);
        }
        let before = self.before?;
        let limit = match self.guard.limit {
            Limit::Absolute(limit) => limit,
            Limit::OfBefore(part) => part * before.value,
        };
        if !self.guard.relation.holds(now.value, limit) {
            return None;
        }
        let (Limit::OfBefore(part), Some(expected)) = (self.guard.limit, before.count) else {
            return Some(self.words(over, now.value, limit, before.value));
        };
        // What is not certain yet may become so when it is looked at for longer.
        LONGER.into_iter().find_map(|times| {
            let over = Nanos::new(over.get() * times);
            let now = self.value(past, spots, over)?;
            let count = now.count?;
            let is_certain = if let Quantity::Latency(_) = self.guard.quantity {
                // Of pieces of work that take times of any kind the mean is so uncertain.
                now.value > limit * (1.0 + CHANCE / count.max(1.0).sqrt())
            } else {
                let expected = expected * times as f64;
                // Both are counts, and have the noise of counts.
                let noise = (part * part * expected * times as f64 + part * expected).sqrt();
                count + CHANCE * noise < part * expected
            };
            is_certain.then(|| self.words(over, now.value, limit, before.value))
        })
    }

    /// Whether there is what it is about.
    pub fn has_point(&self, spots: &[Spot]) -> bool {
        match &self.guard.quantity {
            Quantity::Throughput(name) => self::throughput(spots, name.as_deref()).is_some(),
            Quantity::Latency(name) => self::latency(spots, name.as_deref()).is_some(),
            Quantity::Cpu => true,
        }
    }

    fn value(&self, past: &Past, spots: &[Spot], over: Nanos) -> Option<Value> {
        let (nth, last) = past.ends(over)?;
        let first = &past.0[nth];
        let passed = last.time.saturating_sub(first.time).get() as f64;
        let visits = |reading: &Reading, point: usize| reading.visits.get(point).copied().unwrap_or(0);
        match &self.guard.quantity {
            Quantity::Throughput(name) => {
                let point = throughput(spots, name.as_deref())?;
                let count = visits(last, point).wrapping_sub(visits(first, point)) as f64;
                Some(Value { value: count * 1e9 / passed, count: Some(count) })
            }
            Quantity::Latency(name) => {
                let (begin, end) = latency(spots, name.as_deref())?;
                let paired = |reading: &Reading| reading.paired.get(end).copied().unwrap_or_default();
                let (count, time) = (
                    paired(last).0.wrapping_sub(paired(first).0),
                    paired(last).1.wrapping_sub(paired(first).1),
                );
                let ended = visits(last, end).wrapping_sub(visits(first, end));
                // Threads' own clocks stand still while they are delayed.
                let delayed = last.required.saturating_sub(first.required).get() as f64;
                if count > 0 && 2 * count >= ended && delayed < passed {
                    let mean = time as f64 / count as f64;
                    return Some(Value {
                        value: mean * passed / (passed - delayed),
                        count: Some(ended as f64),
                    });
                }
                // As many as are in flight on average, for each that ends (Little's law).
                let open =
                    |reading: &Reading| visits(reading, begin).saturating_sub(visits(reading, end)) as f64;
                let readings: Vec<&Reading> = past.0.range(nth..).collect();
                let area: f64 = readings
                    .windows(2)
                    .map(|pair| {
                        let step = pair[1].time.saturating_sub(pair[0].time).get() as f64;
                        step * (open(pair[0]) + open(pair[1])) / 2.0
                    })
                    .sum();
                // Nothing ends although something has begun: that takes at least as long as was looked.
                Some(Value { value: area / (ended.max(1)) as f64, count: Some(ended as f64) })
            }
            Quantity::Cpu => {
                let ((used, all), (used_before, all_before)) = (last.cpu?, first.cpu?);
                let all = all.saturating_sub(all_before);
                (all > 0).then(|| Value {
                    value: used.saturating_sub(used_before) as f64 / all as f64,
                    count: None,
                })
            }
        }
    }

    fn words(&self, over: Nanos, now: f64, limit: f64, before: f64) -> String {
        let of = |name: &Option<String>| {
            name.as_ref().map(|name| format!(" of {}", profile::printable(name))).unwrap_or_default()
        };
        let before = |unit: &dyn Fn(f64) -> String| match self.guard.limit {
            Limit::OfBefore(_) => format!(", and {} before the first experiment", unit(before)),
            Limit::Absolute(_) => String::new(),
        };
        let over = over.as_secs_f64();
        match &self.guard.quantity {
            Quantity::Throughput(name) => {
                let rate = |value: f64, digits: usize| format!("{value:.digits$}/s");
                let digits = apart(now, limit, 1);
                let before = before(&|value| rate(value, digits));
                let (now, limit) = (rate(now, digits), rate(limit, digits));
                format!("throughput{} over {over} s was {now}, below {limit}{before}", of(name))
            }
            Quantity::Latency(name) => {
                let time = |value: f64, digits: usize| format!("{:.digits$} ms", value / 1e6);
                let digits = apart(now / 1e6, limit / 1e6, 2);
                let before = before(&|value| time(value, digits));
                let (now, limit) = (time(now, digits), time(limit, digits));
                format!("latency{} over {over} s was {now}, above {limit}{before}", of(name))
            }
            Quantity::Cpu => {
                let (now, limit) = (100.0 * now, 100.0 * limit);
                let digits = apart(now, limit, 0);
                format!(
                    "the machine's CPUs were used at {now:.digits$} % over {over} s, above {limit:.digits$} %"
                )
            }
        }
    }
}

/// How many digits behind the point it takes to tell two numbers apart: the `usual` ones, or more.
fn apart(one: f64, other: f64, usual: usize) -> usize {
    const MOST: usize = 9;
    (usual..MOST).find(|digits| format!("{one:.digits$}") != format!("{other:.digits$}")).unwrap_or(usual)
}

/// The first point of such a kind, of this name if there is one.
fn find(spots: &[Spot], name: Option<&str>, is_kind: impl Fn(profile::PointKind) -> bool) -> Option<usize> {
    spots.iter().position(|spot| is_kind(spot.kind) && name.is_none_or(|name| spot.name == name))
}

/// The point whose visits are counted: where there is none, the end of what takes time.
fn throughput(spots: &[Spot], name: Option<&str>) -> Option<usize> {
    find(spots, name, |kind| kind == profile::PointKind::Throughput)
        .or_else(|| find(spots, name, |kind| kind == profile::PointKind::End))
}

/// The begin and the end of what takes time.
fn latency(spots: &[Spot], name: Option<&str>) -> Option<(usize, usize)> {
    let end = find(spots, name, |kind| kind == profile::PointKind::End)?;
    Some((find(spots, Some(&spots[end].name), |kind| kind == profile::PointKind::Begin)?, end))
}

impl Guard {
    /// For how long what was seen has to be kept.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        match (&self.quantity, self.limit) {
            (Quantity::Throughput(_), Limit::OfBefore(_)) => Nanos::new(self.over.get() * LONGER[3]),
            _ => self.over,
        }
    }

    /// Whether it is about the machine's CPUs.
    #[must_use]
    pub fn is_about_cpus(&self) -> bool {
        self.quantity == Quantity::Cpu
    }

    /// Whether it is about latency.
    #[must_use]
    pub fn is_about_latency(&self) -> bool {
        matches!(self.quantity, Quantity::Latency(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::PointKind;

    fn guard(text: &str) -> Guard {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_was_seen_is_told_with_enough_digits() {
        for (one, other, usual, digits) in
            [(0.9, 1.0, 1, 1), (0.96, 1.0, 1, 2), (0.99996, 1.0, 1, 5), (99.6, 100.4, 0, 1), (1.0, 1.0, 1, 1)]
        {
            assert_eq!(apart(one, other, usual), digits, "{one} {other}");
        }
        for (text, now, limit, said) in [
            ("throughput < 1/s", 0.96, 1.0, "throughput over 1 s was 0.96/s, below 1.00/s"),
            ("latency > 20ms", 20_001_000.0, 20e6, "latency over 1 s was 20.001 ms, above 20.000 ms"),
            ("cpu > 90%", 0.902, 0.9, "the machine's CPUs were used at 90.2 % over 1 s, above 90.0 %"),
        ] {
            assert_eq!(Judge::new(guard(text)).words(USUAL, now, limit, 0.0), said);
        }
        let said = Judge::new(guard("throughput < 80%")).words(USUAL, 0.799, 0.8, 1.0);
        assert_eq!(
            said,
            "throughput over 1 s was 0.799/s, below 0.800/s, and 1.000/s before the first experiment"
        );
    }

    #[test]
    fn what_is_right() {
        let of = |text: &str| {
            let Guard { quantity, limit, over, .. } = guard(text);
            (quantity, limit, over.get() / 1_000_000)
        };
        let throughput = |name: Option<&str>| Quantity::Throughput(name.map(str::to_owned));
        let latency = |name: Option<&str>| Quantity::Latency(name.map(str::to_owned));
        for (text, quantity, limit, over) in [
            ("throughput < 80%", throughput(None), Limit::OfBefore(0.8), 1000),
            (
                "throughput(fn:a<b>(int)) <= 500/s over 5s",
                throughput(Some("fn:a<b>(int)")),
                Limit::Absolute(500.0),
                5000,
            ),
            ("throughput<12.5", throughput(None), Limit::Absolute(12.5), 1000),
            ("latency > 20ms over 100ms", latency(None), Limit::Absolute(2e7), 100),
            ("latency(request) > 150 %", latency(Some("request")), Limit::OfBefore(1.5), 1000),
            ("cpu > 90%", Quantity::Cpu, Limit::Absolute(0.9), 1000),
        ] {
            assert_eq!(of(text), (quantity, limit, over), "{text}");
        }
        for (text, what) in [
            ("", "nothing to compare"),
            ("throughput > 80%", "has to be below"),
            ("latency < 20ms", "above"),
            ("errors > 5", "neither"),
            ("throughput() < 5", "empty"),
            ("throughput(x < 5", "')'"),
            ("latency > 20", "no time"),
            ("cpu > 0.9", "per cent"),
            ("throughput < x", "not a number"),
            ("throughput < 5 over 1ms", "from 50ms"),
            ("throughput < 5 over soon", "no time"),
        ] {
            let error = text.parse::<Guard>().unwrap_err();
            assert!(error.contains(what) && error.contains("write 'throughput < 80%'"), "{text}: {error}");
        }
    }

    fn spots() -> Vec<Spot> {
        [("done", PointKind::Throughput), ("request", PointKind::Begin), ("request", PointKind::End)]
            .map(|(name, kind)| Spot { name: name.into(), kind })
            .into()
    }

    /// Looks every 20 ms at a program that does what `at` says at a time in milliseconds; when the guard holds, and what it says.
    fn judged(text: &str, until: u64, at: impl Fn(u64) -> Reading) -> Option<(u64, String)> {
        let guard = guard(text);
        let (mut past, longest) = (Past::default(), guard.longest());
        let mut judge = Judge::new(guard);
        (0..until).step_by(20).find_map(|ms| {
            let time = Nanos::from_millis(7_000 + ms);
            past.add(Reading { time, ..at(ms) }, longest);
            assert!(past.0.len() as u64 <= 2 + longest.get() / 20_000_000);
            judge.look(&past, &spots()).map(|seen| (ms, seen))
        })
    }

    #[test]
    fn throughput_is_compared_with_what_it_was() {
        // 1000/s, and from two seconds on a tenth of it.
        let at = |ms: u64| Reading {
            visits: vec![ms.min(2000) + ms.saturating_sub(2000) / 10, 0, 0],
            ..Reading::default()
        };
        let (when, seen) = judged("throughput < 80%", 10_000, at).unwrap();
        // 77.5 % of a second at the old rate, and some for chance.
        assert!((2200..2400).contains(&when), "{when} {seen}");
        assert!(seen.contains("and 1000.0/s before"), "{seen}");
        // A shorter time is noticed sooner.
        let (soon, _) = judged("throughput < 80% over 100ms", 10_000, at).unwrap();
        assert!((2040..2120).contains(&soon), "{soon}");
        assert_eq!(judged("throughput < 5%", 10_000, at), None);
        assert_eq!(
            judged("throughput(nothing) < 80%", 10_000, at),
            None,
            "a point that is not there says nothing"
        );
    }

    #[test]
    fn few_visits_are_no_breach_by_chance() {
        // Five a second, and in one second two.
        let count = |ms: u64| ms / 200 - if ms >= 3000 { 3 } else { 0 };
        let at = |ms: u64| Reading { visits: vec![count(ms.max(600)), 0, 0], ..Reading::default() };
        assert_eq!(judged("throughput < 80%", 20_000, at), None);
        assert!(judged("throughput < 4/s", 20_000, at).is_some(), "what is absolute is taken as it is");
        // A hundred a second, and then none: a fifth of a second is too short to be sure of that.
        let at = |ms: u64| Reading { visits: vec![ms.min(3000) / 10, 0, 0], ..Reading::default() };
        let (when, seen) = judged("throughput < 20% over 200ms", 20_000, at).unwrap();
        assert!((3400..4700).contains(&when) && !seen.contains("over 0.2 s"), "{when} {seen}");
    }

    #[test]
    fn latency_is_known_by_itself_or_by_what_is_in_flight() {
        // 100 requests a second of 10 ms, and from the third second on of 50 ms.
        let takes = |ms: u64| if ms < 3000 { 10 } else { 50 };
        let by_flight = |ms: u64| Reading {
            visits: vec![0, 100 + (ms + takes(ms)) / 10, 100 + ms / 10],
            ..Reading::default()
        };
        let (when, seen) = judged("latency > 300%", 10_000, by_flight).unwrap();
        // 40 ms, and some for chance.
        assert!((3700..3900).contains(&when) && seen.contains("10.00 ms before"), "{when} {seen}");
        let by_itself = |ms: u64| {
            let count = ms / 10;
            let time = 1_000_000 * (count.min(300) * 10 + count.saturating_sub(300) * 50);
            Reading { paired: vec![(0, 0), (0, 0), (count, time)], ..by_flight(ms) }
        };
        let (when, _) = judged("latency(request) > 20ms", 10_000, by_itself).unwrap();
        assert!((3200..3400).contains(&when), "{when}");
        // Half of the time all threads are delayed, and their clocks stand still.
        let delayed = |ms: u64| Reading {
            required: Nanos::from_millis(ms / 2),
            paired: vec![(0, 0), (0, 0), (ms / 10, 1_000_000 * ms)],
            ..by_flight(ms)
        };
        let (_, seen) = judged("latency > 15ms", 3_000, delayed).unwrap();
        assert!(seen.contains("was 20.00 ms"), "{seen}");
    }

    #[test]
    fn the_machine_is_busy() {
        let at =
            |ms: u64| Reading { cpu: Some((ms / 2 + ms.saturating_sub(3000) / 2, ms)), ..Reading::default() };
        let (when, seen) = judged("cpu > 90%", 10_000, at).unwrap();
        assert!((3800..3900).contains(&when) && seen.contains("above 90 %"), "{when} {seen}");
        assert_eq!(judged("cpu > 90%", 3000, at), None);
    }
}
