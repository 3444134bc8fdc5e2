//! Asked: what the page asks for, from the address of a request. It may be anything: every number has bounds, every text a length.

use cycles::arguments::Which;
use cycles::{HeatRows, Where};
use jiff::Timestamp;

/// No pattern is longer.
const LONGEST: usize = 500;

/// A question of the page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A map over time.
    Heat { filters: Filters, by: HeatRows, columns: usize, rows: usize },
    /// What one span is made of.
    Span { filters: Filters },
    /// What is different between two.
    Difference { filters: Filters, from: Times, to: Times },
}

/// From a time to another, in seconds since 1970; `None`: as far as there is something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    pub since: Option<i64>,
    pub until: Option<i64>,
}

/// Which samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filters {
    pub times: Times,
    pub machine: Option<String>,
    pub cgroup: Option<String>,
    pub process: Option<String>,
    pub image: Option<String>,
    /// As it is typed behind `--where`.
    pub only: Option<String>,
    pub event: Option<String>,
    pub epoch: Option<String>,
    pub idle: bool,
}

impl Asked {
    /// What a request wants; `None` if its path is none of the page's, or else what is wrong with it.
    pub fn understand(
        path: &str,
        parameter: impl Fn(&str) -> Option<String>,
    ) -> Option<Result<Asked, String>> {
        match path {
            "/api/heat" => Some(heat(&parameter)),
            "/api/span" => Some(span(&parameter)),
            "/api/diff" => Some(difference(&parameter)),
            _ => None,
        }
    }
}

type Parameters<'p> = &'p dyn Fn(&str) -> Option<String>;

fn heat(of: Parameters<'_>) -> Result<Asked, String> {
    let name = of("by").unwrap_or_else(|| HeatRows::Process.name().to_owned());
    let by = HeatRows::ALL.into_iter().find(|by| by.name() == name).ok_or_else(|| {
        let known = HeatRows::ALL.map(HeatRows::name).join(", ");
        format!("by: '{}' is none of {known}", profile::printable(&name))
    })?;
    Ok(Asked::Heat {
        filters: filters(of, times(of, "since", "until")?)?,
        by,
        columns: number(of, "columns", 300, 1000)?,
        rows: number(of, "rows", 25, 200)?,
    })
}

fn span(of: Parameters<'_>) -> Result<Asked, String> {
    Ok(Asked::Span { filters: filters(of, times(of, "since", "until")?)? })
}

fn difference(of: Parameters<'_>) -> Result<Asked, String> {
    let (from, to) = (times(of, "since1", "until1")?, times(of, "since2", "until2")?);
    for (times, which) in [(from, "1"), (to, "2")] {
        if times.since.is_none() || times.until.is_none() {
            return Err(format!("since{which} and until{which} say which span is compared: give both"));
        }
    }
    Ok(Asked::Difference { filters: filters(of, Times::default())?, from, to })
}

fn times(of: Parameters<'_>, since: &str, until: &str) -> Result<Times, String> {
    let at = |name: &str| {
        let text = of(name).filter(|text| !text.is_empty());
        let time = text.map(|text| match text.parse::<i64>() {
            Ok(seconds) if Timestamp::from_second(seconds).is_ok() => Ok(seconds),
            _ => Err(format!("{name}: '{}' is no number of seconds since 1970", short(&text))),
        });
        time.transpose()
    };
    let times = Times { since: at(since)?, until: at(until)? };
    match (times.since, times.until) {
        (Some(from), Some(to)) if from >= to => Err(format!("{since} {from} is not before {until} {to}")),
        _ => Ok(times),
    }
}

fn number(of: Parameters<'_>, name: &str, usual: usize, most: usize) -> Result<usize, String> {
    match of(name).as_deref() {
        None | Some("") => Ok(usual),
        Some(text) => match text.parse::<usize>() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("{name}: '{}' is no number from 1 to {most}", short(text))),
        },
    }
}

fn filters(of: Parameters<'_>, times: Times) -> Result<Filters, String> {
    let text = |name: &str| match of(name).filter(|text| !text.is_empty()) {
        Some(text) if text.len() > LONGEST => {
            Err(format!("{name}: a pattern has no more than {LONGEST} characters"))
        }
        text => Ok(text),
    };
    Ok(Filters {
        times,
        machine: text("machine")?,
        cgroup: text("cgroup")?,
        process: text("process")?,
        image: text("image")?,
        // Conditions have a limit of their own.
        only: condition(of("where").filter(|text| !text.is_empty()))?,
        event: text("event")?,
        epoch: text("epoch")?,
        idle: of("idle").as_deref() == Some("1"),
    })
}

/// A condition, if it is one.
fn condition(text: Option<String>) -> Result<Option<String>, String> {
    match text.as_deref().map(str::parse::<Where>) {
        Some(Err(wrong)) => Err(format!("where: {wrong}")),
        _ => Ok(text),
    }
}

/// As much of a text as an error repeats.
fn short(text: &str) -> String {
    profile::printable(&text.chars().take(40).collect::<String>()).into_owned()
}

impl Times {
    /// As it is typed: RFC 3339, which is the same in every time zone.
    fn typed(seconds: i64) -> String {
        Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
    }

    /// As `whatif diff` takes it.
    pub fn typed_as_span(&self) -> String {
        let end = |time: Option<i64>| time.map(Times::typed).unwrap_or_default();
        format!("{}..{}", end(self.since), end(self.until))
    }
}

impl Filters {
    /// The same as arguments of the commands, in the database in `folder`.
    pub fn which(&self, folder: &std::path::Path) -> Which {
        Which {
            folder: cycles::arguments::Folder { db: Some(folder.to_owned()) },
            since: self.times.since.map(Times::typed),
            until: self.times.until.map(Times::typed),
            machine: self.machine.clone(),
            cgroup: self.cgroup.clone(),
            process: self.process.clone(),
            image: self.image.clone(),
            // It was one when it was asked for.
            only: self.only.as_ref().and_then(|text| text.parse().ok()),
            off_cpu: false,
            debuginfod: false,
            event: self.event.clone(),
            epoch: self.epoch.clone(),
            idle: self.idle,
            no_inlined: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(path: &str, query: &str) -> Option<Result<Asked, String>> {
        Asked::understand(path, |name| crate::head::parameter(query, name))
    }

    #[test]
    fn a_map_a_span_and_a_difference_are_understood() {
        let times = |since, until| Times { since: Some(since), until: Some(until) };
        let filters = |times| Filters { times, ..Filters::default() };
        let asked =
            understood("/api/heat", "by=function&since=60&until=120&columns=7&rows=3&process=a*%26b&idle=1");
        let expected = Asked::Heat {
            filters: Filters { process: Some("a*&b".to_owned()), idle: true, ..filters(times(60, 120)) },
            by: HeatRows::Function,
            columns: 7,
            rows: 3,
        };
        assert_eq!(asked, Some(Ok(expected)));
        assert_eq!(understood("/api/span", "token=x"), Some(Ok(Asked::Span { filters: Filters::default() })));
        let asked = understood("/api/diff", "since1=-5&until1=0&since2=7&until2=8");
        let (from, to) = (times(-5, 0), times(7, 8));
        assert_eq!(asked, Some(Ok(Asked::Difference { filters: Filters::default(), from, to })));
        assert_eq!(from.typed_as_span(), "1969-12-31T23:59:55Z..1970-01-01T00:00:00Z");
        assert_eq!(understood("/api", ""), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_in_words() {
        let long = format!("process={}", "a".repeat(501));
        for (path, query, why) in [
            ("/api/heat", "by=nonsense", "is none of process, unit"),
            ("/api/heat", "by=%1b%5b31m", r"'\u{1b}[31m' is none of"),
            ("/api/heat", "columns=0", "no number from 1 to 1000"),
            ("/api/heat", "columns=18446744073709551616", "no number from 1 to 1000"),
            ("/api/heat", "rows=-1", "no number from 1 to 200"),
            ("/api/span", "since=yesterday", "no number of seconds since 1970"),
            ("/api/span", "since=9223372036854775807", "no number of seconds since 1970"),
            ("/api/span", "until=-9223372036854775808", "no number of seconds since 1970"),
            ("/api/span", "since=5&until=5", "since 5 is not before until 5"),
            ("/api/span", &long, "no more than 500 characters"),
            ("/api/diff", "since1=1&until1=2", "since2 and until2"),
            ("/api/diff", "since1=2&until1=1&since2=1&until2=2", "not before"),
        ] {
            let error = understood(path, query).unwrap().unwrap_err();
            assert!(error.contains(why) && !error.contains('\u{1b}'), "{path}?{query}: {error}");
        }
    }

    #[test]
    fn what_is_typed_again_is_what_was_asked() {
        let filters = Filters {
            times: Times { since: Some(0), until: Some(3600) },
            process: Some("-x y".to_owned()),
            ..Filters::default()
        };
        let words = filters.which("/srv/db".as_ref()).words();
        assert_eq!(
            words,
            [
                "--db",
                "/srv/db",
                "--since",
                "1970-01-01T00:00:00Z",
                "--until",
                "1970-01-01T01:00:00Z",
                "--process=-x y"
            ]
        );
    }
}
