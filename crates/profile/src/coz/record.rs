//! Records: what one line of a profile says, in either format.

use serde_json::{Map, Value};

/// One line that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// A run begins, at this time in nanoseconds since 1970 (on Linux). `complete`: its last experiment is, too, because `whatif`
    /// wrote it, not Coz.
    Startup { time: u64, complete: bool },
    /// It ended, at this time, with this many samples in all.
    Shutdown { time: u64, samples: Option<u64> },
    /// How long the run took until now, or one experiment.
    Runtime(u64),
    /// Samples in a line until now.
    Samples { location: String, count: u64 },
    /// An experiment ended. The points that follow are its.
    Experiment { selected: String, per_mille: u16, effective_ns: i64, samples: u64 },
    /// Visits during the experiment.
    Throughput { name: String, delta: u64 },
    /// Begins and ends during the experiment, and what was in flight at its end.
    Latency { name: String, arrivals: u64, departures: u64, in_flight: f64 },
}

impl Record {
    /// Whether a file with such a line is a profile of Coz.
    pub(super) fn begins_something(&self) -> bool {
        matches!(self, Record::Startup { .. } | Record::Experiment { .. })
    }
}

/// The `recorder` of a run that `whatif` exported.
pub(super) const OURS: &str = "whatif";

/// A line that was not understood, by what may be lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damaged {
    /// When a run began.
    Startup,
    /// Samples or times, which are written again.
    Tally,
    /// Visits of a point.
    Point,
    /// Anything; the points that follow may belong to an experiment that is not there.
    Unknown,
}

/// The lines of a profile, without empty ones.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<Record, Damaged>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| (line.ends_with(b"\n"), line.trim_ascii())).filter(|(_, line)| !line.is_empty()).map(
        |(ended, line)| {
            let text = String::from_utf8_lossy(line);
            // The beginning of a number is a number too; an object has an end of its own.
            let whole = ended || text.starts_with('{');
            let fields = Fields::of(&text).ok_or(Damaged::Unknown)?;
            let kind = fields.kind();
            let record = if whole { fields.record(&kind) } else { None };
            record.ok_or(match &*kind {
                "startup" => Damaged::Startup,
                "shutdown" | "runtime" | "samples" => Damaged::Tally,
                "throughput-point" | "progress-point" | "latency-point" => Damaged::Point,
                _ => Damaged::Unknown,
            })
        },
    )
}

/// The fields of a line. Coz writes the same names with hyphens and with underscores.
enum Fields<'a> {
    /// Those that are none have no name.
    Tabs(&'a str, Vec<(&'a str, &'a str)>),
    Json(Map<String, Value>),
}

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Option<Fields<'a>> {
        if line.starts_with('{') {
            return serde_json::from_str(line).ok().map(Fields::Json);
        }
        let mut fields = line.split('\t');
        let kind = fields.next()?;
        Some(Fields::Tabs(kind, fields.map(|field| field.split_once('=').unwrap_or_default()).collect()))
    }

    fn kind(&self) -> String {
        let kind = match self {
            Fields::Tabs(kind, _) => Some(*kind),
            Fields::Json(fields) => fields.get("type").and_then(Value::as_str),
        };
        kind.unwrap_or_default().replace('_', "-")
    }

    /// Whether this may be two lines of which the end of the first and the beginning of the second are missing.
    fn are_torn(&self) -> bool {
        let Fields::Tabs(_, fields) = self else { return false };
        let again = |nth: usize, key: &str| fields[..nth].iter().any(|(before, _)| *before == key);
        fields.iter().enumerate().any(|(nth, (key, _))| key.is_empty() || again(nth, key))
    }

    fn record(&self, kind: &str) -> Option<Record> {
        if self.are_torn() {
            return None;
        }
        Some(match kind {
            "startup" => Record::Startup {
                time: self.count("time")?,
                complete: self.text("recorder").as_deref() == Some(OURS),
            },
            "shutdown" => Record::Shutdown { time: self.count("time")?, samples: self.count("samples") },
            "runtime" => Record::Runtime(self.count("time")?),
            "samples" => Record::Samples { location: self.text("location")?, count: self.count("count")? },
            "experiment" => Record::Experiment {
                selected: self.text("selected")?,
                per_mille: self.per_mille("speedup")?,
                effective_ns: self.whole("duration")?,
                samples: self.count("selected-samples")?,
            },
            "throughput-point" | "progress-point" => {
                Record::Throughput { name: self.text("name")?, delta: self.count("delta")? }
            }
            "latency-point" => Record::Latency {
                name: self.text("name")?,
                arrivals: self.count("arrivals")?,
                departures: self.count("departures")?,
                in_flight: self.in_flight("difference")?,
            },
            _ => return None,
        })
    }

    fn text(&self, key: &str) -> Option<String> {
        let text = match self {
            Fields::Tabs(..) => self.raw(key)?,
            Fields::Json(fields) => fields.get(key)?.as_str()?.to_owned(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// A field as it is written.
    fn raw(&self, key: &str) -> Option<String> {
        let same = |other: &str| other.replace('_', "-") == key;
        match self {
            Fields::Tabs(_, fields) => {
                fields.iter().find(|(other, _)| same(other)).map(|(_, value)| (*value).to_owned())
            }
            Fields::Json(fields) => {
                let (_, value) = fields.iter().find(|(other, _)| same(other))?;
                value.is_number().then(|| value.to_string())
            }
        }
    }

    /// A whole number, below zero where it is written as one near 2⁶⁴.
    fn whole(&self, key: &str) -> Option<i64> {
        let text = self.raw(key)?;
        let integral = |text: &str| text.parse().ok().filter(|number: &f64| number.fract() == 0.0);
        let number = text.parse().ok().or_else(|| integral(&text).map(|number| number as i128))?;
        let wrapped = u64::try_from(number).map(|number| number as i64);
        wrapped.or_else(|_| i64::try_from(number)).ok()
    }

    /// A whole number that cannot be below zero.
    fn count(&self, key: &str) -> Option<u64> {
        u64::try_from(self.whole(key)?).ok()
    }

    fn per_mille(&self, key: &str) -> Option<u16> {
        let fraction: f64 = self.raw(key)?.parse().ok()?;
        (0.0..=1.0).contains(&fraction).then(|| (fraction * 1000.0).round() as u16)
    }

    /// What is in flight: a mean, or a whole number, which may have been written with 64 or 32 bits.
    fn in_flight(&self, key: &str) -> Option<f64> {
        const BITS_32: std::ops::Range<i64> = 1 << 31..1 << 32;
        match self.whole(key) {
            Some(number) if BITS_32.contains(&number) => Some((number - BITS_32.end) as f64),
            Some(number) => Some(number as f64),
            None => self.raw(key)?.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Record, Damaged> {
        let text = format!("{text}\n");
        let mut lines = lines(text.as_bytes());
        let first = lines.next().unwrap();
        assert!(lines.next().is_none());
        first
    }

    fn experiment(per_mille: u16, effective_ns: i64, samples: u64) -> Result<Record, Damaged> {
        Ok(Record::Experiment { selected: "a.c:3".into(), per_mille, effective_ns, samples })
    }

    #[test]
    fn both_formats_and_all_spellings() {
        let points = |delta| Ok(Record::Throughput { name: "a=b".into(), delta });
        let latency =
            |in_flight| Ok(Record::Latency { name: "q".into(), arrivals: 5, departures: 7, in_flight });
        for (line, record) in [
            ("startup\ttime=12", Ok(Record::Startup { time: 12, complete: false })),
            (r#"{"type":"startup","time":12}"#, Ok(Record::Startup { time: 12, complete: false })),
            ("startup\ttime=12\trecorder=whatif", Ok(Record::Startup { time: 12, complete: true })),
            (
                r#"{"type":"startup","time":12,"recorder":"whatif"}"#,
                Ok(Record::Startup { time: 12, complete: true }),
            ),
            (r#"{"type":"startup","time":1.2e1}"#, Ok(Record::Startup { time: 12, complete: false })),
            (
                "experiment\tselected=a.c:3\tspeedup=0.15\tduration=9\tselected-samples=4",
                experiment(150, 9, 4),
            ),
            (
                "experiment\tselected=a.c:3\tspeedup=1\tduration=9\tselected_samples=4\r",
                experiment(1000, 9, 4),
            ),
            (
                r#"{"type":"experiment","selected":"a.c:3","speedup":0.00,"duration":9,"selected_samples":4}"#,
                experiment(0, 9, 4),
            ),
            (
                r#"{"type":"experiment","selected":"a.c:3","speedup":0.5,"duration":9,"selected-samples":4}"#,
                experiment(500, 9, 4),
            ),
            ("throughput-point\tname=a=b\tdelta=3", points(3)),
            ("progress-point\tname=a=b\ttype=source\tdelta=3", points(3)),
            (r#"{"type":"throughput_point","name":"a=b","delta":3}"#, points(3)),
            (r#"{"type":"throughput-point","name":"a=b","delta":3}"#, points(3)),
            ("latency-point\tname=q\tarrivals=5\tdepartures=7\tdifference=2", latency(2.0)),
            (
                r#"{"type":"latency-point","name":"q","arrivals":5,"departures":7,"difference":2.125}"#,
                latency(2.125),
            ),
            ("runtime\ttime=77", Ok(Record::Runtime(77))),
            ("shutdown\ttime=77\tsamples=8", Ok(Record::Shutdown { time: 77, samples: Some(8) })),
            ("shutdown\ttime=77", Ok(Record::Shutdown { time: 77, samples: None })),
            ("samples\tlocation=a.c:3\tcount=7", Ok(Record::Samples { location: "a.c:3".into(), count: 7 })),
        ] {
            assert_eq!(read(line), record, "{line}");
        }
    }

    #[test]
    fn differences_below_zero_wrap_around() {
        for (written, in_flight) in [
            ("18446744073709551613", -3.0),
            ("4294967293", -3.0),
            ("-3", -3.0),
            ("2147483647", 2_147_483_647.0),
            ("4294967296", 4_294_967_296.0),
        ] {
            let line = format!("latency-point\tname=q\tarrivals=5\tdepartures=8\tdifference={written}");
            let json = format!(
                r#"{{"type":"latency-point","name":"q","arrivals":5,"departures":8,"difference":{written}}}"#
            );
            for line in [line, json] {
                let Ok(Record::Latency { in_flight: read, .. }) = read(&line) else { panic!("{line}") };
                assert_eq!(read, in_flight, "{line}");
            }
        }
        let line =
            "experiment\tselected=a.c:3\tspeedup=1.00\tduration=18446744073705875774\tselected-samples=9";
        assert_eq!(read(line), experiment(1000, -3_675_842, 9));
    }

    #[test]
    fn damage_is_told_by_what_it_costs() {
        for (line, damaged) in [
            ("startup\ttime=", Damaged::Startup),
            ("samples\tlocation=a.c:3\tcount=seven", Damaged::Tally),
            ("runtime", Damaged::Tally),
            ("throughput-point\tname=a", Damaged::Point),
            ("throughput-point\tname=a\tdelta=-1", Damaged::Point),
            ("throughput-point\tname=a\tdelta=18446744073709551615", Damaged::Point),
            ("throughput-point\tname=\tdelta=5", Damaged::Point),
            ("progress-point\tname=a\tdelta=5startup\ttime=12", Damaged::Point),
            (
                r#"{"type":"latency-point","name":"q","arrivals":5,"departures":8,"difference":"2"}"#,
                Damaged::Point,
            ),
            ("experiment\tselected=a.c:3\tspeedup=1.01\tduration=9\tselected-samples=4", Damaged::Unknown),
            ("experiment\tselected=a.c:3\tspeedup=NaN\tduration=9\tselected-samples=4", Damaged::Unknown),
            (
                "experiment\tselected=a.c:3\tspeedup=0.1\tduration=99999999999999999999\tselected-samples=4",
                Damaged::Unknown,
            ),
            (r#"{"type":"experiment","selected":"a.c:3","speedup":0.5,"dura"#, Damaged::Unknown),
            (
                "experiment\tselected=a.c:3\tspeedup=0.1\tdurexperiment\tselected=a.c:4\tspeedup=0.00\tduration=9\tselected-samples=4",
                Damaged::Unknown,
            ),
            (
                "experiment\tselected=a.c:3\tspeedup=0.1\tdura\tspeedup=0.00\tduration=9\tselected-samples=4",
                Damaged::Unknown,
            ),
            ("throughput-point\tname=a\tdthroughput-point\tdelta=5", Damaged::Point),
            ("whatever", Damaged::Unknown),
            ("\u{fffd}\u{1}\t\t=", Damaged::Unknown),
        ] {
            assert_eq!(read(line), Err(damaged), "{line}");
        }
    }

    #[test]
    fn a_line_without_an_end_may_be_half_a_number() {
        let read = |text: &str| lines(text.as_bytes()).next().unwrap();
        assert_eq!(read("progress-point\tname=a\tdelta=5"), Err(Damaged::Point));
        assert_eq!(
            read("experiment\tselected=a.c:3\tspeedup=0.5\tduration=9\tselected-samples=4"),
            Err(Damaged::Unknown)
        );
        assert!(read(r#"{"type":"startup","time":12}"#).is_ok());
    }
}
