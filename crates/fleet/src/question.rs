//! Question: which samples, and what they are kept apart by; as statements for a server, and as conditions on a local database.

use crate::error::{Error, of_analysis};
use crate::ran::Ran;
use archive::UnixSeconds;
use cycles::CodeKey;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The service.
    Service,
    /// The version of the service.
    Version,
    /// The machine, by name.
    Host,
    /// The process, by name.
    Process,
    /// A label of users.
    Label(String),
}

/// The columns that say who ran.
const WHO: [&str; 5] = ["service", "version", "host", "process", "labels"];
const NAMED: [(&str, Who); 4] =
    [("service", Who::Service), ("version", Who::Version), ("host", Who::Host), ("process", Who::Process)];
const LABEL: &str = "label.";

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Label(name) => write!(f, "{LABEL}{name}"),
            who => f.write_str(NAMED.iter().find(|(_, known)| known == who).map_or("", |(name, _)| name)),
        }
    }
}

/// What samples are added up by, as it is typed: `service,function`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// Who ran.
    pub who: Vec<Who>,
    /// Which code, if that matters.
    pub code: Option<CodeKey>,
}

impl FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut by = GroupBy { who: Vec::new(), code: None };
        for name in text.split(',').map(str::trim) {
            let code = match name {
                "function" => Some(CodeKey::Function),
                "line" => Some(CodeKey::Line),
                "image" => Some(CodeKey::Image),
                _ => None,
            };
            let label = name.strip_prefix(LABEL).filter(|label| archive::is_label_name(label));
            let who = NAMED.iter().find(|(known, _)| *known == name).map(|(_, who)| who.clone());
            match (code, who.or(label.map(|label| Who::Label(label.to_owned())))) {
                (Some(_), _) if by.code.is_some() => {
                    return Err("give only one of function, line and image".to_owned());
                }
                (Some(code), _) => by.code = Some(code),
                (None, Some(who)) if by.who.contains(&who) => {
                    return Err(format!("{name} is given twice; leave one out"));
                }
                (None, Some(who)) => by.who.push(who),
                (None, None) => {
                    return Err(format!(
                        "'{}' is nothing to add up by; there are: function, line, image, service, version, host, process, label.NAME",
                        profile::printable(name)
                    ));
                }
            }
        }
        Ok(by)
    }
}

/// The outermost boxes of a flame graph, as they are typed: `service,process`, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots(pub Vec<Who>);

impl FromStr for Roots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Roots(Vec::new()));
        }
        match text.parse()? {
            GroupBy { who, code: None } => Ok(Roots(who)),
            GroupBy { .. } => {
                Err("functions are above the roots already; give service, process and such".to_owned())
            }
        }
    }
}

/// `*` stands for any text, `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub String);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(['{', '}', '\\', '[']) {
            return Err("a pattern has no brackets, braces or backslashes; * stands for any text, ? for one character".to_owned());
        }
        cycles::glob(text).map_err(|error| format!("{error:#}"))?;
        Ok(Pattern(text.to_owned()))
    }
}

impl Pattern {
    /// As a condition on a column.
    fn sql(&self, column: &str) -> String {
        let like: String = self
            .0
            .chars()
            .map(|of| match of {
                '*' => "%".to_owned(),
                '?' => "_".to_owned(),
                '%' | '_' => format!("\\{of}"),
                of => of.to_string(),
            })
            .collect();
        format!("{column} LIKE {}", quoted(&like))
    }

    /// As a function.
    pub fn matcher(&self) -> Result<impl Fn(&str) -> bool + use<>, Error> {
        let glob = cycles::glob(&self.0).map_err(of_analysis)?;
        Ok(move |text: &str| glob.is_match(text))
    }
}

/// A text in a statement.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Which samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// Of these services.
    pub service: Option<Pattern>,
    /// Of these versions.
    pub version: Option<Pattern>,
    /// Of these machines, by name.
    pub host: Option<Pattern>,
    /// Of processes with these names.
    pub process: Option<Pattern>,
}

/// Which texts are meant.
type Matcher = Box<dyn Fn(&str) -> bool>;
/// Who is meant, by who ran on which host.
type Meant = Box<dyn Fn(&Ran, &str) -> bool>;

impl Only {
    fn patterns(&self) -> [(&'static str, &Option<Pattern>); 4] {
        [
            ("service", &self.service),
            ("version", &self.version),
            ("host", &self.host),
            ("process", &self.process),
        ]
    }

    /// As a condition in a statement; what is no column of the table does not count.
    pub fn sql(&self, columns: &[&str]) -> String {
        let all = self.patterns().into_iter().filter(|(column, _)| columns.contains(column));
        all.filter_map(|(column, of)| Some(format!(" AND {}", of.as_ref()?.sql(column)))).collect()
    }

    /// As a condition on who ran on a host.
    pub fn meant(&self) -> Result<Meant, Error> {
        let mut all: Vec<(&'static str, Matcher)> = Vec::new();
        for (column, pattern) in self.patterns() {
            if let Some(pattern) = pattern {
                all.push((column, Box::new(pattern.matcher()?)));
            }
        }
        Ok(Box::new(move |ran, host| {
            all.iter().all(|(column, matches)| {
                matches(match *column {
                    "service" => &ran.service,
                    "version" => &ran.version,
                    "process" => &ran.process,
                    _ => host,
                })
            })
        }))
    }

    /// Whether a machine is meant.
    pub fn hosts(&self) -> Result<Matcher, Error> {
        Ok(match &self.host {
            None => Box::new(|_: &str| true),
            Some(pattern) => Box::new(pattern.matcher()?),
        })
    }

    /// What was typed, for the heading.
    pub fn said(&self) -> Vec<String> {
        let of = |(name, of): (&str, &Option<Pattern>)| Some(format!("{name} {}", of.as_ref()?.0));
        self.patterns().into_iter().filter_map(of).collect()
    }
}

/// Which samples, and what they are kept apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Time buckets that begin in this span.
    pub time: Range<UnixSeconds>,
    /// What was sampled.
    pub event: String,
    /// Who ran.
    pub only: Only,
    /// By whom they are kept apart.
    pub who: Vec<Who>,
    /// By spans of so many seconds; zero: not at all.
    pub width: i64,
    /// Idle CPUs, too.
    pub idle: bool,
}

/// `DateTime`: from 1970 to 2106; other times are the nearest of these.
pub fn moment(at: UnixSeconds) -> u32 {
    u32::try_from(at.0.max(0)).unwrap_or(u32::MAX)
}

impl Question {
    /// Whether a column is asked for.
    pub fn wants(&self, column: &str) -> bool {
        self.who.iter().any(|who| match who {
            Who::Label(_) => column == "labels",
            who => who.to_string() == column,
        })
    }

    /// The time, as a condition on a column.
    pub fn time_sql(&self, column: &str) -> String {
        format!(
            "{column} >= toDateTime({}) AND {column} < toDateTime({})",
            moment(self.time.start),
            moment(self.time.end)
        )
    }

    /// Those of the columns that say who ran that are asked for.
    fn who_columns(&self) -> Vec<&'static str> {
        WHO.into_iter().filter(|column| self.wants(column)).collect()
    }

    /// All columns that say who ran, under names of their own; empty if not asked for.
    fn who_shown(&self) -> String {
        let shown = WHO.map(|column| match self.wants(column) {
            true => format!("{column} AS g_{column}"),
            false => format!("'' AS g_{column}"),
        });
        shown.join(", ")
    }

    /// Which samples, as the end of a statement about a table; `when` is the condition on its time.
    fn selected(&self, table: &str, when: &str) -> String {
        let idle = match self.idle {
            true => String::new(),
            false => format!(" AND build != {}", quoted(crate::code::IDLE)),
        };
        let only = self.only.sql(&["service", "version", "host", "process"]);
        format!("FROM {table} WHERE event = {} AND {when}{idle}{only}", quoted(&self.event))
    }

    /// The statements about stacks, of which `samples` and `stacks` are the tables: how many samples there are; the stacks with most of them, up to `most`, as five
    /// texts (as in [`counts_sql`](Self::counts_sql)), the hash, and how many, in the order of [`first`](crate::stacks::first); and the frames of these stacks.
    pub fn stacks_sql(&self, samples: &str, stacks: &str, most: usize) -> [String; 3] {
        let from = self.selected(samples, &self.time_sql("minute"));
        let mut grouped = self.who_columns();
        grouped.push("stack");
        let grouped = grouped.join(", ");
        let first = |shown: &str| {
            format!(
                "SELECT {shown}stack AS g_stack, sum(count) AS g_count {from} GROUP BY {grouped} ORDER BY g_count DESC, {grouped} LIMIT {most}"
            )
        };
        [
            format!("SELECT sum(count) {from}"),
            first(&format!("{}, ", self.who_shown())),
            format!(
                "SELECT stack AS g_stack, any(builds) AS g_builds, any(offsets) AS g_offsets FROM {stacks} \
                 WHERE stack GLOBAL IN (SELECT g_stack FROM ({})) AND length(builds) <= {} GROUP BY stack",
                first(""),
                crate::stacks::DEEPEST
            ),
        ]
    }

    /// The statement that counts samples: five texts (service, version, host, process and labels; empty if not asked for), the build, the offset in it, the begin of
    /// the span, and how many. `samples` and `hours` are the tables; whole hours are taken from the second, which has fewer rows of the same sums.
    pub fn counts_sql(&self, samples: &str, hours: &str) -> String {
        let mut grouped = self.who_columns();
        grouped.extend(["build", "build_offset"]);
        let grouped = grouped.join(", ");
        let (of_span, by_span) = match self.width {
            0 => ("toUInt32(0) AS g_span", ""),
            _ => ("g_span", ", g_span"),
        };
        let span = |time: &str| match self.width {
            0 => String::new(),
            width => format!(", toUInt32(intDiv(toUInt32({time}), {width}) * {width}) AS g_span"),
        };
        let sums = |table: &str, time: &str, when: &str| {
            format!(
                "SELECT {grouped}{}, sum(count) AS part {} GROUP BY {grouped}{by_span}",
                span(time),
                self.selected(table, when),
            )
        };
        let parts = match self.whole_hours() {
            None => sums(samples, "minute", &self.time_sql("minute")),
            Some(whole) => {
                let within = Self { time: whole.clone(), ..self.clone() };
                let mut parts = sums(hours, "start", &within.time_sql("start"));
                if whole != self.time {
                    let edges =
                        format!("{} AND NOT ({})", self.time_sql("minute"), within.time_sql("minute"));
                    parts += " UNION ALL ";
                    parts += &sums(samples, "minute", &edges);
                }
                parts
            }
        };
        format!(
            "SELECT {}, build AS g_build, build_offset AS g_offset, {of_span}, sum(part) AS g_count FROM ({parts}) GROUP BY {grouped}{by_span}",
            self.who_shown()
        )
    }

    /// The whole hours in the time, if spans are none shorter.
    fn whole_hours(&self) -> Option<Range<UnixSeconds>> {
        const HOUR: i64 = 3600;
        let begin =
            self.time.start.0.checked_add(HOUR - 1).map_or(i64::MAX, |end| end.div_euclid(HOUR) * HOUR);
        let whole = UnixSeconds(begin)..UnixSeconds(self.time.end.0.div_euclid(HOUR).saturating_mul(HOUR));
        // All time has whole hours only.
        let nearest = |bound: UnixSeconds, whole: UnixSeconds| match moment(bound) {
            0 | u32::MAX => bound,
            _ => whole,
        };
        let whole = nearest(self.time.start, whole.start)..nearest(self.time.end, whole.end);
        (self.width % HOUR == 0 && whole.start < whole.end).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_a_list_of_keys() {
        for (text, expected) in [
            ("function", Ok((vec![], true))),
            ("service, host,line", Ok((vec!["service", "host"], true))),
            ("label.shard,version", Ok((vec!["label.shard", "version"], false))),
            ("function,image", Err("give only one")),
            ("host,host", Err("host is given twice")),
            ("unit", Err("'unit' is nothing to add up by")),
        ] {
            let found = text.parse::<GroupBy>();
            let found = found
                .as_ref()
                .map(|by| (by.who.iter().map(ToString::to_string).collect::<Vec<_>>(), by.code.is_some()));
            match (found, expected) {
                (Ok((who, code)), Ok((names, has_code))) => {
                    assert_eq!((who, code), (names.iter().map(|name| (*name).to_owned()).collect(), has_code))
                }
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn roots_are_who_ran() {
        assert_eq!("none".parse(), Ok(Roots(Vec::new())));
        let label = Who::Label("shard".to_owned());
        assert_eq!("host,label.shard".parse(), Ok(Roots(vec![Who::Host, label])));
        for (text, why) in [("service,function", "functions are above"), ("thread", "'thread' is nothing")] {
            let error = text.parse::<Roots>().unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn stacks_are_those_with_most_samples_in_one_order() {
        let question = Question {
            time: UnixSeconds(0)..UnixSeconds(60),
            event: "it's".to_owned(),
            only: Only { service: Some(Pattern("shop".to_owned())), ..Only::default() },
            who: vec![Who::Process, Who::Service],
            width: 0,
            idle: false,
        };
        let [all, first, frames] = question.stacks_sql("w.samples", "w.stacks", 7);
        let from = r"FROM w.samples WHERE event = 'it\'s' AND minute >= toDateTime(0) AND minute < toDateTime(60) AND build != '[idle]' AND service LIKE 'shop'";
        assert_eq!(all, format!("SELECT sum(count) {from}"));
        let order = "GROUP BY service, process, stack ORDER BY g_count DESC, service, process, stack LIMIT 7";
        let counted = format!("stack AS g_stack, sum(count) AS g_count {from} {order}");
        let who = "service AS g_service, '' AS g_version, '' AS g_host, process AS g_process, '' AS g_labels";
        assert_eq!(first, format!("SELECT {who}, {counted}"));
        assert!(
            frames.contains(&format!(
                "stack GLOBAL IN (SELECT g_stack FROM (SELECT {counted})) AND length(builds) <= 1100"
            )),
            "{frames}"
        );
    }

    #[test]
    fn patterns_mean_the_same_in_statements() {
        let pattern: Pattern = "a*_?'%".parse().unwrap();
        assert_eq!(pattern.sql("host"), r"host LIKE 'a%\\__\'\\%'");
        let matches = pattern.matcher().unwrap();
        assert!(matches("abc_x'%") && matches("a_x'%") && !matches("a_x'"));
        for wrong in ["[a]", "{a,b}", "a\\"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_statement_has_what_is_asked_for() {
        let question = Question {
            time: UnixSeconds(0)..UnixSeconds(i64::MAX),
            event: "cpu-clock".to_owned(),
            only: Only { host: Some(Pattern("web*".to_owned())), ..Only::default() },
            who: vec![Who::Label("shard".to_owned()), Who::Service],
            width: 300,
            idle: false,
        };
        let minutes = "SELECT service AS g_service, '' AS g_version, '' AS g_host, '' AS g_process, labels AS g_labels, build AS g_build, \
             build_offset AS g_offset, g_span, sum(part) AS g_count FROM (\
             SELECT service, labels, build, build_offset, toUInt32(intDiv(toUInt32(minute), 300) * 300) AS g_span, sum(count) AS part \
             FROM w.samples WHERE event = 'cpu-clock' AND minute >= toDateTime(0) AND minute < toDateTime(4294967295) \
             AND build != '[idle]' AND host LIKE 'web%' GROUP BY service, labels, build, build_offset, g_span) \
             GROUP BY service, labels, build, build_offset, g_span";
        assert_eq!(question.counts_sql("w.samples", "w.hours"), minutes);
    }

    #[test]
    fn whole_hours_are_taken_from_the_table_of_hours() {
        let of = |start: i64, end: i64, width: i64| {
            let time = UnixSeconds(start)..UnixSeconds(end);
            Question { time, event: "e".into(), only: Only::default(), who: Vec::new(), width, idle: true }
        };
        let whole = |question: Question| question.whole_hours().map(|hours| (hours.start.0, hours.end.0));
        assert_eq!(whole(of(i64::MIN, i64::MAX, 0)), Some((i64::MIN, i64::MAX)));
        assert_eq!(whole(of(7200, 14_400, 3600)), Some((7200, 14_400)));
        assert_eq!(whole(of(7201, 14_399, 0)), Some((10_800, 10_800)).filter(|(a, b)| a < b));
        assert_eq!(whole(of(7201, 14_400, 0)), Some((10_800, 14_400)));
        assert_eq!(whole(of(7200, 14_400, 300)), None);
        let asked = of(7201, i64::MAX, 7200).counts_sql("w.samples", "w.hours");
        assert!(asked.contains("FROM w.hours WHERE event = 'e' AND start >= toDateTime(10800)"), "{asked}");
        assert!(
            asked.contains("AND NOT (minute >= toDateTime(10800) AND minute < toDateTime(4294967295))"),
            "{asked}"
        );
        assert!(!of(7200, 14_400, 0).counts_sql("w.samples", "w.hours").contains("w.samples"));
    }
}
